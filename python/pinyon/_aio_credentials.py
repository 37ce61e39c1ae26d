"""How functions that return credentials are called in event loops."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pinyon import _native


async def answer(question: _native.CredentialsQuestion, loop: asyncio.AbstractEventLoop) -> None:
    """Answer a question in an event loop: functions that may wait are called in a thread of the loop's executor."""
    while (function := question.function) is not None:
        try:
            question.answer(await _called(function, loop))
        except asyncio.CancelledError as error:
            question.fail(error)
            raise
        except Exception as error:
            question.fail(error)


async def _called(function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function()
    returned = await loop.run_in_executor(None, function)
    return await returned if inspect.isawaitable(returned) else returned
