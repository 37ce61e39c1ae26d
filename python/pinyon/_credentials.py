"""How functions that return credentials are called, in threads and in event loops."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypedDict, Union

if TYPE_CHECKING:
    from datetime import timedelta

    from pinyon import _native


class Credentials(TypedDict, total=False):
    """What a function for ``username`` or ``password`` may return instead of a text.

    ``lifetime`` is how long they last, in seconds. Connections to Redis and Valkey log in anew before it ends.
    """

    username: str | bytes
    password: str | bytes
    lifetime: float | timedelta


Returned = Union[str, bytes, Credentials]
#: A function for ``username`` or ``password``. It takes no arguments.
CredentialsFunction = Callable[[], Union[Returned, Awaitable[Returned]]]


def run(returned: Awaitable[Returned]) -> Returned:
    """Return what a function's coroutine returns, in a thread without an event loop."""

    async def awaited() -> Returned:
        return await returned

    return asyncio.run(awaited())


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
