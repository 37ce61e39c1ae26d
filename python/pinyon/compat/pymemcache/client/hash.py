"""pymemcache's client for several servers."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pinyon.compat.pymemcache.client._arguments import Key, check_key_helper, normalize_server_spec, prefix_of
from pinyon.compat.pymemcache.client.base import Client, PooledClient
from pinyon.compat.pymemcache.client.rendezvous import RendezvousHash
from pinyon.compat.pymemcache.exceptions import MemcacheError

logger: logging.Logger = logging.getLogger(__name__)


class _Failure(NamedTuple):
    """The state of a failed server: when it failed last, and how many attempts failed since the first."""

    since: float
    attempts: int


class HashClient:
    """A client for several memcached servers, with pymemcache's arguments, methods and defaults.

    Keys are on the same servers as with pymemcache. If a server fails, it is not used for ``retry_timeout``, and its
    keys are misses. After ``retry_attempts`` its keys go to the other servers, for ``dead_timeout``.

    Args:
        servers: a list of servers as ``Client`` takes them.
        hasher: a class with ``get_node``, ``add_node`` and ``remove_node``.
        retry_attempts: how often a server is retried before its keys go to other servers.
        retry_timeout: seconds from one attempt to the next.
        dead_timeout: seconds until a removed server gets its keys back.
        use_pooling: use ``PooledClient``.
        ignore_exc: do not raise errors. Reads are then misses, and nothing is stored.

    All other arguments are those of ``Client`` and ``PooledClient``.
    """

    #: The class of the clients for one server.
    client_class: Any = Client

    def __init__(
        self,
        servers: Iterable[Any],
        hasher: Any = RendezvousHash,
        serde: Any = None,
        serializer: Any = None,
        deserializer: Any = None,
        connect_timeout: float | None = None,
        timeout: float | None = None,
        no_delay: bool = False,
        socket_module: Any = socket,
        socket_keepalive: Any = None,
        key_prefix: Key = b"",
        max_pool_size: int | None = None,
        pool_idle_timeout: float = 0,
        lock_generator: Any = None,
        retry_attempts: int = 2,
        retry_timeout: float = 1,
        dead_timeout: float = 60,
        use_pooling: bool = False,
        ignore_exc: bool = False,
        allow_unicode_keys: bool = False,
        default_noreply: bool = True,
        encoding: str = "ascii",
        tls_context: Any = None,
    ) -> None:
        self.clients: dict[str, Any] = {}
        self.hasher: Any = hasher()
        self.retry_attempts = retry_attempts
        self.retry_timeout = retry_timeout
        self.dead_timeout = dead_timeout
        self.use_pooling = use_pooling
        self.key_prefix: bytes = prefix_of(key_prefix)
        self.ignore_exc = ignore_exc
        self.allow_unicode_keys = allow_unicode_keys
        self.encoding = encoding
        self.tls_context = tls_context
        self.default_kwargs: dict[str, Any] = {
            "connect_timeout": connect_timeout,
            "timeout": timeout,
            "no_delay": no_delay,
            "socket_module": socket_module,
            "socket_keepalive": socket_keepalive,
            "key_prefix": key_prefix,
            "serde": serde,
            "serializer": serializer,
            "deserializer": deserializer,
            "allow_unicode_keys": allow_unicode_keys,
            "default_noreply": default_noreply,
            "encoding": encoding,
            "tls_context": tls_context,
        }
        self._pool_settings = {
            "max_pool_size": max_pool_size,
            "pool_idle_timeout": pool_idle_timeout,
            "lock_generator": lock_generator,
        }
        self._failed_clients: dict[Any, _Failure] = {}
        self._dead_clients: dict[Any, float] = {}
        self._changing = threading.RLock()
        for server in servers:
            self.add_server(normalize_server_spec(server))

    def add_server(self, server: Any, port: int | None = None) -> None:
        """Add a server."""
        server = _server(server, port)
        # Every client of this package is a pool. A client of the program's own class is used as it is.
        if self.use_pooling and self.client_class is Client:
            client: Any = PooledClient(server, **self.default_kwargs, **self._pool_settings)
        else:
            client = self.client_class(server, **self.default_kwargs)
        with self._changing:
            before = self.clients.get(_node(server))
            self.clients[_node(server)] = client
            self.hasher.add_node(_node(server))
        if before is not None:
            before.close()

    def remove_server(self, server: Any, port: int | None = None) -> None:
        """Remove a server for ``dead_timeout``."""
        server = _server(server, port)
        with self._changing:
            self._failed_clients.pop(server, None)
            if server not in self._dead_clients:
                self._dead_clients[server] = time.monotonic()
                self.hasher.remove_node(_node(server))

    def _revive(self) -> None:
        """Add the removed servers again whose ``dead_timeout`` has passed."""
        now = time.monotonic()
        with self._changing:
            for server in [server for server, since in self._dead_clients.items() if now - since > self.dead_timeout]:
                logger.debug("using the server %s again", server)
                self.add_server(server)
                del self._dead_clients[server]

    def _get_client(self, key: Key) -> Any:
        """Return the client of the key's server. Return None if no server is left and that is not an error."""
        check_key_helper(key, self.allow_unicode_keys, self.key_prefix)
        if self._dead_clients:
            self._revive()
        node = self.hasher.get_node(key)
        if node is not None:
            return self.clients[node]
        if self.ignore_exc:
            return None
        raise MemcacheError("All servers seem to be down right now")

    def _on_server(self, client: Any, lost: Any, command: str, *arguments: Any, **settings: Any) -> Any:
        """Return a command's result, or ``lost`` if the server is not used now, or if its error is ignored."""
        server = client.server
        failure = self._failed_clients.get(server)
        if failure is not None and failure.attempts >= self.retry_attempts:
            logger.debug("giving up the server %s", server)
            self.remove_server(server)
        elif failure is not None and time.monotonic() - failure.since <= self.retry_timeout:
            return lost
        try:
            answer = getattr(client, command)(*arguments, **settings)
        except Exception as error:
            if isinstance(error, OSError):
                self._mark_failed_server(server)
            if not self.ignore_exc:
                raise
            return lost
        if failure is not None:
            self._failed_clients.pop(server, None)
        return answer

    def _mark_failed_server(self, server: Any) -> None:
        before = self._failed_clients.get(server)
        self._failed_clients[server] = _Failure(time.monotonic(), 0 if before is None else before.attempts + 1)
        if self.retry_attempts <= 0:
            self.remove_server(server)

    def _run(self, command: str, key: Key, lost: Any, *arguments: Any, **settings: Any) -> Any:
        client = self._get_client(key)
        return lost if client is None else self._on_server(client, lost, command, key, *arguments, **settings)

    def _by_server(self, keys: Iterable[Key]) -> tuple[list[tuple[Any, list[Key]]], list[Key]]:
        """Return each server's client with its keys, and the keys without a server."""
        placed: dict[int, tuple[Any, list[Key]]] = {}
        homeless: list[Key] = []
        for key in keys:
            client = self._get_client(key)
            if client is None:
                homeless.append(key)
            else:
                placed.setdefault(id(client), (client, []))[1].append(key)
        return list(placed.values()), homeless

    def get(self, key: Key, default: Any = None, **kwargs: Any) -> Any:
        return self._run("get", key, default, default=default, **kwargs)

    def gets(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("gets", key, None, *args, **kwargs)

    def get_many(self, keys: Iterable[Key], gets: bool = False, *args: Any, **kwargs: Any) -> dict[Key, Any]:
        found: dict[Key, Any] = {}
        for client, own in self._by_server(keys)[0]:
            found.update(self._on_server(client, {}, "gets_many" if gets else "get_many", own, *args, **kwargs))
        return found

    get_multi = get_many

    def gets_many(self, keys: Iterable[Key], *args: Any, **kwargs: Any) -> dict[Key, Any]:
        return self.get_many(keys, True, *args, **kwargs)

    gets_multi = gets_many

    def set(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("set", key, False, *args, **kwargs)

    def add(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("add", key, False, *args, **kwargs)

    def replace(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("replace", key, False, *args, **kwargs)

    def append(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("append", key, False, *args, **kwargs)

    def prepend(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("prepend", key, False, *args, **kwargs)

    def cas(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("cas", key, False, *args, **kwargs)

    def set_many(self, values: Mapping[Key, Any], *args: Any, **kwargs: Any) -> list[Key]:
        """Store many values. Return the keys that were not stored."""
        placed, failed = self._by_server(values)
        for client, own in placed:
            failed += self._on_server(client, own, "set_many", {key: values[key] for key in own}, *args, **kwargs)
        return failed

    set_multi = set_many

    def delete(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("delete", key, False, *args, **kwargs)

    def delete_many(self, keys: Iterable[Key], *args: Any, **kwargs: Any) -> bool:
        for client, own in self._by_server(keys)[0]:
            self._on_server(client, False, "delete_many", own, *args, **kwargs)
        return True

    delete_multi = delete_many

    def incr(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("incr", key, False, *args, **kwargs)

    def decr(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("decr", key, False, *args, **kwargs)

    def touch(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self._run("touch", key, False, *args, **kwargs)

    def flush_all(self, *args: Any, **kwargs: Any) -> None:
        for client in list(self.clients.values()):
            self._on_server(client, False, "flush_all", *args, **kwargs)

    def close(self) -> None:
        """Close the connections. The next command connects again."""
        for client in list(self.clients.values()):
            client.close()

    disconnect_all = close
    quit = close


def _server(server: Any, port: int | None) -> Any:
    """Return the server that the arguments name: one argument, or a host and a port."""
    if port is None:
        return server
    if not isinstance(server, str):
        raise TypeError("Server must be a string when passing port.")
    return (server, port)


def _node(server: Any) -> str:
    """Return the hasher's name for a server."""
    return server if isinstance(server, str) else f"{server[0]}:{server[1]}"
