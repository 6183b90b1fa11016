"""Profiles with a language model: what it adds, and what is not believed of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shared_core import MemoryEngine, Scope, open_memory
from shared_core.errors import ModelUnavailable
from shared_core.profiles.memory import Memory
from tests.unit.scripted_model import ScriptedModel

ANN = Scope("app", "ann")
SAID = {
    "conversation_id": "c",
    "messages": [
        {"role": "user", "content": "Honestly the rain up here in Leeds gets to me.",
         "timestamp": "2026-03-02T09:00:00+00:00"},
        {"role": "assistant", "content": "Where would you rather be?",
         "timestamp": "2026-03-02T09:01:00+00:00"},
        {"role": "user", "content": "Somewhere dry. Mia says Seville, she usually wins.",
         "timestamp": "2026-03-02T09:02:00+00:00"},
    ],
}  # fmt: skip
FACTS = {
    "facts": [{"turns": [1], "subject": "user", "slot": "residence", "value": "Leeds",
               "statement": "User lives in Leeds.", "confidence": 0.9,
               "importance": 8, "privacy": "private"}],
    "statements": [], "insights": [], "relations": [], "feelings": [],
}  # fmt: skip
SUMMARY = {"summary": "The user is tired of the rain in Leeds and thinks of moving to Seville."}
MIND = {
    "intent": [{"turns": [3], "label": "move", "text": "The user wants to move somewhere dry.",
                "confidence": 0.8}],
    "emotion": [{"turns": [1], "label": "weariness", "text": "The user is worn down by the rain.",
                 "confidence": 0.99, "valence": -0.6}],
    "cognition": [{"turns": [], "text": "Nothing shows this.", "confidence": 1}],
    "social": [{"turns": ["turn 3"], "label": "Mia", "text": "The user follows Mia's advice.",
                "confidence": "70%"}, {"turns": [2], "text": "Said by the agent alone."}],
    "trends": [{"turns": [99], "text": "Of a turn that is not there.", "confidence": 1}],
}  # fmt: skip


@asynccontextmanager
async def learning(dsn: str, *answers: object) -> AsyncIterator[tuple[MemoryEngine, ScriptedModel]]:
    model = ScriptedModel(*answers)
    async with open_memory(dsn, llm=model, worker=False) as memory:
        yield memory, model


async def test_a_model_reads_what_rules_cannot_and_every_finding_has_evidence(dsn: str) -> None:
    async with learning(dsn, FACTS, SUMMARY, MIND) as (memory, model):
        repository = memory.profiles.repository(ANN)
        known, result = await repository.update_with_pipeline(Memory("bot"), SAID)
    assert "User lives in Leeds." == known.get_profile_content()
    assert [SUMMARY["summary"]] == known.get_event_content()
    assert {"intent": "move", "emotion": "weariness", "social": "Mia"} == {
        one.dimension: one.label for one in known.mind.findings
    }
    [feeling] = known.mind.of("emotion")
    assert (0.95, -0.6) == (feeling.confidence, feeling.valence)
    assert ("Honestly the rain up here in Leeds gets to me.",) == feeling.quotes
    [social] = known.mind.of("social")
    assert 0.7 == social.confidence and "mind.v1/" in social.extractor
    assert 3 == result.usage.calls == len(model.asked)
    assert {"success"} == {stage.status for stage in result.stages}


async def test_a_useless_answer_is_asked_for_once_more(dsn: str) -> None:
    async with learning(dsn, FACTS, SUMMARY, "Sure! Here you go.", MIND) as (memory, model):
        repository = memory.profiles.repository(ANN)
        known, _ = await repository.update_with_pipeline(Memory("bot"), SAID)
    assert known.mind.of("intent")
    assert "Your answer before could not be used" in model.asked[-1].prompt


async def test_rubbish_gives_way_to_the_rules_and_says_so(dsn: str) -> None:
    rubbish = ["no", "nothing", "no", "rubbish {", "[]]"]
    async with learning(dsn, *rubbish) as (memory, model):
        repository = memory.profiles.repository(ANN)
        known, result = await repository.update_with_pipeline(Memory("bot"), SAID)
        history = await repository.get_pipeline_history(known.memory_id)
    assert [] == model.answers
    assert "" == known.get_profile_content()
    assert all(one.confidence <= 0.6 and "rules" in one.extractor for one in known.mind.findings)
    warned = {one.record.stage: one.record.error for one in history
              if one.record.status == "warning"}  # fmt: skip
    assert {"modification", "theory_of_mind"} == {*warned}
    assert {"ModelOutputInvalid"} == {*warned.values()}
    assert "ModelOutputInvalid" == result.theory_of_mind.fallback


async def test_a_model_that_is_away_writes_nothing(dsn: str) -> None:
    async with learning(dsn, ModelUnavailable("down")) as (memory, _):
        repository = memory.profiles.repository(ANN)
        with pytest.raises(ModelUnavailable):
            await repository.update_with_pipeline(Memory("bot"), SAID)
        assert None is await repository.load_memory_by_agent("bot")
        assert [] == list(await repository.get_recent_conversations())


async def test_a_model_is_not_asked_again_when_somebody_else_came_first(dsn: str) -> None:
    async with learning(dsn) as (memory, model):
        answers: dict[str, Callable[[], object]] = {
            "Extraction": lambda: FACTS, "Summary": lambda: SUMMARY, "Mind": lambda: MIND,
        }  # fmt: skip

        async def complete(request: Any) -> Any:
            model.answers.append(answers[request.schema["title"]]())
            return await ScriptedModel.complete(model, request)

        model.complete = complete  # type: ignore[method-assign]
        repository = memory.profiles.repository(ANN)
        start = Memory("bot")
        given = [{**SAID, "conversation_id": f"c{number}"} for number in range(4)]
        done = await asyncio.gather(*(repository.update_with_pipeline(start, one) for one in given))
        assert 12 == len(model.asked)
        assert max(result.tries for _, result in done) > 1
        kept = await repository.load_memory_by_agent("bot")
    assert kept is not None and "User lives in Leeds." == kept.get_profile_content()
    [home] = kept.profile_memory.statements
    assert 4 == len(home.bases)


async def test_a_secret_in_an_answer_is_not_kept(dsn: str) -> None:
    told = {**MIND, "intent": [{"turns": [1], "text": "The user's password is hunter2.",
                                "confidence": 1}]}  # fmt: skip
    async with learning(dsn, FACTS, SUMMARY, told) as (memory, _):
        repository = memory.profiles.repository(ANN)
        known, _ = await repository.update_with_pipeline(Memory("bot"), SAID)
    assert "hunter2" not in str(known.to_dict())
