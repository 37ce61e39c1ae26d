"""One worker that takes locks: what ``pinyon locks stress``, the benchmark and the verification have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pinyon.cli.stress.models import Model


class Worker:
    """Takes one lock after another, does something inside, and releases it.

    Each kind of worker says which locks it takes, what it does inside, and what it makes of failures. It is the same
    in every concurrency model.

    Args:
        model: how it runs beside others.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    async def work(self, locks: Any) -> None:
        """Take one lock after another until there is nothing left to do."""
        while self.draw():
            await self.take(locks)

    async def take(self, locks: Any) -> None:
        """Take the lock that was drawn, be inside, and release it."""
        try:
            async with self.holding(self.lock(locks)) as held:
                await self.inside(locks, held)
        except Exception as error:
            await self.failed(error)
        else:
            await self.passed()

    def draw(self) -> bool:
        """Choose what to lock next. Return whether there is anything left to do."""
        raise NotImplementedError

    def lock(self, locks: Any) -> Any:
        """Return the lock that was drawn, which is not taken yet."""
        raise NotImplementedError

    def holding(self, lock: Any) -> AbstractAsyncContextManager[Any]:
        """Return the context in which a lock is held."""
        return self.model.held(lock)

    async def inside(self, locks: Any, held: Any) -> None:
        """Be in the critical section."""
        raise NotImplementedError

    async def failed(self, error: Exception) -> None:
        """Note what was raised while the lock was taken, held or released."""
        raise error

    async def passed(self) -> None:
        """Note that the lock was taken and released."""
