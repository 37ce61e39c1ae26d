"""The list of versions for the sidebar, and the pages that lead to the newest version and to its first page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Pinyon</title>
<meta http-equiv="refresh" content="0; url={target}">
<p><a href="{target}">Pinyon's documentation</a></p>
{versions}</html>
"""


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx what to call when."""
    app.connect("build-finished", _list_versions)
    return {"parallel_read_safe": True}


def _list_versions(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.name != "html":
        return
    here = Path(app.outdir)
    (here / "index.html").write_text(_REDIRECT.format(target=f"{app.config.root_doc}.html", versions=""))
    built = [page.parents[1].name for page in here.parent.glob("*/docs/index.html")]
    versions = sorted(built, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)
    items = "".join(f'<li><a href="{name}/index.html">{name}</a></li>\n' for name in versions)
    target = f"{versions[0]}/index.html"
    (here.parent / "versions.js").write_text(f"window.PINYON_VERSIONS = {json.dumps(versions)};\n")
    (here.parent / "index.html").write_text(_REDIRECT.format(target=target, versions=f"<ul>\n{items}</ul>\n"))
