"""How the native clients are driven by a gevent hub."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

try:
    import gevent
    from gevent import event, get_hub, getcurrent, socket
except ImportError as _missing:
    raise ImportError("pinyon.gevent needs gevent; install it with: pip install gevent") from _missing

from pinyon._loop_driver import GreenletDriver, Loops, addresses_of
from pinyon._steps import drive
from pinyon.errors import Error, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pinyon import _native
    from pinyon._behind import Behind
    from pinyon.events import Event


class Greenlets:
    """How greenlets wait for each other."""

    scope = staticmethod(get_hub)
    caller = staticmethod(getcurrent)
    sleep = staticmethod(gevent.sleep)
    signal = event.Event

    @staticmethod
    def wait(signal: event.Event, seconds: float) -> None:
        signal.wait(seconds)

    @staticmethod
    def beginning(function: Callable[[], None], name: str) -> gevent.Greenlet:
        greenlet = gevent.Greenlet(function)
        greenlet.name = name
        return greenlet

    @staticmethod
    def join(greenlet: gevent.Greenlet, seconds: float | None) -> bool:
        if greenlet is getcurrent():
            return False
        greenlet.join(seconds)
        return bool(greenlet.ready())

    @staticmethod
    def beside(client: _native.Client, behind: Behind, executor: object) -> None:
        greenlet, loop, makers = gevent.spawn(drive, behind.run()), get_hub().loop, client._behind
        makers.add(behind)

        def stop() -> None:
            if loop.ptr:
                loop.run_callback_threadsafe(partial(greenlet.kill, block=False))

        def over(_: object) -> None:
            makers.discard(behind)
            behind.ended(gevent.GreenletExit())

        behind.stop = stop
        greenlet.rawlink(over)

    @staticmethod
    def give_back(client: _native.Client, key: str | bytes, cas: int, keep: bool) -> None:
        def give_back() -> None:
            with contextlib.suppress(Error):
                client._give_back(key, cas, keep)

        gevent.spawn(give_back)


class Driver(GreenletDriver):
    current_greenlet = current_owner = staticmethod(getcurrent)
    usual_greenlet = gevent.Greenlet
    waits = Greenlets

    def __init__(self, hub: Any) -> None:
        self.hub = hub
        #: Its ``ptr`` is 0 once it is destroyed, and so is all that it watched.
        self._loop = hub.loop
        self._watchers: dict[int, Any] = {}

    @staticmethod
    def no_loop() -> UsageError:
        return UsageError("there is no gevent hub in this thread")

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

    def ask(self, question: _native.CredentialsQuestion) -> None:
        gevent.spawn(self._ask, question)

    def _ask(self, question: _native.CredentialsQuestion) -> None:
        try:
            while (function := question.function) is not None:
                try:
                    question.answer(function())
                except Exception as error:
                    question.fail(error)
        except gevent.GreenletExit as error:
            question.fail(error)
            raise
        finally:
            question.notify(self._look)

    def _look(self) -> None:
        if self._loop.ptr:
            self._loop.run_callback_threadsafe(self._connections.woken)

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


LOOPS: Loops = (get_hub, Driver)
