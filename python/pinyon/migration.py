"""Moving from one pool of servers to another, of another ring or dialect, while both are in use.

The native half says which call an operation makes next on which pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pinyon import _native
from pinyon._closing import Closing
from pinyon._settings import DEFAULT_TTL
from pinyon._steps import drive
from pinyon.client import DEFAULT_LEASE, BaseClient
from pinyon.errors import Error, UsageError

__all__ = ["MigratingClient", "Progress", "migrating"]

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Self, TypeAlias

    from pinyon._steps import Steps
    from pinyon.metrics import ServerMetrics

    _Key: TypeAlias = "str | bytes"
    _Ttl: TypeAlias = "int | float | timedelta"


class Progress(NamedTuple):
    """Where a migrating client has found keys since it was made, and what became of those of the old pool.

    Attributes:
        new: keys that the new pool had.
        old: keys that the old pool alone had.
        moved: those of them that this client has moved.
        refused: those that it could not move, as the new client or its server does not take such values.
        missing: keys that neither had.
    """

    new: int
    old: int
    moved: int
    refused: int
    missing: int


class BaseMigratingClient:
    """What migrating clients of all concurrency models have in common; ``migrating`` makes them."""

    def __init__(self, old: BaseClient, new: BaseClient, *, ttl: _Ttl | None = None) -> None:
        _check_apart(old, new)
        #: The client of the pool that is to go.
        self.old: Any = old
        #: The client of the pool that is to stay.
        self.new: Any = new
        self._ttl = ttl
        self._counts = _native.MigrationCounts()

    @property
    def progress(self) -> Progress:
        """Where keys were found until now. The old pool can go when it is not needed any more for long."""
        return Progress(*self._counts.progress())

    #: Makes the calls of an operation, and waits for them.
    _carry_out: Callable[[Steps], Any]

    def get(self, key: _Key, default: Any = None) -> Any:
        """The value stored under a key, or ``default``; if only the old pool has it, it is moved with its ttl."""
        return self._do("get", key, default)

    def get_many(self, keys: Iterable[_Key], *, failed: dict[str, Error] | None = None) -> Any:
        """The values of several keys, from both pools. Some of those that only the old one has are moved each time."""
        return self._do("get_many", list(dict.fromkeys(keys)), failed=failed)

    def gets(self, key: _Key) -> Any:
        """Like ``Client.gets``; a value that only the old pool has is moved first."""
        return self._do("gets", key)

    def gets_many(self, keys: Iterable[_Key], *, failed: dict[str, Error] | None = None) -> Any:
        """Like ``Client.gets_many``; values that only the old pool has are moved first."""
        return self._do("gets_many", list(dict.fromkeys(keys)), failed=failed)

    def get_with_ttl(self, key: _Key) -> Any:
        """Like ``Client.get_with_ttl``; a value that only the old pool has is moved first."""
        return self._do("get_with_ttl", key)

    def gat(self, key: _Key, ttl: _Ttl) -> Any:
        """Like ``Client.gat``; a value that only the old pool has is moved first."""
        return self._do("gat", key, ttl)

    def meta(self, key: _Key) -> Any:
        """Like ``Client.meta``; a value that only the old pool has is moved first."""
        return self._do("meta", key)

    def touch(self, key: _Key, ttl: _Ttl) -> Any:
        """Like ``Client.touch``; a value that only the old pool has is moved first."""
        return self._do("touch", key, ttl)

    def get_or_set(
        self,
        key: _Key,
        make: Callable[[], Any],
        ttl: _Ttl,
        *,
        stale: _Ttl = 0,
        early: _Ttl = 0,
        lease: _Ttl = DEFAULT_LEASE,
        wait: float | None = None,
    ) -> Any:
        """Like ``Client.get_or_set``; nothing is made while the old pool has a value."""
        return self._do("get_or_set", key, make, ttl, stale=stale, early=early, lease=lease, wait=wait)

    def lease(self, key: _Key, *, lease: _Ttl = DEFAULT_LEASE, recache: _Ttl = 0) -> Any:
        """Like ``Client.lease``; a value that only the old pool has is moved first."""
        return self._do("lease", key, lease=lease, recache=recache)

    def set(self, key: _Key, value: object, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Store a value in the new pool, and delete what the old one has."""
        return self._do("set", key, value, ttl)

    def set_many(self, mapping: Mapping[_Key, object], ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Store many values in the new pool, and delete what the old one has. Returns the keys that were not stored."""
        return self._do("set_many", mapping, ttl)

    def add(self, key: _Key, value: object, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Store a value unless one of the pools has one. Returns whether it was stored."""
        return self._do("add", key, value, ttl)

    def replace(self, key: _Key, value: object, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Store a value if one of the pools has one. Returns whether it was stored."""
        return self._do("replace", key, value, ttl)

    def append(self, key: _Key, value: object) -> Any:
        """Put a value behind the one that is stored. Returns whether there was one."""
        return self._do("append", key, value)

    def prepend(self, key: _Key, value: object) -> Any:
        """Put a value before the one that is stored. Returns whether there was one."""
        return self._do("prepend", key, value)

    def cas(self, key: _Key, value: object, cas: int, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Like ``Client.cas``, with a token that this client's ``gets`` has returned."""
        return self._do("cas", key, value, cas, ttl)

    def incr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Like ``Client.incr``; a number that only the old pool has is moved first."""
        if initial is None:
            return self._do("incr", key, delta)
        return self._do("incr", key, delta, operation="incr_or_create", initial=initial, ttl=ttl)

    def decr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Like ``Client.decr``; a number that only the old pool has is moved first."""
        if initial is None:
            return self._do("decr", key, delta)
        return self._do("decr", key, delta, operation="decr_or_create", initial=initial, ttl=ttl)

    def delete(self, key: _Key, *, stale: _Ttl | None = None) -> Any:
        """Delete a key in both pools. Returns whether there was one.

        Args:
            key: the key.
            stale: as for ``Client.delete``; a value that only the old pool has is moved first.
        """
        if stale is None:
            return self._do("delete", key)
        return self._do("delete", key, operation="mark_stale", stale=stale)

    def delete_many(self, keys: Iterable[_Key]) -> Any:
        """Delete many keys in both pools, one after the other. Returns how many there were."""
        return self._do("delete_many", list(dict.fromkeys(keys)))

    def flush_all(self, delay: int = 0) -> Any:
        """Make all servers of both pools forget all items, now or after ``delay`` seconds."""
        return self._carry_out(self._flush_all(delay))

    def stats(self, kind: str | None = None) -> Any:
        """The statistics of each server of both pools."""
        return self._carry_out(self._of_both("stats", kind))

    def version(self) -> Any:
        """The version of each server of both pools."""
        return self._carry_out(self._of_both("version"))

    def using(self, **settings: Any) -> Self:
        """Return this client with other settings for what happens when a server fails, in either pool."""
        view = type(self)(self.old.using(**settings), self.new.using(**settings), ttl=self._ttl)
        view._counts = self._counts
        return view

    def quiet(self) -> Any:
        """Not while migrating: what a key's command does depends on what the command before it has found."""
        raise UsageError("a migrating client has no quiet batches: use set_many and delete_many")

    def servers_of(self, key: _Key) -> list[str]:
        """Return which servers of the new pool hold a key."""
        servers: list[str] = self.new.servers_of(key)
        return servers

    def metrics(self) -> dict[str, ServerMetrics]:
        """Return what has been counted of the servers of both pools."""
        return {**self.old.metrics(), **self.new.metrics()}

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return bool(self.new.is_closed)

    def close(self) -> None:
        """Close the connections to both pools."""
        self.old.close()
        self.new.close()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} from {self.old!r} to {self.new!r}>"

    def _do(self, method: str, *arguments: Any, **settings: Any) -> Any:
        return self._carry_out(self._steps(method, *arguments, **settings))

    def _steps(self, method: str, *arguments: Any, operation: str | None = None, **settings: Any) -> Steps:
        """Make the calls of an operation. ``operation``: its name, where that is not the method's."""
        machine = _native.Migration(operation or method, method, arguments, settings, self._counts, self._ttl)
        pool, call = machine.begin()
        while pool:
            method, arguments, settings = call
            try:
                outcome = yield getattr(getattr(self, pool), method)(*arguments, **settings)
            except Error as error:
                pool, call = machine.failed(error)
            else:
                pool, call = machine.answered(outcome)
        return call

    def _flush_all(self, delay: int) -> Steps:
        yield self.old.flush_all(delay)
        yield self.new.flush_all(delay)

    def _of_both(self, method: str, *arguments: Any) -> Steps:
        old = yield getattr(self.old, method)(*arguments)
        return {**old, **(yield getattr(self.new, method)(*arguments))}


class MigratingClient(BaseMigratingClient, Closing):
    """Two clients in use as one, for threads and greenlets; ``pinyon.migrating`` makes one."""

    _carry_out = staticmethod(drive)


def migrating(old: BaseClient, new: BaseClient, *, ttl: _Ttl | None = None) -> MigratingClient:
    """Use two pools as one while a program moves from one to the other, which may differ in servers, ring and dialect.

    Reading asks the new pool, then the old one, and moves what it finds there with what is left of its ttl. What is
    changed or deleted is changed in the new pool, and deleted in the old one.

    Args:
        old: the client of the pool that is to go.
        new: the client of the pool that is to stay.
        ttl: seconds that moved items live where the old servers are too old to say (memcached before 1.6.10);
            0 for no end.

    Returns:
        a client with the methods of ``pinyon.Client``, but no quiet batches; ``progress`` tells how far it has come.

    Raises:
        UsageError: the clients are not of one concurrency model, or would write each other's keys.
    """
    for client in (old, new):
        if not isinstance(client, BaseClient) or _is_awaited(client):
            raise UsageError(f"migrating takes two clients whose methods wait by themselves, not {client!r}")
    return MigratingClient(old, new, ttl=ttl)


def _is_awaited(client: BaseClient) -> bool:
    return hasattr(client, "__aenter__")


def _check_apart(old: BaseClient, new: BaseClient) -> None:
    if old is new:
        raise UsageError("the old client and the new one are the same")
    shared = set(old.servers) & set(new.servers)
    if shared and old.namespace == new.namespace:
        raise UsageError(
            f"both clients use {', '.join(sorted(shared))} with the same namespace, and would delete each other's "
            "keys: give the new client a namespace"
        )
