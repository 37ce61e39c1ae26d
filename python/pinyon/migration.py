"""Moving from one pool of servers to another, of another ring or dialect, while both are in use.

What an operation does on both pools stands here once, as a generator of the calls whose outcomes it needs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pinyon._closing import Closing
from pinyon._steps import drive
from pinyon.client import DEFAULT_LEASE, BaseClient
from pinyon.errors import ServerError, Unsupported, UnsupportedType, UsageError, ValueTooLarge

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import Concatenate, ParamSpec, Self, TypeAlias

    from pinyon._steps import Steps
    from pinyon.errors import Error
    from pinyon.metrics import ServerMetrics

    _Key: TypeAlias = "str | bytes"
    _Ttl: TypeAlias = "int | float | timedelta"
    _Arguments = ParamSpec("_Arguments")

#: Seconds after which somebody else may move a key, should who began to move it have died.
_LEASE = 5
#: How many of the keys that ``get_many`` finds in the old pool alone are moved at once; the others have to wait.
_MOVED_AT_ONCE = 16

_MISSING: Any = object()


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


def _operation(plan: Callable[Concatenate[Any, _Arguments], Steps]) -> Callable[Concatenate[Any, _Arguments], Any]:
    """Make a method of a plan: what the model's client makes of it is returned, or awaited."""

    @functools.wraps(plan)
    def method(self: Any, *arguments: _Arguments.args, **settings: _Arguments.kwargs) -> Any:
        return self._carry_out(plan(self, *arguments, **settings))

    return method  # type: ignore[return-value]


class BaseMigratingClient:
    """What migrating clients of all concurrency models have in common; ``migrating`` makes them."""

    def __init__(self, old: BaseClient, new: BaseClient, *, ttl: _Ttl | None = None) -> None:
        _check_apart(old, new)
        #: The client of the pool that is to go.
        self.old: Any = old
        #: The client of the pool that is to stay.
        self.new: Any = new
        self._ttl = ttl
        self._counts = dict.fromkeys(Progress._fields, 0)
        self._counting = threading.Lock()

    @property
    def progress(self) -> Progress:
        """Where keys were found until now. The old pool can go when it is not needed any more for long."""
        with self._counting:
            return Progress(**self._counts)

    def _count(self, what: str, how_many: int = 1) -> None:
        with self._counting:
            self._counts[what] += how_many

    #: How the calls of a plan are made, and waited for.
    _carry_out: Callable[[Steps], Any]

    @_operation
    def get(self, key: _Key, default: Any = None) -> Steps:
        """The value stored under a key, or ``default``; if only the old pool has it, it is moved with its ttl."""
        value = yield from self._bring(key)
        return default if value is _MISSING else value

    @_operation
    def get_many(self, keys: Iterable[_Key], *, failed: dict[str, Error] | None = None) -> Steps:
        """The values of several keys, from both pools. Some of those that only the old one has are moved each time."""
        keys = list(keys)
        values = yield self.new.get_many(keys, failed=failed)
        self._count("new", len(values))
        left = [key for key in keys if key not in values]
        if not left:
            return values
        there = yield self.old.get_many(left, failed=failed)
        left = [key for key in left if key not in there]
        changed = (yield self.new.get_many(left, failed=failed)) if left else {}
        self._count("new", len(changed))
        self._count("missing", len(left) - len(changed))
        for number, key in enumerate(there):
            if number < _MOVED_AT_ONCE:
                yield from self._move(key)
            else:
                self._count("old")
        return {**values, **there, **changed}

    @_operation
    def gets(self, key: _Key) -> Steps:
        """Like ``Client.gets``; a value that only the old pool has is moved first."""
        return (yield from self._once_moved(key, lambda: self.new.gets(key)))

    @_operation
    def gets_many(self, keys: Iterable[_Key], *, failed: dict[str, Error] | None = None) -> Steps:
        """Like ``Client.gets_many``; values that only the old pool has are moved first."""
        keys = list(keys)
        there = yield self.new.gets_many(keys, failed=failed)
        moved = []
        for key in keys:
            if key not in there and (yield from self._bring(key)) is not _MISSING:
                moved.append(key)
        return {**there, **(yield self.new.gets_many(moved, failed=failed))} if moved else there

    @_operation
    def get_with_ttl(self, key: _Key) -> Steps:
        """Like ``Client.get_with_ttl``; a value that only the old pool has is moved first."""
        return (yield from self._once_moved(key, lambda: self.new.get_with_ttl(key)))

    @_operation
    def gat(self, key: _Key, ttl: _Ttl) -> Steps:
        """Like ``Client.gat``; a value that only the old pool has is moved first."""
        return (yield from self._once_moved(key, lambda: self.new.gat(key, ttl)))

    @_operation
    def meta(self, key: _Key) -> Steps:
        """Like ``Client.meta``; a value that only the old pool has is moved first."""
        return (yield from self._once_moved(key, lambda: self.new.meta(key)))

    @_operation
    def touch(self, key: _Key, ttl: _Ttl) -> Steps:
        """Like ``Client.touch``; a value that only the old pool has is moved first."""
        return (yield from self._once_moved(key, lambda: self.new.touch(key, ttl)))

    @_operation
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
    ) -> Steps:
        """Like ``Client.get_or_set``; nothing is made while the old pool has a value."""
        yield from self._bring(key)
        settings = {"stale": stale, "early": early, "lease": lease, "wait": wait}
        return (yield self.new.get_or_set(key, make, ttl, **settings))

    @_operation
    def lease(self, key: _Key, *, lease: _Ttl = DEFAULT_LEASE, recache: _Ttl = 0) -> Steps:
        """Like ``Client.lease``; a value that only the old pool has is moved first."""
        yield from self._bring(key)
        return (yield self.new.lease(key, lease=lease, recache=recache))

    @_operation
    def set(self, key: _Key, value: object, ttl: _Ttl = 0) -> Steps:
        """Store a value in the new pool, and delete what the old one has."""
        stored = yield self.new.set(key, value, ttl)
        yield self.old.delete(key)
        return stored

    @_operation
    def set_many(self, mapping: Mapping[_Key, object], ttl: _Ttl = 0) -> Steps:
        """Store many values in the new pool, and delete what the old one has. Returns the keys that were not stored."""
        failed = yield self.new.set_many(mapping, ttl)
        yield self.old.delete_many(list(mapping))
        return failed

    @_operation
    def add(self, key: _Key, value: object, ttl: _Ttl = 0) -> Steps:
        """Store a value unless one of the pools has one. Returns whether it was stored."""
        if (yield from self._bring(key)) is not _MISSING:
            return False
        return (yield self.new.add(key, value, ttl))

    @_operation
    def replace(self, key: _Key, value: object, ttl: _Ttl = 0) -> Steps:
        """Store a value if one of the pools has one. Returns whether it was stored."""
        return (yield from self._change(key, lambda: self.new.replace(key, value, ttl)))

    @_operation
    def append(self, key: _Key, value: object) -> Steps:
        """Put a value behind the one that is stored. Returns whether there was one."""
        return (yield from self._change(key, lambda: self.new.append(key, value)))

    @_operation
    def prepend(self, key: _Key, value: object) -> Steps:
        """Put a value before the one that is stored. Returns whether there was one."""
        return (yield from self._change(key, lambda: self.new.prepend(key, value)))

    @_operation
    def cas(self, key: _Key, value: object, cas: int, ttl: _Ttl = 0) -> Steps:
        """Like ``Client.cas``, with a token that this client's ``gets`` has returned."""
        return (yield from self._change(key, lambda: self.new.cas(key, value, cas, ttl)))

    @_operation
    def incr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = 0) -> Steps:
        """Like ``Client.incr``; a number that only the old pool has is moved first."""
        number = yield from self._change(key, lambda: self.new.incr(key, delta))
        if number is None and initial is not None:
            return (yield self.new.incr(key, delta, initial=initial, ttl=ttl))
        return number

    @_operation
    def decr(self, key: _Key, delta: int = 1, *, initial: int | None = None, ttl: _Ttl = 0) -> Steps:
        """Like ``Client.decr``; a number that only the old pool has is moved first."""
        number = yield from self._change(key, lambda: self.new.decr(key, delta))
        if number is None and initial is not None:
            return (yield self.new.decr(key, delta, initial=initial, ttl=ttl))
        return number

    @_operation
    def delete(self, key: _Key, *, stale: _Ttl | None = None) -> Steps:
        """Delete a key in both pools. Returns whether there was one.

        Args:
            key: the key.
            stale: as for ``Client.delete``; a value that only the old pool has is moved first.
        """
        if stale is not None:
            return (yield from self._change(key, lambda: self.new.delete(key, stale=stale)))
        return (yield from self._delete(key))

    @_operation
    def delete_many(self, keys: Iterable[_Key]) -> Steps:
        """Delete many keys in both pools, one after the other. Returns how many there were."""
        deleted = 0
        for key in dict.fromkeys(keys):
            deleted += yield from self._delete(key)
        return deleted

    @_operation
    def flush_all(self, delay: int = 0) -> Steps:
        """Make all servers of both pools forget all items, now or after ``delay`` seconds."""
        yield self.old.flush_all(delay)
        yield self.new.flush_all(delay)

    @_operation
    def stats(self, kind: str | None = None) -> Steps:
        """The statistics of each server of both pools."""
        old = yield self.old.stats(kind)
        return {**old, **(yield self.new.stats(kind))}

    @_operation
    def version(self) -> Steps:
        """The version of each server of both pools."""
        old = yield self.old.version()
        return {**old, **(yield self.new.version())}

    def using(self, **settings: Any) -> Self:
        """Return this client with other settings for what happens when a server fails, in either pool."""
        view = type(self)(self.old.using(**settings), self.new.using(**settings), ttl=self._ttl)
        view._counts, view._counting = self._counts, self._counting
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
        return bool(self.new.is_closed)

    def close(self) -> None:
        """Close the connections to both pools."""
        self.old.close()
        self.new.close()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} from {self.old!r} to {self.new!r}>"

    def _bring(self, key: _Key) -> Steps:
        """The value of a key, which is in the new pool from now on if it was in either.

        What was in neither may have been changed in between, which stores in the one and deletes in the other.
        """
        value = yield self.new.get(key, _MISSING)
        if value is _MISSING:
            value = yield from self._move(key)
            if value is not _MISSING:
                return value
            value = yield self.new.get(key, _MISSING)
        self._count("missing" if value is _MISSING else "new")
        return value

    def _move(self, key: _Key) -> Steps:
        """Move a key, and return its value.

        The lease keeps the key's place in the new pool: who deletes the key, or stores another value, takes it away, so
        that what was read in the old pool before then is not stored after it.
        """
        there = yield from self._left(key)
        if there is None:
            return _MISSING
        self._count("old")
        found = yield self.new.ask_lease(key, _LEASE)
        if found.state in ("hit", "stale"):
            return found.value
        if found.win is None:
            return there[0]
        cas, keep = found.win
        there = yield from self._left(key)
        if there is None:
            yield self.new.give_back(key, cas, keep)
            return _MISSING
        value, ttl = there
        try:
            moved = yield self.new.cas(key, value, cas, ttl)
        except (UnsupportedType, ValueTooLarge, ServerError):
            self._count("refused")
            yield self.new.give_back(key, cas, keep)
        else:
            self._count("moved", bool(moved))
        return value

    def _left(self, key: _Key) -> Steps:
        """The value that the old pool has, and the ttl to store it with; or None."""
        try:
            there = yield self.old.get_with_ttl(key)
        except Unsupported as error:
            if self._ttl is None:
                raise Unsupported(
                    f"{error}; it cannot say when items expire: give migrating() a ttl for those that are moved"
                ) from error
            value = yield self.old.get(key, _MISSING)
            return None if value is _MISSING else (value, self._ttl)
        if there is None:
            return None
        value, ttl = there
        return value, 0 if ttl is None else max(ttl, 1)

    def _once_moved(self, key: _Key, ask: Callable[[], Any]) -> Steps:
        answer = yield ask()
        if answer is not None and answer is not False:
            return answer
        if (yield from self._bring(key)) is _MISSING:
            return answer
        return (yield ask())

    def _change(self, key: _Key, change: Callable[[], Any]) -> Steps:
        """Change a value in the new pool, where it is moved to if need be; the old pool's is no more."""
        changed = yield from self._once_moved(key, change)
        if changed is not None and changed is not False:
            yield self.old.delete(key)
        return changed

    def _delete(self, key: _Key) -> Steps:
        """First in the old pool: what nobody can read there any more nobody can move."""
        old = yield self.old.delete(key)
        new = yield self.new.delete(key)
        return old or new


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
