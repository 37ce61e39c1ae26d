"""Shows Django's asynchronous cache methods to tools that patch the synchronous ones.

Sentry, the debug toolbar and others replace methods such as ``get`` by functions that call the original. Django's own
``aget`` calls ``get`` in a thread, so they see it, too. ``PinyonCache.aget`` waits in the event loop. Then it calls
what has replaced ``get``, and the original in there returns what has arrived already.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Class = TypeVar("_Class", bound="type[Any]")


class _Call(NamedTuple):
    """A call that is over, and its outcome."""

    method: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    value: Any
    error: Exception | None

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def is_of(self, method: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Whether a call has the same arguments. A patch may have changed them: then the original asks the server."""
        return (
            method is self.method
            and len(arguments) == len(self.arguments)
            and all(one is other for one, other in zip(arguments, self.arguments))
            and keywords.keys() == self.keywords.keys()
            and all(value is self.keywords[name] for name, value in keywords.items())
        )


#: The call whose outcome the original is to return.
_OVER: ContextVar[_Call | None] = ContextVar("_OVER", default=None)


def shown_to_patches(*names: str) -> Callable[[_Class], _Class]:
    """Decorate a class of caches: who has patched one of these methods sees its asynchronous twin, too."""

    def decorate(of: _Class) -> _Class:
        for name in names:
            original = _original(getattr(of, name))
            setattr(of, name, original)
            setattr(of, f"a{name}", _shown(of, name, original, getattr(of, f"a{name}")))
        return of

    return decorate


def _original(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def original(*arguments: Any, **keywords: Any) -> Any:
        over = _OVER.get()
        if over is not None and over.is_of(original, arguments, keywords):
            return over.outcome()
        return method(*arguments, **keywords)

    return original


def _shown(of: type[Any], name: str, original: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def shown(cache: Any, *arguments: Any, **keywords: Any) -> Any:
        # Only patches: the method of a subclass may do something else than the original.
        if name not in vars(cache) and vars(of)[name] is original:
            return await method(cache, *arguments, **keywords)
        value, error = None, None
        try:
            value = await method(cache, *arguments, **keywords)
        except Exception as raised:
            error = raised
        over = _OVER.set(_Call(original, (cache, *arguments), keywords, value, error))
        try:
            return getattr(cache, name)(*arguments, **keywords)
        finally:
            _OVER.reset(over)

    return shown
