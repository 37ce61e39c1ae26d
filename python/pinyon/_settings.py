"""The types of settings that have a fixed choice, and how a misspelled setting is refused."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pinyon import _native
from pinyon.errors import UnsupportedType, UsageError

if TYPE_CHECKING:
    from typing_extensions import TypeAlias

    from pinyon.events import Event

#: The ttl of values that are stored without one: the client's ``default_ttl``.
DEFAULT_TTL: Any = ...

#: Rules that assign keys to servers.
Ring: TypeAlias = Literal[
    "ketama",
    "libmemcached-modula",
    "libmemcached-ketama",
    "libmemcached-ketama-md5",
    "libmemcached-spy",
    "libmc",
    "pymemcache",
    "python-memcached",
    "meta-memcache",
    "emcache",
    "dalli",
    "cache-memcached",
    "cache-memcached-fast",
    "cache-memcached-fast-ketama",
]
#: Clients whose format of stored values can be used.
Dialect: TypeAlias = Literal[
    "pinyon",
    "pylibmc",
    "python-memcached",
    "pymemcache",
    "meta-memcache",
    "libmc",
    "dalli",
    "cache-memcached",
    "cache-memcached-fast",
    "php-memcached",
]
#: Rules for keys that memcached does not accept.
KeyRule: TypeAlias = Literal["refused", "encoded", "dalli", "cache-memcached", "cache-memcached-fast"]
#: Which commands are sent.
Protocol: TypeAlias = Literal["auto", "meta", "classic"]
#: Serializers that have a name.
SerializerName: TypeAlias = Literal["portable", "pickle", "json", "raw"]
#: How values are compressed.
Algorithm: TypeAlias = Literal["zstd", "zlib", "gzip"]

_New = TypeVar("_New", bound=Callable[..., Any])


def check_callable(name: str, given: Callable[[Event], object] | None) -> Callable[[Event], object] | None:
    """Refuse what cannot be called with an event."""
    if given is not None and not callable(given):
        raise UnsupportedType(f"{name} is called with each event; {type(given).__qualname__} is not callable")
    return given


def check_names(table: str, **elsewhere: str) -> Callable[[_New], _New]:
    """Decorate a class's ``__new__``: it refuses a setting without a name, and an unknown one with the closest name.

    Args:
        table: which settings of the core the class takes: "Client" or "Locks".
        elsewhere: the error messages of settings that other classes have.
    """

    def decorate(new: _New) -> _New:
        known = inspect.signature(new).parameters
        server = list(known)[1]

        @functools.wraps(new)
        def checked(cls: type[Any], *arguments: Any, **settings: Any) -> Any:
            if len(arguments) > 1:
                raise UnsupportedType(
                    f"{table} takes one argument without a name, {server}: write host and port as one text, "
                    '"host:port", and settings with their names'
                )
            for name in settings.keys() - known:
                if name in elsewhere:
                    raise UsageError(elsewhere[name])
                _native.check_setting(table, name)
            return new(cls, *arguments, **settings)

        return checked  # type: ignore[return-value]

    return decorate
