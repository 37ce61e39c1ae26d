"""Quiet batches of clients that share connections: commands are submitted without waiting for each.

Replies of such clients are taken as they come in any case, so nothing is gained by asking the server for silence; a
batch here saves the coroutine from being resumed for each reply.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from pinyon.errors import BatchError, BatchFailure, Error, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pinyon.client import BaseClient

#: How many commands of a batch may be open before the next one waits.
OPEN_COMMANDS = 1024

COMMANDS = ("set", "add", "replace", "append", "prepend", "delete", "incr", "decr")


class _Submitted(NamedTuple):
    command: str
    key: str | bytes
    waiter: Any


class BaseBatch:
    """The commands of a batch that are open, and those that failed.

    The generators yield what has to be waited for, and are resumed once it is done: how to wait is the only thing
    that asyncio and gevent do differently. Each of ``COMMANDS`` is a method, which calls ``submit``.
    """

    #: The running event loop; what is submitted in one cannot be waited for in another.
    current_loop: Callable[[], Any]
    #: Submits a command by its name, and waits where it must.
    submit: Callable[..., Any]

    def __init__(self, client: BaseClient) -> None:
        self._client = client.submitting()
        self._open: deque[_Submitted] | None = None
        self._failures: list[BatchFailure] = []

    def _begin(self) -> None:
        if self._open is not None:
            raise UsageError("the batch is open already")
        self._open = deque()
        self._failures = []
        self._loop = self.current_loop()

    def _check_loop(self) -> None:
        if self.current_loop() is not self._loop:
            raise UsageError("the batch was opened in another event loop; each loop needs a batch of its own")

    def _submit(self, command: str, key: str | bytes, *arguments: Any, **settings: Any) -> Iterator[Any]:
        if self._open is None:
            raise UsageError("the batch is not open; use it inside its block: with client.quiet() as batch: …")
        self._check_loop()
        waiter = getattr(self._client, command)(key, *arguments, **settings)
        self._open.append(_Submitted(command, key, waiter))
        while self._open and (self._open[0].waiter.done() or len(self._open) > OPEN_COMMANDS):
            yield from self._settle_first(self._open)

    def _finish(self, exception: BaseException | None) -> Iterator[Any]:
        """Wait for every outcome; raise what failed, or note it on the block's own exception."""
        submitted, self._open = self._open, None
        if submitted is None or (exception is not None and not isinstance(exception, Exception)):
            return
        self._check_loop()
        while submitted:
            yield from self._settle_first(submitted)
        if not self._failures:
            return
        if exception is None:
            raise BatchError(self._failures)
        notes = getattr(exception, "__notes__", [])
        exception.__notes__ = [*notes, str(BatchError(self._failures))]  # type: ignore[attr-defined]

    def _settle_first(self, submitted: deque[_Submitted]) -> Iterator[Any]:
        command, key, waiter = submitted[0]
        if not waiter.done():
            yield waiter
        submitted.popleft()
        try:
            done = waiter.result()
        except Error as error:
            self._failures.append(BatchFailure(key, command, str(error), error))
            return
        if done is None or done is False:
            reason = "not found" if command in ("delete", "incr", "decr") else "not stored"
            self._failures.append(BatchFailure(key, command, reason, None))


def _method(command: str) -> Any:
    def method(self: BaseBatch, key: str | bytes, *arguments: Any, **settings: Any) -> Any:
        return self.submit(command, key, *arguments, **settings)

    method.__name__ = command
    method.__doc__ = f"Like ``Client.{command}``, its outcome known at the end of the block."
    return method


for _command in COMMANDS:
    setattr(BaseBatch, _command, _method(_command))
