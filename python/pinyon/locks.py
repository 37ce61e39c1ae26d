"""Locks that processes share: kept by a Redis or Valkey server, several names at once, first come, first served.

>>> locks = pinyon.Locks("redis://127.0.0.1:6379/0", namespace="app")
>>> with locks.lock("account:1", "account:2", ttl=10, timeout=5) as held:
...     transfer(fence=held.token)
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from pinyon import _native
from pinyon._base_locks import DEFAULT_URL, BaseLocks
from pinyon._closing import Closing
from pinyon._gevent_choice import undecided
from pinyon._held import BaseHeld, BaseLock, at_least_one
from pinyon._lock_status import LockStatus
from pinyon._synchronized import check_runs_inside, check_templates, filled

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from pinyon._settings import LockSettings

_Function = TypeVar("_Function", bound=Callable[..., Any])

__all__ = ["DEFAULT_URL", "Held", "Lock", "LockStatus", "Locks"]


class Held(BaseHeld):
    """A lock that is held: all its names, until it is given back or lost."""

    __slots__ = ()

    def release(self) -> bool:
        """Give it back. Return whether it was held to the end; False also when it was given back before."""
        held: bool = self._release()
        return held

    def extend(self, ttl: float | timedelta) -> bool:
        """Let it last for ``ttl`` seconds from now. Return whether it is held still."""
        held: bool = self._extend(ttl)
        return held

    def wait(self, timeout: float | None = None) -> bool:
        """Give the names back until somebody who holds them notifies, then take them again.

        However often they are held (``reentrant``), they are given back, and then held as often again.
        Returns whether it was notified; False when ``timeout`` seconds passed before. As with any condition, look
        again whether what was waited for is so. Raises ``LockTimeout`` when the names cannot be had again within
        the lock's own timeout, or a second if that is longer, and ``LockLost`` when they are not held.
        """
        notified: bool = self._park(timeout)
        return notified

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until ``predicate()`` is true, and return what it gave; what it gave last when ``timeout`` passed."""
        until = None if timeout is None else time.monotonic() + timeout
        while not (given := predicate()):
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return given

    def notify(self, count: int = 1) -> int:
        """Let ``count`` of those that wait on exactly these names go on, once this lock is given back."""
        notified: int = self._notify(at_least_one("count", count))
        return notified

    def notify_all(self) -> int:
        """Let all that wait on exactly these names go on, one after the other, once this lock is given back."""
        notified: int = self._notify(0)
        return notified


class Lock(BaseLock):
    """Names to be locked, and how: ``with locks.lock("a", "b") as held: …``."""

    __slots__ = ()

    _held = Held

    def acquire(self) -> Held:
        """Take all names and return what is held. Raises ``LockTimeout`` when they are not to be had in time."""
        held = Held(self)
        if self._on_lost is not None:
            held.on_lost(self._on_lost)
        return held

    if TYPE_CHECKING:

        def __enter__(self) -> Held: ...

        def __exit__(
            self,
            kind: type[BaseException] | None,
            exception: BaseException | None,
            traceback: TracebackType | None,
        ) -> None: ...

    else:
        __enter__ = _native.Lock._take_by_with
        __exit__ = _native.Lock._give_back_by_with

    def __call__(self, function: _Function) -> _Function:
        """Decorate a function: it runs while the names are locked."""
        check_runs_inside(function, awaited=False)

        @functools.wraps(function)
        def locked(*arguments: Any, **keywords: Any) -> Any:
            with self:
                return function(*arguments, **keywords)

        return locked  # type: ignore[return-value]


class Locks(BaseLocks, Closing):
    """Locks on one Redis or Valkey server, to be shared by all threads of a process.

    It connects when it is first used, and again whenever it has to; threads share one connection. A process that
    forks has nothing to call: the child begins without the parent's locks.

    Args:
        url: ``redis://[user[:password]@]host[:port][/database]``, with TLS ``rediss://``, or
            ``unix:///path[?db=database]``.
        namespace: locks of one namespace know each other.
        hash_tags: by what a cluster chooses the node of a lock: ``"namespace"`` keeps all of a namespace together,
            ``"names"`` those whose names have the same ``{tag}``.
        ttl: how many seconds a lock outlives its holder; while the holder lives it is renewed, unless told otherwise.
        timeout: how many seconds to wait for a lock, where nothing else is said; ``math.inf`` waits for ever.
        reentrant: whether a thread may take again what it holds.
        handler: ``"script"`` keeps locks by functions on the server, ``"pure"`` by plain commands; ``"auto"`` takes the
            first that the server permits. They may be mixed.
        fairness: ``"fifo"``: first come, first served, for each name; ``"throughput"``: whoever finds all its names
            free.
        username, password: where the URL is not to have them.
        heartbeat: after how many seconds a waiter says that it is alive, if nothing makes it speak before.
        command_timeout: how many seconds the server may take to answer.
        connect_timeout: how many seconds a connection may take.
        tls: a ``pinyon.Tls`` that says whom to trust; ``True`` is the same as ``rediss://``.

    Raises:
        UsageError: for arguments that make no sense. What a server says comes when it is first needed.
    """

    __slots__ = ()

    _owner = staticmethod(_native.thread_number)

    def __new__(cls, url: str = DEFAULT_URL, **settings: Unpack[LockSettings]) -> Self:
        return super().__new__(_UndecidedLocks if cls is Locks else cls, url, **settings)

    def lock(
        self,
        *names: str | bytes,
        ttl: float | timedelta | None = None,
        timeout: float | timedelta | None = None,
        renew: bool = True,
        max_hold: float | timedelta | None = None,
        reentrant: bool | None = None,
        on_lost: Callable[[Held], object] | None = None,
    ) -> Lock:
        """Return a lock on all these names, for ``with``; or call its ``acquire``.

        Args:
            names: up to 1000, each of 1 to 1024 bytes.
            ttl: seconds that it outlives its holder.
            timeout: seconds to wait for it; 0 asks once, ``math.inf`` waits for ever.
            renew: whether it is prolonged, from the background, until it is given back.
            max_hold: seconds after which it is not prolonged any more.
            reentrant: whether a holder of these names may take them again.
            on_lost: called with what was held if it is lost.
        """
        return Lock(self, names, ttl, timeout, renew, max_hold, reentrant, on_lost)

    def try_lock(
        self,
        *names: str | bytes,
        ttl: float | timedelta | None = None,
        renew: bool = True,
        max_hold: float | timedelta | None = None,
        reentrant: bool | None = None,
        on_lost: Callable[[Held], object] | None = None,
    ) -> Held | None:
        """Take all names at once, or return None."""
        held = Held(Lock(self, names, ttl, None, renew, max_hold, reentrant, on_lost), True)
        if held._answer() is None:
            return None
        if on_lost is not None:
            held.on_lost(on_lost)
        return held

    def synchronized(self, *templates: str, **settings: Any) -> Callable[[_Function], _Function]:
        """Decorate a function: it runs while names made of its arguments are locked, as ``"report:{user_id}"``.

        ``settings`` are those of :meth:`lock`.
        """
        check_templates(templates)

        def decorate(function: _Function) -> _Function:
            check_runs_inside(function, awaited=False)
            names_of = filled(templates, function)

            @functools.wraps(function)
            def locked(*arguments: Any, **keywords: Any) -> Any:
                with self.lock(*names_of(arguments, keywords), **settings):
                    return function(*arguments, **keywords)

            return locked  # type: ignore[return-value]

        return decorate

    def status(self, *names: str | bytes) -> list[LockStatus]:
        """Return how each of these names stands."""
        statuses: list[LockStatus] = self._inspect(names, "each")
        return statuses

    def is_locked(self, *names: str | bytes) -> bool:
        """Return whether any of these names is held, by whomever."""
        locked: bool = self._inspect(names, "is_locked")
        return locked

    def owner(self, *names: str | bytes) -> str | None:
        """Return who holds the first of these names that is held: ``client:owner:number``."""
        owner: str | None = self._inspect(names, "first_owner")
        return owner

    def waiting(self, *names: str | bytes) -> int:
        """Return how many wait for any of these names."""
        waiting: int = self._inspect(names, "waiting")
        return waiting

    def force_release(self, *names: str | bytes, token: int | None = None) -> int:
        """Take these names from whoever holds them; the holders are told. Return how many were held.

        ``token``: only where the holder's is this one.
        """
        released: int = self.take_away(names, token)
        return released

    def execute(self, *parts: str | bytes | int | float) -> Any:
        """Send any command on the same connection, and return the reply: bytes for what is stored, text for ``OK``.

        Not those that change what the connection is: ``SUBSCRIBE``, ``MULTI``, ``WATCH``, ``SELECT`` and the like.
        """
        return self.command(parts)


#: What every use comes to; making locks, or decorating with them, is not yet a use.
USES = frozenset(("_owner", "_inspect", "take_away", "command"))

_UndecidedLocks = undecided(Locks, USES, "Locks")
