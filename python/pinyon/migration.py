"""Migrating from one pool of servers to another, with another ring or dialect, while both are in use.

The native half of the package decides what to ask of which pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pinyon import _native
from pinyon._cached import Caching
from pinyon._closing import Closing
from pinyon._iter_many import CHUNK, iter_many
from pinyon._steps import drive
from pinyon._uncopied import Uncopied
from pinyon.client import DEFAULT_LEASE, BaseClient
from pinyon.errors import UndecodableValue, UsageError

__all__ = ["MigratingClient", "Progress", "migrating"]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from typing_extensions import Self, TypeAlias, Unpack

    from pinyon._steps import Steps
    from pinyon._terms import Terms
    from pinyon.errors import Error
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


class BaseMigratingClient(_native.Client, Uncopied):
    """The base of the migrating clients of all concurrency models."""

    #: The client of the pool that is to go.
    old: Any
    #: The client of the pool that is to stay.
    new: Any
    _counts: _native.MigrationCounts
    _ttl: _Ttl | None

    #: Makes a coroutine of a call on both pools. None if calls wait by themselves.
    _cross: ClassVar[Callable[[_native.Migration], Any] | None] = None
    #: Makes the calls of an operation, and waits for them.
    _carry_out: Callable[[Steps], Any]

    def __new__(cls, old: BaseClient, new: BaseClient, *, ttl: _Ttl | None = None) -> Self:
        _check_apart(old, new)
        return cls._made(old, new, ttl, _native.MigrationCounts())

    if not TYPE_CHECKING:

        def __init__(self, *arguments: object, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    @classmethod
    def _made(cls, old: BaseClient, new: BaseClient, ttl: _Ttl | None, counts: _native.MigrationCounts) -> Self:
        traced = None if hasattr(cls, "_traced") else getattr(new, "_traced", None) or getattr(old, "_traced", None)
        kind = cls if traced is None else traced(cls)
        made: Self = _native.Client.__new__(kind, new, migrating=(old, counts, ttl, cls._cross))
        made.old, made.new, made._ttl, made._counts = old, new, ttl, counts
        return made

    @property
    def progress(self) -> Progress:
        """How many keys were found so far, and where. When ``old`` no longer grows, you can switch off the old pool."""
        return Progress(*self._counts.progress())

    def get_or_set(
        self,
        key: _Key,
        make: Callable[[], Any],
        ttl: _Ttl | Callable[[Any], _Ttl],
        **terms: Unpack[Terms],
    ) -> Any:
        """Like ``Client.get_or_set``. No value is made while the old pool has one."""
        get_or_set = partial(self.new.get_or_set, key, make, ttl, **terms)
        return self._carry_out(self._after_moving(key, get_or_set))

    def get_or_set_many(
        self,
        keys: Iterable[_Key],
        make_many: Callable[[list[Any]], Any],
        ttl: _Ttl | Callable[[Any], _Ttl],
        *,
        failed: dict[Any, Exception] | None = None,
        **terms: Unpack[Terms],
    ) -> Any:
        """Like ``Client.get_or_set_many``. No value is made while the old pool has one."""
        keys = list(keys)
        get_or_set_many = partial(self.new.get_or_set_many, keys, make_many, ttl, failed=failed, **terms)
        return self._carry_out(self._after_moving_many(keys, get_or_set_many))

    def lease(self, key: _Key, *, lease: _Ttl = DEFAULT_LEASE, recache: _Ttl = 0) -> Any:
        """Like ``Client.lease``; a value in the old pool only is moved first."""
        return self._carry_out(self._after_moving(key, partial(self.new.lease, key, lease=lease, recache=recache)))

    def _after_moving(self, key: _Key, ask: Callable[[], Any]) -> Steps:
        """Ask the new client, once a value in the old pool only was moved. One that cannot be read is made anew."""
        with suppress(UndecodableValue):
            yield self.get(key)
        return (yield ask())

    def _after_moving_many(self, keys: list[_Key], ask: Callable[[], Any]) -> Steps:
        try:
            found = yield self.get_many(keys)
        except UndecodableValue as unread:
            found = unread.partial or {}
        with suppress(UndecodableValue):
            yield self.gets_many(list(found))  # get_many leaves most keys where they are
        return (yield ask())

    def using(self, **settings: Any) -> Self:
        """Return a view of this client that behaves differently when a server fails, like ``Client.using``."""
        return self._made(self.old.using(**settings), self.new.using(**settings), self._ttl, self._counts)

    def quiet(self) -> Any:
        """Raise ``UsageError``: while migrating, each command depends on the result of the one before it."""
        raise UsageError("a migrating client has no quiet batches: use set_many and delete_many")

    def metrics(self) -> dict[str, ServerMetrics]:
        """Return the metrics of the servers of both pools, like ``Client.metrics``."""
        return {**self.old.metrics(), **self.new.metrics()}

    def close(self) -> None:
        """Close the connections to both pools."""
        self.old.close()
        self.new.close()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} from {self.old!r} to {self.new!r}>"


class MigratingClient(BaseMigratingClient, Closing, Caching):
    """Two clients in use as one, for threads and greenlets. ``pinyon.migrating`` makes one.

    Its methods are those of ``pinyon.Client``, without batches. The page on migrating says what each does on each pool.
    """

    _carry_out = staticmethod(drive)

    def iter_many(
        self, keys: Iterable[_Key], *, chunk: int = CHUNK, failed: dict[str, Error] | None = None
    ) -> Iterator[tuple[_Key, Any]]:
        """Like ``Client.iter_many``. Each chunk is read as by ``get_many``, from both pools."""
        return iter_many(self, keys, chunk, failed)


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
