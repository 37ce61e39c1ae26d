"""Cached functions: what ``cached`` makes of a function. Those of asyncio differ only in what is awaited."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Generic, Protocol, TypeVar, overload

from pinyon._decorated import CACHED, check_runs_inside, check_templates, filled
from pinyon._get_or_set import check_terms, make_anew
from pinyon._made import Made
from pinyon._plain import plain
from pinyon._steps import drive

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from datetime import timedelta

    from typing_extensions import Concatenate, ParamSpec, Self, Unpack

    from pinyon._steps import Steps
    from pinyon._terms import Terms

    _P = ParamSpec("_P")
    _Q = ParamSpec("_Q")
elif sys.version_info >= (3, 10):
    from typing import ParamSpec

    _P = ParamSpec("_P")
else:
    _P = TypeVar("_P")

__all__ = ["BaseCached", "Cached", "Caching", "decorator"]

_T = TypeVar("_T")


class BaseCached(Generic[_P, _T]):
    """A cached function, in every concurrency model."""

    #: Whether the function is a coroutine function.
    _is_awaited: ClassVar[bool]

    def __init__(self, client: Any, key: str, function: Callable[..., Any], as_: Any, settings: dict[str, Any]) -> None:
        check_runs_inside(function, CACHED, awaited=self._is_awaited)
        self._client = client
        self._function = function
        self._key_of = filled((key,), function)
        self._plain = None if as_ is None else plain(as_)
        self._settings = settings
        if self._plain is not None and callable(ttl := settings["ttl"]):
            self._settings = {**settings, "ttl": lambda stored: ttl(self._loaded(stored))}
        _like(self, function)

    def key(self, *arguments: _P.args, **keywords: _P.kwargs) -> str:
        """Return the key of the value for these arguments, without the client's namespace."""
        return self._key_of(arguments, keywords)[0]

    def _as_method_of(self, instance: object) -> Self:
        """Return this function as a method of an object."""
        method = object.__new__(type(self))
        method.__dict__.update(self.__dict__)
        method._key_of = lambda arguments, keywords: self._key_of((instance, *arguments), keywords)
        method._function = self._function.__get__(instance)
        _like(method, method._function)
        return method

    def _value(self, arguments: Any, keywords: Any) -> Steps:
        """Return the value for these arguments. If there is none, one caller makes it."""
        make = functools.partial(self._make, arguments, keywords)
        stored = yield self._client.get_or_set(self.key(*arguments, **keywords), make, **self._settings)
        try:
            return self._loaded(stored)
        except Exception:  # a program that has other fields in its type has stored it
            return (yield from self._made_anew(arguments, keywords))

    def _made_anew(self, arguments: Any, keywords: Any) -> Steps:
        """Make a value, store it, and return it. Others get the old one meanwhile."""
        make = functools.partial(self._make, arguments, keywords)
        key = self.key(*arguments, **keywords)
        return self._loaded((yield from make_anew(self._client, key, make, **self._settings)))

    def _peeked(self, arguments: Any, keywords: Any) -> Steps:
        """Return the stored value for these arguments, or None."""
        return self._loaded((yield self._client.get(self.key(*arguments, **keywords))))

    def _make(self, arguments: Any, keywords: Any) -> Any:
        """Call the function, and return what is stored of its value."""
        raise NotImplementedError

    def _loaded(self, stored: Any) -> Any:
        return stored if self._plain is None or stored is None else self._plain.load(stored)

    def _dumped(self, value: Any) -> Any:
        if isinstance(value, Made):
            return Made(self._dumped(value.value), value.ttl, value.stale, value.store)
        return value if self._plain is None or value is None else self._plain.dump(value)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Copy and pickle it as functions and methods are: by name."""
        function = self._function
        owner = getattr(function, "__self__", None)
        return function.__qualname__ if owner is None else (getattr, (owner, function.__name__))

    def __repr__(self) -> str:
        return f"<cached {self._function!r}>"


class Cached(BaseCached[_P, _T]):
    """A function whose values are cached: what ``Client.cached`` makes of it.

    Calling it returns the cached value for these arguments, or calls the function and stores what it returns. Its
    methods take the arguments of the function.
    """

    _is_awaited = False

    def __call__(self, *arguments: _P.args, **keywords: _P.kwargs) -> _T:
        return drive(self._value(arguments, keywords))  # type: ignore[no-any-return]

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: Cached[Concatenate[Any, _Q], _T], instance: object, owner: type | None = None
    ) -> Cached[_Q, _T]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self._as_method_of(instance)

    def peek(self, *arguments: _P.args, **keywords: _P.kwargs) -> _T | None:
        """Return the cached value, or None if there is none. This never calls the function."""
        return drive(self._peeked(arguments, keywords))  # type: ignore[no-any-return]

    def refresh(self, *arguments: _P.args, **keywords: _P.kwargs) -> _T:
        """Call the function, store what it returns, and return it. Others get the old value meanwhile.

        If the function raises an error, the old value stays.
        """
        return drive(self._made_anew(arguments, keywords))  # type: ignore[no-any-return]

    def invalidate(self, *arguments: _P.args, **keywords: _P.kwargs) -> bool:
        """Delete the cached value. A value that is being made now is returned to its callers, and not stored.

        Returns:
            Whether there was something to delete.
        """
        return self._client.delete(self.key(*arguments, **keywords))  # type: ignore[no-any-return]

    def _make(self, arguments: Any, keywords: Any) -> Any:
        return self._dumped(self._function(*arguments, **keywords))


if TYPE_CHECKING:

    class _Decorator(Protocol):
        @overload
        def __call__(self, function: Callable[_P, Made[_T]], /) -> Cached[_P, _T]: ...
        @overload
        def __call__(self, function: Callable[_P, _T | Made[_T]], /) -> Cached[_P, _T]: ...


class Caching:
    """The base of clients that cache functions."""

    __slots__ = ()

    def cached(
        self,
        key: str,
        ttl: float | timedelta | Callable[[Any], float | timedelta],
        *,
        as_: Any = None,
        executor: Executor | None = None,
        **terms: Unpack[Terms],
    ) -> _Decorator:
        """Return a decorator: the values of the function are cached, by ``get_or_set``.

        Args:
            key: the template of the keys, filled with the arguments of each call: ``"product:{id}"``, ``"{0}"`` or
                ``"{self.id}"``. A brace itself is written twice.
            ttl: as for ``get_or_set``.
            as_: the type of the values, whose objects are stored as plain data: a dataclass, a model of pydantic or a
                struct of msgspec; or an object with ``dump`` and ``load``. None stores the values as they are. A
                stored value that does not become such an object is made anew.
            executor: as for ``get_or_set``.
            **terms: as for ``get_or_set``, such as ``stale`` and ``on_error``.

        Returns:
            A decorator for functions and methods. It makes a ``Cached`` of each.

        Raises:
            UsageError: the template needs an argument that the function does not have, the function is a coroutine
                function or a generator, or ``as_`` is no such type.
        """
        made: _Decorator = decorator(Cached, self, key, as_, {"ttl": ttl, "executor": executor, **terms})
        return made


def _like(cached: Any, function: Callable[..., Any]) -> None:
    """Give a cached function the name, the documentation and the signature of the function."""
    functools.update_wrapper(cached, function, updated=())


def decorator(kind: Any, client: Any, key: str, as_: Any, settings: dict[str, Any]) -> Any:
    """Return a decorator that makes a cached function of this kind."""
    check_templates((key,), CACHED)
    check_terms(client, **settings)
    return lambda function: kind(client, key, function, as_, settings)
