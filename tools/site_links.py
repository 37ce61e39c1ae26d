"""Links of the pages on the site: those to files that are not pages lead to the repository.

The pages keep the links that a repository browser follows. Pictures that raw HTML names are copied to their places.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_LINK = re.compile(r"(?<!!)(\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s#]+)(#[^)\s]*)?\)")
_BLOCK = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx what to call when."""
    app.connect("source-read", _lead_to_the_repository)
    app.connect("build-finished", _copy_pictures)
    return {"parallel_read_safe": True}


def _lead_to_the_repository(app: Sphinx, page: str, source: list[str]) -> None:
    if Path(app.env.doc2path(page)).suffix != ".md":
        return
    browser = f"{app.config.html_theme_options['source_repository']}blob/main/"
    pages = {app.env.doc2path(name, base=False).as_posix() for name in app.env.found_docs}

    def replaced(link: re.Match[str]) -> str:
        before, target, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if ":" in target or path in pages or not (Path(app.srcdir) / path).exists():
            return link[0]
        return f"{before}{browser}{path}{anchor})"

    parts = _BLOCK.split(source[0])
    source[0] = "".join(part if part.lstrip().startswith("```") else _LINK.sub(replaced, part) for part in parts)


def _copy_pictures(app: Sphinx, exception: Exception | None) -> None:
    plots = Path(app.srcdir) / "docs" / "plots"
    if exception is None and app.builder.name == "html":
        shutil.copytree(plots, Path(app.outdir) / "docs" / "plots", dirs_exist_ok=True)
