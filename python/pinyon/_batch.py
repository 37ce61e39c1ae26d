"""Batches for asyncio."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pinyon import _native

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

COMMANDS = ("set", "add", "replace", "append", "prepend", "delete", "incr", "decr")


class Batch:
    """A batch of commands that are sent without waiting for each reply. ``Client.quiet`` makes one.

    Use it as ``async with client.quiet() as batch: await batch.set(…)``. The end of the block waits until the outcome
    of every command is known. It raises ``BatchError`` if any of them failed.
    """

    def __init__(self, batch: _native.Batch) -> None:
        self._batch = batch

    async def __aenter__(self) -> Self:
        self._batch.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        over = self._batch._leave(exception)
        if over is not None:
            await over


def _method(command: str) -> Any:
    @functools.wraps(getattr(_native.Batch, command))
    async def method(self: Batch, *arguments: Any, **settings: Any) -> None:
        room = getattr(self._batch, command)(*arguments, **settings)
        if room is not None:
            await room

    return method


for _command in COMMANDS:
    setattr(Batch, _command, _method(_command))
