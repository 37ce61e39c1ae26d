"""What the locks of all concurrency models have in common."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Callable

from pinyon import _native
from pinyon._owners import Owners, current_thread
from pinyon._redis_url import parse_url

if TYPE_CHECKING:
    from typing_extensions import Self

DEFAULT_URL = "redis://127.0.0.1:6379/0"
logger = logging.getLogger("pinyon.locks")


class BaseLocks(_native.Locks):
    """What the locks of all concurrency models have in common; use one of those."""

    __slots__ = ("__weakref__", "_owners", "_reentrant", "_timeout", "_ttl")

    _owners: Owners
    _reentrant: bool
    _timeout: float
    _ttl: float

    #: Returns what holds and waits: a thread, greenlet or task.
    _current: Callable[[], Any] = staticmethod(current_thread)

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
        loops: tuple[Callable[[], Any], Callable[[Any], Any]] | None = None,
    ) -> Self:
        place = parse_url(url)
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
            handler=handler,
            fairness=fairness,
            heartbeat=heartbeat,
            command_timeout=command_timeout,
            connect_timeout=connect_timeout,
            warn=logger.warning,
            loops=loops,
        )
        locks._owners = Owners()
        locks._ttl = ttl
        locks._timeout = timeout
        locks._reentrant = reentrant
        return locks

    if not TYPE_CHECKING:

        def __init__(self, *arguments: object, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    def _owner(self) -> int:
        return self._owners.number_of(self._current())

    def _arguments(
        self, ttl: float | None, renew: bool, max_hold: float | None, reentrant: bool | None
    ) -> dict[str, Any]:
        return {
            "ttl": self._ttl if ttl is None else ttl,
            "renewal": renew if max_hold is None or not renew else max_hold,
            "reentrant": self._reentrant if reentrant is None else reentrant,
        }

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else self.server
        namespace = self.prefix[1:-2].decode("utf-8", "replace")
        return f"<{type(self).__module__}.{type(self).__qualname__} {state}, namespace {namespace!r}>"
