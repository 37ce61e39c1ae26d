"""Seed 003's program: `python -m pinyon_bench coroutines [SIZE] [ITER]` prints its lines for Pinyon or other clients.

Perl's clients run it as it was written: each operation has a coroutine of its own, behind a semaphore.

As in the seed, each value is SIZE times `x`; the sets use key1 to keyITER, and all gets use key1. The blocking
client comes first, then one client shared by a number of coroutines ("threads").
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from rich.console import Console
from rich.markup import escape

from ..contestant import Contestant, ContestantError, Entry, answered
from ..perl.rows import LOCAL, LOOPS, PAIRS_GROUPS, SEMAPHORE, pairs_row
from ..placement import Placement
from ..results import Sample
from ..servers import Server, ServerError
from .cells import prepare
from .link import Link, LinkError, slow_link
from .rows import OPERATIONS, SIZES_CONCURRENCIES, SLOW, PairsRow, size_row

CONTESTANTS = ("Pinyon", "Pinyon gevent", "Pinyon asyncio", "Pinyon perl", "Pinyon coro")
SIZE = 64
ITERATIONS = 10_000
SLOW_ITERATIONS = 100
PHASE_SECONDS = 3600.0


def print_seed_lines(
    size: int,
    iterations: int,
    slow: bool,
    entries: list[Entry],
    servers: list[Server],
    placement: Placement,
    console: Console,
) -> None:
    """Runs both phases of each contestant at each concurrency. Raises ServerError if there is no slow link."""
    with ExitStack() as stack:
        link = Link("", servers[0], servers[0].name)
        if slow:
            try:
                link = stack.enter_context(slow_link(servers[0], placement))
            except LinkError as error:
                raise ServerError(f"no slow link: {error}") from None
            console.print(f"Slow link: {escape(link.how)}\n")
        for entry in entries:
            contestant = Contestant(entry, placement.client)
            stack.callback(contestant.close)
            _print_contestant(contestant, _rows(size, iterations, slow), link, console)


def _rows(size: int, iterations: int, slow: bool) -> list[PairsRow]:
    """Returns the program's rows in order, with exactly the requested number of operations."""
    rows: list[PairsRow] = []
    for concurrency in SIZES_CONCURRENCIES:
        for operation in OPERATIONS:
            python = size_row(operation, size, concurrency, iterations)
            shape = SEMAPHORE if concurrency else LOOPS
            perl = pairs_row(shape, operation, size, concurrency, iterations)
            rows += [python, replace(perl, group=PAIRS_GROUPS[shape, LOCAL].name)]
    link = SLOW if slow else "near"
    return [replace(row, count=iterations, clocked=0, warmup=row.concurrency or 1, link=link) for row in rows]


def _print_contestant(contestant: Contestant, rows: list[PairsRow], link: Link, console: Console) -> None:
    mine = [row for row in rows if contestant.entry.takes_part(row)]
    for row in mine:
        console.print(escape(started_line(contestant.entry.name, row)))
        try:
            console.print(finished_line(_sample(contestant, row, link)))
        except ContestantError as error:
            console.print(f"Failed: {escape(str(error))}")
        if row.operation == OPERATIONS[-1]:
            console.print()


def _sample(contestant: Contestant, row: PairsRow, link: Link) -> Sample:
    """Does one phase. The gets find key1 whatever the sets have evicted."""
    spec = row.spec(link.address)
    prepare(spec, link.server)
    reply = answered(contestant.ask({"do": "time", "row": spec}, PHASE_SECONDS))
    return Sample(1, row.name, contestant.entry.name, row.count, reply["wall"], reply["user"], reply["system"])


def started_line(name: str, row: PairsRow) -> str:
    """Returns the line that the seed's program prints at the beginning of a phase."""
    threads = f"/{row.concurrency} threads" if row.concurrency else ""
    return f"{name} {row.operation.upper()} test started ({row.count} iterations/{row.size} bytes data{threads})"


def finished_line(sample: Sample) -> str:
    """Returns the line that the seed's program prints at the end of a phase."""
    rate = int(sample.operations / sample.wall)
    return f"Finished {sample.operations} iters in {sample.wall:.2f} seconds. Average reqs/s: {rate}"
