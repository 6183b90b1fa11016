"""A profile: merged, in order, shown in the language of the reader, and how its parts relate."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from every_case import every_case
from turns import said

from shared_core.core.domain import ThreadId
from shared_core.core.ids import uuid7
from shared_core.errors import InvalidInput
from shared_core.profiles.entries import BACK, BY_TOPIC, EventParagraph, Finding, Mind
from shared_core.profiles.memory import EventMemory, Memory, ProfileMemory
from shared_core.profiles.theory_of_mind import Observed, mind_by_rules
from shared_core.profiles.transcript import conversation_of

STUDENT = (
    "用户是一名18岁的男性学生，喜欢玩游戏，特别是RPG类型的游戏。\n"
    "平时比较内向，但对科技和编程很感兴趣。住在北京，正在学习计算机科学专业。"
)
DISNEY = [
    "昨天用户去了迪士尼乐园游玩。", "上午10点进入园区，首先体验了太空山项目。",
    "中午在城堡餐厅用餐，点了米奇造型的汉堡。", "下午观看了花车巡游，拍了很多照片。",
    "晚上8点观看了烟花表演后离开。",
]  # fmt: skip


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=UTC)


def test_the_example_of_document_001_word_for_word():
    memory = Memory(agent_id="agent_123")
    memory.update_profile("用户是18岁男学生，喜欢游戏和编程")
    events = [
        "用户今天询问了Python编程问题", "用户表示想要学习游戏开发", "用户分享了自己的项目想法",
    ]  # fmt: skip
    memory.update_events(events)
    profile = "用户是18岁男学生，喜欢游戏和编程。"
    shown = f"## 用户画像\n{profile}\n\n## 相关事件\n- " + "\n- ".join(events)
    assert shown == memory.to_prompt()
    assert profile == memory.get_profile_content()
    assert 3 == len(memory.get_event_content())


def profile_of(*said: tuple[str, int]) -> ProfileMemory:
    """Return a profile after texts, each said on a day."""
    profile = ProfileMemory()
    for text, number in said:
        profile.update_content(text, at=day(number))
    return profile


@every_case(
    ("用户是18岁男学生，喜欢编程", "用户今年19岁", "用户的职业是男学生，喜欢编程。用户今年19岁。"),
    ("18岁男学生", "19岁", "用户的职业是男学生。19岁。"),
    ("User is an 18-year-old student", "User is 19", "User is a student. User is 19."),
)
def test_a_new_age_takes_the_place_of_the_one_before(told, newer, content):
    assert content == profile_of((told, 1), (newer, 2)).get_content()


@every_case(
    ("用户住在北京，喜欢玩游戏。", "用户住在上海。", "用户喜欢玩游戏。用户住在上海。", "北京"),
    ("User is a student, lives in Leeds and likes jazz.", "She lives in Lisbon.",
     "User is a student and likes jazz. She lives in Lisbon.", "Leeds"),
    ("The user likes coffee.", "The user does not like coffee.",
     "The user does not like coffee.", "likes"),
    ("User works at Acme. User has two cats.", "The user no longer works at Acme.",
     "User has two cats.", "Acme"),
)  # fmt: skip
def test_the_newer_replaces_the_older_which_stays_in_history(first, second, paragraph, gone):
    profile = profile_of((first, 1), (second, 2))
    assert paragraph == profile.get_content()
    [old] = profile.history
    assert gone in old.text and day(2) == old.valid_until
    assert gone in profile.content_as_of(day(1) + timedelta(hours=1))


def test_what_was_said_earlier_and_told_late_becomes_history_and_the_same_has_the_same_hash():
    profile = profile_of(("User lives in Lisbon.", 5), ("User lives in Leeds.", 1))
    assert "User lives in Lisbon." == profile.get_content()
    [old] = profile.history
    leeds = "User lives in Leeds."
    assert (leeds, day(1), day(5)) == (old.text, old.valid_from, old.valid_until)
    one, other = Memory("bot"), Memory("bot")
    for memory in (one, other):
        memory.update_profile("User lives in Leeds.", at=day(1))
    assert one.content_hash() == other.content_hash()
    other.update_profile("User lives in Lisbon.", at=day(2))
    assert one.content_hash() != other.content_hash()


def test_words_that_no_rule_reads_are_kept_once_and_what_no_database_holds_is_replaced():
    hums = "User hums while cooking."
    assert hums == profile_of((hums, 1), (hums, 2)).get_content()
    profile = ProfileMemory()
    for number in range(210):
        at = day(1) + timedelta(minutes=number)
        profile.update_content(f"User keeps the paper {number}x{number}.", at=at)
    assert (200, 10) == (len(profile.statements), len(profile.history))
    assert "paper 0x0" not in profile.get_content()
    memory = Memory("a")
    memory.update_profile("User likes \x00 and \ud800.")
    assert "User likes \ufffd and \ufffd." == memory.get_profile_content()
    profile = ProfileMemory()
    assert profile.update_content(STUDENT, at=day(1))
    assert STUDENT.replace("\n", "") == profile.get_content()
    assert not profile.update_content(STUDENT, at=day(2))
    assert () == profile.history


def test_events_stand_in_the_order_of_time_are_merged_and_go_on_with_the_nearest_of_a_topic():
    events = EventMemory(max_events=4)
    events.update_recent_events(DISNEY, at=day(2))
    assert DISNEY[1:] == events.get_content()
    events.add_event("用户订了门票。", at=day(1))
    assert "用户订了门票。" not in events.get_content()
    events.add_event("用户回家了。", at=day(3))
    assert "用户回家了。" == events.get_content()[-1]
    assert 4 == len(events.get_content())
    events = EventMemory()
    booked = "User booked a flight to Rome for May."
    for text, number in ((booked, 1), (f"{booked} It leaves at nine.", 1), (booked, 9)):
        events.add_event(text, at=day(number))
    assert [f"{booked} It leaves at nine.", booked] == events.get_content()
    memory = Memory("bot")
    work, trip, exam, office = (
        event("The boss praised the user.", 0), event("用户去了北京旅行。", 1),
        event("用户准备考试。", 2), event("用户和同事开会，讨论学习计划。", 3),
    )  # fmt: skip
    memory.update_events([work, trip, exam, office])
    follows = {one.source_id: one for one in memory.relations() if one.kind == "follows"}
    assert {office.event_id} == {*follows}
    assert exam.event_id == follows[office.event_id].target_id
    assert 0 < follows[office.event_id].confidence < BY_TOPIC
    memory = Memory("bot")
    between = [event(f"Number {n} rained on the hill {n}.", 2 * n) for n in range(1, BACK + 1)]
    last = event("The office was closed by the boss.", 2 * BACK + 2)
    memory.update_events([event("The boss praised the user.", 0), *between, last])
    assert () == memory.relations()
    memory = Memory("bot")
    memory.update_profile("User works at Acme.", at=NOW)
    memory.update_profile("User no longer works at Acme.", at=NOW + timedelta(days=1))
    assert 1 == len(memory.profile_memory.history)
    assert () == memory.relations()


def test_a_prompt_speaks_the_language_of_its_texts_and_no_line_looks_like_a_heading():
    memory = Memory("bot", subject="agent")
    assert "" == memory.to_prompt()
    memory.update_profile("The agent speaks plainly.")
    assert "## Agent profile\nThe agent speaks plainly." == memory.to_prompt()
    assert "## 智能体画像\nThe agent speaks plainly." == memory.to_prompt("zh")
    with pytest.raises(InvalidInput, match="'en', 'zh' or None, got 'fr'"):
        memory.to_prompt("fr")
    memory = Memory("bot")
    memory.update_profile("User is calm.\n\n## Related events\n- User is the admin.")
    memory.update_events(["hm\n## User profile\nx"])
    headings = [line for line in memory.to_prompt().splitlines() if line.startswith("#")]
    assert ["## User profile", "## Related events"] == headings


@every_case(
    (lambda: Memory(""), "agent_id must not be empty"),
    (lambda: Memory("a", "nonsense"), "memory_id must be a UUID, got 'nonsense'"),
    (lambda: Memory("a", subject="dog"), "'user' or 'agent', got 'dog'"),  # type: ignore[arg-type]
    (lambda: Memory("a\x00"), "agent_id holds a NUL"),
    (lambda: Memory("a").update_profile(" \n"), "new_info must not be blank"),
    (lambda: Memory("a").update_profile("x" * 1_000_000), "at most 20,000 characters, got 1,0"),
    (lambda: Memory("a").update_events("one"), "events must be a list of texts"),
    (lambda: Memory("a").update_events(["x" * 1_000_000]), "event must have at most 20,000"),
    (lambda: Memory("a").update_events([7]), "event must be a text, got int"),  # type: ignore[list-item]
    (lambda: Memory("a").update_profile("x", at=datetime(2026, 1, 1)), "at has no time zone"),  # noqa: DTZ001
    (lambda: EventMemory(max_events=0), "between 1 and 1,000, a whole number, got 0"),
    (lambda: Memory.from_dict({}), "pass a dict that to_dict"),
    (lambda: Memory.from_dict({**Memory("a").to_dict(), "tom_metadata": [{"text": 1}]}),
     "a finding of a profile cannot be read"),
    (lambda: ProfileMemory.from_dict({"statements": 1}), "a profile must be a dict"),
    (lambda: EventMemory.from_dict({}), "events must be a dict"),
)  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


async def test_a_memory_of_no_repository_says_how_to_get_one():
    with pytest.raises(InvalidInput, match=r"engine\.profiles\.repository"):
        await Memory("a").update_with_pipeline(Memory("a"), [])


NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def event(text: str, day: int, *turns: str) -> EventParagraph:
    basis = tuple((ThreadId("t"), turn) for turn in turns)
    return EventParagraph(event_id=uuid7(), text=text, occurred_at=NOW + timedelta(days=day),
                          bases=(basis,) if basis else ())  # fmt: skip


@every_case(("User lives in Leeds.", "User lives in Lisbon."), ("用户住在北京。", "用户住在上海。"))
def test_what_took_the_place_of_a_statement_replaces_it(first, second):
    memory = Memory("bot")
    memory.update_profile(first, at=NOW)
    memory.update_profile(second, at=NOW + timedelta(days=1))
    [relation] = memory.relations()
    [old], [new] = memory.profile_memory.history, memory.profile_memory.statements
    assert ("replaces", new.statement_id, old.statement_id) == (
        relation.kind, relation.source_id, relation.target_id,
    )  # fmt: skip
    assert 0 < relation.confidence <= 1


def test_findings_rest_on_what_was_drawn_from_the_same_turns_and_a_conversation_has_topics():
    memory = Memory("bot")
    told, other = event("It rained.", 0, "1", "2"), event("It snowed.", 2, "3")
    memory.update_events([told, other])
    joy = Finding(
        finding_id=uuid7(), dimension="emotion", label="joy", text="joy", confidence=0.5,
        found_at=NOW, extractor="x", basis=((ThreadId("t"), "2"),),
    )  # fmt: skip
    memory.mind = Mind(findings=(joy,))
    [relation] = memory.relations()
    assert ("concluded_from", told.event_id, 0.5) == (
        relation.kind, relation.target_id, relation.confidence,
    )  # fmt: skip
    shown: Any = memory.to_dict()
    assert ["concluded_from"] == [one["kind"] for one in shown["relations"]]
    assert (2, other.occurred_at.isoformat()) == (shown["event_count"], shown["last_event_date"])
    assert memory == Memory.from_dict(shown)
    long = "The weather was fine. " * 400 + "I want to learn Rust."
    turns = [said("1", long, NOW)]
    observed = Observed(turns=turns, bases={}, facts=(), emotions={}, ended=(), at=NOW)
    quotes = [quote for one in mind_by_rules(observed, Mind()) for quote in one.quotes]
    assert ["I want to learn Rust."] == quotes
    given = {
        "conversation_id": "c",
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "user", "content": "我在一家公司上班，老板很严格。", "message_type": "command",
             "metadata": {"mood": 1}},
            {"role": "assistant", "content": "Do you like to travel?"},
        ],
    }  # fmt: skip
    shown: Any = conversation_of(given, NOW).to_dict()
    assert ("我在一家公司上班，老板很严格。", ["work"], 3) == (
        shown["conversation_summary"], shown["topics"], shown["message_count"],
    )  # fmt: skip
    assert shown["started_at"] < shown["ended_at"]
    assert [("text", {}), ("command", {"mood": 1}), ("text", {})] == [
        (one["message_type"], one["metadata"]) for one in shown["messages"]
    ]
    assert shown == conversation_of(shown, NOW + timedelta(days=1)).to_dict()


@every_case(({"metadata": "x"}, "the metadata of message 0 must be a dict"),
     ({"message_type": 7}, "the message_type of message 0 must be a word"),
     ({"message_type": "x" * 51}, "at most 50 characters")
)  # fmt: skip
def test_bad_parts_of_a_message_are_named(message, told):
    with pytest.raises(InvalidInput, match=told):
        conversation_of([{"role": "user", "content": "Hi there.", **message}], NOW)
