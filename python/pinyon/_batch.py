"""Quiet batches whose methods are awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pinyon import _native

COMMANDS = ("set", "add", "replace", "append", "prepend", "delete", "incr", "decr")


class Batch:
    """Commands whose replies are not awaited one by one: ``async with client.quiet() as batch: await batch.set(…)``.

    Its methods are those of ``pinyon.Batch``. Leaving the block waits until every command's outcome is known, and
    raises ``BatchError`` if any failed.
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
        over = self._batch.leave(exception)
        if over is not None:
            await over


def _method(command: str) -> Any:
    async def method(self: Batch, *arguments: Any, **settings: Any) -> None:
        room = getattr(self._batch, command)(*arguments, **settings)
        if room is not None:
            await room

    method.__name__ = command
    method.__doc__ = f"Like ``Client.{command}``, its outcome known at the end of the block."
    return method


for _command in COMMANDS:
    setattr(Batch, _command, _method(_command))
