"""A model that fails while a caller waits: the turns are stored, and the queue tries again."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.runners import InMemoryRunner
from google.adk.sessions.session import Session
from google.genai import types
from turns import Clock

from adk_memory import MemoryPlugin, OfflineModel, OpenMemoryService
from langgraph_store import HippocampusMiddleware, PgHippocampusStore
from shared_core import ModelQuotaExceeded, ModelUnavailable, Scope, open_memory
from shared_core.extraction import ModelExtractor, RuleExtractor
from shared_core.models import resolve_language_model
from tests.integration.telemetry_sdk import Growth
from tests.integration.test_queue import jobs, now

__all__ = ["now"]

ANN = Scope("app", "ann")
READ = {"facts": [{"turns": [1], "slot": "city", "value": "Oslo", "statement": "In Oslo."}]}
ANSWERS = (json.dumps(READ), json.dumps({"summary": "She lives in Oslo."}))


def session() -> Session:
    said = types.Content(role="user", parts=[types.Part(text="I live in Oslo.")])
    event = Event(id="e1", author="user", invocation_id="i", content=said)
    return Session(app_name="app", user_id="ann", id="s", events=[event])


class SummingUpApart(ModelExtractor):
    """An extractor that reads and sums up in two calls."""

    summing_up = None  # type: ignore[assignment]


def apart(*answers: object) -> SummingUpApart:
    return SummingUpApart(resolve_language_model(Answering(*answers)), RuleExtractor())


class Answering:
    """A model that gives one answer after another; the last one for ever. Errors are raised."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    async def __call__(self, prompt: str) -> str:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return str(answer)


@asynccontextmanager
async def served(dsn: str, clock: Clock, wait: bool = True, **options: Any) -> AsyncIterator[Any]:
    engine = open_memory(dsn, clock=clock, worker=False, **options)
    async with engine, OpenMemoryService(engine=engine, wait=wait) as service:
        yield service


async def values(service: OpenMemoryService) -> list[object]:
    return [fact.value for fact in await service.engine.facts(ANN)]


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [(ModelUnavailable("down"), (2, 4)), (ModelQuotaExceeded("full", retry_after_s=90), (90, 99))],
)
async def test_who_waits_hears_of_the_failure_and_the_queue_tries_again(dsn, now, error, wait_s):
    async with served(dsn, now, llm=Answering(error, *ANSWERS)) as service:
        with pytest.raises(type(error), match=str(error)) as raised:
            await service.add_session_to_memory(session())
        note = "The turns are stored, and a job in the queue tries again."
        assert [note] == raised.value.__notes__
        assert (await service.search_memory(app_name="app", user_id="ann", query="Oslo")).memories
        assert [("pending", 0)] == jobs(dsn)
        [job] = await service.engine.jobs.list()
        assert wait_s[0] <= (job.run_after - now()).total_seconds() <= wait_s[1]
        now.forward(100)
        assert 1 == (await service.engine.jobs.serve(once=True)).done
        assert ["Oslo"] == await values(service)


async def test_what_rules_read_is_read_again_by_the_model_once_it_answers(dsn, now, caplog):
    model = Answering(ModelUnavailable("down"))
    async with served(dsn, now, llm=model) as service:
        engine = service.engine
        with pytest.raises(ModelUnavailable, match="down"):
            await service.add_session_to_memory(session())
        for _ in range(5):
            assert [] == await values(service)
            now.forward(minutes=10)
            await engine.jobs.serve(once=True)
        for minutes in (0, 10):  # the model fails again: what the rules read is there all the same
            now.forward(minutes=minutes)
            await engine.jobs.serve(once=True)
            [fact] = await engine.facts(ANN)
            assert ("Oslo", "rules") == (fact.value, fact.extractor[:5])
            assert [("pending", 4)] == jobs(dsn)
        model.answers = [*ANSWERS]
        now.forward(minutes=10)
        assert 1 == (await engine.jobs.serve(once=True)).done
        [fact] = await engine.facts(ANN)
        assert ("Oslo", "llm") == (fact.value, fact.extractor[:3])
        assert [] == await engine.jobs.list() and 7 == engine.runs.failed_model_calls
    assert not any(one.exc_info for one in caplog.records if one.levelno > logging.DEBUG)
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert 7 == sum("ModelUnavailable: down" in one for one in told) == len(told)


class Refused(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__("I live in Oslo.")
        self.status_code = status_code


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_stops_the_reading_until_it_is_mended(dsn, now, caplog, status):
    model = Answering(Refused(status))
    async with served(dsn, now, llm=model, wait=False) as service:
        engine = service.engine
        await service.add_session_to_memory(session())
        for half_minutes in range(12):  # asked once a minute, and as often as it takes
            await engine.jobs.serve(once=True)
            assert 1 + half_minutes // 2 == engine.runs.failed_model_calls
            assert [] == await values(service) and [("pending", 0)] == jobs(dsn)
            now.forward(31)
        assert not await service.flush(60)  # and does not wait for ever
        [line] = [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert f"status {status}, no valid key" in line.getMessage()
        assert "Oslo" not in line.getMessage() and not line.exc_info
        model.answers = [*ANSWERS]
        now.forward(minutes=2)
        assert 1 == (await engine.jobs.serve(once=True)).done
        assert ["Oslo"] == await values(service)


async def test_failed_calls_count_for_both_faces_and_as_a_metric(dsn):
    async with open_memory(dsn, llm=Answering(Refused(401))) as engine:
        grown = Growth()
        plugin = MemoryPlugin(service=OpenMemoryService(engine=engine))
        agent = LlmAgent(name="assistant", model=OfflineModel())
        app = App(name="app", root_agent=agent, plugins=[plugin])
        async with InMemoryRunner(app=app) as runner:
            await runner.run_debug("I live in Oslo.", user_id="ann", quiet=True)
            assert not await plugin.flush(60)
        middleware = HippocampusMiddleware(PgHippocampusStore(engine=engine), app="app")
        assert 1 == plugin.failures == middleware.failures
        failed = {"gen_ai.request.model": f"{__name__}.Answering", "error.type": "ModelKeyRefused"}
        assert 1 == grown.of("hippocampus.model.failures", failed)


async def test_flush_sees_what_failed_done(dsn):
    engine = open_memory(dsn, llm=Answering(ModelUnavailable("down"), *ANSWERS))
    async with engine, OpenMemoryService(engine=engine) as service:
        with pytest.raises(ModelUnavailable, match="down"):
            await service.add_session_to_memory(session())
        assert await service.flush(60)
        assert ["Oslo"] == await values(service)


async def test_a_caller_who_gives_up_waiting_leaves_the_rest_to_the_queue(dsn):
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def ask(prompt: str) -> str:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.sleep(60)
        return ""

    engine = open_memory(dsn, llm=ask, worker=False)
    async with engine, OpenMemoryService(engine=engine) as service:
        adding = asyncio.create_task(service.add_session_to_memory(session()))
        await begun.wait()
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert [("pending", 0)] == jobs(dsn)


async def test_an_embedder_that_fails_loses_no_turn(dsn, now):
    answers: list[object] = [ModelUnavailable("away")]

    def embed(texts: Sequence[str]) -> list[list[float]]:
        if answers:
            raise answers.pop()  # type: ignore[misc]
        return [[1.0, 2.0] for _ in texts]

    async with served(dsn, now, embedder=embed) as service:
        with pytest.raises(ModelUnavailable, match="away"):
            await service.add_session_to_memory(session())
        assert [("pending", 0)] == jobs(dsn)
        [hit] = await service.engine.recall(ANN, "Oslo")
        assert "similarity" not in hit.parts
        now.forward(minutes=1)
        assert 1 == (await service.engine.jobs.serve(once=True)).done
        [hit] = await service.engine.recall(ANN, "Oslo", kinds=["episodic"])
        assert "similarity" in hit.parts
        assert ["Oslo"] == await values(service)


@pytest.mark.parametrize("error", [ModelQuotaExceeded("full", retry_after_s=90), OSError("cut")])
async def test_what_was_read_before_the_summary_failed_is_kept_and_not_asked_again(dsn, now, error):
    read, summary = ANSWERS
    async with served(dsn, now, extractor=apart(read, error, summary), wait=False) as service:
        await service.add_session_to_memory(session())
        await service.engine.jobs.serve(once=True)
        assert ["Oslo"] == await values(service)
        now.forward(100)
        assert 0 == (await service.engine.jobs.serve(once=True)).failed
        [told] = await service.engine.list_memories(ANN, kinds=["summary"])
        assert "She lives in Oslo." == told.text
        assert [] == await service.engine.jobs.list()
        assert [1, 1] == [run.counts["model_calls"] for run in await service.engine.runs(ANN)]


async def test_a_summary_that_fails_while_a_caller_waits_is_raised_and_tried_again(dsn, now):
    read, summary = ANSWERS
    model = apart(read, *[ModelQuotaExceeded("full", retry_after_s=90)] * 2, summary)
    async with served(dsn, now, extractor=model) as service:
        with pytest.raises(ModelQuotaExceeded, match="full"):
            await service.add_session_to_memory(session())
        assert ["Oslo"] == await values(service)
        now.forward(100)
        assert 1 == (await service.engine.jobs.serve(once=True)).done
        [told] = await service.engine.list_memories(ANN, kinds=["summary"])
        assert "She lives in Oslo." == told.text
