"""GET /metrics: the metrics of this process in the text format of Prometheus."""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Header, Request
from prometheus_client import CollectorRegistry, Metric as Family, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from shared_core.core import telemetry
from shared_core.core.telemetry import Attributes
from shared_core.http.access import reader_of_metrics
from shared_core.http.answers import PROBLEMS
from shared_core.http.problems import ProblemError

router = APIRouter(tags=["health"])

ANSWER = {
    "description": "Metrics in the text format of Prometheus, or of OpenMetrics if it is accepted",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


NAMES = {"s": "_seconds"}
"""The ends of names in Prometheus, by unit. A unit in braces has none."""

Labels: TypeAlias = frozenset[tuple[str, str | bool | int]]


class Series:
    """The values of a counter or a histogram with the same labels."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.sum = 0.0
        self.counts = [0] * (len(bounds) + 1)
        """Values up to each bound and above the one before it, and values above all."""

    def take(self, value: float, bounds: Sequence[float]) -> None:
        """Count a value."""
        self.sum += value
        self.counts[bisect_left(bounds, value)] += 1


class Scrape:
    """Collects the metrics of this process from now on, until it is closed."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, Labels], Series] = {}
        self._lock = threading.Lock()
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(self)
        telemetry.add_sink(self)
        telemetry.start()

    def take(self, metric: telemetry.Metric, value: float, attributes: Attributes) -> None:
        """Count a value, as a MetricSink."""
        at = metric.name, frozenset(attributes.items())
        with self._lock:
            if (series := self._series.get(at)) is None:
                series = self._series[at] = Series(metric.buckets)
            series.take(value, metric.buckets)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their media type. It may wait for the database."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type

    def close(self) -> None:
        """Stop collecting."""
        telemetry.remove_sink(self)

    def collect(self) -> Iterator[Family]:
        """Yield the metrics that have a value, as a collector of prometheus_client."""
        for metric in (*telemetry.METRICS, telemetry.HTTP_DURATION):
            name = metric.name.replace(".", "_") + NAMES.get(metric.unit, "")
            family = Family(name, metric.description, metric.kind.rpartition(" ")[2])
            if metric.observed is not None:
                end = "" if metric.kind == "gauge" else "_total"
                for value, attributes in metric.observed():
                    family.add_sample(f"{name}{end}", _labels(attributes.items()), value)
            else:
                self._add_series(family, metric)
            if family.samples:
                yield family

    def _add_series(self, family: Family, metric: telemetry.Metric) -> None:
        with self._lock:
            found = [
                (_labels(labels), series.sum, list(accumulate(series.counts)))
                for (name, labels), series in self._series.items()
                if name == metric.name
            ]
        for labels, total, counts in found:
            if metric.kind == "counter":
                family.add_sample(f"{family.name}_total", labels, total)
                continue
            for bound, count in zip((*metric.buckets, inf), counts, strict=True):
                at = labels | {"le": "+Inf" if bound == inf else str(float(bound))}
                family.add_sample(f"{family.name}_bucket", at, count)
            family.add_sample(f"{family.name}_count", labels, counts[-1])
            family.add_sample(f"{family.name}_sum", labels, total)


def _labels(attributes: Iterable[tuple[str, str | bool | int]]) -> dict[str, str]:
    return {
        name.replace(".", "_"): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in attributes
    }


@router.get(
    "/metrics",
    responses={200: ANSWER, **PROBLEMS},
    response_class=Response,
    response_model=None,
    dependencies=[Depends(reader_of_metrics)],
)
async def read_metrics(
    request: Request, accept: Annotated[str, Header(include_in_schema=False)] = ""
) -> Response:
    """Return the metrics of this process and of the queue, of all applications together.

    They name no application and no user. They need a token for metrics, which opens nothing else.
    """
    scrape: Scrape | None = request.app.state.scrape
    if scrape is None:
        raise ProblemError(
            501, "not-supported",
            "The application collects no metrics, because a mounted application has no lifespan of"
            " its own.",
        )  # fmt: skip
    text, media_type = await asyncio.to_thread(scrape.text, accept)
    return Response(text, headers={"Content-Type": media_type})
