"""Callers in Python that are interrupted at random while they acquire locks and leases: a program of ``storms``.

    python -m pinyon_verify.storming '{"model": "asyncio", "redis": "/r", "memcached": "/m", "interrupts": 9, "seed": 1}'

It prints what it has found, as JSON.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import ctypes
import gc
import importlib
import itertools
import json
import random
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pinyon
import pinyon.aio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = "abcdef"
#: Callers that acquire, at a time.
TOGETHER = 4
#: Seconds within which a lock that nobody holds must be free, and a caller that was interrupted must end.
PATIENCE = 20.0
#: Seconds for which a lock is kept that nobody releases, and a lease that nobody gives back.
LEFT = 600
#: Up to how many seconds a caller works before it is interrupted.
LONGEST = 0.0012
#: After so many interrupts it looks at what is left.
EACH = 500
#: What callers may meet if something was left.
REFUSED = (pinyon.LockTimeout, pinyon.AlreadyHeld, pinyon.Deadlock, pinyon.LeaseTimeout)

#: What a caller has in its hands, to give it back after an interrupt.
Hands = list[Any]


class Cut(BaseException):
    """Raised at callers."""


class Storm:
    """What callers do, whether something is left of what was interrupted, and what was counted."""

    def __init__(self, redis: str, memcached: str, seed: int, ways: list[str], module: Any) -> None:
        patient: dict[str, Any] = {"command_timeout": PATIENCE, "connect_timeout": PATIENCE}
        url = f"unix://{redis}"
        self.locks = module.Locks(url, ttl=LEFT, timeout=PATIENCE, **patient)
        self.cache = module.Client(memcached, timeout=PATIENCE, connect_timeout=PATIENCE)
        self._sees = pinyon.Locks(url, **patient)
        self._asks = pinyon.Client(memcached, timeout=PATIENCE, connect_timeout=PATIENCE)
        self.random = random.Random(seed)
        self.counts: collections.Counter[str] = collections.Counter()
        self.findings: collections.Counter[str] = collections.Counter()
        self._ways = ways
        self._seed = seed
        self._keys = itertools.count()
        self._asked: list[str] = []

    def way(self, chance: random.Random) -> Callable[[Hands, str], Any]:
        """Choose how to acquire."""
        chosen: Callable[[Hands, str], Any] = getattr(self, chance.choice(self._ways))
        return chosen

    def key(self) -> str:
        """Return a key that nobody else asks for."""
        key = f"{self._seed}:{next(self._keys)}"
        self._asked.append(key)
        return key

    def wrong(self, what: str) -> None:
        """Take note of a violation."""
        self.findings[what] += 1

    def refused(self, error: Exception) -> None:
        """Take note of an error that says that something was left."""
        self.wrong(f"{type(error).__name__}: {str(error)[:60]}")

    def look(self) -> None:
        """Look for what is left of what was acquired so far, while nobody acquires."""
        self._expect("a lock is held by nobody", lambda: not self._sees.is_locked(*NAMES))
        # An exception that strikes where another one is handled may leave its frames in a cycle.
        gc.collect()
        left, self._asked = self._asked, []

        def is_none_left() -> bool:
            # What was won here is with this caller from now on, so it is not asked for again.
            nonlocal left
            left = [key for key in left if not self._is_won(key)]
            return not left

        self._expect("a lease is with nobody", is_none_left)

    def _is_won(self, key: str) -> bool:
        return self._asks.lease(key, lease=LEFT).state is not pinyon.Outcome.FILLING

    def _expect(self, otherwise: str, condition: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > ends:
                return self.wrong(otherwise)
            time.sleep(0.01)
        return None


class Waiting(Storm):
    """Callers that wait: threads and greenlets."""

    def block(self, _: Hands, name: str) -> None:
        with self.locks.lock(name):
            pass

    def acquire(self, hands: Hands, name: str) -> None:
        hands.append(self.locks.lock(name).acquire())

    def try_lock(self, hands: Hands, name: str) -> None:
        hands.append(self.locks.try_lock(name))

    def lease(self, hands: Hands, _: str) -> None:
        hands.append(self.cache.lease(self.key(), lease=LEFT))

    def get_or_set(self, _: Hands, __: str) -> None:
        self.cache.get_or_set(self.key(), lambda: "made", ttl=LEFT, lease=LEFT)

    def give_back(self, hands: Hands) -> None:
        """Give back what a caller has, undisturbed."""
        for held in filter(None, hands):
            if isinstance(held, pinyon.Lease):
                held.give_back()
            else:
                held.release()
        hands.clear()


class Awaiting(Storm):
    """Tasks of asyncio."""

    async def block(self, _: Hands, name: str) -> None:
        async with self.locks.lock(name):
            pass

    async def acquire(self, hands: Hands, name: str) -> None:
        hands.append(await self.locks.lock(name).acquire())

    async def try_lock(self, hands: Hands, name: str) -> None:
        hands.append(await self.locks.try_lock(name))

    async def lease(self, hands: Hands, _: str) -> None:
        hands.append(await self.cache.lease(self.key(), lease=LEFT))

    async def get_or_set(self, _: Hands, __: str) -> None:
        await self.cache.get_or_set(self.key(), lambda: "made", ttl=LEFT, lease=LEFT)

    async def give_back(self, hands: Hands) -> None:
        """Give back what a caller has, undisturbed."""
        for held in filter(None, hands):
            await (held.give_back() if isinstance(held, pinyon.aio.Lease) else held.release())
        hands.clear()


def by_signals(storm: Waiting, number: int) -> None:
    """Have a handler of signals raise, in the middle of everything that the main thread does."""
    armed = False

    def handler(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Cut

    signal.signal(signal.SIGALRM, handler)
    for busy in (False, True):
        with beside_a_busy_thread() if busy else contextlib.nullcontext():
            upto = storm.counts["signals"] + number // 2
            while storm.counts["signals"] < upto:
                hands: Hands = []
                way, name = storm.way(storm.random), storm.random.choice(NAMES)
                met: Exception | None = None
                looks = False
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_REAL, 0.00001 + storm.random.random() * LONGEST)
                    try:
                        while armed and not hands:
                            way(hands, name)
                    except REFUSED as error:
                        met = error
                    armed = False
                except Cut:
                    storm.counts["signals"] += 1
                    looks = storm.counts["signals"] % EACH == 0
                storm.give_back(hands)
                if looks:
                    # Not before: while the exception is handled, its frames keep what was acquired in them.
                    storm.look()
                if met is not None:
                    storm.refused(met)
    storm.look()


class Victim(threading.Thread):
    """A thread that is struck while it acquires, and at no other time."""

    def __init__(self, storm: Waiting) -> None:
        super().__init__(daemon=True)
        self.storm = storm
        self.random = random.Random(storm.random.random())
        self.guard = threading.Lock()
        self.stops = self.armed = False

    def run(self) -> None:
        """Acquire, again and again."""
        while not self.stops:
            hands: Hands = []
            try:
                way, name = self.storm.way(self.random), self.random.choice(NAMES)
                self.armed = True
                try:
                    way(hands, name)
                except REFUSED as error:
                    self.storm.refused(error)
                with self.guard:
                    struck, self.armed = not self.armed, False
                while struck:
                    time.sleep(0.001)
            except Cut:
                self.storm.counts["exceptions"] += 1
            self.storm.give_back(hands)

    def strike(self) -> None:
        """Raise an exception in this thread, once for each time that it acquires."""
        with self.guard:
            if self.armed and self.ident is not None:
                self.armed = False
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(Cut))


def by_exceptions(storm: Waiting, number: int) -> None:
    """Have exceptions raised in threads that acquire."""
    while storm.counts["exceptions"] < number:
        upto = min(storm.counts["exceptions"] + EACH, number)
        victims = [Victim(storm) for _ in range(TOGETHER)]
        for victim in victims:
            victim.start()
        while storm.counts["exceptions"] < upto:
            time.sleep(storm.random.random() * LONGEST)
            storm.random.choice(victims).strike()
        for victim in victims:
            victim.stops = True
        for victim in victims:
            victim.join(3 * PATIENCE)
            if victim.is_alive():
                return storm.wrong("a thread does not end")
        storm.look()
    return None


@contextlib.contextmanager
def beside_a_busy_thread() -> Iterator[None]:
    """Run a thread that needs the interpreter for some milliseconds at a time, as others of a server do."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.001):
            ends = time.monotonic() + 0.002
            while time.monotonic() < ends:
                pass

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def by_tasks(storm: Awaiting, number: int) -> None:
    """Cancel tasks, and have what they wait for time out."""
    asyncio.run(_by_tasks(storm, number))


async def _by_tasks(storm: Awaiting, number: int) -> None:
    def done() -> int:
        return storm.counts["cancel"] + storm.counts["timeout"]

    while done() < number:
        upto = min(done() + EACH, number)
        await asyncio.gather(*(_wait_for_little(storm, upto, done) for _ in range(TOGETHER)))
        upto = min(done() + EACH, number)
        while done() < upto:
            tasks = [asyncio.ensure_future(_act_forever(storm)) for _ in range(TOGETHER)]
            await asyncio.sleep(storm.random.random() * LONGEST)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks)
        await asyncio.get_running_loop().run_in_executor(None, storm.look)
    storm.locks.close()
    storm.cache.close()


async def _wait_for_little(storm: Awaiting, upto: int, done: Callable[[], int]) -> None:
    while done() < upto:
        hands: Hands = []
        try:
            acquired = storm.way(storm.random)(hands, storm.random.choice(NAMES))
            await asyncio.wait_for(acquired, storm.random.random() * LONGEST)
        except asyncio.TimeoutError:
            storm.counts["timeout"] += 1
        except REFUSED as error:
            storm.refused(error)
        await storm.give_back(hands)


async def _act_forever(storm: Awaiting) -> None:
    hands: Hands = []
    try:
        while True:
            await storm.way(storm.random)(hands, storm.random.choice(NAMES))
            await storm.give_back(hands)
    except asyncio.CancelledError:
        storm.counts["cancel"] += 1
    except REFUSED as error:
        storm.refused(error)
    await storm.give_back(hands)


def by_greenlets(storm: Waiting, number: int) -> None:
    """Have greenlets time out, and kill them."""
    import gevent  # noqa: PLC0415, not every model needs it

    def act(upto: int) -> None:
        while done() < upto:
            hands: Hands = []
            try:
                with gevent.Timeout(storm.random.random() * LONGEST + 0.00001, Cut):
                    storm.way(storm.random)(hands, storm.random.choice(NAMES))
            except Cut:
                storm.counts["timeout"] += 1
            except REFUSED as error:
                storm.refused(error)
            storm.give_back(hands)

    def act_forever() -> None:
        hands: Hands = []
        try:
            while True:
                storm.way(storm.random)(hands, storm.random.choice(NAMES))
                storm.give_back(hands)
        except gevent.GreenletExit:
            storm.counts["kill"] += 1
        except REFUSED as error:
            storm.refused(error)
        storm.give_back(hands)

    def done() -> int:
        return storm.counts["kill"] + storm.counts["timeout"]

    while done() < number:
        upto = min(done() + EACH, number)
        gevent.joinall([gevent.spawn(act, upto) for _ in range(TOGETHER)], raise_error=True)
        upto = min(done() + EACH, number)
        while done() < upto:
            all_of_them = [gevent.spawn(act_forever) for _ in range(TOGETHER)]
            gevent.sleep(storm.random.random() * LONGEST)
            gevent.killall(all_of_them)
        gevent.get_hub().threadpool.apply(storm.look)


def main() -> None:
    """Carry out what the argument says."""
    settings = json.loads(sys.argv[1])
    model, number = settings["model"], settings["interrupts"]
    kind: type[Storm] = Awaiting if model == "asyncio" else Waiting
    module = importlib.import_module({"asyncio": "pinyon.aio", "gevent": "pinyon.gevent"}.get(model, "pinyon"))
    ways = settings["ways"] or ["block", "acquire", "try_lock", "lease", "get_or_set"]
    storm = kind(settings["redis"], settings["memcached"], settings["seed"], ways, module)
    MODELS[model](storm, number)
    findings = [f"{what} ({times} times)" for what, times in storm.findings.items()]
    print(json.dumps({"findings": findings[:20], "counts": storm.counts}))


MODELS: dict[str, Callable[[Any, int], None]] = {
    "python-signals": by_signals,
    "python-exceptions": by_exceptions,
    "asyncio": by_tasks,
    "gevent": by_greenlets,
}

if __name__ == "__main__":
    main()
