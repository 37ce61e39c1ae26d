"""Leaders for asyncio and uvloop: the candidate is a task."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from pinyon._blocks import had
from pinyon._closing import FOR_COROUTINES
from pinyon._leader import DONE, BaseLeader, HeldT, said
from pinyon.errors import Error

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pinyon._leader import Report
    from pinyon._lock_status import LockStatus


class Leader(BaseLeader[HeldT]):
    """A candidate for the leadership of a name: ``async with locks.leader("scheduler", on_elected=…) as leader: …``.

    At most one candidate of all processes leads. The candidate runs in a task of its own, from the beginning of the
    block, or ``start``, to its end, or ``stop``. ``Locks.leader`` makes it.

    Attributes:
        name: the name, as it was given.
    """

    __module__ = "pinyon.aio"
    __slots__ = ("_changed", "_running", "_work")

    if not TYPE_CHECKING:
        __enter__ = __exit__ = FOR_COROUTINES

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._running: asyncio.Task[None] | None = None
        #: The task of a coroutine of ``on_elected``.
        self._work: asyncio.Future[Any] | None = None

    def start(self) -> Self:
        """Become a candidate, in a task of the running loop. Return this object. It need not be awaited.

        Raises:
            UsageError: it is a candidate already.
        """
        loop = asyncio.get_running_loop()
        self._begin()
        self._changed = asyncio.Event()
        self._running = loop.create_task(self._campaign())
        return self

    async def stop(self, timeout: float | None = None) -> bool:
        """End the candidate. One that leads gives the leadership up first, as ``resign`` does.

        Awaited in a callback, it does not wait.

        Args:
            timeout: seconds to wait for its end. None waits until the callbacks have returned.

        Returns:
            Whether it has ended.
        """
        running = self._running
        if running is None or running.done():
            return True
        self._candidate._stop()
        self._wake()
        if asyncio.current_task() not in (running, self._work):
            await asyncio.wait([running], timeout=timeout)
        return running.done()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until this candidate leads, or is stopped.

        Args:
            timeout: seconds to wait. None waits without a limit.

        Returns:
            Whether it leads.
        """
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while not self.is_leader and self._running is not None and not self._running.done():
            left = None if until is None else until - loop.time()
            if left is not None and left <= 0:
                break
            await self._wait(left)
        return self.is_leader

    async def current(self) -> LockStatus | None:
        """Ask the server who leads. It need not be a candidate itself.

        Returns:
            The leader's ``holder`` and ``token``, as ``Locks.status`` shows them. None if there is no leader.
        """
        (status,) = await self._locks.status(self.name)
        return None if status.holder is None else status

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def _wake(self, *_: object) -> None:
        """Wake all that wait for a change. The next wait is for the next change."""
        if self._running is not None:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    async def _wait(self, seconds: float | None) -> None:
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([waiting], timeout=seconds)
        finally:
            waiting.cancel()

    async def _campaign(self) -> None:
        cancelled: BaseException | None = None
        step, about = self._candidate._next(*DONE)
        while step != "over":
            try:
                report = await self._take(step, about)
            except BaseException as raised:
                if cancelled is not None:
                    raise
                cancelled = raised
                report = ("interrupted", said(raised))
            step, about = self._candidate._next(*report)
        self._wake()
        if cancelled is not None:
            raise cancelled

    async def _take(self, step: str, about: Any) -> Report:
        if step == "ask":
            return await self._ask()
        if step == "elected":
            self._wake()
            return await self._elected(about)
        if step == "lead":
            return await self._lead(about)
        if step == "lost":
            return await self._lost(about)
        if step == "release":
            return await self._release()
        return self._warn(about) if step == "warn" else await self._pause(about)

    async def _ask(self) -> Report:
        held = None
        try:
            held = self._locks._held(self._lock, False, None, self._candidate)
            answer = await had(held._answer(), held)
        except Exception as error:
            return self._refused(error)
        return DONE if answer is None else self._granted(held)

    async def _elected(self, token: int) -> Report:
        """Call ``on_elected``. If it is a coroutine function, the coroutine runs while this candidate leads."""
        try:
            called = None if self._on_elected is None else self._on_elected(token)
        except Exception as error:
            return self._raised(error)
        if inspect.isawaitable(called):
            self._work = asyncio.ensure_future(called)
            self._work.add_done_callback(self._wake)
        return DONE

    async def _lead(self, look_in: float) -> Report:
        if self.is_leader and not self._has_failed():
            await self._wait(look_in)
        if self._has_failed() and (work := self._work) is not None:
            self._work = None
            error = asyncio.CancelledError() if work.cancelled() else work.exception()
            return self._raised(error or asyncio.CancelledError())
        return self._still_leads()

    def _has_failed(self) -> bool:
        work = self._work
        return work is not None and work.done() and (work.cancelled() or work.exception() is not None)

    async def _lost(self, token: int) -> Report:
        """Cancel what ``on_elected`` does still, wait for its end, and call ``on_lost``."""
        self._wake()
        failed = await self._end_work()
        try:
            called: Any = None if self._on_lost is None else self._on_lost(token)
            if inspect.isawaitable(called):
                await called
        except Exception as error:
            return self._raised(error)
        return failed or DONE

    async def _end_work(self) -> Report | None:
        work, self._work = self._work, None
        if work is None:
            return None
        if not work.done():
            work.cancel()
            await asyncio.wait([work])
        error = None if work.cancelled() else work.exception()
        return None if error is None else self._raised(error)

    async def _release(self) -> Report:
        held, self._held = self._held, None
        try:
            if held is not None:
                await held._release()
        except Error as error:
            return ("failed", str(error))
        return DONE

    async def _pause(self, seconds: float) -> Report:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while not self._candidate._is_stopping and (left := until - loop.time()) > 0:
            await self._wait(left)
        return DONE
