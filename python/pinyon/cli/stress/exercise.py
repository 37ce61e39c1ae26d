"""A worker that acquires locks, shared by ``pinyon locks stress``, the benchmark and the verification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pinyon.cli.stress.models import Model


class Worker:
    """Acquires one lock after another, does something inside, and releases it.

    Each kind of worker defines which locks it acquires, what it does inside, and what failures mean. It is the same in
    every concurrency model.

    Args:
        model: the concurrency model.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    async def work(self, locks: Any) -> None:
        """Acquire one lock after another until no work is left."""
        while self.draw():
            await self.take(locks)

    async def take(self, locks: Any) -> None:
        """Acquire the lock that was drawn, do the work inside, and release it."""
        try:
            async with self.holding(self.lock(locks)) as held:
                await self.inside(locks, held)
        except Exception as error:
            await self.failed(error)
        else:
            await self.passed()

    def draw(self) -> bool:
        """Choose what to lock next. Return whether any work is left."""
        raise NotImplementedError

    def lock(self, locks: Any) -> Any:
        """Return the lock that was drawn. It is not acquired yet."""
        raise NotImplementedError

    def holding(self, lock: Any) -> AbstractAsyncContextManager[Any]:
        """Return the context in which a lock is held."""
        return self.model.held(lock)

    async def inside(self, locks: Any, held: Any) -> None:
        """Do the work in the critical section."""
        raise NotImplementedError

    async def failed(self, error: Exception) -> None:
        """Record what was raised while the lock was acquired, held or released."""
        raise error

    async def passed(self) -> None:
        """Record that the lock was acquired and released."""
