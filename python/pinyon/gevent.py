"""The client for gevent: the methods of ``pinyon.Client``, which let other greenlets run while they wait.

All greenlets of a hub share one connection to each server. What they submit in one turn of the hub leaves in one
send, and what has arrived is taken in one receive.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

try:
    import gevent
    from gevent import event, get_hub, getcurrent, socket
except ImportError as error:
    raise ImportError("pinyon.gevent needs gevent; install it with: pip install gevent") from error

from pinyon import client, locks
from pinyon._loop_driver import GreenletDriver, Loops, addresses_of
from pinyon._owners import number_of
from pinyon.client import BaseClient
from pinyon.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self, Unpack

    from pinyon import _native
    from pinyon._settings import SharedClientSettings
    from pinyon.events import Event


class _Driver(GreenletDriver):
    NO_LOOP = "there is no gevent hub in this thread"
    current_greenlet = staticmethod(getcurrent)
    usual_greenlet = gevent.Greenlet

    def __init__(self, hub: Any) -> None:
        self.hub = hub
        #: Its ``ptr`` is 0 once it is destroyed, and so is all that it watched.
        self._loop = hub.loop
        self._watchers: dict[int, Any] = {}

    @staticmethod
    def is_over(hub: Any) -> bool:
        # One that was destroyed has no loop any more; it is dead only once its thread has ended altogether.
        return hub.loop is None or bool(hub.dead)

    def end_turn(self) -> None:
        if self._loop.ptr:
            self._loop.run_callback(self._turn)

    def end_turn_from_outside(self) -> None:
        if self._loop.ptr:
            self._loop.run_callback_threadsafe(self._turn)

    def watch(self, lane: int, fd: int, write: bool) -> None:
        self.forget(lane, fd)
        watcher = self._watchers[lane] = self._loop.io(fd, 3 if write else 1)
        watcher.start(self._connections.ready, lane)

    def forget(self, lane: int, fd: int) -> None:
        watcher = self._watchers.pop(lane, None)
        if watcher is not None and self._loop.ptr:
            watcher.stop()
            watcher.close()

    forget_inherited = forget

    def resolve(self, lane: int, name: str, port: int) -> None:
        gevent.spawn(self._resolve, lane, name, port)

    def _resolve(self, lane: int, name: str, port: int) -> None:
        addresses, why = [], ""
        try:
            addresses = addresses_of(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
        except gevent.GreenletExit:
            why = "the greenlet that asked for its addresses was killed"
            raise
        except Exception as error:  # no OSError is a name that no resolver takes
            why = str(error) or repr(error)
        finally:
            if self._loop.ptr:
                self._loop.run_callback(self._connections.resolved, lane, port, addresses, why)

    def report(self, on_event: Callable[[Event], object], event: Event) -> None:
        """Call it in a greenlet of its own: it may wait, and the hub reports what it raises."""
        if self._loop.ptr:
            self._loop.run_callback_threadsafe(gevent.spawn, on_event, event)

    def wake_in(self, seconds: float) -> None:
        if self._loop.ptr:
            timer = self._loop.timer(seconds)
            timer.start(self._wake, timer)

    def _wake(self, timer: Any) -> None:
        timer.stop()
        timer.close()
        self._connections.woken()


LOOPS: Loops = (get_hub, _Driver)


class _Greenlets:
    """How greenlets wait for each other."""

    scope = staticmethod(get_hub)
    caller = staticmethod(getcurrent)
    sleep = staticmethod(gevent.sleep)
    signal = event.Event

    @staticmethod
    def wait(signal: event.Event, seconds: float) -> None:
        signal.wait(seconds)

    @staticmethod
    def give_back(client: _native.Client, key: str | bytes, cas: int, keep: bool) -> None:
        def give_back() -> None:
            with contextlib.suppress(Error):
                client.give_back(key, cas, keep)

        gevent.spawn(give_back)


class Client(client.Client):
    """A client for one or several memcached servers, to be shared by all greenlets of all hubs of a process.

    Its methods are those of ``pinyon.Client``. Each hub has its own connections, made when they are first needed. A
    ``gevent.Timeout``, a kill or any other exception that ends a greenlet's wait abandons its request and nothing
    else: the reply is dropped when it comes.

    Args:
        servers: as for ``pinyon.Client``, and so are the other settings.
        connections: how many connections each hub makes to each server.
    """

    __slots__ = ()

    _waits = _Greenlets

    def __new__(cls, servers: str | Iterable[str] | None = None, **settings: Unpack[SharedClientSettings]) -> Self:
        return BaseClient.__new__(cls, servers, loops=LOOPS, **settings)


class Locks(locks.Locks):
    """Locks on one Redis or Valkey server, to be shared by all greenlets of all hubs of a process.

    Its methods are those of ``pinyon.Locks``, and let other greenlets run while they wait. Each hub has its own
    connection. Whatever ends a greenlet's wait for a lock takes it out of the queue.

    Args:
        url: as for ``pinyon.Locks``, and so are the other settings.
    """

    __slots__ = ()

    _loops = LOOPS

    @staticmethod
    def _owner() -> int:
        return number_of(getcurrent())
