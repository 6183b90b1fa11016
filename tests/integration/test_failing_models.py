"""A model that fails while a caller waits: the turns are stored, and the queue tries again."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.runners import InMemoryRunner
from google.adk.sessions.session import Session
from google.genai.types import UserContent
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
OSLO = "I live in Oslo."
DOWN, FULL = ModelUnavailable("down"), ModelQuotaExceeded("full", retry_after_s=90)


def session(*texts: str) -> Session:
    events = [Event(id=f"e{number}", author="user", invocation_id="i", content=UserContent(text))
              for number, text in enumerate(texts or [OSLO], 1)]  # fmt: skip
    return Session(app_name="app", user_id="ann", id="s", events=events)


class SummingUpApart(ModelExtractor):
    """An extractor that reads and sums up in two calls."""

    summing_up = None  # type: ignore[assignment]


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
async def served(
    dsn: str, clock: Clock | None = None, wait: bool = True, worker: bool = False, **options: Any
) -> AsyncIterator[Any]:
    engine = open_memory(dsn, clock=clock, worker=worker, **options)
    async with engine, OpenMemoryService(engine=engine, wait=wait) as service:
        yield service


async def values(service: OpenMemoryService) -> list[object]:
    return [fact.value for fact in await service.engine.facts(ANN)]


async def done(service: OpenMemoryService, clock: Clock, seconds: float) -> int:
    """Return how many jobs are done after so many seconds."""
    clock.forward(seconds)
    return (await service.engine.jobs.serve(once=True)).done


@pytest.mark.parametrize(("error", "wait_s"), [(DOWN, (2, 4)), (FULL, (90, 99))])
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
        assert 1 == await done(service, now, 100)
        assert ["Oslo"] == await values(service)


async def test_what_rules_read_is_read_again_by_the_model_once_it_answers(dsn, now, caplog):
    model = Answering(DOWN)
    async with served(dsn, now, llm=model) as service:
        engine = service.engine
        with pytest.raises(ModelUnavailable, match="down"):
            await service.add_session_to_memory(session())
        for _ in range(5):
            assert [] == await values(service)
            await done(service, now, 600)
        for seconds in (0, 600):  # the model fails again: what the rules read is there all the same
            await done(service, now, seconds)
            [fact] = await engine.facts(ANN)
            assert ("Oslo", "rules") == (fact.value, fact.extractor[:5])
            assert [("pending", 4)] == jobs(dsn)
        model.answers = [*ANSWERS]
        assert 1 == await done(service, now, 600)
        [fact] = await engine.facts(ANN)
        assert ("Oslo", "llm") == (fact.value, fact.extractor[:3])
        assert [] == await engine.jobs.list() and 7 == engine.runs.failed_model_calls
    assert not any(one.exc_info for one in caplog.records if one.levelno > logging.DEBUG)
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert 7 == sum("ModelUnavailable: down" in one for one in told) == len(told)


class Refused(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(OSLO)
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
        assert 1 == await done(service, now, 120)
        assert ["Oslo"] == await values(service)


async def test_failed_calls_count_for_both_faces_and_as_a_metric(dsn):
    async with open_memory(dsn, llm=Answering(Refused(401))) as engine:
        grown = Growth()
        plugin = MemoryPlugin(service=OpenMemoryService(engine=engine))
        agent = LlmAgent(name="assistant", model=OfflineModel())
        app = App(name="app", root_agent=agent, plugins=[plugin])
        async with InMemoryRunner(app=app) as runner:
            await runner.run_debug(OSLO, user_id="ann", quiet=True)
            assert not await plugin.flush(60)
        middleware = HippocampusMiddleware(PgHippocampusStore(engine=engine), app="app")
        assert 1 == plugin.failures == middleware.failures
        failed = {"gen_ai.request.model": f"{__name__}.Answering", "error.type": "ModelKeyRefused"}
        assert 1 == grown.of("hippocampus.model.failures", failed)


async def test_flush_sees_what_failed_done(dsn):
    async with served(dsn, worker=True, llm=Answering(DOWN, *ANSWERS)) as service:
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

    async with served(dsn, llm=ask) as service:
        adding = asyncio.create_task(service.add_session_to_memory(session()))
        await begun.wait()
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert [("pending", 0)] == jobs(dsn)


async def test_an_embedder_that_fails_loses_no_turn(dsn, now):
    answers = [ModelUnavailable("away")]

    def embed(texts: Sequence[str]) -> list[list[float]]:
        if answers:
            raise answers.pop()
        return [[1.0, 2.0] for _ in texts]

    async with served(dsn, now, embedder=embed) as service:
        with pytest.raises(ModelUnavailable, match="away"):
            await service.add_session_to_memory(session())
        assert [("pending", 0)] == jobs(dsn)
        [hit] = await service.engine.recall(ANN, "Oslo")
        assert "similarity" not in hit.parts
        assert 1 == await done(service, now, 60)
        [hit] = await service.engine.recall(ANN, "Oslo", kinds=["episodic"])
        assert "similarity" in hit.parts
        assert ["Oslo"] == await values(service)


@pytest.mark.parametrize("error", [FULL, OSError("cut")])
@pytest.mark.parametrize("waits", [False, True])
async def test_what_was_read_before_a_summary_of_its_own_failed_is_kept(dsn, now, error, waits):
    read, summary = ANSWERS
    answering = resolve_language_model(Answering(read, *[error] * (1 + waits), summary))
    model = SummingUpApart(answering, RuleExtractor())
    async with served(dsn, now, extractor=model, wait=waits) as service:
        with pytest.raises(ModelUnavailable, match=str(error)) if waits else nullcontext():
            await service.add_session_to_memory(session())
        if not waits:
            await done(service, now, 0)
        assert ["Oslo"] == await values(service)
        now.forward(100)
        report = await service.engine.jobs.serve(once=True)
        assert 0 == report.failed and (not waits or 1 == report.done)
        [told] = await service.engine.list_memories(ANN, kinds=["summary"])
        assert "She lives in Oslo." == told.text
        assert [] == await service.engine.jobs.list()
        assert [1, 1] == [run.counts["model_calls"] for run in await service.engine.runs(ANN)]
