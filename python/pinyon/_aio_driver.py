"""How the native clients are driven by an asyncio or uvloop event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from pinyon._aio_credentials import answer
from pinyon._aio_replies import NoLoop, reply_class
from pinyon._loop_driver import Loops, TaskDriver, addresses_of
from pinyon._steps import drive_awaiting
from pinyon.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable

    from pinyon import _native
    from pinyon._behind import Behind
    from pinyon._native import CredentialsQuestion
    from pinyon.events import Event

_CHECK_RUNNING = getattr(asyncio.BaseEventLoop, "_check_running", None)


class _Signal:
    """Something that one task waits for."""

    def __init__(self) -> None:
        self.future = asyncio.get_running_loop().create_future()

    def set(self) -> None:
        if not self.future.done() and not self.future.get_loop().is_closed():
            self.future.set_result(None)


class Tasks:
    """How tasks wait for each other."""

    scope = staticmethod(asyncio.get_running_loop)
    caller = staticmethod(asyncio.current_task)
    sleep = staticmethod(asyncio.sleep)
    signal = _Signal

    @staticmethod
    async def wait(signal: _Signal, seconds: float) -> None:
        await asyncio.wait([signal.future], timeout=seconds)

    @staticmethod
    def beside(client: _native.Client, behind: Behind, executor: object) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(drive_awaiting(behind.run()))
        makers = client._behind
        makers.add(behind)

        def stop() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

        def over(_: object) -> None:
            makers.discard(behind)
            behind.ended(asyncio.CancelledError())

        behind.stop = stop
        task.add_done_callback(over)

    @staticmethod
    def give_back(client: _native.Client, key: str | bytes, cas: int, keep: bool) -> None:
        with contextlib.suppress(Error, RuntimeError):  # the latter where the loop is over
            outcome: Any = client._give_back(key, cas, keep)
            outcome.add_done_callback(lambda over: over.cancelled() or over.exception())


class Watched(int):
    """A lane, as a loop keeps it while it watches the lane's descriptor. A loop that is closed forgets it."""

    driver: Driver

    def __del__(self) -> None:
        if self.driver.loop.is_closed():
            self.driver._connections.ended()


class Driver(TaskDriver):
    current_owner = staticmethod(asyncio.current_task)
    waits = Tasks

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.create_future = None if type(loop.create_future()) is asyncio.Future else loop.create_future
        self.future_class = reply_class(asyncio.Future)
        self._resolving: set[asyncio.Future[Any]] = set()
        self._asking: set[asyncio.Task[None]] = set()
        self._writing: set[int] = set()

    @staticmethod
    def no_loop() -> NoLoop:
        trio = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_run():
            return NoLoop(
                "pinyon.aio runs on asyncio's event loops, and this is trio's: run the program with asyncio, as "
                "anyio.run does by default, or call a pinyon.Client by trio.to_thread.run_sync"
            )
        return NoLoop(
            "a client of pinyon.aio must be used inside a running event loop; elsewhere, use pinyon.Client or "
            "pinyon.Locks"
        )

    @staticmethod
    def is_over(loop: asyncio.AbstractEventLoop) -> bool:
        return loop.is_closed()

    @staticmethod
    def may_nest(loop: asyncio.AbstractEventLoop) -> bool:
        # asyncio's loops check that they do not run yet; nest_asyncio and its like replace the check.
        check = getattr(loop, "_check_running", None)
        return check is not None and getattr(check, "__func__", None) is not _CHECK_RUNNING

    def end_turn(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon(self._turn)

    def end_turn_from_outside(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._turn)

    def watch(self, lane: int, fd: int, write: bool) -> None:
        lane = Watched(lane)
        lane.driver = self
        self.loop.add_reader(fd, self._connections.ready, lane)
        if write:
            self.loop.add_writer(fd, self._connections.ready, lane)
            self._writing.add(fd)
        elif fd in self._writing:
            self.loop.remove_writer(fd)
            self._writing.discard(fd)

    def watch_anew(self, lane: int, fd: int) -> None:
        self.watch(lane, fd, fd in self._writing)

    def forget(self, lane: int, fd: int) -> None:
        if self.loop.is_closed():
            return
        self.loop.remove_reader(fd)
        if fd in self._writing:
            self.loop.remove_writer(fd)
            self._writing.discard(fd)

    def forget_inherited(self, lane: int, fd: int) -> None:
        """Leave the loop alone: its selector is the parent's. A child runs a loop of its own."""

    def resolve(self, lane: int, name: str, port: int) -> None:
        task = asyncio.ensure_future(self.loop.getaddrinfo(name, port, type=socket.SOCK_STREAM), loop=self.loop)
        self._resolving.add(task)
        task.add_done_callback(partial(self._resolved, lane, port))

    def _resolved(self, lane: int, port: int, task: asyncio.Future[Any]) -> None:
        self._resolving.discard(task)
        if task.cancelled():
            self._connections.resolved(lane, port, [], "the task that asked for its addresses was cancelled")
        elif (error := task.exception()) is not None:
            self._connections.resolved(lane, port, [], str(error) or repr(error))
        else:
            self._connections.resolved(lane, port, addresses_of(task.result()))

    def ask(self, question: CredentialsQuestion) -> None:
        task = self.loop.create_task(answer(question, self.loop))
        self._asking.add(task)
        task.add_done_callback(partial(self._asked, question))

    def _asked(self, question: CredentialsQuestion, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
        question.notify(self._look)

    def _look(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._connections.woken)

    def report(self, on_event: Callable[[Event], object], event: Event) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(on_event, event)

    def wake_in(self, seconds: float) -> None:
        if not self.loop.is_closed():
            self.loop.call_later(seconds, self._connections.woken)


LOOPS: Loops = (asyncio._get_running_loop, Driver)
