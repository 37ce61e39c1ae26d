"""Writes how type checkers and readers see the calls of a client, from the table that all languages share.

A call is a line in ``cache/src/calls/table.rs``. This module makes the declarations in Python's stubs and in Ruby's
signatures of it, and its line in ``docs/calls.md``. ``signatures.py`` runs it, as ``make signatures`` does.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pinyon import _native

REPOSITORY = Path(__file__).parents[1]
CALLS: list[dict[str, Any]] = json.loads(_native.CALLS)

#: An argument in Python's stubs; those after "*" need their names.
PYTHON_TAKES = {
    "key": "key: _Key",
    "keys": "keys: Iterable[_KeyT]",
    "pairs": "mapping: Mapping[_KeyT, object]",
    "value": "value: object",
    "bytes": "value: object",
    "ttl": "ttl: _Ttl",
    "stored_ttl": "ttl: _Ttl = ...",
    "cas": "cas: int",
    "stale": "*, stale: _Ttl | None = None",
    "delta": "delta: int = 1",
    "initial": "*, initial: int | None = None",
    "default": "default: object = None",
    "failed": "*, failed: dict[str, Error] | None = None",
    "kind": "kind: str | None = None",
    "delay": "delay: int = 0",
    "tags": "*tags: _Key",
}
#: What a call of Python takes beside that if it stores values.
TAGS = "*, tags: _Key | Iterable[_Key] | None = None"
PYTHON_GIVES = {
    "value": "Any",
    "value_and_cas": "tuple[Any, int] | None",
    "value_and_ttl": "tuple[Any, int | None] | None",
    "values": "dict[_KeyT, Any]",
    "values_and_cas": "dict[_KeyT, tuple[Any, int]]",
    "done": "bool",
    "compared": "bool | None",
    "not_stored": "list[_KeyT]",
    "found": "list[_KeyT]",
    "count": "int",
    "number": "int | None",
    "metadata": "ItemMetadata | None",
    "texts": "dict[str, str]",
    "statistics": "dict[str, dict[str, str]]",
    "nothing": "None",
}
#: An argument of a public method in Ruby's signatures.
RUBY_TAKES = {
    "key": "key key",
    "keys": "Array[key] | _Each keys",
    "pairs": "_Hash pairs",
    "value": "untyped value",
    "bytes": "untyped value",
    "ttl": "seconds? ttl",
    "stored_ttl": "?ttl: seconds?",
    "cas": "Integer cas",
    "stale": "?stale: seconds?",
    "delta": "?Integer delta",
    "initial": "?initial: Integer?",
    "default": "?untyped default",
    "failed": "?failed: Hash[String, Error]?",
    "kind": "?String? kind",
    "delay": "?seconds delay",
    "keep": "bool keep",
    "tags": "*key tags",
}
#: An argument of a method of the native half, which takes all by position.
NATIVE_TAKES = {
    **RUBY_TAKES,
    "stored_ttl": "seconds? ttl",
    "delta": "Integer delta",
    "initial": "Integer? initial",
    "keys": "Array[key] keys",
    "pairs": "Hash[key, untyped] pairs",
    "failed": "Hash[String, Error]? failed",
    "tags": "Array[key] tags",
}
RUBY_GIVES = {
    "value": "untyped",
    "value_and_cas": "[untyped, Integer]?",
    "value_and_ttl": "[untyped, Integer?]?",
    "values": "Hash[key, untyped]",
    "values_and_cas": "Hash[key, [untyped, Integer]]",
    "done": "bool",
    "compared": "bool?",
    "not_stored": "Array[key]",
    "found": "Array[key]",
    "count": "Integer",
    "number": "Integer?",
    "metadata": "Metadata?",
    "texts": "Hash[String, String]",
    "statistics": "Hash[String, Hash[String, String]]",
    "nothing": "nil",
}
#: The calls of the native half that take and return what the public ones do.
NATIVE_TAKES_OF = {*NATIVE_TAKES} - {"stale", "default", "kind", "delay", "lease", "recache"}

TABLE = re.compile(r"(?<=<!-- calls -->\n).*?(?=<!-- end of calls -->)", re.DOTALL)


def is_internal(call: dict[str, Any]) -> bool:
    """Whether other calls make this one, rather than users."""
    return bool(call["names"]["python"]) and call["names"]["python"].startswith("_")


def stores_values(call: dict[str, Any]) -> bool:
    """Whether a call stores values, which may have tags."""
    return "stored_ttl" in call["takes"] and bool({"value", "pairs"} & {*call["takes"]})


def in_python(call: dict[str, Any], gives: str) -> str:
    """Return the arguments and the type of a method, from its parenthesis to the colon."""
    takes = [PYTHON_TAKES[each] for each in call["takes"]]
    if call["gives"] == "count":
        takes = ["keys: Iterable[_Key]"]
    if stores_values(call):
        takes.append(TAGS)
    return f"({', '.join(['self', *takes])}) -> {gives.format(PYTHON_GIVES[call['gives']])}:"


def stub(source: str, name: str, *, gives: str = "{}", word: str = "def") -> str:
    """Return a stub in which a class declares its calls as the table says."""
    start = source.index(f"\nclass {name}")
    end = re.compile(r"\n(?=[^\s#)])").search(source, start + 1)
    body = source[start : end.start() if end else len(source)]
    for call in CALLS:
        method = call["names"]["python"]
        if method and not is_internal(call):
            body = _declared(body, word, method, in_python(call, gives))
    return source[:start] + body + (source[end.start() :] if end else "")


def _declared(body: str, word: str, method: str, declaration: str) -> str:
    """Return the body of a class with this declaration; a new one comes before `close`."""
    header = re.compile(rf"^    {word} {method}\(.*?\)(?: -> .*?)?:(?= \.\.\.$|$)", re.MULTILINE | re.DOTALL)
    new = _wrapped(f"    {word} {method}{declaration}")
    if header.search(body):
        return header.sub(lambda _: new, body, count=1)
    return re.sub(r"^(?=    def close\()", f"{new} ...\n", body, count=1, flags=re.MULTILINE)


def _wrapped(line: str) -> str:
    """Return a declaration as ruff formats it."""
    if len(line) <= 120:
        return line
    head, _, rest = line.partition("(")
    arguments, _, gives = rest.rpartition(") -> ")
    return f"{head}(\n        {arguments}\n    ) -> {gives}"


def ruby(source: str) -> str:
    """Return Ruby's public signatures with those of the calls."""
    return _signatures(source, "  class Client\n", RUBY_TAKES, set(RUBY_TAKES))


def ruby_native(source: str) -> str:
    """Return the signatures of Ruby's native half with those of the calls."""
    return _signatures(source, "    class Cache\n", NATIVE_TAKES, NATIVE_TAKES_OF)


def _signatures(source: str, first: str, takes: dict[str, str], known: set[str]) -> str:
    start = source.index(first)
    indent = " " * (len(first) - len(first.lstrip()))
    end = source.index(f"\n{indent}end\n", start)
    body = source[start:end]
    is_native = takes is NATIVE_TAKES
    for call in CALLS:
        method = call["names"]["ruby"]
        if not method or call["gives"] not in RUBY_GIVES or not known.issuperset(call["takes"]):
            continue
        if (is_native and call["asks"] == "servers") or (not is_native and is_internal(call)):
            continue
        gives = RUBY_GIVES[call["gives"]]
        if is_native and call["gives"] == "metadata":
            gives = "Array[untyped]?"
        arguments = [takes[each] for each in call["takes"]]
        if stores_values(call):
            arguments.append("tags? tags" if is_native else "?tags: tags?")
        line = f"{indent}  def {method}: ({', '.join(arguments)}) -> {gives}"
        present = re.compile(rf"^{indent}  def {method}: .*$", re.MULTILINE)
        if present.search(body):
            body = present.sub(lambda _, line=line: line, body, count=1)
        else:
            body = re.sub(rf"^(?={indent}  def close:)", f"{line}\n", body, count=1, flags=re.MULTILINE)
    return source[:start] + body + source[end:]


def table(source: str) -> str:
    """Return the page about calls with its table."""
    rows = [
        "| what it does | Python | Ruby | Perl | C | asks | only reads |",
        "|---|---|---|---|---|---|---|",
        *(_row(call) for call in CALLS if not is_internal(call)),
    ]
    return TABLE.sub("\n" + "\n".join(rows) + "\n\n", source)


def _row(call: dict[str, Any]) -> str:
    names = [_code(call["names"][language]) for language in ("python", "ruby", "perl", "c")]
    whom = {"key": "the key's server", "keys": "the keys' servers", "servers": "every server"}[call["asks"]]
    text = call["text"].removesuffix(".")
    return f"| {text} | {' | '.join(names)} | {whom} | {'yes' if call['only_reads'] else ''} |"


def _code(name: str | None) -> str:
    return f"`{name}`" if name else "\N{EN DASH}"


#: The files, and what writes each.
FILES = {
    REPOSITORY / "python/pinyon/_native.pyi": [lambda source: stub(source, "Client")],
    REPOSITORY / "python/pinyon/aio.pyi": [
        lambda source: stub(source, "Client", gives="Reply[{}]"),
        lambda source: stub(source, "MigratingClient", word="async def"),
    ],
    REPOSITORY / "ruby/sig/pinyon.rbs": [ruby],
    REPOSITORY / "ruby/sig/pinyon/native.rbs": [ruby_native],
    REPOSITORY / "docs/calls.md": [table],
}


def written(path: Path, source: str) -> str:
    """Return what a file should be, of what it is."""
    for write in FILES.get(path, ()):
        source = write(source)
    return source
