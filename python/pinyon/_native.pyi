"""Types of the native half; see ``pinyon.Client`` for what the arguments mean."""

from collections.abc import Callable, Iterable, Mapping, MutableSet, Sequence
from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import Any, TypeVar, final

from typing_extensions import Literal, Self, TypeAlias, disjoint_base

from pinyon._loop_driver import Concurrency, LoopDriver
from pinyon._terms import Terms
from pinyon.compression import Compression
from pinyon.errors import Error
from pinyon.events import Event
from pinyon.metadata import ItemMetadata
from pinyon.metrics import LockMetrics, NearMetrics, ServerMetrics
from pinyon.near import Near

_Key: TypeAlias = str | bytes
_KeyT = TypeVar("_KeyT", bound=str | bytes)
_Ttl: TypeAlias = int | float | timedelta

__all__ = [
    "CALLS",
    "DEFAULT_SERVER",
    "DEFAULT_SETTINGS",
    "ERROR_KINDS",
    "LATENCY_BOUNDS",
    "RENEWALS",
    "SETTING_CHOICES",
    "SETTING_TEXTS",
    "AwaitedMethod",
    "Batch",
    "Client",
    "Driver",
    "Found",
    "GetOrSet",
    "Held",
    "Latencies",
    "Lock",
    "Locks",
    "LocksDriver",
    "Migration",
    "MigrationCounts",
    "Tls",
    "__version__",
    "check_compression",
    "check_near",
    "check_setting",
    "dump_plain",
    "load_plain",
    "register",
    "stop_telling",
    "tell_threads",
    "turning_plain",
    "unknown_flags",
]

__version__: str
DEFAULT_SERVER: str
CALLS: str
DEFAULT_SETTINGS: str
RENEWALS: int
SETTING_TEXTS: str
SETTING_CHOICES: str
#: Of each kind of error: its name, that of its parent, which standard error it resembles, whether it is an outage.
ERROR_KINDS: list[tuple[str, list[str], str | None, bool]]
LATENCY_BOUNDS: tuple[float, ...]

@final
class Latencies:
    """How long answers took, from the call until the reply had arrived.

    One answer in thirty-two is timed, chosen at random. All keys of one line are timed together. So fewer answers are
    counted here than there were, but the percentiles are right.

    Args:
        counts: the number of answers in each bucket. `BOUNDS` has the upper bounds of the buckets.
        total: the sum of the times, in seconds.
    """

    def __new__(cls, counts: Sequence[int] | None = None, total: float = 0.0) -> Self: ...
    @property
    def counts(self) -> tuple[int, ...]:
        """The number of answers in each bucket."""
    @property
    def total(self) -> float:
        """The sum of the times, in seconds."""
    @property
    def count(self) -> int:
        """The number of timed answers."""
    @property
    def mean(self) -> float | None:
        """The average time in seconds, or None if no answer was timed."""
    def percentile(self, percent: float) -> float | None:
        """Return a percentile of the times.

        The bounds of a bucket are a quarter apart, and the times within a bucket count as evenly spread.

        Args:
            percent: from 0 to 100.

        Returns:
            The time in seconds, or None if no answer was timed.
        """
    def within(self, seconds: float) -> int:
        """Return the number of answers that took at most so many seconds, rounded down to the bounds of a bucket."""
    def __add__(self, other: Latencies, /) -> Latencies: ...
    def __radd__(self, other: Latencies, /) -> Latencies: ...
    def __sub__(self, earlier: Latencies, /) -> Latencies: ...
    def __rsub__(self, later: Latencies, /) -> Latencies: ...
    def __getnewargs__(self) -> tuple[tuple[int, ...], float]: ...

@disjoint_base
class Client:
    """A memcached client that blocks the calling thread while it waits, and that thread alone.

    `pinyon.Client` documents its arguments; the methods document themselves.
    """

    def __new__(
        cls,
        source: Client | None = None,
        *,
        serializer: object = None,
        on_event: Callable[[Event], object] | None = None,
        loops: Concurrency | None = None,
        migrating: tuple[Client, MigrationCounts, _Ttl | None, Callable[[Migration], Any] | None] | None = None,
        **settings: Any,
    ) -> Self: ...
    @property
    def _driver(self) -> type[LoopDriver] | None: ...
    @property
    def servers(self) -> list[str]:
        """The names of the servers that hold keys now, without those of the gutter."""
    @property
    def namespace(self) -> bytes:
        """The prefix of every key, as bytes."""
    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
    def get(self, key: _Key, default: object = None) -> Any:
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
    def get_many(self, keys: Iterable[_KeyT], *, failed: dict[str, Error] | None = None) -> dict[_KeyT, Any]:
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
    ) -> dict[_KeyT, tuple[Any, int]]:
        """Return the values of many keys, each with its CAS token.

        Args:
            keys: as for `get_many`.
            failed: as for `get_many`.

        Returns:
            A dict of pairs, the value and its CAS token, without the keys that have no value.
        """
    def gets(self, key: _Key) -> tuple[Any, int] | None:
        """Return the value of a key with its CAS token, for `cas`.

        Args:
            key: text (sent as UTF-8) or bytes.

        Returns:
            The value and its token, or None if there is no value.
        """
    def get_with_ttl(self, key: _Key) -> tuple[Any, int | None] | None:
        """Return the value of a key with the time until it expires.

        Args:
            key: text (sent as UTF-8) or bytes.

        Returns:
            The value and the seconds until it expires (None: it never expires), or None if there is no value.

        Raises:
            Unsupported: the server is older than memcached 1.6.10.
        """
    def gat(self, key: _Key, ttl: _Ttl) -> Any:
        """Return the value of a key, and set its ttl (get and touch).

        Args:
            key: text (sent as UTF-8) or bytes.
            ttl: seconds (int or float, rounded up) or a timedelta until it expires; 0 never expires.

        Returns:
            The value, or None if there is none.
        """
    def touch(self, key: _Key, ttl: _Ttl) -> bool:
        """Set the ttl of an item.

        Args:
            key: text (sent as UTF-8) or bytes.
            ttl: seconds (int or float, rounded up) or a timedelta until it expires; 0 never expires.

        Returns:
            Whether there is such an item.
        """
    def set(self, key: _Key, value: object, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None) -> bool:
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
    def add(self, key: _Key, value: object, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None) -> bool:
        """Store a value unless the key has one.

        Args:
            key: as for `set`.
            value: as for `set`.
            ttl: as for `set`.
            tags: as for `set`.

        Returns:
            Whether the value was stored.
        """
    def replace(self, key: _Key, value: object, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None) -> bool:
        """Store a value if the key has one already.

        Args:
            key: as for `set`.
            value: as for `set`.
            ttl: as for `set`.
            tags: as for `set`.

        Returns:
            Whether the value was stored.
        """
    def append(self, key: _Key, value: object) -> bool:
        """Append to the stored value. Its ttl stays as it is.

        The stored value must be text or bytes too: the server joins the bytes and does not know what they mean. Any
        other value cannot be read afterwards.

        Args:
            key: text (sent as UTF-8) or bytes.
            value: text or bytes, put after the stored text or bytes.

        Returns:
            Whether there was a value.
        """
    def prepend(self, key: _Key, value: object) -> bool:
        """Prepend to the stored value, which must be text or bytes, as for `append`. Its ttl stays as it is.

        Args:
            key: text (sent as UTF-8) or bytes.
            value: text or bytes, put before the stored text or bytes.

        Returns:
            Whether there was a value.
        """
    def cas(
        self, key: _Key, value: object, cas: int, ttl: _Ttl = ..., *, tags: _Key | Iterable[_Key] | None = None
    ) -> bool | None:
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
    ) -> list[_KeyT]:
        """Store many values.

        Args:
            mapping: values by key.
            ttl: as for `set`, the same for all values.
            tags: as for `set`, the same for all values.

        Returns:
            The keys that were not stored.
        """
    def delete(self, key: _Key, *, stale: _Ttl | None = None) -> bool:
        """Delete an item, or mark it stale.

        Args:
            key: text (sent as UTF-8) or bytes.
            stale: seconds (int or float, rounded up) or a timedelta. The item is then marked stale instead, and
                expires after this time. The next caller of `get_or_set` makes a new value; all others get the stale
                one meanwhile.

        Returns:
            Whether there was such an item.
        """
    def _ask_lease(
        self,
        key: _Key,
        lease: _Ttl,
        recache: _Ttl = 0,
        unreadable: int | None = None,
        tags: Tags | None = None,
    ) -> Found: ...
    @property
    def _flights(self) -> list[int]: ...
    @property
    def _behind(self) -> MutableSet[Any]: ...
    def _give_back(self, key: _Key, cas: int, keep: bool) -> bool: ...
    def delete_many(self, keys: Iterable[_Key]) -> int:
        """Delete many items.

        Args:
            keys: text or bytes.

        Returns:
            How many items there were.
        """
    def incr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = ...) -> int | None:
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
    def decr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = ...) -> int | None:
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
    def meta(self, key: _Key) -> ItemMetadata | None:
        """Return what the server knows of an item besides its value. This does not count as reading the item.

        Args:
            key: text (sent as UTF-8) or bytes.

        Returns:
            An `ItemMetadata`, or None if there is no such item.

        Raises:
            Unsupported: the server is older than memcached 1.6.10.
        """
    def quiet(self) -> Batch:
        """Return a batch of commands that are sent without waiting for each reply: `with client.quiet() as batch: …`.

        The end of the block waits until the outcome of every command is known. It raises `BatchError` if any of them
        failed.

        Returns:
            A batch that can be opened once at a time.
        """
    def flush_all(self, delay: int = 0) -> None:
        """Make all servers forget all items.

        Args:
            delay: seconds from now, or a timedelta; rounded up to whole seconds.
        """
    def stats(self, kind: str | None = None) -> dict[str, dict[str, str]]:
        """Return the statistics of each server.

        Args:
            kind: a group of memcached's statistics, such as "items", "slabs" or "settings"; by default the general
                ones.

        Returns:
            A dict by server of dicts by name.
        """
    def version(self) -> dict[str, str]:
        """Return the version of each server.

        Returns:
            A dict by server.
        """
    def touch_many(self, keys: Iterable[_KeyT], ttl: _Ttl) -> list[_KeyT]:
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
    def gat_many(self, keys: Iterable[_KeyT], ttl: _Ttl, *, failed: dict[str, Error] | None = None) -> dict[_KeyT, Any]:
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
    def clear_namespace(self) -> None:
        """Forget all items of the client's namespace, and nothing else. Needs the settings `namespace` and `clearable`.

        The call replaces the generation that is part of every stored key. It deletes nothing, and costs one command for
        each server. This process sees the clear at once, others within their `generation_ttl`.

        Raises:
            UsageError: the namespace is not clearable.
            Error: a server could not be reached. The others are cleared, and this one is before this process sends it
                anything else.
        """
    def invalidate_tags(self, *tags: _Key) -> None:
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
    def describe(self) -> list[str]:
        """Return one line about each server: its name, whether it is up, and its connections. No server is asked."""
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

@final
class Batch:
    """A batch of commands that are sent without waiting for each reply. `Client.quiet` makes one; use it in a `with`
    block.

    The end of the block waits until the outcome of every command is known. It raises `BatchError` if any of them
    failed.
    """

    def set(self, key: _Key, value: object, ttl: _Ttl = ...) -> None:
        """Store a value, like `Client.set`. Its outcome is known at the end of the block.

        Args:
            key: text or bytes.
            value: any value that the serializer takes.
            ttl: seconds (int or float, rounded up) or a timedelta until it expires; by default the client's
                `default_ttl`. 0 never expires.
        """
    def add(self, key: _Key, value: object, ttl: _Ttl = ...) -> None:
        """Store a value unless the key has one, like `Client.add`. If the key has a value, that is a failure."""
    def replace(self, key: _Key, value: object, ttl: _Ttl = ...) -> None:
        """Store a value if the key has one, like `Client.replace`. If the key has no value, that is a failure."""
    def append(self, key: _Key, value: object) -> None:
        """Append to a value, like `Client.append`. If the key has no value, that is a failure."""
    def prepend(self, key: _Key, value: object) -> None:
        """Prepend to a value, like `Client.prepend`. If the key has no value, that is a failure."""
    def delete(self, key: _Key, *, stale: _Ttl | None = None) -> None:
        """Delete an item, like `Client.delete`. If there is no such item, that is a failure."""
    def incr(self, key: _Key, delta: int = 1) -> None:
        """Add to an integer, like `Client.incr`. If the key has no value, that is a failure."""
    def decr(self, key: _Key, delta: int = 1) -> None:
        """Subtract from an integer, like `Client.decr`. If the key has no value, that is a failure."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool: ...
    def _leave(self, exception: BaseException | None) -> Any: ...

@final
class Found:
    @property
    def state(self) -> Literal["hit", "stale", "won", "filling"]: ...
    @property
    def value(self) -> Any: ...
    @property
    def has_value(self) -> bool: ...
    @property
    def unreadable(self) -> int | None: ...
    @property
    def win(self) -> tuple[int, bool] | None: ...
    @property
    def is_own(self) -> bool: ...
    def enter(self) -> None: ...
    def settle(self) -> None: ...

_Step: TypeAlias = tuple[Any, ...]

@final
class Tags: ...

@final
class GetOrSet:
    def __new__(
        cls,
        client: Client,
        key: _Key,
        scope: object,
        caller: object,
        ttl: _Ttl | Callable[[Any], _Ttl],
        can_go_behind: bool,
        terms: Terms,
    ) -> Self: ...
    def begin(self) -> _Step: ...
    def begin_anew(self) -> _Step: ...
    def follow(self, signal: object) -> bool: ...
    def found(self, found: Found) -> _Step: ...
    def made_with(self, ttl: _Ttl | None, stale: _Ttl | None, store: bool) -> None: ...
    def late(self) -> _Step: ...
    def made(self, value: object) -> _Step: ...
    def done(self, outcome: object) -> _Step: ...
    def stored(self, outcome: object) -> _Step: ...
    def failed(self, error: BaseException) -> _Step: ...
    def leave(self) -> tuple[int, bool] | None: ...
    def returned(self) -> None: ...
    def abandon(self) -> None: ...

@final
class GetOrSetMany:
    def __new__(
        cls,
        client: Client,
        keys: Iterable[_Key],
        scope: object,
        caller: object,
        ttl: _Ttl | Callable[[Any], _Ttl],
        failed: dict[Any, Exception] | None,
        terms: Terms,
    ) -> Self: ...
    def begin(self) -> _Step: ...
    def send(self) -> Any: ...
    def answered(self, _nothing: object) -> _Step: ...
    def follow(self, key: int, signal: object) -> None: ...
    def done(self, _outcome: object) -> _Step: ...
    def made_with(self, key: int, ttl: _Ttl | None, stale: _Ttl | None, store: bool) -> None: ...
    def made(self, values: list[tuple[Any] | None]) -> _Step: ...
    def failed(self, error: BaseException) -> _Step: ...
    def abandon(self) -> None: ...

@final
class MigrationCounts:
    def progress(self) -> list[int]: ...

@final
class Migration:
    def go_on(self) -> Any | None: ...
    def result(self) -> Any: ...

@final
class Driver:
    def turn(self) -> None: ...
    def ready(self, lane: int) -> None: ...
    def woken(self) -> None: ...
    def ended(self) -> None: ...
    def resolved(self, lane: int, port: int, addresses: list[str], why: str = "") -> None: ...

@final
class CredentialsQuestion:
    @property
    def function(self) -> Callable[[], Any] | None: ...
    def answer(self, returned: object) -> None: ...
    def fail(self, error: BaseException) -> None: ...
    def notify(self, notify: Callable[[], object]) -> None: ...

@disjoint_base
class Tls:
    def __new__(
        cls,
        *,
        ca: str | PathLike[str] | None = None,
        certificate: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
        server_name: str | None = None,
        accept_any_certificate_which_is_dangerous: bool = False,
    ) -> Self: ...

def tell_threads(report: Callable[[int, Event, None], Any]) -> None: ...
def stop_telling() -> None: ...
def register(
    classes: list[type[object]], *, run_awaitable: Callable[[Any], Any], start_telling: Callable[..., None]
) -> None: ...
def check_setting(table: str, name: str) -> None: ...
def check_compression(compression: Compression) -> None: ...
def check_near(near: Near) -> None: ...
def dump_plain(value: object, serializer: str) -> tuple[bytes, int]: ...
def load_plain(data: bytes, flags: int, serializer: str) -> Any: ...
def unknown_flags(serializer: str, flags: int) -> Error: ...

@disjoint_base
class Locks:
    """Locks on one Redis or Valkey server. `pinyon.Locks` documents its arguments."""

    def __new__(
        cls,
        source: Locks | None = None,
        *,
        report: Callable[[int, Event, Callable[[Callable[[Event], object], Event], Any] | None], Any] | None = None,
        loops: Concurrency | None = None,
        **settings: Any,
    ) -> Self: ...
    @property
    def _driver(self) -> type[LoopDriver] | None: ...
    def _tag_of(self, names: tuple[str | bytes, ...]) -> bytes | None: ...
    def _inspect(
        self, names: tuple[str | bytes, ...], question: Literal["each", "is_locked", "first_owner", "waiting"]
    ) -> Any: ...
    def _permits(self, pool: str | bytes) -> Any: ...
    def _release_all(self, timeout: float | timedelta | None) -> list[Any]: ...
    def _release_at_exit(self) -> None: ...
    def _warn(self, line: str) -> None: ...
    def _take_away(self, names: tuple[str | bytes, ...], token: int | None) -> Any: ...
    def _command(
        self, parts: tuple[str | bytes | int | float, ...], names: tuple[str | bytes, ...] | None = None
    ) -> Any: ...
    def metrics(self) -> LockMetrics:
        """Return what happened to the locks of this client in this process, as `LockMetrics`. It contacts no server and
        never waits; do not await it.
        """
    @property
    def _source(self) -> int: ...
    @property
    def _places(self) -> list[tuple[str, bool]]: ...
    @property
    def _service(self) -> str | None: ...
    @property
    def _votes_after(self) -> float | None: ...
    def _ask(self, place: str, commands: list[list[str | bytes | int | float]], sentinel: bool) -> list[Any]: ...
    @property
    def prefix(self) -> bytes:
        """The beginning of all keys of the namespace on the server, as bytes."""
    @property
    def hash_tags(self) -> str:
        """What decides on which node of a cluster a lock is kept: `"namespace"` or `"names"`."""
    @property
    def server(self) -> str:
        """The server, as `host:port` or a path."""
    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
    def close(self) -> None:
        """Close the connections.

        Attempts that wait fail. Held locks are lost, and expire on the server with their ttl.
        """

@disjoint_base
class Lock:
    """Names to be locked, and how. `pinyon.Locks.lock` documents its arguments."""

    def __new__(
        cls,
        held: type[Held],
        locks: Locks,
        names: tuple[str | bytes, ...],
        ttl: float | timedelta | None,
        timeout: float | timedelta | None,
        read: tuple[str | bytes, ...] | None = None,
        permits: tuple[Any, ...] | None = None,
        renew: bool = True,
        max_hold: float | timedelta | None = None,
        reentrant: bool | None = None,
        on_lost: Callable[[Any], object] | None = None,
        on_failure: str | None = None,
        note: str | None = None,
        at_least: float | timedelta | None = None,
        ticket: str | None = None,
        /,
    ) -> Self: ...
    @property
    def names(self) -> tuple[str | bytes, ...]:
        """The names to write and to read, as they were given; those of the pools if there are only permits."""
    @property
    def _limit(self) -> int: ...
    def owned(self) -> bool:
        """Return whether the caller holds the names, acquired through this object. No server is asked."""
    def _ask(self, at_once: bool = False, timeout: float | timedelta | None = None, /) -> Any: ...
    def _take_by_with(self) -> Any: ...
    def _give_back_by_with(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...
    def _keep(self, held: Held, by_block: bool) -> None: ...
    def _take(self, at_once: bool, timeout: float | timedelta | None, by_block: bool = False, /) -> Any: ...
    def _untake(self) -> None: ...
    def _last(self) -> Any: ...
    @property
    def _locks(self) -> Any: ...
    def _leave(self, by_block: bool) -> Any: ...

@disjoint_base
class Held:
    """A lock that was asked for and is held once granted: the base of `pinyon.Held` in every concurrency model."""

    def __new__(
        cls,
        lock: Lock,
        at_once: bool = False,
        timeout: float | timedelta | None = None,
        candidate: Candidate | None = None,
        /,
    ) -> Self: ...
    @property
    def names(self) -> tuple[str | bytes, ...]:
        """The names, as they were asked for."""
    @property
    def token(self) -> int:
        """The fencing token: a number that is higher than that of any earlier lock on any of the names.

        A process that was stopped for longer than the ttl does not know that it has lost the lock. So storage that is
        written under the lock should refuse writers with a lower token.
        """
    @property
    def is_certain(self) -> bool:
        """Whether the lock has been held from its acquisition until now, or until its release.

        False if it was lost, or if ``on_failure="proceed"`` let the work go on without it while the servers were away:
        then the work may not have been alone. No server is asked.
        """
    @property
    def _ends_quietly(self) -> bool: ...
    @property
    def note(self) -> str | None:
        """What its holder says about it, for people who look who holds it; None if nothing."""
    @property
    def _given_back(self) -> bool: ...
    def _answer(self) -> Any: ...
    def _left(self) -> float | None: ...
    def _check(self) -> None: ...
    def _lost_inside(self) -> BaseException: ...
    def _tell(self, callback: Callable[[Self], object]) -> None: ...
    def _release(self, early: bool = False, /) -> Any: ...
    def _hand_over(self, ttl: float | timedelta | None) -> Any: ...
    def _upgrade(self, names: tuple[str | bytes, ...], timeout: float | timedelta | None) -> Any: ...
    def _downgrade(self, names: tuple[str | bytes, ...]) -> Any: ...
    def _extend(self, ttl: float | timedelta) -> Any: ...
    def _park(self, wait: float | None) -> Any: ...
    def _notify(self, most: int) -> Any: ...
    def _cancel(self) -> None: ...
    def _stay(self) -> None: ...

@disjoint_base
class Rate:
    def __new__(
        cls,
        locks: Locks | None = None,
        name: str | bytes | None = None,
        limit: int | None = None,
        per: float | timedelta | None = None,
        burst: int | None = None,
        /,
    ) -> Self: ...
    def _ask(self, n: int, waits: bool, timeout: float | timedelta | None) -> Any: ...
    @property
    def name(self) -> str | bytes: ...
    @property
    def per(self) -> float:
        """The seconds in which it gives `limit` permits."""
    @property
    def limit(self) -> int:
        """How many permits it gives in `per` seconds."""
    @property
    def burst(self) -> int:
        """How many permits it gives at once."""

@final
class Candidate:
    def __new__(cls, name: str | bytes) -> Self: ...
    def _next(self, report: str, about: Any = None, /) -> tuple[str, Any]: ...
    def _resign(self) -> bool: ...
    def _stop(self) -> None: ...
    @property
    def _is_stopping(self) -> bool: ...
    @property
    def _token(self) -> int | None: ...
    @property
    def _state(self) -> str: ...

@final
class LocksDriver:
    def turn(self) -> None: ...
    def ready(self, lane: int) -> None: ...
    def woken(self) -> None: ...
    def ended(self) -> None: ...
    def resolved(self, lane: int, port: int, addresses: list[str], why: str = "") -> None: ...

@final
class AwaitedMethod:
    def __new__(cls, native: Any, no_loop: type[BaseException], later: Callable[..., Any]) -> Self: ...
    def __get__(self, instance: Any, owner: Any = None, /) -> Any: ...
    def __call__(self, *arguments: Any, **keywords: Any) -> Any: ...

def turning_plain(reply: type[Any]) -> type[Any]: ...
