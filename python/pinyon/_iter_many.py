"""``iter_many``: the values of any number of keys, in bounded memory.

Keys are taken and asked for in chunks. A client that waits has one chunk in memory at a time. In asyncio the next chunk
is asked for before the program goes through the present one, so two are in memory, and the program waits less.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from pinyon.errors import UnsupportedType, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from pinyon import _native

#: How many keys are asked for at once.
CHUNK = 100


def iter_many(client: _native.Client, keys: Any, chunk: int, failed: dict[str, Any] | None) -> Iterator[Any]:
    """Return the pairs of keys and values, for a client that waits."""
    _check(keys, chunk, (Iterable,))
    return _iterate(client, keys, chunk, failed)


def iter_many_awaited(
    client: _native.Client, keys: Any, chunk: int, failed: dict[str, Any] | None
) -> AsyncIterator[Any]:
    """Return the pairs of keys and values, for a client for asyncio."""
    _check(keys, chunk, (Iterable, AsyncIterable))
    return _iterate_awaited(client, keys, chunk, failed)


def _iterate(client: Any, keys: Iterable[Any], chunk: int, failed: Any) -> Iterator[Any]:
    for asked in _chunks(keys, chunk):
        yield from _in_order(asked, client.get_many(asked, failed=failed))


async def _iterate_awaited(client: Any, keys: Any, chunk: int, failed: Any) -> AsyncIterator[Any]:
    chunks = _chunks_awaited(keys, chunk)
    ahead = None
    try:
        while True:
            following, failure = None, None
            try:
                asked = await chunks.__anext__()
                following = asked, client.get_many(asked, failed=failed)
            except StopAsyncIteration:
                pass
            except Exception as error:  # the pairs of the chunk before come first
                failure = error
            present, ahead = ahead, following
            if present is not None:
                for pair in _in_order(present[0], await present[1]):
                    yield pair
            if failure is not None:
                raise failure
            if ahead is None:
                return
    finally:
        if ahead is not None:
            ahead[1].close()
        await chunks.aclose()


def _in_order(asked: list[Any], found: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """Return the pairs in the order of the keys. A migrating client finds those of the new pool first."""
    return {key: found[key] for key in asked if key in found}.items()


def _chunks(keys: Iterable[Any], chunk: int) -> Iterator[list[Any]]:
    taken = iter(keys)
    while asked := list(islice(taken, chunk)):
        yield asked


async def _chunks_awaited(keys: Any, chunk: int) -> AsyncGenerator[list[Any], None]:
    if not isinstance(keys, AsyncIterable):
        for asked in _chunks(keys, chunk):
            yield asked
        return
    asked = []
    async for key in keys:
        asked.append(key)
        if len(asked) == chunk:
            yield asked
            asked = []
    if asked:
        yield asked


def _check(keys: Any, chunk: int, kinds: tuple[type[Any], ...]) -> None:
    if isinstance(keys, (str, bytes)):
        raise UnsupportedType("keys must be a list, or another iterable of keys, not one key: put it in a list")
    if not isinstance(keys, kinds):
        why = "; asynchronous iterables are for pinyon.aio" if isinstance(keys, AsyncIterable) else ""
        raise UnsupportedType(f"keys must be a list, or another iterable of keys, not {type(keys).__qualname__}{why}")
    if not isinstance(chunk, int) or chunk < 1:
        raise UsageError(f"chunk is how many keys are asked for at once, at least 1, not {chunk!r}")
