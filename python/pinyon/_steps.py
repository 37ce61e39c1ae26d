"""Operations of several calls, written once for all concurrency models.

Such an operation is a generator. It makes its calls itself and yields what they return. It is sent the outcome at
once if calls block, or after it was awaited.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeAlias

    from pinyon import _native

    Steps: TypeAlias = Generator[Any, Any, Any]


def drive(steps: Steps) -> Any:
    """Carry out steps whose calls block, and return their result."""
    try:
        outcome = next(steps)
        while True:
            outcome = steps.send(outcome)
    except StopIteration as over:
        return over.value


async def drive_awaiting(steps: Steps) -> Any:
    """Carry out steps whose calls may have to be awaited, and return their result."""
    try:
        called = next(steps)
        while True:
            try:
                outcome = await called if inspect.isawaitable(called) else called
            except BaseException as error:
                called = steps.throw(error)
            else:
                called = steps.send(outcome)
    except StopIteration as over:
        return over.value


async def cross(call: _native.Migration) -> Any:
    """Await the operations of a call on two pools, and return its result."""
    while (reply := call.go_on()) is not None:
        await reply
    return call.result()
