"""What the locks of all concurrency models have in common."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, ClassVar

from pinyon import _native, _telling
from pinyon._once import release_at_exit
from pinyon._settings import check_callable, check_names
from pinyon._uncopied import public_name
from pinyon.errors import Unpicklable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from typing_extensions import Literal, Self, SupportsIndex

    from pinyon._credentials import CredentialsFunction
    from pinyon._loop_driver import Concurrency
    from pinyon.events import Event
    from pinyon.tls import Tls

DEFAULT_URL: str = json.loads(_native.DEFAULT_SETTINGS)["Locks"]["url"]


class BaseLocks(_native.Locks):
    """What the locks of all concurrency models have in common; use one of those."""

    __slots__ = ("__weakref__", "_on_event", "_settings")

    _on_event: Callable[[Event], object] | None
    _settings: dict[str, Any]

    #: The classes of locks, and of what is held.
    _lock: ClassVar[type[Any]]
    _held: ClassVar[type[Any]]
    #: How the event loops are found that share connections, and driven; or what decides this on first use.
    _loops: ClassVar[Concurrency]

    @check_names("Locks")
    def __new__(
        cls,
        url: str | Sequence[str] = "redis://127.0.0.1:6379/0",
        *,
        label: str | None = None,
        namespace: str | bytes = "pinyon",
        prefix: str | bytes = "",
        hash_tags: Literal["namespace", "names"] = "namespace",
        ttl: float = 10.0,
        longest_ttl: float | None = None,
        timeout: float = 10.0,
        reentrant: bool = False,
        handler: Literal["auto", "script", "pure"] = "auto",
        fairness: Literal["fifo", "throughput"] | None = None,
        replicas: int = 0,
        username: str | CredentialsFunction | None = None,
        password: str | bytes | CredentialsFunction | None = None,
        protocol: Literal[2, 3] | None = None,
        heartbeat: float = 5.0,
        command_timeout: float = 2.0,
        connect_timeout: float = 1.0,
        on_event: Callable[[Event], object] | None = None,
        keepalive: float = 60.0,
        keepalive_interval: float = 15.0,
        keepalive_probes: int = 4,
        tls: bool | Tls | None = None,
        sentinel_username: str | CredentialsFunction | None = None,
        sentinel_password: str | bytes | CredentialsFunction | None = None,
        sentinel_tls: bool | Tls | None = None,
    ) -> Self:
        return cls._made({**locals()})

    @classmethod
    def _made(cls, settings: dict[str, Any]) -> Self:
        """Make locks of the arguments of ``__new__``."""
        del settings["cls"]
        given = settings.copy()
        on_event = check_callable("on_event", settings.pop("on_event"))
        made = _native.Locks.__new__(cls, report=_telling.report, loops=cls._loops, **settings)
        made._on_event = on_event
        made._settings = given
        release_at_exit(made)
        if on_event is not None:
            _telling.listen(made)
        return made

    if not TYPE_CHECKING:

        def __init__(self, *arguments: object, **settings: object) -> None:
            """Take what ``__new__`` took, so that a subclass may pass its arguments on."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        """Pickle and copy what the locks were made of, with the password; whoever loads it makes locks of its own."""
        own = [name for name, value in self._settings.items() if callable(value) or isinstance(value, _native.Tls)]
        if own:
            raise Unpicklable(
                f"a {public_name(type(self))} with {' and '.join(own)} cannot be copied or pickled, as functions and "
                "TLS belong to their process: make one in each process"
            )
        return _made_again, (type(self), self._settings)

    def _rated(self, rate: _native.Rate, n: int, waits: bool, timeout: float | timedelta | None) -> Any:
        return rate._ask(n, waits, timeout)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else self.server
        namespace = self.prefix.partition(b"{")[2][:-2].decode("utf-8", "replace")
        return f"<{type(self).__module__}.{type(self).__qualname__} {state}, namespace {namespace!r}>"


def _made_again(kind: type[BaseLocks], settings: dict[str, Any]) -> BaseLocks:
    return kind._made({"cls": kind, **settings})
