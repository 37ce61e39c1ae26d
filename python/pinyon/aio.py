"""The clients for asyncio and uvloop. They have the methods of ``pinyon.Client`` and ``pinyon.Locks``, awaited.

All tasks of an event loop share one connection to each server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pinyon import _native
from pinyon._aio_cached import Cached, Caching
from pinyon._aio_driver import LOOPS
from pinyon._aio_leader import Leader
from pinyon._aio_locks import Held, Lock, Locks, Permits, Rate
from pinyon._aio_replies import Reply, awaited_before_its_block, awaited_copies, awaited_methods
from pinyon._batch import Batch
from pinyon._calls import PUBLIC
from pinyon._closing import FOR_COROUTINES, ClosingAwaited
from pinyon._credentials import CredentialsFunction
from pinyon._get_or_set import get_or_set
from pinyon._get_or_set_many import get_or_set_many
from pinyon._iter_many import CHUNK, iter_many_awaited
from pinyon._settings import DEFAULT_TTL, check_names
from pinyon._steps import cross, drive_awaiting
from pinyon.client import DEFAULT_LEASE, BaseClient
from pinyon.errors import UsageError
from pinyon.leases import BaseLease, ask_lease
from pinyon.migration import BaseMigratingClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
    from datetime import timedelta
    from types import TracebackType
    from typing import NoReturn

    from typing_extensions import Literal, Self, Unpack

    from pinyon._settings import Algorithm, Dialect, KeyRule, Protocol, Ring, SerializerName
    from pinyon._terms import Terms
    from pinyon.compression import Compression
    from pinyon.errors import Error
    from pinyon.events import Event
    from pinyon.near import Near
    from pinyon.serializers import Serializer
    from pinyon.tls import Tls

__all__ = [
    "Batch",
    "Cached",
    "Client",
    "Held",
    "Leader",
    "Lease",
    "Lock",
    "Locks",
    "MigratingClient",
    "Permits",
    "Rate",
    "Reply",
    "migrating",
]


class Lease(BaseLease):
    """What ``Client.lease`` returns: a value, or the right to make one.

    At the end of an ``async with`` block it gives back what was not fulfilled.

    Attributes:
        key: the key, as it was given.
        state: the ``pinyon.Outcome``.
        value: the value, or None if ``has_value`` is false. If the state is ``WON``, it is a stale value.
        has_value: whether there is a value, which can be None.
    """

    __slots__ = ()

    if not TYPE_CHECKING:
        __enter__ = __exit__ = FOR_COROUTINES

    async def fulfil(self, value: object, ttl: float | timedelta = DEFAULT_TTL) -> bool:
        """Store the value. Arguments, result and errors are those of ``pinyon.Lease.fulfil``."""
        won = self._won()
        if won is None:
            return False
        stored = await self._client.cas(self.key, value, won[0], ttl)  # type: ignore[misc]
        self._over()
        return stored is True

    async def give_back(self) -> bool:
        """Let the next caller win, like ``pinyon.Lease.give_back``."""
        won = self._won()
        if won is None:
            return False
        given_back = await self._client._give_back(self.key, *won)  # type: ignore[misc]
        self._over()
        return given_back  # type: ignore[no-any-return]

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_to_return:
            await self.give_back()


@awaited_methods(_native.Client, PUBLIC)
class Client(BaseClient, ClosingAwaited, Caching):
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

    def __getitem__(self, key: str | bytes) -> NoReturn:
        raise UsageError("client[key] cannot be awaited: use await client.get(key)")

    def __setitem__(self, key: str | bytes, value: object) -> NoReturn:
        raise UsageError("client[key] = value cannot be awaited: use await client.set(key, value)")

    def __delitem__(self, key: str | bytes) -> NoReturn:
        raise UsageError("del client[key] cannot be awaited: use await client.delete(key)")

    def __contains__(self, key: str | bytes) -> NoReturn:
        raise UsageError("key in client cannot be awaited: use await client.get(key, default)")

    #: Without this, Python would iterate by asking for the keys 0, 1, 2, ….
    __iter__: None = None

    def quiet(self) -> Batch:  # type: ignore[override]
        """Return a batch of commands that are sent without waiting for each reply.

        Use it as ``async with client.quiet() as batch: …``. The end of the block waits until the outcome of every
        command is known. It raises ``BatchError`` if any of them failed.
        """
        return Batch(super().quiet())

    async def get_or_set(
        self,
        key: str | bytes,
        make: Callable[[], Any],
        ttl: float | timedelta | Callable[[Any], float | timedelta],
        **terms: Unpack[Terms],
    ) -> Any:
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
        return await drive_awaiting(get_or_set(self, key, make, ttl, terms))

    async def get_or_set_many(
        self,
        keys: Iterable[Any],
        make_many: Callable[[list[Any]], Any],
        ttl: float | timedelta | Callable[[Any], float | timedelta],
        *,
        failed: dict[Any, Exception] | None = None,
        **terms: Unpack[Terms],
    ) -> dict[Any, Any]:
        """Return the values of many keys. Those that are missing are made together, each by one task.

        Args:
            keys: text or bytes.
            make_many: a function or coroutine function that is called with a list of keys, to make their values: see
                ``pinyon.Client.get_or_set_many``.
            ttl: see there.
            failed: see there.
            **terms: see there.

        Returns:
            A dict of the values, without the keys that ``make_many`` left out.

        Raises:
            Error: as there, for the first key without a value, unless ``failed`` is given.
            UsageError: an argument, or a ``Made``, makes no sense.
        """
        return await drive_awaiting(get_or_set_many(self, keys, make_many, ttl, failed, terms))  # type: ignore[no-any-return]

    def iter_many(
        self, keys: Iterable[Any] | AsyncIterable[Any], *, chunk: int = CHUNK, failed: dict[str, Error] | None = None
    ) -> AsyncIterator[Any]:
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
        return iter_many_awaited(self, keys, chunk, failed)

    @awaited_before_its_block
    async def lease(
        self,
        key: str | bytes,
        *,
        lease: float | timedelta = DEFAULT_LEASE,
        recache: float | timedelta = 0,
    ) -> Lease:
        """Read an item, and ask for the right to make a new value. The arguments are those of ``pinyon.Client.lease``.

        Returns:
            The ``Lease``. If its ``state`` is ``Outcome.WON``, await ``fulfil`` or ``give_back``.
        """
        return Lease(self, key, await drive_awaiting(ask_lease(self, key, lease, recache)))


@awaited_methods(_native.Client, PUBLIC)
@awaited_copies(BaseMigratingClient, frozenset(("get_or_set", "get_or_set_many")))
class MigratingClient(BaseMigratingClient, ClosingAwaited, Caching):
    """Two clients in use as one, for asyncio. ``pinyon.aio.migrating`` makes one. Its methods are coroutines."""

    _cross = staticmethod(cross)
    _carry_out = staticmethod(drive_awaiting)

    lease = awaited_before_its_block(BaseMigratingClient.lease)

    def iter_many(
        self, keys: Iterable[Any] | AsyncIterable[Any], *, chunk: int = CHUNK, failed: dict[str, Error] | None = None
    ) -> AsyncIterator[Any]:
        """Like ``Client.iter_many``. Each chunk is read as by ``get_many``, from both pools."""
        return iter_many_awaited(self, keys, chunk, failed)


def migrating(old: Client, new: Client, *, ttl: int | float | timedelta | None = None) -> MigratingClient:
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
    for client in (old, new):
        if not isinstance(client, Client):
            raise UsageError(f"pinyon.aio.migrating takes two clients of pinyon.aio, not {client!r}")
    return MigratingClient(old, new, ttl=ttl)
