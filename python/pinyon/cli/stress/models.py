"""The concurrency models of workers: threads, greenlets or tasks.

A worker is a coroutine, written once for all three. In threads and greenlets every call waits by itself. There a
coroutine is never suspended: it runs from its beginning to its end in one go.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager


class Model:
    """A concurrency model.

    Attributes:
        name: the name that users choose it by.
        workers: the name of its workers, in the plural.
        module: Pinyon's module for it, which has ``Locks`` and ``Client``.
    """

    name: str
    workers: str
    module: str

    def locks(self, **settings: Any) -> Any:
        """Return new ``Locks`` of this model. If it has a loop, call this in the loop."""
        return importlib.import_module(self.module).Locks(**settings)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end. Return its result."""
        try:
            work.send(None)
        except StopIteration as over:
            return over.value
        raise RuntimeError("the coroutine waits for something that does not wait by itself")

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run all coroutines at the same time. Return their results, or raise the first failure."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        """Sleep for some seconds while others run."""
        raise NotImplementedError

    async def outcome(self, called: Any) -> Any:
        """Return the result of a call, awaited if necessary."""
        return called

    def held(self, context: AbstractContextManager[Any]) -> AbstractAsyncContextManager[Any]:
        """Return a lock as a context for ``async with``."""
        return _Awaited(context)

    def close(self) -> None:
        """Close what the model keeps between runs."""


class _Awaited:
    """A blocking context, for ``async with``."""

    __slots__ = ("_context",)

    def __init__(self, context: AbstractContextManager[Any]) -> None:
        self._context = context

    async def __aenter__(self) -> Any:
        return self._context.__enter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        return self._context.__exit__(*error)


class Threads(Model):
    """A thread for each worker. A single worker runs in the calling thread."""

    name: str = "blocking"
    workers: str = "threads"
    module: str = "pinyon"

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run all at the same time. If one fails, the others continue."""
        if len(works) == 1:
            return [self.run(works[0])]
        returned: list[Any] = [None] * len(works)
        raised: list[BaseException] = []

        def work(number: int) -> None:
            try:
                returned[number] = self.run(works[number])
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(works))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if raised:
            raise raised[0]
        return returned

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


class Greenlets(Model):
    """Greenlets of gevent's hub. Raises ``ImportError`` without gevent."""

    name: str = "gevent"
    workers: str = "greenlets"
    module: str = "pinyon.gevent"

    def __init__(self) -> None:
        import gevent

        self._gevent = gevent

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run all at the same time. If one fails, the others are killed."""
        greenlets = [self._gevent.spawn(self.run, work) for work in works]
        try:
            self._gevent.joinall(greenlets, raise_error=True)
        except BaseException:
            self._gevent.killall(greenlets)
            raise
        return [greenlet.value for greenlet in greenlets]

    async def sleep(self, seconds: float) -> None:
        """Let other greenlets run."""
        self._gevent.sleep(seconds)


class Tasks(Model):
    """Tasks of one event loop. The loop keeps its connections between runs."""

    name: str = "asyncio"
    workers: str = "tasks"
    module: str = "pinyon.aio"

    def __init__(self) -> None:
        self._loop = self._new_loop()

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the loop."""
        return self._loop.run_until_complete(work)

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run all at the same time. If one fails, the others are cancelled."""
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            raise

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run."""
        await asyncio.sleep(seconds)

    async def outcome(self, called: Any) -> Any:
        """Await the result, if it can be awaited."""
        return await called if inspect.isawaitable(called) else called

    def held(self, context: Any) -> AbstractAsyncContextManager[Any]:
        """Return the context unchanged."""
        return context  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the loop."""
        self._loop.close()


class Uvloop(Tasks):
    """Tasks of uvloop's event loop. Raises ``ImportError`` without uvloop."""

    name = "uvloop"

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
        return loop


#: The models of ``pinyon locks stress``.
MODELS: dict[str, type[Model]] = {model.name: model for model in (Threads, Greenlets, Tasks)}
