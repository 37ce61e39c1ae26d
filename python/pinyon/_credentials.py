"""What functions for credentials return, and how a thread awaits those that are coroutines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypedDict, Union

if TYPE_CHECKING:
    from datetime import timedelta


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
    import asyncio  # a quarter of the time of `import pinyon`, and few programs need it

    async def awaited() -> Returned:
        return await returned

    return asyncio.run(awaited())
