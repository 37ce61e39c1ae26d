"""Values as pylibmc stores them: bytes and flags, compressed on request.

To Pinyon's client, a value of this module is a pair of stored bytes and flags (``AsStored``).
"""

from __future__ import annotations

import pickle
import zlib
from typing import TYPE_CHECKING, Any

from pinyon.compat.pylibmc.errors import Error

if TYPE_CHECKING:
    from typing_extensions import TypeAlias

PICKLE = 1 << 0
INTEGER = 1 << 1
LONG = 1 << 2
ZLIB = 1 << 3
TEXT = 1 << 4

_TYPES = PICKLE | INTEGER | LONG | TEXT

#: The largest value, also after decompression, in bytes. Servers can be configured to store that much.
LARGEST = 128 * 1024 * 1024

Stored: TypeAlias = "tuple[bytes, int]"


class AsStored:
    """Pinyon's serializer. Its values are already pairs of bytes and flags."""

    def dump(self, value: Stored) -> Stored:
        return value

    def load(self, data: bytes, flags: int) -> Stored:
        return data, flags


def serialize(value: object, pickle_protocol: int) -> Stored:
    """Return what pylibmc stores for a value, before compression."""
    if isinstance(value, bytes):
        return value, 0
    if isinstance(value, str):
        return value.encode(), TEXT
    if isinstance(value, bool):
        return b"%d" % value, INTEGER
    if isinstance(value, int):
        return str(value).encode(), LONG
    return pickle.dumps(value, pickle_protocol), PICKLE


def deserialize(data: bytes, flags: int) -> Any:
    """Return the value for stored bytes, after decompression. Unpickling runs code that the writer chose.

    Raises:
        Error: the flags are not pylibmc's.
    """
    kind = flags & _TYPES
    if kind == 0:
        return data
    if kind == TEXT:
        return data.decode()
    if kind in (INTEGER, LONG):
        return int(data)
    if kind == PICKLE:
        return pickle.loads(data)
    raise Error(f"unknown memcached key flags {kind}")


def checked(serialized: object) -> Stored:
    """Return the result of a subclass's ``serialize``, if it is valid.

    Raises:
        ValueError: it is not a pair of bytes and an integer.
    """
    if isinstance(serialized, tuple) and len(serialized) == 2:
        data, flags = serialized
        if isinstance(data, bytes) and isinstance(flags, int):
            return data, flags & 0xFFFF_FFFF
    raise ValueError("serialize() must return (bytes, flags)")


def compressed(stored: Stored, least: int, level: int) -> Stored:
    """Return the same, deflated if it has at least ``least`` bytes and becomes smaller. 0 deflates nothing."""
    data, flags = stored
    if not least or not level or len(data) < least:
        return stored
    deflated = zlib.compress(data, level)
    return (deflated, flags | ZLIB) if len(deflated) < len(data) else stored


def inflated(data: bytes) -> bytes:
    """Return the decompressed bytes.

    Raises:
        Error: the data is damaged, or larger than ``LARGEST``.
    """
    inflater = zlib.decompressobj()
    try:
        value = inflater.decompress(data, LARGEST)
    except zlib.error as error:
        raise Error(f"Failed to decompress value: {error}") from error
    if not inflater.eof:
        raise Error(f"Failed to decompress value: it is cut short, or larger than {LARGEST} bytes")
    return value
