"""What each verb does, from options to tables."""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from . import markdown, performance, recorded, report
from .catalogue import placement_rows
from .cli import RECORD
from .contestant import BENCH_FOLDER, REPOSITORY, Contestant, Entry, all_entries
from .coroutines.link import ONE_WAY_MILLISECONDS, LinkError, delay_proxy
from .coroutines.seed import program_rows
from .declaration import Row
from .failure import page as failure_page
from .failure.clients import SETTINGS
from .failure.measure import measure
from .instructions import verb as instructions_verb
from .instructions.record import counted as counted_instructions
from .locks.server import LockServer, start_lock_server
from .memory import measure_memory
from .placement import TWO_CORES, UNPINNED, Placement, PlacementError, place
from .results import Document, Gap, read, this_machine, write
from .rounds import Plan, Runner, describe
from .servers import Server, ServerError, start_servers
from .step_rows import MULTIGET_SERVERS, SEED_N
from .syscalls import count_syscalls, syscall_rows
from .terminal import make_console, print_document
from .tls import measure as measure_tls

RUN_ITERATIONS = 500
RUN_CELL_SECONDS = 0.05
RECORD_CELL_SECONDS = 0.3
REFRESHES_PER_SECOND = 2
FAILURES_FILE = REPOSITORY / "docs" / "failures.md"
RECORDED_PEERS = ("Pinyon", "pylibmc")


def run(options: argparse.Namespace) -> None:
    """Measures, writes the JSON, prints the tables and the path of the JSON."""
    plan = Plan(options.rows, _entries_for(options), options.rounds, RUN_ITERATIONS, RUN_CELL_SECONDS)
    console = make_console()
    with _session(options, plan.rounds) as (document, servers, placement):
        document.instructions = counted_instructions()
        _run_plan(plan, document, servers, placement, console)
    _finish(document, options, console)


def record(options: argparse.Namespace) -> None:
    """Measures long, keeps the medians in the repository, and rewrites the pages from them."""
    console = make_console()
    _publish(_record(options, console), console)


def page(options: argparse.Namespace) -> None:
    """Rewrites the tables and plots of the pages from an existing file, or from the record; measures nothing."""
    _publish(read(options.file), make_console())


def _publish(document: Document, console: Console) -> None:
    write(recorded.condensed(document), RECORD)
    for path in performance.rewrite(read(RECORD), REPOSITORY):
        console.print(f"wrote {_relative(path)}")


def _record(options: argparse.Namespace, console: Console) -> Document:
    plan = Plan(options.rows, _entries_for(options), options.rounds, SEED_N, RECORD_CELL_SECONDS)
    with _session(options, plan.rounds) as (document, servers, placement):
        document.instructions = counted_instructions()
        _run_plan(plan, document, servers, placement, console)
        chosen = [entry for entry in plan.entries if entry.name in document.present()]
        _each(chosen, placement, "system calls", lambda each: _add_syscalls(document, each, servers), console)
        watched = [entry for entry in chosen if entry.name in RECORDED_PEERS]
        _each(watched, placement, "memory", lambda each: _add_memory(document, each, servers), console)
    for name in (TWO_CORES, UNPINNED):
        _add_placement(replace(plan, rows=[*placement_rows(name)]), name, document, console)
    return _finish(document, options, console)


def _add_placement(plan: Plan, name: str, document: Document, console: Console) -> None:
    """Measures a few rows in another placement; records a placement that the machine cannot offer as a gap."""
    try:
        placement = place(name)
    except PlacementError as error:
        document.gaps += [Gap(row.name, "all", str(error), True) for row in plan.rows]
        return
    with start_servers(1, placement.server) as servers:
        _run_rows(plan, document, servers, placement, console)


def tables(options: argparse.Namespace) -> None:
    """Prints the tables of an existing file."""
    print_document(read(options.file), make_console())


def locks(options: argparse.Namespace) -> None:
    """Measures only locks, writes the JSON, and prints the tables."""
    cell_seconds = RUN_CELL_SECONDS if options.quick else RECORD_CELL_SECONDS
    plan = Plan(options.rows, _entries_for(options), options.rounds, 0, cell_seconds)
    console = make_console()
    with _session(options, plan.rounds, servers=0) as (document, servers, placement):
        _run_plan(plan, document, servers, placement, console)
    _finish(document, options, console)


def coroutines(options: argparse.Namespace) -> None:
    """Runs seed 003's program once, with its own size and number of operations."""
    options.rows = program_rows(options.size, options.iterations, options.slow)
    options.rounds = 1
    run(options)


def failure(options: argparse.Namespace) -> None:
    """Measures the cost of one server of eight that stops or dies; with `--write`, updates docs/failures.md."""
    console = make_console()
    placement = place(options.placement)
    outcomes = []
    for contender in options.contenders:
        outcomes.append(measure(contender, options.rounds, placement))
        console.print(" · ".join(failure_page.row(outcomes[-1])))
    console.print("", failure_page.table(outcomes), soft_wrap=True)
    if options.write:
        versions = {name: metadata.version(name) for name in SETTINGS}
        markdown.refresh(
            FAILURES_FILE, "measured", failure_page.section(outcomes, this_machine(), versions, options.rounds)
        )
        console.print(f"wrote {_relative(FAILURES_FILE)}")


def syscalls(options: argparse.Namespace) -> None:
    """Counts system calls, writes the JSON and prints the table."""
    console = make_console()
    with _session(options, 0) as (document, servers, placement):
        document.rows += [row.info() for row in syscall_rows()]
        entries = _described(_taking_part(_chosen(options), syscall_rows()), placement, document)
        _each(entries, placement, "system calls", lambda each: _add_syscalls(document, each, servers), console)
    _finish(document, options, console)


def memory(options: argparse.Namespace) -> None:
    """Measures resident memory, writes the JSON and prints the table."""
    console = make_console()
    chosen = options.contestants or [entry for entry in all_entries() if entry.name == "Pinyon"]
    with _session(options, 0) as (document, servers, placement):
        entries = _described(chosen, placement, document)
        _each(entries, placement, "memory", lambda each: _add_memory(document, each, servers), console)
    _finish(document, options, console)


def instructions(options: argparse.Namespace) -> None:
    """Counts instructions and writes their record, or compares with it."""
    instructions_verb.instructions(options, make_console())


def tls(options: argparse.Namespace) -> None:
    """Measures what TLS costs the client: prints a table, writes nothing."""
    measure_tls(options.rounds, place(options.placement), make_console())


def _chosen(options: argparse.Namespace) -> list[Entry]:
    return options.contestants or all_entries()


def _entries_for(options: argparse.Namespace) -> list[Entry]:
    """Returns the chosen contestants that take part in any of the chosen rows."""
    return _taking_part(_chosen(options), options.rows)


def _taking_part(entries: list[Entry], rows: Sequence[Row]) -> list[Entry]:
    return [entry for entry in entries if any(entry.takes_part(row) for row in rows)]


@contextmanager
def _session(
    options: argparse.Namespace, rounds: int, servers: int = max(MULTIGET_SERVERS)
) -> Iterator[tuple[Document, list[Server], Placement]]:
    """Gives an empty document and running memcached processes; the benchmark itself stays off the measured cores."""
    placement = place(options.placement)
    own = os.sched_getaffinity(0)
    with start_servers(servers, placement.server) as started:
        if placement.benchmark:
            os.sched_setaffinity(0, placement.benchmark)
        try:
            versions = {"memcached": started[0].version()} if started else {}
            versions["Python"] = platform.python_version()
            command = shlex.join(["python", "-m", "pinyon_bench", *sys.argv[1:]])
            created = time.strftime("%Y-%m-%d %H:%M:%S %z")
            document = Document(created, command, placement.name, rounds, this_machine(), versions, [], [])
            yield document, started, placement
        finally:
            os.sched_setaffinity(0, own)


def _run_plan(plan: Plan, document: Document, servers: list[Server], placement: Placement, console: Console) -> None:
    _described(plan.entries, placement, document)
    _run_rows(plan, document, servers, placement, console)


def _run_rows(plan: Plan, document: Document, servers: list[Server], placement: Placement, console: Console) -> None:
    with ExitStack() as stack:
        link = stack.enter_context(_slow_link(plan, document, servers, placement))
        lock_server = stack.enter_context(_lock_server(plan, document, placement))
        advance = stack.enter_context(_progress(console, plan.cells()))
        document.rows += [row.info() for row in plan.rows]
        Runner(plan, servers, link, lock_server, placement.client, document, advance).run()


@contextmanager
def _slow_link(plan: Plan, document: Document, servers: list[Server], placement: Placement) -> Iterator[str | None]:
    """The first server's address over the slow link when there are rows for it; the document says if there is none."""
    if not plan.needs_slow_link():
        yield None
        return
    with ExitStack() as stack:
        try:
            proxy = delay_proxy(servers[0].name, ONE_WAY_MILLISECONDS, placement.benchmark)
            address = stack.enter_context(proxy)
        except LinkError as error:
            document.versions["slow link"] = f"none: {error}"
            yield None
            return
        document.versions["slow link"] = f"a delay proxy, {2 * ONE_WAY_MILLISECONDS} ms"
        yield address


@contextmanager
def _lock_server(plan: Plan, document: Document, placement: Placement) -> Iterator[LockServer | None]:
    """A Redis server when there are rows for it; the document has its version, or why there is none."""
    if not plan.needs_lock_server():
        yield None
        return
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start_lock_server(placement.server))
        except ServerError as error:
            document.versions["redis-server"] = f"none: {error}"
            yield None
            return
        document.versions["redis-server"] = server.version()
        yield server


def _each(
    entries: list[Entry], placement: Placement, what: str, work: Callable[[Contestant], None], console: Console
) -> None:
    with _progress(console, len(entries)) as advance:
        for entry in entries:
            advance(f"{what}  {entry.name}")
            contestant = Contestant(entry, placement.client)
            try:
                work(contestant)
            finally:
                contestant.close()


def _described(entries: list[Entry], placement: Placement, document: Document) -> list[Entry]:
    """Adds the contestants to the document; returns the ones that are present."""
    for entry in entries:
        contestant = Contestant(entry, placement.client)
        document.contestants.append(describe(contestant))
        contestant.close()
    return [entry for entry in entries if entry.name in document.present()]


def _add_syscalls(document: Document, contestant: Contestant, servers: list[Server]) -> None:
    counted, gaps = count_syscalls(contestant, servers)
    document.syscalls += counted
    document.gaps += gaps


def _add_memory(document: Document, contestant: Contestant, servers: list[Server]) -> None:
    document.memory += measure_memory(contestant, servers)


@contextmanager
def _progress(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Shows a progress bar; call the function it gives with the name of the next step."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, refresh_per_second=REFRESHES_PER_SECOND) as progress:
        task = progress.add_task("", total=total)
        started = iter(range(total))

        def advance(description: str) -> None:
            progress.update(task, completed=next(started), description=description)

        yield advance


def _finish(document: Document, options: argparse.Namespace, console: Console) -> Document:
    """Writes the JSON, prints from what was written, and writes the report beside it."""
    path = options.output or BENCH_FOLDER / "results" / time.strftime("%Y%m%d-%H%M%S.json")
    write(document, path)
    written = read(path)
    print_document(written, console)
    console.print(f"\n{_relative(path)}")
    if written.samples:
        console.print(_relative(report.write(written, path)))
    return written


def _relative(path: Path) -> str:
    return os.path.relpath(path)
