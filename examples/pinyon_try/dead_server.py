"""The second scene: one of two memcached servers is killed and comes back; then it hangs, and goes on."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import pinyon

from .record import Bar, Chart, Dot, Mark, shown
from .screen import Screen
from .servers import Server

#: How long a call may take, in seconds.
TIMEOUT = 0.2
#: The pause between two calls, in seconds.
PAUSE = 0.004
KEYS = [f"page:{number}" for number in range(60)]
#: Calls of a phase, after the event that it waits for.
CALLS = 150
#: If an event does not come for so long, something is wrong. In seconds.
PATIENCE = 60


def play(screen: Screen, folder: Path) -> None:
    """Play the scene.

    Args:
        screen: where to show it.
        folder: for the sockets of both memcached.
    """
    screen.scene(
        "A server dies",
        f"One thread reads {len(KEYS)} keys from two memcached, with a timeout of {TIMEOUT} s and on_failure='miss'. "
        "After a miss it asks the database and stores the value again.",
    )
    with Server("memcached", folder / "a.sock"), Server("memcached", folder / "b.sock") as victim:
        reader = _Reader([str(folder / "a.sock"), str(victim.path)])
        try:
            _kill(screen, reader, victim)
            _hang(screen, reader, victim)
        finally:
            reader.cache.close()


def _kill(screen: Screen, reader: _Reader, victim: Server) -> None:
    chart = reader.chart = screen.chart("memcached B is killed, and started again", time.monotonic())
    reader.read()
    screen.find(f"Both run: {reader.phase()}")
    died = reader.mark(f"kill -9 {victim.pid}")
    screen.tell(f"kill -9 {victim.pid} (memcached B)")
    victim.kill()
    reader.read("down")
    screen.tell(f"event: {reader.events[-1].line}")
    screen.find(f"B is dead: {reader.phase()}")
    screen.tell(f"With failover=False and on_failure='raise' a caller gets {_refused(reader)}")
    victim.start()
    back = reader.mark(f"started, pid {victim.pid}")
    screen.tell(f"memcached B is started again, empty, pid {victim.pid}")
    reader.read("up")
    screen.find(f"B is used again {shown(reader.event_at - back)} after its start: {reader.phase()}")
    _lanes(chart, [("up", chart.begin), ("killed", died), ("up", back)])


def _hang(screen: Screen, reader: _Reader, victim: Server) -> None:
    chart = reader.chart = screen.chart(
        "memcached B hangs: it accepts connections and does not answer", time.monotonic()
    )
    reader.read()
    reader.phase()
    hung = reader.mark(f"kill -STOP {victim.pid}")
    screen.tell(f"kill -STOP {victim.pid} (memcached B)")
    victim.signal(signal.SIGSTOP)
    reader.read("down")
    screen.tell(f"event: {reader.events[-1].line}")
    screen.find(f"B hangs: {reader.phase()}")
    back = reader.mark(f"kill -CONT {victim.pid}")
    screen.tell(f"kill -CONT {victim.pid}")
    victim.signal(signal.SIGCONT)
    reader.read("up")
    screen.find(f"B is used again after {shown(reader.event_at - back)}, with what it held: {reader.phase()}")
    _lanes(chart, [("up", chart.begin), ("hung", hung), ("up", back)])


def _lanes(chart: Chart, states: list[tuple[str, float]]) -> None:
    """Draw both servers: A is well all the time."""
    end = chart.end()
    chart.bars.append(Bar("memcached A", chart.begin, end, "up"))
    for (kind, begin), (_, until) in zip(states, [*states[1:], ("", end)]):
        chart.bars.append(Bar("memcached B", begin, until, kind))


def _refused(reader: _Reader) -> str:
    """Ask for every key until the dead server's error comes. Returns it with its time."""
    strict = reader.cache.using(failover=False, on_failure="raise")
    for key in KEYS:
        begin = time.monotonic()
        try:
            strict.get(key)
        except (pinyon.ServerDown, pinyon.ConnectError) as error:
            took = shown(time.monotonic() - begin)
            return f"{type(error).__name__} after {took}, sent={error.sent!r}: {error}"
    return "no error: all keys are on the other server"


@dataclass
class _Reader:
    """One caller, and what its calls took since the phase began."""

    #: The last one is the victim, whose events count.
    servers: list[str]
    chart: Chart | None = None
    calls: list[Dot] = field(default_factory=list)
    events: list[pinyon.Event] = field(default_factory=list)
    event_at: float = 0.0

    def __post_init__(self) -> None:
        self.cache = pinyon.Client(
            self.servers, timeout=TIMEOUT, connect_timeout=TIMEOUT, on_failure="miss", on_event=self._happened
        )
        for key in KEYS:
            self.cache.set(key, "a page")
        self._keys = cycle(KEYS)

    def _happened(self, event: pinyon.Event) -> None:
        if event.server == self.servers[-1] and event.kind in ("down", "up"):
            self.events.append(event)
            self.event_at = time.monotonic()

    def read(self, awaited: str | None = None) -> None:
        """Read until the event has come, and then the calls of a phase."""
        if awaited:
            until = time.monotonic() + PATIENCE
            seen = len(self.events)
            while awaited not in [event.kind for event in self.events[seen:]]:
                if time.monotonic() > until:
                    raise TimeoutError(f"no event {awaited!r} within {PATIENCE} s")
                self._call()
        for _ in range(CALLS):
            self._call()

    def _call(self) -> None:
        key = next(self._keys)
        begin = time.monotonic()
        found = self.cache.get(key)
        if found is None:
            self.cache.set(key, "a page")
        took = time.monotonic() - begin
        dot = Dot(begin, took, "hit" if found is not None else "miss")
        self.calls.append(dot)
        if self.chart:
            self.chart.dots.append(dot)
        time.sleep(PAUSE)

    def mark(self, text: str) -> float:
        """Keep a moment for the picture. Returns it."""
        now = time.monotonic()
        if self.chart:
            self.chart.marks.append(Mark(now, text))
        return now

    def phase(self) -> str:
        """Say what the calls of the phase took, and begin the next phase."""
        calls, self.calls = self.calls, []
        took = sorted(call.took for call in calls)
        hits = sum(call.kind == "hit" for call in calls)
        waited = sum(each > TIMEOUT / 2 for each in took)
        long = f"{waited} of them over {shown(TIMEOUT / 2)}" if waited else f"none over {shown(TIMEOUT / 2)}"
        middle = took[len(took) // 2]
        return (
            f"{len(calls)} calls, {hits} hits, {len(calls) - hits} misses, no error; "
            f"median {shown(middle)}, longest {shown(took[-1])}, {long}."
        )
