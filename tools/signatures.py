"""Writes what type checkers, editors and ``help`` show of arguments and methods, so that each thing is said once.

The names, defaults and texts of settings are the core's. This program writes them as the arguments of the classes that
take them, and as ``Args`` in the docstrings of those classes. The calls are the core's, too: ``declarations.py`` writes
their stubs and signatures. This program also copies the docstrings of methods that are written
in Rust into the stubs. ``make signatures`` runs it; a test fails when a file is out of date.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import declarations
from pinyon import _native

PACKAGE = Path(__file__).parents[1] / "python/pinyon"
WIDTH = 120
DEFAULTS: dict[str, dict[str, Any]] = json.loads(_native.DEFAULT_SETTINGS)
TEXTS: dict[str, dict[str, str]] = json.loads(_native.SETTING_TEXTS)

#: The settings that only Python has, by table: where they stand, their default and text.
OF_PYTHON = {
    "Client": {
        "serializer": (
            "connect_timeout",
            '"portable"',
            'How values become bytes. `"portable"`: plain data, readable in every language; `"pickle"`; `"json"`; '
            '`"raw"`: bytes only; or an object with `dump` and `load`.',
        ),
        "on_event": (
            "discovery_interval",
            "None",
            "A function that is called with an `Event` when a server is marked down or is up again, when a command is "
            "retried or slow, when servers were added or removed, and when a value that cannot be read counts as "
            "missing.",
        ),
    },
    "Locks": {
        "on_event": (
            "connect_timeout",
            "None",
            "A function that is called with an `Event` when the server or a Sentinel is down or up again, when another "
            "server takes over as the primary, and when renewals are refused.",
        ),
    },
}

#: The types of settings in Python.
TYPES = {
    "Client": {
        "servers": "str | Iterable[str] | None",
        "namespace": "str | bytes | None",
        "clearable": "bool",
        "generation_ttl": "float | timedelta",
        "ring": "Ring | str",
        "timeout": "float",
        "connect_timeout": "float",
        "keepalive": "float",
        "keepalive_interval": "float",
        "keepalive_probes": "int",
        "serializer": "SerializerName | Serializer",
        "default_ttl": "float | timedelta",
        "failover": "bool",
        "on_failure": 'Literal["raise", "miss"]',
        "on_unreadable": 'Literal["raise", "miss"]',
        "gutter": "str | Iterable[str] | None",
        "gutter_ttl": "float | timedelta",
        "discovery": 'Literal["config", "dns"] | None',
        "discovery_interval": "float",
        "on_event": "Callable[[Event], object] | None",
        "slow_after": "float | None",
        "max_connections": "int",
        "connections": "int",
        "encode_keys": "bool",
        "key_rule": "KeyRule | None",
        "max_value_size": "int",
        "max_decompressed_size": "int | None",
        "compression": "bool | Algorithm | Compression | None",
        "near": "bool | Near | None",
        "dialect": "Dialect",
        "protocol": "Protocol",
        "max_in_flight": "int",
        "max_unsent": "int",
        "tls": "bool | Tls | None",
        "username": "str | CredentialsFunction | None",
        "password": "str | bytes | CredentialsFunction | None",
    },
    "Locks": {
        "url": "str | Sequence[str]",
        "namespace": "str | bytes",
        "prefix": "str | bytes",
        "hash_tags": 'Literal["namespace", "names"]',
        "ttl": "float",
        "longest_ttl": "float | None",
        "timeout": "float",
        "reentrant": "bool",
        "handler": 'Literal["auto", "script", "pure"]',
        "label": "str | None",
        "fairness": 'Literal["fifo", "throughput"] | None',
        "replicas": "int",
        "username": "str | CredentialsFunction | None",
        "password": "str | bytes | CredentialsFunction | None",
        "protocol": "Literal[2, 3] | None",
        "heartbeat": "float",
        "command_timeout": "float",
        "connect_timeout": "float",
        "keepalive": "float",
        "keepalive_interval": "float",
        "keepalive_probes": "int",
        "on_event": "Callable[[Event], object] | None",
        "tls": "bool | Tls | None",
        "sentinel_username": "str | CredentialsFunction | None",
        "sentinel_password": "str | bytes | CredentialsFunction | None",
        "sentinel_tls": "bool | Tls | None",
    },
    "Terms": {
        "stale": "float | timedelta",
        "early": "float | timedelta",
        "lease": "float | timedelta",
        "wait": "float | timedelta | None",
        "jitter": "float",
        "on_error": 'Literal["raise", "stale"]',
        "retry_after": "float | timedelta",
        "tags": "str | bytes | Iterable[str | bytes]",
        "soft_timeout": "float | timedelta | None",
        "refresh": 'Literal["wait", "behind"]',
    },
}

#: Whose arguments are written: the file, the class, and the table of its settings.
ARGUMENTS = [
    ("client.py", "Client", "Client"),
    ("gevent.py", "Client", "Client"),
    ("aio.py", "Client", "Client"),
    ("aio.pyi", "Client", "Client"),
    ("_base_locks.py", "BaseLocks", "Locks"),
]

#: The file of the settings of ``get_or_set``, and the files of its methods, whose docstrings list them.
TERMS = "_terms.py"
TAKE_TERMS = ("client.py",)

#: Whose docstrings list the settings.
DOCUMENTED = [
    ("client.py", "Client", "Client"),
    ("gevent.py", "Client", "Client"),
    ("aio.py", "Client", "Client"),
    ("locks.py", "Locks", "Locks"),
    ("gevent.py", "Locks", "Locks"),
    ("_aio_locks.py", "Locks", "Locks"),
]

#: Stubs that get docstrings, the modules that have them, and the classes and functions whose they are.
STUBS = {
    "_native.pyi": ("pinyon._native", {"Batch", "Client", "Held", "Latencies", "Lock", "Locks"}),
    "aio.pyi": ("pinyon.aio", {"Batch", "Client", "Lease", "migrating"}),
}

#: Settings that event loops have, and threads do not.
OF_LOOPS = {"connections"}


def names_of(table: str, *, shared: bool) -> list[str]:
    """Return the settings of a table in the order in which they are shown."""
    names = [name for name in DEFAULTS[table] if shared or name not in OF_LOOPS]
    for name, (before, _, _) in OF_PYTHON.get(table, {}).items():
        names.insert(names.index(before) + 1, name)
    return names


def default_of(table: str, name: str) -> str:
    if name in OF_PYTHON.get(table, {}):
        return OF_PYTHON[table][name][1]
    default = DEFAULTS[table][name]
    return json.dumps(default) if isinstance(default, str) else repr(default)


def text_of(table: str, name: str) -> str:
    """Return a setting's text, with Python's words for values."""
    of_python = OF_PYTHON.get(table, {})
    text = of_python[name][2] if name in of_python else TEXTS[table][name]
    for word, in_python in {
        "`true`": "`True`",
        "`Compression`": "`pinyon.Compression`",
        "`Near`": "`pinyon.Near`",
        "`Tls`": "`pinyon.Tls`",
    }.items():
        text = text.replace(word, in_python)
    return text


def arguments(table: str, *, shared: bool) -> str:
    """Return the arguments of ``__new__``."""
    first, *others = (
        f"{name}: {TYPES[table][name]} = {default_of(table, name)}" for name in names_of(table, shared=shared)
    )
    lines = ["cls", first, "*", *others]
    return "".join(f"        {line},\n" for line in lines)


def documentation(table: str, *, shared: bool) -> str:
    """Return the section ``Args`` of a class."""
    entries = [filled(f"{name}: {text_of(table, name)}", 8) for name in names_of(table, shared=shared)]
    return "\n".join(["    Args:", *entries, "", ""])


def filled(entry: str, indent: int) -> str:
    return textwrap.fill(
        entry,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def entry_of_term(name: str) -> str:
    """Return what a setting of ``get_or_set`` is for, with its default."""
    default = DEFAULTS["Terms"][name]
    text = text_of("Terms", name)
    return f"{name}: {text}" + ("" if default is None else f" Default: {default_of('Terms', name).removesuffix('.0')}.")


def fields_of_terms() -> str:
    """Return the body of the class ``Terms``."""
    names = names_of("Terms", shared=True)
    documented = "\n".join(filled(entry_of_term(name), 8) for name in names)
    fields = "\n".join(f"    {name}: {TYPES['Terms'][name]}" for name in names)
    return f'    Attributes:\n{documented}\n    """\n\n{fields}\n'


def place_of(source: str, name: str) -> tuple[int, int]:
    """Return where a class begins and ends."""
    start = re.search(rf"^class {name}\b", source, re.MULTILINE)
    if start is None:
        raise ValueError(f"there is no class {name}")
    end = re.search(r"\n(?=\S)", source[start.end() :])
    return start.start(), start.end() + end.start() if end else len(source)


def replaced(source: str, name: str, pattern: str, text: str) -> str:
    """Return the source with what the pattern finds in a class replaced."""
    start, end = place_of(source, name)
    body, count = re.subn(pattern, lambda _: text, source[start:end], count=1, flags=re.DOTALL | re.MULTILINE)
    if count == 0:
        raise ValueError(f"the class {name} has no place for its arguments")
    return source[:start] + body + source[end:]


def with_docstrings(source: str, module: Any, names: set[str]) -> str:
    """Return a stub with the docstrings of some of its module's classes and functions."""
    lines = source.splitlines()
    nodes = [node for node in ast.parse(source).body if getattr(node, "name", None) in names]
    edits = [*_edits(nodes, module, "")]
    for first, last, new in sorted(edits, reverse=True):
        lines[first:last] = new
    return "\n".join(lines) + "\n"


def _edits(nodes: list[ast.stmt], owner: Any, indent: str) -> Iterator[tuple[int, int, list[str]]]:
    """Tell which lines are replaced by what."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            documented = getattr(owner, node.name, None)
            if documented is not None:
                yield from _class_edits(node, documented, indent)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            text = inspect.getdoc(getattr(owner, node.name, None))
            if text:
                yield from _function_edits(node, text, indent)


def _class_edits(node: ast.ClassDef, documented: Any, indent: str) -> Iterator[tuple[int, int, list[str]]]:
    text = inspect.getdoc(documented) if not node.name.startswith("_") else None
    body = node.body
    if text:
        first = body[0]
        old = _is_docstring(first)
        start = first.lineno - 1 if not getattr(first, "decorator_list", None) else first.decorator_list[0].lineno - 1
        yield start, first.end_lineno if old else start, [*_quoted(text, indent + "    "), *([] if old else [""])]
        body = body[1:] if old else body
    yield from _edits(body, documented, indent + "    ")


def _function_edits(node: Any, text: str, indent: str) -> Iterator[tuple[int, int, list[str]]]:
    body = node.body[0]
    start, quoted = body.lineno - 1, _quoted(text, indent + "    ")
    if _is_docstring(body):
        yield start, body.end_lineno, quoted
        return
    yield start, body.end_lineno, [_declaration(node, body), *quoted]


def _declaration(node: Any, body: ast.stmt) -> str:
    """Return the line that ends the declaration of a function, without its body."""
    line = SOURCE_LINES[body.lineno - 1]
    return line[: body.col_offset].rstrip()


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _quoted(text: str, indent: str) -> list[str]:
    if "\n" not in text:
        return [f'{indent}"""{text}"""']
    first, *others = text.split("\n")
    return [f'{indent}"""{first}', *(indent + line if line else "" for line in others), f'{indent}"""']


SOURCE_LINES: list[str] = []


def written(path: Path) -> str:
    """Return what a file should be."""
    source = declarations.written(path, path.read_text())
    for file, name, table in ARGUMENTS:
        if file == path.name:
            text = f"    def __new__(\n{arguments(table, shared=path.name != 'client.py')}    ) -> Self:"
            source = replaced(source, name, r"^    def __new__\(.*?\) -> Self:", text)
    for file, name, table in DOCUMENTED:
        if file == path.name:
            text = documentation(table, shared=path.name != "client.py")
            source = replaced(source, name, r"^    Args:\n.*?\n?(?=    Raises:)", text)
    if path.name == TERMS:
        source = replaced(source, "Terms", r"^    Attributes:\n.*", fields_of_terms())
    if path.name in TAKE_TERMS:
        listed = "\n".join(filled(entry_of_term(name), 16) for name in names_of("Terms", shared=True))
        text = f"            **terms: further settings, by name:\n\n{listed}\n"
        source = replaced(source, "Client", r"^            \*\*terms: .*?\n(?=\n        Returns:)", text)
    if path.name in STUBS:
        SOURCE_LINES[:] = source.splitlines()
        module, names = STUBS[path.name]
        source = with_docstrings(source, importlib.import_module(module), names)
    return source


def paths() -> list[Path]:
    """Return the files that this program writes to."""
    names = {file for file, _, _ in [*ARGUMENTS, *DOCUMENTED]} | STUBS.keys() | {TERMS, *TAKE_TERMS}
    return sorted({PACKAGE / name for name in names} | declarations.FILES.keys())


def main() -> int:
    """Write all files anew."""
    for path in paths():
        path.write_text(written(path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
