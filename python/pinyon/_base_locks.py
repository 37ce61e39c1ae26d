"""What the locks of all concurrency models have in common."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Callable

from pinyon import _native
from pinyon._hash_tags import Branches, branches
from pinyon._keeper import keep_in_thread
from pinyon._redis_url import parse_url
from pinyon.errors import UsageError
from pinyon.tls import Tls, settled

if TYPE_CHECKING:
    from typing_extensions import Self

    from pinyon._loop_driver import Loops

DEFAULT_URL = "redis://127.0.0.1:6379/0"
logger = logging.getLogger("pinyon.locks")


#: What is not a setting that locks share with those of their names' own hash tags.
_OF_EACH = frozenset(("cls", "__class__", "hash_tags"))


class BaseLocks(_native.Locks):
    """What the locks of all concurrency models have in common; use one of those."""

    __slots__ = ("__weakref__", "_branches")

    _branches: Branches | None

    #: Returns the number of what holds and waits: a thread, greenlet or task.
    _owner: Callable[[], int]
    #: How the event loops are found that share connections, and driven; None for threads.
    _loops: Loops | None = None

    def __new__(
        cls,
        url: str = DEFAULT_URL,
        *,
        namespace: str | bytes = "pinyon",
        ttl: float = 10.0,
        timeout: float = 10.0,
        reentrant: bool = False,
        handler: str = "auto",
        fairness: str = "fifo",
        username: str | None = None,
        password: str | bytes | None = None,
        heartbeat: float = 5.0,
        command_timeout: float = 2.0,
        connect_timeout: float = 1.0,
        hash_tags: str | bytes = "namespace",
        tls: bool | Tls | None = None,
    ) -> Self:
        settings = {name: value for name, value in locals().items() if name not in _OF_EACH}
        place = parse_url(url)
        if place.tls and tls is False:
            raise UsageError("rediss:// is Redis with TLS, which tls=False denies; write redis://, or leave out tls")
        locks = super().__new__(
            cls,
            server=place.server,
            host=place.host,
            port=place.port,
            path=place.path,
            user=username if username is not None else place.user,
            password=password if password is not None else place.password,
            database=place.database,
            namespace=namespace,
            ttl=ttl,
            timeout=timeout,
            reentrant=reentrant,
            handler=handler,
            fairness=fairness,
            heartbeat=heartbeat,
            command_timeout=command_timeout,
            connect_timeout=connect_timeout,
            warn=logger.warning,
            keep=keep_in_thread,
            hash_tag=hash_tags if isinstance(hash_tags, bytes) else None,
            tls=settled(place.tls if tls is None else tls),
            loops=cls._loops,
        )
        locks._branches = branches(hash_tags, settings)
        return locks

    if not TYPE_CHECKING:

        def __init__(self, *arguments: object, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    def _at(self, names: tuple[str | bytes, ...]) -> Self:
        """Return the locks that keep these names: these, or those of the names' own hash tag."""
        if self._branches is None or self.is_closed:
            return self
        tag = self.tag_of(names)
        return self if tag is None else self._branches.of(tag, self._branch)  # type: ignore[return-value]

    def _branch(self, tag: bytes) -> BaseLocks:
        assert self._branches is not None
        return BaseLocks.__new__(type(self), hash_tags=tag, **self._branches.settings)

    @property
    def hash_tags(self) -> str:
        """By what a cluster chooses the node of a lock: ``"namespace"`` or ``"names"``."""
        return "namespace" if self._branches is None else "names"

    def close(self) -> None:
        """Close the connections. What waits fails; what is held is lost, and ends on the server with its ttl."""
        super().close()
        if self._branches is not None:
            self._branches.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else self.server
        namespace = self.prefix[1:-2].decode("utf-8", "replace")
        return f"<{type(self).__module__}.{type(self).__qualname__} {state}, namespace {namespace!r}>"
