"""How a block acquires and releases a lock: ``with`` in threads and greenlets, ``async with`` in tasks."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pinyon import _native
from pinyon._closing import FOR_COROUTINES, FOR_THREADS
from pinyon._held import BaseHeld, BaseLock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta
    from types import TracebackType

_HeldT = TypeVar("_HeldT", bound=BaseHeld)


class BlockingLock(BaseLock, Generic[_HeldT]):
    """The base of locks whose callers wait by themselves. The native half carries out the whole block."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __enter__(self) -> _HeldT: ...

        def __exit__(
            self,
            kind: type[BaseException] | None,
            exception: BaseException | None,
            traceback: TracebackType | None,
        ) -> None: ...

    else:
        if sys.version_info < (3, 14):
            __enter__ = _native.Lock._take_by_with
        else:
            # A handler of signals may run between the return of a native method and the beginning of its block.
            def __enter__(self) -> _HeldT:
                try:
                    return self._take(False, None, True)
                except BaseException:
                    self._untake()
                    raise

        __exit__ = _native.Lock._give_back_by_with
        __aenter__ = __aexit__ = FOR_THREADS


class AwaitedLock(BaseLock, Generic[_HeldT]):
    """The base of locks for tasks."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __enter__ = __exit__ = FOR_COROUTINES

    async def _acquire(self, at_once: bool, timeout: float | timedelta | None) -> _HeldT | None:
        held: _HeldT = self._ask(at_once, timeout)
        if await had(held._answer(), held) is None and at_once:
            return None
        self._keep(held, False)
        return held

    # The name in Python's warning that a coroutine was never awaited.
    _acquire.__qualname__ = "Lock.acquire"

    async def __aenter__(self) -> _HeldT:
        held: _HeldT = self._ask()
        await had(held._answer(), held)
        self._keep(held, True)
        return held

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        held: _HeldT = self._leave(True)
        if held._ends_quietly:
            return
        try:
            kept = await held._release()
        except Exception:
            if exception is None:
                raise
            return
        if not kept and exception is None:
            raise held._lost_inside()


async def had(future: Awaitable[Any], held: BaseHeld) -> Any:
    """Wait for a lock; whatever else ends the wait takes it out of the queue, or gives it back."""
    try:
        return await future
    except Exception:
        raise
    except BaseException:
        held._cancel()
        raise


async def changed(future: Awaitable[Any], held: BaseHeld) -> None:
    """Wait for other modes of a lock; whatever else ends the wait leaves it as it was."""
    try:
        await future
    except Exception:
        raise
    except BaseException:
        held._stay()
        raise


async def result_of(predicate: Callable[[], Any]) -> Any:
    """Call a predicate, and await what it returns if that is an awaitable."""
    given = predicate()
    return await given if inspect.isawaitable(given) else given
