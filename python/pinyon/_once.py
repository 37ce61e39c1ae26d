"""Jobs that run once per period, and clients of locks that release them at the end: of a block, and of the program."""

from __future__ import annotations

import atexit
import contextvars
import functools
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar, overload

from pinyon import _native
from pinyon._alive import Alive
from pinyon._blocks import AwaitedLock, BlockingLock
from pinyon._closing import FOR_COROUTINES, FOR_THREADS, Closing, ClosingAwaited
from pinyon._decorated import LOCKED, check_runs_inside
from pinyon._held import BaseHeld
from pinyon.errors import Error

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from typing_extensions import Literal

_HeldT = TypeVar("_HeldT", bound=BaseHeld)

#: The blocks that the thread, task or greenlet has entered, with what each holds.
_ENTERED: contextvars.ContextVar[tuple[tuple[object, Any], ...]] = contextvars.ContextVar("pinyon.once", default=())


class _Entering:
    """Remembers what each block of an object holds, as many callers may use the object at once."""

    __slots__ = ()

    def _enter(self, held: Any) -> None:
        _ENTERED.set((*_ENTERED.get(), (self, held)))

    def _exit(self) -> Any:
        entered = list(_ENTERED.get())
        for at in range(len(entered) - 1, -1, -1):
            if entered[at][0] is self:
                held = entered.pop(at)[1]
                _ENTERED.set(tuple(entered))
                return held
        return None


class Once(_Entering, Generic[_HeldT]):
    """A job that runs once per period on all machines: ``with locks.once("nightly", per=82800) as held: …``.

    The block gets what is held if the job is its own, and None otherwise. ``Locks.once`` makes it.
    """

    __slots__ = ("_lock",)

    def __init__(self, lock: BlockingLock[_HeldT]) -> None:
        self._lock = lock

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = FOR_THREADS

    def __enter__(self) -> _HeldT | None:
        try:
            held: _HeldT | None = self._lock._take(True, None)
            self._enter(held)
            return held
        except BaseException:  # a handler of signals may raise after the lock was granted
            self._lock._untake()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        held = self._exit()
        if held is None or held._given_back:
            return
        try:
            kept = held._release(exception is not None)
        except Error:
            if exception is None:
                raise
            return
        if not kept and exception is None:
            raise held._lost_inside()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function: it runs once per period. Other calls return None at once."""
        check_runs_inside(function, LOCKED, awaited=False)

        @functools.wraps(function)
        def once(*arguments: Any, **keywords: Any) -> Any:
            with self as held:
                return None if held is None else function(*arguments, **keywords)

        return once


class OnceAwaited(_Entering, Generic[_HeldT]):
    """A job that runs once per period on all machines: ``async with locks.once("nightly", per=82800) as held: …``.

    The block gets what is held if the job is its own, and None otherwise. ``Locks.once`` makes it.
    """

    __slots__ = ("_lock",)

    def __init__(self, lock: AwaitedLock[_HeldT]) -> None:
        self._lock = lock

    if not TYPE_CHECKING:
        __enter__ = __exit__ = FOR_COROUTINES

    async def __aenter__(self) -> _HeldT | None:
        held = await self._lock._acquire(True, None)
        self._enter(held)
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        held = self._exit()
        if held is None or held._given_back:
            return
        try:
            kept = await held._release(exception is not None)
        except Error:
            if exception is None:
                raise
            return
        if not kept and exception is None:
            raise held._lost_inside()

    def __call__(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Decorate a coroutine function: it runs once per period. Other calls return None at once."""
        check_runs_inside(function, LOCKED, awaited=True)

        @functools.wraps(function)
        async def once(*arguments: Any, **keywords: Any) -> Any:
            async with self as held:
                return None if held is None else await function(*arguments, **keywords)

        return once


class LocksClosing(Closing):
    """The base of clients of locks that a ``with`` block closes."""

    __slots__ = ()

    def close(self, release: bool = False) -> None:
        """Close the connections.

        Attempts that wait fail. Held locks are lost, and expire on the server with their ttl.

        Args:
            release: whether to release all held locks first, as ``release_all`` does.
        """
        if release and not self.is_closed:  # type: ignore[attr-defined]
            self.release_all()  # type: ignore[attr-defined]
        super().close()


class LocksClosingAwaited(ClosingAwaited):
    """The base of clients of locks that an ``async with`` block closes."""

    __slots__ = ()

    @overload
    def close(self, release: Literal[False] = False) -> None: ...

    @overload
    def close(self, release: Literal[True]) -> Coroutine[Any, Any, None]: ...

    def close(self, release: bool = False) -> Coroutine[Any, Any, None] | None:
        """Close the connections. Only with ``release=True`` it must be awaited.

        Attempts that wait fail. Held locks are lost, and expire on the server with their ttl.

        Args:
            release: whether to release all locks first that the running event loop holds, as ``release_all`` does.
        """
        if release and not self.is_closed:  # type: ignore[attr-defined]
            return self._close_released()
        super().close()
        return None

    async def _close_released(self) -> None:
        await self.release_all()  # type: ignore[attr-defined]
        super().close()


#: The clients that may hold locks when the program ends.
_CLIENTS: Alive[_native.Locks] = Alive()


def release_at_exit(locks: _native.Locks) -> None:
    """Release what threads hold through this client when the program ends normally."""
    _CLIENTS.add(locks)


@atexit.register
def _at_exit() -> None:
    for locks in _CLIENTS.all():
        try:
            locks._release_at_exit()
        except Error:
            # The server cannot be reached: the locks end with their ttl.
            continue
