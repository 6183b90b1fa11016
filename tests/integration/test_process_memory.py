"""Document 003, the conversation layer: every example of sections 6 and 10, word for word.

And what must not be: bad inputs, ids and settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from every_case import every_case

from shared_core import CoreferenceResolver, MemoryEngine, Scope, SessionManager, open_memory
from shared_core.errors import InvalidInput
from tests.integration.talking import Watch, opened

pytestmark = pytest.mark.both_engines

CANCAN = ("我女儿叫灿灿", "她今年5岁", "她喜欢画画")


@dataclass
class Talk:
    """A user who talks, and the memory that listens."""

    memory: MemoryEngine
    scope: Scope

    async def say(self, *inputs: str) -> dict[str, Any]:
        """Return the answer to the last of some inputs."""
        answer: Any = {}
        for text in inputs:
            answer = await self.memory.process_memory(text, self.scope.user, app=self.scope.app)
        return dict(answer)

    async def end(self, *inputs: str) -> dict[str, Any]:
        """Say something, end the session, and wait until it is consolidated."""
        await self.say(*inputs)
        answer: Any = await self.memory.end_session(self.scope.user, app=self.scope.app)
        await self.memory.flush(60)
        return dict(answer)

    async def contents(self, *inputs: str) -> list[str]:
        """Return what the answer to the last of some inputs remembers."""
        return [one["content"] for one in (await self.say(*inputs))["memories"]]

    async def stored(self) -> list[str]:
        """Return the statements that are remembered of the user, the oldest first."""
        found = await self.memory.list_memories(self.scope)
        kept = [one for one in found if "statement" in one.value.get("metadata", {})]  # type: ignore[operator]
        return [one.text for one in reversed(kept)]

    async def status(self) -> dict[str, Any]:
        return dict(await self.memory.get_session_status(self.scope.user, app=self.scope.app))

    async def turns(self) -> list[str]:
        """Return what was said in the session that is active."""
        return [one.text for one in await self.memory.conversations.events(self.scope, 10)]


@pytest.fixture
def talk(shared_memory, scope):
    return Talk(shared_memory, scope)


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
    names = ("source", "relation", "target")
    return {
        "status": "success",
        "resolved_query": resolved,
        "memories": [{"content": content, "score": None} for content in memories],
        "relations": [dict(zip(names, one, strict=True)) for one in relations],
        "metadata": {"retrieval_time_ms": None, "has_memory": bool(memories)},
    }


async def test_example_10_1_a_typical_conversation(talk):
    for text, resolved in (
        ("我叫小朱", "我叫小朱"),
        ("我女儿叫灿灿", "我女儿叫灿灿"),
        ("她今年几岁了？", "灿灿今年几岁了？"),
    ):
        assert unmeasured(await talk.say(text)) == expected(resolved)
    summary = await talk.end()
    assert summary["status"] == "success"
    assert summary["message"] == "Session ending, consolidation started"
    assert summary["session_info"]["event_count"] == 3
    assert await talk.stored() == ["小朱有一个女儿叫灿灿"]


async def test_example_10_1_a_session_of_two_minutes(dsn):
    watch = Watch()
    async with opened(dsn, watch) as memory:
        for text in ("我叫小朱", "我女儿叫灿灿", "她今年几岁了？"):
            await memory.process_memory(text, user_id="user_001")
            watch.advance(seconds=40)
        summary = await memory.end_session(user_id="user_001")
    assert summary["session_info"] == {"event_count": 3, "duration_seconds": 120,
        "created_at": "2026-01-22T10:00:00Z", "ended_at": "2026-01-22T10:02:00Z"}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "inputs", "answer"),
    [
        (  # 10.2
            ["我喜欢吃桔子"], ["桔子熟了", "很甜", "你喜欢吃这个吗？"],
            expected("你喜欢吃桔子吗？", ["我喜欢吃桔子"]),
        ),
        ([], ["桔子熟了", "你喜欢吃这个吗？"], expected("你喜欢吃桔子吗？")),  # 6.4
    ],
)  # fmt: skip
async def test_example_10_2_coreference_and_6_4_nothing_is_remembered(talk, before, inputs, answer):
    await talk.end(*before)
    assert unmeasured(await talk.say(*inputs)) == answer


@pytest.mark.parametrize("inputs", [CANCAN, (*CANCAN, "北京是中国的首都")])
async def test_example_10_3_and_section_2_5_consolidation_of_a_session(talk, inputs):
    await talk.end(*inputs)
    assert await talk.stored() == ["灿灿是我的女儿，今年5岁，喜欢画画"]
    texts = [one.text for one in await talk.memory.list_memories(talk.scope)]
    assert not [text for text in texts if "北京" in text]


async def test_example_10_4_a_question_across_sessions(talk):
    await talk.end("我叫小朱", "我女儿叫灿灿", "她今年几岁了？")
    await talk.end(*CANCAN, "北京是中国的首都")
    assert unmeasured(await talk.say("小朱的女儿喜欢什么？")) == expected(
        "小朱的女儿喜欢什么？",
        ["灿灿是我的女儿，今年5岁，喜欢画画"],
        [("灿灿", "喜欢", "画画"), ("小朱", "女儿", "灿灿")],
    )


async def test_debugging_answers_as_processing_does_and_takes_nothing_in(talk):
    async def debug(asked: str, **options: Any) -> dict[str, Any]:
        named = {"app": talk.scope.app, **options}
        return dict(await talk.memory.debug_process_memory(asked, talk.scope.user, **named))

    await talk.end("我叫小朱", *CANCAN)
    await talk.say("我女儿叫灿灿")
    ids = [one.memory_id for one in await talk.memory.list_memories(talk.scope)]
    counted = await talk.memory.accesses(talk.scope, ids)
    before = (await talk.status())["session_info"]
    until = "time_until_timeout_seconds"
    for asked in ("她喜欢什么？", "小朱的女儿喜欢什么？", "我女儿多大了？"):
        shown = await debug(asked)
        assert asked == shown["query"] and shown["hits"][0]["parts"]
        assert before == {**(shown["session_info"] or {}), until: before[until]}
        assert 1 == len(await talk.turns())
    assert counted == await talk.memory.accesses(talk.scope, ids)
    shown = await debug("她喜欢什么？", limit=1)
    assert 1 == len(shown["hits"])
    told = await talk.say("她喜欢什么？")
    assert "灿灿喜欢什么？" == told["resolved_query"] and told["memories"] and told["relations"]
    kept = ("hits", "query", "session_info")
    assert unmeasured(told) == unmeasured({k: v for k, v in shown.items() if k not in kept})


async def test_section_6_1_the_return_format(talk):
    await talk.end("我叫小朱", "我喜欢吃桔子", "桔子是我最喜欢的水果")
    answer = await talk.say("桔子熟了", "你喜欢吃这个吗？")
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


@pytest.mark.parametrize(
    "sessions",
    [
        ["I work at Siemens.", "I started at Bosch last month."], ["I joined Bosch in October."],
        ["I got a new job at Bosch."],
    ],
)  # fmt: skip
async def test_a_fact_is_told_where_no_statement_of_its_turns_is(talk, sessions):
    for text in sessions:
        await talk.end(text)
    assert await talk.contents("Where do I work?") == ["User works at Bosch."]
    assert "Bosch" in (await talk.contents("What is my job?"))[0]


@pytest.mark.parametrize(
    ("sessions", "holds"),
    [
        (["I work at Barclays.", "I never worked at Barclays."], []),
        (["我住在北京，在北京工作", "我搬到上海了"], [("residence", "上海")]),
        (["我是18岁男学生", "我今年19岁"], [("age", "19岁"), ("job", "男学生")]),
    ],
)
async def test_a_later_session_takes_back_what_no_longer_holds(talk, sessions, holds):
    for text in sessions:
        await talk.end(text)
    assert sorted((fact.slot, fact.value) for fact in await talk.memory.facts(talk.scope)) == holds


@pytest.mark.parametrize(
    ("told", "question", "contents"),
    [
        (["我住在深圳"], "中国的首都是哪里？", []),
        (["I live in Leeds."], "What is the capital of France?", []),
        (["My name is Anna.", "My daughter is called Mia."], "What is my daughter's name?",
         ["Anna has a daughter called Mia.", "User's name is Anna."]),
        (["我住在哪里", "我住在上海"], "我住在哪里", ["我住在上海"]),  # the question is not stored
    ],
)  # fmt: skip
async def test_what_answers_for_another_is_left_out_or_last(talk, told, question, contents):
    await talk.end(*told)
    assert await talk.contents(question) == contents


async def test_what_nothing_resolves_is_not_stored(talk):
    assert (await talk.say("她喜欢画画"))["resolved_query"] == "她喜欢画画"
    await talk.end()
    assert await talk.stored() == []


@pytest.mark.parametrize("asked", ["Do you know what Mia likes?", "What does my daughter like?"])
async def test_the_same_in_english(talk, asked):
    third = await talk.say("My name is Ana", "My daughter is called Mia", "How old is she?")
    assert third["resolved_query"] == "How old is Mia?"
    await talk.end()
    told = ("My daughter is called Mia", "She is 5", "She loves drawing")
    await talk.end(*told, "Paris is the capital of France")
    about_mia = "Mia is my daughter, is 5 and loves drawing."
    assert await talk.stored() == ["Ana has a daughter called Mia.", about_mia]
    answer = await talk.say(asked)
    assert [one["content"] for one in answer["memories"]] == [about_mia]
    assert {"source": "Mia", "relation": "likes", "target": "drawing"} in answer["relations"]


async def test_an_application_and_a_user_have_their_own(talk):
    async def is_known(scope: Scope) -> bool:
        answer = await Talk(talk.memory, scope).say("我叫什么名字？")
        return bool(answer["metadata"]["has_memory"])

    await talk.end("我叫小朱")
    assert await is_known(talk.scope)
    assert not await is_known(Scope(f"another {talk.scope.app}", talk.scope.user))
    assert not await is_known(Scope(talk.scope.app, "bob"))


async def test_a_chinese_name_in_an_english_sentence_is_remembered(talk):
    await talk.end(
        "My name is 王伟. I live in 上海.", "My daughter is called 灿灿.", "She loves 画画.",
        "I met 李娜 in 北京.",
    )  # fmt: skip
    assert set(await talk.stored()) == {"My name is 王伟.", "I live in 上海.",
        "灿灿 is my daughter and loves 画画.", "I met 李娜 in 北京."}  # fmt: skip
    found = await talk.contents("What does my daughter love?")
    assert "灿灿 is my daughter and loves 画画." in found


async def test_each_of_several_children_has_what_is_told_of_them(talk):
    await talk.say("I have two sons, Ben and Max. Ben is 9 and Max is 6.")
    await talk.end("我们有两个女儿，大的叫乐乐，小的叫欢欢", "乐乐5岁")
    assert {fact.statement for fact in await talk.memory.facts(talk.scope)} == {
        "User's son is called Ben.", "User's son is called Max.",
        "User's son Ben is 9 years old.", "User's son Max is 6 years old.",
        "用户的大女儿叫乐乐。", "用户的小女儿叫欢欢。", "用户的大女儿乐乐5岁。",
        "User has two sons.", "用户有两个女儿。",
    }  # fmt: skip


@every_case(
    ("", "must not be empty or blank"), (" \n\t　", "must not be empty or blank"),
    (None, "must be a text, got NoneType"), (b"tea", "must be a text, got bytes"),
    (["tea"], "must be a text, got list"),
    ("x" * 100_001, "at most 100,000 characters, got 100,001"),
)  # fmt: skip
async def test_an_input_that_is_none_is_refused(given, reason, talk):
    with pytest.raises(InvalidInput, match=reason):
        await talk.say(given)
    assert (await talk.status())["has_active_session"] is False


@every_case("", None, 7, "a\x00b", "\ud800", Scope("a", "b"))
async def test_a_user_id_that_is_none_is_refused(user_id, shared_memory):
    for call in (
        shared_memory.process_memory("I like tea", user_id),
        shared_memory.end_session(user_id),
        shared_memory.get_session_status(user_id),
    ):
        with pytest.raises(InvalidInput):
            await call


@pytest.mark.parametrize("text", ["a\x00b", "\ud800 tea", "🙂", "？", "x" * 100_000, "'; DROP --"])
async def test_whatever_is_said_is_taken_in(talk, text):
    answer = await talk.say(text)
    assert "\x00" not in answer["resolved_query"]
    assert answer["resolved_query"].encode()
    assert 1 == (await talk.status())["session_info"]["event_count"]


async def test_a_secret_is_masked_before_it_is_stored(talk):
    await talk.say("My password is: hunter2secret")
    manager = SessionManager(talk.memory, app=talk.scope.app)
    [said] = await manager.get_session_events(talk.scope.user)
    assert "hunter2secret" not in said.text


@pytest.mark.parametrize(
    ("variable", "value", "setting", "result"),
    [
        ("SESSION_TIMEOUT", "900", "timeout_s", 900),
        ("HIPPOCAMPUS_SESSION_TIMEOUT", "60", "timeout_s", 60),
        ("SESSION_MAX_DURATION", "7200", "max_duration_s", 7200),
        ("SESSION_MAX_EVENTS", "7", "max_events", 7),
        ("COREFERENCE_CONTEXT_SIZE", "3", "context_size", 3),
        ("HIPPOCAMPUS_APP", "brain", "app", "brain"),
        ("MEMORY_STRATEGIES", "privacy_filter", "strategies", ("privacy_filter",)),
    ],
)
async def test_environment_sets_rules(shared_dsn, monkeypatch, variable, value, setting, result):
    monkeypatch.setenv(variable, value)
    assert result == getattr(open_memory(shared_dsn).conversations.settings, setting)


@every_case("soon", "0", "-5", "1.5", "nan", "99999999999")
async def test_a_variable_without_sense_is_named_when_used(value, shared_dsn, scope, monkeypatch):
    monkeypatch.setenv("SESSION_TIMEOUT", value)
    async with open_memory(shared_dsn) as memory:
        await memory.remember(scope, "tea")
        with pytest.raises(InvalidInput, match=f"SESSION_TIMEOUT='{value}' is not valid"):
            await memory.process_memory("I like tea", scope.user)


async def test_the_size_of_the_context_bounds_what_pronouns_mean(shared_dsn, scope):
    async with opened(shared_dsn, context_size=1) as memory:
        answer = await Talk(memory, scope).say("我女儿叫灿灿", "今天下雨", "她今年几岁了？")
        assert answer["resolved_query"] == "她今年几岁了？"


async def test_end_session_of_a_thread_is_what_it_was(talk):
    assert await talk.memory.end_session(talk.scope, "monday") is False
    for given in ((talk.scope,), (talk.scope.user, "monday")):
        with pytest.raises(InvalidInput, match="takes a user id"):
            await talk.memory.end_session(*given)  # type: ignore[call-overload]


async def test_the_resolver_takes_texts():
    resolver = CoreferenceResolver()
    assert "你喜欢吃桔子吗？" == resolver.resolve_query("你喜欢吃这个吗？", ["桔子熟了", "很甜"])
    assert ["灿灿是我的女儿，今年5岁，喜欢画画"] == await resolver.resolve_events([*CANCAN])
    assert [] == await resolver.resolve_events([])
