"""The command line's verbs and options."""

from __future__ import annotations

import argparse
from fnmatch import fnmatch
from pathlib import Path

from .contestant import Entry, all_entries
from .placement import PLACEMENTS, SAME_CORE
from .rows import Row, all_rows

DEFAULT_VERB = "run"
RUN_ROUNDS = 5
RECORD_ROUNDS = 9
VERB_HELP = {
    "run": "measure everything in about two minutes; write JSON, then print the tables (the default verb)",
    "record": "measure long, with the seeds' full counts in each round, and rewrite PERFORMANCE.md",
    "tables": "print the tables of an existing JSON file",
    "syscalls": "count the client's system calls per call in steady state, with strace",
    "memory": "measure Pinyon's resident memory over a million operations and 10,000 connection failures",
}


def parse(arguments: list[str]) -> argparse.Namespace:
    """Returns the options; ends the program with a message when they make no sense. No verb means `run`."""
    asks_for_help = arguments[:1] in (["-h"], ["--help"])
    names_no_verb = not arguments or arguments[0].startswith("-")
    if names_no_verb and not asks_for_help:
        arguments = [DEFAULT_VERB, *arguments]
    return _parser().parse_args(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pinyon_bench",
        description="Measures memcached clients against each other and against a bare socket.",
        epilog="VERB --help lists a verb's options.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    parsers = {name: verbs.add_parser(name, help=text, description=text) for name, text in VERB_HELP.items()}
    for name, rounds in (("run", RUN_ROUNDS), ("record", RECORD_ROUNDS)):
        parsers[name].add_argument("--rounds", type=_positive, default=rounds, help="default: %(default)s")
        _add_rows(parsers[name])
        _add_common(parsers[name])
    parsers["record"].add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE.json",
        help="rewrite PERFORMANCE.md from this; measure nothing",
    )
    parsers["tables"].add_argument("file", type=Path, metavar="FILE.json")
    for name in ("syscalls", "memory"):
        _add_common(parsers[name])
    return parser


def _add_rows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rows",
        type=_rows,
        default=all_rows(),
        metavar="LIST",
        help="comma-separated names, patterns (get:*) or groups (seed, size, multiget); default: all",
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--contestants", type=_entries, default=None, metavar="LIST", help="comma-separated names; default: all"
    )
    parser.add_argument(
        "--placement", choices=PLACEMENTS, default=SAME_CORE, help="cores of client and servers; default: %(default)s"
    )
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="default: bench/results/TIME.json")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _rows(text: str) -> list[Row]:
    known = all_rows()
    wanted = _names(text)
    for name in wanted:
        if not any(_matches(row, name) for row in known):
            names = ", ".join(row.name for row in known)
            raise argparse.ArgumentTypeError(f"no row or group {name!r}; there are: {names}")
    return [row for row in known if any(_matches(row, name) for name in wanted)]


def _matches(row: Row, name: str) -> bool:
    """A group's name wins over a row's: `multiget` is both, and means the group and the row."""
    return row.group == name or fnmatch(row.name, name)


def _entries(text: str) -> list[Entry]:
    known = {entry.name.lower(): entry for entry in all_entries()}
    wanted = [name.lower() for name in _names(text)]
    for name in wanted:
        if name not in known:
            names = ", ".join(entry.name for entry in known.values())
            raise argparse.ArgumentTypeError(f"no contestant {name!r}; there are: {names}")
    return [entry for name, entry in known.items() if name in wanted]


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("an empty list")
    return names
