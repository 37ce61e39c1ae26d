"""What the methods of ``pinyon.aio`` return: futures that asyncio also takes as coroutines.

The methods themselves pass for coroutine functions, so that frameworks call them in the event loop.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from pinyon import _native
from pinyon._closing import not_yet
from pinyon.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import NoReturn

_T = TypeVar("_T")
_Function = TypeVar("_Function", bound="Callable[..., Any]")

#: asyncio's own class, which nest_asyncio replaces.
_Future: type[Any] = getattr(sys.modules.get("_asyncio"), "Future", asyncio.Future)


class _Coroutine:
    """Makes a future a ``collections.abc.Coroutine``, too. A task that is made of it awaits it by these methods."""

    __slots__ = ()

    if TYPE_CHECKING:
        done: Callable[[], bool]
        result: Callable[[], Any]
        cancel: Callable[[], bool]
        cancelled: Callable[[], bool]
        exception: Callable[[], BaseException | None]
        _asyncio_future_blocking: bool

    def send(self, value: object) -> Any:
        """Return the future to wait for, or raise ``StopIteration`` with the result."""
        if type(self) is _FRESH:
            self.__class__ = Reply  # type: ignore[assignment]  # another await must not take these methods away
        if self.done():
            raise StopIteration(self.result())
        self._asyncio_future_blocking = True  # type: ignore[misc]
        return self

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Any:
        """Abandon the request, and raise the exception."""
        self.close()
        if not isinstance(kind, type):
            raised = kind
        elif isinstance(value, BaseException):
            raised = value
        else:
            raised = kind() if value is None else kind(value)
        raise raised if traceback is None else raised.with_traceback(traceback)

    def close(self) -> None:
        """Abandon the request."""
        if not self.cancel() and not self.cancelled():
            self.exception()  # otherwise asyncio reports that it was never retrieved


if TYPE_CHECKING:

    class Reply(asyncio.Future[_T], Coroutine[Any, Any, _T]):
        """The future of a reply. asyncio takes it as a coroutine, too."""

else:

    class Reply(_Coroutine, _Future):
        """The future of a reply. asyncio takes it as a coroutine, too."""

        __module__ = "pinyon.aio"
        __slots__ = ()


#: The class of replies that nothing has awaited yet.
_FRESH: Any = _native.turning_plain(Reply) if _Future.__module__ == "_asyncio" else Reply


_REPLIES: dict[type[Any], type[Any]] = {_Future: _FRESH}


def reply_class(future: type[Any]) -> type[Any]:
    """Return the class of replies for a class of futures: asyncio's, or what a program has replaced it by."""
    if future not in _REPLIES:
        body = {"__module__": Reply.__module__, "__slots__": ()}
        _REPLIES[future] = type(Reply.__name__, (_Coroutine, future), body)
    return _REPLIES[future]


#: The attributes by which ``asyncio.iscoroutinefunction`` and ``inspect.iscoroutinefunction`` know coroutine functions
#: that are no ``async def``, with their values.
_MARKS: dict[str, object] = {}
if sys.version_info < (3, 14):
    _MARKS["_is_coroutine"] = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
if sys.version_info >= (3, 12):

    @inspect.markcoroutinefunction
    def _marked() -> None: ...

    _MARKS.update(vars(_marked))


class NoLoop(UsageError):
    """A call outside of a running event loop."""

    __module__ = UsageError.__module__

    def __reduce__(self) -> tuple[Any, ...]:
        return UsageError, self.args


NoLoop.__name__ = NoLoop.__qualname__ = UsageError.__qualname__


def _once_awaited(
    name: str, method: Callable[..., Any], /, *arguments: Any, **keywords: Any
) -> Coroutine[Any, Any, Any]:
    """Return a coroutine that calls a method when it is awaited: what a call without a running loop returns."""

    async def call() -> Any:
        return await method(*arguments, **keywords)

    call.__qualname__ = name  # in Python's warning that it was never awaited
    return call()


def awaited(function: _Function) -> _Function:
    """Mark a function that returns an awaitable as a coroutine function."""
    vars(function).update(_MARKS)
    return function


def awaited_later(function: _Function) -> _Function:
    """Do the same. Without a running loop the function then returns a coroutine that calls it again."""

    @functools.wraps(function)
    def method(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except NoLoop:
            return _once_awaited(function.__qualname__, function, *arguments, **keywords)

    return awaited(method)  # type: ignore[return-value]


class Asked(Coroutine[Any, Any, _T]):
    """A coroutine whose result has a block, which says what is missing if it is used as a block itself."""

    __slots__ = ("_coroutine", "_method")

    def __init__(self, coroutine: Coroutine[Any, Any, _T], method: str) -> None:
        self._coroutine = coroutine
        self._method = method

    def __await__(self) -> Generator[Any, Any, _T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Go on until the next wait."""
        return self._coroutine.send(value)

    def throw(self, *raised: Any) -> Any:
        """Go on with an exception."""
        return self._coroutine.throw(*raised)

    def close(self) -> None:
        """End it."""
        self._coroutine.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)

    if not TYPE_CHECKING:

        @property
        def __aenter__(self) -> NoReturn:
            self.close()  # otherwise Python also warns that it was never awaited
            not_yet(self._method)

        # Which of its two methods a block looks up first depends on Python's version.
        __aexit__ = __enter__ = __exit__ = __aenter__


def awaited_before_its_block(function: _Function) -> _Function:
    """Decorate a coroutine function whose result has a block: forgetting to await it first says so."""

    @functools.wraps(function)
    def method(*arguments: Any, **keywords: Any) -> Any:
        return Asked(function(*arguments, **keywords), function.__name__)

    return awaited(method)  # type: ignore[return-value]


def awaited_copies(of: type[Any], names: frozenset[str]) -> Callable[[type[Any]], type[Any]]:
    """Decorate a subclass whose methods of these names return awaitables, unlike those of other subclasses."""

    def decorate(subclass: type[Any]) -> type[Any]:
        for name in names & vars(of).keys():
            of_base = getattr(of, name)

            @functools.wraps(of_base)
            def method(*arguments: Any, _of_base: Callable[..., Any] = of_base, **keywords: Any) -> Any:
                return _of_base(*arguments, **keywords)

            setattr(subclass, name, awaited(method))
        return subclass

    return decorate


def awaited_methods(native: type[Any], names: frozenset[str]) -> Callable[[type[Any]], type[Any]]:
    """Decorate a class whose methods of these names are a native class's. They pass for coroutine functions then."""

    def decorate(of: type[Any]) -> type[Any]:
        for name in names:
            of_native = getattr(native, name)
            qualname = f"{of.__qualname__}.{name}"
            method = _native.AwaitedMethod(of_native, NoLoop, functools.partial(_once_awaited, qualname))
            attributes = {"__name__": name, "__qualname__": qualname, "__module__": of.__module__}
            texts = {name: getattr(of_native, name) for name in ("__doc__", "__text_signature__")}
            vars(method).update({**attributes, **texts, **_MARKS})
            setattr(of, name, method)
        return of

    return decorate
