"""pymemcache's serializers: objects with ``serialize(key, value)`` and ``deserialize(key, value, flags)``.

pymemcache, python-memcached and ``pinyon.Client(serializer="pickle")`` can read what they write. They unpickle stored
values: use them only for caches that nobody else can write to.
"""

from __future__ import annotations

import logging
import pickle
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

FLAG_BYTES = 0
FLAG_PICKLE = 1 << 0
FLAG_INTEGER = 1 << 1
FLAG_LONG = 1 << 2
FLAG_COMPRESSED = 1 << 3
FLAG_TEXT = 1 << 4

DEFAULT_PICKLE_VERSION = pickle.HIGHEST_PROTOCOL

_Serializer = Callable[[Any, Any], "tuple[Any, int]"]
_Deserializer = Callable[[Any, bytes, int], Any]

logger: logging.Logger = logging.getLogger(__name__)


class Serde(Protocol):
    """The interface of a client's ``serde``."""

    def serialize(self, key: Any, value: Any) -> tuple[Any, int]:
        """Return the bytes to store for the value, and their flags."""

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        """Return the stored value."""


def _serialize(key: Any, value: Any, pickle_version: int) -> tuple[bytes | str, int]:
    # Only exactly these types: a subclass is pickled, so that it is read as the same class.
    if type(value) is bytes:
        return value, FLAG_BYTES
    if type(value) is str:
        return value.encode(), FLAG_TEXT
    if type(value) is int:
        return str(value), FLAG_INTEGER
    return pickle.dumps(value, pickle_version), FLAG_PICKLE


def get_python_memcache_serializer(pickle_version: int = DEFAULT_PICKLE_VERSION) -> _Serializer:
    """Return a function that serializes with this version of the pickle protocol."""
    return partial(_serialize, pickle_version=pickle_version)


python_memcache_serializer: _Serializer = get_python_memcache_serializer()


def python_memcache_deserializer(key: Any, value: bytes, flags: int) -> Any:
    """Return the stored value. If a pickle cannot be read, log this and return None."""
    if flags & FLAG_TEXT:
        return value.decode()
    if flags & (FLAG_INTEGER | FLAG_LONG):
        return int(value)
    if not flags & FLAG_PICKLE:
        return value
    try:
        return pickle.loads(value)
    except Exception:
        logger.info("the value of %r is marked as pickled but cannot be read", key, exc_info=True)
        return None


class PickleSerde:
    """Stores bytes, text and integers as they are, and pickles all else.

    Args:
        pickle_version: the version of the pickle protocol, by default the highest.
    """

    def __init__(self, pickle_version: int = DEFAULT_PICKLE_VERSION) -> None:
        self._pickle_version = pickle_version

    def serialize(self, key: Any, value: Any) -> tuple[Any, int]:
        return _serialize(key, value, self._pickle_version)

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        return python_memcache_deserializer(key, value, flags)


pickle_serde: PickleSerde = PickleSerde()


class CompressedSerde:
    """Compresses the output of another serde if that makes it smaller.

    Args:
        compress, decompress: functions from bytes to bytes.
        serde: the other serde.
        min_compress_len: values of at most this many bytes are not compressed. With 0, no value is.
    """

    def __init__(
        self,
        compress: Callable[[Any], bytes] = zlib.compress,
        decompress: Callable[[bytes], bytes] = zlib.decompress,
        serde: Serde = pickle_serde,
        min_compress_len: int = 400,
    ) -> None:
        self._compress = compress
        self._decompress = decompress
        self._serde = serde
        self._min_compress_len = min_compress_len

    def serialize(self, key: Any, value: Any) -> tuple[Any, int]:
        plain, flags = self._serde.serialize(key, value)
        if not len(plain) > self._min_compress_len > 0:
            return plain, flags
        compressed = self._compress(plain)
        if len(compressed) > len(plain):
            return plain, flags
        return compressed, flags | FLAG_COMPRESSED

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        if flags & FLAG_COMPRESSED:
            value = self._decompress(value)
        return self._serde.deserialize(key, value, flags)


compressed_serde: CompressedSerde = CompressedSerde()


class LegacyWrappingSerde:
    """A serde made of two functions. Without them, values are stored unchanged and read as bytes."""

    def __init__(self, serializer_func: _Serializer | None, deserializer_func: _Deserializer | None) -> None:
        self.serialize: Callable[..., Any] = serializer_func or self._as_it_is
        self.deserialize: Callable[..., Any] = deserializer_func or self._as_stored

    @staticmethod
    def _as_it_is(key: Any, value: Any) -> tuple[Any, int]:
        return value, 0

    @staticmethod
    def _as_stored(key: Any, value: bytes, flags: int) -> Any:
        return value
