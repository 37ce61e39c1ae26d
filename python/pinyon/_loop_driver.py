"""What the native clients need of an event loop: the contract that the driver of every kind of loop keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from pinyon.events import Event


class Connections(Protocol):
    """A native client's connections in one loop: ``_native.Driver``, and the like of locks."""

    def turn(self) -> None: ...
    def ready(self, lane: int) -> None: ...
    def woken(self) -> None: ...
    def resolved(self, lane: int, port: int, addresses: list[str], why: str = "") -> None: ...


class LoopDriver(ABC):
    """Tells one event loop what the connections of one native client wait for.

    The native client makes a driver for each loop that it is used in, and reads these attributes once. A driver derives
    from ``TaskDriver`` or ``GreenletDriver``.
    """

    #: The error of a client that is used where no loop runs.
    NO_LOOP: ClassVar[str]

    @abstractmethod
    def __init__(self, loop: Any) -> None: ...

    @staticmethod
    @abstractmethod
    def is_over(loop: Any) -> bool:
        """Return whether a loop has ended: no coroutine will run in it again."""

    def attach(self, connections: Connections) -> None:
        """Take what the methods below call back."""
        self._connections = connections
        self._turn = connections.turn

    @abstractmethod
    def end_turn(self) -> None:
        """Call ``turn`` soon."""

    @abstractmethod
    def end_turn_from_outside(self) -> None:
        """Call ``turn`` soon, asked from any thread."""

    @abstractmethod
    def watch(self, lane: int, fd: int, write: bool) -> None:
        """Call ``ready`` when the descriptor is readable, or writable if ``write``. Replaces an earlier call for it."""

    @abstractmethod
    def forget(self, lane: int, fd: int) -> None:
        """Stop watching the descriptor."""

    @abstractmethod
    def forget_inherited(self, lane: int, fd: int) -> None:
        """Stop watching it in a forked child, where it is the parent's."""

    @abstractmethod
    def resolve(self, lane: int, name: str, port: int) -> None:
        """Call ``resolved`` with the addresses of a host name, or why there are none."""

    @abstractmethod
    def wake_in(self, seconds: float) -> None:
        """Call ``woken`` after this time."""

    @abstractmethod
    def report(self, on_event: Callable[[Event], object], event: Event) -> None:
        """Call ``on_event`` soon, asked from any thread, so that the loop reports what it raises."""


class TaskDriver(LoopDriver):
    """Of a loop whose coroutines are tasks, which wait for futures."""

    current_greenlet: ClassVar[None] = None

    loop: Any
    #: Makes a future; None where the loop's futures are asyncio's own.
    create_future: Callable[[], Any] | None


class GreenletDriver(LoopDriver):
    """Of a hub: its coroutines are greenlets, which switch to it."""

    #: Returns the running greenlet.
    current_greenlet: ClassVar[Callable[[], Any]]
    #: The class of most greenlets.
    usual_greenlet: ClassVar[type]

    hub: Any


#: How a native client finds the running loop, or None, and makes a driver for one.
Loops = tuple[Callable[[], Any], type[LoopDriver]]


def addresses_of(found: list[Any]) -> list[str]:
    """The IP addresses that ``getaddrinfo`` returned."""
    return [str(address[0]) for *_, address in found]
