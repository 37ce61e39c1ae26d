"""How the callers of ``get_or_set`` wait for each other, in each concurrency model."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Protocol

from pinyon._steps import drive
from pinyon.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

    from pinyon import _native
    from pinyon._behind import Behind


class Waits(Protocol):
    """How the callers of one concurrency model wait."""

    def scope(self) -> Any:
        """Return an object that is the same for all callers that can wake each other."""

    def caller(self) -> Any:
        """Return an object that stands for the running thread, task or greenlet."""

    def sleep(self, seconds: float) -> Any:
        """Sleep."""

    def signal(self) -> Any:
        """Return an object with a method ``set``, for one caller to wait for."""

    def wait(self, signal: Any, seconds: float) -> Any:
        """Wait until the signal is set, or until so many seconds have passed."""

    def beside(self, client: _native.Client, behind: Behind, executor: Any) -> None:
        """Carry out ``behind.run`` beside the caller, and keep it in ``client._behind`` until it is over.

        Args:
            executor: an ``Executor``, which threads need.
        """

    def give_back(self, client: _native.Client, key: str | bytes, cas: int, keep: bool) -> None:
        """Give a lease back for a caller that no longer waits."""


class Threads:
    """How threads wait."""

    caller = staticmethod(threading.current_thread)
    signal = threading.Event
    sleep = staticmethod(time.sleep)

    @staticmethod
    def scope() -> None:
        """All threads share None."""

    @staticmethod
    def wait(signal: threading.Event, seconds: float) -> None:
        signal.wait(seconds)

    @staticmethod
    def beginning(function: Callable[[], None], name: str) -> threading.Thread:
        """Return a thread for a function. Its method ``start`` begins it."""
        return threading.Thread(target=function, name=name, daemon=True)

    @staticmethod
    def join(thread: threading.Thread, seconds: float | None) -> bool:
        """Wait for the end of a thread, unless it is the caller's. Return whether it has ended."""
        if thread is threading.current_thread():
            return False
        thread.join(seconds)
        return not thread.is_alive()

    @staticmethod
    def beside(client: _native.Client, behind: Behind, executor: Executor) -> None:
        makers = client._behind

        def make() -> None:
            try:
                drive(behind.run())
            finally:
                makers.discard(behind)

        def over(future: Future[Any]) -> None:
            makers.discard(behind)
            if future.cancelled():
                behind.ended(CancelledError())
            elif (error := future.exception()) is not None:
                behind.refused(error)

        makers.add(behind)
        try:
            future = executor.submit(make)
        except BaseException:
            makers.discard(behind)
            raise
        behind.stop = future.cancel
        future.add_done_callback(over)

    @staticmethod
    def give_back(client: _native.Client, key: str | bytes, cas: int, keep: bool) -> None:
        with contextlib.suppress(Error):
            client._give_back(key, cas, keep)


def waits_of(client: _native.Client | _native.Locks) -> Any:
    """Return how the callers of a client wait: a ``Waits``."""
    driver = client._driver
    return Threads if driver is None else driver.waits
