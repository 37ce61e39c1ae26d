"""One run of a cell: servers, clients and faults, and finally all the evidence."""

from __future__ import annotations

import math
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .. import programs
from . import evidence as evidence_of
from .cell import Cell
from .clock import WallClock
from .clustered import Clustered
from .evidence import Bounds, Evidence
from .group import Group, Unready
from .history import SECOND, Recorder, now, read, start
from .names import POOL, name_of, process_of
from .observer import Observer, scan
from .relays import Double, relays
from .resp import Connection, ServerSaid
from .server import Server
from .settings import NAMESPACE, Settings
from .several import Several
from .trace import Tracer, steps
from .watched import Watched

#: Seconds from the last fault to the end.
TAIL = 0.5
#: The nanoseconds from the clock of histories to the servers' clocks.
WALL = time.time_ns() - time.monotonic_ns()
#: How long a client may take to end, beyond its time to wait.
ENDING = 30.0


class Client:
    """One client process."""

    def __init__(self, settings: Settings, environment: dict[str, str]) -> None:
        self.settings = settings
        self.environment = environment
        path = Path(settings.folder) / f"{settings.seed}.settings"
        settings.dump(path)
        self._errors = path.with_suffix(".errors")
        with self._errors.open("wb") as errors:
            command = [*programs.of_locks(settings.model), str(path)]
            self.process = subprocess.Popen(command, stderr=errors, env={**os.environ, **environment})

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_running(self) -> bool:
        return self.process.poll() is None

    def errors(self) -> str:
        return self._errors.read_text(errors="replace").strip()


class World:
    """The servers and clients that faults act on."""

    def __init__(self, cell: Cell, seed: int, seconds: float, folder: Path) -> None:
        self.cell, self.seed, self.seconds, self.folder = cell, seed, seconds, folder
        self.random = random.Random(f"{cell.name}:{seed}")
        self.history = folder / "history"
        self.history.mkdir(parents=True)
        self.record = Recorder(self.history)
        self.server = self._server_of(cell)
        self.register = Server(folder / "register")
        #: The server's clock, if it can be moved, and the clients' clocks, if theirs can be.
        self.clock: WallClock | None = None
        self.clocks: list[WallClock] = []
        self.clients: list[Client] = []
        self.names = [f"n{number}" for number in range(max(each.names for each in cell.clients))]
        #: Whether names are read, or permits are wanted; and all that can be held.
        self.is_shared = any(each.reads or each.permits for each in cell.clients)
        pools = max(each.pools if each.permits else 0 for each in cell.clients)
        self.things = [*self.names, *(f"{POOL}p{number}" for number in range(pools))]
        self.until = 0
        #: Microseconds of a script call: the mean, and the slowest.
        self.mean_script = 0.0
        self.slowest_script = 0
        self._spawned = 0

    def _server_of(self, cell: Cell) -> Server | Group:
        folder = self.folder / "server"
        if cell.servers == "sentinels":
            return Watched(folder, cell.options)
        if cell.servers == "cluster":
            return Clustered(folder, cell.options, tagged=cell.clients[0].tags > 0, linked=cell.linked)
        if cell.servers == "quorum":
            return Several(folder, cell.options)
        if cell.servers == "fakeredis":
            return Double(folder)
        return Server(folder, cell.persistence, cell.options)

    def run(self) -> Evidence:
        """Let the clients work under faults, and return the evidence."""
        with self._servers(), self._proxy() as ports:
            if self.cell.prepare:
                self.cell.prepare(self)
            tracer = self._tracer()
            # What is kept on several servers, no script sees at once.
            spread = self.cell.clients[0].tags or isinstance(self.server, Several)
            observer = Observer(self.server, [] if spread else self.things, self.record, self.is_shared)
            complaints = self.cell.scenario(self) if self.cell.scenario else self._work(ports)
            for complaint in complaints:
                self.record("violation", text=complaint)
            observer.stop()
            keys, channels, kept_by_clock = self._left()
            journals = self.server.journals() if isinstance(self.server, Group) else []
            if tracer:
                tracer.stop()
            calls = self._calls()
        found = evidence_of.weigh(read(self.history))
        found.scans, found.looked_at = observer.scans, frozenset(self.things)
        found.limit = self.cell.clients[0].limit
        found.steps = list(steps(self.folder / "trace")) if tracer else []
        found.journals, found.wall = journals, WALL
        if self.cell.moves_clock or isinstance(self.server, Several):
            # A lock on several servers has a vote of each, which has a ttl and a token of its own.
            found.wall = None
        found.keys_left, found.channels_left, found.kept_by_clock = keys, channels, kept_by_clock
        if self.cell.exact:
            found.calls, found.clients = {name: called for name, (called, _) in calls.items()}, len(self.cell.clients)
        found.ordered = self.cell.ordered
        found.bounds = self._bounds()
        return found

    def _bounds(self) -> Bounds:
        settings = self.cell.clients[0]
        patience = int(settings.patience * SECOND)
        refused, deadlocked = patience * settings.waits_out, patience * (settings.nested > 0)
        grant, ttl = int(self.cell.grant_within * SECOND), int(settings.ttl * SECOND)
        scripts = all(each.handler == "script" for each in self.cell.clients)
        return Bounds(grant, ttl, refused, deadlocked, refuses_upgrades=scripts)

    def _calls(self) -> dict[str, tuple[int, float]]:
        """Ask for the commands' counts and times. Where no server answers, which is a finding already, there are none."""
        try:
            calls = self.server.calls()
            self.slowest_script = self.server.slowest_script()
        except OSError:
            return {}
        self.mean_script = calls.get("fcall", calls.get("evalsha", (0, 0.0)))[1]
        return calls

    def _tracer(self) -> Tracer | None:
        """A tracer follows one server. Groups have journals."""
        if not self.cell.traced or isinstance(self.server, Group):
            return None
        return Tracer(self.server, self.folder / "trace")

    @contextmanager
    def _servers(self) -> Iterator[None]:
        if self.cell.moves_clock and isinstance(self.server, Group):
            self.server.clocks = [
                WallClock(self.folder, f"clock_s{index}") for index in range(len(self.server.servers))
            ]
        elif self.cell.moves_clock and isinstance(self.server, Server):
            self.clock = WallClock(self.folder)
            self.server.follow(self.clock)
        try:
            self.register.start()
            self.server.start()
            yield
        finally:
            for client in self.clients:
                if client.is_running():
                    client.process.kill()
                client.process.wait()
            self.server.stop()
            self.register.stop()

    @contextmanager
    def _proxy(self) -> Iterator[list[int]]:
        """Run what is between the clients and the server. Gives the ports for the clients, in turn."""
        if self.cell.relays:
            with relays(self.server.port, self.cell.relays) as ports:
                yield ports
            return
        if not self.cell.cuts:
            yield [self.server.port]
            return
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener, (self.folder / "cuts").open("wb") as cuts:
            descriptor, port = listener.fileno(), listener.getsockname()[1]
            words = [str(descriptor), str(self.server.port), str(self.seed), *self.cell.cuts]
            command = [sys.executable, "-m", "pinyon_verify.locks.proxy", *words]
            proxy = subprocess.Popen(command, stdout=cuts, pass_fds=[descriptor])
        try:
            yield [port]
        finally:
            proxy.kill()
            proxy.wait()

    def _work(self, ports: list[int]) -> list[str]:
        for index, settings in enumerate(self.cell.clients):
            skew = self.cell.skews[index % len(self.cell.skews)] if self.cell.skews else 0
            own = f"redis://{settings.login}127.0.0.1:{ports[index % len(ports)]}"
            self.spawn(settings.but(url=self.server.url if isinstance(self.server, Group) else own), skew)
        if self.cell.ready:
            self.cell.ready(self)
        self._start()
        if self.cell.cuts:
            # A connection may be cut at any time.
            self.record("fault", kind="cut", until=self.until + 60 * SECOND)
        self._wait_for_a_grant()
        complaints = []
        try:
            if self.cell.faults:
                self._cause_faults(self.until - int(TAIL * SECOND))
        except Unready as error:
            complaints.append(str(error))
            self.work_on(0)
        return complaints + self._wait_for_clients()

    def _cause_faults(self, last: int) -> None:
        """Cause one fault after another until then, and one at least, however slow the machine is."""
        while True:
            self.random.choice(self.cell.faults)(self)
            self._pause(self.random.uniform(0.2, 1.0) * self.cell.every)
            if now() >= last:
                return

    def work_on(self, seconds: float) -> None:
        """Let the clients work for so long from now on. A fault that leaves them without a server takes none of their time."""
        self.until = now() + int(seconds * SECOND)
        start(self.history, self.until)

    def _start(self) -> None:
        """Wait until all clients have started, even on a slow machine, and let them begin together.

        They work for long: their time begins with the first grant.
        """
        deadline = now() + int(ENDING * SECOND)
        while now() < deadline and len(list(self.history.glob("*.lines"))) <= len(self.clients):
            time.sleep(0.01)
        self.work_on(2 * ENDING)

    def _wait_for_a_grant(self) -> None:
        """Wait until there is something to lose, and let the time begin then. On a slow machine, clients need a while for it."""
        while now() < self.until and self.running() and not self._has_granted():
            time.sleep(0.02)
        self.work_on(self.seconds)

    def _has_granted(self) -> bool:
        return any(b'"granted"' in path.read_bytes() for path in self.history.glob("*.lines"))

    def _pause(self, seconds: float) -> None:
        time.sleep(max(0.0, min(seconds, (self.until - now()) / SECOND)))

    def spawn(self, settings: Settings, skew: int = 0) -> Client:
        """Start a client process."""
        self._spawned += 1
        environment = {}
        if self.cell.skews:
            self.clocks.append(WallClock(self.folder, f"clock_{self._spawned}", skew))
            environment = self.clocks[-1].environment
        complete = settings.but(
            seed=self.seed * 1000 + self._spawned,
            register=self.register.socket,
            folder=str(self.history),
        )
        client = Client(complete, environment)
        self.clients.append(client)
        return client

    def fault(self, kind: str, at: int, process: int = 0, names: list[str] | None = None) -> None:
        """Record what was done since `at`."""
        self.record("fault", at=at, kind=kind, until=now(), process=process, names=names or [])

    @contextmanager
    def recorded(self, kind: str) -> Iterator[None]:
        """Record what is done meanwhile."""
        before = now()
        yield
        self.fault(kind, before)

    def ttls(self, least: float, most: float) -> float:
        """Return a random time between so many ttls, in seconds."""
        return self.random.uniform(least, most) * self.cell.clients[0].ttl

    def running(self) -> list[Client]:
        return [client for client in self.clients if client.is_running()]

    def holders(self, connection: Connection) -> set[int]:
        """Return the processes that now hold a lock."""
        return {process_of(seen.attempt) for seen in scan(connection, self.things, self.is_shared)}

    def holder(self) -> Client | None:
        """Return a client that now holds a lock."""
        with closing(self.server.connect()) as connection:
            return self._any_of(self.holders(connection))

    def waiter(self) -> Client | None:
        """Return a client that now waits in the server's queue."""
        waiting = self.server.ask("HKEYS", f"{{{NAMESPACE}}}:#w")
        assert isinstance(waiting, list)
        return self._any_of({process_of(attempt.decode()) for attempt in waiting})

    def _any_of(self, processes: set[int]) -> Client | None:
        found = sorted((client for client in self.running() if client.pid in processes), key=lambda each: each.pid)
        return self.random.choice(found) if found else None

    def kill(self, client: Client) -> None:
        """End a client like a crash, and start another in its place."""
        before = now()
        client.process.kill()
        client.process.wait()
        self.fault("kill", before, client.pid)
        self.spawn(client.settings)

    @contextmanager
    def stopped(self, client: Client) -> Iterator[None]:
        """Stop a client, and continue it later."""
        before = now()
        client.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            client.process.send_signal(signal.SIGCONT)
            self.fault("stop", before, client.pid)

    def _wait_for_clients(self) -> list[str]:
        complaints = []
        patience = max(each.patience for each in self.cell.clients)
        deadline = self.until + int((patience + ENDING) * SECOND)
        for client in self.clients:
            try:
                status = client.process.wait(max(0.1, (deadline - now()) / SECOND))
            except subprocess.TimeoutExpired:
                client.process.kill()
                complaints.append(f"client {client.pid} did not end")
                continue
            if status not in (0, -signal.SIGKILL):
                complaints.append(f"client {client.pid} ended with status {status}: {client.errors()[-500:]}")
            elif client.errors():
                print(f"  client {client.pid}: {client.errors()[-300:]}", file=sys.stderr)
        return complaints

    def _left(self) -> tuple[list[str], list[str], frozenset[str]]:
        """Wait for as long as the remains of crashes may live. Return the keys and channels that are left, and the names that
        are locked only since a clock was set back.
        """
        crashes = self.cell.faults or self.cell.cuts
        slowest = 3 + max(each.ttl + 6 * each.heartbeat if crashes else 0 for each in self.cell.clients)
        deadline = now() + int(slowest * SECOND)
        while True:
            keys, channels = self._look()
            if not (keys or channels) or now() > deadline:
                stay = self._that_stay(keys, slowest)
                names = (name_of(key.encode()) for key in keys if key not in stay)
                return stay, channels, frozenset(name for name in names if name)
            time.sleep(0.05)

    def _that_stay(self, keys: list[str], slowest: float) -> list[str]:
        """Return those of the keys that do not end in time by the clock of the server that set their end: it may have been
        ahead of the clock by which they end.
        """
        if isinstance(self.server, Several) or not self.cell.moves_clock:
            return keys
        clocks = self.server.clocks if isinstance(self.server, Group) else [self.clock] if self.clock else []
        latest = time.time() + slowest + max((clock.furthest for clock in clocks), default=0)
        return [key for key in keys if self._ends(key) > latest]

    def _ends(self, key: str) -> float:
        try:
            return self.server.end_of(key)
        except (OSError, ServerSaid):
            return math.inf

    def _look(self) -> tuple[list[str], list[str]]:
        try:
            keys, channels = self.server.keys(), self.server.channels()
        except (OSError, ServerSaid) as error:
            return [str(error)], []
        own = f"{{{NAMESPACE}}}:"
        mortal = (f"{own}#x:", f"{own}#f")
        # Sentinels have a channel of their own.
        return [key for key in keys if not any(part in key for part in mortal)], [
            each for each in channels if own in each
        ]
