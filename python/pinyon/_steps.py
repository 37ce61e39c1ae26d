"""Operations of several calls, written once for all concurrency models.

Such an operation is a generator. It makes its calls itself and yields what they return, and is sent the outcome: at
once where calls wait by themselves, and once it was awaited where they have to be.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeAlias

    Steps: TypeAlias = Generator[Any, Any, Any]


def drive(steps: Steps) -> Any:
    """Return what the steps come to, whose calls wait by themselves."""
    try:
        outcome = next(steps)
        while True:
            outcome = steps.send(outcome)
    except StopIteration as over:
        return over.value


async def drive_awaiting(steps: Steps) -> Any:
    """Return what the steps come to, whose calls may have to be awaited."""
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
