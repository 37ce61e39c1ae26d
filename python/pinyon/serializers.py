"""Values into bytes and client flags, and back.

Every serializer but a custom one and ``raw`` writes bytes, text and integers the same way, with the flags that
python-memcached, pymemcache and pylibmc use for them. The native half of the package does that, and it writes and reads
MessagePack and JSON. A client calls the methods here only where something remains for Python to do.
"""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import Any, ClassVar, Protocol, runtime_checkable

from pinyon._native import dump_plain, load_plain, unknown_flags
from pinyon.errors import Error, UndecodableValue, Unpicklable, UnsupportedType, UsageError

__all__ = ["Json", "Pickle", "Portable", "Raw", "Serializer"]

#: python-memcached and its successors mark pickled values with this flag.
PICKLE = 1


@runtime_checkable
class Serializer(Protocol):
    """Any object with these two methods can be a client's ``serializer``; it then has to handle every value."""

    def dump(self, value: Any) -> tuple[bytes, int]:
        """Return the value's bytes and its client flags (32 bits)."""

    def load(self, data: bytes, flags: int) -> Any:
        """Return the value that ``dump`` made these bytes and flags of."""


class Portable:
    """Plain data as MessagePack, readable in every language, and safe to read whoever wrote it.

    Takes bool, None, float, list, dict and datetime; nested, also text, bytes and integers of up to 64 bits.
    A value keeps its type, so a tuple is refused rather than turned into a list.
    """

    native: ClassVar[str] = "plain"

    def dump(self, value: Any) -> tuple[bytes, int]:
        return dump_plain(value, "portable")

    def load(self, data: bytes, flags: int) -> Any:
        return load_plain(data, flags, "portable")


class Pickle:
    """Anything Python can pickle. Reading runs code that the writer chose: only for caches that are yours alone."""

    native: ClassVar[str] = "plain"

    def dump(self, value: Any) -> tuple[bytes, int]:
        try:
            return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL), PICKLE
        except Exception as error:
            raise Unpicklable(f'the serializer "pickle" cannot write this value: {error}') from error

    def load(self, data: bytes, flags: int) -> Any:
        if flags != PICKLE:
            raise unknown_flags("pickle", flags)
        try:
            return pickle.loads(data)
        except (Error, MemoryError):
            raise  # of a client that is used while the value is loaded
        except Exception as error:
            raise UndecodableValue(f"the stored value is marked as pickled but cannot be read: {error}") from error


class Json:
    """What JSON can express: bool, None, float, list and dict; bytes, text and integers as everywhere."""

    native: ClassVar[str] = "plain"

    def dump(self, value: Any) -> tuple[bytes, int]:
        return dump_plain(value, "json")

    def load(self, data: bytes, flags: int) -> Any:
        return load_plain(data, flags, "json")


class Raw:
    """Bytes alone, whatever flags they are stored with; the native half does all of it."""

    native: ClassVar[str] = "raw"

    def dump(self, value: bytes) -> tuple[bytes, int]:
        return value, 0

    def load(self, data: bytes, flags: int) -> bytes:
        return data


_BY_NAME: dict[str, type[Serializer]] = {"portable": Portable, "pickle": Pickle, "json": Json, "raw": Raw}

_CHOICE = (
    f"one of {', '.join(map(repr, _BY_NAME))}, or an object whose dump(value) returns (bytes, flags) "
    "and whose load(bytes, flags) returns the value"
)


def find(serializer: str | Serializer) -> Serializer:
    """Return the serializer of that name, or the object itself.

    Raises:
        UsageError: there is no serializer of that name.
        UnsupportedType: this is not a serializer.
    """
    if isinstance(serializer, str):
        if serializer not in _BY_NAME:
            raise UsageError(f"serializer must be {_CHOICE}, not {serializer!r}")
        return _BY_NAME[serializer]()
    if not isinstance(serializer, Serializer):
        raise UnsupportedType(f"serializer must be {_CHOICE}, not {type(serializer).__qualname__}")
    if isinstance(serializer, ModuleType):
        raise UnsupportedType(f"serializer must be {_CHOICE}, not the module {serializer.__name__}")
    if isinstance(serializer, type):
        raise UnsupportedType(f"serializer must be {_CHOICE}, not a class: make an object, {serializer.__qualname__}()")
    return serializer
