"""The locks for asyncio and uvloop. They have the methods of ``pinyon.Locks``, awaited."""

# tools/async_to_sync.py writes locks.py, the locks for threads, from this file: run `make signatures` after a change.

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from pinyon._aio_driver import LOOPS
from pinyon._aio_leader import Leader
from pinyon._aio_lock import Held, Lock, Permits, Rate
from pinyon._aio_replies import awaited_later
from pinyon._base_locks import DEFAULT_URL, BaseLocks
from pinyon._decorated import LOCKED, check_runs_inside, check_templates, filled
from pinyon._lock_status import LockOwner, LockStatus, statuses
from pinyon._once import LocksClosingAwaited, OnceAwaited
from pinyon._rate_result import RateResult
from pinyon._wanted import RareLockTerms, RareTerms, shows, usual, wanted

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import timedelta

    from typing_extensions import Unpack

    from pinyon._aio_replies import Reply
    from pinyon._wanted import WriteTerms

_Function = TypeVar("_Function", bound="Callable[..., Coroutine[Any, Any, Any]]")

__all__ = ["DEFAULT_URL", "Held", "Leader", "Lock", "LockOwner", "LockStatus", "Locks", "Permits", "Rate", "RateResult"]


class Locks(LocksClosingAwaited, BaseLocks):
    """Locks on one Redis or Valkey server, which all tasks of all event loops of a process can share.

    Its methods are those of ``pinyon.Locks``, awaited. Each event loop has its own connection. A task that is cancelled
    while it waits for a lock leaves the queue.

    Args:
        url: The server: `redis://[user[:password]@]host[:port][/database]`, `rediss://…` with TLS,
            `unix:///path[?db=database]`, `redis+cluster://host,host,host`, or
            `redis+sentinel://host,host,host/service[/database]`. Several URLs, 3 to 9 and an odd number, are
            independent servers; a majority of them holds each lock.
        label: What this program is called, such as `"web2:worker"`, for people who look who holds a lock: up to 64
            bytes. Without it they see the host.
        namespace: A prefix for the names of locks. Only locks with the same namespace exclude each other.
        prefix: What all keys and channels begin with, for a user whom the server's ACL limits to such: `"tenant:"` for
            `~tenant:*`. The namespace follows.
        hash_tags: What decides on which node of a cluster a lock is kept. `"namespace"`: all locks of a namespace are
            on one node. `"names"`: locks with the same `{tag}` in their names are on one node.
        ttl: How long a lock outlives a holder that has died, in seconds. While the holder lives, the lock is renewed.
        longest_ttl: The longest ttl that any client of these servers gives a lock, in seconds; without it, `ttl`. Only
            for several servers. One that was started a shorter time ago may have forgotten locks, and has no vote. 0
            lets servers vote at once, for tests, whose servers have no locks to forget.
        timeout: How long to wait for a lock, in seconds. 0 does not wait, infinity waits without a limit.
        reentrant: Whether a holder may acquire again what it holds.
        handler: How the server keeps locks: `"script"` by functions on the server, `"pure"` by plain commands, `"auto"`
            by the first of them that the server permits. Clients with different handlers can share locks.
        fairness: Who is next: `"fifo"`, first come, first served, for each name; or `"throughput"`, whoever finds all
            its names free. Without it, `"fifo"`; with several servers, `"throughput"`.
        replicas: How many replicas must have a lock before it counts as acquired. Too few of them in time are a
            failure, and the lock is released.
        username: The user name, instead of the one in the URL; or a function that returns it, or both, and how long
            they last. It is called before each connection, and again before they end.
        password: The password, instead of the one in the URL; or a function that returns it, or both, and how long they
            last.
        protocol: The version of Redis' protocol: 3, or 2 for servers and proxies that fail with 3. Without it, 3, or 2
            if the server refuses 3.
        heartbeat: How often a waiting client tells the server that it is alive, in seconds.
        command_timeout: How long the server may take to answer a command, in seconds.
        connect_timeout: How long a connection attempt may take, in seconds.
        on_event: A function that is called with an `Event` when the server or a Sentinel is down or up again, when
            another server takes over as the primary, and when renewals are refused.
        keepalive: How long a connection may be silent, in seconds, before the system asks whether the server is still
            there. Firewalls forget silent connections after some minutes. 0 never asks.
        keepalive_interval: The time between two such questions, in seconds, while none is answered.
        keepalive_probes: How many such questions may remain unanswered before the connection counts as lost.
        tls: `True` to speak TLS, like `rediss://`, or a `pinyon.Tls` with more settings. Without it, the URL decides.
        sentinel_username: The user name for the Sentinels, if they have users; or a function, as `username`.
        sentinel_password: The password for the Sentinels, or a function, as `password`. The user and the password in
            the URL are for the servers.
        sentinel_tls: Whether to speak TLS with the Sentinels, as `tls`. Without it, `tls` decides for them, too.

    Raises:
        UsageError: a setting cannot be used. Errors of the server come on first use.
    """

    __module__ = "pinyon.aio"
    __slots__ = ()

    _lock, _held = Lock, Held
    _loops = LOOPS

    @shows(RareLockTerms)
    def lock(
        self,
        *names: str | bytes,
        ttl: float | timedelta | None = None,
        timeout: float | timedelta | None = None,
        **rare: Unpack[RareLockTerms],
    ) -> Lock:
        """Return a lock on all these names. Use it in an ``async with`` block, or await its ``acquire``.

        Coming from redis-py: its ``timeout`` is ``ttl`` here, and its ``blocking_timeout`` is ``timeout``.

        Args:
            names: text or bytes, up to 1000 names of 1 to 1024 bytes each.
            ttl: how long the lock outlives a holder that has died, in seconds. By default, as for the client.
            timeout: how long to wait for the lock, in seconds. 0 does not wait, ``math.inf`` waits without a limit. By
                default, as for the client.
            renew: whether the lock is renewed in the background until it is released. Otherwise it expires after
                ``ttl``.
            max_hold: seconds after which the lock is no longer renewed.
            reentrant: whether a holder of these names may acquire them again. By default, as for the client.
            on_lost: called with the ``Held`` if the lock is lost.
            on_failure: ``"proceed"`` lets the block run without the lock while the servers are away, and when the lock
                is lost because of them, for work that may run twice. ``Held.is_certain`` tells. ``"raise"`` raises the
                error.
            note: what the lock is for, up to 200 bytes, for people who look who holds it or waits.
            write: names like the first ones, written: the lock has them alone.
            read: names that it reads, together with other locks that read them.
            permits: permits of pools, by the pool's name: how many, or a pair of how many and the pool's limit. Without
                the limit, the last one counts that ``permits`` was given. The lock gets all names and permits or none.
            at_least: seconds from its acquisition for which the names stay locked, even if it is released earlier. If
                its holder dies, ``ttl`` decides.

        Raises:
            InvalidName: a name is empty, too long or contains a NUL, or there are none or too many.
            UsageError: an argument makes no sense.
        """
        if not rare:
            return self._lock(self._held, self, names, ttl, timeout)
        return self._lock(self._held, self, *wanted("lock", names, ttl, timeout, rare))

    @shows(RareTerms)
    def read(
        self,
        *names: str | bytes,
        ttl: float | timedelta | None = None,
        timeout: float | timedelta | None = None,
        **rare: Unpack[RareTerms],
    ) -> Lock:
        """Return a lock that reads these names, together with other readers, while nobody writes them.

        Who comes first goes first: a writer that waits keeps later readers back.

        Args:
            names: as for ``lock``, like all further arguments.
            ttl: see there.
            timeout: see there.
            renew: see there.
            max_hold: see there.
            reentrant: see there.
            on_lost: see there.
            on_failure: see there.
            note: see there.
        """
        if not rare:
            return self._lock(self._held, self, (), ttl, timeout, names)
        return self._lock(self._held, self, (), ttl, timeout, names, None, *usual("read", rare))

    def write(self, *names: str | bytes, **settings: Unpack[WriteTerms]) -> Lock:
        """Return a lock that has these names alone, which is what ``lock`` does."""
        return self.lock(*names, **settings)

    @shows(RareTerms)
    def permits(
        self,
        name: str | bytes,
        *,
        limit: int,
        n: int = 1,
        ttl: float | timedelta | None = None,
        timeout: float | timedelta | None = None,
        **rare: Unpack[RareTerms],
    ) -> Permits:
        """Return a lock that is ``n`` of a pool's permits. At most ``limit`` of them are held at the same time.

        The permits of a holder that has died come back after its ttl. All clients should give the same limit; the
        latest counts.

        Args:
            name: the pool's name. A lock of the same name is another thing.
            limit: how many permits there are, from 1 to 1,000,000.
            n: how many of them are acquired, at most 1,000.
            ttl: as for ``lock``, like all further arguments.
            timeout: see there.
            renew: see there.
            max_hold: see there.
            reentrant: see there.
            on_lost: see there.
            on_failure: see there.
            note: see there.
        """
        if not rare:
            return Permits(self._held, self, (), ttl, timeout, None, (name, n, limit))
        return Permits(self._held, self, (), ttl, timeout, None, (name, n, limit), *usual("permits", rare))

    @shows(RareLockTerms)
    async def try_lock(
        self, *names: str | bytes, ttl: float | timedelta | None = None, **rare: Unpack[RareLockTerms]
    ) -> Held | None:
        """Acquire all names without waiting.

        Args:
            names: as for ``lock``, like all further arguments.
            ttl: see there.
            renew: see there.
            max_hold: see there.
            reentrant: see there.
            on_lost: see there.
            on_failure: see there.
            note: see there.
            write: see there.
            read: see there.
            permits: see there.
            at_least: see there.

        Returns:
            What is held, or None if any of the names is not free, or the permits are taken.
        """
        lock = self._lock(self._held, self, *wanted("try_lock", names, ttl, None, rare))
        if True:  # ASYNC
            return await lock._acquire(True, None)
        else:
            try:
                taken: Held | None = lock._take(True, None)
                return taken
            except BaseException:  # as in `Lock.acquire`
                lock._untake()
                raise

    def once(
        self,
        *names: str | bytes,
        per: float | timedelta,
        ttl: float | timedelta | None = None,
        on_lost: Callable[[Held], object] | None = None,
    ) -> OnceAwaited[Held]:
        """Return a job that runs once per period on all machines. Use it in an ``async with`` block, or as a decorator.

        >>> async with locks.once("nightly", per=82800) as held:
        ...     if held:
        ...         await report()

        The first caller in a period runs the job; for others, the block gets None. If the job raises an exception, its
        names are free at once, and if its process dies, after ``ttl``: then another caller runs it. A period begins
        when the job begins, whatever the clocks of the machines say. So let ``per`` be a little shorter than the
        interval at which the job is started.

        Args:
            names: as for ``lock``.
            per: seconds in which the job runs once.
            ttl: as for ``lock``. While the job runs, its lock is renewed.
            on_lost: as for ``lock``.

        Raises:
            UsageError: an argument makes no sense, or the locks are on a quorum of servers.
        """
        rare: RareLockTerms = {"at_least": per, "reentrant": False, "on_lost": on_lost}
        return OnceAwaited(self._lock(self._held, self, *wanted("once", names, ttl, None, rare)))

    def leader(
        self,
        name: str | bytes,
        *,
        on_elected: Callable[[int], object] | None = None,
        on_lost: Callable[[int], object] | None = None,
        ttl: float | timedelta | None = None,
    ) -> Leader[Held]:
        """Return a candidate for the leadership of a name. Use it in an ``async with`` block, or call its ``start``.

        >>> async with locks.leader("scheduler", on_elected=schedule) as leader:
        ...     await serve()

        At most one candidate of all processes leads: the one that has the lock on the name. It leads until it resigns,
        stops, ends or loses the lock. If its process dies, another one leads after ``ttl``. A callback that raises an
        exception makes it resign.

        Args:
            name: as for ``lock``.
            on_elected: called with the fencing token when it leads from now on. If it is a coroutine function, the
                coroutine runs in a task of its own, which is cancelled when the leadership ends.
            on_lost: called with the same token when the leadership has ended, for whatever reason, after ``on_elected``
                has returned. A lock that is not lost is released afterwards, so the next leader begins later. It may be
                a coroutine function.
            ttl: as for ``lock``.

        Raises:
            InvalidName: the name is empty, too long or contains a NUL.
            UsageError: an argument makes no sense.
        """
        return Leader(self, name, on_elected, on_lost, ttl)

    def adopt(
        self,
        ticket: str,
        ttl: float | timedelta | None = None,
        timeout: float | timedelta | None = None,
        renew: bool = True,
        max_hold: float | timedelta | None = None,
        on_lost: Callable[[Held], object] | None = None,
        note: str | None = None,
    ) -> Lock:
        """Return a lock that another process has handed over. An ``async with`` block, or ``acquire``, takes it over.

        Args:
            ticket: the text that ``Held.hand_over`` returned there. It works once.
            ttl: as for ``lock``, like all further arguments.
            timeout: how long the server may take, with a new connection if needed, in seconds.
            renew: see there.
            max_hold: see there.
            on_lost: see there.
            note: as for ``lock``. By default, that of the lock that was handed over.

        Raises:
            UsageError: this is no ticket, or one of another namespace.
            LockLost: in the block: the ticket was used before, or the lock has ended.
        """
        terms = (ttl, timeout, None, None, renew, max_hold, False, on_lost, "raise", note, None, ticket)
        return self._lock(self._held, self, (), *terms)

    async def release_all(self, timeout: float | timedelta | None = None) -> int:
        """Release all locks that the running event loop holds, whichever task has acquired them.

        Their holders have lost them: ``on_lost`` is called, and blocks raise ``LockLost`` at their end. Releases that
        are not answered in time go on in the background.

        Args:
            timeout: seconds to wait for the answers. By default, ``command_timeout``.

        Returns:
            How many were released.
        """
        all_released = 0
        for released in self._release_all(timeout):
            all_released += await released
        return all_released

    def synchronized(self, *templates: str, **settings: Any) -> Callable[[_Function], _Function]:
        """Decorate a coroutine function: names made of its arguments are locked while it runs.

        Args:
            templates: names with the function's arguments in braces, such as ``"report:{user_id}"``.
            settings: the arguments of ``lock``.

        Raises:
            UsageError: a template needs an argument that the function does not have, or the function is not a coroutine
                function.
        """
        check_templates(templates, LOCKED)

        def decorate(function: _Function) -> _Function:
            check_runs_inside(function, LOCKED, awaited=True)
            names_of = filled(templates, function)

            @functools.wraps(function)
            async def locked(*arguments: Any, **keywords: Any) -> Any:
                async with self.lock(*names_of(arguments, keywords), **settings):
                    return await function(*arguments, **keywords)

            return locked  # type: ignore[return-value]

        return decorate

    def rate(self, name: str | bytes, *, limit: int, per: float | timedelta, burst: int | None = None) -> Rate:
        """Return a rate: how many permits a name gives in a time, counted on the server for all processes.

        It gives a permit every ``per / limit`` seconds. If none was taken for a while, it gives up to ``burst`` at
        once.

        Args:
            name: text or bytes. Locks of the same name are something else.
            limit: how many permits it gives in ``per`` seconds.
            per: seconds, or a timedelta.
            burst: how many permits it gives at once. By default, ``limit``.

        Raises:
            InvalidName: the name is empty, too long or contains a NUL.
            UsageError: a number makes no sense.
        """
        rate = Rate(self, name, limit, per, burst)
        rate._locks = self
        return rate

    async def status(self, *names: str | bytes) -> list[LockStatus]:
        """Ask the server for the state of each of these names: who holds it and who waits for it."""
        return statuses(names, await self._inspect(names, "each"))

    async def is_locked(self, *names: str | bytes) -> bool:
        """Ask the server whether any of these names is held, by this process or another one."""
        locked: bool = await self._inspect(names, "is_locked")
        return locked

    async def owner(self, *names: str | bytes) -> str | None:
        """Ask the server who holds the first of these names that is held.

        Returns:
            The holder as ``client:owner:number``, or None if none of the names is held.
        """
        owner: str | None = await self._inspect(names, "first_owner")
        return owner

    async def waiting(self, *names: str | bytes) -> int:
        """Ask the server how many attempts wait for any of these names."""
        waiting: int = await self._inspect(names, "waiting")
        return waiting

    @awaited_later
    def force_release(self, *names: str | bytes, token: int | None = None) -> Reply[int]:
        """Release these names, no matter who holds them. The holders learn that they have lost the lock.

        Args:
            names: text or bytes.
            token: release a name only if its holder has this token.

        Returns:
            A future of how many names were held.
        """
        released: Reply[int] = self._take_away(names, token)
        return released

    @awaited_later
    def execute(self, *parts: str | bytes | int | float) -> Reply[Any]:
        """Send a command on the connection of the locks, like ``pinyon.Locks.execute``.

        Args:
            parts: the command's name and arguments.

        Returns:
            A future of the reply.
        """
        reply: Reply[Any] = self._command(parts)
        return reply
