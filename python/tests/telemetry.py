"""A target for exports to OpenTelemetry, in memory."""

from __future__ import annotations

from typing import Any

import pytest
from models import Awaited, AwaitedLocks
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import pinyon
import pinyon.opentelemetry


class Telemetry:
    """The target of all exports."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.metering = MeterProvider(metric_readers=[self._reader])
        self._spans = InMemorySpanExporter()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self._spans))

    def traced(self, client: Any) -> Any:
        wrapper = type(client) if isinstance(client, (Awaited, AwaitedLocks)) else None
        wrapped = client.wrapped if wrapper else client
        view = pinyon.opentelemetry.traced(wrapped, tracer_provider=self.tracing, meter_provider=self.metering)
        return wrapper(view) if wrapper else view

    def instrument(self, client: Any) -> None:
        wrapped = client.wrapped if isinstance(client, (Awaited, AwaitedLocks)) else client
        pinyon.opentelemetry.instrument(wrapped, meter_provider=self.metering)

    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        metrics = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return [point for metric in metrics for point in metric.data.data_points]

    def values(self, name: str, *attributes: str) -> dict[tuple[Any, ...], float]:
        points = self.points(name)
        return {tuple(point.attributes.get(key) for key in attributes): point.value for point in points}


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()
