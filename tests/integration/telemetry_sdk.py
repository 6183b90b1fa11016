"""The SDK of OpenTelemetry in the process of the tests. A process can set it up only once."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Listener(SimpleSpanProcessor):
    """Exports spans to memory while a test listens."""

    def __init__(self) -> None:
        self.finished = InMemorySpanExporter()
        self.listens = False
        super().__init__(self.finished)

    def on_end(self, span: ReadableSpan) -> None:
        if self.listens:
            super().on_end(span)


@cache
def _sdk() -> tuple[Listener, InMemoryMetricReader]:
    listener, reader = Listener(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(listener)
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
    assert trace.get_tracer_provider() is provider
    return listener, reader


@contextmanager
def listening() -> Iterator[InMemorySpanExporter]:
    """Yield an exporter with the spans that end in the body."""
    listener, _ = _sdk()
    listener.finished.clear()
    listener.listens = True
    try:
        yield listener.finished
    finally:
        listener.listens = False
        listener.finished.clear()


def points() -> dict[str, list[Any]]:
    """Return the data points of all metrics, by name."""
    data = _sdk()[1].get_metrics_data()
    return {
        metric.name: list(metric.data.data_points)
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def values() -> dict[tuple[str, frozenset[tuple[str, Any]]], float]:
    """Return the value of each point, of a histogram its count, by name and attributes."""
    return {(name, frozenset(point.attributes.items())): getattr(point, "value",
        None) if hasattr(point, "value") else point.count for name,
        found in points().items() for point in found}  # fmt: skip


class Growth:
    """The growth of metrics since its beginning."""

    def __init__(self) -> None:
        self._before = values()

    def of(self, name: str, labels: Mapping[str, Any] | None = None) -> float:
        """Return the growth of a metric, summed over the points that have these attributes."""
        wanted = set((labels or {}).items())
        points = {key: n for key, n in values().items() if key[0] == name and wanted <= key[1]}
        return sum(value - self._before.get(key, 0) for key, value in points.items())
