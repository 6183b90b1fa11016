"""Spans and metrics: every name, its unit, and how to record it.

They go to the API of OpenTelemetry, and metrics also to each MetricSink of this process, which is
how GET /metrics needs no SDK. OpenTelemetry is not a dependency. Only a program that imports it can
set up an SDK, so nothing here uses it before that: until then a call costs two look-ups in
sys.modules. Attributes are names of this project and of models. They never hold a user, an
application, an id or a text.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation
    from opentelemetry.trace import Span

P = ParamSpec("P")
T = TypeVar("T")
Attributes: TypeAlias = Mapping[str, str | bool | int]

SCOPE = "hippocampus"
"""The instrumentation scope of all spans and metrics."""
OPERATION = "hippocampus.operation"
STAGE = "hippocampus.recall.stage"
ERROR = "error.type"
REASON = "hippocampus.refusal.reason"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. unit: in UCUM. buckets: upper bounds, for a histogram.

    observed: returns the values of a metric that is read only when it is exported.
    """

    kind: Literal["counter", "histogram", "gauge", "observed counter"]
    name: str
    unit: str
    description: str
    buckets: Sequence[float] = ()
    observed: Callable[[], Sequence[tuple[float, Attributes]]] | None = None

    def add(self, value: float, attributes: Attributes | None = None) -> None:
        """Add to a counter."""
        self.tell(value, attributes)
        if (api := _api()) is not None:
            api.counters[self.name].add(value, attributes)

    def record(self, value: float, attributes: Attributes | None = None) -> None:
        """Record a value of a histogram."""
        self.tell(value, attributes)
        if (api := _api()) is not None:
            api.histograms[self.name].record(value, attributes)

    def tell(self, value: float, attributes: Attributes | None = None) -> None:
        """Give a value to the sinks of this process, and not to OpenTelemetry."""
        for sink in _sinks:
            sink.take(self, value, attributes or {})


class MetricSink(Protocol):
    """Receives each value of a counter or a histogram, on any thread."""

    def take(self, metric: Metric, value: float, attributes: Attributes) -> None: ...


_sinks: tuple[MetricSink, ...] = ()


def add_sink(sink: MetricSink) -> None:
    """Give a sink all values from now on."""
    global _sinks
    with _lock:
        _sinks = (*_sinks, sink)


def remove_sink(sink: MetricSink) -> None:
    """Give a sink no more values."""
    global _sinks
    with _lock:
        _sinks = tuple(one for one in _sinks if one is not sink)


class CacheCounts:
    """The hits and misses of all caches of one name, approximate if threads share them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hits = self.misses = 0


def cache_counts(name: str) -> CacheCounts:
    """Return the counts of a name. They outlive their caches, because a counter never decreases."""
    return _caches.setdefault(name, CacheCounts(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSizes:
    """The number of jobs by state, and the seconds since the oldest due job became due."""

    by_state: Mapping[str, int]
    oldest_due_s: float


_caches: dict[str, CacheCounts] = {}
_queues: WeakSet[QueueReader] = WeakSet()


class QueueReader(Protocol):
    """Reads the size of one queue when metrics are exported, on a thread of the exporter."""

    def read(self) -> QueueSizes | None:
        """Return the sizes, or None while they cannot be read."""


def watch_queue(queue: QueueReader) -> None:
    """Export the size of a queue as long as its reader lives."""
    _queues.add(queue)


def _cache_lookups() -> list[tuple[float, Attributes]]:
    return [
        (count, {"hippocampus.cache.name": cache.name, "hippocampus.cache.hit": is_hit})
        for cache in list(_caches.values())
        for is_hit, count in ((True, cache.hits), (False, cache.misses))
    ]


def _queue_sizes() -> list[QueueSizes]:
    return [sizes for queue in list(_queues) if (sizes := queue.read()) is not None]


def _queue_depth() -> list[tuple[float, Attributes]]:
    """Return the jobs by state. Memories of one database agree; of others the largest counts."""
    largest: dict[str, int] = {}
    for sizes in _queue_sizes():
        for state, count in sizes.by_state.items():
            largest[state] = max(count, largest.get(state, 0))
    return [(count, {"hippocampus.job.state": state}) for state, count in largest.items()]


def _queue_age() -> list[tuple[float, Attributes]]:
    ages = [sizes.oldest_due_s for sizes in _queue_sizes()]
    return [(max(ages), {})] if ages else []


DURATION: Final = Metric(
    "histogram", "hippocampus.operation.duration", "s",
    "Duration of an operation; error.type is set if it failed.", SECONDS,
)  # fmt: skip
STAGE_DURATION: Final = Metric(
    "histogram", "hippocampus.recall.stage.duration", "s",
    "Duration of one stage of a recall: embed, fetch, rank, rerank or select.", SECONDS,
)  # fmt: skip
CANDIDATES: Final = Metric(
    "histogram", "hippocampus.recall.candidates", "{memory}",
    "Memories that a recall ranked.", SIZES,
)  # fmt: skip
HITS: Final = Metric(
    "histogram", "hippocampus.recall.hits", "{memory}",
    "Memories that a recall returned.", SIZES,
)  # fmt: skip
DEGRADED: Final = Metric(
    "counter", "hippocampus.recall.degraded", "{recall}",
    "Recalls by words alone, because the embedder failed.",
)  # fmt: skip
FAILED_SEARCHES: Final = Metric(
    "counter", "hippocampus.searches.failed", "{search}",
    "Searches of a framework that failed or took too long, so that the agent went on without"
    " memories.",
)  # fmt: skip
FAILED_MODEL_CALLS: Final = Metric(
    "counter", "hippocampus.model.failures", "{call}",
    "Calls of a language model that failed, or whose answer could not be used.",
)  # fmt: skip
EMBEDDED_TEXTS: Final = Metric(
    "counter", "hippocampus.embed.texts", "{text}", "Texts that were embedded."
)
APPENDED: Final = Metric(
    "counter", "hippocampus.turns.appended", "{turn}", "New turns of threads that were stored."
)
REMEMBERED: Final = Metric(
    "counter", "hippocampus.memories.remembered", "{memory}",
    "Memories stored without a conversation.",
)  # fmt: skip
CONSOLIDATED: Final = Metric(
    "counter", "hippocampus.turns.consolidated", "{turn}", "Turns read by consolidations."
)
REFUSED: Final = Metric(
    "counter", "hippocampus.answers.refused", "{element}",
    "Elements of language models' answers that were dropped, by reason.",
)  # fmt: skip
SKIPPED: Final = Metric(
    "counter", "hippocampus.turns.skipped", "{turn}",
    "Turns of users that no language model was asked about, because they tell nothing.",
)  # fmt: skip
FORGOTTEN: Final = Metric(
    "counter", "hippocampus.memories.forgotten", "{memory}",
    "Memories forgotten on request, by expiry or because they faded.",
)  # fmt: skip
ERASED: Final = Metric(
    "counter", "hippocampus.memories.erased", "{memory}", "Memories erased with a receipt."
)
JOB_DURATION: Final = Metric(
    "histogram", "hippocampus.job.duration", "s",
    "Duration of one attempt at a job, by its type and outcome.", SECONDS,
)  # fmt: skip
QUEUE_DEPTH: Final = Metric(
    "gauge", "hippocampus.queue.depth", "{job}",
    "Jobs of all users in the database, by state: waiting, due, running or dead.", (),
    _queue_depth,
)  # fmt: skip
QUEUE_AGE: Final = Metric(
    "gauge", "hippocampus.queue.age", "s",
    "Seconds since the oldest due job became due; 0 if none is due.", (), _queue_age,
)  # fmt: skip
CACHE_LOOKUPS: Final = Metric(
    "observed counter", "hippocampus.cache.lookups", "{lookup}",
    "Lookups in a cache of this process, by hit.", (), _cache_lookups,
)  # fmt: skip
POOL_WAIT: Final = Metric(
    "histogram", "db.client.connection.wait_time", "s",
    "Time it took to obtain a connection to the database.", SECONDS,
)  # fmt: skip
POOL_TIMEOUTS: Final = Metric(
    "counter", "db.client.connection.timeouts", "{timeout}",
    "Calls that failed because all connections were busy.",
)  # fmt: skip

HTTP_DURATION: Final = Metric(
    "histogram", "http.server.request.duration", "s",
    "Duration of a request to the HTTP API.", SECONDS,
)  # fmt: skip
"""Only for sinks: FastAPI tells OpenTelemetry of its requests itself."""

METRICS: Final = (
    DURATION, STAGE_DURATION, CANDIDATES, HITS, DEGRADED, FAILED_SEARCHES, FAILED_MODEL_CALLS,
    EMBEDDED_TEXTS, APPENDED, REMEMBERED, CONSOLIDATED, REFUSED, SKIPPED, FORGOTTEN, ERASED,
    JOB_DURATION, QUEUE_DEPTH, QUEUE_AGE, CACHE_LOOKUPS, POOL_WAIT, POOL_TIMEOUTS,
)  # fmt: skip


class _Api:
    """The tracer and the instruments. They follow a provider that is set up later."""

    def __init__(self) -> None:
        from opentelemetry import metrics, trace

        from shared_core import __version__

        self.error = trace.StatusCode.ERROR
        self.tracer = trace.get_tracer(SCOPE, __version__)
        self.current_span = trace.get_current_span
        self.counters: dict[str, Counter] = {}
        self.histograms: dict[str, Histogram] = {}
        meter = metrics.get_meter(SCOPE, __version__)
        for metric in METRICS:
            self._create(metric, meter)

    def span(self, name: str, attributes: Attributes | None) -> AbstractContextManager[Span]:
        return self.tracer.start_as_current_span(
            f"{SCOPE}.{name}", attributes=attributes, record_exception=False,
            set_status_on_exception=False,
        )  # fmt: skip

    def fail(self, span: Span | None, error: str) -> None:
        if span is not None:
            span.set_attribute(ERROR, error)
            span.set_status(self.error)

    def _create(self, metric: Metric, meter: Meter) -> None:
        given = {"name": metric.name, "unit": metric.unit, "description": metric.description}
        if metric.kind == "counter":
            self.counters[metric.name] = meter.create_counter(**given)
        elif metric.kind == "histogram":
            try:
                self.histograms[metric.name] = meter.create_histogram(
                    **given, explicit_bucket_boundaries_advisory=metric.buckets
                )
            except TypeError:  # before 1.30 the API knows no boundaries
                self.histograms[metric.name] = meter.create_histogram(
                    metric.name, metric.unit, metric.description
                )
        elif metric.kind == "gauge":
            meter.create_observable_gauge(**given, callbacks=[_observer(metric)])
        else:
            meter.create_observable_counter(**given, callbacks=[_observer(metric)])


def _observer(metric: Metric) -> Callable[[CallbackOptions], list[Observation]]:
    from opentelemetry.metrics import Observation

    def observe(_: CallbackOptions) -> list[Observation]:
        assert metric.observed is not None
        return [Observation(value, attributes) for value, attributes in metric.observed()]

    return observe


_found: _Api | None = None
_lock = threading.Lock()


def _api() -> _Api | None:
    """Return the API of OpenTelemetry, or None if this program has not imported it."""
    global _found
    if _found is None and (
        "opentelemetry.trace" in sys.modules or "opentelemetry.metrics" in sys.modules
    ):
        with _lock:
            _found = _found or _Api()
    return _found


def start() -> None:
    """Create the metrics now, so that an export shows those that are read only then."""
    _api()


@contextmanager
def operation(name: str, attributes: Attributes | None = None) -> Iterator[None]:
    """Measure the body as a span and by its duration.

    attributes: of the span alone. An error adds its type, and never its message, which may quote a
    user.
    """
    api = _api()
    if api is None and not _sinks:
        yield
        return
    measured_by: dict[str, str] = {OPERATION: name}
    began = time.perf_counter()
    with nullcontext() if api is None else api.span(name, attributes) as span:
        try:
            yield
        except BaseException as error:
            measured_by[ERROR] = type(error).__qualname__
            if api is not None:
                api.fail(span, measured_by[ERROR])
            raise
        finally:
            DURATION.record(time.perf_counter() - began, measured_by)


def measured(
    name: str, metric: Metric | None = None, size: Callable[[Any], int] = int
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Return a decorator that measures an async function as an operation.

    metric: a counter of what the operation changed. size: returns the number from its result.
    """

    def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @functools.wraps(function)
        async def measuring(*args: P.args, **kwargs: P.kwargs) -> T:
            with operation(name):
                result = await function(*args, **kwargs)
            if metric is not None and (count := size(result)):
                metric.add(count, {OPERATION: name})
            return result

        return measuring

    return decorate


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Measure the body as a stage of the current recall: an attribute of its span, in seconds."""
    began = time.perf_counter()
    try:
        yield
    finally:
        took_s = time.perf_counter() - began
        STAGE_DURATION.record(took_s, {STAGE: name})
        if (api := _api()) is not None:
            api.current_span().set_attribute(f"{STAGE}.{name}.duration", took_s)


def recalled(*, candidates: int, hits: int, degraded: bool) -> None:
    """Record the result of the current recall. degraded: it went by words alone."""
    CANDIDATES.record(candidates)
    HITS.record(hits)
    DEGRADED.add(int(degraded))  # also 0: a rate needs a counter that is there before it grows
    if (api := _api()) is not None:
        api.current_span().set_attributes(
            {CANDIDATES.name: candidates, HITS.name: hits, DEGRADED.name: degraded}
        )


def forgotten(operation_name: str, count: int) -> None:
    """Count memories that were forgotten."""
    if count:
        FORGOTTEN.add(count, {OPERATION: operation_name})


def search_failed(framework: str, error: BaseException) -> None:
    """Count a search that failed while the agent went on without memories."""
    FAILED_SEARCHES.add(1, {"hippocampus.framework": framework, ERROR: type(error).__qualname__})


def model_call_failed(model: str, error: BaseException) -> None:
    """Count a call of a language model that failed, or whose answer could not be used."""
    about: Attributes = {"gen_ai.request.model": model, ERROR: type(error).__qualname__}
    FAILED_MODEL_CALLS.add(1, about)


def job_ended(job_type: str, outcome: str, took_s: float) -> None:
    """Record one attempt at a job."""
    JOB_DURATION.record(
        took_s, {"hippocampus.job.type": job_type, "hippocampus.job.outcome": outcome}
    )


def waited_for_connection(system: str, took_s: float) -> None:
    """Record the wait for a connection. system: the name of the database system."""
    POOL_WAIT.record(took_s, _pool(system))


def connections_busy(system: str) -> None:
    """Count a call that failed because all connections were busy."""
    POOL_TIMEOUTS.add(1, _pool(system))


def request_ended(method: str, route: str, status: int, took_s: float) -> None:
    """Record a request to the HTTP API for the sinks. route: its template, never its path."""
    HTTP_DURATION.tell(
        took_s,
        {"http.request.method": method, "http.route": route, "http.response.status_code": status},
    )


def _pool(system: str) -> Attributes:
    return {"db.client.connection.pool.name": SCOPE, "db.system.name": system}
