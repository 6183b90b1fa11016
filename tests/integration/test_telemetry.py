"""Spans and metrics of the memory, and of requests to it, by a real SDK of OpenTelemetry.

GET /metrics and the metrics of a worker are real scrapes, parsed as Prometheus parses them.
"""

import asyncio
import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import WeakSet

import httpx
import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client.parser import text_string_to_metric_families
from scripted_chat import ScriptedChatModel
from warm_python import warm_python

from langgraph_store import HippocampusMiddleware, PgHippocampusStore
from shared_core import Scope, StorageUnavailable, open_memory
from shared_core.core import telemetry
from shared_core.core.digest_cache import DigestCache
from shared_core.core.telemetry import METRICS
from shared_core.errors import InvalidInput
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.http import ServerOptions, create_app
from shared_core.models.embedders import E5Embedder
from tests.integration import all_verbs
from tests.integration.all_verbs import ANA, TEXTS, turns, use
from tests.integration.http_clients import client_of
from tests.integration.http_processes import serving
from tests.integration.telemetry_sdk import Growth, listening, points, values

DOCS = Path(__file__).parents[2] / "docs"
Samples = dict[str, dict[frozenset[tuple[str, str]], float]]
QUEUE = "hippocampus.queue.depth"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture(autouse=True)
def own_queues(monkeypatch):
    """Leave the queues of other memories of this process out of the metrics."""
    monkeypatch.setattr(telemetry, "_queues", WeakSet())


@pytest.fixture
def spans():
    with listening() as finished:
        yield finished


def tree(finished: InMemorySpanExporter) -> set[tuple[str | None, str]]:
    """Return the names of spans with those of their parents."""
    ended = finished.get_finished_spans()
    names = {span.context.span_id: span.name for span in ended}
    return {(span.parent and names.get(span.parent.span_id), span.name) for span in ended}


def depths() -> dict[str, int]:
    """Return how many jobs of each state the metrics show."""
    return {at.attributes["hippocampus.job.state"]: at.value for at in points()[QUEUE]}


def of(operation: str) -> dict[str, str]:
    return {"hippocampus.operation": operation}


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_each_verb_is_a_span_and_is_counted(memory, spans, language):
    grown = Growth()
    await use(memory, TEXTS[language])
    once = ("append", "remember", "search", "context", "process", "reflect", "forget", "erase")
    for operation in once:
        assert 1 == grown.of("hippocampus.operation.duration", of(operation)), operation
    assert 1 <= grown.of("hippocampus.operation.duration", of("consolidate"))
    assert 2 <= grown.of("hippocampus.operation.duration", of("recall"))
    assert 2 == grown.of("hippocampus.turns.appended")
    assert 2 == grown.of("hippocampus.turns.consolidated")
    assert 1 == grown.of("hippocampus.memories.remembered")
    assert 1 == grown.of("hippocampus.memories.forgotten", of("forget"))
    assert 1 <= grown.of("hippocampus.memories.forgotten", of("forget_turns"))
    assert 1 <= grown.of("hippocampus.memories.erased", of("erase"))
    assert 5 <= grown.of("hippocampus.embed.texts", {"gen_ai.request.model": E5Embedder.model})
    assert 0 < grown.of("hippocampus.cache.lookups", {"hippocampus.cache.name": "redaction"})
    assert 0 < grown.of("db.client.connection.wait_time", {"db.system.name": "postgresql"})
    assert {
        (None, "hippocampus.append"), ("hippocampus.append", "hippocampus.embed"),
        (None, "hippocampus.consolidate"), (None, "hippocampus.recall"),
        ("hippocampus.recall", "hippocampus.embed"),
        ("hippocampus.context", "hippocampus.recall"),
        ("hippocampus.search", "hippocampus.embed"), (None, "hippocampus.erase"),
    } <= tree(spans)  # fmt: skip


async def test_a_recall_shows_its_stages(memory, spans):
    await memory.remember(ANA, [*TEXTS["en"][:2], *TEXTS["zh"][:2]])
    grown = Growth()
    hits = await memory.recall(ANA, TEXTS["en"][2], limit=3)
    [span] = [one for one in spans.get_finished_spans() if one.name == "hippocampus.recall"]
    assert 4 == span.attributes["hippocampus.recall.candidates"]
    assert len(hits) == span.attributes["hippocampus.recall.hits"]
    assert span.attributes["hippocampus.recall.degraded"] is False
    took_s = (span.end_time - span.start_time) / 1e9
    stages = ("embed", "fetch", "rank")
    shown = [span.attributes[f"hippocampus.recall.stage.{one}.duration"] for one in stages]
    assert 0 < sum(shown) <= took_s
    for stage in stages:
        one = {"hippocampus.recall.stage": stage}
        assert 1 == grown.of("hippocampus.recall.stage.duration", one)
    rerank = {"hippocampus.recall.stage": "rerank"}
    await memory.recall(ANA, TEXTS["en"][2], reranker=lambda query, texts: [1.0] * len(texts))
    assert 1 == grown.of("hippocampus.recall.stage.duration", rerank)


async def test_no_attribute_holds_a_word_or_a_name(memory, spans):
    for texts in TEXTS.values():
        await use(memory, texts)
    wrong = turns("I live in Lisbon.")[0]
    object.__setattr__(wrong, "role", "Lisbon")
    with pytest.raises(InvalidInput, match="Lisbon"):
        await memory.append_events(ANA, "thread-one", [wrong])
    told = [span.to_json() for span in spans.get_finished_spans()]
    told += [f"{name} {at}" for name, at in values() if name.startswith(("hippocampus", "db."))]
    private = (
        "Lisbon", "nurse", "上海", "护士", "secret_app", "ana_at_home", "thread-one", "turn-number",
    )  # fmt: skip
    assert [] == [one for one in told for word in private if word in one]
    ended = [span for span in spans.get_finished_spans() if span.attributes]
    [failed] = [one for one in ended if one.attributes.get("error.type") == "InvalidInput"]
    assert ("hippocampus.append", ()) == (failed.name, failed.events)
    assert (StatusCode.ERROR, None) == (failed.status.status_code, failed.status.description)


async def test_without_an_embedder_recall_is_degraded(dsn, spans):
    grown = Growth()
    assert await all_verbs.recall_without_model(dsn)
    assert 1 == grown.of("hippocampus.recall.degraded")
    failed = of("embed") | {"error.type": "ModelUnavailable"}
    assert 1 == grown.of("hippocampus.operation.duration", failed)
    assert 0 == grown.of("hippocampus.embed.texts")


@pytest.mark.both_engines
async def test_the_queue_of_all_users_is_shown(dsn):
    async with open_memory(dsn, worker=False) as memory:
        for app, user in (("one", "ana"), ("two", "bob")):
            await memory.append_events(Scope(app, user), "t", turns("I sail."), later=True)
        soon = Scope("three", "cat")
        await memory.append_events(soon, "t", turns("I ski."), later=True, delay_s=3600)
        memory._queue_size._read_again_at = 0.0
        assert {"waiting": 1, "due": 2, "running": 0, "dead": 0} == depths()
        found = points()
        assert 0 < found["hippocampus.queue.age"][0].value
        system = "oceanbase" if dsn.startswith("seekdb") else "postgresql"
        assert system in str(found["db.client.connection.wait_time"])


async def test_a_closed_or_silent_database_leaves_the_queue_out(memory, caplog):
    memory._queue_size._read_again_at = 0.0
    assert QUEUE in points()
    away = StorageUnavailable("it is away")
    with mock.patch.object(memory._storage.jobs, "job_stats", side_effect=away):
        memory._queue_size._read_again_at = 0.0
        assert QUEUE not in points()
    assert "metrics of the queue are missing: it is away" in caplog.text
    await memory.close()
    assert QUEUE not in points()
    assert not memory._lifecycle.is_open


async def test_jobs_are_spans_with_an_outcome(dsn, spans):
    class Broken(RuleExtractor):
        async def extract(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no fact for you")

    grown = Growth()
    async with open_memory(dsn) as memory:
        await memory.append_events(ANA, "good", turns("I live in Lisbon."), later=True)
        assert await memory.flush(60)
    done = {"hippocampus.job.type": "full_consolidation", "hippocampus.job.outcome": "done"}
    assert 1 == grown.of("hippocampus.job.duration", done)
    assert {(None, "hippocampus.job"), ("hippocampus.job", "hippocampus.consolidate"),
        ("hippocampus.job", "hippocampus.embed")} <= tree(spans)  # fmt: skip
    async with open_memory(dsn, worker=False, extractor=Broken()) as memory:
        await memory.append_events(ANA, "bad", turns("I live in Porto."))
        assert "failed" == (await memory.jobs.run(ANA, "bad")).status
        memory._queue_size._read_again_at = 0.0
        assert 1 == depths()["dead"]
    assert 1 == grown.of("hippocampus.job.duration", done | {"hippocampus.job.outcome": "given_up"})
    assert "no fact" not in str([span.to_json() for span in spans.get_finished_spans()])


async def test_searches_that_a_framework_goes_on_without_are_counted(memory):
    grown, name = Growth(), "hippocampus.searches.failed"
    away = StorageUnavailable("away")
    store, who = PgHippocampusStore(engine=memory), {"user_id": "ann", "thread_id": "one"}
    middleware = HippocampusMiddleware(store, app="app", **who)
    agent = create_agent(ScriptedChatModel(), middleware=[middleware])
    await all_verbs.search_without_database(memory)
    assert 1 == grown.of(name, {"hippocampus.framework": "adk"})
    with mock.patch.object(memory, "recall", new=mock.AsyncMock(side_effect=away)):
        await agent.ainvoke({"messages": [HumanMessage("Which tea do I like?")]})
    failed = {"hippocampus.framework": "langgraph", "error.type": "StorageUnavailable"}
    assert 1 == grown.of(name, failed)


async def test_calls_that_get_no_connection_are_counted():
    grown = Growth()
    await all_verbs.wait_for_a_busy_pool()
    assert 1 == grown.of("db.client.connection.timeouts", {"db.system.name": "postgresql"})
    assert 1 == grown.of("db.client.connection.wait_time", {"db.system.name": "postgresql"})


async def test_a_request_is_a_span_of_the_callers_trace(memory, spans):
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    async with client_of(memory) as client:
        question = {"user_id": "ana", "query": "my very own words"}
        await client.post("/recall", json=question, headers=headers)
        await client.post("/recall", content=b"{", headers={"Content-Type": "text/plain"})
    ended = spans.get_finished_spans()
    served = [span for span in ended if span.kind is SpanKind.SERVER]
    requests = {span.attributes["http.response.status_code"]: span for span in served}
    assert {200, 415} == set(requests)
    assert "POST /recall" == requests[200].name
    [recall] = [span for span in ended if span.name == "hippocampus.recall"]
    assert requests[200].context.trace_id == recall.context.trace_id
    assert TRACE == f"{requests[200].context.trace_id:032x}"
    assert not [span for span in ended if "very own words" in str(span.to_json())]


def test_names_are_of_one_form_and_stand_on_their_page():
    assert len(METRICS) == len({metric.name for metric in METRICS})
    for metric in METRICS:
        assert metric.name.startswith(("hippocampus.", "db.client.")), metric
        assert metric.unit == "s" or metric.unit.startswith("{"), metric
        assert metric.description.endswith("."), metric
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric
    page = (DOCS / "reference" / "metrics.md").read_text("utf-8")
    named = set(re.findall(r"^\| `((?:hippocampus|db)\.[\w.]+)`", page, re.M))
    assert {metric.name for metric in METRICS} == named


WITHOUT = """
import asyncio, sys
if {hidden}:
    for name in [one for one in sys.modules if one.startswith(("opentelemetry", "shared_core"))]:
        del sys.modules[name]
    sys.modules["opentelemetry"] = None  # as if it were not installed
from shared_core import Scope, open_memory

async def main():
    async with open_memory({dsn!r}) as memory:
        await memory.remember(Scope("a", "b"), "I like tea.")
        assert await memory.recall(Scope("a", "b"), "tea")

asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry.")])
"""


@pytest.mark.parametrize("hidden", [False, True])
async def test_a_program_without_opentelemetry_never_loads_it(dsn, hidden):
    """Only a cold interpreter has not loaded it; where it is hidden, a warm one forgets it."""
    code = WITHOUT.format(dsn=dsn, hidden=hidden)
    done = await asyncio.to_thread(
        subprocess.run,
        [*(warm_python() if hidden else [sys.executable]), "-c", code],
        capture_output=True, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert "[]\n" == done.stdout, done.stderr


def test_lookups_are_counted_on_after_a_cache_is_gone():
    with listening():
        cache = DigestCache("of_this_test", len, 10)
        grown = Growth()
        cache("text")
        cache("text")
        del cache
        gc.collect()
        DigestCache("of_this_test", len, 10)("text")
        labels = {"hippocampus.cache.name": "of_this_test"}
        assert 3 == grown.of("hippocampus.cache.lookups", labels)
        assert 1 == grown.of("hippocampus.cache.lookups", {**labels, "hippocampus.cache.hit": True})


def samples(text: str) -> Samples:
    """Return the values of a scrape, by name and labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def labelled(found: Samples, name: str, **labels: str) -> float:
    """Return the sum of the values of a name that have these labels."""
    return sum(value for at, value in found[name].items() if labels.items() <= set(at))


def test_a_running_server_is_scraped(dsn, tmp_path):
    question = {"user_id": "ana_at_home", "query": "我住在哪里？"}
    said = {"user_id": "ana_at_home", "memories": ["I live in Lisbon.", "我住在上海。"]}
    with serving(dsn, tmp_path / "log") as server, httpx.Client(timeout=60) as client:
        assert 200 == client.post(f"{server.url}/remember", json=said).status_code
        for _ in range(2):
            assert 200 == client.post(f"{server.url}/recall", json=question).status_code
        assert 200 == client.get(f"{server.url}/graph/ana_at_home").status_code
        answer = client.get(f"{server.url}/metrics")
        openmetrics = {"Accept": "application/openmetrics-text;version=1.0.0"}
        other = client.get(f"{server.url}/metrics", headers=openmetrics)
        assert 422 == client.get(f"{server.url}/metrics?name=x").status_code
    assert (200, "text/plain") == (
        answer.status_code, answer.headers["content-type"].partition(";")[0]
    )  # fmt: skip
    assert other.headers["content-type"].startswith("application/openmetrics-text")
    found = samples(answer.text)
    duration = "hippocampus_operation_duration_seconds_count"
    assert 2 == labelled(found, duration, hippocampus_operation="recall")
    assert 2 == labelled(found, "hippocampus_memories_remembered_total")
    assert 4 == labelled(found, "hippocampus_recall_candidates_sum")
    assert 0 == labelled(found, "hippocampus_queue_depth", hippocampus_job_state="dead")
    assert 0 == labelled(found, "hippocampus_queue_age_seconds")
    requests = "http_server_request_duration_seconds_count"
    assert 1 == labelled(found, requests, http_route="/graph/{user_id}")
    assert 0 < labelled(found, "process_resident_memory_bytes")
    private = ("ana_at_home", "default", "Lisbon", "上海", "住")
    assert [] == [word for word in private if word in answer.text]


async def test_metrics_need_a_token_that_opens_them_alone(memory):
    of_user = await memory.tokens.create("one", users=["ana"])
    of_app = await memory.tokens.create("one")
    of_all = await memory.tokens.create("one", opens="metrics")
    for token, status in ((of_user, 403), (of_app, 403), (of_all, 200)):
        async with client_of(memory, token=token.text) as client:
            assert status == (await client.get("/metrics")).status_code
            reads = await client.get("/memories", params={"user_id": "ana"})
            assert {200: 403, 403: 200}[status] == reads.status_code
    assert await memory.tokens.verify(of_all.text) is None  # so no other server lets it in
    with pytest.raises(InvalidInput, match="leave users out"):
        await memory.tokens.create("one", users=["ana"], opens="metrics")
    async with client_of(memory, token=of_all.text) as client:
        await client.request("ODD", "/")  # each new name of a method would stay in memory
        assert "ODD" not in (await client.get("/metrics")).text
    async with client_of(memory, token="hippo_wrong") as client:
        assert 401 == (await client.get("/metrics")).status_code
    async with client_of(memory, host="example.org") as client:
        assert 403 == (await client.get("/metrics")).status_code


async def test_each_application_counts_from_its_own_start_beside_the_sdk(memory):
    grown = Growth()
    async with client_of(memory) as client:
        await memory.remember(ANA, "I live in Lisbon.")
        found = samples((await client.get("/metrics")).text)
    assert 1 == labelled(found, "hippocampus_memories_remembered_total")
    assert 1 == grown.of("hippocampus.memories.remembered")
    async with client_of(memory) as client:
        again = samples((await client.get("/metrics")).text)
    assert "hippocampus_memories_remembered_total" not in again


async def test_without_a_lifespan_it_says_what_is_missing(memory):
    mounted = httpx.ASGITransport(create_app(memory, ServerOptions(auth=False)))
    async with httpx.AsyncClient(transport=mounted, base_url="http://localhost") as client:
        answer = await client.get("/metrics")
    assert (501, True) == (answer.status_code, "lifespan" in answer.json()["detail"])


async def test_without_the_database_all_but_the_queue_is_shown(memory):
    async with client_of(memory) as client:
        await memory.remember(ANA, "I live in Lisbon.")
        away = StorageUnavailable("away")
        with mock.patch.object(memory._storage.jobs, "job_stats", side_effect=away):
            memory._queue_size._read_again_at = 0.0
            found = samples((await client.get("/metrics")).text)
    assert "hippocampus_queue_depth" not in found
    assert "hippocampus_memories_remembered_total" in found


def names_in(expression: str) -> set[str]:
    """Return the metrics that an expression of PromQL reads."""
    plain = re.sub(r"\{[^}]*\}|\bby \([^)]*\)|\[[^\]]*\]", " ", expression)
    return set(re.findall(r"\b(?:hippocampus|db|http|process)_\w+", plain))


async def test_the_dashboard_reads_what_a_scrape_gives(memory, dsn):
    async with client_of(memory) as client:
        for texts in TEXTS.values():
            await use(memory, texts)
        await memory.append_events(ANA, "later", turns("I ski."), later=True)
        await memory.flush(60)
        await all_verbs.recall_without_model(dsn)
        await all_verbs.read_by_a_model(dsn)
        await all_verbs.search_without_database(memory)
        await all_verbs.wait_for_a_busy_pool()
        telemetry.model_call_failed("model", ValueError())
        await client.post("/recall", json={"user_id": "ana", "query": "tea"})
        given = samples((await client.get("/metrics")).text)
    page = json.loads((DOCS / "grafana.json").read_text("utf-8"))
    targets = [one for panel in page["panels"] for one in panel.get("targets", ())]
    read = {name for target in targets for name in names_in(target["expr"])}
    how_to = (DOCS / "how-to" / "monitor.md").read_text("utf-8")
    alerts = how_to.split("```promql\n")[1].split("```")[0]
    assert 4 == len(names_in(alerts))
    assert set() == (read | names_in(alerts)) - given.keys()
    labels = {label for at in given.values() for points_at in at for label, _ in points_at}
    used = set(re.findall(r"\b(?:hippocampus|db|http|gen_ai)_\w+(?==)", str(page)))
    used |= set(re.findall(r"\{\{(\w+)\}\}", str(page))) - {"instance"}
    assert set() == used - labels
    # What the project counts, it shows.
    own = {re.sub(r"\W", "_", metric.name) for metric in METRICS}
    assert [] == [one for one in own if not any(name.startswith(one) for name in read)]


@contextmanager
def collector() -> Iterator[tuple[str, dict[str, list[bytes]]]]:
    """Yield the address of a collector, and the bodies that it receives by path."""
    received: dict[str, list[bytes]] = {}

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.setdefault(self.path, []).append(body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", received
        finally:
            server.shutdown()
            serving.join()


def names_sent(received: dict[str, list[bytes]]) -> set[str]:
    """Return the names of the metrics that a collector received."""
    return {
        metric.name
        for body in list(received.get("/v1/metrics", ()))
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def spans_sent(received: dict[str, list[bytes]]) -> str:
    """Return the spans that a collector received, as text."""
    return str([ExportTraceServiceRequest.FromString(one) for one in received["/v1/traces"]])


def wait_until_sent(
    wanted: set[str], received: dict[str, list[bytes]], sender: subprocess.Popen[Any]
) -> None:
    """Return when a collector has received these metrics, or their sender has ended."""
    while not wanted <= names_sent(received) and sender.poll() is None:
        time.sleep(0.05)


async def test_a_worker_sends_its_metrics_and_spans_to_a_collector(dsn):
    async with open_memory(dsn, worker=False) as memory:
        await memory.append_events(Scope("app", "ana"), "t", turns("I live in Lisbon."), later=True)
    wanted = {f"hippocampus.{one}" for one in ("job.duration", "turns.consolidated", "queue.depth")}
    with collector() as (address, received):
        command = [
            str(Path(sys.executable).with_name("opentelemetry-instrument")),
            sys.executable, "-m", "shared_core.cli.main", "worker", "--uri", dsn,
        ]  # fmt: skip
        settings = {
            "OTEL_SERVICE_NAME": "hippocampus-worker", "OTEL_EXPORTER_OTLP_ENDPOINT": address,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_METRIC_EXPORT_INTERVAL": "200",
        }  # fmt: skip
        with subprocess.Popen(
            command, env=os.environ | settings, stderr=subprocess.PIPE, text=True
        ) as worker:
            try:
                await asyncio.to_thread(wait_until_sent, wanted, received, worker)
                worker.send_signal(signal.SIGTERM)
                _, log = await asyncio.to_thread(worker.communicate)
            finally:
                worker.kill()
    assert 0 == worker.returncode, log
    assert wanted <= names_sent(received), log
    spans = spans_sent(received)
    assert "hippocampus.job" in spans and "hippocampus.consolidate" in spans
    assert "Lisbon" not in spans + str(received)


def test_a_server_is_scraped_and_sends_to_a_collector_too(dsn, tmp_path, monkeypatch):
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
    wanted = {"hippocampus.recall.hits", "hippocampus.queue.depth", "http.server.request.duration"}
    with collector() as (address, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with serving(dsn, tmp_path / "log") as server:
            question = {"user_id": "ana", "query": "Where is Lisbon?"}
            httpx.post(f"{server.url}/recall", json=question, timeout=60)
            assert "hippocampus_recall_hits" in httpx.get(f"{server.url}/metrics", timeout=60).text
            wait_until_sent(wanted, received, server.process)
            server.process.send_signal(signal.SIGTERM)
            assert 0 == server.process.wait(60), server.log()
    spans = spans_sent(received)
    assert "POST /recall" in spans and "hippocampus.recall" in spans
    assert "Lisbon" not in spans
