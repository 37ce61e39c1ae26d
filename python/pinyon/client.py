"""The client for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pinyon import _native, serializers
from pinyon._cached import Caching
from pinyon._closing import Closing
from pinyon._get_or_set import get_or_set
from pinyon._get_or_set_many import get_or_set_many
from pinyon._gevent_choice import choose_for
from pinyon._iter_many import CHUNK, iter_many
from pinyon._logging import logging_too
from pinyon._settings import check_callable, check_names
from pinyon._steps import drive
from pinyon._uncopied import Uncopied, public_name
from pinyon.leases import Lease, ask_lease

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from datetime import timedelta

    from typing_extensions import Literal, Self, Unpack

    from pinyon._credentials import CredentialsFunction
    from pinyon._loop_driver import Concurrency
    from pinyon._made import Made
    from pinyon._settings import Algorithm, Dialect, KeyRule, Protocol, Ring, SerializerName
    from pinyon._terms import Terms
    from pinyon.compression import Compression
    from pinyon.errors import Error
    from pinyon.events import Event
    from pinyon.near import Near
    from pinyon.serializers import Serializer
    from pinyon.tls import Tls

#: How long one caller may take to make a missing value, in seconds.
DEFAULT_LEASE = 10

__all__ = ["Client"]

_T = TypeVar("_T")
_K = TypeVar("_K", str, bytes, "str | bytes")

#: Where there is no value.
_MISSING: Any = object()

_CHOOSE = choose_for("Client")

_OF_LOOPS = "connections is a setting of pinyon.gevent.Client and pinyon.aio.Client; threads have max_connections"


class BaseClient(_native.Client, Uncopied):
    """The base of the clients for threads, gevent and asyncio."""

    __slots__ = ("_source",)

    #: What all views of a client have in common, and no other client has.
    _source: object

    @classmethod
    def _made(cls, loops: Concurrency, settings: dict[str, Any]) -> Self:
        """Make a client of the arguments of ``__new__``."""
        del settings["cls"]
        settings["serializer"] = serializers.find(settings["serializer"])
        settings["on_event"] = logging_too(check_callable("on_event", settings["on_event"]))
        made = _native.Client.__new__(cls, loops=loops, **settings)
        made._source = object()
        return made

    @classmethod
    def _viewing(cls, client: BaseClient, **changed: Any) -> Self:
        """Make a view of a client."""
        view = _native.Client.__new__(cls, client, **changed)
        view._source = client._source
        return view

    if not TYPE_CHECKING:

        def __init__(self, *arguments: object, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    def _sending(self, call: str, keys: int, send: Callable[[], Any]) -> Any:
        """Send the requests of a step about many keys, each of which is this call for one key."""
        return send()

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
        return self._viewing(self, failover=failover, on_failure=on_failure, on_unreadable=on_unreadable, near=near)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "; ".join(self.describe())
        return f"<{public_name(type(self))} {state}>"


class Client(BaseClient, Closing, Caching):
    """A client for one or several memcached servers, which all threads of a process can share.

    It connects on first use, and again when a connection was lost. In a process that forks, or that starts workers with
    ``multiprocessing``, the child makes its own connections.

    Every method raises errors of the family ``pinyon.Error``. Methods that take a ``ttl`` store with ``default_ttl`` if
    it is not given.

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

    @check_names("Client", connections=_OF_LOOPS)
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
        return cls._made(_CHOOSE, {**locals()})

    def __getitem__(self, key: str | bytes) -> Any:
        """Return the value of a key, like ``get``, but raise ``KeyError`` if there is none."""
        value = self.get(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str | bytes, value: object) -> None:
        """Store a value with the client's ``default_ttl``, like ``set``."""
        self.set(key, value)

    def __delitem__(self, key: str | bytes) -> None:
        """Delete an item, like ``delete``, but raise ``KeyError`` if there is none."""
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: str | bytes) -> bool:
        """Return whether a key has a value. This reads the value, like ``get``: to use it as well, call that."""
        return self.get(key, _MISSING) is not _MISSING

    #: Without this, Python would iterate by asking for the keys 0, 1, 2, ….
    __iter__: None = None

    @overload
    def get_or_set(
        self,
        key: str | bytes,
        make: Callable[[], Made[_T]],
        ttl: float | timedelta | Callable[[_T], float | timedelta],
        *,
        executor: Executor | None = None,
        **terms: Unpack[Terms],
    ) -> _T: ...

    @overload
    def get_or_set(
        self,
        key: str | bytes,
        make: Callable[[], _T | Made[_T]],
        ttl: float | timedelta | Callable[[_T], float | timedelta],
        *,
        executor: Executor | None = None,
        **terms: Unpack[Terms],
    ) -> _T: ...

    def get_or_set(
        self,
        key: str | bytes,
        make: Callable[[], Any],
        ttl: float | timedelta | Callable[[Any], float | timedelta],
        *,
        executor: Executor | None = None,
        **terms: Unpack[Terms],
    ) -> Any:
        """Return the value of a key. If there is none, one caller makes it, and all other callers wait for it.

        A value that cannot be read is made anew, whatever ``on_unreadable`` says.

        Args:
            key: text or bytes.
            make: called without arguments to make the value, which can be None. It may return a ``pinyon.Made`` with
                the value. An error that it raises is raised here. Then nothing is stored, and the next caller makes the
                value.
            ttl: seconds, or a timedelta, for which the value is fresh. 0 never expires. Or a function that is called
                with the value and returns its ttl.
            executor: what goes on with ``make`` in another thread when this caller leaves with the old value: see
                ``soft_timeout`` and ``refresh``, which need it. Greenlets need none.
            **terms: further settings, by name:

                stale: The time after `ttl` in which callers still get the old value while one of them makes a new one,
                    in seconds. Default: 0.
                early: How long before the end of `ttl` one caller makes a new value, in seconds. All others still get
                    the old one. Default: 0.
                lease: How long one caller may take to make a missing value, in seconds, rounded up to whole ones. Then
                    another caller tries. A value that is made later is returned, but not stored. Default: 10.
                wait: How long to wait for a value that another caller makes, in seconds. By default, twice `lease` and
                    2 seconds more, which is enough for the next caller if the first one dies.
                jitter: The share of `ttl` that may be taken off at random, less than 1. With `0.1`, values that were
                    stored together do not expire together. Default: 0.
                on_error: What a caller gets if the value cannot be made while an old one exists: the error (`"raise"`),
                    or the old value (`"stale"`). Default: "raise".
                retry_after: How long the old value is then used before the next caller tries again, in seconds.
                    Default: 5.
                tags: The tags of the value, such as `"user:7"`, by which `invalidate_tags` finds it: a list, or one
                    alone.
                soft_timeout: How long a caller waits for the value that it makes while an old one exists, in seconds.
                    Then it gets the old value, and the value is made behind it. By default, it waits until the value is
                    made.
                refresh: Whether the caller that makes a new value while an old one exists waits for it (`"wait"`), or
                    gets the old one at once (`"behind"`), like a `soft_timeout` of 0. Default: "wait".

        Returns:
            The value.

        Raises:
            LeaseTimeout: another caller was still making the value after ``wait`` seconds.
            Unsupported: the server is older than memcached 1.6.10.
            UsageError: an argument, or a ``Made``, makes no sense.
        """
        return drive(get_or_set(self, key, make, ttl, terms, executor))

    def get_or_set_many(
        self,
        keys: Iterable[_K],
        make_many: Callable[[list[_K]], Mapping[_K, _T | Made[_T]] | Iterable[tuple[_K, _T | Made[_T]]]],
        ttl: float | timedelta | Callable[[_T], float | timedelta],
        *,
        failed: dict[Any, Exception] | None = None,
        **terms: Unpack[Terms],
    ) -> dict[_K, _T]:
        """Return the values of many keys. Those that are missing are made together, each by one caller.

        All keys are asked for at once. ``make_many`` is called once with the keys that no other caller makes, and what
        it returns is stored at once. Then this waits for the values that other callers make; those that they fail to
        make, it makes in another call.

        Args:
            keys: text or bytes.
            make_many: called with a list of keys, as they were given, to make their values. It returns a dict of keys
                and values, or pairs of them. A value can be None, or a ``pinyon.Made``. A key that it leaves out is
                missing from the result, too, and the next caller makes its value; keys that it was not called with are
                ignored. An error that it raises is raised here. Then nothing is stored.
            ttl: as for ``get_or_set``, for each value.
            failed: a dict, to accept partial results. It receives, under each key that has no value, the error of its
                server, or that its value is still being made by another caller or cannot be stored. The call raises
                nothing for them.
            **terms: as for ``get_or_set``, for each key.

        Returns:
            A dict of the values, without the keys that ``make_many`` left out.

        Raises:
            Error: as ``get_or_set``, for the first key without a value, unless ``failed`` is given. The attribute
                ``partial`` of the error has the values of the others.
            UsageError: an argument, or a ``Made``, makes no sense.
        """
        return drive(get_or_set_many(self, keys, make_many, ttl, failed, terms))  # type: ignore[no-any-return]

    def iter_many(
        self, keys: Iterable[_K], *, chunk: int = CHUNK, failed: dict[str, Error] | None = None
    ) -> Iterator[tuple[_K, Any]]:
        """Return the values of any number of keys, in bounded memory.

        Args:
            keys: text or bytes, from any iterable. They are taken when they are needed.
            chunk: how many keys are asked for at once. So many values are in memory at most.
            failed: as for ``get_many``.

        Returns:
            An iterator of pairs, a key and its value, without the keys that have none. The keys of a chunk are in
            their order.

        Raises:
            Error: as ``get_many``, when its chunk is reached. The attribute ``partial`` has the other values of the
                chunk.
            UnsupportedType: ``keys`` are no iterable.
            UsageError: ``chunk`` is less than 1.
        """
        return iter_many(self, keys, chunk, failed)

    def lease(
        self,
        key: str | bytes,
        *,
        lease: float | timedelta = DEFAULT_LEASE,
        recache: float | timedelta = 0,
    ) -> Lease:
        """Read an item, and ask for the right to make a new value: the parts of ``get_or_set``, for use by hand.

        A value that cannot be read counts as missing.

        Args:
            key: text or bytes.
            lease: seconds, or a timedelta, for making a missing value. Then another caller can win.
            recache: seconds, or a timedelta. One caller also wins if the item expires within this time. 0: never.

        Returns:
            The ``Lease``. If its ``state`` is ``Outcome.WON``, call ``fulfil`` or ``give_back``.

        Raises:
            Unsupported: the server is older than memcached 1.6.10.
        """
        return Lease(self, key, drive(ask_lease(self, key, lease, recache)))
