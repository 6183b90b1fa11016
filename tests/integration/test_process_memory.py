"""Document 003, the conversation layer: every example of sections 6 and 10, word for word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from shared_core import MemoryEngine, Scope
from tests.integration.talking import Watch, opened

pytestmark = pytest.mark.both_engines

USER = "user_001"


async def said(memory: MemoryEngine, *inputs: str) -> dict[str, Any]:
    """Return the answer to the last of some inputs of the user."""
    answer: dict[str, Any] = {}
    for text in inputs:
        answer = await memory.process_memory(text, user_id=USER)
    return answer


async def ended(memory: MemoryEngine) -> dict[str, Any]:
    """End the session, and wait until it is consolidated."""
    answer = await memory.end_session(user_id=USER)
    assert await memory.flush(60)
    return answer


def unmeasured(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer without scores and times, which an example cannot foretell."""
    return {
        **answer,
        "memories": [{**one, "score": None} for one in answer["memories"]],
        "metadata": {**answer["metadata"], "retrieval_time_ms": None},
    }


def expected(
    resolved: str, memories: Sequence[str] = (), relations: Sequence[tuple[str, str, str]] = ()
) -> dict[str, Any]:
    """Return an answer without scores and times."""
    return {
        "status": "success",
        "resolved_query": resolved,
        "memories": [{"content": content, "score": None} for content in memories],
        "relations": [
            {"source": source, "relation": relation, "target": target}
            for source, relation, target in relations
        ],
        "metadata": {"retrieval_time_ms": None, "has_memory": bool(memories)},
    }


async def stored(memory: MemoryEngine, app: str = "default") -> list[str]:
    """Return the statements that are remembered of the user, the oldest first."""
    found = await memory.list_memories(Scope(app, USER))
    kept = [one for one in found if "statement" in one.value.get("metadata", {})]  # type: ignore[operator]
    return [one.text for one in reversed(kept)]


async def test_example_10_1_a_typical_conversation(memory: MemoryEngine) -> None:
    first = await memory.process_memory("我叫小朱", user_id=USER)
    second = await memory.process_memory("我女儿叫灿灿", user_id=USER)
    third = await memory.process_memory("她今年几岁了？", user_id=USER)
    assert unmeasured(first) == expected("我叫小朱")
    assert unmeasured(second) == expected("我女儿叫灿灿")
    assert unmeasured(third) == expected("灿灿今年几岁了？")
    summary: Any = await ended(memory)
    assert (summary["status"], summary["message"]) == (
        "success",
        "Session ending, consolidation started",
    )
    assert summary["session_info"]["event_count"] == 3
    assert await stored(memory) == ["小朱有一个女儿叫灿灿"]


async def test_example_10_1_a_session_of_two_minutes(dsn: str) -> None:
    watch = Watch()
    async with opened(dsn, watch) as memory:
        for text in ("我叫小朱", "我女儿叫灿灿", "她今年几岁了？"):
            await memory.process_memory(text, user_id=USER)
            watch.advance(seconds=40)
        summary = await memory.end_session(user_id=USER)
    assert summary["session_info"] == {
        "event_count": 3,
        "duration_seconds": 120,
        "created_at": "2026-01-22T10:00:00Z",
        "ended_at": "2026-01-22T10:02:00Z",
    }


async def test_example_10_2_coreference(memory: MemoryEngine) -> None:
    await said(memory, "我喜欢吃桔子")
    await ended(memory)
    answer = await said(memory, "桔子熟了", "很甜", "你喜欢吃这个吗？")
    assert unmeasured(answer) == expected("你喜欢吃桔子吗？", ["我喜欢吃桔子"])


async def test_example_10_3_consolidation_of_a_session(memory: MemoryEngine) -> None:
    await said(memory, "我女儿叫灿灿", "她今年5岁", "她喜欢画画", "北京是中国的首都")
    await ended(memory)
    assert await stored(memory) == ["灿灿是我的女儿，今年5岁，喜欢画画"]
    texts = [one.text for one in await memory.list_memories(Scope("default", USER))]
    assert not [text for text in texts if "北京" in text]


async def test_example_10_4_a_question_across_sessions(memory: MemoryEngine) -> None:
    await said(memory, "我叫小朱", "我女儿叫灿灿", "她今年几岁了？")
    await ended(memory)
    await said(memory, "我女儿叫灿灿", "她今年5岁", "她喜欢画画", "北京是中国的首都")
    await ended(memory)
    answer = await memory.process_memory("小朱的女儿喜欢什么？", user_id=USER)
    assert unmeasured(answer) == expected(
        "小朱的女儿喜欢什么？",
        ["灿灿是我的女儿，今年5岁，喜欢画画"],
        [("灿灿", "喜欢", "画画"), ("小朱", "女儿", "灿灿")],
    )


async def test_debugging_answers_as_processing_does_and_takes_nothing_in(
    memory: MemoryEngine,
) -> None:
    await said(memory, "我叫小朱", "我女儿叫灿灿", "她今年5岁", "她喜欢画画")
    await ended(memory)
    await said(memory, "我女儿叫灿灿")
    ids = [one.memory_id for one in await memory.list_memories(Scope("default", USER))]
    counted = await memory.accesses(Scope("default", USER), ids)
    before = await memory.get_session_status(USER)
    for asked in ("她喜欢什么？", "小朱的女儿喜欢什么？", "我女儿多大了？"):
        shown = await memory.debug_process_memory(asked, USER)
        assert asked == shown["query"] and shown["hits"][0]["parts"]
        assert before["session_info"] == {
            **(shown["session_info"] or {}),
            "time_until_timeout_seconds": before["session_info"]["time_until_timeout_seconds"],  # type: ignore[index]
        }
        assert 1 == len(await memory.conversations.events(Scope("default", USER), 10))
    assert counted == await memory.accesses(Scope("default", USER), ids)
    shown = await memory.debug_process_memory("她喜欢什么？", USER, limit=1)
    assert 1 == len(shown["hits"])
    told = await memory.process_memory("她喜欢什么？", user_id=USER)
    assert "灿灿喜欢什么？" == told["resolved_query"] and told["memories"] and told["relations"]
    kept = ("hits", "query", "session_info")
    assert unmeasured(told) == unmeasured({k: v for k, v in shown.items() if k not in kept})


async def test_section_6_1_the_return_format(memory: MemoryEngine) -> None:
    await said(memory, "我叫小朱", "我喜欢吃桔子", "桔子是我最喜欢的水果")
    await ended(memory)
    answer = await said(memory, "桔子熟了", "你喜欢吃这个吗？")
    assert unmeasured(answer) == expected(
        "你喜欢吃桔子吗？", ["我喜欢吃桔子", "桔子是我最喜欢的水果"], [("小朱", "喜欢", "桔子")]
    )
    assert list(answer) == ["status", "resolved_query", "memories", "relations", "metadata"]
    assert list(answer["metadata"]) == ["retrieval_time_ms", "has_memory"]
    assert type(answer["metadata"]["retrieval_time_ms"]) is int
    assert answer["metadata"]["has_memory"] is True
    scores = [one["score"] for one in answer["memories"]]
    assert all(0 < score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)


async def test_section_6_4_nothing_is_remembered(memory: MemoryEngine) -> None:
    answer = await said(memory, "桔子熟了", "你喜欢吃这个吗？")
    assert unmeasured(answer) == expected("你喜欢吃桔子吗？")


async def test_section_2_5_she_is_resolved_at_the_end(memory: MemoryEngine) -> None:
    await said(memory, "我女儿叫灿灿", "她今年5岁", "她喜欢画画")
    await ended(memory)
    assert await stored(memory) == ["灿灿是我的女儿，今年5岁，喜欢画画"]


@pytest.mark.parametrize(
    "sessions",
    [
        ["I work at Siemens.", "I started at Bosch last month."],
        ["I joined Bosch in October."],
        ["I got a new job at Bosch."],
    ],
)
async def test_a_fact_is_told_where_no_statement_of_its_turns_is(
    memory: MemoryEngine, sessions: list[str]
) -> None:
    for text in sessions:
        await said(memory, text)
        await ended(memory)
    answer = await said(memory, "Where do I work?")
    assert [one["content"] for one in answer["memories"]] == ["User works at Bosch."]
    answer = await said(memory, "What is my job?")
    assert "Bosch" in answer["memories"][0]["content"]


@pytest.mark.parametrize(
    ("sessions", "holds"),
    [
        (["I work at Barclays.", "I never worked at Barclays."], []),
        (["我住在北京，在北京工作", "我搬到上海了"], [("residence", "上海")]),
        (["我是18岁男学生", "我今年19岁"], [("age", "19岁"), ("job", "男学生")]),
    ],
)
async def test_a_later_session_takes_back_what_no_longer_holds(
    memory: MemoryEngine, sessions: list[str], holds: list[tuple[str, str]]
) -> None:
    for text in sessions:
        await said(memory, text)
        await ended(memory)
    assert (
        sorted((fact.slot, fact.value) for fact in await memory.facts(Scope("default", USER)))
        == holds
    )


@pytest.mark.parametrize(
    ("told", "question", "contents"),
    [
        (["我住在深圳"], "中国的首都是哪里？", []),
        (["I live in Leeds."], "What is the capital of France?", []),
        (["My name is Anna.", "My daughter is called Mia."], "What is my daughter's name?",
         ["Anna has a daughter called Mia.", "User's name is Anna."]),
    ],
)  # fmt: skip
async def test_what_answers_for_another_is_left_out_or_comes_last(
    memory: MemoryEngine, told: list[str], question: str, contents: list[str]
) -> None:
    await said(memory, *told)
    await ended(memory)
    answer = await said(memory, question)
    assert [one["content"] for one in answer["memories"]] == contents


async def test_a_question_without_a_question_mark_is_not_stored(memory: MemoryEngine) -> None:
    await said(memory, "我住在哪里", "我住在上海")
    await ended(memory)
    answer = await said(memory, "我住在哪里")
    assert [one["content"] for one in answer["memories"]] == ["我住在上海"]


async def test_what_nothing_resolves_is_not_stored(memory: MemoryEngine) -> None:
    answer = await said(memory, "她喜欢画画")
    assert answer["resolved_query"] == "她喜欢画画"
    await ended(memory)
    assert await stored(memory) == []


@pytest.mark.parametrize("asked", ["Do you know what Mia likes?", "What does my daughter like?"])
async def test_the_same_in_english(memory: MemoryEngine, asked: str) -> None:
    await said(memory, "My name is Ana", "My daughter is called Mia")
    third = await memory.process_memory("How old is she?", user_id=USER)
    assert third["resolved_query"] == "How old is Mia?"
    await ended(memory)
    await said(
        memory, "My daughter is called Mia", "She is 5", "She loves drawing",
        "Paris is the capital of France",
    )  # fmt: skip
    await ended(memory)
    assert await stored(memory) == [
        "Ana has a daughter called Mia.",
        "Mia is my daughter, is 5 and loves drawing.",
    ]
    answer = await memory.process_memory(asked, user_id=USER)
    assert [one["content"] for one in answer["memories"]] == [
        "Mia is my daughter, is 5 and loves drawing."
    ]
    assert {"source": "Mia", "relation": "likes", "target": "drawing"} in answer["relations"]


async def test_an_application_and_a_user_have_their_own(memory: MemoryEngine) -> None:
    await memory.process_memory("我叫小朱", "a", app="one")
    await memory.end_session("a", app="one")
    assert await memory.flush(60)
    asked = "我叫什么名字？"
    assert (await memory.process_memory(asked, "a", app="one"))["metadata"]["has_memory"] is True
    assert (await memory.process_memory(asked, "a"))["metadata"]["has_memory"] is False
    assert (await memory.process_memory(asked, "b", app="one"))["metadata"]["has_memory"] is False


async def test_a_chinese_name_in_an_english_sentence_is_remembered(memory: MemoryEngine) -> None:
    await said(memory, "My name is 王伟. I live in 上海.", "My daughter is called 灿灿.")
    await said(memory, "She loves 画画.", "I met 李娜 in 北京.")
    await ended(memory)
    assert set(await stored(memory)) == {
        "My name is 王伟.",
        "I live in 上海.",
        "灿灿 is my daughter and loves 画画.",
        "I met 李娜 in 北京.",
    }
    answer = await said(memory, "What does my daughter love?")
    assert "灿灿 is my daughter and loves 画画." in [one["content"] for one in answer["memories"]]


async def test_each_of_several_children_has_what_is_told_of_them(memory: MemoryEngine) -> None:
    await said(memory, "I have two sons, Ben and Max. Ben is 9 and Max is 6.")
    await said(memory, "我们有两个女儿，大的叫乐乐，小的叫欢欢", "乐乐5岁")
    await ended(memory)
    known = await memory.facts(Scope("default", USER))
    assert {fact.statement for fact in known} == {
        "User's son is called Ben.",
        "User's son is called Max.",
        "User's son Ben is 9 years old.",
        "User's son Max is 6 years old.",
        "用户的大女儿叫乐乐。",
        "用户的小女儿叫欢欢。",
        "用户的大女儿乐乐5岁。",
        "User has two sons.",
    }
