"""One interface for all concurrency models, so that a scenario is written once, as a coroutine.

A scenario awaits the methods of the client and of its model. In asyncio and uvloop it is a task. In gevent and in
threads it runs in a greenlet or thread of its own, and its awaits block right there.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import gevent
import pytest
import uvloop
from waiting import SOON

import pinyon
import pinyon.aio
import pinyon.gevent

if TYPE_CHECKING:
    from typing_extensions import Self

#: Seconds within which an interrupted wait must end, on slow machines too.
AT_ONCE = 30

Scenario = Coroutine[Any, Any, Any]


class GaveUpError(Exception):
    """The time limit of a wait has passed."""


class CancelledError(Exception):
    """The task was cancelled."""


def drive(scenario: Scenario) -> Any:
    """Runs a coroutine whose awaits all block. Returns its result."""
    try:
        scenario.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it awaits what does not wait by itself")


class Awaited:
    """Wraps a client or a batch so that its blocking methods can be awaited."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **settings: Any) -> Any:
            return getattr(self.wrapped, name)(*arguments, **settings)

        return call

    def quiet(self) -> Awaited:
        return Awaited(self.wrapped.quiet())

    def using(self, **settings: Any) -> Awaited:
        return Awaited(self.wrapped.using(**settings))

    def describe(self) -> list[str]:
        return list(self.wrapped.describe())

    def metrics(self) -> Any:
        return self.wrapped.metrics()

    def near_metrics(self) -> Any:
        return self.wrapped.near_metrics()

    def servers_of(self, key: str | bytes) -> list[str]:
        return list(self.wrapped.servers_of(key))

    def close(self) -> None:
        self.wrapped.close()

    async def __aenter__(self) -> Self:
        self.wrapped.__enter__()
        return self

    async def __aexit__(self, *exception: Any) -> Any:
        return self.wrapped.__exit__(*exception)


#: The methods of locks that wait.
AWAITED = {
    *("acquire", "release", "extend", "wait", "wait_for", "notify", "notify_all"),
    *("locked", "available", "try_lock", "status", "is_locked", "owner", "waiting", "force_release", "execute"),
    *("hand_over", "upgrade", "downgrade", "release_all", "stop", "current"),
    "allow",
}


class AwaitedLocks:
    """Wraps locks, a lock or a held lock so that its blocking methods can be awaited."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.wrapped, name)
        if name in {"lock", "read", "write", "permits", "rate", "adopt", "once", "leader"}:
            return lambda *names, **settings: AwaitedLocks(method(*names, **settings))
        if name not in AWAITED:
            return method

        async def call(*arguments: Any, **settings: Any) -> Any:
            return _awaited(method(*arguments, **settings))

        return call

    def __repr__(self) -> str:
        return repr(self.wrapped)

    async def __aenter__(self) -> Any:
        return _awaited(self.wrapped.__enter__())

    async def __aexit__(self, *exception: Any) -> Any:
        return self.wrapped.__exit__(*exception)


def _awaited(value: Any) -> Any:
    return AwaitedLocks(value) if isinstance(value, (pinyon.Held, pinyon.Leader)) else value


class Model:
    """How to run scenarios, and what they need besides a client."""

    name: str
    cancels = True

    def run(self, scenario: Scenario) -> Any:
        """Runs it to its end. Returns its result."""
        raise NotImplementedError

    def client(self, *servers: Any, **settings: Any) -> Any:
        raise NotImplementedError

    def locks(self, url: str, **settings: Any) -> Any:
        raise NotImplementedError

    def spawn(self, scenario: Scenario) -> Any:
        """Begins it at the end of this turn. Returns a task."""
        raise NotImplementedError

    async def join(self, task: Any) -> Any:
        """The result of the task. Raises its exception."""
        raise NotImplementedError

    def cancel(self, task: Any) -> None:
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def within(self, seconds: float, scenario: Scenario) -> Any:
        """Its result. Raises ``GaveUpError`` after so many seconds."""
        raise NotImplementedError

    @contextlib.contextmanager
    def reports(self) -> Iterator[list[Any]]:
        """Collects exceptions that are reported because no caller could receive them."""
        raise NotImplementedError

    async def abandon(self, scenario: Scenario, once: threading.Event) -> None:
        """Begins it, and cancels it once the event is set."""
        task = self.spawn(scenario)
        while not once.is_set():
            await self.sleep(0.001)
        self.cancel(task)
        with pytest.raises(CancelledError):
            await self.join(task)

    async def until(self, condition: Callable[[], object], within: float = SOON) -> None:
        """Returns once the condition, a function or a coroutine function, holds."""
        give_up = time.monotonic() + within
        while True:
            holds = condition()
            if inspect.isawaitable(holds):
                holds = await holds
            if holds:
                return
            assert time.monotonic() < give_up, "it did not come to that"
            await self.sleep(0.002)

    async def eventually(self, attempt: Callable[[], Scenario], within: float = SOON) -> Any:
        """Repeats it until it succeeds, for example when a server is no longer marked down. Returns its result."""
        give_up = time.monotonic() + within
        while True:
            try:
                return await attempt()
            except pinyon.Error:
                if time.monotonic() > give_up:
                    raise
                await self.sleep(0.02)

    async def gather(self, scenarios: Iterable[Scenario]) -> list[Any]:
        """Runs them at the same time. Returns the result or exception of each."""
        outcomes: list[Any] = []
        for task in [self.spawn(scenario) for scenario in scenarios]:
            try:
                outcomes.append(await self.join(task))
            except Exception as error:
                outcomes.append(error)
        return outcomes


class _Thread(threading.Thread):
    def __init__(self, scenario: Scenario) -> None:
        super().__init__(daemon=True)
        self.scenario = scenario
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = drive(self.scenario)
        except BaseException as error:
            self.error = error


class Blocking(Model):
    name = "blocking"
    cancels = False

    def run(self, scenario: Scenario) -> Any:
        return drive(scenario)

    def client(self, *servers: Any, **settings: Any) -> Any:
        return Awaited(pinyon.Client(*servers, **settings))

    def locks(self, url: str, **settings: Any) -> Any:
        return AwaitedLocks(pinyon.Locks(url, **settings))

    def spawn(self, scenario: Scenario) -> _Thread:
        thread = _Thread(scenario)
        thread.start()
        return thread

    async def join(self, task: _Thread) -> Any:
        task.join()
        if task.error is not None:
            raise task.error
        return task.value

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    @contextlib.contextmanager
    def reports(self) -> Iterator[list[Any]]:
        reported: list[Any] = []
        previous, sys.unraisablehook = sys.unraisablehook, lambda report: reported.append(report.exc_value)
        try:
            yield reported
        finally:
            sys.unraisablehook = previous

    async def abandon(self, scenario: Scenario, once: threading.Event) -> None:
        """A thread cannot be cancelled. A signal handler that raises ends its wait instead."""

        def interrupt(*_: object) -> None:
            raise CancelledError

        pressed_at: list[float] = []

        def press() -> None:
            once.wait()
            pressed_at.append(time.monotonic())
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        previous = signal.signal(signal.SIGUSR1, interrupt)
        pressing = threading.Thread(target=press, daemon=True)
        pressing.start()
        try:
            with pytest.raises(CancelledError):
                await scenario
            assert time.monotonic() - pressed_at[0] < AT_ONCE
        finally:
            pressing.join(60)
            signal.signal(signal.SIGUSR1, previous)


class Gevent(Model):
    name = "gevent"

    def run(self, scenario: Scenario) -> Any:
        hub = gevent.get_hub()
        unhandled: list[Any] = []
        hub.print_exception = lambda *context: unhandled.append(context)
        try:
            outcome = drive(self.join(self.spawn(scenario)))
        finally:
            del hub.print_exception
        assert not unhandled
        return outcome

    def client(self, *servers: Any, **settings: Any) -> Any:
        return Awaited(pinyon.gevent.Client(*servers, **settings))

    def locks(self, url: str, **settings: Any) -> Any:
        return AwaitedLocks(pinyon.gevent.Locks(url, **settings))

    def spawn(self, scenario: Scenario) -> Any:
        def run() -> tuple[Any, BaseException | None]:
            try:
                return drive(scenario), None
            except BaseException as error:
                return None, error

        greenlet = gevent.spawn(run)
        greenlet.rawlink(lambda _: scenario.close())
        return greenlet

    async def join(self, task: Any) -> Any:
        outcome = task.get()
        value, error = (None, outcome) if isinstance(outcome, gevent.GreenletExit) else outcome
        if isinstance(error, gevent.GreenletExit):
            raise CancelledError
        if error is not None:
            raise error
        return value

    def cancel(self, task: Any) -> None:
        task.kill(block=False)

    async def sleep(self, seconds: float) -> None:
        gevent.sleep(seconds)

    @contextlib.contextmanager
    def reports(self) -> Iterator[list[Any]]:
        reported: list[Any] = []
        hub = gevent.get_hub()
        previous, hub.print_exception = hub.print_exception, lambda *context: reported.append(context[2])
        try:
            yield reported
        finally:
            hub.print_exception = previous

    async def within(self, seconds: float, scenario: Scenario) -> Any:
        timeout = gevent.Timeout(seconds)
        timeout.start()
        try:
            return await scenario
        except gevent.Timeout as given_up:
            if given_up is not timeout:
                raise
            raise GaveUpError from None
        finally:
            timeout.close()


class Asyncio(Model):
    name = "asyncio"

    def run(self, scenario: Scenario) -> Any:
        loop = self.loop()
        unhandled: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        try:
            outcome = loop.run_until_complete(scenario)
        finally:
            loop.close()
        assert not unhandled
        return outcome

    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    def client(self, *servers: Any, **settings: Any) -> Any:
        return pinyon.aio.Client(*servers, **settings)

    def locks(self, url: str, **settings: Any) -> Any:
        return pinyon.aio.Locks(url, **settings)

    def spawn(self, scenario: Scenario) -> Any:
        return asyncio.get_running_loop().create_task(scenario)

    async def join(self, task: Any) -> Any:
        await asyncio.wait([task])
        if task.cancelled():
            raise CancelledError
        return task.result()

    def cancel(self, task: Any) -> None:
        task.cancel()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    @contextlib.contextmanager
    def reports(self) -> Iterator[list[Any]]:
        reported: list[Any] = []
        loop = asyncio.get_running_loop()
        previous = loop.get_exception_handler()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        try:
            yield reported
        finally:
            loop.set_exception_handler(previous)

    async def within(self, seconds: float, scenario: Scenario) -> Any:
        task = asyncio.ensure_future(scenario)
        try:
            return await asyncio.wait_for(task, seconds)
        except asyncio.TimeoutError as error:
            if isinstance(error, pinyon.Error):
                raise
            raise GaveUpError from None


class Uvloop(Asyncio):
    name = "uvloop"

    def loop(self) -> asyncio.AbstractEventLoop:
        return uvloop.new_event_loop()


BLOCKING = Blocking()
COOPERATIVE: list[Model] = [Gevent(), Asyncio(), Uvloop()]
MODELS = [BLOCKING, *COOPERATIVE]


def run_by(models: list[Model]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("model", models, ids=lambda model: model.name)


every_model = run_by(MODELS)
cooperative = run_by(COOPERATIVE)
on_asyncio = run_by(COOPERATIVE[1:])


def shuffled(seed: int) -> random.Random:
    """A random generator with this seed."""
    return random.Random(seed)
