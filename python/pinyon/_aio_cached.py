"""Cached coroutine functions, for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Protocol, TypeVar, overload

from pinyon._aio_replies import awaited
from pinyon._cached import _P, BaseCached, decorator
from pinyon._steps import drive_awaiting

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import timedelta

    from typing_extensions import Concatenate, ParamSpec, Self, Unpack

    from pinyon._made import Made
    from pinyon._terms import Terms

    _Q = ParamSpec("_Q")

__all__ = ["Cached", "Caching"]

_T = TypeVar("_T")


class Cached(BaseCached[_P, _T]):
    """A coroutine function whose values are cached: what ``pinyon.aio.Client.cached`` makes of it.

    Its methods are those of ``pinyon.Cached``, awaited, except ``key``.
    """

    _is_awaited = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        awaited(self)

    async def __call__(self, *arguments: _P.args, **keywords: _P.kwargs) -> _T:
        return await drive_awaiting(self._value(arguments, keywords))  # type: ignore[no-any-return]

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: Cached[Concatenate[Any, _Q], _T], instance: object, owner: type | None = None
    ) -> Cached[_Q, _T]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self._as_method_of(instance)

    async def peek(self, *arguments: _P.args, **keywords: _P.kwargs) -> _T | None:
        """Return the cached value, or None if there is none. This never calls the function."""
        return await drive_awaiting(self._peeked(arguments, keywords))  # type: ignore[no-any-return]

    async def refresh(self, *arguments: _P.args, **keywords: _P.kwargs) -> _T:
        """Call the function, store what it returns, and return it, like ``pinyon.Cached.refresh``."""
        return await drive_awaiting(self._made_anew(arguments, keywords))  # type: ignore[no-any-return]

    async def invalidate(self, *arguments: _P.args, **keywords: _P.kwargs) -> bool:
        """Delete the cached value, like ``pinyon.Cached.invalidate``."""
        return await self._client.delete(self.key(*arguments, **keywords))  # type: ignore[no-any-return]

    async def _make(self, arguments: Any, keywords: Any) -> Any:
        return self._dumped(await self._function(*arguments, **keywords))


if TYPE_CHECKING:

    class _Decorator(Protocol):
        @overload
        def __call__(self, function: Callable[_P, Coroutine[Any, Any, Made[_T]]], /) -> Cached[_P, _T]: ...
        @overload
        def __call__(self, function: Callable[_P, Coroutine[Any, Any, _T | Made[_T]]], /) -> Cached[_P, _T]: ...


class Caching:
    """The base of clients that cache coroutine functions."""

    __slots__ = ()

    def cached(
        self,
        key: str,
        ttl: float | timedelta | Callable[[Any], float | timedelta],
        *,
        as_: Any = None,
        **terms: Unpack[Terms],
    ) -> _Decorator:
        """Return a decorator for coroutine functions. The arguments are those of ``pinyon.Client.cached``.

        Returns:
            A decorator for coroutine functions and methods. It makes a ``Cached`` of each.
        """
        made: _Decorator = decorator(Cached, self, key, as_, {"ttl": ttl, **terms})
        return made
