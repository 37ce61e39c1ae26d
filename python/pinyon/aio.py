"""The clients for asyncio and uvloop: the methods of ``pinyon.Client`` and ``pinyon.Locks``, awaited.

All tasks of an event loop share one connection to each server. What they submit in one turn of the loop leaves in one
send, and what has arrived is taken in one receive.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from pinyon import _native
from pinyon._aio_driver import LOOPS
from pinyon._aio_locks import Held, Lock, Locks
from pinyon._batch import Batch
from pinyon._closing import ClosingAwaited
from pinyon._get_or_set import get_or_set
from pinyon._steps import drive_awaiting
from pinyon.client import DEFAULT_LEASE, BaseClient
from pinyon.errors import Error, UsageError
from pinyon.leases import BaseLease
from pinyon.migration import BaseMigratingClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from pinyon._settings import SharedClientSettings

__all__ = ["Batch", "Client", "Held", "Lease", "Lock", "Locks", "MigratingClient", "migrating"]


class Lease(BaseLease):
    """What ``Client.lease`` returns: ``pinyon.Lease``, awaited."""

    __slots__ = ()

    async def fulfil(self, value: object, ttl: float | timedelta = 0) -> bool:
        won = self._won()
        if won is None:
            return False
        stored = await self._client.cas(self.key, value, won[0], ttl)  # type: ignore[misc]
        self._win = None
        return stored is True

    async def give_back(self) -> bool:
        won = self._won()
        if won is None:
            return False
        self._win = None
        return await self._client.give_back(self.key, *won)  # type: ignore[misc,no-any-return]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._win is not None:
            await self.give_back()


class _Signal:
    """Something that one task waits for."""

    def __init__(self) -> None:
        self.future = asyncio.get_running_loop().create_future()

    def set(self) -> None:
        if not self.future.done() and not self.future.get_loop().is_closed():
            self.future.set_result(None)


class _Tasks:
    """How tasks wait for each other."""

    scope = staticmethod(asyncio.get_running_loop)
    caller = staticmethod(asyncio.current_task)
    sleep = staticmethod(asyncio.sleep)
    signal = _Signal

    @staticmethod
    async def wait(signal: _Signal, seconds: float) -> None:
        await asyncio.wait([signal.future], timeout=seconds)

    @staticmethod
    def give_back(client: _native.Client, key: str | bytes, cas: int, keep: bool) -> None:
        with contextlib.suppress(Error, RuntimeError):  # the latter where the loop is over
            outcome: Any = client.give_back(key, cas, keep)
            outcome.add_done_callback(lambda over: over.cancelled() or over.exception())


class Client(BaseClient, ClosingAwaited):
    """A client for one or several memcached servers, to be shared by all tasks of all event loops of a process.

    Its methods are those of ``pinyon.Client`` and return awaitables. Each event loop has its own connections, made
    when they are first needed. Cancelling a task that waits abandons its request and nothing else: the reply is
    dropped when it comes.

    Args:
        servers: as for ``pinyon.Client``, and so are the other settings.
        connections: how many connections each loop makes to each server.
    """

    __slots__ = ()

    def __new__(cls, servers: str | Iterable[str] | None = None, **settings: Unpack[SharedClientSettings]) -> Self:
        return super().__new__(cls, servers, loops=LOOPS, **settings)

    def quiet(self) -> Batch:  # type: ignore[override]
        """Return a batch of commands whose replies are not awaited one by one."""
        return Batch(super().quiet())

    async def get_or_set(
        self,
        key: str | bytes,
        make: Callable[[], Any],
        ttl: float | timedelta,
        *,
        stale: float | timedelta = 0,
        early: float | timedelta = 0,
        lease: float | timedelta = DEFAULT_LEASE,
        wait: float | None = None,
    ) -> Any:
        """Like ``pinyon.Client.get_or_set``; ``make`` may be a coroutine function too."""
        return await drive_awaiting(get_or_set(self, _Tasks, key, make, ttl, stale, early, lease, wait))

    async def lease(
        self,
        key: str | bytes,
        *,
        lease: float | timedelta = DEFAULT_LEASE,
        recache: float | timedelta = 0,
    ) -> Lease:
        """Like ``pinyon.Client.lease``."""
        return Lease(self, key, await self.ask_lease(key, lease, recache))  # type: ignore[misc]


class MigratingClient(BaseMigratingClient, ClosingAwaited):
    """Two clients in use as one, whose methods are awaited; ``pinyon.aio.migrating`` makes one."""

    _carry_out = staticmethod(drive_awaiting)


def migrating(old: Client, new: Client, *, ttl: int | float | timedelta | None = None) -> MigratingClient:
    """Use two pools as one while a program moves from one to the other: ``pinyon.migrating`` says how.

    Args:
        old: the client of the pool that is to go.
        new: the client of the pool that is to stay.
        ttl: seconds that moved items live where the old servers are too old to say.

    Raises:
        UsageError: these are not two clients of ``pinyon.aio``, or they would write each other's keys.
    """
    for client in (old, new):
        if not isinstance(client, Client):
            raise UsageError(f"pinyon.aio.migrating takes two clients of pinyon.aio, not {client!r}")
    return MigratingClient(old, new, ttl=ttl)
