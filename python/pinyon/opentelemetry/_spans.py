"""Operations with a span and a duration."""

from __future__ import annotations

import time
from asyncio import CancelledError
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import SpanKind, Status, StatusCode

from pinyon._figures.figure import DURATIONS, address
from pinyon.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, Meter
    from opentelemetry.trace import Span, Tracer

    from pinyon._figures.figure import Attributes


class Tracing:
    """Where spans and durations go."""

    def __init__(self, tracer: Tracer, meter: Meter) -> None:
        self._tracer = tracer
        self._meter = meter
        self.operations = self.histogram(
            "db.client.operation.duration", "Duration of database client operations.", DURATIONS
        )

    def histogram(self, name: str, description: str, bounds: tuple[float, ...]) -> Histogram:
        return self._meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=bounds)

    def start(self, name: str, kind: SpanKind, attributes: Attributes, context: Context | None = None) -> Span:
        """Start a span that is named after an operation and its server."""
        server = attributes.get("server.address")
        port = f":{attributes['server.port']}" if "server.port" in attributes else ""
        target = f" {server}{port}" if server else ""
        return self._tracer.start_span(f"{name}{target}", context, kind=kind, attributes=attributes)


class Operation:
    """An operation that has begun.

    Args:
        attributes: what its span and its duration say.
        more: what its span alone says.
    """

    def __init__(self, tracing: Tracing, attributes: Attributes, more: Attributes) -> None:
        self._attributes, self._durations = attributes, tracing.operations
        self._span = tracing.start(attributes["db.operation.name"], SpanKind.CLIENT, {**attributes, **more})
        self._at = time.perf_counter()

    def run(self, call: Callable[[], Any]) -> Any:
        """Call what carries it out, and end it with the outcome: that of the call, or of what is awaited."""
        try:
            outcome = call()
        except BaseException as error:
            self.end(error)
            raise
        if hasattr(outcome, "add_done_callback"):
            outcome.add_done_callback(self.done)
            return outcome
        if isinstance(outcome, CoroutineType):
            return self._awaited(outcome)
        self.end(None)
        return outcome

    async def _awaited(self, coroutine: CoroutineType[Any, Any, Any]) -> Any:
        try:
            outcome = await coroutine
        except BaseException as error:
            self.end(Cancelled() if isinstance(error, CancelledError) else error)
            raise
        self.end(None)
        return outcome

    def end(self, error: BaseException | None, **more: Any) -> None:
        seconds = time.perf_counter() - self._at
        attributes = {**self._attributes, **more}
        if error is not None:
            attributes["error.type"] = type_of(error)
            if isinstance(error, Error) and error.server is not None:
                attributes.update(address(error.server, attributes["db.system.name"]))
            self._span.set_status(Status(StatusCode.ERROR))
        if error is not None or more:
            self._span.set_attributes(attributes)
        self._span.end()
        self._durations.record(seconds, attributes)

    def done(self, future: Any) -> None:
        """End it with the outcome of a task's future."""
        self.end(failure(future))


class Cancelled(Exception):
    """The caller waits no longer."""


def failure(future: Any) -> BaseException | None:
    """Return why a future that is done has no result."""
    if future.cancelled():
        return Cancelled()
    error: BaseException | None = future.exception()
    return error


def type_of(error: BaseException) -> str:
    if isinstance(error, Cancelled):
        return "cancelled"
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
