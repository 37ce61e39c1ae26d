"""The arguments of the command line."""

from __future__ import annotations

import argparse
import math
import os
from typing import TYPE_CHECKING

from pinyon import __version__, _native
from pinyon.cli import check as checking
from pinyon.cli import looking, releasing
from pinyon.cli import servers as surveying
from pinyon.cli import stats as watching
from pinyon.cli import stress as stressing
from pinyon.cli.trust import add_login, add_tls
from pinyon.locks import DEFAULT_URL

if TYPE_CHECKING:
    from collections.abc import Sequence

DRIVERS = ("blocking", "gevent", "asyncio")
HANDLERS = ("auto", "script", "pure")
HASH_TAGS = ("namespace", "names")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read a command line. Its ``verb`` runs it. If it is invalid, the process exits with status 2."""
    parser = argparse.ArgumentParser(
        prog="pinyon", description="Check servers, show statistics, and inspect and release locks."
    )
    parser.add_argument("--version", action="version", version=f"pinyon {__version__}")
    rooms = parser.add_subparsers(metavar="COMMAND", required=True)
    locks = rooms.add_parser(
        "locks", help="inspect, release and stress locks", description="Inspect, release and stress locks."
    )
    verbs = locks.add_subparsers(metavar="COMMAND", required=True)
    _add_looking(verbs)
    _add_releasing(verbs)
    _add_stress(verbs)
    _add_stats(rooms)
    _add_check(rooms)
    return parser.parse_args(arguments)


def _add_looking(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    each = _add_verb(verbs, "list", "list the locked names of a namespace", looking.list_all)
    one = _add_verb(verbs, "show", "show who holds a lock, until when, and who waits for it", looking.show)
    one.add_argument("names", nargs="+", metavar="NAME", type=os.fsencode)
    where = "show the servers of the locks: Sentinels, primary and replicas, or nodes of a cluster"
    _add_verb(verbs, "servers", where, surveying.servers).add_argument("--json", action="store_true", help="print JSON")
    for verb in (each, one):
        verb.add_argument("--json", action="store_true", help="print JSON")
        _add_hash_tags(verb)


def _add_releasing(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = _add_verb(verbs, "release", "release locks by force", releasing.release)
    verb.add_argument("names", nargs="+", metavar="NAME", type=os.fsencode)
    verb.add_argument("--token", type=_count, metavar="N", help="release only if the holder's fencing token is N")
    verb.add_argument("--yes", action="store_true", help="do not ask")
    _add_hash_tags(verb)


def _add_stress(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "let many processes compete for few locks, and check every critical section"
    verb = _add_verb(verbs, "stress", text, stressing.stress)
    verb.add_argument("-f", "--forks", type=_count, default=30, metavar="N", help="processes (30)")
    verb.add_argument(
        "-t", "--tries", type=_count, default=10, metavar="N", help="failures before a key is given up (10)"
    )
    verb.add_argument("-s", "--sleep", type=_seconds, default=2.0, metavar="S", help="seconds in each section (2)")
    verb.add_argument("-k", "--keys", type=_count, default=5, metavar="N", help="keys that each goes through (5)")
    verb.add_argument("--concurrency", type=_count, default=1, metavar="N", help="threads or coroutines in each (1)")
    verb.add_argument("--driver", choices=DRIVERS, default="blocking", help="the concurrency model of each (blocking)")
    verb.add_argument("--handler", choices=HANDLERS, default="auto", help="how the server keeps the locks (auto)")
    verb.add_argument("--seconds", type=_seconds, metavar="S", help="repeat for that long")


def _add_stats(rooms: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "statistics of memcached servers, as a table that refreshes"
    parser = rooms.add_parser("stats", help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(verb=watching.stats)
    where = f"host[:port] or /unix/path, also with commas between (MEMCACHE_SERVERS, or else {_native.DEFAULT_SERVER})"
    parser.add_argument("servers", nargs="*", metavar="SERVERS", help=where)
    parser.add_argument("--interval", type=_seconds, default=2.0, metavar="S", help="seconds between refreshes (2)")
    parser.add_argument(
        "--once", action="store_true", help="print the table once, as plain text; the default in a pipe"
    )
    parser.add_argument("--json", action="store_true", help="print it once, as JSON")
    parser.add_argument("--timeout", type=_seconds, default=1.0, metavar="S", help="seconds a server may take (1)")
    add_login(parser)
    parser.add_argument("--tls", action="store_true", help="speak TLS, trusting the system's authorities")
    add_tls(parser)


def _add_check(rooms: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "check whether servers are ready for use, before a program needs them"
    parser = rooms.add_parser("check", help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(verb=checking.check)
    where = (
        "memcached as host[:port] or /unix/path, also with commas between "
        f"(MEMCACHE_SERVERS, or else {_native.DEFAULT_SERVER}); Redis or Valkey as redis://host[:port][/database], "
        "redis+sentinel://host,host,host/service or redis+cluster://host,host,host"
    )
    parser.add_argument("servers", nargs="*", metavar="SERVERS", help=where)
    parser.add_argument("--ring", default="ketama", metavar="RING", help="how keys are assigned to servers (ketama)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--timeout", type=_seconds, default=1.0, metavar="S", help="seconds a server may take (1)")
    add_login(parser)
    parser.add_argument("--tls", action="store_true", help="speak TLS, trusting the system's authorities")
    add_tls(parser)


def _add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, verb: object
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(verb=verb)
    url = os.environ.get("REDIS_URL") or DEFAULT_URL
    parser.add_argument("--url", default=url, help=f"the server (REDIS_URL, or else {DEFAULT_URL})")
    parser.add_argument(
        "--namespace", default=b"pinyon", type=os.fsencode, metavar="NAME", help="the namespace of the locks (pinyon)"
    )
    parser.add_argument(
        "--prefix", default=b"", type=os.fsencode, metavar="TEXT", help="the locks' setting prefix (none)"
    )
    parser.add_argument("--timeout", type=_seconds, default=2.0, metavar="S", help="seconds a server may take (2)")
    add_tls(parser)
    return parser


def _add_hash_tags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--hash-tags", choices=HASH_TAGS, default="namespace", help="the setting of the locks (namespace)"
    )


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds
