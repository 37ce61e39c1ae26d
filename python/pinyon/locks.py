"""Locks that processes share: kept by a Redis or Valkey server, several names at once, first come, first served.

>>> locks = pinyon.Locks("redis://127.0.0.1:6379/0", namespace="app")
>>> with locks.lock("account:1", "account:2", ttl=10, timeout=5) as held:
...     transfer(fence=held.token)
"""

from __future__ import annotations

import functools
import inspect
import logging
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, TypeVar

from pinyon import _native
from pinyon._gevent_choice import undecided
from pinyon._keeper import Keeper
from pinyon._owners import Owners, current_thread
from pinyon._redis_url import parse_url
from pinyon.errors import LockLost, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_Function = TypeVar("_Function", bound=Callable[..., Any])

DEFAULT_URL = "redis://127.0.0.1:6379/0"
_logger = logging.getLogger("pinyon.locks")


class LockStatus(NamedTuple):
    """How one name stands.

    Attributes:
        name: as it was asked for.
        holder: who has it: ``client:owner:number``; None when nobody does.
        token: the holder's fencing token; None when nobody has it, or a client without scripts does.
        remaining: seconds until it ends, if nothing prolongs it.
        waiting: those that wait for it, in order.
    """

    name: str | bytes
    holder: str | None
    token: int | None
    remaining: float | None
    waiting: list[str]


class BaseHeld:
    """A lock that is held: all its names, until it is given back or lost."""

    __slots__ = ("__weakref__", "_grant", "_timeout", "names")

    def __init__(self, grant: _native.Grant, names: tuple[str | bytes, ...], timeout: float) -> None:
        self._grant = grant
        self._timeout = timeout
        #: The names, as they were asked for.
        self.names = names

    @property
    def token(self) -> int:
        """The fencing token: higher than that of any earlier lock on any of the names.

        Whatever is written under the lock can refuse writers with lower tokens: a holder that was stopped for longer
        than the ttl does not know that it has lost the lock.
        """
        return self._grant.token

    @property
    def token_bytes(self) -> bytes:
        """The token as 16 hexadecimal digits, which sort as the numbers do."""
        return b"%016x" % self._grant.token

    @property
    def is_lost(self) -> bool:
        """Whether it is not held any more, as far as this process can know."""
        return self._grant.remaining() is None

    def remaining(self) -> float:
        """Return the seconds that it is held still, if nothing prolongs it; 0 when it is not held."""
        return self._grant.remaining() or 0.0

    def check(self) -> None:
        """Raise ``LockLost`` unless it is held still."""
        if self._grant.remaining() is None:
            why = self._grant.lost or "it was given back, or its ttl has passed"
            raise LockLost(f"the lock on {_listed(self.names)} is not held any more: {why}")

    def on_lost(self, callback: Callable[[Self], object]) -> None:
        """Call ``callback(held)`` once if it is lost: its ttl passed, it was deleted, or released by force.

        Threads are told by a thread of Pinyon's own, coroutines by their loop.
        """
        self._grant.on_lost(functools.partial(callback, self))

    def __repr__(self) -> str:
        state = f"{self.remaining():.3f} s left" if not self.is_lost else "not held"
        return f"<{type(self).__module__}.{type(self).__qualname__} {_listed(self.names)}, token {self.token}, {state}>"


class Held(BaseHeld):
    """A lock that is held: all its names, until it is given back or lost."""

    __slots__ = ()

    def release(self) -> bool:
        """Give it back. Return whether it was held to the end; False also when it was given back before."""
        return self._grant.release()  # type: ignore[return-value]

    def extend(self, ttl: float) -> bool:
        """Let it last for ``ttl`` seconds from now. Return whether it is held still."""
        return self._grant.extend(ttl)  # type: ignore[return-value]

    def wait(self, timeout: float | None = None) -> bool:
        """Give the names back until somebody who holds them notifies, then take them again.

        Returns whether it was notified; False when ``timeout`` seconds passed before. As with any condition, look
        again whether what was waited for is so. Raises ``LockTimeout`` when the names cannot be had again within
        the lock's own timeout.
        """
        return self._grant.park(timeout, self._timeout)  # type: ignore[return-value]

    def notify(self, count: int = 1) -> int:
        """Let ``count`` of those that wait on exactly these names go on, once this lock is given back."""
        return self._grant.notify(positive("count", count))  # type: ignore[return-value]

    def notify_all(self) -> int:
        """Let all that wait on exactly these names go on, one after the other, once this lock is given back."""
        return self._grant.notify(0)  # type: ignore[return-value]


class BaseLock:
    """Names to be locked, and how; made by ``Locks.lock``. It can be used again and again, and by many at once."""

    __slots__ = ("_arguments", "_held", "_locks", "_on_lost", "_timeout", "names")

    def __init__(
        self,
        locks: BaseLocks,
        names: tuple[str | bytes, ...],
        timeout: float,
        on_lost: Callable[[Any], object] | None,
        arguments: dict[str, Any],
    ) -> None:
        self._locks = locks
        self.names = names
        self._timeout = timeout
        self._on_lost = on_lost
        self._arguments = arguments
        #: What is held by ``with``, for each owner.
        self._held: dict[int, list[Any]] = {}

    def _made(self, kind: type[Any], grant: _native.Grant) -> Any:
        held = kind(grant, self.names, self._timeout)
        if self._on_lost is not None:
            held.on_lost(self._on_lost)
        return held

    def _entered(self, owner: int, held: Any) -> None:
        self._held.setdefault(owner, []).append(held)

    def _left(self) -> Any:
        owner = self._locks._owner()
        stack = self._held[owner]
        held = stack.pop()
        if not stack:
            del self._held[owner]
        return held

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} on {_listed(self.names)}>"


class Lock(BaseLock):
    """Names to be locked, and how: ``with locks.lock("a", "b") as held: …``."""

    __slots__ = ()

    def acquire(self) -> Held:
        """Take all names and return what is held. Raises ``LockTimeout`` when they are not to be had in time."""
        grant = self._locks.take(self.names, owner=self._locks._owner(), wait=self._timeout, **self._arguments)
        return self._made(Held, grant)  # type: ignore[no-any-return]

    def __enter__(self) -> Held:
        held = self.acquire()
        self._entered(self._locks._owner(), held)
        return held

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        held = self._left()
        try:
            kept = held.release()
        except Exception:
            if exception is None:
                raise
            return
        if not kept and exception is None:
            raise LockLost(lost_inside(held))

    def __call__(self, function: _Function) -> _Function:
        """Decorate a function: it runs while the names are locked."""

        @functools.wraps(function)
        def locked(*arguments: Any, **keywords: Any) -> Any:
            with self:
                return function(*arguments, **keywords)

        return locked  # type: ignore[return-value]


class BaseLocks(_native.Locks):
    """What the locks of all concurrency models have in common; use one of those."""

    __slots__ = ("__weakref__", "_owners", "_ttl", "_timeout", "_reentrant")

    #: What holds and waits: threads, greenlets or tasks.
    _current: Callable[[], Any] = staticmethod(current_thread)

    def __new__(
        cls,
        url: str = DEFAULT_URL,
        *,
        namespace: str | bytes = "pinyon",
        ttl: float = 10.0,
        timeout: float = 10.0,
        reentrant: bool = False,
        handler: str = "auto",
        fairness: str = "fifo",
        username: str | None = None,
        password: str | bytes | None = None,
        heartbeat: float = 5.0,
        command_timeout: float = 2.0,
        connect_timeout: float = 1.0,
        loops: tuple[Callable[[], Any], Callable[[Any], Any]] | None = None,
    ) -> Self:
        place = parse_url(url)
        locks = super().__new__(
            cls,
            server=place.server,
            host=place.host,
            port=place.port,
            path=place.path,
            user=username if username is not None else place.user,
            password=password if password is not None else place.password,
            database=place.database,
            namespace=namespace,
            handler=handler,
            fairness=fairness,
            heartbeat=heartbeat,
            command_timeout=command_timeout,
            connect_timeout=connect_timeout,
            warn=_logger.warning,
            loops=loops,
        )
        locks._owners = Owners()
        locks._ttl = ttl
        locks._timeout = timeout
        locks._reentrant = reentrant
        return locks

    if not TYPE_CHECKING:

        def __init__(self, *arguments: object, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    def _owner(self) -> int:
        return self._owners.number_of(self._current())

    def _arguments(
        self, ttl: float | None, renew: bool, max_hold: float | None, reentrant: bool | None
    ) -> dict[str, Any]:
        return {
            "ttl": self._ttl if ttl is None else ttl,
            "renewal": renew if max_hold is None or not renew else max_hold,
            "reentrant": self._reentrant if reentrant is None else reentrant,
        }

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else self.server
        namespace = self.prefix[1:-2].decode("utf-8", "replace")
        return f"<{type(self).__module__}.{type(self).__qualname__} {state}, namespace {namespace!r}>"


class Locks(BaseLocks):
    """Locks on one Redis or Valkey server, to be shared by all threads of a process.

    It connects when it is first used, and again whenever it has to; threads share one connection. A process that
    forks has nothing to call: the child begins without the parent's locks.

    Args:
        url: ``redis://[user[:password]@]host[:port][/database]`` or ``unix:///path[?db=database]``.
        namespace: locks of one namespace know each other; its keys share a hash tag, so a cluster keeps them together.
        ttl: how many seconds a lock outlives its holder; while the holder lives it is renewed, unless told otherwise.
        timeout: how many seconds to wait for a lock, where nothing else is said; ``math.inf`` waits for ever.
        reentrant: whether a thread may take again what it holds.
        handler: ``"script"`` keeps locks by functions on the server, ``"pure"`` by plain commands; ``"auto"`` takes the
            first that the server permits. They may be mixed.
        fairness: ``"fifo"``: first come, first served, for each name; ``"throughput"``: whoever finds all its names free.
        username, password: where the URL is not to have them.
        heartbeat: after how many seconds a waiter says that it is alive, if nothing makes it speak before.
        command_timeout: how many seconds the server may take to answer.
        connect_timeout: how many seconds a connection may take.

    Raises:
        UsageError: for arguments that make no sense. What a server says comes when it is first needed.
    """

    __slots__ = ("_keeper",)

    def __new__(cls, url: str = DEFAULT_URL, **settings: Any) -> Self:
        locks = super().__new__(_UndecidedLocks if cls is Locks else cls, url, **settings)
        locks._keeper = Keeper(locks, _logger.warning)
        return locks  # type: ignore[return-value]

    def lock(
        self,
        *names: str | bytes,
        ttl: float | None = None,
        timeout: float | None = None,
        renew: bool = True,
        max_hold: float | None = None,
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
        return Lock(
            self,
            names,
            self._timeout if timeout is None else timeout,
            on_lost,
            self._arguments(ttl, renew, max_hold, reentrant),
        )

    def try_lock(
        self,
        *names: str | bytes,
        ttl: float | None = None,
        renew: bool = True,
        max_hold: float | None = None,
        reentrant: bool | None = None,
        on_lost: Callable[[Held], object] | None = None,
    ) -> Held | None:
        """Take all names at once, or return None."""
        arguments = self._arguments(ttl, renew, max_hold, reentrant)
        grant = self.take(names, owner=self._owner(), wait=None, **arguments)
        if grant is None:
            return None
        return Lock(self, names, self._timeout, on_lost, arguments)._made(Held, grant)  # type: ignore[no-any-return]

    def synchronized(self, *templates: str, **settings: Any) -> Callable[[_Function], _Function]:
        """Decorate a function: it runs while names made of its arguments are locked, as ``"report:{user_id}"``.

        ``settings`` are those of :meth:`lock`.
        """

        def decorate(function: _Function) -> _Function:
            names_of = filled(templates, function)

            @functools.wraps(function)
            def locked(*arguments: Any, **keywords: Any) -> Any:
                with self.lock(*names_of(arguments, keywords), **settings):
                    return function(*arguments, **keywords)

            return locked  # type: ignore[return-value]

        return decorate

    def status(self, *names: str | bytes) -> list[LockStatus]:
        """Return how each of these names stands."""
        return statuses(names, self.inspect(names))

    def is_locked(self, *names: str | bytes) -> bool:
        """Return whether any of these names is held, by whomever."""
        return any_locked(self.inspect(names))

    def owner(self, *names: str | bytes) -> str | None:
        """Return who holds the first of these names that is held: ``client:owner:number``."""
        return first_owner(self.inspect(names))

    def waiting(self, *names: str | bytes) -> int:
        """Return how many wait for any of these names."""
        return count_waiting(self.inspect(names))

    def force_release(self, *names: str | bytes, token: int | None = None) -> int:
        """Take these names from whoever holds them; the holders are told. Return how many were held.

        ``token``: only where the holder's is this one.
        """
        return self.take_away(names, token)  # type: ignore[no-any-return]

    def execute(self, *parts: str | bytes | int | float) -> Any:
        """Send any command on the same connection, and return the reply: bytes for what is stored, text for ``OK``.

        Not those that change what the connection is: ``SUBSCRIBE``, ``MULTI``, ``WATCH``, ``SELECT`` and the like.
        """
        return self.command(checked_command(parts))

    def take(self, names: Any, **arguments: Any) -> Any:
        self._keeper.start()
        return super().take(names, **arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


METHODS = frozenset(
    (
        "lock",
        "try_lock",
        "synchronized",
        "status",
        "is_locked",
        "owner",
        "waiting",
        "force_release",
        "execute",
    )
)

_UndecidedLocks = undecided(Locks, METHODS, "Locks")

#: Commands that would change what the connection is, or wait on it while others want to use it.
_UNSHAREABLE = frozenset(
    b"SUBSCRIBE UNSUBSCRIBE PSUBSCRIBE PUNSUBSCRIBE SSUBSCRIBE SUNSUBSCRIBE MULTI EXEC DISCARD WATCH UNWATCH MONITOR "
    b"HELLO AUTH SELECT RESET QUIT SYNC PSYNC BLPOP BRPOP BRPOPLPUSH BLMOVE BLMPOP BZPOPMIN BZPOPMAX BZMPOP WAIT "
    b"WAITAOF READONLY READWRITE ASKING".split()
)


def checked_command(parts: tuple[str | bytes | int | float, ...]) -> tuple[str | bytes | int | float, ...]:
    """Return the parts of a command that may be sent on a shared connection."""
    if not parts:
        raise UsageError("a command has at least its name")
    name = parts[0].encode() if isinstance(parts[0], str) else parts[0]
    if not isinstance(name, bytes):
        raise UsageError(f"a command's name is text, not {type(name).__qualname__}")
    word = name.upper()
    blocks = word in (b"XREAD", b"XREADGROUP") and any(str(part).upper() == "BLOCK" for part in parts[1:])
    replies = word == b"CLIENT" and len(parts) > 1 and str(parts[1]).upper() in ("REPLY", "TRACKING", "CACHING")
    if word in _UNSHAREABLE or blocks or replies:
        raise UsageError(
            f"{word.decode('utf-8', 'replace')} would change or block the connection that the locks share; "
            "use a connection of your own"
        )
    return parts


def filled(templates: tuple[str, ...], function: Callable[..., Any]) -> Callable[[Any, Any], list[str]]:
    """Return what makes names of a call's arguments."""
    if not templates or not all(isinstance(template, str) for template in templates):
        raise UsageError('synchronized needs names, as in @locks.synchronized("report:{user_id}")')
    signature = inspect.signature(function)

    def names_of(arguments: Any, keywords: Any) -> list[str]:
        bound = signature.bind(*arguments, **keywords)
        bound.apply_defaults()
        try:
            return [template.format(*bound.args, **bound.arguments) for template in templates]
        except (KeyError, IndexError) as error:
            names = ", ".join(templates)
            raise UsageError(f"no argument of {function.__qualname__} fills {error} in {names}") from error

    return names_of


def statuses(names: tuple[str | bytes, ...], inspected: Any) -> list[LockStatus]:
    """Return the statuses in the order of the names; the server was asked for them sorted, each once."""
    ordered = sorted({name.encode() if isinstance(name, str) else name for name in names})
    by_name = dict(zip(ordered, inspected))
    return [LockStatus(name, *by_name[name.encode() if isinstance(name, str) else name]) for name in names]


def any_locked(inspected: Any) -> bool:
    return any(holder is not None for holder, *_ in inspected)


def first_owner(inspected: Any) -> str | None:
    return next((holder for holder, *_ in inspected if holder is not None), None)


def count_waiting(inspected: Any) -> int:
    return len({attempt for *_, waiting in inspected for attempt in waiting})


def lost_inside(held: BaseHeld) -> str:
    why = held._grant.lost or "its ttl has passed, or somebody took it away"
    return f"the lock on {_listed(held.names)} was lost before it was given back: {why}"


def _listed(names: tuple[str | bytes, ...]) -> str:
    few = ", ".join(repr(name) for name in names[:3])
    return few if len(names) <= 3 else f"{few} and {len(names) - 3} more"


def positive(name: str, number: int) -> int:
    if number < 1:
        raise UsageError(f"{name} must be at least 1, not {number}")
    return number
