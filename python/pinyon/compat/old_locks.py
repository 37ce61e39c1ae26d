"""Locks that clients of redlock-py, redis-py and the like respect, while programs are migrated to Pinyon.

Old clients keep a lock under a key of their own, and do not see Pinyon's. A lock of `OldKeys` is both: a lock of
Pinyon, and the old client's key with a value of its own. So it excludes both kinds of client.

>>> locks = pinyon.Locks("redis://127.0.0.1:6379/0", namespace="app")
>>> both = OldKeys(locks)
>>> with both.lock("report", ttl=30, timeout=5) as held:
...     held.token > 0
True
"""

from __future__ import annotations

import random
import secrets
import time
from typing import TYPE_CHECKING, Any, Union

from pinyon._aio_locks import Locks as AioLocks
from pinyon._base_locks import BaseLocks
from pinyon._steps import drive, drive_awaiting
from pinyon._waits import waits_of
from pinyon.errors import Error, LockLost, LockTimeout, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from types import TracebackType

    from pinyon._steps import Steps

__all__ = ["Both", "HeldBoth", "OldKeys"]

_RELEASE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0'
_EXTEND = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0'

#: Old clients do not tell when they release, so their key is tried again after so many seconds, and a part by chance.
_PAUSE = 0.05


class OldKeys:
    """Makes locks that old clients respect, with a ``Locks`` of threads, gevent or asyncio.

    A lock is held for ``ttl`` at most, since old clients hold so: extend it if you need it longer. Only one server, or
    a majority of them, decides; a failover can lose old keys as it can for old clients.

    Args:
        locks: acquires Pinyon's part of each lock.
        key: the old client's key of a lock. ``"{name}"`` for redlock-py, aioredlock, node-redlock and redis-py;
            ``"redlock:{name}"`` for pottery.
        servers: a ``Locks`` for each server that the old clients use, if they are several. By default, the old keys are
            on the server of ``locks``.

    Raises:
        UsageError: an argument makes no sense.
    """

    def __init__(self, locks: BaseLocks, *, key: str = "{name}", servers: Iterable[BaseLocks] | None = None) -> None:
        self._locks: Any = locks
        self._servers: list[Any] = [locks] if servers is None else [*servers]
        if "{name}" not in key:
            raise UsageError(f"key is the old client's key, with {{name}} for the lock's name, not {key!r}")
        if not self._servers or any(isinstance(each, AioLocks) != self._awaits for each in self._servers):
            raise UsageError("servers is a list of Locks of the same kind as locks")
        self._key = key

    @property
    def _awaits(self) -> bool:
        return isinstance(self._locks, AioLocks)

    def lock(self, name: str, *, ttl: float | None = None, timeout: float | None = None) -> Both:
        """Return a lock for a ``with`` block, or for ``async with`` in asyncio.

        Args:
            name: the name for Pinyon, and in the old client's key.
            ttl: how long it is held at most, in seconds; 10 by default.
            timeout: how long to wait for it, in seconds; 10 by default.
        """
        return Both(self, name, 10.0 if ttl is None else ttl, 10.0 if timeout is None else timeout)

    def _sleep(self, seconds: float) -> Any:
        return waits_of(self._locks).sleep(seconds)

    def _carry_out(self, steps: Steps) -> Any:
        return drive_awaiting(steps) if self._awaits else drive(steps)


class Both:
    """A lock that is to be acquired: ``with`` or ``async with`` acquires and releases it."""

    def __init__(self, keys: OldKeys, name: str, ttl: float, timeout: float) -> None:
        self._keys = keys
        self._name = name
        self._ttl = ttl
        self._timeout = timeout
        self._held: HeldBoth | None = None

    def acquire(self) -> Union[HeldBoth, Coroutine[Any, Any, HeldBoth]]:  # noqa: UP007 - evaluated in Python 3.9
        """Acquire it; await this in asyncio.

        Raises:
            LockTimeout: clients of Pinyon or old ones hold it.
        """
        acquired: HeldBoth = self._keys._carry_out(self._steps())
        return acquired

    def _steps(self) -> Steps:
        deadline = time.monotonic() + self._timeout
        keys = self._keys
        held = yield keys._locks.lock(self._name, ttl=self._ttl, timeout=self._timeout).acquire()
        both = HeldBoth(keys, self._name, held)
        try:
            while not (yield from both._take(self._ttl)):
                if time.monotonic() >= deadline:
                    text = f"{keys._locks.server}: the lock {self._name!r} is held by a client of another library"
                    raise LockTimeout(text)
                yield keys._sleep(_PAUSE * random.uniform(0.5, 1.5))
        except BaseException:
            yield held.release()
            raise
        return both

    def __enter__(self) -> HeldBoth:
        if self._keys._awaits:
            raise UsageError("with asyncio, write: async with")
        self._held = drive(self._steps())
        return self._held

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        held, self._held = self._held, None
        if held is not None:
            drive(held._end(failed=kind is not None))

    async def __aenter__(self) -> HeldBoth:
        self._held = await drive_awaiting(self._steps())
        return self._held

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        held, self._held = self._held, None
        if held is not None:
            await drive_awaiting(held._end(failed=kind is not None))


class HeldBoth:
    """A lock that is held against clients of Pinyon and old ones.

    Attributes:
        name: its name.
        token: Pinyon's fencing token. Old clients have none, so it says nothing about them.
    """

    def __init__(self, keys: OldKeys, name: str, held: Any) -> None:
        self.name = name
        self.token: int = held.token
        self._keys = keys
        self._held = held
        self._key = keys._key.replace("{name}", name)
        self._value = secrets.token_hex(20)
        self._until = 0.0

    def remaining(self) -> float:
        """Return how many seconds it is still held; 0 if it is not."""
        left: float = min(self._held.remaining(), self._until - time.monotonic())
        return max(left, 0.0)

    @property
    def is_lost(self) -> bool:
        """Whether it is not held any more. This contacts no server."""
        return self.remaining() == 0

    def check(self) -> None:
        """Raise ``LockLost`` if it is not held any more."""
        if self.is_lost:
            raise LockLost(f"the lock {self.name!r} is no longer held: its ttl has passed, or it was released")

    def extend(self, ttl: float) -> Any:
        """Hold it for ``ttl`` seconds from now; await this in asyncio.

        Returns:
            Whether it is still held.
        """
        return self._keys._carry_out(self._extended(ttl))

    def release(self) -> Any:
        """Release it; await this in asyncio.

        Returns:
            Whether it was held until now.
        """
        return self._keys._carry_out(self._released())

    def _take(self, ttl: float) -> Steps:
        """Take the old key, where a majority of the servers gives it. Return whether they did."""
        begun = time.monotonic()
        taken = yield from self._asked("SET", self._key, self._value, "NX", "PX", _milliseconds(ttl))
        if self._is_majority(taken, lambda answer: answer is not None):
            self._until = begun + _believed(ttl)
            if not self.is_lost:
                return True
        self._until = 0.0
        yield from self._asked("EVAL", _RELEASE, 1, self._key, self._value)
        failures = [answer for answer in taken if isinstance(answer, Error)]
        if len(failures) > len(taken) // 2:
            raise failures[0]
        return False

    def _extended(self, ttl: float) -> Steps:
        if self.is_lost:
            return False
        begun = time.monotonic()
        answers = yield from self._asked("EVAL", _EXTEND, 1, self._key, self._value, _milliseconds(ttl))
        if not self._is_majority(answers, lambda answer: answer == 1):
            return False
        self._until = begun + _believed(ttl)
        return not self.is_lost

    def _released(self) -> Steps:
        was_held = not self.is_lost
        self._until = 0.0
        # The old key first: whoever then gets Pinyon's lock can take it.
        answers = yield from self._asked("EVAL", _RELEASE, 1, self._key, self._value)
        released = yield self._held.release()
        return bool(released) and was_held and self._is_majority(answers, lambda answer: answer == 1)

    def _end(self, *, failed: bool) -> Steps:
        was_held = yield from self._released()
        if not was_held and not failed:
            raise LockLost(f"the lock {self.name!r} was lost before it was released: its ttl passed, or it was deleted")

    def _asked(self, *parts: str | int) -> Steps:
        """Send a command to all servers, and return their answers and errors."""
        answers: list[Any] = []
        for server in self._keys._servers:
            try:
                answers.append((yield server.execute(*parts)))
            except Error as error:
                answers.append(error)
        return answers

    def _is_majority(self, answers: list[Any], is_good: Callable[[Any], bool]) -> bool:
        good = sum(not isinstance(answer, Error) and is_good(answer) for answer in answers)
        return good > len(answers) // 2


def _milliseconds(ttl: float) -> int:
    return max(int(ttl * 1000), 1)


def _believed(ttl: float) -> float:
    """Return for how long it is believed: clocks of servers may run fast by one percent, and expire early."""
    return ttl * 0.99 - 0.002
