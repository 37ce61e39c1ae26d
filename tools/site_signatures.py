"""The reference: types from the stubs for what is made in Rust or awaited; code in docstrings as code."""

from __future__ import annotations

import ast
import functools
import pkgutil
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import pinyon

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: The pages that docstrings name.
_PAGES = {"Rings": "docs/rings"}

_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx what to call when."""
    app.connect("autodoc-process-signature", _signature)
    # Before napoleon, which takes the colon of `host:port` for the end of a type.
    app.connect("autodoc-process-docstring", _mark_code, priority=400)
    return {"parallel_read_safe": True}


def _mark_code(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    lines[:] = map(marked, lines)


def marked(line: str) -> str:
    """Docstrings put code between single backticks, where Sphinx wants two, and name pages by their titles."""
    line = re.sub(r"(?<![`:\w])`([^`]+)`(?![`_])", r"``\1``", line)
    for title, page in _PAGES.items():
        line = line.replace(f'The page "{title}"', f"The page :doc:`{title} </{page}>`")
    return line


def _signature(
    app: Sphinx, what: str, name: str, thing: object, options: object, arguments: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    if what == "exception":
        # Programs catch errors; they make none.
        return "", None
    if what != "method":
        return None
    owner_name, _, method = name.rpartition(".")
    owner = pkgutil.resolve_name(f"{owner_name.rpartition('.')[0]}:{owner_name.rpartition('.')[2]}")
    for base in owner.__mro__:
        found = _stubs(base.__module__).get(f"{base.__qualname__}.{method}")
        if found is not None:
            return _written(found)
        if method in vars(base) and base.__module__ != "pinyon._native":
            return None
    return None


def _written(function: _Function) -> tuple[str, str | None]:
    arguments = function.args
    for those in (arguments.posonlyargs, arguments.args):
        if those and those[0].arg in ("self", "cls"):
            del those[0]
            break
    returns = function.returns and ast.unparse(function.returns)
    if isinstance(function, ast.AsyncFunctionDef):
        returns = f"Awaitable[{returns}]"
    return f"({ast.unparse(arguments)})", returns


@functools.cache
def _stubs(module: str) -> dict[str, _Function]:
    """The functions of a module's stub by qualified name, with the names that only the stub has spelled out."""
    path = Path(pinyon.__path__[0], *module.split(".")[1:]).with_suffix(".pyi")
    if not path.exists():
        return {}
    tree = ast.parse(path.read_text())
    tree = _SpelledOut(dict(_aliases(tree))).visit(tree)
    classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
    found: dict[str, _Function] = {}
    for name, each in classes.items():
        above = [classes[base.id] for base in each.bases if isinstance(base, ast.Name) and base.id in classes]
        # Later ones win: what a class says itself, and of overloads the last, which takes most.
        for function in (function for base in (*above, each) for function in base.body):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                qualified = f"{name}.{function.name}"
                if function.decorator_list and qualified in found and not function.args.defaults:
                    function.args.defaults = found[qualified].args.defaults
                found[qualified] = function
    return found


def _aliases(tree: ast.Module) -> Any:
    for each in tree.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value is not None:
            yield each.target.id, each.value
        elif (
            isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) and isinstance(each.targets[0], ast.Name)
        ):
            bound = [keyword.value for keyword in each.value.keywords if keyword.arg == "bound"]
            yield each.targets[0].id, bound[0] if bound else ast.Name("Any")


class _SpelledOut(ast.NodeTransformer):
    def __init__(self, aliases: dict[str, ast.expr]) -> None:
        self._aliases = aliases

    def visit_Name(self, name: ast.Name) -> ast.expr:
        return self._aliases.get(name.id, name) if name.id.startswith("_") else name
