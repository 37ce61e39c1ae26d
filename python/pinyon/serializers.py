"""Values into bytes and client flags, and back.

Every serializer but a custom one and ``raw`` writes bytes, text and integers the same way, with the flags that
python-memcached, pymemcache and pylibmc use for them; the native half of the package does that. What stands here
is the rest of each.
"""

from __future__ import annotations

import datetime
import json
import pickle
from typing import Any, ClassVar, Protocol, runtime_checkable

import msgpack

from pinyon._native import check_plain
from pinyon.errors import UndecodableValue, UnknownFlags, Unpicklable, UsageError

#: As python-memcached and its successors mark pickled values.
PICKLE = 1
#: Pinyon's own: none of the flags that other clients give a meaning.
MESSAGEPACK = 1 << 8
JSON = 1 << 9

#: MessagePack extension for a datetime without a time zone: its ISO 8601 text.
_NAIVE_DATETIME = 1


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
        check_plain(value, "portable")
        return msgpack.packb(value, default=_pack_datetime), MESSAGEPACK

    def load(self, data: bytes, flags: int) -> Any:
        if flags != MESSAGEPACK:
            raise _unknown("portable", flags)
        try:
            return msgpack.unpackb(data, ext_hook=_unpack_other, timestamp=3, strict_map_key=False)
        except Exception as error:
            raise UndecodableValue(f"the stored value is marked as MessagePack but cannot be read: {error}") from error


def _pack_datetime(value: datetime.datetime) -> msgpack.ExtType | msgpack.Timestamp:
    if value.tzinfo is None:
        return msgpack.ExtType(_NAIVE_DATETIME, value.isoformat().encode())
    return msgpack.Timestamp.from_datetime(value)


def _unpack_other(code: int, data: bytes) -> Any:
    if code == _NAIVE_DATETIME:
        return datetime.datetime.fromisoformat(data.decode())
    raise ValueError(f"unknown MessagePack extension {code}")


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
            raise _unknown("pickle", flags)
        try:
            return pickle.loads(data)
        except Exception as error:
            raise UndecodableValue(f"the stored value is marked as pickled but cannot be read: {error}") from error


class Json:
    """What JSON can express: bool, None, float, list and dict; bytes, text and integers as everywhere."""

    native: ClassVar[str] = "plain"

    def dump(self, value: Any) -> tuple[bytes, int]:
        check_plain(value, "json")
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(), JSON

    def load(self, data: bytes, flags: int) -> Any:
        if flags != JSON:
            raise _unknown("json", flags)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise UndecodableValue(f"the stored value is marked as JSON but cannot be read: {error}") from error


class Raw:
    """Bytes alone, whatever flags they are stored with; the native half does all of it."""

    native: ClassVar[str] = "raw"

    def dump(self, value: bytes) -> tuple[bytes, int]:
        return value, 0

    def load(self, data: bytes, flags: int) -> bytes:
        return data


_BY_NAME: dict[str, type[Serializer]] = {"portable": Portable, "pickle": Pickle, "json": Json, "raw": Raw}


def find(serializer: str | Serializer) -> Serializer:
    """The serializer of that name, or the object itself; a UsageError for anything else."""
    if isinstance(serializer, str):
        if serializer not in _BY_NAME:
            raise UsageError(f"there is no serializer {serializer!r}; there are {', '.join(map(repr, _BY_NAME))}")
        return _BY_NAME[serializer]()
    if not isinstance(serializer, Serializer):
        raise UsageError(f"a serializer is a name or an object with dump and load, not {type(serializer).__qualname__}")
    return serializer


_OTHER_CLIENTS = {
    PICKLE: 'pickled, which serializer="pickle" reads',
    MESSAGEPACK: 'MessagePack, which serializer="portable" reads',
    JSON: 'JSON, which serializer="json" reads',
}


def _unknown(name: str, flags: int) -> UnknownFlags:
    hint = _OTHER_CLIENTS.get(flags, "written by another client, whose values a client with its dialect= reads")
    return UnknownFlags(f'the serializer "{name}" cannot read a value stored with flags {flags}: it is {hint}')
