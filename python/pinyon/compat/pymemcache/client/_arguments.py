"""Arguments of pymemcache's clients, checked as pymemcache checks them: servers, keys, numbers and values."""

from __future__ import annotations

import os
import time
from typing import Any, Union

from pinyon.compat.pymemcache.exceptions import MemcacheIllegalInputError

Key = Union[bytes, str]
ServerSpec = Union["tuple[str, int]", str]

#: If an expiry is larger than this, in seconds, memcached reads it as a Unix time.
_LONGEST_RELATIVE = 30 * 24 * 60 * 60

_LARGEST_CAS = 2**64 - 1


def normalize_server_spec(server: Any) -> ServerSpec:
    """Return a server as a pair of host and port, or as the path of a Unix socket."""
    if isinstance(server, tuple):
        return server
    if not isinstance(server, str):
        raise ValueError(f"Unsupported server specification: {server!r}")
    if server.startswith("unix:"):
        return server[5:]
    if server.startswith("/"):
        return server
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        host, port = server, "11211"
    return host.strip("[]") if host.startswith("[") else host, int(port)


def address_of(server: ServerSpec | list[Any]) -> str:
    """Return a server as ``pinyon.Client`` expects it."""
    if isinstance(server, str):
        return os.path.abspath(server)
    host, port = server
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_key_helper(key: Any, allow_unicode_keys: bool, key_prefix: bytes = b"") -> bytes:
    """Return the key as it is sent, with the prefix."""
    if isinstance(key, str):
        try:
            key = key.encode("utf-8" if allow_unicode_keys else "ascii")
        except UnicodeEncodeError:
            raise MemcacheIllegalInputError(f"Non-ASCII key: {key!r}") from None
    sent: bytes = key_prefix + key
    if len(sent) > 250:
        raise MemcacheIllegalInputError(f"Key is too long: {sent!r}")
    if sent and sent.split() != [sent]:
        raise MemcacheIllegalInputError(f"Key contains whitespace: {sent!r}")
    if b"\0" in sent:
        raise MemcacheIllegalInputError(f"Key contains null: {sent!r}")
    return sent


def prefix_of(key_prefix: Any) -> bytes:
    """Return the prefix of all keys as bytes."""
    if isinstance(key_prefix, str):
        key_prefix = key_prefix.encode("ascii")
    if not isinstance(key_prefix, bytes):
        raise TypeError("key_prefix should be bytes.")
    return key_prefix


def integer(value: Any, name: str) -> int:
    """Return the integer. Raise if it is of another type."""
    if not isinstance(value, int):
        raise MemcacheIllegalInputError(f"{name} must be integer, got bad value: {value!r}")
    return int(value)


def ttl_of(expire: Any) -> int:
    """Return the ttl for an expiry. An expiry above 30 days is a Unix time."""
    seconds = integer(expire, "expire")
    if seconds <= _LONGEST_RELATIVE:
        return seconds
    return max(seconds - int(time.time()), 0) or -1


def token_of(cas: Any) -> int:
    """Return the CAS token, which is an integer or its digits."""
    if not isinstance(cas, (int, str, bytes)):
        raise MemcacheIllegalInputError(f"cas must be integer, string, or bytes, got bad value: {cas!r}")
    text = cas if isinstance(cas, bytes) else str(cas).encode()
    if not text.isdigit() or int(text) > _LARGEST_CAS:
        raise MemcacheIllegalInputError(f"cas must be a number of 64 bits, in the digits 0-9, got bad value: {cas!r}")
    return int(text)


def data_of(value: Any, encoding: str) -> bytes:
    """Return a serde's output as bytes."""
    if isinstance(value, bytes):
        return value
    try:
        return str(value).encode(encoding)
    except UnicodeEncodeError as error:
        raise MemcacheIllegalInputError(f"Data values must be binary-safe: {error}") from error
