"""What the locks of all concurrency models have in common."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Callable

from pinyon import _native
from pinyon._redis_url import parse_url
from pinyon.errors import UsageError
from pinyon.tls import Tls, settled

if TYPE_CHECKING:
    from typing_extensions import Self

DEFAULT_URL = "redis://127.0.0.1:6379/0"
logger = logging.getLogger("pinyon.locks")


class BaseLocks(_native.Locks):
    """What the locks of all concurrency models have in common; use one of those."""

    __slots__ = ("__weakref__",)

    #: Returns the number of what holds and waits: a thread, greenlet or task.
    _owner: Callable[[], int]
    #: How the event loops are found that share connections, and driven; None for threads.
    _loops: tuple[Callable[[], Any], Callable[[Any], Any]] | None = None

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
        hash_tags: str = "namespace",
        tls: bool | Tls | None = None,
    ) -> Self:
        place = parse_url(url)
        if place.tls and tls is False:
            raise UsageError("rediss:// is Redis with TLS, which tls=False denies; write redis://, or leave out tls")
        return super().__new__(
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
            hash_tags=hash_tags,
            tls=settled(place.tls if tls is None else tls),
            loops=cls._loops,
        )

    if not TYPE_CHECKING:

        def __init__(self, *arguments: object, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else self.server
        namespace = self.prefix[1:-2].decode("utf-8", "replace")
        return f"<{type(self).__module__}.{type(self).__qualname__} {state}, namespace {namespace!r}>"
