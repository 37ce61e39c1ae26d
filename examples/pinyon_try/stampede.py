"""The first scene: many callers ask for a value that is not in the cache, at the same moment."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

import pinyon

from .processes import PATIENCE, started
from .record import Bar, Chart, shown
from .screen import Screen
from .servers import Server

PROCESSES = 4
THREADS = 10
CALLERS = PROCESSES * THREADS
#: How long the database takes for the value, in seconds.
MAKING = 0.3
#: The time that callers have to come to the start line after they were told when to start.
HEAD_START = 0.3
KEY = "page:front"


def play(screen: Screen, folder: Path) -> None:
    """Play the scene.

    Args:
        screen: where to show it.
        folder: for the socket of memcached.
    """
    screen.scene(
        "A cache stampede",
        f"{CALLERS} callers, {THREADS} threads in each of {PROCESSES} processes, ask for one value at the same moment. "
        f"The database takes {MAKING} s to make it.",
    )
    with Server("memcached", folder / "cache.sock") as server, contextlib.ExitStack() as stack:
        pipes = [stack.enter_context(_process(server, number)) for number in range(PROCESSES)]
        cache = stack.enter_context(contextlib.closing(pinyon.Client(str(server.path))))
        _ask(screen, pipes, "get_and_set", "Without a lease: get, and set after a miss. The cache is empty")
        cache.delete(KEY)
        _ask(screen, pipes, "get_or_set", "get_or_set. The cache is empty")
        cache.set(KEY, "old", ttl=60)
        cache.delete(KEY, stale=30)
        _ask(screen, pipes, "get_or_set", "get_or_set with stale=30. The value has just expired")


@contextlib.contextmanager
def _process(server: Server, number: int) -> Iterator[Connection]:
    """Start a process with its callers. Gives the pipe to it, when all callers are connected."""
    with started(_callers, str(server.path), number) as (process, pipe):
        if not pipe.poll(PATIENCE) or pipe.recv() != "ready":
            raise TimeoutError(f"the callers of process {process.pid} are not ready within {PATIENCE} s")
        yield pipe


def _ask(screen: Screen, pipes: list[Connection], way: str, title: str) -> None:
    """Let all callers ask once, and show what became of each."""
    begin = time.monotonic() + HEAD_START
    chart = screen.chart(title, begin)
    for pipe in pipes:
        pipe.send((way, begin))
    states = ["asks"] * CALLERS
    with screen.callers(states):
        while "asks" in states:
            ready = wait(pipes, PATIENCE)
            if not ready:
                raise TimeoutError(f"callers have no answer within {PATIENCE} s")
            for each in ready:
                assert isinstance(each, Connection)
                caller, began, ended, state = each.recv()
                states[caller] = state
                chart.bars.append(Bar(f"caller {caller + 1}", began, ended, state))
        _tell_late(chart, states)
    chart.bars.sort(key=lambda bar: bar.end)
    _sum_up(screen, chart)


def _tell_late(chart: Chart, states: list[str]) -> None:
    """On a busy machine some callers begin when the value is already there: these did not wait for it."""
    done = min((bar.end for bar in chart.bars if bar.kind == "made"), default=math.inf)
    for number, bar in enumerate(chart.bars):
        if bar.kind == "waited" and bar.begin >= done:
            chart.bars[number] = replace(bar, kind="late")
            states[int(bar.lane.split()[1]) - 1] = "late"


def _sum_up(screen: Screen, chart: Chart) -> None:
    times: dict[str, list[float]] = {}
    for bar in chart.bars:
        times.setdefault(bar.kind, []).append(bar.end - bar.begin)
    screen.find(f"The database was asked {_times(len(times.get('made', [])))}, by {CALLERS} callers.")
    if "waited" in times:
        longest = shown(max(times["waited"]))
        screen.find(f"{len(times['waited'])} waited for that value; the slowest call took {longest}.")
    if "old" in times:
        screen.find(f"{len(times['old'])} got the old value; the slowest call took {shown(max(times['old']))}.")
    if "late" in times:
        screen.find(f"{len(times['late'])} began late, on this busy machine, and found the value.")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _callers(path: str, number: int, pipe: Connection) -> None:
    """Be one process: its threads ask when they are told to, and report what became of each call."""
    cache = pinyon.Client(path, timeout=10)
    connected = threading.Barrier(THREADS)

    def connect() -> None:
        # A call of each thread at the same time, so that each has a connection.
        connected.wait(PATIENCE)
        cache.get("connect")

    def ask(way: str, thread: int, start: float) -> tuple[int, float, float, str]:
        time.sleep(max(0.0, start - time.monotonic()))
        began = time.monotonic()
        state = WAYS[way](cache)
        return number * THREADS + thread, began, time.monotonic(), state

    with ThreadPoolExecutor(THREADS) as threads:
        for connection in [threads.submit(connect) for _ in range(THREADS)]:
            connection.result()
        pipe.send("ready")
        while True:
            way, start = pipe.recv()
            for asked in as_completed([threads.submit(ask, way, thread, start) for thread in range(THREADS)]):
                pipe.send(asked.result())


def _get_and_set(cache: pinyon.Client) -> str:
    if cache.get(KEY) is not None:
        return "waited"
    time.sleep(MAKING)
    cache.set(KEY, "new", ttl=60)
    return "made"


def _get_or_set(cache: pinyon.Client) -> str:
    made = []

    def make() -> str:
        made.append(True)
        time.sleep(MAKING)
        return "new"

    value = cache.get_or_set(KEY, make, ttl=60, stale=30)
    if made:
        return "made"
    return "old" if value == "old" else "waited"


WAYS: dict[str, Callable[[pinyon.Client], str]] = {"get_and_set": _get_and_set, "get_or_set": _get_or_set}
