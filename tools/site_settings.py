"""The directive ``pinyon-settings``: a table of settings, with the core's defaults and the docstrings' meanings."""

from __future__ import annotations

import inspect
import json
import pkgutil
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.statemachine import StringList
from pinyon._native import DEFAULT_SETTINGS
from site_signatures import marked
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx the directive's name."""
    app.add_directive("pinyon-settings", Settings)
    return {"parallel_read_safe": True}


class Settings(SphinxDirective):
    """The settings of one of the core's tables, by its name; then the classes whose docstrings say what they mean."""

    required_arguments = 2
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        name, classes = self.arguments
        meanings: dict[str, str] = {}
        for each in classes.split():
            meanings = {**_meanings(pkgutil.resolve_name(each).__doc__), **meanings}
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 22 14 64", "   :class: settings", ""]
        lines += _row("setting", "default", "meaning")
        for setting, default in json.loads(DEFAULT_SETTINGS)[name].items():
            if setting not in meanings:
                raise self.error(f"no docstring of {classes} says what the setting {setting} means")
            lines += _row(f"``{setting}``", f"``{default!r}``", marked(meanings[setting]))
        container = nodes.container()
        self.state.nested_parse(StringList(lines, source="settings"), self.content_offset, container)
        return container.children


def _row(*cells: str) -> list[str]:
    first, *rest = cells
    return [f"   * - {first}", *(f"     - {cell}" for cell in rest)]


def _meanings(docstring: str) -> dict[str, str]:
    """What the docstring says of each argument."""
    document = GoogleDocstring(inspect.cleandoc(docstring), Config(napoleon_use_param=True, napoleon_use_rtype=False))
    found: dict[str, str] = {}
    current = ""
    for line in document.lines():
        if line.startswith(":param "):
            current, _, text = line.removeprefix(":param ").partition(": ")
            found[current.replace("\\", "")] = text
        elif current and line.startswith(" "):
            found[current.replace("\\", "")] += f" {line.strip()}"
        else:
            current = ""
    return found
