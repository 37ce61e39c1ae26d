"""Migrating from one pool of servers to another, with another ring or dialect, while both are in use.

For each operation, the native half of the package decides which call to make next on which pool.
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
    """How many keys a migrating client has found so far, and where.

    Attributes:
        new: keys in the new pool.
        old: keys in the old pool only.
        moved: keys of the old pool that this client has moved.
        refused: keys that it could not move, because the new client or its server does not take their values.
        missing: keys in neither pool.
    """

    new: int
    old: int
    moved: int
    refused: int
    missing: int


class BaseMigratingClient:
    """The base of the migrating clients of all concurrency models."""

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
        """How many keys were found so far, and where. When ``old`` no longer grows, you can switch off the old pool."""
        return Progress(*self._counts.progress())

    #: Makes the calls of an operation, and waits for them.
    _carry_out: Callable[[Steps], Any]

    def get(self, key: _Key, default: Any = None) -> Any:
        """Return the value of a key, or ``default``. If only the old pool has it, it is moved with its ttl."""
        return self._do("get", key, default)

    def get_many(self, keys: Iterable[_Key], *, failed: dict[str, Error] | None = None) -> Any:
        """Return the values of many keys from both pools. Each call moves some of those in the old pool only."""
        return self._do("get_many", list(dict.fromkeys(keys)), failed=failed)

    def gets(self, key: _Key) -> Any:
        """Like ``Client.gets``; a value in the old pool only is moved first."""
        return self._do("gets", key)

    def gets_many(self, keys: Iterable[_Key], *, failed: dict[str, Error] | None = None) -> Any:
        """Like ``Client.gets_many``; values in the old pool only are moved first."""
        return self._do("gets_many", list(dict.fromkeys(keys)), failed=failed)

    def get_with_ttl(self, key: _Key) -> Any:
        """Like ``Client.get_with_ttl``; a value in the old pool only is moved first."""
        return self._do("get_with_ttl", key)

    def gat(self, key: _Key, ttl: _Ttl) -> Any:
        """Like ``Client.gat``; a value in the old pool only is moved first."""
        return self._do("gat", key, ttl)

    def meta(self, key: _Key) -> Any:
        """Like ``Client.meta``; a value in the old pool only is moved first."""
        return self._do("meta", key)

    def touch(self, key: _Key, ttl: _Ttl) -> Any:
        """Like ``Client.touch``; a value in the old pool only is moved first."""
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
        """Like ``Client.get_or_set``. No value is made while the old pool has one."""
        return self._do("get_or_set", key, make, ttl, stale=stale, early=early, lease=lease, wait=wait)

    def lease(self, key: _Key, *, lease: _Ttl = DEFAULT_LEASE, recache: _Ttl = 0) -> Any:
        """Like ``Client.lease``; a value in the old pool only is moved first."""
        return self._do("lease", key, lease=lease, recache=recache)

    def set(self, key: _Key, value: object, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Store a value in the new pool, and delete it in the old pool."""
        return self._do("set", key, value, ttl)

    def set_many(self, mapping: Mapping[_Key, object], ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Store many values in the new pool, and delete them in the old pool. Return the keys that were not stored."""
        return self._do("set_many", mapping, ttl)

    def add(self, key: _Key, value: object, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Store a value unless either pool has one. Return whether it was stored."""
        return self._do("add", key, value, ttl)

    def replace(self, key: _Key, value: object, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Store a value if either pool has one. Return whether it was stored."""
        return self._do("replace", key, value, ttl)

    def append(self, key: _Key, value: object) -> Any:
        """Append to the stored value. Return whether there was one."""
        return self._do("append", key, value)

    def prepend(self, key: _Key, value: object) -> Any:
        """Prepend to the stored value. Return whether there was one."""
        return self._do("prepend", key, value)

    def cas(self, key: _Key, value: object, cas: int, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Like ``Client.cas``, with a token that this client's ``gets`` has returned."""
        return self._do("cas", key, value, cas, ttl)

    def incr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Like ``Client.incr``; a number in the old pool only is moved first."""
        if initial is None:
            return self._do("incr", key, delta)
        return self._do("incr", key, delta, operation="incr_or_create", initial=initial, ttl=ttl)

    def decr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = DEFAULT_TTL) -> Any:
        """Like ``Client.decr``; a number in the old pool only is moved first."""
        if initial is None:
            return self._do("decr", key, delta)
        return self._do("decr", key, delta, operation="decr_or_create", initial=initial, ttl=ttl)

    def delete(self, key: _Key, *, stale: _Ttl | None = None) -> Any:
        """Delete an item in both pools. Return whether there was one.

        Args:
            key: the key.
            stale: as for ``Client.delete``. A value that only the old pool has is moved first.
        """
        if stale is None:
            return self._do("delete", key)
        return self._do("delete", key, operation="mark_stale", stale=stale)

    def delete_many(self, keys: Iterable[_Key]) -> Any:
        """Delete many items in both pools. Return how many there were."""
        return self._do("delete_many", list(dict.fromkeys(keys)))

    def flush_all(self, delay: int = 0) -> Any:
        """Make all servers of both pools forget all items, after ``delay`` seconds."""
        return self._carry_out(self._flush_all(delay))

    def stats(self, kind: str | None = None) -> Any:
        """Return the statistics of each server of both pools."""
        return self._carry_out(self._of_both("stats", kind))

    def version(self) -> Any:
        """Return the version of each server of both pools."""
        return self._carry_out(self._of_both("version"))

    def using(self, **settings: Any) -> Self:
        """Return a view of this client that behaves differently when a server fails, like ``Client.using``."""
        view = type(self)(self.old.using(**settings), self.new.using(**settings), ttl=self._ttl)
        view._counts = self._counts
        return view

    def quiet(self) -> Any:
        """Raise ``UsageError``: while migrating, each command depends on the result of the one before it."""
        raise UsageError("a migrating client has no quiet batches: use set_many and delete_many")

    def servers_of(self, key: _Key) -> list[str]:
        """Return the servers of the new pool that hold a key, like ``Client.servers_of``."""
        servers: list[str] = self.new.servers_of(key)
        return servers

    def metrics(self) -> dict[str, ServerMetrics]:
        """Return the metrics of the servers of both pools, like ``Client.metrics``."""
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
    """Two clients in use as one, for threads and greenlets. ``pinyon.migrating`` makes one."""

    _carry_out = staticmethod(drive)


def migrating(old: BaseClient, new: BaseClient, *, ttl: _Ttl | None = None) -> MigratingClient:
    """Use two pools as one while a program migrates between them. They may differ in servers, ring and dialect.

    Reads ask the new pool, then the old one. A value in the old pool is moved with the rest of its ttl. Changes go to
    the new pool, and delete the item in the old one.

    Args:
        old: the client of the old pool.
        new: the client of the new pool.
        ttl: the ttl of moved items, in seconds, if the old servers cannot tell it (memcached before 1.6.10). 0 never
            expires.

    Returns:
        A client with the methods of ``pinyon.Client``, except batches. Its ``progress`` tells how far it has come.

    Raises:
        UsageError: the clients are of different concurrency models, or would write to each other's keys.
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
