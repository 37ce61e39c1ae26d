"""The concurrency models: workers are coroutines, which each model runs all at once in its own way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import gevent
import pinyon
import pinyon.aio
import pinyon.gevent

Work = Coroutine[Any, Any, None]


class Model:
    """How workers run."""

    name: str

    def client(self, servers: list[str], **settings: Any) -> Any:
        """A client whose methods are awaited."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def run(self, make: Callable[[], Iterable[Work]]) -> None:
        """Runs all that ``make`` returns to their ends, at the same time."""
        raise NotImplementedError


class Awaited:
    """A client, or a batch of one, whose methods are awaited and wait by themselves."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **settings: Any) -> Any:
            return getattr(self.wrapped, name)(*arguments, **settings)

        return call

    def quiet(self) -> Awaited:
        return Awaited(self.wrapped.quiet())

    def close(self) -> None:
        self.wrapped.close()

    async def __aenter__(self) -> Awaited:
        self.wrapped.__enter__()
        return self

    async def __aexit__(self, *exception: Any) -> Any:
        return self.wrapped.__exit__(*exception)


def drive(work: Work) -> None:
    """Runs a coroutine all of whose awaits wait by themselves."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it awaits what does not wait by itself")


class Blocking(Model):
    name = "blocking"

    def client(self, servers: list[str], **settings: Any) -> Any:
        return Awaited(pinyon.Client(servers, **settings))

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def run(self, make: Callable[[], Iterable[Work]]) -> None:
        threads = [threading.Thread(target=drive, args=(work,), daemon=True) for work in make()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Gevent(Model):
    name = "gevent"

    def client(self, servers: list[str], **settings: Any) -> Any:
        return Awaited(pinyon.gevent.Client(servers, **settings))

    async def sleep(self, seconds: float) -> None:
        gevent.sleep(seconds)

    def run(self, make: Callable[[], Iterable[Work]]) -> None:
        gevent.joinall([gevent.spawn(drive, work) for work in make()], raise_error=True)


class Asyncio(Model):
    name = "asyncio"

    def client(self, servers: list[str], **settings: Any) -> Any:
        return pinyon.aio.Client(servers, **settings)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def run(self, make: Callable[[], Iterable[Work]]) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*make())

        loop = self.loop()
        try:
            loop.run_until_complete(all_of_them())
        finally:
            loop.close()

    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()


class Uvloop(Asyncio):
    name = "uvloop"

    def loop(self) -> asyncio.AbstractEventLoop:
        import uvloop

        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        return loop


MODELS: dict[str, Model] = {model.name: model for model in (Blocking(), Gevent(), Asyncio(), Uvloop())}
