"""What the native clients need from an event loop: the interface of the drivers for each kind of loop."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Optional, Protocol, Union

if TYPE_CHECKING:
    from pinyon._native import CredentialsQuestion
    from pinyon._waits import Waits
    from pinyon.events import Event


class Connections(Protocol):
    """A native client's connections in one loop: ``_native.Driver``, or ``_native.LocksDriver``."""

    def turn(self) -> None: ...
    def ready(self, lane: int) -> None: ...
    def woken(self) -> None: ...
    def ended(self) -> None: ...
    def resolved(self, lane: int, port: int, addresses: list[str], why: str = "") -> None: ...


class LoopDriver(ABC):
    """Tells one event loop what the connections of one native client wait for.

    The native client makes a driver for each loop that it is used in, and reads these attributes once. A driver derives
    from ``TaskDriver`` or ``GreenletDriver``.
    """

    #: Returns the running task or greenlet, which holds locks.
    current_owner: ClassVar[Callable[[], Any]]
    #: How the callers of ``get_or_set`` wait for each other.
    waits: ClassVar[type[Waits]]

    @abstractmethod
    def __init__(self, loop: Any) -> None: ...

    @staticmethod
    @abstractmethod
    def no_loop() -> Exception:
        """Return what a client raises that is used without a running loop."""

    @staticmethod
    @abstractmethod
    def is_over(loop: Any) -> bool:
        """Return whether a loop has ended: no coroutine will run in it again."""

    def attach(self, connections: Connections) -> None:
        """Remember the object that the methods below call back."""
        self._connections = connections
        self._turn = connections.turn

    @abstractmethod
    def end_turn(self) -> None:
        """Call ``turn`` soon."""

    @abstractmethod
    def end_turn_from_outside(self) -> None:
        """Call ``turn`` soon. Any thread may call this."""

    @abstractmethod
    def watch(self, lane: int, fd: int, write: bool) -> None:
        """Call ``ready`` when the descriptor is readable, or writable if ``write``. Replaces an earlier call for it."""

    def watch_anew(self, lane: int, fd: int) -> None:
        """Watch the descriptor by another watch: ``ready`` may be called before a call of it has returned."""
        self.watch(lane, fd, False)

    @abstractmethod
    def forget(self, lane: int, fd: int) -> None:
        """Stop watching the descriptor."""

    @abstractmethod
    def forget_inherited(self, lane: int, fd: int) -> None:
        """Stop watching a descriptor in a forked child, where it belongs to the parent."""

    @abstractmethod
    def resolve(self, lane: int, name: str, port: int) -> None:
        """Call ``resolved`` with the addresses of a host name, or with the reason why there are none."""

    @abstractmethod
    def ask(self, question: CredentialsQuestion) -> None:
        """Have a question for credentials answered, then call ``woken``."""

    @abstractmethod
    def wake_in(self, seconds: float) -> None:
        """Call ``woken`` after this time."""

    @abstractmethod
    def report(self, on_event: Callable[[Event], object], event: Event) -> None:
        """Call ``on_event`` soon, so that the loop reports what it raises. Any thread may call this."""


class TaskDriver(LoopDriver):
    """The driver of a loop whose tasks wait for futures."""

    current_greenlet: ClassVar[None] = None

    loop: Any
    #: Makes a future. None if the loop uses asyncio's futures.
    create_future: Callable[[], Any] | None
    #: The class of futures to make otherwise; its argument is the loop.
    future_class: type[Any]

    @staticmethod
    @abstractmethod
    def may_nest(loop: Any) -> bool:
        """Return whether a callback of the loop may run the loop."""

    @staticmethod
    def warn_if_forgotten(future: Any, method: str) -> None:
        """Warn as Python does of a coroutine that was never awaited, unless the future is done or has callbacks.

        Args:
            future: one that the native client alone refers to.
            method: the method of ``pinyon.aio`` that returned it.
        """
        if future.done() or getattr(future, "_callbacks", True):
            return
        # A loop in debug mode knows where the method was called. Python itself says so if tracemalloc runs.
        stack = getattr(future, "_source_traceback", None)
        caller = f" (called at {stack[-1].filename}:{stack[-1].lineno})" if stack else ""
        text = f"'pinyon.aio.{method}' was never awaited{caller}"
        warnings.warn(text, RuntimeWarning, stacklevel=2, source=future)


class GreenletDriver(LoopDriver):
    """The driver of a hub, to which greenlets switch."""

    #: Returns the running greenlet.
    current_greenlet: ClassVar[Callable[[], Any]]
    #: The class of most greenlets.
    usual_greenlet: ClassVar[type]

    hub: Any


#: How a native client finds the running loop, or None, and makes a driver for one.
Loops = tuple[Callable[[], Any], type[LoopDriver]]
#: How the callers of a client wait: in loops, or as a function decides when the client is first used. None: as threads.
Concurrency = Union[Loops, Callable[[], Optional[Loops]]]


def addresses_of(found: list[Any]) -> list[str]:
    """Return the IP addresses in a result of ``getaddrinfo``."""
    return [str(address[0]) for *_, address in found]
