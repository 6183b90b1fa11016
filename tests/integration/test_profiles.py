"""Profiles on a real database: the pipeline, versions, undo, and what is forgotten."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared_core import AsOf, Conflict, Event, InvalidInput, MemoryEngine, NotFound, Scope
from shared_core.core.domain import ThreadId
from shared_core.errors import ModelUnavailable
from shared_core.profiles.memory import Memory
from shared_core.profiles.repository import MemoryRepository

pytestmark = pytest.mark.both_engines

MONDAY = "2026-03-02T09:00:00+00:00"
TUESDAY = "2026-03-03T09:00:00+00:00"
ENGLISH = {
    "conversation_id": "monday",
    "messages": [
        {"role": "user", "timestamp": MONDAY, "content": "I live in Leeds and I'm so happy!"},
        {"role": "assistant", "timestamp": MONDAY, "content": "Lovely. What brings you here?"},
        {"role": "user", "timestamp": MONDAY,
         "content": "I want to learn Rust because it is fast. My daughter Mia helps me."},
    ],
}  # fmt: skip
MOVED = {
    "conversation_id": "tuesday",
    "messages": [
        {"role": "user", "timestamp": TUESDAY, "content": "I live in Lisbon now. I feel sad."}
    ],
}
CHINESE = {
    "conversation_id": "周一",
    "messages": [
        {"role": "user", "timestamp": MONDAY, "content": "我叫小明，我住在北京。我想学习编程！"},
        {"role": "assistant", "timestamp": MONDAY, "content": "好的，小明。"},
        {"role": "user", "timestamp": MONDAY, "content": "今天去了迪士尼，很开心。"},
    ],
}


@pytest.fixture
def repository(memory: MemoryEngine, scope: Scope) -> MemoryRepository:
    return memory.profiles.repository(scope)


async def test_a_conversation_becomes_a_profile_an_event_and_findings(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    known, result = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    assert "User lives in Leeds. User's daughter is called Mia." == known.get_profile_content()
    [event] = known.get_event_content()
    assert event.startswith('On 2026-03-02 the user said: "I live in Leeds')
    assert (True, 0, 1, 3) == (
        result.changed, result.previous_version, known.version, result.new_turns,
    )  # fmt: skip
    assert ["modification", "update_profile", "update_events", "theory_of_mind"] == [
        stage.stage for stage in result.stages
    ]
    assert all(stage.status == "success" and stage.duration_s >= 0 for stage in result.stages)
    [best, *_] = await memory.recall(scope, "Where do I live?")
    assert "I live in Leeds and I'm so happy!" == best.memory.text


async def test_rules_conclude_what_is_said_outright_with_evidence_and_no_great_confidence(
    repository: MemoryRepository,
) -> None:
    known, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    assert {"intent", "emotion", "cognition", "social"} == {
        one.dimension for one in known.mind.findings
    }
    turns = {event.event_id: event.text for event in
             (await repository.load_conversation("monday")).events}  # fmt: skip
    for finding in known.mind.findings:
        assert 0 < finding.confidence <= 0.6
        assert finding.basis and finding.quotes
        for (thread_id, event_id), quote in zip(finding.basis, finding.quotes, strict=True):
            assert "monday" == thread_id and quote in turns[event_id]
    [goal] = [one for one in known.mind.of("intent") if one.label == "goal"]
    assert "I want to learn Rust because it is fast." in goal.text


async def test_nothing_is_concluded_of_small_talk(repository: MemoryRepository) -> None:
    known, result = await repository.update_with_pipeline(
        Memory("bot"), [{"role": "user", "content": "hello"}, {"role": "user", "content": "thanks"}]
    )
    assert ("", [], ()) == (
        known.get_profile_content(), known.get_event_content(), known.mind.findings,
    )  # fmt: skip
    assert 2 == result.modification.left_out


async def test_a_chinese_conversation_gives_a_chinese_profile(repository: MemoryRepository) -> None:
    known, result = await repository.update_with_pipeline(Memory("bot"), CHINESE)
    assert "用户叫小明，住在北京。" == known.get_profile_content()
    begin = "## 用户画像\n用户叫小明，住在北京。\n\n## 相关事件\n- 2026-03-02，用户说：“我叫小明"
    assert known.to_prompt().startswith(begin)
    assert "高兴" in [one.label for one in known.mind.of("emotion")]
    assert any("我想学习编程" in one.text for one in known.mind.of("intent"))
    assert "travel" in result.modification.topics


async def test_newer_replaces_older_and_history_and_trends_say_so(
    repository: MemoryRepository,
) -> None:
    first, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    second, result = await first.update_with_pipeline(first, MOVED)
    assert "User lives in Lisbon. User's daughter is called Mia." == second.get_profile_content()
    assert ["User lives in Leeds."] == [one.text for one in second.profile_memory.history]
    trends = {one.label: one for one in second.mind.of("trend")}
    assert 'residence changed from "Leeds" to "Lisbon"' == trends["residence"].text
    assert {"monday", "tuesday"} == {thread for thread, _ in trends["residence"].basis}
    assert "feelings went from joy to sadness" == trends["feelings"].text
    [(old, new)] = result.profile_update.ended
    assert ("User lives in Leeds.", "User lives in Lisbon.") == (old.text, new and new.text)
    difference = await repository.diff(second.memory_id, 1, 2)
    assert (("User lives in Lisbon.",), ("User lives in Leeds.",)) == (
        difference.added, difference.removed,
    )  # fmt: skip


async def test_a_new_job_told_with_a_move_ends_the_old_one(repository: MemoryRepository) -> None:
    known, _ = await repository.update_with_pipeline(
        Memory("bot"), [{"role": "user", "timestamp": MONDAY, "content": "我在北京当老师"}]
    )
    known, _ = await repository.update_with_pipeline(
        known,
        [{"role": "user", "timestamp": TUESDAY, "content": "我搬到上海了，换了工作，现在是程序员"}],
    )
    assert "程序员" in known.get_profile_content()
    assert "老师" not in known.get_profile_content()


@pytest.mark.parametrize("said", ["My wife is pregnant", "我妻子怀孕了！"])
async def test_what_is_said_of_a_relation_becomes_part_of_a_profile(
    repository: MemoryRepository, said: str
) -> None:
    known, result = await repository.update_with_pipeline(
        Memory("bot"), [{"role": "user", "content": said}]
    )
    assert result.changed
    assert ("wife" in known.get_profile_content()) is ("妻子" not in known.get_profile_content())


async def test_the_same_conversation_again_makes_no_new_version(
    repository: MemoryRepository,
) -> None:
    without_times = [{"role": "user", "content": "I live in Leeds."}]
    given = {"conversation_id": "c", "messages": without_times}
    first, _ = await repository.update_with_pipeline(Memory("bot"), given)
    for _ in range(2):
        again, result = await repository.update_with_pipeline(first, given)
        assert (1, False, 0) == (again.version, result.changed, result.new_turns)
    assert 1 == len(await repository.versions(first.memory_id))
    assert 12 == len(await repository.get_pipeline_history(first.memory_id))


async def test_what_two_conversations_say_stays_when_one_is_forgotten(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    known, result = Memory("bot"), None
    for number in range(3):
        said = {"role": "user", "content": "I live in Leeds.", "timestamp": MONDAY}
        given = {"conversation_id": f"c{number}", "messages": [said]}
        known, result = await repository.update_with_pipeline(known, given)
    assert result is not None and (1, 2, False) == (known.version, known.revision, result.changed)
    await memory.forget_thread(scope, "c0")
    kept = await repository.load_memory(known.memory_id)
    assert "User lives in Leeds." == kept.get_profile_content()
    for number in (1, 2):
        await memory.forget_thread(scope, f"c{number}")
    assert "" == (await repository.load_memory(known.memory_id)).get_profile_content()


async def test_what_is_loaded_is_what_was_stored(repository: MemoryRepository) -> None:
    stored, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    loaded = await repository.load_memory(stored.memory_id)
    assert loaded.content_hash() == stored.content_hash()
    assert loaded.profile_memory == stored.profile_memory
    assert loaded.event_memory == stored.event_memory
    assert {one.text for one in loaded.mind.findings} == {one.text for one in stored.mind.findings}
    by_agent = await repository.load_memory_by_agent("bot")
    assert by_agent is not None and by_agent.memory_id == stored.memory_id
    assert Memory.from_dict(loaded.to_dict()) == loaded


async def test_the_documented_operations_on_contents(repository: MemoryRepository) -> None:
    memory = await repository.save_memory(await repository.load_or_create("bot"))
    assert 1 == memory.version
    await repository.update_memory_profile(memory.memory_id, "用户是18岁男学生。")
    await repository.update_memory_events(memory.memory_id, ["用户今天询问了Python编程问题"])
    await repository.save_memory_content(memory.memory_id, "profile", {"paragraph": "喜欢编程。"})
    kept = await repository.save_memory_content(
        memory.memory_id, "event", {"events": ["用户分享了自己的项目想法"]}
    )
    assert 5 == kept.version
    assert "用户是18岁男学生。喜欢编程。" == await repository.load_profile_content(memory.memory_id)
    assert 2 == len(await repository.load_event_content(memory.memory_id))
    profile, event = await repository.load_memory_contents(memory.memory_id)
    assert {"paragraph": "用户是18岁男学生。喜欢编程。"} == profile["content_data"]
    assert ("event", 50) == (event["content_type"], event["content_data"]["max_events"])  # type: ignore[index, call-overload]
    assert kept.version == (await repository.save_memory(kept)).version


async def test_saving_onto_an_old_version_is_refused(repository: MemoryRepository) -> None:
    memory = await repository.save_memory(Memory("bot"))
    other = await repository.load_memory(memory.memory_id)
    other.update_profile("User lives in Leeds.")
    await repository.save_memory(other)
    memory.update_profile("User lives in Lisbon.")
    with pytest.raises(Conflict, match=r"at version 2.*loaded from version 1.*Load it again"):
        await repository.save_memory(memory)
    with pytest.raises(Conflict, match="at version 2"):
        await repository.update_with_pipeline(memory, ENGLISH)
    with pytest.raises(NotFound):
        await repository.load_conversation("monday")


async def test_eight_updates_at_once_lose_nothing(
    memory: MemoryEngine, repository: MemoryRepository
) -> None:
    start = Memory("bot")

    async def told(number: int) -> int:
        said = f"My favourite colour{number} is grey. I like song{number}x{number}."
        given = {"conversation_id": f"c{number}",
                 "messages": [{"role": "user", "content": said, "timestamp": MONDAY}]}  # fmt: skip
        _, result = await repository.update_with_pipeline(start, given)
        return result.version

    versions = await asyncio.gather(*(told(number) for number in range(8)))
    assert set(range(1, 9)) == set(versions)
    kept = await repository.load_memory_by_agent("bot")
    assert kept is not None and 8 == kept.version
    for number in range(8):
        assert f"song{number}x{number}" in kept.get_profile_content()
        assert any(f"song{number}x{number}" in one for one in kept.get_event_content())


async def test_rollback_makes_a_new_version_of_an_old_one(repository: MemoryRepository) -> None:
    first, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    second, _ = await repository.update_with_pipeline(first, MOVED)
    back = await repository.rollback_memory(first.memory_id, 1)
    assert 3 == back.version and first.to_prompt() == back.to_prompt()
    assert back.content_hash() == first.content_hash()
    again = await repository.rollback_memory(first.memory_id, 2)
    assert 4 == again.version and second.to_prompt() == again.to_prompt()
    with pytest.raises(NotFound, match="no version 9: its versions are 1 to 4"):
        await repository.rollback_memory(first.memory_id, 9)
    for bad in (0, -1, "1", True, 2**40):
        with pytest.raises(InvalidInput, match="version must be a whole number from 1"):
            await repository.load_memory(first.memory_id, bad)  # type: ignore[arg-type]


async def test_search_finds_what_the_newest_version_says(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    first, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    await repository.update_with_pipeline(first, MOVED)
    searcher = memory.profiles.searcher(scope)
    said = [one.text for one in await searcher.search_memories("lives in", ["profile"])]
    assert "User lives in Lisbon." in said and "User lives in Leeds." not in said
    await repository.rollback_memory(first.memory_id, 1)
    said = [one.text for one in await searcher.search_memories("lives in", ["profile"])]
    assert "User lives in Leeds." in said and "User lives in Lisbon." not in said


async def test_a_run_is_undone_by_the_engine(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    first, one = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    _, two = await repository.update_with_pipeline(first, MOVED)
    runs = [run for run in await memory.runs(scope) if run.kind == "profile"]
    assert [two.run_id, one.run_id] == [run.run_id for run in runs]
    with pytest.raises(Conflict, match=f"version 2 of profile .*{two.run_id}, builds on run"):
        await memory.undo_run(scope, one.run_id)
    await memory.undo_run(scope, two.run_id)
    kept = await repository.load_memory(first.memory_id)
    assert (3, first.to_prompt()) == (kept.version, kept.to_prompt())
    undone = {run.run_id: run.undone_at for run in await memory.runs(scope)}
    assert undone[two.run_id] is not None and undone[one.run_id] is None
    with pytest.raises(Conflict):
        await memory.undo_run(scope, two.run_id)


async def test_the_first_run_is_undone_to_nothing(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    first, result = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    await memory.undo_run(scope, result.run_id)
    assert "" == (await repository.load_memory(first.memory_id)).to_prompt()
    assert None is await memory.profiles.shown(scope)


async def test_what_is_forgotten_leaves_every_version(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    first, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    await repository.update_with_pipeline(first, MOVED)
    await memory.forget_thread(scope, "monday")
    for version in (1, 2):
        kept = await repository.load_memory(first.memory_id, version)
        for word in ("Leeds", "Mia", "Rust"):
            assert word not in str(kept.to_dict())
    again, result = await repository.update_with_pipeline(
        await repository.load_memory(first.memory_id), ENGLISH
    )
    assert "Leeds" not in str(again.to_dict()) and 0 == result.new_turns


async def test_one_sentence_can_be_forgotten_and_does_not_come_back(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    held, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    [leeds] = [one for one in held.profile_memory.statements if "Leeds" in one.text]
    assert 2 == await memory.forget(scope, str(leeds.statement_id)), "it and the paragraph"
    assert "Leeds" not in (await repository.load_memory(held.memory_id)).get_profile_content()
    held.update_profile("User has two cats.")
    after = await repository.save_memory(held)
    assert "User has two cats. User's daughter is called Mia." == after.get_profile_content()


async def test_erasing_a_user_leaves_nothing_of_a_profile(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    held, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    await memory.forget_scope(scope)
    assert None is await repository.load_memory_by_agent("bot")
    assert [] == list(await repository.get_pipeline_history(held.memory_id))
    assert [] == await memory.profiles.searcher(scope).search_memories("Leeds")
    with pytest.raises(NotFound, match="there is no memory"):
        await repository.load_memory(held.memory_id)


async def test_a_deleted_profile_takes_its_log_and_not_the_conversation(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    held, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    await repository.update_with_pipeline(held, MOVED)
    assert 2 == await repository.delete_memory(held.memory_id)
    assert 0 == await repository.delete_memory(held.memory_id)
    assert [] == list(await repository.get_pipeline_history(held.memory_id))
    assert 3 == len((await repository.load_conversation("monday")).events)
    assert await repository.save_memory(Memory("bot"))


async def test_nothing_is_learned_from_a_turn_that_shall_expire(
    repository: MemoryRepository,
) -> None:
    now = datetime.now(UTC)
    said = [
        Event(event_id=str(number), author="ann", role="user", text=text, occurred_at=now,
              expires_at=until)
        for number, (text, until) in enumerate(
            [("I live in Leeds.", now + timedelta(days=1)), ("I like jazz.", None)])
    ]  # fmt: skip
    known, result = await repository.update_with_pipeline(Memory("bot"), said)
    assert "User likes jazz." == known.get_profile_content()
    assert "Leeds" not in str(known.to_dict())
    assert (1, 2) == (result.modification.left_out, result.new_turns)


@pytest.mark.parametrize("agent_id", ["we/ird.%2E'", "助手 🤖", "x" * 300, "a.b@c"])
async def test_any_id_names_an_agent(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository, agent_id: str
) -> None:
    stored, _ = await repository.update_with_pipeline(Memory(agent_id), ENGLISH)
    loaded = await repository.load_memory_by_agent(agent_id)
    assert loaded is not None and loaded.to_prompt() == stored.to_prompt()
    assert await memory.profiles.searcher(scope).search_memories("Leeds")
    assert 1 == await repository.delete_memory(stored.memory_id)
    assert [] == await memory.profiles.searcher(scope).search_memories("Leeds")


async def test_users_do_not_see_each_other(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    held, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    other = memory.profiles.repository(Scope(scope.app, "mallory"))
    with pytest.raises(NotFound):
        await other.load_memory(held.memory_id)
    assert 0 == await other.delete_memory(held.memory_id)
    assert None is await other.load_memory_by_agent("bot")


async def test_an_agent_has_a_profile_of_its_own(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    said = [
        {"role": "user", "content": "I'll call you Max. I live in Leeds."},
        {"role": "assistant", "content": "I speak Portuguese and I like puns."},
    ]
    agent, _ = await repository.update_with_pipeline(Memory("bot", subject="agent"), said)
    assert "The agent's name is Max" in agent.get_profile_content()
    assert "puns" in agent.get_profile_content()
    assert "Leeds" not in agent.get_profile_content()
    await repository.update_with_pipeline(Memory("bot"), said)
    shown = await memory.profiles.shown(scope) or ""
    assert "User lives in Leeds." in shown and "Max" in shown


async def test_a_context_window_shows_the_stored_profile_unless_one_is_given(
    memory: MemoryEngine, scope: Scope, repository: MemoryRepository
) -> None:
    known, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    before = datetime.now(UTC)
    await repository.update_with_pipeline(known, MOVED)
    window = await memory.context_window(scope, "now", "Hello?")
    assert "<profile>\nUser lives in Lisbon." in window.prompt
    window = await memory.context_window(scope, "now", "Hello?", profile="Mine.")
    assert "<profile>\nMine.\n</profile>" in window.prompt
    window = await memory.context_window(scope, "now", "Hello?", profile="")
    assert "<profile>" not in window.prompt
    window = await memory.context_window(scope, "now", "Hello?", as_of=AsOf(known=before))
    assert "<profile>\nUser lives in Leeds." in window.prompt
    at = datetime(2026, 3, 2, 12, tzinfo=UTC)
    window = await memory.context_window(scope, "now", "Hello?", as_of=AsOf(valid=at))
    assert "<profile>\nUser lives in Leeds." in window.prompt


async def test_secrets_are_masked_before_they_are_stored(repository: MemoryRepository) -> None:
    memory = Memory("bot")
    memory.update_profile("User pays with the card 4111 1111 1111 1111.")
    memory.update_events(["User pasted sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD."])
    stored = await repository.save_memory(memory)
    kept = await repository.load_memory(stored.memory_id)
    assert "4111" not in str(kept.to_dict()) and "abcdefghij" not in str(kept.to_dict())


async def test_single_messages_without_an_id_are_each_a_new_one(
    memory: MemoryEngine, repository: MemoryRepository
) -> None:
    def message(content: str) -> dict[str, Any]:
        return {"role": "user", "content": content, "timestamp": TUESDAY}

    first, _, third = [
        await repository.save_conversation_message("c", message(text))
        for text in ("yes please", "no thanks", "yes please")
    ]
    await memory.forget_turns(repository.scope, "c", [first])
    again = await repository.save_conversation_message("c", message("yes please"))
    assert 3 == len({first, third, again})
    at_once = [repository.save_conversation_message("c", message("four")) for _ in range(4)]
    assert 4 == len(set(await asyncio.gather(*at_once)))
    known = {**message("once"), "message_id": "m1"}
    for _ in range(2):
        assert "m1" == await repository.save_conversation_message("c", known)
    said = [one.text for one in (await repository.load_conversation("c")).events]
    assert ["no thanks", "yes please", "yes please", *["four"] * 4, "once"] == said


async def test_conversations_are_threads(repository: MemoryRepository) -> None:
    await repository.save_conversation(ENGLISH)
    await repository.save_conversation(MOVED)
    await repository.save_conversation(MOVED)
    added = {"role": "assistant", "author": "bot", "content": "I see.", "timestamp": TUESDAY}
    await repository.save_conversation_message("tuesday", added)
    assert ["tuesday", "monday"] == [
        one.thread_id for one in await repository.get_recent_conversations(limit=5)
    ]
    assert ["tuesday"] == [
        one.thread_id for one in await repository.get_recent_conversations("bot")
    ]
    loaded = await repository.load_conversation("tuesday")
    assert 2 == len(loaded.events)
    assert ["user", "assistant"] == [one["role"] for one in loaded.to_dict()["messages"]]  # type: ignore[index, union-attr, call-overload]
    first, _ = await repository.update_with_pipeline(Memory("bot"), loaded)
    assert "User lives in Lisbon." == first.get_profile_content()


async def test_recent_conversations_say_what_they_are_about(
    memory: MemoryEngine, repository: MemoryRepository
) -> None:
    await repository.save_conversation(ENGLISH)
    await repository.save_conversation(CHINESE)
    await repository.save_conversation(
        {"conversation_id": "greeting", "messages": [{"role": "user", "content": "hello"}]}
    )
    found = {one.thread_id: one for one in await repository.get_recent_conversations()}
    assert "I want to learn Rust because it is fast." in found["monday"].summary
    assert "Lovely" not in found["monday"].summary
    assert ("study", "family", "technology") == tuple(found["monday"].topics)
    assert "我想学习编程！" in found["周一"].summary and "travel" in found["周一"].topics
    assert ("", ()) == (found["greeting"].summary, tuple(found["greeting"].topics))
    await memory.consolidate(repository.scope, "monday")
    written = [
        one for one in await repository.get_recent_conversations() if "monday" == one.thread_id
    ]
    stored = await memory.list_memories(repository.scope, kinds=["summary"])
    assert [one.text for one in stored] == [one.summary for one in written]


async def test_the_last_stage_relates_the_memories_of_a_profile(
    repository: MemoryRepository,
) -> None:
    first, before = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    second, result = await repository.update_with_pipeline(first, MOVED)
    assert {"tells_of", "concluded_from"} == {one.kind for one in before.theory_of_mind.relations}
    assert result.theory_of_mind.relations == second.relations()
    assert {"replaces", "tells_of", "concluded_from"} == {one.kind for one in second.relations()}
    assert len(second.relations()) == result.stages[-1].output["relations"]
    assert (await repository.load_memory(second.memory_id)).relations() == second.relations()


async def test_the_log_tells_no_text_of_a_user(repository: MemoryRepository) -> None:
    held, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    run = await repository.log_pipeline_execution(
        held.memory_id, "monday", "modification", {"turns": 3, "execution_time_ms": 12}
    )
    history = await repository.get_pipeline_history(held.memory_id)
    assert (run, "modification", 0.012) == (
        history[0].run_id, history[0].record.stage, history[0].record.duration_s,
    )  # fmt: skip
    for stage in history:
        assert "monday" == stage.thread_id
        for word in ("Leeds", "Mia", "Rust"):
            assert word not in str(stage)
    with pytest.raises(InvalidInput, match="no text of a user"):
        await repository.log_pipeline_execution(
            held.memory_id, None, "modification", {"said": "x" * 101}
        )
    with pytest.raises(InvalidInput, match="stage 'dreaming' is not known: take one of modif"):
        await repository.log_pipeline_execution(held.memory_id, None, "dreaming", {})
    with pytest.raises(InvalidInput, match="finite number, got nan"):
        await repository.log_pipeline_execution(
            held.memory_id, None, "modification", {"execution_time_ms": float("nan")}
        )


async def test_a_stage_that_somebody_else_logs_marks_no_turn_as_read(
    memory: MemoryEngine, repository: MemoryRepository
) -> None:
    held, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)
    [first, *_] = await repository.get_pipeline_history(held.memory_id)
    forged = replace(
        first.record, input={"to_seq": "all", "read": "[1,9", "turns": 1}, error="\0 失败 \ud800"
    )
    await repository.log_pipeline_execution(held.memory_id, "monday", "modification", forged)
    [newest, *_] = await repository.get_pipeline_history(held.memory_id)
    assert ({"turns": 1}, "\ufffd 失败 \ufffd") == (newest.record.input, newest.record.error)
    await memory.consolidate(repository.scope, "monday")
    assert 0 == await repository.follow("bot", ThreadId("monday"))


async def test_a_stage_that_fails_is_logged_and_nothing_else_is_written(
    repository: MemoryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, _ = await repository.update_with_pipeline(Memory("bot"), ENGLISH)

    async def fails(*_: object, **__: object) -> None:
        raise ModelUnavailable("away")

    monkeypatch.setattr(repository.pipeline, "theory_of_mind_stage", fails)
    with pytest.raises(ModelUnavailable):
        await repository.update_with_pipeline(held, MOVED)
    newest = await repository.get_pipeline_history(held.memory_id, limit=1)
    assert [("theory_of_mind", "error", "ModelUnavailable")] == [
        (one.record.stage, one.record.status, one.record.error)
        for one in newest
        if one.record.status != "success"
    ]
    assert 1 == (await repository.load_memory(held.memory_id)).version
    with pytest.raises(NotFound):
        await repository.load_conversation("tuesday")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "the conversation is empty"),
        ({"messages": []}, "the conversation is empty"),
        ([{"role": "user", "content": "  "}], "the conversation is empty"),
        ("hello", "a conversation must be a list of messages"),
        ({"conversation_id": "c"}, "a conversation must be a list of messages"),
        ([7], "message 0 must be a dict or an Event, got 7"),
        ([{"role": "boss", "content": "x"}], "the role of message 0 must be one of user"),
        ([{"role": "user", "content": None}], "the content of message 0 must be a text"),
        ([{"role": "user", "content": "x", "timestamp": "soon"}], "must be ISO 8601"),
        ([{"role": "user", "content": "x", "timestamp": "2026-03-02T09:00:00"}], "no time zone"),
        ([{"role": "user", "content": "x", "timestamp": 7}], "must be a datetime"),
        ({"conversation_id": "\x00", "messages": [{"role": "user", "content": "x"}]}, "NUL"),
        ({"conversation_id": 7, "messages": [{"role": "user", "content": "x"}]}, "a string"),
    ],
)  # fmt: skip
async def test_bad_conversations_are_named(
    repository: MemoryRepository, given: Any, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await repository.update_with_pipeline(Memory("bot"), given)
    assert None is await repository.load_memory_by_agent("bot")


async def test_bad_ids_and_limits_are_named(repository: MemoryRepository) -> None:
    for call, message in (
        (repository.load_memory("nonsense"), "memory_id must be a UUID"),
        (repository.versions(Memory("a").memory_id, 0), "limit must be between 1"),
        (repository.save_memory("x"), "memory must be a shared_core.profiles.Memory"),  # type: ignore[arg-type]
        (repository.update_with_pipeline({}, ENGLISH), "got dict"),  # type: ignore[arg-type]
        (repository.load_memory_by_agent("a", subject="x"), "'user' or 'agent'"),  # type: ignore[arg-type]
        (repository.save_memory_content(Memory("a").memory_id, "mood", {}), "'profile' or 'event'"),
        (
            repository.save_memory_content(Memory("a").memory_id, "event", {}),
            "a dict with 'events'",
        ),
    ):
        with pytest.raises(InvalidInput, match=message):
            await call  # type: ignore[misc]


async def test_a_megabyte_of_text_nul_and_lone_surrogates_in_a_conversation_are_taken(
    repository: MemoryRepository,
) -> None:
    said = "I live in Leeds. \x00 \ud800 " + "word " * 200_000
    held, _ = await repository.update_with_pipeline(
        Memory("bot"), [{"role": "user", "content": said}]
    )
    assert "User lives in Leeds." == held.get_profile_content()
    assert all(len(one) < 600 for one in held.get_event_content())
