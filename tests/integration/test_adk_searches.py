"""What OpenMemoryService.search_memory returns: the floor, the kinds, and the order of the hits."""

import pytest
from every_case import every_case
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from adk_memory import OpenMemoryService
from adk_memory.options import LEAST_RELEVANCE
from adk_memory.selection import looked_up, repeats
from benchmarks.relevance import judged, kept
from shared_core import InvalidInput, open_memory

WHO = {"app_name": "notes", "user_id": "kim"}
LONG = (
    "I moved to Lisbon in March and I live near the river now. ",
    "My sister Mila plays the cello in an orchestra in Porto. ",
    "We keep two dogs, Rex and Bella, and a very old parrot. ",
)


def said(*texts: str) -> Session:
    events = [
        Event(
            id=f"e{number}", author="user", invocation_id="i",
            content=types.Content(role="user", parts=[types.Part(text=text)]),
        )
        for number, text in enumerate(texts)
    ]  # fmt: skip
    return Session(id="s", events=events, **WHO)


@pytest.fixture
async def service(dsn):
    async with OpenMemoryService(dsn) as service:
        yield service


async def found(service: OpenMemoryService, query: str) -> list[MemoryEntry]:
    return (await service.search_memory(query=query, **WHO)).memories


def texts(entries: list[MemoryEntry]) -> list[str]:
    return ["".join(part.text or "" for part in entry.content.parts or []) for entry in entries]


def kinds(entries: list[MemoryEntry]) -> list[str]:
    return [entry.custom_metadata["hippocampus"]["kind"] for entry in entries]


@pytest.mark.parametrize("embedder", ["e5", "use"])
@pytest.mark.tail
async def test_the_floor_tells_related_questions_from_unrelated_ones(embedder, dsn):
    async with open_memory(dsn, embedder=embedder) as memory:
        results = await judged(memory)
    for language in ("en", "zh"):
        of_language = [one for one in results if one.lang == language]
        assert 60 <= len(of_language)
        assert 90 <= kept([one.related for one in of_language], LEAST_RELEVANCE)
        assert 2 >= kept([one.unrelated for one in of_language], LEAST_RELEVANCE)


@pytest.mark.parametrize("embedder", ["e5", "use"])
@pytest.mark.parametrize(("memory", "unrelated", "related"), [
    ("marker", ("zeppelin", "飞艇"), ("marker", "the marker pen")),
    ("马克笔", ("飞艇", "zeppelin"), ("马克笔", "记号笔")),
    ("I moved to Lisbon in March.", ("What is my blood type?", "路由器怎么重启？"),
     ("Where did I move?",)),
    ("我对花生过敏。", ("路由器怎么重启？", "How tall is the Eiffel Tower?"),
     ("有什么东西我不能吃？",)),
])  # fmt: skip
async def test_one_memory_is_found_by_what_it_is_about(embedder, memory, unrelated, related, dsn):
    async with OpenMemoryService(dsn, embedder=embedder) as service:
        entry = MemoryEntry(content=types.Content(parts=[types.Part(text=memory)]))
        await service.add_memory(memories=[entry], **WHO)
        for question in unrelated:
            assert [] == await found(service, question)
        for question in related:
            assert [memory] == texts(await found(service, question))


@pytest.mark.parametrize("turns", [
    ("I live in Lisbon.", "Thanks!", "My dog is called Rex."),
    ("我住在里斯本。", "谢谢！", "我的狗叫雷克斯。"),
    ("I moved to Lisbon. My dog is called Rex.", "Thanks!", "I like tea."),
])  # fmt: skip
async def test_a_summary_that_repeats_a_short_session_is_never_returned(turns, service):
    await service.add_session_to_memory(said(*turns))
    assert ["summary"] == kinds(await service.list_memories(memory_type="summary", **WHO))
    for question in ("Lisbon", "里斯本", "Rex", "Which dog do I have?", "我住在哪里？"):
        assert "summary" not in kinds(await found(service, question))


def test_a_summary_repeats_if_every_sentence_is_there_and_little_is_left_out():
    assert repeats("I like tea. I like cake.", ["I like tea.", "Noted.", "I like cake!"])
    assert not repeats("I like tea. I hate cake.", ["I like tea.", "I like cake."])
    assert not repeats("I like tea.", ["I like tea.", "A long story about something else."])
    assert repeats("我喜欢茶。", ["我喜欢茶。"])


@pytest.mark.parametrize(("turns", "question"), [
    (("I have two children, Mila and Jan, and I live in Porto.",), "children"),
    (("I am allergic to peanuts, so no satay for me.",), "What am I allergic to?"),
    (("我对花生过敏，别给我点宫保鸡丁。",), "我对什么过敏？"),
    (LONG, "What are my dogs called?"),
    (LONG, "Where do I live?"),
])  # fmt: skip
async def test_a_fact_stands_below_the_turn_that_it_was_drawn_from(turns, question, service):
    await service.add_session_to_memory(said(*turns))
    entries = await found(service, question)
    place = {entry.source_event_ids[0]: number for number, entry in enumerate(entries)
             if entry.author}  # type: ignore[attr-defined] # fmt: skip
    assert place
    for number, entry in enumerate(entries):
        if not entry.author:
            for event_id in entry.source_event_ids:  # type: ignore[attr-defined]
                assert place.get(event_id, -1) < number, texts(entries)


async def test_facts_are_what_was_learned_and_memories_can_be_chosen_in_the_uri(dsn):
    async with OpenMemoryService(dsn, memories="facts") as service:
        await service.add_session_to_memory(said("I moved to Lisbon, what a week.", "Hm."))
        entries = await found(service, "Where do I live?")
        assert ["User lives in Lisbon."] == texts(entries)
        assert ["semantic"] == kinds(entries)
    assert "turns" == OpenMemoryService("hippocampus://?memories=turns")._options.memories
    with pytest.raises(InvalidInput, match="memories must be 'all', 'turns' or 'facts'"):
        OpenMemoryService(memories="words")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="memories must be"):
        OpenMemoryService("hippocampus://?memories=words")


@every_case(
    ("Python", "I code in python!", True), ("deploy", "We deployed it.", True),
    ("thon", "Python", False), ("机器", "我喜欢机器学习", True), ("the", "the end", True),
    ("the", "an end", False),
)  # fmt: skip
def test_one_word_is_looked_up_as_a_word(query, text, holds):
    test = looked_up(query)
    assert test is not None and holds == test(text)


@every_case("two words", "我的血型是什么", "", "?")
def test_anything_longer_is_searched_by_meaning(query):
    assert looked_up(query) is None
