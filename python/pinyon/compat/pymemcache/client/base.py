"""pymemcache's client for one server, which is a ``pinyon.Client`` underneath."""

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
from pinyon.compat.pymemcache.client._settings import KeepaliveOpts, check_keepalive, connected, tls_of
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
    """The serializer that Pinyon gets: values are bytes and flags, as the serde, which wants the key too, made them."""

    def dump(self, value: tuple[bytes, int]) -> tuple[bytes, int]:
        return value

    def load(self, data: bytes, flags: int) -> tuple[bytes, int]:
        return data, flags


class Client:
    """A client for one memcached server, with pymemcache's arguments, methods and defaults.

    Every command waits for its reply, also with ``noreply=True``, which then returns what it would without one; so
    errors are raised, and the next command sees what this one did. It may be shared by threads and greenlets, and after
    ``close`` it connects again.

    Args:
        server: ``(host, port)``, ``"host:port"`` or the path of a Unix socket.
        serde: an object with ``serialize(key, value)`` and ``deserialize(key, value, flags)``.
        serializer, deserializer: such functions, where there is no ``serde``.
        connect_timeout: seconds that connecting may take; None for 5.
        timeout: seconds that an operation may take, all in all; None for 10.
        no_delay: is always so.
        ignore_exc: let reads be misses where they fail.
        socket_module: ``socket``, or ``gevent.socket`` to let other greenlets run, which is also done when gevent has
            patched the process.
        socket_keepalive: without effect, as every wait has a deadline.
        key_prefix: put before every key.
        default_noreply: what ``noreply`` is where a method is not told.
        allow_unicode_keys: take keys of text beyond ASCII, as UTF-8.
        encoding: of values that the serde leaves as text, or as what ``str`` makes text of.
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
        check_keepalive(socket_keepalive)
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
        )

    def close(self) -> None:
        """Close the connections; the next command opens one again."""
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
        """Return the values of those keys that have one."""
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
        """Return the values, with their CAS tokens, of those keys that have one."""
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
        """Put a value behind the one that is there, whose expiry and flags stay. Return whether there was one."""
        return self._store("append", key, value, expire, noreply, flags)

    def prepend(
        self, key: Key, value: Any, expire: int = 0, noreply: bool | None = None, flags: int | None = None
    ) -> bool:
        """Put a value before the one that is there, whose expiry and flags stay. Return whether there was one."""
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
        """Store many values. Return the keys not known to be stored; with ``noreply`` they are an error."""
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
        """Add to a number. Return the sum, or None if there is none, and with ``noreply``."""
        return self._count("incr", key, value, noreply)

    def decr(self, key: Key, value: int, noreply: bool | None = False) -> int | None:
        """Subtract from a number, down to 0. Return the difference, or None if there is none, and with ``noreply``."""
        return self._count("decr", key, value, noreply)

    def touch(self, key: Key, expire: int = 0, noreply: bool | None = None) -> bool:
        """Set when an item expires. Return whether there is one."""
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
        """Let the server forget all items, after ``delay`` seconds. Return True."""
        self._ask("flush_all", integer(delay, "delay"))
        return True

    def cache_memlimit(self, memlimit: int) -> bool:
        """Set how many megabytes the server uses. Return True."""
        self._ask_raw(b"cache_memlimit %d" % integer(memlimit, "memlimit"))
        return True

    def shutdown(self, graceful: bool = False) -> None:
        """End the server, which has to allow it (memcached's option ``-A``)."""
        # It closes the connection instead of answering.
        with contextlib.suppress(MemcacheUnexpectedCloseError):
            self._ask_raw(b"shutdown graceful" if graceful else b"shutdown")

    def raw_command(self, command: Key, end_tokens: Key = "\r\n") -> bytes:
        """Send any command, on a connection of its own; return its reply, without the end that is waited for."""
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
            # Another thread closed it between the two lines.
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
        # What is put to an item has neither ttl nor flags of its own.
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
        """Return what is instead of an answer, or raise the error that is being handled."""
        if self.ignore_exc:
            return lost
        raise


class PooledClient(Client):
    """The same; its connections are limited.

    Args:
        max_pool_size: how many connections there are at most; further threads wait their turn. None for 64.
        pool_idle_timeout: without effect: idle connections are kept, and looked at before they are used again.
        lock_generator: without effect.
    """

    #: What it is made of in pymemcache; here it has no clients inside.
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
