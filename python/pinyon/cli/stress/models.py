"""How workers run side by side: threads, greenlets or tasks.

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
        name: as users choose it.
        workers: what its workers are called.
        module: Pinyon's module for it, which has ``Locks`` and ``Client``.
    """

    name: str
    workers: str
    module: str

    def locks(self, **settings: Any) -> Any:
        """Return new ``Locks`` of this model; within a loop, where there is one."""
        return importlib.import_module(self.module).Locks(**settings)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end, and return what it returns."""
        try:
            work.send(None)
        except StopIteration as over:
            return over.value
        raise RuntimeError("the coroutine waits for something that does not wait by itself")

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run all coroutines at once, and return what each returns. Raises what the first to fail raised."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        """Let others run for so many seconds."""
        raise NotImplementedError

    async def outcome(self, called: Any) -> Any:
        """Return what a call comes to: what it returned, or what that comes to when it is awaited."""
        return called

    def held(self, context: AbstractContextManager[Any]) -> AbstractAsyncContextManager[Any]:
        """Return a lock's context for ``async with``."""
        return _Awaited(context)

    def close(self) -> None:
        """Give up what the model keeps between two runs."""


class _Awaited:
    """A context whose ends wait by themselves."""

    __slots__ = ("_context",)

    def __init__(self, context: AbstractContextManager[Any]) -> None:
        self._context = context

    async def __aenter__(self) -> Any:
        return self._context.__enter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        return self._context.__exit__(*error)


class Threads(Model):
    """A thread for each worker; a single worker needs none of its own."""

    name: str = "blocking"
    workers: str = "threads"
    module: str = "pinyon"

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run all at once; the others go on when one fails."""
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
        """Run all at once; the others are ended when one fails."""
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
    """Tasks of one event loop, which keeps its connections from one run to the next."""

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
        """Run all at once; the others are cancelled when one fails."""
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
        """Await what is to be awaited."""
        return await called if inspect.isawaitable(called) else called

    def held(self, context: Any) -> AbstractAsyncContextManager[Any]:
        """Return the context as it is."""
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


#: Those that ``pinyon locks stress`` offers.
MODELS: dict[str, type[Model]] = {model.name: model for model in (Threads, Greenlets, Tasks)}
