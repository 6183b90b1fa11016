"""What ADK's own memory services do, from OpenMemoryService(memories="turns") as well.

Each test runs on ADK's InMemoryMemoryService and on ours. Where ours differs on purpose, docs/
reference/conformance.md says why, and a test below says how.
"""

import asyncio
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from google.adk.memory import BaseMemoryService as Service, InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adk_memory import OpenMemoryService
from adk_memory.conformance.samples import WHO, event as said, session, texts
from shared_core import run_sync

AT = 1_700_000_000.25
TOOLS = session(said("t1", "The compiler is a fine piece of work."), said("t2"), said("t3",
    "True. That optimising compiler (GCC) flies!", author="model"), session_id="tools")  # fmt: skip
TRIPS = session(said("r1", "My holidays are in Portugal.", timestamp=AT), session_id="trips")


@pytest.fixture(scope="module")
def open_service(database):
    service = OpenMemoryService(database.dsn, memories="turns")
    yield service
    run_sync(service.close())


@pytest.fixture(params=[pytest.param("in_memory", marks=pytest.mark.upstream), "ours"])
def service(request):
    in_memory = request.param == "in_memory"
    return InMemoryMemoryService() if in_memory else request.getfixturevalue("ours")


async def found(service: Service, query: str, **who: str) -> list[MemoryEntry]:
    return (await service.search_memory(query=query, **{**WHO, **who})).memories


async def test_a_session_is_one_entry_a_turn_and_without_events_none(service):
    await service.add_session_to_memory(session())
    assert [] == await found(service, "anything")
    await service.add_session_to_memory(TOOLS)
    entries = await found(service, "fine optimising compiler")
    assert ["t1", "t3"] == sorted(entry.id for entry in entries)


@pytest.mark.parametrize("session_id", ["tools", None])
async def test_events_join_what_is_there(service, session_id):
    await service.add_session_to_memory(TOOLS)
    more = [said("t4", "A linker came today.")]
    for _ in range(2):
        await service.add_events_to_memory(events=more, session_id=session_id, **WHO)
    assert ["t4"] == [entry.id for entry in await found(service, "linker")]
    assert 2 == len(await found(service, "compiler"))


async def test_an_entry_is_its_event_alone_and_ours_alone_takes_new_words_of_one_id(service):
    await service.add_session_to_memory(TRIPS)
    [entry] = await found(service, "Portugal")
    assert ("r1", "user") == (entry.id, entry.author)
    assert ["My holidays are in Portugal."] == texts([entry])
    assert datetime.fromtimestamp(AT).isoformat() == entry.timestamp  # noqa: DTZ006
    assert {} == entry.custom_metadata
    again = [said("r1", "My holidays are cancelled.")]
    await service.add_events_to_memory(events=again, session_id="trips", **WHO)
    is_ours = isinstance(service, OpenMemoryService)
    kept = "My holidays are cancelled." if is_ours else "My holidays are in Portugal."
    assert [kept] == texts(await found(service, "holidays"))


async def test_words_find_the_turns_that_hold_them(service):
    for one in (TOOLS, TRIPS):
        await service.add_session_to_memory(one)
    for query, ids in {
        "Portugal": {"r1"}, "optimising": {"t3"}, "COMPILER": {"t1", "t3"},
        "What about the compiler?": {"t1", "t3"},
        "unheard": set(), "": set(), "  \n ": set(), "?!": set(),
    }.items():  # fmt: skip
        assert ids == {entry.id for entry in await found(service, query)}, query


async def test_users_and_applications_are_apart_and_a_slash_in_a_name_is_no_border(service):
    await service.add_session_to_memory(TRIPS)
    await service.add_session_to_memory(session(said("p1", "The vault is blue."), user_id="lee"))
    assert [] == await found(service, "vault")
    assert ["The vault is blue."] == texts(await found(service, "vault", user_id="lee"))
    slashed = session(said("s1", "The vault is blue."), app_name="a/b", user_id="c")
    await service.add_session_to_memory(slashed)
    assert [] == await found(service, "vault", app_name="a", user_id="b/c")
    assert 1 == len(await found(service, "vault", app_name="a/b", user_id="c"))


def parted(text: str) -> str:
    """Return a text with the marks of its letters as characters of their own."""
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    ("text", "finds", "passes"),
    [
        ("彼女の名前は花子です", ["花子"], ["天気"]),
        ("我想学习深度学习", ["深度学习"], ["天气预报"]),
        ("제 이름은 지영입니다", ["지영입니다"], []), ("Меня зовут Борис", ["Борис"], []),
        ("花子 leads Acme Ltd", ["花子", "Acme"], []),
        ("彼はKotlinでADKを使っています", ["Kotlin", "adk", "使って"], ["Java", "otlin"]),
        ("他用Kotlin写程序", ["kotlin"], []), ("I write programs in Kotlin.", [], ["otlin"]),
        (parted("彼はCrêpeとADKが好きです"), ["Crêpe", "crêpe"], ["Ruby"]),
        (parted("Two Crêpes, one Crêpe"), ["Crêpe"], []), ("One Crêpe", [parted("Crêpe")], []),
        (parted("デバッグを学ぶ"), ["デバッグ"], []),
        (parted("제 이름은 지영입니다"), ["지영입니다"], []),
    ],
)  # fmt: skip
async def test_every_script_is_searched_by_its_words(service, text, finds, passes):
    await service.add_session_to_memory(session(said("i1", text)))
    assert [1] * len(finds) == [len(await found(service, query)) for query in finds]
    assert [0] * len(passes) == [len(await found(service, query)) for query in passes]


async def test_more_matching_words_come_first(service):
    said_of = {"a": "The build is green.", "b": "Green.", "c": "The build status is green."}
    await service.add_session_to_memory(session(*(said(*one) for one in said_of.items())))
    assert ["c", "a", "b"] == [entry.id for entry in await found(service, "build status green")]


async def test_two_turns_with_the_same_words_are_two_entries(service):
    await service.add_session_to_memory(session(said("d1", "Lunch?"), said("d2", "Lunch?")))
    assert {"d1", "d2"} == {entry.id for entry in await found(service, "lunch")}


async def test_a_word_of_every_turn_returns_ten_with_the_best_first(service):
    events = [said(f"n{n}", f"entry {n} of the office") for n in range(20)]
    events.append(said("best", "the ledger entry of the office"))
    await service.add_session_to_memory(session(*events))
    entries = await found(service, "office ledger entry")
    assert 10 == len(entries)
    assert "best" == entries[0].id


@pytest.mark.parametrize("whole", [True, False])
async def test_neither_side_of_a_memory_follows_the_other(service, whole):
    event = said("m1", "I drink oolong.")
    given = session(event)
    if whole:
        await service.add_session_to_memory(given)
    else:
        await service.add_events_to_memory(events=given.events, session_id="s1", **WHO)
    assert event.content and event.content.parts
    event.author, event.content.parts[0].text = "somebody", "I drink cola."
    [entry] = await found(service, "oolong")
    assert ("user", ["I drink oolong."]) == (entry.author, texts([entry]))
    assert entry.content.parts
    entry.content.parts.clear()
    assert ["I drink oolong."] == texts(await found(service, "oolong"))


async def test_a_deleted_turn_does_not_return_with_its_session(service):
    await service.add_session_to_memory(TOOLS)
    for memory_id in (None, "", "unknown", "t1"):
        await service.delete_memory(memory_id=memory_id, **WHO)
    await service.add_session_to_memory(TOOLS)
    assert ["t3"] == [entry.id for entry in await found(service, "compiler")]


async def test_a_deleted_id_is_gone_from_every_session(service):
    for name in ("one", "two"):
        one = session(said("same", f"Tickets for {name}."), session_id=name)
        await service.add_session_to_memory(one)
    assert 2 == len(await found(service, "tickets"))
    await service.delete_memory(memory_id="same", **WHO)
    assert [] == await found(service, "tickets")


def test_threads_with_loops_of_their_own_search_while_others_add(dsn):
    service = OpenMemoryService(dsn, memories="turns")

    def add() -> None:
        for n in range(10):
            one = session(said(f"w{n}", f"fact about {n}"), session_id=f"w{n}")
            asyncio.run(service.add_session_to_memory(one))

    def look() -> None:
        for _ in range(10):
            asyncio.run(found(service, "fact"))

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(work) for work in (add, look, look)]:
            done.result()
    assert 10 == len(asyncio.run(found(service, "fact")))
    asyncio.run(service.close())


# What differs on purpose: docs/reference/conformance.md.


async def test_a_question_finds_a_turn_in_other_words(ours):
    await ours.add_session_to_memory(TRIPS)
    entries = await found(ours, "Where do I spend my vacation?")
    assert ["My holidays are in Portugal."] == texts(entries)


async def test_an_added_entry_is_returned_among_the_turns_as_it_was_given(ours):
    given = MemoryEntry(
        id="mine", author="editor", content=types.Content(parts=[types.Part(text="Use metric.")]),
        custom_metadata={"kind": "preference", "importance": "high", "score": 0.5},
    )  # fmt: skip
    await ours.add_memory(memories=[given], **WHO)
    await ours.add_session_to_memory(session(said("l1", "I live in Lisbon.")))
    [entry] = await found(ours, "metric")
    assert given.custom_metadata == entry.custom_metadata
    assert ("mine", "editor") == (entry.id, entry.author)
    assert ["I live in Lisbon."] == texts(await found(ours, "Lisbon"))  # and no fact
