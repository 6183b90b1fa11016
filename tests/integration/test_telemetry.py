"""Spans and metrics of the memory, and of requests to it, by a real SDK of OpenTelemetry."""

import asyncio
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import WeakSet

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from scripted_chat import ScriptedChatModel
from warm_python import warm_python

from langgraph_store import HippocampusMiddleware, PgHippocampusStore
from shared_core import Scope, open_memory
from shared_core.core import telemetry
from shared_core.core.digest_cache import DigestCache
from shared_core.core.telemetry import METRICS
from shared_core.errors import InvalidInput, StorageUnavailable
from shared_core.models.embedders import E5Embedder
from tests.integration.all_verbs import (
    ANA,
    TEXTS,
    recall_without_model,
    search_without_database,
    turns,
    use,
    wait_for_a_busy_pool,
)
from tests.integration.http_clients import client_of
from tests.integration.telemetry_sdk import Growth, listening, points, values

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
    system = "postgresql"
    assert 0 < grown.of("db.client.connection.wait_time", {"db.system.name": system})
    assert {
        (None, "hippocampus.append"),
        ("hippocampus.append", "hippocampus.embed"),
        (None, "hippocampus.consolidate"),
        (None, "hippocampus.recall"),
        ("hippocampus.recall", "hippocampus.embed"),
        ("hippocampus.context", "hippocampus.recall"),
        ("hippocampus.search", "hippocampus.embed"),
        (None, "hippocampus.erase"),
    } <= tree(spans)


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
    [failed] = [
        span
        for span in spans.get_finished_spans()
        if span.attributes and span.attributes.get("error.type") == "InvalidInput"
    ]
    assert ("hippocampus.append", ()) == (failed.name, failed.events)
    assert (StatusCode.ERROR, None) == (failed.status.status_code, failed.status.description)


async def test_without_an_embedder_recall_is_degraded(dsn, spans):
    grown = Growth()
    assert await recall_without_model(dsn)
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
        found = points()
        assert {"waiting": 1, "due": 2, "running": 0, "dead": 0} == {
            point.attributes["hippocampus.job.state"]: point.value for point in found[QUEUE]
        }
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
    class Broken:
        name = "broken"

        async def extract(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no fact for you")

    grown = Growth()
    async with open_memory(dsn) as memory:
        await memory.append_events(ANA, "good", turns("I live in Lisbon."), later=True)
        assert await memory.flush(60)
    done = {"hippocampus.job.type": "full_consolidation", "hippocampus.job.outcome": "done"}
    assert 1 == grown.of("hippocampus.job.duration", done)
    assert {
        (None, "hippocampus.job"),
        ("hippocampus.job", "hippocampus.consolidate"),
        ("hippocampus.job", "hippocampus.embed"),
    } <= tree(spans)
    async with open_memory(dsn, worker=False, extractor=Broken()) as memory:
        await memory.append_events(ANA, "bad", turns("I live in Porto."))
        assert "failed" == (await memory.jobs.run(ANA, "bad")).status
        memory._queue_size._read_again_at = 0.0
        dead = {point.attributes["hippocampus.job.state"]: point.value for point in points()[QUEUE]}
    assert 1 == dead["dead"]
    assert 1 == grown.of("hippocampus.job.duration", done | {"hippocampus.job.outcome": "given_up"})
    assert "no fact" not in str([span.to_json() for span in spans.get_finished_spans()])


async def test_searches_that_a_framework_goes_on_without_are_counted(memory):
    grown, name = Growth(), "hippocampus.searches.failed"
    away = StorageUnavailable("away")
    middleware = HippocampusMiddleware(
        PgHippocampusStore(engine=memory), app="app", user_id="ann", thread_id="one"
    )
    agent = create_agent(ScriptedChatModel(), middleware=[middleware])
    await search_without_database(memory)
    assert 1 == grown.of(name, {"hippocampus.framework": "adk"})
    with mock.patch.object(memory, "recall", new=mock.AsyncMock(side_effect=away)):
        await agent.ainvoke({"messages": [HumanMessage("Which tea do I like?")]})
    failed = {"hippocampus.framework": "langgraph", "error.type": "StorageUnavailable"}
    assert 1 == grown.of(name, failed)


async def test_calls_that_get_no_connection_are_counted():
    grown = Growth()
    await wait_for_a_busy_pool()
    assert 1 == grown.of("db.client.connection.timeouts", {"db.system.name": "postgresql"})
    assert 1 == grown.of("db.client.connection.wait_time", {"db.system.name": "postgresql"})


async def test_a_request_is_a_span_of_the_callers_trace(memory, spans):
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    async with client_of(memory) as client:
        question = {"user_id": "ana", "query": "my very own words"}
        await client.post("/recall", json=question, headers=headers)
        await client.post("/recall", content=b"{", headers={"Content-Type": "text/plain"})
    ended = spans.get_finished_spans()
    requests = {
        span.attributes["http.response.status_code"]: span
        for span in ended
        if span.kind is SpanKind.SERVER
    }
    assert {200, 415} == set(requests)
    assert "POST /recall" == requests[200].name
    [recall] = [span for span in ended if span.name == "hippocampus.recall"]
    assert requests[200].context.trace_id == recall.context.trace_id
    assert TRACE == f"{requests[200].context.trace_id:032x}"
    assert not [span for span in ended if "very own words" in str(span.to_json())]


def test_names_are_of_one_form():
    assert len(METRICS) == len({metric.name for metric in METRICS})
    for metric in METRICS:
        assert metric.name.startswith(("hippocampus.", "db.client.")), metric
        assert metric.unit == "s" or metric.unit.startswith("{"), metric
        assert metric.description.endswith("."), metric
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric


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
