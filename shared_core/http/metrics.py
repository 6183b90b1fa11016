"""GET /metrics: the metrics of this process in the text format of Prometheus."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from opentelemetry import metrics as api
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from shared_core.core import telemetry
from shared_core.http.access import reader_of_metrics
from shared_core.http.answers import PROBLEMS
from shared_core.http.problems import ProblemError

router = APIRouter(tags=["health"])

ANSWER = {
    "description": "Metrics in the text format of Prometheus, or of OpenMetrics if it is accepted",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


def set_up_metrics() -> None:
    """Give this process a meter provider unless it has one, so that metrics are collected."""
    if not hasattr(api.get_meter_provider(), "add_metric_reader"):
        api.set_meter_provider(MeterProvider(shutdown_on_exit=False))


class Scrape:
    """Collects the metrics of the process's meter provider from now on, until it is closed.

    A provider that is not of the SDK, or none at all, cannot be read: then text() returns None.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._encoding = threading.Lock()  # two scrapes at once would share their samples
        ProcessCollector(registry=self._registry)
        provider = api.get_meter_provider()
        self._provider: Any = provider if hasattr(provider, "add_metric_reader") else None
        if self._provider is not None:
            self._reader = PrometheusMetricReader(
                disable_target_info=True, scope_info_enabled=False, registry=self._registry
            )
            self._provider.add_metric_reader(self._reader)
            telemetry.start()

    def text(self, accept: str) -> tuple[bytes, str] | None:
        """Return the metrics and their media type. It may wait for the database."""
        if self._provider is None:
            return None
        encode, media_type = choose_encoder(accept)
        with self._encoding:
            return encode(self._registry), media_type

    def close(self) -> None:
        """Stop collecting."""
        if self._provider is not None:
            self._provider.remove_metric_reader(self._reader)


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
    found = await asyncio.to_thread(scrape.text, accept) if scrape else None
    if found is None:
        raise ProblemError(
            501, "not-supported",
            "The application started without a MeterProvider of the OpenTelemetry SDK, or did not"
            " start, because a mounted application has no lifespan of its own.",
        )  # fmt: skip
    return Response(found[0], headers={"Content-Type": found[1]})
