"""Profiles that follow consolidation by themselves, and profiles with a language model.

What a model adds, and what is not believed of it.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from tenacity import wait_fixed
from turns import said

from shared_core import Event, InvalidInput, MemoryEngine, Scope, open_memory, run_sync
from shared_core.errors import ModelUnavailable
from shared_core.ports.jobs import JobStatus, JobType
from shared_core.profiles.memory import Memory
from shared_core.profiles.pipeline import ProfilePipeline
from shared_core.profiles.repository import MemoryRepository
from shared_core.settings import load_settings
from tests.unit.scripted_model import ScriptedModel


@dataclass
class User:
    """A user of a memory whose profiles follow."""

    memory: MemoryEngine
    scope: Scope

    def __post_init__(self) -> None:
        self.desk = self.memory.profiles.of(self.scope)

    async def say(self, *turns: Event, thread: str = "t", later: bool = False) -> None:
        await self.memory.append_events(self.scope, thread, turns, later=later)

    async def read(self, *turns: Event, thread: str = "t") -> None:
        """Say something, and have the thread consolidated."""
        if turns:
            await self.say(*turns, thread=thread)
        await self.memory.consolidate(self.scope, thread)

    async def tell(self, conversation_id: str, *texts: str) -> None:
        """Update the profile with a conversation."""
        messages = [{"role": "user", "content": text} for text in texts]
        await self.desk.update({"conversation_id": conversation_id, "messages": messages})

    async def content(self) -> str:
        return (await self.desk.show()).get_profile_content()

    async def messages_read(self) -> list[object]:
        """Return how many messages each update of the profile has read, the newest first."""
        known = await self.desk.show()
        repository = self.memory.profiles.repository(self.scope)
        records = [one.record for one in await repository.get_pipeline_history(known.memory_id)]
        return [one.input["messages"] for one in records if one.stage == "modification"]


@pytest.fixture(scope="module")
def following(postgres):
    """A memory whose profiles follow; each test is a user in it."""
    for dsn in postgres.lend():
        memory = open_memory(dsn, profiles=True)
        yield memory
        run_sync(memory.close())


@pytest.fixture
def ann(following, scope):
    return User(following, scope)


async def test_a_thread_that_was_consolidated_in_the_background_is_in_the_profile(ann):
    turns = [said(1, "I live in Leeds."), said(2, "Nice.", role="agent"), said(3, "我想学习编程。")]
    await ann.say(*turns, later=True)
    assert await ann.memory.flush(60)
    known = await ann.desk.show()
    assert ("User lives in Leeds.", 1) == (known.get_profile_content(), known.version)
    assert known.mind.of("intent")
    await ann.say(said(4, "I live in Lisbon now."), later=True)
    assert await ann.memory.flush(60)
    known = await ann.desk.show()
    assert ("User lives in Lisbon.", 2) == (known.get_profile_content(), known.version)
    assert [1, 3] == await ann.messages_read()
    [event] = known.get_event_content()
    assert "Leeds" in event and "Lisbon" in event


async def test_by_default_no_profile_is_made(shared_memory, scope):
    ann = User(shared_memory, scope)
    await ann.read(said(1, "I live in Leeds."))
    assert None is await ann.desk.current()


async def test_consolidating_by_hand_and_a_session_that_ends_are_followed(ann):
    await ann.say(said(1, "I live in Leeds."))
    await ann.memory.consolidate(ann.scope, "t", job_type=JobType.FAST_REPLAY)
    assert None is await ann.desk.current()
    await ann.read()
    await ann.read()
    assert 1 == (await ann.desk.show()).version
    user, named = ann.scope.user, {"app": ann.scope.app}
    await ann.memory.process_memory("My daughter is called Mia.", user, **named)
    await ann.memory.end_session(user, **named)
    assert await ann.memory.flush(60)
    assert "Mia" in await ann.content()


async def test_a_long_thread_is_read_in_parts_and_what_was_forgotten_is_not(ann, monkeypatch):
    monkeypatch.setattr("shared_core.profiles.repository.FOLLOWED_AT_ONCE", 8)
    turns = [said(n, f"The weather on day {n} was fine.") for n in range(8 + 3)]
    await ann.say(*turns, said(999, "I live in Leeds."))
    await ann.memory.forget_turns(ann.scope, "t", ["e999"])
    await ann.read()
    assert [3, 8] == await ann.messages_read()
    assert "Leeds" not in (await ann.desk.show()).to_prompt()


async def test_what_fails_is_a_failed_job_and_made_up_for_when_it_is_tried_again(ann, monkeypatch):
    async def away(*args: object, **options: object) -> None:
        raise ModelUnavailable("away")

    memory = ann.memory
    with monkeypatch.context() as patched:
        patched.setattr(ProfilePipeline, "modification_stage", away)
        patched.setattr("shared_core.jobs.runner.POISON", wait_fixed(0.01))
        await ann.say(said(1, "I live in Leeds."), later=True)
        assert not await memory.flush(60)
    assert "Leeds" in [fact.value for fact in await memory.facts(ann.scope)]
    [job] = await memory.jobs.list(ann.scope, statuses=[*JobStatus])
    assert (JobStatus.FAILED, True) == (job.status, "ModelUnavailable" in (job.error or ""))
    assert None is await ann.desk.current()
    await memory.jobs.retry([job.job_id])
    assert await memory.flush(60)
    assert "User lives in Leeds." == await memory.profiles.shown(ann.scope)


def test_the_setting_is_off_unless_the_environment_says_on(monkeypatch):
    assert not load_settings().profiles
    monkeypatch.setenv("HIPPOCAMPUS_PROFILES", "on")
    assert load_settings().profiles
    monkeypatch.setenv("HIPPOCAMPUS_PROFILES", "yes")
    with pytest.raises(InvalidInput, match="HIPPOCAMPUS_PROFILES must be 'on' or 'off'"):
        load_settings()


async def test_a_rollback_is_not_undone_by_what_is_said_next(ann):
    await ann.tell("k1", "I live in Leeds.")
    await ann.tell("k2", "I live in Lisbon now. I love jazz.")
    await ann.desk.rollback(1)
    await ann.read(said(9, "My cat is called Tom."), thread="k2")
    await ann.read(thread="k1")
    content = await ann.content()
    assert "Leeds" in content and "Tom" in content
    assert "Lisbon" not in content and "jazz" not in content


async def test_what_was_said_before_a_conversation_that_was_given_is_followed(ann):
    await ann.say(said(1, "I live in Leeds."))
    await ann.tell("t", "I love jazz.")
    await ann.read()
    content = await ann.content()
    assert "Leeds" in content and "jazz" in content
    assert 2 == (await ann.desk.show()).version


async def test_a_deleted_profile_does_not_come_back_by_itself(ann):
    await ann.read(said(1, "I live in Leeds."), said(2, "I love tea."))
    await ann.tell("k", "I own a boat.")
    repository = ann.memory.profiles.repository(ann.scope)
    for _ in range(2):
        assert await repository.delete_memory((await ann.desk.show()).memory_id)
        for thread in ("t", "k"):
            await ann.read(thread=thread)
        assert None is await ann.desk.current()
        await ann.read(said(3, "I love jazz."))
        if (known := await ann.desk.current()) is None:
            break
        assert "User likes jazz." == known.get_profile_content()
    else:
        raise AssertionError("a turn that was read came back")


async def test_a_thread_that_was_erased_is_followed_anew(ann):
    await ann.tell("t", "I live in Leeds.", "I love tea.")
    await ann.read(said(1, "I love jazz."))
    assert await ann.memory.flush(60)  # what the update left to the worker
    await ann.memory.erase(ann.scope, "t")
    await ann.read(said(2, "My cat is called Tom."))
    assert "Tom" in await ann.content()


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
               "statement": "User lives in Leeds."}],
    "summary": "The user is tired of the rain in Leeds and thinks of moving to Seville.",
}  # fmt: skip
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


@dataclass
class Learner:
    """A profile that a model makes, which a test tells what to answer."""

    model: ScriptedModel
    repository: MemoryRepository

    async def update(self, *answers: object) -> tuple[Memory, Any]:
        self.model.answers = [*answers]
        return await self.repository.update_with_pipeline(Memory("bot"), SAID)


@pytest.fixture(scope="module")
def learning(postgres):
    """A memory with a model; each test is a user in it."""
    for dsn in postgres.lend():
        model = ScriptedModel()
        memory = open_memory(dsn, llm=model, worker=False)
        yield model, memory
        run_sync(memory.close())


@pytest.fixture
def learner(learning, scope):
    model, memory = learning
    model.asked, model.answers = [], []
    return Learner(model, memory.profiles.repository(scope))


async def test_a_model_reads_what_rules_cannot_and_every_finding_has_evidence(learner):
    known, result = await learner.update(FACTS, MIND)
    assert "User lives in Leeds." == known.get_profile_content()
    assert [FACTS["summary"]] == known.get_event_content()
    assert {"intent": "move", "emotion": "weariness", "social": "Mia"} == {
        one.dimension: one.label for one in known.mind.findings
    }
    [feeling] = known.mind.of("emotion")
    assert (0.95, -0.6) == (feeling.confidence, feeling.valence)
    assert ("Honestly the rain up here in Leeds gets to me.",) == feeling.quotes
    [social] = known.mind.of("social")
    assert 0.7 == social.confidence and "mind.v1/" in social.extractor
    assert 2 == result.usage.calls == len(learner.model.asked)
    assert {"success"} == {stage.status for stage in result.stages}


async def test_a_useless_answer_is_asked_for_once_more(learner):
    known, _ = await learner.update(FACTS, "Sure! Here you go.", MIND)
    assert known.mind.of("intent")
    assert "Your answer before could not be used" in learner.model.asked[-1].prompt


async def test_rubbish_gives_way_to_the_rules_and_says_so(learner):
    known, result = await learner.update("no", "nothing", "rubbish {", "[]]")
    history = await learner.repository.get_pipeline_history(known.memory_id)
    assert [] == learner.model.answers
    assert "" == known.get_profile_content()
    assert all(one.confidence <= 0.6 and "rules" in one.extractor for one in known.mind.findings)
    warned = {one.record.stage: one.record.error for one in history
              if one.record.status == "warning"}  # fmt: skip
    assert {"modification", "theory_of_mind"} == {*warned}
    assert {"ModelOutputInvalid"} == {*warned.values()}
    assert "ModelOutputInvalid" == result.theory_of_mind.fallback


async def test_a_model_that_is_away_writes_nothing(learner):
    with pytest.raises(ModelUnavailable):
        await learner.update(ModelUnavailable("down"))
    assert None is await learner.repository.load_memory_by_agent("bot")
    assert [] == list(await learner.repository.get_recent_conversations())


async def test_a_model_is_not_asked_again_when_somebody_else_came_first(learner, monkeypatch):
    answers = {"Extraction": FACTS, "Mind": MIND}
    model, repository, start = learner.model, learner.repository, Memory("bot")

    async def complete(request: Any) -> Any:
        model.answers.append(answers[request.schema["title"]])
        return await ScriptedModel.complete(model, request)

    monkeypatch.setattr(model, "complete", complete)
    given = [{**SAID, "conversation_id": f"c{number}"} for number in range(4)]
    done = await asyncio.gather(*(repository.update_with_pipeline(start, one) for one in given))
    assert 8 == len(model.asked)
    assert max(result.tries for _, result in done) > 1
    kept = await repository.load_memory_by_agent("bot")
    assert kept is not None and "User lives in Leeds." == kept.get_profile_content()
    [home] = kept.profile_memory.statements
    assert 4 == len(home.bases)


async def test_a_secret_in_an_answer_is_not_kept(learner):
    told = [{"turns": [1], "text": "The user's password is hunter2.", "confidence": 1}]
    known, _ = await learner.update(FACTS, {**MIND, "intent": told})
    assert "hunter2" not in str(known.to_dict())
