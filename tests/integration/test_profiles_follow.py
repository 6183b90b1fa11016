"""Profiles that follow consolidation by themselves, where that is switched on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tenacity import wait_fixed

from shared_core import Event, InvalidInput, MemoryEngine, Scope, open_memory
from shared_core.errors import ModelUnavailable
from shared_core.ports.jobs import JobStatus, JobType
from shared_core.profiles.pipeline import ProfilePipeline
from shared_core.profiles.repository import FOLLOWED_AT_ONCE
from shared_core.settings import load_settings

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


def turn(number: int, text: str, role: str = "user") -> Event:
    return Event(event_id=f"e{number}", author=role, role=role, text=text,  # type: ignore[arg-type]
                 occurred_at=START + timedelta(minutes=number))  # fmt: skip


@pytest.fixture
async def following(dsn: str) -> AsyncIterator[MemoryEngine]:
    async with open_memory(dsn, profiles=True) as memory:
        yield memory


async def test_a_thread_that_was_consolidated_in_the_background_is_in_the_profile(
    following: MemoryEngine, scope: Scope
) -> None:
    said = [turn(1, "I live in Leeds."), turn(2, "Nice.", "agent"), turn(3, "我想学习编程。")]
    await following.append_events(scope, "t", said, later=True)
    assert await following.flush(60)
    known = await following.profiles.of(scope).show()
    assert ("User lives in Leeds.", 1) == (known.get_profile_content(), known.version)
    assert known.mind.of("intent")
    await following.append_events(scope, "t", [turn(4, "I live in Lisbon now.")], later=True)
    assert await following.flush(60)
    known = await following.profiles.of(scope).show()
    assert ("User lives in Lisbon.", 2) == (known.get_profile_content(), known.version)
    history = await following.profiles.repository(scope).get_pipeline_history(known.memory_id)
    read = [one.record.input["messages"] for one in history if one.record.stage == "modification"]
    assert [1, 3] == read
    [event] = known.get_event_content()
    assert "Leeds" in event and "Lisbon" in event


async def test_by_default_no_profile_is_made(memory: MemoryEngine, scope: Scope) -> None:
    await memory.append_events(scope, "t", [turn(1, "I live in Leeds.")])
    await memory.consolidate(scope, "t")
    assert None is await memory.profiles.of(scope).current()


async def test_consolidating_by_hand_and_a_session_that_ends_are_followed(
    following: MemoryEngine, scope: Scope
) -> None:
    await following.append_events(scope, "t", [turn(1, "I live in Leeds.")])
    await following.consolidate(scope, "t", job_type=JobType.FAST_REPLAY)
    assert None is await following.profiles.of(scope).current()
    await following.consolidate(scope, "t")
    await following.consolidate(scope, "t")
    assert 1 == (await following.profiles.of(scope).show()).version
    await following.process_memory("My daughter is called Mia.", scope.user, app=scope.app)
    await following.end_session(scope.user, app=scope.app)
    assert await following.flush(60)
    assert "Mia" in (await following.profiles.of(scope).show()).get_profile_content()


async def test_a_long_thread_is_read_in_parts_and_what_was_forgotten_is_not(
    following: MemoryEngine, scope: Scope
) -> None:
    said = [turn(n, f"The weather on day {n} was fine.") for n in range(FOLLOWED_AT_ONCE + 3)]
    secret = turn(999, "I live in Leeds.")
    await following.append_events(scope, "t", [*said, secret])
    await following.forget_turns(scope, "t", [secret.event_id])
    await following.consolidate(scope, "t")
    known = await following.profiles.of(scope).show()
    history = await following.profiles.repository(scope).get_pipeline_history(known.memory_id)
    read = [one.record.input["messages"] for one in history if one.record.stage == "modification"]
    assert [3, FOLLOWED_AT_ONCE] == read
    assert "Leeds" not in known.to_prompt()


async def test_what_fails_is_a_failed_job_and_made_up_for_when_it_is_tried_again(
    following: MemoryEngine, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*args: object, **options: object) -> None:
        raise ModelUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(ProfilePipeline, "modification_stage", away)
        patched.setattr("shared_core.jobs.runner.POISON", wait_fixed(0.01))
        await following.append_events(scope, "t", [turn(1, "I live in Leeds.")], later=True)
        assert not await following.flush(60)
    assert "Leeds" in [fact.value for fact in await following.facts(scope)]
    [job] = await following.jobs.list(scope, statuses=[*JobStatus])
    assert (JobStatus.FAILED, True) == (job.status, "ModelUnavailable" in (job.error or ""))
    assert None is await following.profiles.of(scope).current()
    await following.jobs.retry([job.job_id])
    assert await following.flush(60)
    assert "User lives in Leeds." == await following.profiles.shown(scope)


def test_the_setting_is_off_unless_the_environment_says_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not load_settings().profiles
    monkeypatch.setenv("HIPPOCAMPUS_PROFILES", "on")
    assert load_settings().profiles
    monkeypatch.setenv("HIPPOCAMPUS_PROFILES", "yes")
    with pytest.raises(InvalidInput, match="HIPPOCAMPUS_PROFILES must be 'on' or 'off'"):
        load_settings()


def talk(conversation_id: str, *texts: str) -> dict[str, object]:
    messages = [{"role": "user", "content": text} for text in texts]
    return {"conversation_id": conversation_id, "messages": messages}


async def test_a_rollback_is_not_undone_by_what_is_said_next(
    following: MemoryEngine, scope: Scope
) -> None:
    desk = following.profiles.of(scope)
    await desk.update(talk("k1", "I live in Leeds."))
    await desk.update(talk("k2", "I live in Lisbon now. I love jazz."))
    await desk.rollback(1)
    await following.append_events(scope, "k2", [turn(9, "My cat is called Tom.")])
    for thread in ("k2", "k1"):
        await following.consolidate(scope, thread)
    known = await desk.show()
    assert "Leeds" in known.get_profile_content() and "Tom" in known.get_profile_content()
    assert "Lisbon" not in known.get_profile_content()
    assert "jazz" not in known.get_profile_content()


async def test_what_was_said_before_a_conversation_that_was_given_is_followed(
    following: MemoryEngine, scope: Scope
) -> None:
    await following.append_events(scope, "t", [turn(1, "I live in Leeds.")])
    desk = following.profiles.of(scope)
    await desk.update(talk("t", "I love jazz."))
    await following.consolidate(scope, "t")
    content = (await desk.show()).get_profile_content()
    assert "Leeds" in content and "jazz" in content
    assert 2 == (await desk.show()).version


async def test_a_deleted_profile_does_not_come_back_by_itself(
    following: MemoryEngine, scope: Scope
) -> None:
    await following.append_events(scope, "t", [turn(1, "I live in Leeds."), turn(2, "I love tea.")])
    await following.consolidate(scope, "t")
    desk, repository = following.profiles.of(scope), following.profiles.repository(scope)
    await desk.update(talk("k", "I own a boat."))
    for _ in range(2):
        assert await repository.delete_memory((await desk.show()).memory_id)
        for thread in ("t", "k"):
            await following.consolidate(scope, thread)
        assert None is await desk.current()
        await following.append_events(scope, "t", [turn(3, "I love jazz.")])
        await following.consolidate(scope, "t")
        if (known := await desk.current()) is None:
            break
        assert "User likes jazz." == known.get_profile_content()
    else:
        raise AssertionError("a turn that was read came back")


async def test_a_thread_that_was_erased_is_followed_anew(
    following: MemoryEngine, scope: Scope
) -> None:
    desk = following.profiles.of(scope)
    await desk.update(talk("t", "I live in Leeds.", "I love tea."))
    await following.append_events(scope, "t", [turn(1, "I love jazz.")])
    await following.consolidate(scope, "t")
    assert await following.flush(60)  # what the update left to the worker
    await following.erase(scope, "t")
    await following.append_events(scope, "t", [turn(2, "My cat is called Tom.")])
    await following.consolidate(scope, "t")
    assert "Tom" in (await desk.show()).get_profile_content()
