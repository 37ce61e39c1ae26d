"""pymemcache's client for one server, on top of ``pinyon.Client``."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pinyon.compat.pymemcache.client import _raw
from pinyon.compat.pymemcache.client._arguments import (
    Key,
    ServerSpec,
    check_key_helper,
    data_of,
    integer,
    normalize_server_spec,
    prefix_of,
    token_of,
    ttl_of,
)
from pinyon.compat.pymemcache.client._settings import KeepaliveOpts, connected, keepalive_of, tls_of
from pinyon.compat.pymemcache.client._stats import converted, items_of
from pinyon.compat.pymemcache.exceptions import (
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    translated,
)
from pinyon.compat.pymemcache.serde import LegacyWrappingSerde, Serde
from pinyon.errors import Closed, Error

_Lost = TypeVar("_Lost")

__all__ = [
    "Client",
    "KeepaliveOpts",
    "Key",
    "PooledClient",
    "ServerSpec",
    "check_key_helper",
    "normalize_server_spec",
]


class _AsStored:
    """Pinyon's serializer. Its values are pairs of bytes and flags that the serde made, which needs the key."""

    def dump(self, value: tuple[bytes, int]) -> tuple[bytes, int]:
        return value

    def load(self, data: bytes, flags: int) -> tuple[bytes, int]:
        return data, flags


class Client:
    """A client for one memcached server, with pymemcache's arguments, methods and defaults.

    Every command waits for its reply, also with ``noreply=True``, so errors are raised and the next command sees the
    effect. With ``noreply=True`` it returns what pymemcache returns. Threads and greenlets may share the client. After
    ``close`` it connects again.

    Args:
        server: ``(host, port)``, ``"host:port"`` or the path of a Unix socket.
        serde: an object with ``serialize(key, value)`` and ``deserialize(key, value, flags)``.
        serializer, deserializer: two such functions, if there is no ``serde``.
        connect_timeout: the longest time for connecting, in seconds; None for 5.
        timeout: the longest time for an operation in total, in seconds; None for 10.
        no_delay: always on.
        ignore_exc: treat failed reads as misses.
        socket_module: ``socket``, or ``gevent.socket`` to let other greenlets run. If gevent has patched the process,
            other greenlets run in any case.
        socket_keepalive: when the system asks whether a silent connection is still there.
        key_prefix: a prefix for every key.
        default_noreply: the default of every method's ``noreply``.
        allow_unicode_keys: accept text keys beyond ASCII, and send them as UTF-8.
        encoding: the encoding of values that are not bytes after the serde.
        tls_context: an ``ssl.SSLContext``, whose authorities are trusted, or a ``pinyon.Tls``.
    """

    _max_connections: int | None = None

    def __init__(
        self,
        server: ServerSpec,
        serde: Serde | None = None,
        serializer: Any = None,
        deserializer: Any = None,
        connect_timeout: float | None = None,
        timeout: float | None = None,
        no_delay: bool = False,
        ignore_exc: bool = False,
        socket_module: Any = socket,
        socket_keepalive: KeepaliveOpts | None = None,
        key_prefix: Key = b"",
        default_noreply: bool = True,
        allow_unicode_keys: bool = False,
        encoding: str = "ascii",
        tls_context: Any = None,
    ) -> None:
        self._keepalive = keepalive_of(socket_keepalive)
        self.server: ServerSpec = normalize_server_spec(server)
        self.serde: Any = serde or LegacyWrappingSerde(serializer, deserializer)
        self.connect_timeout = connect_timeout
        self.timeout = timeout
        self.no_delay = no_delay
        self.ignore_exc = ignore_exc
        self.socket_module = socket_module
        self.socket_keepalive = socket_keepalive
        self.key_prefix: bytes = prefix_of(key_prefix)
        self.default_noreply = default_noreply
        self.allow_unicode_keys = allow_unicode_keys
        self.encoding = encoding
        self.tls_context = tls_context
        self._tls = tls_of(tls_context)
        self._pinyon = self._connected()

    def _connected(self) -> Any:
        return connected(
            self.server,
            _AsStored(),
            timeout=self.timeout,
            connect_timeout=self.connect_timeout,
            socket_module=self.socket_module,
            tls=self._tls,
            max_connections=self._max_connections,
            keepalive=self._keepalive,
        )

    def close(self) -> None:
        """Close the connections. The next command connects again."""
        before, self._pinyon = self._pinyon, self._connected()
        before.close()

    disconnect_all = close
    quit = close

    def check_key(self, key: Key, key_prefix: bytes | None = None) -> bytes:
        """Return the key as it is sent."""
        prefix = self.key_prefix if key_prefix is None else key_prefix
        return check_key_helper(key, self.allow_unicode_keys, prefix)

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        sent = self.check_key(key)
        try:
            found = self._ask("get", sent)
            return default if found is None else self.serde.deserialize(key, *found)
        except Exception:
            return self._forgiven(default)

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Any]:
        """Return the values of the keys that have one."""
        given = {self.check_key(key): key for key in keys}
        try:
            found = self._ask("get_many", given)
            return {given[sent]: self.serde.deserialize(given[sent], *stored) for sent, stored in found.items()}
        except Exception:
            return self._forgiven({})

    get_multi = get_many

    def gets(self, key: Key, default: Any = None, cas_default: Any = None) -> tuple[Any, Any]:
        """Return the value of a key and its CAS token (bytes), or the defaults."""
        sent = self.check_key(key)
        try:
            found = self._ask("gets", sent)
            return (default, cas_default) if found is None else self._with_token(key, found)
        except Exception:
            return self._forgiven((default, cas_default))

    def gets_many(self, keys: Iterable[Key]) -> dict[Key, tuple[Any, Any]]:
        """Return the values of the keys that have one, with their CAS tokens."""
        given = {self.check_key(key): key for key in keys}
        try:
            found = self._ask("gets_many", given)
            return {given[sent]: self._with_token(given[sent], stored) for sent, stored in found.items()}
        except Exception:
            return self._forgiven({})

    def set(self, key: Key, value: Any, expire: int = 0, noreply: bool | None = None, flags: int | None = None) -> bool:
        """Store a value. Return whether it was stored."""
        return self._store("set", key, value, expire, noreply, flags)

    def add(self, key: Key, value: Any, expire: int = 0, noreply: bool | None = None, flags: int | None = None) -> bool:
        """Store a value unless the key has one. Return whether it was stored."""
        return self._store("add", key, value, expire, noreply, flags)

    def replace(
        self, key: Key, value: Any, expire: int = 0, noreply: bool | None = None, flags: int | None = None
    ) -> bool:
        """Store a value if the key has one. Return whether it was stored."""
        return self._store("replace", key, value, expire, noreply, flags)

    def append(
        self, key: Key, value: Any, expire: int = 0, noreply: bool | None = None, flags: int | None = None
    ) -> bool:
        """Append to the stored value. Expiry and flags do not change. Return whether there was a value."""
        return self._store("append", key, value, expire, noreply, flags)

    def prepend(
        self, key: Key, value: Any, expire: int = 0, noreply: bool | None = None, flags: int | None = None
    ) -> bool:
        """Prepend to the stored value. Expiry and flags do not change. Return whether there was a value."""
        return self._store("prepend", key, value, expire, noreply, flags)

    def cas(
        self,
        key: Key,
        value: Any,
        cas: int | str | bytes,
        expire: int = 0,
        noreply: bool = False,
        flags: int | None = None,
    ) -> bool | None:
        """Store a value if the item still has this CAS token. Return None if there is no item."""
        token, ttl = token_of(cas), ttl_of(expire)
        stored: bool | None = self._ask("cas", self.check_key(key), self._stored(key, value, flags), token, ttl)
        return True if noreply else stored

    def set_many(
        self, values: Mapping[Key, Any], expire: int = 0, noreply: bool | None = None, flags: int | None = None
    ) -> list[Key]:
        """Store many values. Return the keys that may not be stored. With ``noreply``, such keys raise an error."""
        given = {self.check_key(key): key for key in values}
        stored = {sent: self._stored(key, values[key], flags) for sent, key in given.items()}
        failed = [given[sent] for sent in self._ask("set_many", stored, ttl_of(expire))]
        if failed and self._noreply(noreply):
            more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
            error = MemcacheServerError(f"set_many: not known to be stored: {failed[0]!r}{more}", sent="yes")
            error.partial = failed
            raise error
        return failed

    set_multi = set_many

    def delete(self, key: Key, noreply: bool | None = None) -> bool:
        """Delete an item. Return whether there was one."""
        return bool(self._ask("delete", self.check_key(key))) or self._noreply(noreply)

    def delete_many(self, keys: Iterable[Key], noreply: bool | None = None) -> bool:
        """Delete items. Return True."""
        self._ask("delete_many", [self.check_key(key) for key in keys])
        return True

    delete_multi = delete_many

    def incr(self, key: Key, value: int, noreply: bool | None = False) -> int | None:
        """Add to a number. Return the sum, or None if there is no number, or with ``noreply``."""
        return self._count("incr", key, value, noreply)

    def decr(self, key: Key, value: int, noreply: bool | None = False) -> int | None:
        """Subtract from a number, down to 0. Return the difference, or None as ``incr`` does."""
        return self._count("decr", key, value, noreply)

    def touch(self, key: Key, expire: int = 0, noreply: bool | None = None) -> bool:
        """Set when an item expires. Return whether there is such an item."""
        return bool(self._ask("touch", self.check_key(key), ttl_of(expire))) or self._noreply(noreply)

    def stats(self, *args: Key) -> dict[bytes, Any]:
        """Return the server's statistics."""
        words = b" ".join(self.check_key(word, b"") for word in args)
        try:
            if words.startswith(b"cachedump"):
                return items_of(self._ask_raw(b"stats " + words, b"END\r\n"))
            (found,) = self._ask("stats", words.decode()).values()
        except Exception:
            return self._forgiven({})
        return {name.encode(): converted(name.encode(), value.encode()) for name, value in found.items()}

    def version(self) -> bytes:
        """Return the server's version."""
        (version,) = self._ask("version").values()
        return bytes(version.encode())

    def flush_all(self, delay: int = 0, noreply: bool | None = None) -> bool:
        """Delete all items of the server, after ``delay`` seconds. Return True."""
        self._ask("flush_all", integer(delay, "delay"))
        return True

    def cache_memlimit(self, memlimit: int) -> bool:
        """Set the server's memory limit, in megabytes. Return True."""
        self._ask_raw(b"cache_memlimit %d" % integer(memlimit, "memlimit"))
        return True

    def shutdown(self, graceful: bool = False) -> None:
        """Shut the server down. The server must permit this (memcached's option ``-A``)."""
        # The server closes the connection instead of answering.
        with contextlib.suppress(MemcacheUnexpectedCloseError):
            self._ask_raw(b"shutdown graceful" if graceful else b"shutdown")

    def raw_command(self, command: Key, end_tokens: Key = "\r\n") -> bytes:
        """Send any command, on a connection of its own. Return the reply, without the end that marks it."""
        encoding = "utf-8" if self.allow_unicode_keys else "ascii"
        request = command.encode(encoding) if isinstance(command, str) else command
        end = end_tokens.encode(encoding) if isinstance(end_tokens, str) else end_tokens
        return self._ask_raw(request, end or b"\r\n")

    def __setitem__(self, key: Key, value: Any) -> None:
        self.set(key, value, noreply=True)

    def __getitem__(self, key: Key) -> Any:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __delitem__(self, key: Key) -> None:
        self.delete(key, noreply=True)

    def _ask(self, command: str, *arguments: Any) -> Any:
        client = self._pinyon
        try:
            return getattr(client, command)(*arguments)
        except Error as error:
            # Another thread closed the client between these two lines.
            if isinstance(error, Closed) and error.sent == "no" and client is not self._pinyon:
                return self._ask(command, *arguments)
            raised = translated(error)
            if raised is error:
                raise
            raise raised from error
        except OverflowError as error:
            raise MemcacheIllegalInputError(f"{command}: {error}") from error

    def _ask_raw(self, command: bytes, end: bytes = b"\r\n") -> bytes:
        return _raw.ask(
            self.server,
            command + b"\r\n",
            end,
            timeout=self.timeout,
            connect_timeout=self.connect_timeout,
            socket_module=self.socket_module,
            tls_context=self.tls_context,
        )

    def _store(self, mode: str, key: Key, value: Any, expire: int, noreply: bool | None, flags: int | None) -> bool:
        sent, ttl = self.check_key(key), ttl_of(expire)
        # Appended and prepended bytes have neither ttl nor flags.
        ending = () if mode in ("append", "prepend") else (ttl,)
        return bool(self._ask(mode, sent, self._stored(key, value, flags), *ending)) or self._noreply(noreply)

    def _count(self, command: str, key: Key, value: int, noreply: bool | None) -> int | None:
        number: int | None = self._ask(command, self.check_key(key), integer(value, "value"))
        return None if noreply else number

    def _stored(self, key: Key, value: Any, flags: int | None) -> tuple[bytes, int]:
        data, own_flags = self.serde.serialize(key, value)
        return data_of(data, self.encoding), own_flags if flags is None else flags

    def _with_token(self, key: Key, found: tuple[tuple[bytes, int], int]) -> tuple[Any, bytes]:
        stored, token = found
        return self.serde.deserialize(key, *stored), b"%d" % token

    def _noreply(self, noreply: bool | None) -> bool:
        return bool(self.default_noreply if noreply is None else noreply)

    def _forgiven(self, lost: _Lost) -> _Lost:
        """Return the substitute for an answer, or raise the error that is being handled."""
        if self.ignore_exc:
            return lost
        raise


class PooledClient(Client):
    """The same client, with a limit for its connections.

    Args:
        max_pool_size: the largest number of connections; further threads wait. None for 64.
        pool_idle_timeout: has no effect: idle connections are kept, and checked before they are used again.
        lock_generator: has no effect.
    """

    #: pymemcache's pool contains clients of this class. Here there are none inside.
    client_class = Client

    def __init__(
        self,
        server: ServerSpec,
        serde: Serde | None = None,
        serializer: Any = None,
        deserializer: Any = None,
        connect_timeout: float | None = None,
        timeout: float | None = None,
        no_delay: bool = False,
        ignore_exc: bool = False,
        socket_module: Any = socket,
        socket_keepalive: KeepaliveOpts | None = None,
        key_prefix: Key = b"",
        max_pool_size: int | None = None,
        pool_idle_timeout: float = 0,
        lock_generator: Any = None,
        default_noreply: bool = True,
        allow_unicode_keys: bool = False,
        encoding: str = "ascii",
        tls_context: Any = None,
    ) -> None:
        self._max_connections = max_pool_size
        super().__init__(
            server,
            serde,
            serializer,
            deserializer,
            connect_timeout,
            timeout,
            no_delay,
            ignore_exc,
            socket_module,
            socket_keepalive,
            key_prefix,
            default_noreply,
            allow_unicode_keys,
            encoding,
            tls_context,
        )
