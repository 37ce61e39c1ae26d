"""The commands and options of the command line."""

from __future__ import annotations

import argparse
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from .catalogue import all_rows
from .contestant import BENCH_FOLDER, Entry, all_entries
from .coroutines.seed import ITERATIONS, SIZE, SLOW_ITERATIONS
from .declaration import Row
from .failure.clients import CONTENDERS, Contender
from .locks.rows import lock_rows
from .placement import PLACEMENTS, SAME_CORE

DEFAULT_VERB = "run"
#: The record of the last long run.
RECORD = BENCH_FOLDER / "recorded.json"
RUN_ROUNDS = 5
RECORD_ROUNDS = 9
LOCKS_ROUNDS = 3
FAILURE_ROUNDS = 5
MOST_SIZE = 1_000_000
VERB_HELP = {
    "run": "measure everything in about twenty minutes; write JSON and an HTML report, print the tables (the default)",
    "record": "measure for hours, with the published counts in each round; rewrite bench/recorded.json, and what `page` does",
    "page": "rewrite the tables and plots of PERFORMANCE.md and docs/performance-tables.md from bench/recorded.json",
    "tables": "print the tables of an existing JSON file",
    "coroutines": "repeat Mcc's benchmark (seed 003): set and get SIZE bytes ITER times, blocking and in coroutines",
    "locks": "measure only locks: the tests of Redis::EM::Mutex (seed 004), other libraries, Redis's own statistics",
    "failure": "stop, or kill and restart, one memcached of eight; measure what that costs: ten minutes",
    "syscalls": "count the client's system calls per call in steady state, with strace",
    "memory": "measure Pinyon's resident memory over a million operations and 10,000 connection failures",
    "instructions": "count Pinyon's instructions per operation with callgrind, and write bench/instructions.json",
    "tls": "measure Pinyon's processor time with TLS and without, in half a minute",
}


def parse(arguments: list[str]) -> argparse.Namespace:
    """Returns the options; exits with a message when they are wrong. Without a command it is `run`."""
    asks_for_help = arguments[:1] in (["-h"], ["--help"])
    names_no_verb = not arguments or arguments[0].startswith("-")
    if names_no_verb and not asks_for_help:
        arguments = [DEFAULT_VERB, *arguments]
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.verb == "locks":
        _choose_locks(options, parser)
    return options


def _choose_locks(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Replaces the names of rows by the rows of the short or the long run."""
    known: list[Row] = [*lock_rows(options.quick)]
    if options.rows is None:
        options.rows = [row for row in known if row.in_run or not options.quick]
        return
    try:
        options.rows = _rows(known, options.rows)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pinyon_bench",
        description="Compares memcached clients and lock libraries with each other, and with a bare socket.",
        epilog="COMMAND --help lists the options of a command.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    parsers = {name: verbs.add_parser(name, help=text, description=text) for name, text in VERB_HELP.items()}
    for name, rounds in (("run", RUN_ROUNDS), ("record", RECORD_ROUNDS)):
        parsers[name].add_argument(
            "--rounds", type=_positive, default=rounds, help="how many rounds; default: %(default)s"
        )
        _add_rows(parsers[name], short=name == "run")
        _add_common(parsers[name])
    parsers["tables"].add_argument("file", type=Path, metavar="FILE.json")
    parsers["page"].add_argument("file", type=Path, nargs="?", default=RECORD, metavar="FILE.json")
    _add_coroutines(parsers["coroutines"])
    _add_locks(parsers["locks"])
    _add_failure(parsers["failure"])
    for name in ("syscalls", "memory"):
        _add_common(parsers[name])
    parsers["instructions"].add_argument(
        "--check", action="store_true", help="write nothing; fail if an operation takes more instructions than recorded"
    )
    parsers["tls"].add_argument(
        "--rounds", type=_positive, default=RECORD_ROUNDS, help="how many rounds; default: %(default)s"
    )
    _add_placement(parsers["tls"])
    return parser


def _add_rows(parser: argparse.ArgumentParser, short: bool) -> None:
    known = all_rows(short)
    groups = dict.fromkeys(row.group.partition(":")[0] for row in known)
    parser.add_argument(
        "--rows",
        type=partial(_rows, known),
        default=[row for row in known if row.in_run or not short],
        metavar="LIST",
        help="comma-separated names, patterns (get:*) or groups "
        f"({', '.join(groups)}); "
        f"default: all{', but only some of the rows of coroutines and locks' if short else ''}",
    )


def _add_locks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="as short as in `run`: one minute instead of twenty")
    parser.add_argument(
        "--rounds", type=_positive, default=LOCKS_ROUNDS, help="at most this many rounds; default: %(default)s"
    )
    parser.add_argument(
        "--rows", metavar="LIST", help="comma-separated names or patterns (locks:mutex:*); default: all"
    )
    _add_common(parser)


def _add_failure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=_positive, default=FAILURE_ROUNDS, help="how many rounds; default: %(default)s"
    )
    parser.add_argument(
        "--contestants",
        dest="contenders",
        type=_contenders,
        default=list(CONTENDERS),
        metavar="LIST",
        help="comma-separated names or patterns (Pinyon*); default: all",
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/failures.md")
    _add_placement(parser)


def _contenders(text: str) -> list[Contender]:
    wanted = [name.lower() for name in _names(text)]
    chosen = [each for each in CONTENDERS if any(fnmatch(each.client.lower(), name) for name in wanted)]
    if not chosen:
        raise argparse.ArgumentTypeError(
            f"no contestant matches {text!r}; choose from: {', '.join(dict.fromkeys(each.client for each in CONTENDERS))}"
        )
    return chosen


def _add_coroutines(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "size",
        type=_size,
        nargs="?",
        default=SIZE,
        metavar="SIZE",
        help="bytes in a value; default: %(default)s",
    )
    parser.add_argument(
        "iterations",
        type=_positive,
        nargs="?",
        metavar="ITER",
        help=f"how often; default: {ITERATIONS}, over the slow link {SLOW_ITERATIONS}",
    )
    parser.add_argument("--slow", action="store_true", help="use a link with a round trip of 30 ms")
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    _add_contestants(parser)
    _add_placement(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE.json", help="where to write the result; default: bench/results/TIME.json"
    )


def _add_contestants(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--contestants",
        type=_entries,
        default=None,
        metavar="LIST",
        help="comma-separated names or patterns (Pinyon*); default: all",
    )


def _add_placement(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--placement",
        choices=PLACEMENTS,
        default=SAME_CORE,
        help="which cores client and servers run on; default: %(default)s",
    )


def _size(text: str) -> int:
    size = _positive(text)
    if size > MOST_SIZE:
        raise argparse.ArgumentTypeError(f"{text} bytes are more than the {MOST_SIZE:,} allowed")
    return size


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _rows(known: list[Row], text: str) -> list[Row]:
    wanted = _names(text)
    for name in wanted:
        if not any(row.is_called(name) for row in known):
            names = ", ".join(row.name for row in known)
            raise argparse.ArgumentTypeError(f"no row or group is named {name!r}; choose from: {names}")
    return [row for row in known if any(row.is_called(name) for name in wanted)]


def _entries(text: str) -> list[Entry]:
    known = all_entries()
    wanted = [name.lower() for name in _names(text)]
    for name in wanted:
        if not any(fnmatch(entry.name.lower(), name) for entry in known):
            names = ", ".join(entry.name for entry in known)
            raise argparse.ArgumentTypeError(f"no contestant matches {name!r}; choose from: {names}")
    return [entry for entry in known if any(fnmatch(entry.name.lower(), name) for name in wanted)]


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("the list is empty; name at least one")
    return names
