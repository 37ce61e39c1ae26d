from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar, overload

from typing_extensions import Literal, Self, TypeAlias, Unpack

from pinyon import _native
from pinyon._aio_cached import Cached as Cached
from pinyon._aio_cached import Caching
from pinyon._aio_leader import Leader as Leader
from pinyon._aio_locks import Held as Held
from pinyon._aio_locks import Lock as Lock
from pinyon._aio_locks import Locks as Locks
from pinyon._aio_locks import Permits as Permits
from pinyon._aio_locks import Rate as Rate
from pinyon._aio_replies import Reply as Reply
from pinyon._credentials import CredentialsFunction
from pinyon._made import Made
from pinyon._settings import Algorithm, Dialect, KeyRule, Protocol, Ring, SerializerName
from pinyon._terms import Terms
from pinyon.compression import Compression
from pinyon.errors import Error
from pinyon.events import Event
from pinyon.leases import BaseLease
from pinyon.metadata import ItemMetadata
from pinyon.metrics import NearMetrics, ServerMetrics
from pinyon.migration import Progress
from pinyon.near import Near
from pinyon.serializers import Serializer
from pinyon.tls import Tls

_Key: TypeAlias = str | bytes
_KeyT = TypeVar("_KeyT", bound=str | bytes)
_Ttl: TypeAlias = int | float | timedelta

_T = TypeVar("_T")

class Lease(BaseLease):
    """What ``Client.lease`` returns: a value, or the right to make one.

    At the end of an ``async with`` block it gives back what was not fulfilled.

    Attributes:
        key: the key, as it was given.
        state: the ``pinyon.Outcome``.
        value: the value, or None if ``has_value`` is false. If the state is ``WON``, it is a stale value.
        has_value: whether there is a value, which can be None.
    """

    async def fulfil(self, value: object, ttl: _Ttl = ...) -> bool:
        """Store the value. Arguments, result and errors are those of ``pinyon.Lease.fulfil``."""
    async def give_back(self) -> bool:
        """Let the next caller win, like ``pinyon.Lease.give_back``."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class Client(Caching):
    """A client for one or several memcached servers, which all tasks of all event loops of a process can share.

    Its methods are those of ``pinyon.Client``, awaited: those that ask a server return a ``Reply``, which is an
    ``asyncio.Future``; ``get_or_set`` and ``lease`` are coroutines. Each event loop makes its own connections when it
    needs them. Cancelling a task abandons its request only: the reply is dropped when it comes.

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
    ) -> Self: ...
    @property
    def servers(self) -> list[str]:
        """The names of the servers that hold keys now, without those of the gutter."""
    @property
    def namespace(self) -> bytes:
        """The prefix of every key, as bytes."""
    async def lease(self, key: _Key, *, lease: _Ttl = 10, recache: _Ttl = 0) -> Lease:
        """Read an item, and ask for the right to make a new value. The arguments are those of ``pinyon.Client.lease``.

        Returns:
            The ``Lease``. If its ``state`` is ``Outcome.WON``, await ``fulfil`` or ``give_back``.
        """
    def quiet(self) -> Batch:
        """Return a batch of commands that are sent without waiting for each reply.

        Use it as ``async with client.quiet() as batch: …``. The end of the block waits until the outcome of every
        command is known. It raises ``BatchError`` if any of them failed.
        """
    def describe(self) -> list[str]:
        """Return one line about each server: its name, whether it is up, and its connections. No server is asked."""
    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
    def using(
        self,
        *,
        failover: bool | None = None,
        on_failure: Literal["raise", "miss"] | None = None,
        on_unreadable: Literal["raise", "miss"] | None = None,
        near: bool | None = None,
    ) -> Self:
        """Return a view of this client that behaves differently when a server fails, or a value cannot be read.

        A view costs next to nothing. It shares everything else with the client: connections, the health of servers, all
        other settings. Closing either closes both.

        Args:
            failover: as for the client. None leaves it as it is.
            on_failure: as for the client. None leaves it as it is.
            on_unreadable: as for the client. None leaves it as it is.
            near: whether reading may return what the client keeps in memory. ``False`` asks the servers. None leaves it
                as it is.

        Returns:
            The view, of the same class.
        """
    def get(self, key: _Key, default: object = None) -> Reply[Any]:
        """Return the value of a key.

        Args:
            key: text (sent as UTF-8) or bytes.
            default: what to return if there is no value.

        Returns:
            The value, or `default`.

        Raises:
            UndecodableValue: the value was stored by other means, or its class is gone, and the serializer cannot read
                it. With `on_unreadable="miss"`, that is a miss.
        """
    def get_many(self, keys: Iterable[_KeyT], *, failed: dict[str, Error] | None = None) -> Reply[dict[_KeyT, Any]]:
        """Return the values of many keys.

        All servers are asked at the same time. If a server fails, its keys are asked of the next server (`failover`).

        Args:
            keys: text or bytes.
            failed: a dict, to accept partial results. It receives the error of each server that failed, under the
                server's name, and that of each value that cannot be read, under its key. The call raises nothing for
                them.

        Returns:
            A dict of the values, without the keys that have none.

        Raises:
            Error: a server failed, and neither `failed` nor `on_failure="miss"` allows that. The attribute `partial`
                of the error has the values that did arrive.
            UndecodableValue: a value cannot be read, and neither `failed` nor `on_unreadable="miss"` allows that. The
                attribute `partial` has the others.
        """
    def gets_many(
        self, keys: Iterable[_KeyT], *, failed: dict[str, Error] | None = None
    ) -> Reply[dict[_KeyT, tuple[Any, int]]]:
        """Return the values of many keys, each with its CAS token.

        Args:
            keys: as for `get_many`.
            failed: as for `get_many`.

        Returns:
            A dict of pairs, the value and its CAS token, without the keys that have no value.
        """
    def gets(self, key: _Key) -> Reply[tuple[Any, int] | None]:
        """Return the value of a key with its CAS token, for `cas`.

        Args:
            key: text (sent as UTF-8) or bytes.

        Returns:
            The value and its token, or None if there is no value.
        """
    def get_with_ttl(self, key: _Key) -> Reply[tuple[Any, int | None] | None]:
        """Return the value of a key with the time until it expires.

        Args:
            key: text (sent as UTF-8) or bytes.

        Returns:
            The value and the seconds until it expires (None: it never expires), or None if there is no value.

        Raises:
            Unsupported: the server is older than memcached 1.6.10.
        """
    def gat(self, key: _Key, ttl: _Ttl) -> Reply[Any]:
        """Return the value of a key, and set its ttl (get and touch).

        Args:
            key: text (sent as UTF-8) or bytes.
            ttl: seconds (int or float, rounded up) or a timedelta until it expires; 0 never expires.

        Returns:
            The value, or None if there is none.
        """
    def touch(self, key: _Key, ttl: _Ttl) -> Reply[bool]:
        """Set the ttl of an item.

        Args:
            key: text (sent as UTF-8) or bytes.
            ttl: seconds (int or float, rounded up) or a timedelta until it expires; 0 never expires.

        Returns:
            Whether there is such an item.
        """
    def set(
        self, key: _Key, value: object, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> Reply[bool]:
        """Store a value.

        Args:
            key: text (sent as UTF-8) or bytes.
            value: any value that the serializer takes.
            ttl: seconds (int or float, rounded up) or a timedelta until it expires; by default the client's
                `default_ttl`. 0 never expires; a negative ttl expires immediately.
            tags: names, such as `("user:7",)`. `invalidate_tags` has the value count as missing.

        Returns:
            True. With `on_failure="miss"`, False if no server could store it.

        Raises:
            UnsupportedType: the serializer does not take such a value.
            ValueTooLarge: the value is larger than `max_value_size`, or than the server allows.
        """
    def add(
        self, key: _Key, value: object, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> Reply[bool]:
        """Store a value unless the key has one.

        Args:
            key: as for `set`.
            value: as for `set`.
            ttl: as for `set`.
            tags: as for `set`.

        Returns:
            Whether the value was stored.
        """
    def replace(
        self, key: _Key, value: object, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> Reply[bool]:
        """Store a value if the key has one already.

        Args:
            key: as for `set`.
            value: as for `set`.
            ttl: as for `set`.
            tags: as for `set`.

        Returns:
            Whether the value was stored.
        """
    def append(self, key: _Key, value: object) -> Reply[bool]:
        """Append to the stored value. Its ttl stays as it is.

        The stored value must be text or bytes too: the server joins the bytes and does not know what they mean. Any
        other value cannot be read afterwards.

        Args:
            key: text (sent as UTF-8) or bytes.
            value: text or bytes, put after the stored text or bytes.

        Returns:
            Whether there was a value.
        """
    def prepend(self, key: _Key, value: object) -> Reply[bool]:
        """Prepend to the stored value, which must be text or bytes, as for `append`. Its ttl stays as it is.

        Args:
            key: text (sent as UTF-8) or bytes.
            value: text or bytes, put before the stored text or bytes.

        Returns:
            Whether there was a value.
        """
    def cas(
        self, key: _Key, value: object, cas: int, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> Reply[bool | None]:
        """Store a value if the item has not changed since `gets` returned its CAS token (compare and swap).

        Args:
            key: as for `set`.
            value: as for `set`.
            cas: the token.
            ttl: as for `set`.
            tags: as for `set`.

        Returns:
            True if the value was stored, False if the item has changed, None if there is no item.
        """
    def set_many(
        self, mapping: Mapping[_KeyT, object], ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> Reply[list[_KeyT]]:
        """Store many values.

        Args:
            mapping: values by key.
            ttl: as for `set`, the same for all values.
            tags: as for `set`, the same for all values.

        Returns:
            The keys that were not stored.
        """
    def delete(self, key: _Key, *, stale: _Ttl | None = None) -> Reply[bool]:
        """Delete an item, or mark it stale.

        Args:
            key: text (sent as UTF-8) or bytes.
            stale: seconds (int or float, rounded up) or a timedelta. The item is then marked stale instead, and
                expires after this time. The next caller of `get_or_set` makes a new value; all others get the stale
                one meanwhile.

        Returns:
            Whether there was such an item.
        """
    def delete_many(self, keys: Iterable[_Key]) -> Reply[int]:
        """Delete many items.

        Args:
            keys: text or bytes.

        Returns:
            How many items there were.
        """
    def incr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = ...) -> Reply[int | None]:
        """Add to a stored integer.

        Args:
            key: text (sent as UTF-8) or bytes.
            delta: from 0 to 2**64-1.
            initial: the value to create if there is none. Without it, nothing is created.
            ttl: of a value that is created, as for `set`.

        Returns:
            The sum, modulo 2**64; `initial` if the value was created; or None if there is no value.

        Raises:
            ServerError: the value is not an integer.
        """
    def decr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = ...) -> Reply[int | None]:
        """Subtract from a stored integer.

        Args:
            key: text (sent as UTF-8) or bytes.
            delta: from 0 to 2**64-1.
            initial: the value to create if there is none. Without it, nothing is created.
            ttl: of a value that is created, as for `set`.

        Returns:
            The difference, at least 0; `initial` if the value was created; or None if there is no value.

        Raises:
            ServerError: the value is not an integer.
        """
    @overload
    async def get_or_set(
        self,
        key: _Key,
        make: Callable[[], Awaitable[_T | Made[_T]]],
        ttl: _Ttl | Callable[[_T], _Ttl],
        **terms: Unpack[Terms],
    ) -> _T:
        """Return the value of a key. If there is none, one task makes it, and all other tasks wait for it.

        Args:
            key: text or bytes.
            make: a function or coroutine function without arguments that makes the value. It may return a
                ``pinyon.Made`` with the value.
            ttl: as for ``pinyon.Client.get_or_set``.
            **terms: see there.

        Returns:
            The value.

        Raises:
            LeaseTimeout: another task was still making the value after ``wait`` seconds.
            Unsupported: the server is older than memcached 1.6.10.
            UsageError: an argument, or a ``Made``, makes no sense.
        """
    @overload
    async def get_or_set(
        self,
        key: _Key,
        make: Callable[[], _T | Made[_T]],
        ttl: _Ttl | Callable[[_T], _Ttl],
        **terms: Unpack[Terms],
    ) -> _T:
        """Return the value of a key. If there is none, one task makes it, and all other tasks wait for it.

        Args:
            key: text or bytes.
            make: a function or coroutine function without arguments that makes the value. It may return a
                ``pinyon.Made`` with the value.
            ttl: as for ``pinyon.Client.get_or_set``.
            **terms: see there.

        Returns:
            The value.

        Raises:
            LeaseTimeout: another task was still making the value after ``wait`` seconds.
            Unsupported: the server is older than memcached 1.6.10.
            UsageError: an argument, or a ``Made``, makes no sense.
        """
    def iter_many(
        self,
        keys: Iterable[_KeyT] | AsyncIterable[_KeyT],
        *,
        chunk: int = 100,
        failed: dict[str, Error] | None = None,
    ) -> AsyncIterator[tuple[_KeyT, Any]]:
        """Return the values of any number of keys, in bounded memory.

        Args:
            keys: text or bytes, from any iterable or asynchronous iterable. They are taken when they are needed.
            chunk: how many keys are asked for at once. The next chunk is asked for before the pairs of the present one
                are used, so twice as many values are in memory at most.
            failed: as for ``get_many``.

        Returns:
            An asynchronous iterator of pairs, a key and its value, without the keys that have none. The keys of a chunk
            are in their order.

        Raises:
            Error: as ``get_many``, when its chunk is reached. The attribute ``partial`` has the other values of the
                chunk.
            UnsupportedType: ``keys`` are no iterable.
            UsageError: ``chunk`` is less than 1.
        """
    def meta(self, key: _Key) -> Reply[ItemMetadata | None]:
        """Return what the server knows of an item besides its value. This does not count as reading the item.

        Args:
            key: text (sent as UTF-8) or bytes.

        Returns:
            An `ItemMetadata`, or None if there is no such item.

        Raises:
            Unsupported: the server is older than memcached 1.6.10.
        """
    def flush_all(self, delay: int = 0) -> Reply[None]:
        """Make all servers forget all items.

        Args:
            delay: seconds from now, or a timedelta; rounded up to whole seconds.
        """
    def stats(self, kind: str | None = None) -> Reply[dict[str, dict[str, str]]]:
        """Return the statistics of each server.

        Args:
            kind: a group of memcached's statistics, such as "items", "slabs" or "settings"; by default the general
                ones.

        Returns:
            A dict by server of dicts by name.
        """
    def version(self) -> Reply[dict[str, str]]:
        """Return the version of each server.

        Returns:
            A dict by server.
        """
    def touch_many(self, keys: Iterable[_KeyT], ttl: _Ttl) -> Reply[list[_KeyT]]:
        """Set the ttl of many items.

        All servers are asked at the same time.

        Args:
            keys: text or bytes.
            ttl: as for `touch`, the same for all items.

        Returns:
            A list of the keys that have an item.

        Raises:
            Error: a server failed. The attribute `partial` of the error has the keys whose items did get the ttl.
        """
    def gat_many(
        self, keys: Iterable[_KeyT], ttl: _Ttl, *, failed: dict[str, Error] | None = None
    ) -> Reply[dict[_KeyT, Any]]:
        """Return the values of many keys, and set their ttl (get and touch).

        All servers are asked at the same time.

        Args:
            keys: text or bytes.
            ttl: as for `gat`, the same for all items.
            failed: as for `get_many`.

        Returns:
            A dict of the values, without the keys that have none.

        Raises:
            Error: as for `get_many`.
        """
    def clear_namespace(self) -> Reply[None]:
        """Forget all items of the client's namespace, and nothing else. Needs the settings `namespace` and `clearable`.

        The call replaces the generation that is part of every stored key. It deletes nothing, and costs one command for
        each server. This process sees the clear at once, others within their `generation_ttl`.

        Raises:
            UsageError: the namespace is not clearable.
            Error: a server could not be reached. The others are cleared, and this one is before this process sends it
                anything else.
        """
    def invalidate_tags(self, *tags: _Key) -> Reply[None]:
        """Have all values with one of these tags count as missing, wherever they are.

        The call gives each tag another generation. It costs one command for each tag. This process sees it at once,
        others within their `generation_ttl`. What is made meanwhile does not count either.

        Args:
            tags: names, such as "user:7".

        Raises:
            Error: the server of a tag could not be reached: its values may still be read. Call it again.
        """
    def close(self) -> None:
        """Close the connections. Values that are still being made behind callers with old ones are not stored any
        more, and others may make them. A closed client refuses further use. Closing it again does nothing.
        """
    def servers_of(self, key: _Key) -> list[str]:
        """Return the servers that hold a key: its own first, then those that replace it when it is down, in order.

        The ring decides this; the state of the servers does not matter. No server is asked.

        Args:
            key: text (sent as UTF-8) or bytes.

        Returns:
            The names of servers. The list is empty while no servers have been discovered yet.
        """
    def metrics(self) -> dict[str, ServerMetrics]:
        """Return what this client and its views have counted so far, by server. No server is asked.

        A forked process counts from zero.

        Returns:
            A dict of `ServerMetrics` by the server's name.
        """
    def near_metrics(self) -> NearMetrics:
        """Return what became of the hot keys that this client and its views keep in memory. No server is asked.

        A forked process counts from zero.

        Returns:
            The `NearMetrics`. Without the setting `near`, they are zero.
        """
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class MigratingClient(Caching):
    """Two clients in use as one, for asyncio. ``pinyon.aio.migrating`` makes one. Its methods are coroutines."""

    old: Client
    new: Client
    @property
    def progress(self) -> Progress:
        """How many keys were found so far, and where. When ``old`` no longer grows, you can switch off the old pool."""
    async def lease(self, key: _Key, *, lease: _Ttl = 10, recache: _Ttl = 0) -> Lease:
        """Like ``Client.lease``; a value in the old pool only is moved first."""
    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
    def using(
        self,
        *,
        failover: bool | None = None,
        on_failure: Literal["raise", "miss"] | None = None,
        on_unreadable: Literal["raise", "miss"] | None = None,
        near: bool | None = None,
    ) -> Self:
        """Return a view of this client that behaves differently when a server fails, like ``Client.using``."""
    async def get(self, key: _Key, default: object = None) -> Any:
        """Return the value of a key, or ``default``. If only the old pool has it, it is moved with its ttl."""
    async def get_many(self, keys: Iterable[_KeyT], *, failed: dict[str, Error] | None = None) -> dict[_KeyT, Any]:
        """Return the values of many keys from both pools. Each call moves some of those in the old pool only."""
    async def gets_many(
        self, keys: Iterable[_KeyT], *, failed: dict[str, Error] | None = None
    ) -> dict[_KeyT, tuple[Any, int]]:
        """Like ``Client.gets_many``; values in the old pool only are moved first."""
    async def gets(self, key: _Key) -> tuple[Any, int] | None:
        """Like ``Client.gets``; a value in the old pool only is moved first."""
    async def get_with_ttl(self, key: _Key) -> tuple[Any, int | None] | None:
        """Like ``Client.get_with_ttl``; a value in the old pool only is moved first."""
    async def gat(self, key: _Key, ttl: _Ttl) -> Any:
        """Like ``Client.gat``; a value in the old pool only is moved first."""
    async def touch(self, key: _Key, ttl: _Ttl) -> bool:
        """Like ``Client.touch``; a value in the old pool only is moved first."""
    async def set(
        self, key: _Key, value: object, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> bool:
        """Store a value in the new pool, and delete it in the old pool."""
    async def add(
        self, key: _Key, value: object, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> bool:
        """Store a value unless either pool has one. Return whether it was stored."""
    async def replace(
        self, key: _Key, value: object, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> bool:
        """Store a value if either pool has one. Return whether it was stored."""
    async def append(self, key: _Key, value: object) -> bool:
        """Append to the stored value. Return whether there was one."""
    async def prepend(self, key: _Key, value: object) -> bool:
        """Prepend to the stored value. Return whether there was one."""
    async def cas(
        self, key: _Key, value: object, cas: int, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> bool | None:
        """Like ``Client.cas``, with a token that this client's ``gets`` has returned."""
    async def set_many(
        self, mapping: Mapping[_KeyT, object], ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> list[_KeyT]:
        """Store many values in the new pool, and delete them in the old pool. Return the keys that were not stored."""
    async def delete(self, key: _Key, *, stale: _Ttl | None = None) -> bool:
        """Delete an item in both pools. Return whether there was one.

        Args:
            key: the key.
            stale: as for ``Client.delete``. A value that only the old pool has is moved first.
        """
    async def delete_many(self, keys: Iterable[_Key]) -> int:
        """Delete many items in both pools. Return how many there were."""
    async def incr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = ...) -> int | None:
        """Like ``Client.incr``; a number in the old pool only is moved first."""
    async def decr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = ...) -> int | None:
        """Like ``Client.decr``; a number in the old pool only is moved first."""
    @overload
    async def get_or_set(
        self,
        key: _Key,
        make: Callable[[], Awaitable[_T | Made[_T]]],
        ttl: _Ttl | Callable[[_T], _Ttl],
        **terms: Unpack[Terms],
    ) -> _T:
        """Like ``Client.get_or_set``. No value is made while the old pool has one."""
    @overload
    async def get_or_set(
        self,
        key: _Key,
        make: Callable[[], _T | Made[_T]],
        ttl: _Ttl | Callable[[_T], _Ttl],
        **terms: Unpack[Terms],
    ) -> _T:
        """Like ``Client.get_or_set``. No value is made while the old pool has one."""
    async def meta(self, key: _Key) -> ItemMetadata | None:
        """Like ``Client.meta``; a value in the old pool only is moved first."""
    async def flush_all(self, delay: int = 0) -> None:
        """Make all servers of both pools forget all items, after ``delay`` seconds."""
    async def stats(self, kind: str | None = None) -> dict[str, dict[str, str]]:
        """Return the statistics of each server of both pools."""
    async def version(self) -> dict[str, str]:
        """Return the version of each server of both pools."""
    async def touch_many(self, keys: Iterable[_KeyT], ttl: _Ttl) -> list[_KeyT]:
        """Like ``Client.touch_many``; values in the old pool only are moved first."""
    async def gat_many(
        self, keys: Iterable[_KeyT], ttl: _Ttl, *, failed: dict[str, Error] | None = None
    ) -> dict[_KeyT, Any]:
        """Like ``Client.gat_many``; values in the old pool only are moved first."""
    async def clear_namespace(self) -> None: ...
    async def invalidate_tags(self, *tags: _Key) -> None: ...
    def close(self) -> None:
        """Close the connections to both pools."""
    def servers_of(self, key: _Key) -> list[str]:
        """Return the servers of the new pool that hold a key, like ``Client.servers_of``."""
    def metrics(self) -> dict[str, ServerMetrics]:
        """Return the metrics of the servers of both pools, like ``Client.metrics``."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

def migrating(old: Client, new: Client, *, ttl: _Ttl | None = None) -> MigratingClient:
    """Use two pools as one while a program migrates from one to the other, like ``pinyon.migrating``.

    Args:
        old: the client of the old pool.
        new: the client of the new pool.
        ttl: the ttl of moved items, in seconds, if the old servers cannot tell it.

    Returns:
        A client with the methods of ``pinyon.aio.Client``, except batches.

    Raises:
        UsageError: these are not two clients of ``pinyon.aio``, or they would write to each other's keys.
    """

class Batch:
    """A batch of commands that are sent without waiting for each reply. ``Client.quiet`` makes one.

    Use it as ``async with client.quiet() as batch: await batch.set(…)``. The end of the block waits until the outcome
    of every command is known. It raises ``BatchError`` if any of them failed.
    """

    def __init__(self, batch: _native.Batch) -> None: ...
    async def set(self, key: _Key, value: object, ttl: _Ttl = ...) -> None:
        """Store a value, like `Client.set`. Its outcome is known at the end of the block.

        Args:
            key: text or bytes.
            value: any value that the serializer takes.
            ttl: seconds (int or float, rounded up) or a timedelta until it expires; by default the client's
                `default_ttl`. 0 never expires.
        """
    async def add(self, key: _Key, value: object, ttl: _Ttl = ...) -> None:
        """Store a value unless the key has one, like `Client.add`. If the key has a value, that is a failure."""
    async def replace(self, key: _Key, value: object, ttl: _Ttl = ...) -> None:
        """Store a value if the key has one, like `Client.replace`. If the key has no value, that is a failure."""
    async def append(self, key: _Key, value: object) -> None:
        """Append to a value, like `Client.append`. If the key has no value, that is a failure."""
    async def prepend(self, key: _Key, value: object) -> None:
        """Prepend to a value, like `Client.prepend`. If the key has no value, that is a failure."""
    async def delete(self, key: _Key, *, stale: _Ttl | None = None) -> None:
        """Delete an item, like `Client.delete`. If there is no such item, that is a failure."""
    async def incr(self, key: _Key, delta: int = 1) -> None:
        """Add to an integer, like `Client.incr`. If the key has no value, that is a failure."""
    async def decr(self, key: _Key, delta: int = 1) -> None:
        """Subtract from an integer, like `Client.decr`. If the key has no value, that is a failure."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
