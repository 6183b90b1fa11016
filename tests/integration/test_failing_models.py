"""A model that fails while a caller waits: the turns are stored, and the queue tries again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from google.adk.events import Event
from google.adk.sessions.session import Session
from google.genai import types

from adk_memory import OpenMemoryService
from shared_core import ModelQuotaExceeded, ModelUnavailable, Scope, open_memory
from tests.integration.test_queue import jobs

ANN = Scope("app", "ann")
READ = {"facts": [{"turns": [1], "slot": "city", "value": "Oslo", "statement": "In Oslo."}]}
ANSWERS = (json.dumps(READ), json.dumps({"summary": "She lives in Oslo."}))


def session() -> Session:
    said = types.Content(role="user", parts=[types.Part(text="I live in Oslo.")])
    event = Event(id="e1", author="user", invocation_id="i", content=said)
    return Session(app_name="app", user_id="ann", id="s", events=[event])


class Answering:
    """A model that gives one answer after another; the last one for ever. Errors are raised."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    async def __call__(self, prompt: str) -> str:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return str(answer)


async def values(service: OpenMemoryService) -> list[object]:
    return [fact.value for fact in await service.engine.facts(ANN)]


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [(ModelUnavailable("down"), (2, 4)), (ModelQuotaExceeded("full", retry_after_s=90), (90, 99))],
)
async def test_a_waiting_caller_hears_of_the_failure_and_the_queue_tries_again(
    dsn: str, error: Exception, wait_s: tuple[float, float]
) -> None:
    now = datetime.now(UTC)
    model = Answering(error, *ANSWERS)
    engine = open_memory(dsn, llm=model, clock=lambda: now, worker=False)
    async with engine, OpenMemoryService(engine=engine) as service:
        with pytest.raises(type(error), match=str(error)) as raised:
            await service.add_session_to_memory(session())
        assert ["The turns are stored, and a job in the queue tries again."] == (
            raised.value.__notes__
        )
        assert (await service.search_memory(app_name="app", user_id="ann", query="Oslo")).memories
        assert [("pending", 0)] == jobs(dsn)
        [job] = await engine.jobs.list()
        assert wait_s[0] <= (job.run_after - now).total_seconds() <= wait_s[1]
        now += timedelta(seconds=100)
        assert 1 == (await engine.jobs.serve(once=True)).done
        assert ["Oslo"] == await values(service)


async def test_the_rules_stand_in_at_the_last_try(dsn: str) -> None:
    now = datetime.now(UTC)
    engine = open_memory(
        dsn, llm=Answering(ModelUnavailable("down")), clock=lambda: now, worker=False
    )
    async with engine, OpenMemoryService(engine=engine) as service:
        with pytest.raises(ModelUnavailable, match="down"):
            await service.add_session_to_memory(session())
        for _ in range(5):
            assert [] == await values(service)
            now += timedelta(minutes=10)
            await engine.jobs.serve(once=True)
        assert ["Oslo"] == await values(service)
        assert [("completed", 5)] == jobs(dsn)


async def test_flush_sees_what_failed_done(dsn: str) -> None:
    engine = open_memory(dsn, llm=Answering(ModelUnavailable("down"), *ANSWERS))
    async with engine, OpenMemoryService(engine=engine) as service:
        with pytest.raises(ModelUnavailable, match="down"):
            await service.add_session_to_memory(session())
        assert await service.flush(60)
        assert ["Oslo"] == await values(service)


async def test_a_caller_who_gives_up_waiting_leaves_the_rest_to_the_queue(dsn: str) -> None:
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


async def test_an_embedder_that_fails_loses_no_turn(dsn: str) -> None:
    now = datetime.now(UTC)
    answers: list[object] = [ModelUnavailable("away")]

    def embed(texts: Sequence[str]) -> list[list[float]]:
        if answers:
            raise answers.pop()  # type: ignore[misc]
        return [[1.0, 2.0] for _ in texts]

    engine = open_memory(dsn, embedder=embed, clock=lambda: now, worker=False)
    async with engine, OpenMemoryService(engine=engine) as service:
        with pytest.raises(ModelUnavailable, match="away"):
            await service.add_session_to_memory(session())
        assert [("pending", 0)] == jobs(dsn)
        [hit] = await engine.recall(ANN, "Oslo")
        assert "similarity" not in hit.parts
        now += timedelta(minutes=1)
        assert 1 == (await engine.jobs.serve(once=True)).done
        [hit] = await engine.recall(ANN, "Oslo", kinds=["episodic"])
        assert "similarity" in hit.parts
        assert ["Oslo"] == await values(service)


@pytest.mark.parametrize("error", [ModelQuotaExceeded("full", retry_after_s=90), OSError("cut")])
async def test_what_was_read_before_the_summary_failed_is_kept_and_not_asked_again(
    dsn: str, error: Exception
) -> None:
    now = datetime.now(UTC)
    read, summary = ANSWERS
    model = Answering(read, error, summary)
    engine = open_memory(dsn, llm=model, clock=lambda: now, worker=False)
    async with engine, OpenMemoryService(engine=engine, wait=False) as service:
        await service.add_session_to_memory(session())
        await engine.jobs.serve(once=True)
        assert ["Oslo"] == await values(service)
        now += timedelta(seconds=100)
        assert 0 == (await engine.jobs.serve(once=True)).failed
        [told] = await engine.list_memories(ANN, kinds=["summary"])
        assert "She lives in Oslo." == told.text
        assert [] == await engine.jobs.list()
        assert [1, 1] == [run.counts["model_calls"] for run in await engine.runs(ANN)]


async def test_a_summary_that_fails_while_a_caller_waits_is_raised_and_tried_again(
    dsn: str,
) -> None:
    now = datetime.now(UTC)
    read, summary = ANSWERS
    model = Answering(read, *[ModelQuotaExceeded("full", retry_after_s=90)] * 2, summary)
    engine = open_memory(dsn, llm=model, clock=lambda: now, worker=False)
    async with engine, OpenMemoryService(engine=engine) as service:
        with pytest.raises(ModelQuotaExceeded, match="full"):
            await service.add_session_to_memory(session())
        assert ["Oslo"] == await values(service)
        now += timedelta(seconds=100)
        assert 1 == (await engine.jobs.serve(once=True)).done
        [told] = await engine.list_memories(ANN, kinds=["summary"])
        assert "She lives in Oslo." == told.text
