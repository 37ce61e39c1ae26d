"""The clients for gevent. They have the methods of ``pinyon.Client`` and ``pinyon.Locks``.

While a method waits, other greenlets run. All greenlets of a hub share one connection to each server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pinyon import client, locks
from pinyon._gevent_driver import LOOPS
from pinyon._settings import check_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    from typing_extensions import Literal, Self

    from pinyon._credentials import CredentialsFunction
    from pinyon._settings import Algorithm, Dialect, KeyRule, Protocol, Ring, SerializerName
    from pinyon.compression import Compression
    from pinyon.events import Event
    from pinyon.near import Near
    from pinyon.serializers import Serializer
    from pinyon.tls import Tls


__all__ = ["Client", "Locks"]


class Client(client.Client):
    """A client for one or several memcached servers, which all greenlets of all hubs of a process can share.

    Its methods are those of ``pinyon.Client``. Each hub makes its own connections when it needs them. A
    ``gevent.Timeout`` or a kill that ends a greenlet's wait abandons its request only: the reply is dropped when it
    comes.

    Args:
        servers: The servers: `"host[:port[:weight]]"`, `"[v6]:port"` or `"/unix/path"`; several as a list, or separated
            by commas. Without it, the environment variable `MEMCACHE_SERVERS`, or else `127.0.0.1:11211`.
        namespace: A prefix for every key, which gets nothing in between: end it with a separator, such as `shop:`.
        clearable: Whether the namespace can be cleared, by `clear_namespace`. All clients that share the namespace must
            agree.
        generation_ttl: How long other processes may use a namespace after it was cleared, and values after one of their
            tags was invalidated, in seconds. 0 asks before every command, in the same send, and for the tags of each
            value.
        ring: The rule that assigns keys to servers: `"ketama"`, or the name of the client whose rule it is, such as
            `"dalli"`. The page "Rings" lists all of them.
        timeout: How long an operation may take, in seconds, including connecting and retries.
        connect_timeout: How much of `timeout` a connection attempt may take, in seconds.
        serializer: How values become bytes. `"portable"`: plain data, readable in every language; `"pickle"`; `"json"`;
            `"raw"`: bytes only; or an object with `dump` and `load`.
        default_ttl: The ttl, in seconds, of values that are stored without one. 0 never expires.
        failover: Whether the keys of a server that is down go to another server, or fail at once.
        on_failure: Whether an operation raises an error (`"raise"`), or returns what an empty cache would (`"miss"`),
            when no server could carry it out, or when its value is too large or the server is full.
        on_unreadable: What reading does with a stored value that cannot be read: `"raise"` an error, or treat it as
            missing (`"miss"`). `get_or_set` and leases have such a value made anew in either case.
        gutter: Servers that take the keys of servers that are down, written like `servers`. Without it, the next server
            of the ring takes them.
        gutter_ttl: The longest ttl of items in the gutter, in seconds, up to 30 days. Longer ttls are cut to it.
        discovery: How to discover the servers, if `servers` does not list them. `"config"`: `servers` are configuration
            endpoints, as in ElastiCache and Memorystore. `"dns"`: `servers` are names, and each of their addresses is a
            server.
        discovery_interval: How often to look for added and removed servers, in seconds.
        on_event: A function that is called with an `Event` when a server is marked down or is up again, when a command
            is retried or slow, when servers were added or removed, and when a value that cannot be read counts as
            missing.
        slow_after: The duration, in seconds, from which a command counts as slow and causes an event. Without it, no
            command does.
        max_connections: How many connections threads make to each server at most. Further threads wait for a free one.
        connections: The number of connections from each event loop to each server.
        encode_keys: Whether to send keys with spaces or control characters as base64, and long keys as a digest.
            Otherwise such keys are refused.
        key_rule: The client whose rule is used for keys that memcached does not accept, to share a cache with it.
            Without it, `encode_keys` decides.
        max_value_size: The largest value that is stored or read, in bytes, after compression.
        max_decompressed_size: The largest value that is read, in bytes, after decompression. Without it, 16 times
            `max_value_size`.
        compression: How to compress large values: `True` as the dialect does, an algorithm, or a `pinyon.Compression`
            with more settings. Compressed values are read in any case.
        near: Whether to keep keys that are read often in this process's memory, for all threads and event loops of the
            client: `True`, or a `pinyon.Near` with more settings. Another process's write of such a key may go
            unnoticed for so long.
        dialect: The client whose format of stored values is used, to share a cache with it.
        protocol: Which commands are sent. `"auto"`: meta commands if the server takes them, or else classic text.
            `"meta"`: meta commands. `"classic"`: classic text, for proxies that do not even answer `version`.
        max_in_flight: How many requests a connection has in flight at most. Further requests wait.
        max_unsent: How many bytes of unsent requests a connection holds. Further requests wait.
        keepalive: How long a connection may be silent, in seconds, before the system asks whether the server is still
            there. Firewalls forget silent connections after some minutes. 0 never asks.
        keepalive_interval: The time between two such questions, in seconds, while none is answered.
        keepalive_probes: How many such questions may remain unanswered before the connection counts as lost.
        tls: `True` to speak TLS and to trust the certificates that the system trusts, or a `pinyon.Tls` with more
            settings.
        username: The user name, for servers that require a login (memcached's option `-Y`); or a function that returns
            it, or both. It is called before each connection.
        password: The password that belongs to `username`, or a function that returns it, or both.

    Raises:
        InvalidServers: the list of servers is empty or malformed.
        UsageError: another setting cannot be used.
    """

    __slots__ = ()

    @check_names("Client")
    def __new__(
        cls,
        servers: str | Iterable[str] | None = None,
        *,
        namespace: str | bytes | None = None,
        clearable: bool = False,
        generation_ttl: float | timedelta = 1.0,
        ring: Ring | str = "ketama",
        timeout: float = 1.0,
        connect_timeout: float = 0.5,
        serializer: SerializerName | Serializer = "portable",
        default_ttl: float | timedelta = 0.0,
        failover: bool = True,
        on_failure: Literal["raise", "miss"] = "raise",
        on_unreadable: Literal["raise", "miss"] = "raise",
        gutter: str | Iterable[str] | None = None,
        gutter_ttl: float | timedelta = 10.0,
        discovery: Literal["config", "dns"] | None = None,
        discovery_interval: float = 60.0,
        on_event: Callable[[Event], object] | None = None,
        slow_after: float | None = None,
        max_connections: int = 64,
        connections: int = 1,
        encode_keys: bool = False,
        key_rule: KeyRule | None = None,
        max_value_size: int = 1048576,
        max_decompressed_size: int | None = None,
        compression: bool | Algorithm | Compression | None = None,
        near: bool | Near | None = None,
        dialect: Dialect = "pinyon",
        protocol: Protocol = "auto",
        max_in_flight: int = 4096,
        max_unsent: int = 65536,
        keepalive: float = 60.0,
        keepalive_interval: float = 15.0,
        keepalive_probes: int = 4,
        tls: bool | Tls | None = None,
        username: str | CredentialsFunction | None = None,
        password: str | bytes | CredentialsFunction | None = None,
    ) -> Self:
        return cls._made(LOOPS, {**locals()})


class Locks(locks.Locks):
    """Locks on one Redis or Valkey server, which all greenlets of all hubs of a process can share.

    Its methods are those of ``pinyon.Locks``. Other greenlets run while one waits. Each hub has its own connection. A
    greenlet whose wait for a lock is ended leaves the queue.

    Args:
        url: The server: `redis://[user[:password]@]host[:port][/database]`, `rediss://…` with TLS,
            `unix:///path[?db=database]`, `redis+cluster://host,host,host`, or
            `redis+sentinel://host,host,host/service[/database]`. Several URLs, 3 to 9 and an odd number, are
            independent servers; a majority of them holds each lock.
        label: What this program is called, such as `"web2:worker"`, for people who look who holds a lock: up to 64
            bytes. Without it they see the host.
        namespace: A prefix for the names of locks. Only locks with the same namespace exclude each other.
        prefix: What all keys and channels begin with, for a user whom the server's ACL limits to such: `"tenant:"` for
            `~tenant:*`. The namespace follows.
        hash_tags: What decides on which node of a cluster a lock is kept. `"namespace"`: all locks of a namespace are
            on one node. `"names"`: locks with the same `{tag}` in their names are on one node.
        ttl: How long a lock outlives a holder that has died, in seconds. While the holder lives, the lock is renewed.
        longest_ttl: The longest ttl that any client of these servers gives a lock, in seconds; without it, `ttl`. Only
            for several servers. One that was started a shorter time ago may have forgotten locks, and has no vote. 0
            lets servers vote at once, for tests, whose servers have no locks to forget.
        timeout: How long to wait for a lock, in seconds. 0 does not wait, infinity waits without a limit.
        reentrant: Whether a holder may acquire again what it holds.
        handler: How the server keeps locks: `"script"` by functions on the server, `"pure"` by plain commands, `"auto"`
            by the first of them that the server permits. Clients with different handlers can share locks.
        fairness: Who is next: `"fifo"`, first come, first served, for each name; or `"throughput"`, whoever finds all
            its names free. Without it, `"fifo"`; with several servers, `"throughput"`.
        replicas: How many replicas must have a lock before it counts as acquired. Too few of them in time are a
            failure, and the lock is released.
        username: The user name, instead of the one in the URL; or a function that returns it, or both, and how long
            they last. It is called before each connection, and again before they end.
        password: The password, instead of the one in the URL; or a function that returns it, or both, and how long they
            last.
        protocol: The version of Redis' protocol: 3, or 2 for servers and proxies that fail with 3. Without it, 3, or 2
            if the server refuses 3.
        heartbeat: How often a waiting client tells the server that it is alive, in seconds.
        command_timeout: How long the server may take to answer a command, in seconds.
        connect_timeout: How long a connection attempt may take, in seconds.
        on_event: A function that is called with an `Event` when the server or a Sentinel is down or up again, when
            another server takes over as the primary, and when renewals are refused.
        keepalive: How long a connection may be silent, in seconds, before the system asks whether the server is still
            there. Firewalls forget silent connections after some minutes. 0 never asks.
        keepalive_interval: The time between two such questions, in seconds, while none is answered.
        keepalive_probes: How many such questions may remain unanswered before the connection counts as lost.
        tls: `True` to speak TLS, like `rediss://`, or a `pinyon.Tls` with more settings. Without it, the URL decides.
        sentinel_username: The user name for the Sentinels, if they have users; or a function, as `username`.
        sentinel_password: The password for the Sentinels, or a function, as `password`. The user and the password in
            the URL are for the servers.
        sentinel_tls: Whether to speak TLS with the Sentinels, as `tls`. Without it, `tls` decides for them, too.

    Raises:
        UsageError: a setting cannot be used. Errors of the server come on first use.
    """

    __slots__ = ()

    _loops = LOOPS
