"""The blocking client: its arguments, and what is easier said in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from pinyon import _native, serializers
from pinyon._closing import Closing
from pinyon._get_or_set import Threads, get_or_set
from pinyon._gevent_choice import undecided
from pinyon._logging import logging_too
from pinyon._steps import drive
from pinyon.errors import UnsupportedType, UsageError
from pinyon.leases import Lease

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Literal, Self, Unpack

    from pinyon._loop_driver import Loops
    from pinyon._settings import ClientSettings, SharedClientSettings
    from pinyon.events import Event

#: Seconds that one caller alone may make a value that is missing.
DEFAULT_LEASE = 10

_T = TypeVar("_T")


class BaseClient(_native.Client):
    """What the clients of all concurrency models have in common; use one of those."""

    __slots__ = ()

    def __new__(
        cls,
        servers: str | Iterable[str] | None = None,
        *,
        loops: Loops | None = None,
        **settings: Unpack[SharedClientSettings],
    ) -> Self:
        given: dict[str, Any] = {**settings}
        given["serializer"] = serializers.find(given.get("serializer", "portable"))
        given["on_event"] = logging_too(_callable(given.get("on_event")))
        return super().__new__(cls, servers=servers, loops=loops, **given)

    if not TYPE_CHECKING:

        def __init__(self, *arguments: object, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    def using(self, *, failover: bool | None = None, on_failure: Literal["raise", "miss"] | None = None) -> Self:
        """Return this client with other settings for what happens when a server fails.

        It costs next to nothing: connections, the servers' health and all other settings are the same ones, and to
        close either closes both.

        Args:
            failover: as for ``pinyon.Client``; None leaves it as it is.
            on_failure: likewise.
        """
        return _native.Client.__new__(type(self), self, failover=failover, on_failure=on_failure)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "; ".join(self.describe())
        module = type(self).__module__
        return f"<{'pinyon' if module == __name__ else module}.{type(self).__qualname__} {state}>"


class Client(BaseClient, Closing):
    """A client for one or several memcached servers, to be shared by all threads of a process.

    It connects when it is first used, and again whenever it has to. A process that forks, or starts workers with
    ``multiprocessing``, has nothing to call: the child makes its own connections.

    Args:
        servers: ``"host[:port[:weight]]"``, ``"[v6]:port"`` or ``"/unix/path"``; several as a comma list or a
            sequence. Without it, the environment variable ``MEMCACHE_SERVERS``, else ``127.0.0.1:11211``.
        namespace: put before every key.
        ring: how keys are given to servers: ``"ketama"``, or as another client does it, by its name, such as
            ``"dalli"`` or ``"python-memcached"``. ``docs/rings.md`` has them all.
        timeout: seconds an operation may take, all in all.
        connect_timeout: seconds of that which making a connection may take.
        serializer: ``"portable"`` (plain data, readable in every language), ``"pickle"``, ``"json"``, ``"raw"``
            (bytes alone), or an object with ``dump`` and ``load``.
        failover: whether the keys of a server that is down go to another one, or fail at once.
        on_failure: what an operation does that no server carried out: ``"raise"``, or ``"miss"``: it returns what it
            would if there were no item, and nothing could be stored.
        gutter: servers that take the keys of those that are down, written as ``servers`` are; without any, the
            next server of the ring takes them.
        gutter_ttl: seconds that items in the gutter live at most, whatever ttl they are stored with.
        discovery: how the servers are found out, where ``servers`` does not list them: ``"config"``: ``servers`` are
            configuration endpoints, as ElastiCache and Memorystore have them; ``"dns"``: they are names, each of whose
            addresses is a server.
        discovery_interval: seconds after which it is looked again for servers that have come or gone.
        on_event: called with an ``Event`` when a server is marked down or is up again, when a command is retried, when
            one is slow, and when servers have come or gone.
        slow_after: seconds from which a command is slow; None for no such events.
        max_connections: how many connections each server gets at most; further threads wait their turn.
        encode_keys: send keys with spaces or control bytes as base64, and long ones as a digest, instead of
            refusing them.
        key_rule: the client by whose rule such keys are sent, for a cache shared with it: ``"dalli"``,
            ``"cache-memcached"`` or ``"cache-memcached-fast"``. Without it, as ``encode_keys`` says.
        max_value_size: the largest value stored or read, in bytes, as it is stored.
        max_decompressed_size: how many bytes a value may have when it is decompressed; 16 times ``max_value_size``
            where nothing is said. No memory is taken for more.
        compression: True, ``"zstd"``, ``"zlib"`` or ``"gzip"`` to store large values compressed, or a
            ``pinyon.Compression`` that says more. Compressed values are read without it, too.
        dialect: the client by whose conventions values are stored and read, for a cache shared with it. Pickled values
            are read and written with ``serializer="pickle"`` alone.
        max_in_flight: how many requests a connection has in flight at most; further ones wait their turn.
        max_unsent: how many bytes a connection keeps that are submitted and not yet sent, before others wait.
        tls: ``True`` to speak TLS and trust what the system trusts, or a ``pinyon.Tls`` that says more.
        username, password: for servers that want a login (memcached's option ``-Y``).

    Raises:
        InvalidServers: the server list is empty or malformed.
        UsageError: another argument makes no sense.
    """

    __slots__ = ()

    def __new__(cls, servers: str | Iterable[str] | None = None, **settings: Unpack[ClientSettings]) -> Self:
        if "connections" in settings:
            where = "pinyon.gevent.Client and pinyon.aio.Client"
            raise UsageError(f"connections is a setting of {where}; threads have max_connections")
        return super().__new__(_UndecidedClient if cls is Client else cls, servers, **settings)

    #: How its callers wait for each other.
    _waits: Any = Threads

    def get_or_set(
        self,
        key: str | bytes,
        make: Callable[[], _T],
        ttl: float | timedelta,
        *,
        stale: float | timedelta = 0,
        early: float | timedelta = 0,
        lease: float | timedelta = DEFAULT_LEASE,
        wait: float | None = None,
    ) -> _T:
        """Return the value of a key; where there is none, one caller of all makes it while the others wait for it.

        Args:
            key: as for ``get``.
            make: called without arguments to make the value. What it raises is raised here, nothing is stored, and the
                next caller makes it at once. None is a value like any other.
            ttl: seconds, or a timedelta, for which a value is fresh; 0 for ever.
            stale: seconds after that in which the value is still handed out, while one caller makes another.
            early: seconds before that from which one caller makes another; all others get what there is.
            lease: seconds (whole ones, rounded up) that making a missing value may take before another caller tries;
                what is made later is returned and not stored.
            wait: seconds to wait for a value that another caller makes; without it, twice the lease and two more: long
                enough for a maker that dies and for the next one.

        Raises:
            LeaseTimeout: another caller was still making the value when ``wait`` was over.
            Unsupported: the server is older than memcached 1.6.10.
        """
        return drive(get_or_set(self, self._waits, key, make, ttl, stale, early, lease, wait))  # type: ignore[no-any-return]

    def lease(
        self,
        key: str | bytes,
        *,
        lease: float | timedelta = DEFAULT_LEASE,
        recache: float | timedelta = 0,
    ) -> Lease:
        """Read an item and ask for the right to make it anew: ``get_or_set`` by hand.

        Args:
            key: as for ``get``.
            lease: seconds until another caller may win a key that had no item.
            recache: that right is handed out, once, of an item that has fewer seconds left than this; 0 for never.

        Returns:
            What was found. Whoever finds ``Outcome.WON`` is to ``fulfil`` it, or to ``give_back``.

        Raises:
            Unsupported: the server is older than memcached 1.6.10.
        """
        return Lease(self, key, self.ask_lease(key, lease, recache))


METHODS = frozenset(
    (
        "get",
        "get_many",
        "gets",
        "gets_many",
        "get_with_ttl",
        "gat",
        "get_or_set",
        "lease",
        "ask_lease",
        "give_back",
        "touch",
        "set",
        "add",
        "replace",
        "append",
        "prepend",
        "cas",
        "set_many",
        "delete",
        "delete_many",
        "incr",
        "decr",
        "meta",
        "quiet",
        "using",
        "flush_all",
        "stats",
        "version",
    )
)

_UndecidedClient = undecided(Client, METHODS, "Client", 1)


def _callable(on_event: Callable[[Event], object] | None) -> Callable[[Event], object] | None:
    if on_event is not None and not callable(on_event):
        raise UnsupportedType(f"on_event is called with each event; {type(on_event).__qualname__} is not callable")
    return on_event
