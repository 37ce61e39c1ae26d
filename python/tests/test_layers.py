"""The drawing in ``pinyon/__init__.py`` and the imports agree. The native half imports nothing of the Python half."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from processes import what_it_prints

PACKAGE = Path(__file__).parents[1] / "pinyon"
NATIVE = Path(__file__).parents[1] / "native/src"
#: Below all floors.
GROUND = "pinyon._native"


def modules() -> dict[str, Path]:
    """Return the files of the package, by the names of their modules."""
    named = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{path}: relative imports are not understood here"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known or name == GROUND else node.module for name in inside]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name for name in names if name.split(".")[0] == "pinyon" and name != GROUND)


def imports() -> dict[str, set[str]]:
    known = modules()
    return {name: set(imported(path, known)) - {name} for name, path in known.items()}


def room(module: str) -> str:
    """Return what the drawing calls a module, or the package that it belongs to."""
    return [*module.split("."), "__init__"][1]


def floors() -> dict[str, int]:
    """Return the number of its floor, from the top, for each room in the drawing."""
    page = (PACKAGE / "__init__.py").read_text().replace("\n# ", "\n")
    drawn = page.partition("<!-- floors of python/pinyon -->\n```text\n")[2].partition("```")[0]
    lines = [line.partition("  ")[0].split() for line in drawn.splitlines()]
    return {name: floor for floor, line in enumerate(lines) for name in line}


def test_every_import_points_to_a_floor_below() -> None:
    floor = floors()
    rooms = {room(module) for module in modules()}
    assert floor.keys() == rooms, "the rooms of the drawing, and those that exist"
    upward = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if room(other) != room(module) and floor[room(other)] <= floor[room(module)]
    ]
    assert upward == []


def test_no_modules_import_each_other() -> None:
    """Take away what imports none of the others, until nothing or a circle is left."""
    left = imports()
    assert len(left) > 100
    while ground := [module for module, others in left.items() if not others & left.keys()]:
        for module in ground:
            del left[module]
    assert left == {}


def test_the_native_half_imports_nothing_of_the_python_half() -> None:
    sources = list(NATIVE.rglob("*.rs"))
    assert len(sources) > 30
    of_package = re.compile(r'import\((?:[^()"]|\([^()"]*)*"pinyon')
    assert of_package.search('py.import(intern!(py, "pinyon._telling"))')
    assert [path.name for path in sources if of_package.search(path.read_text())] == []


def test_programs_without_coroutines_do_not_import_what_coroutines_need() -> None:
    assert what_it_prints("import sys, pinyon; print(sorted({'asyncio', 'gevent'} & sys.modules.keys()))") == "[]"
