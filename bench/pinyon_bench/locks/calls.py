"""The harness's view of one lock library, and how a library for single names locks several."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from typing import Any

Names = Sequence[str]
Single = Callable[[str], AbstractContextManager[Any]]
AsyncSingle = Callable[[str], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True)
class LockCalls:
    """A connected library: `lock` makes a context for some names, `execute` sends any command and returns its reply.

    In a library for asyncio, the context is for `async with`, and `execute`, `allow` and `close` are awaited. What a
    library does not have is None.
    """

    lock: Callable[[Names], Any]
    execute: Callable[..., Any]
    close: Callable[[], Any]
    #: A context that reads names, and one that has a permit of a pool of the first name.
    read: Callable[[Names], Any] | None = None
    permits: Callable[[Names], Any] | None = None
    #: Whether a rate allows one more.
    allow: Callable[[], Any] | None = None


def nested(single: Single) -> Callable[[Names], AbstractContextManager[Any]]:
    """Returns a function that locks names one by one, in sorted order, so that workers cannot deadlock."""

    def lock(names: Names) -> AbstractContextManager[Any]:
        return single(names[0]) if len(names) == 1 else _all(single, names)

    return lock


@contextmanager
def _all(single: Single, names: Names) -> Iterator[None]:
    with ExitStack() as stack:
        for name in sorted(names):
            stack.enter_context(single(name))
        yield


def nested_async(single: AsyncSingle) -> Callable[[Names], AbstractAsyncContextManager[Any]]:
    """Returns the same for asyncio."""

    def lock(names: Names) -> AbstractAsyncContextManager[Any]:
        return single(names[0]) if len(names) == 1 else _all_async(single, names)

    return lock


@asynccontextmanager
async def _all_async(single: AsyncSingle, names: Names) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for name in sorted(names):
            await stack.enter_async_context(single(name))
        yield
