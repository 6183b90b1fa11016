"""Sessions and memory on the same rows: nothing is stored or sent twice, and nothing is lost."""

import asyncio
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types
from long_forms import LONG
from postgres_admin import column, rows
from warm_python import warm_python

from adk_memory import OpenMemoryService, PgSessionService
from adk_memory.conformance.samples import reload, texts
from shared_core import InvalidInput, Scope, open_memory
from shared_core.storage.postgres.connection.database import Answers, PostgresDatabase
from shared_core.storage.postgres.connection.statements import Step

WHO = {"app_name": "support/bot", "user_id": "ana@example.com"}
ANA = Scope(WHO["app_name"], WHO["user_id"])
TOLD = ["My name is Ann and I live in Lisbon.", "我对花生过敏。", "The meeting is on Thursday."]


def said(text: str, **fields: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(**{"author": "user", "invocation_id": "i", "content": content, **fields})


@pytest.fixture
def sessions(memory):
    return PgSessionService(engine=memory)


@pytest.fixture
def service(memory):
    return OpenMemoryService(engine=memory)


@pytest.fixture
async def session(sessions, untold):
    """A session that told something."""
    for text in TOLD:
        await sessions.append_event(untold, said(text))
    return untold


@pytest.fixture
async def untold(sessions):
    """A session that told nothing yet."""
    return await sessions.create_session(**WHO, session_id="s1")


@pytest.fixture
async def sent(monkeypatch):
    """Every round trip to the database from now on, with what it carries; no worker's."""
    trips: list[Sequence[Step]] = []
    run = PostgresDatabase.run

    async def counted(self: PostgresDatabase, scope: str, *steps: Step, **given: Any) -> Answers:
        task: Any = asyncio.current_task()
        if "shared_core" not in task.get_coro().cr_code.co_filename:
            trips.append(steps)
        return await run(self, scope, *steps, **given)

    monkeypatch.setattr(PostgresDatabase, "run", counted)
    yield trips


async def found(service: OpenMemoryService, query: str) -> list[str]:
    return texts((await service.search_memory(**WHO, query=query)).memories)


def count(dsn: str, table: str) -> int:
    return len(rows(dsn, f"SELECT 1 FROM hippocampus.{table}"))


async def test_remembering_a_session_sends_none_of_its_text(service, session, sent, dsn):
    told = {"events": session.events, "session_id": session.id}
    await service.add_events_to_memory(**WHO, **told, custom_metadata={"wait": False})
    carried = str([one.values for steps in sent for one in steps])
    assert [] == [text for text in TOLD if text in carried]
    assert 2 == len(sent)
    assert set(TOLD) <= set(await found(service, "Lisbon 花生 Thursday meeting"))
    assert 3 == count(dsn, "events")


async def test_appending_an_event_is_one_round_trip(sessions, session, sent):
    delta = {"step": 2, "app:theme": "dark", "user:language": "pt"}
    await sessions.append_event(session, said("Next.", actions=EventActions(state_delta=delta)))
    assert 1 == len(sent)
    loaded = await reload(sessions, "s1", **WHO)
    assert 2 == len(sent)
    assert (delta, session.events) == (loaded.state, loaded.events)


async def test_queued_ingestion_takes_two_round_trips_and_no_embedding(dsn, sent):
    embedded: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        embedded.append(texts)
        return [[1.0, float(len(text))] for text in texts]

    async with OpenMemoryService(dsn, embedder=embed, wait=False) as service:
        await service.engine.open()
        sent.clear()
        events = [said(text) for text in TOLD]
        await service.add_events_to_memory(**WHO, events=events, session_id="s1")
        assert 2 == len(sent)
        assert [] == embedded
        assert await service.flush(30)
        assert TOLD in embedded
        assert "User lives in Lisbon." in await found(service, "Lisbon lives")


async def test_a_memory_that_is_deleted_leaves_the_session_as_it_was(sessions, service, session):
    await service.add_session_to_memory(session)
    for entry in (await service.search_memory(**WHO, query="Lisbon lives")).memories:
        if entry.author == "user" and "Lisbon" in str(entry.content):
            await service.delete_memory(**WHO, memory_id=entry.id)
    loaded = await reload(sessions, "s1", **WHO)
    assert session.events == loaded.events
    for again in (session, loaded):
        await service.add_session_to_memory(again)
        assert [] == [text for text in await found(service, "Ann Lisbon") if "Lisbon" in text]
    await sessions.append_event(loaded, said("I am still here."))


async def test_a_deleted_session_keeps_or_takes_its_memories(memory, service, session, dsn):
    await service.add_session_to_memory(session)
    await PgSessionService(engine=memory).delete_session(**WHO, session_id="s1")
    assert "User lives in Lisbon." in await found(service, "Lisbon lives")
    taking = PgSessionService(engine=memory, delete_memories=True)
    again = await taking.create_session(**WHO, session_id="s1")
    assert [] == again.events
    await taking.append_event(again, said("A new start."))
    await taking.delete_session(**WHO, session_id="s1")
    assert [] == await found(service, "Lisbon lives start")
    assert [0, 0, 0] == [count(dsn, table) for table in ("memories", "events", "threads")]
    await service.add_session_to_memory(session)
    assert [] == await found(service, "Lisbon lives")


async def test_a_thread_that_only_memory_knows_is_no_session(sessions, service):
    turn = said("I like green tea.")
    await service.add_events_to_memory(**WHO, events=[turn], session_id="s9")
    assert None is await sessions.get_session(**WHO, session_id="s9")
    assert [] == (await sessions.list_sessions(app_name=WHO["app_name"])).sessions
    created = await sessions.create_session(**WHO, session_id="s9")
    await sessions.append_event(created, turn)
    await service.add_session_to_memory(created)
    assert [turn] == (await reload(sessions, "s9", **WHO)).events
    assert 1 == (await found(service, "green tea")).count("I like green tea.")


async def test_a_turn_rewound_once_it_was_remembered_is_forgotten_with_its_facts(sessions, service):
    created = await sessions.create_session(**WHO)
    await sessions.append_event(created, said("I live in Porto.", invocation_id="i1"))
    await sessions.append_event(created, said("I work at Siemens.", invocation_id="i2"))
    await service.add_session_to_memory(created)
    assert "User works at Siemens." in await found(service, "works Siemens")
    back = EventActions(rewind_before_invocation_id="i2")
    await sessions.append_event(created, Event(author="user", invocation_id="i3", actions=back))
    await service.add_session_to_memory(created)
    assert [] == [text for text in await found(service, "works Siemens") if "Siemens" in text]
    assert "User lives in Porto." in await found(service, "lives Porto")


async def test_turns_remembered_out_of_order_are_all_consolidated(sessions, service, session):
    last = said("I work at Siemens.")
    await sessions.append_event(session, last)
    await service.add_events_to_memory(**WHO, events=[last], session_id="s1")
    await service.add_session_to_memory(session)
    facts = {fact.statement for fact in await service.engine.facts(ANA)}
    assert {"User works at Siemens.", "User lives in Lisbon."} <= facts


async def test_remembering_makes_no_session_stale(sessions, service, session):
    await service.add_session_to_memory(session)
    await sessions.append_event(session, said("And so on."))
    await service.delete_session_memory(**WHO, session_id="s1")
    await sessions.append_event(session, said("And on."))
    assert 5 == len((await reload(sessions, "s1", **WHO)).events)


async def test_a_session_of_another_service_is_appended_to_if_it_has_seen_all(sessions, session):
    """A copy through JSON, as a client may hold it, has no marker."""
    copy = Session.model_validate_json(session.model_dump_json())
    await sessions.append_event(copy, said("From the copy."))
    outdated = Session.model_validate_json(session.model_dump_json())
    with pytest.raises(StaleSessionError, match="get_session"):
        await sessions.append_event(outdated, said("Too late."))


APPENDER = """
import asyncio, sys
from google.adk.errors import StaleSessionError
from google.adk.events import Event
from google.genai import types
from adk_memory import PgSessionService

async def append(sessions, session_id, texts):
    for text in texts:
        event = Event(author=sys.argv[2], invocation_id="i",
                      content=types.Content(parts=[types.Part(text=text)]))
        while True:
            session = await sessions.get_session(app_name="a", user_id="u", session_id=session_id)
            try:
                await sessions.append_event(session, event)
                break
            except StaleSessionError:
                await asyncio.sleep(0)

async def main():
    async with PgSessionService(sys.argv[1]) as sessions:
        print("ready", flush=True)
        sys.stdin.readline()
        await asyncio.gather(*(append(sessions, f"s{n}", "01234") for n in range(int(sys.argv[3]))))

asyncio.run(main())
"""


@pytest.mark.tail
async def test_processes_that_append_to_the_same_sessions_lose_nothing(dsn):
    """By night four processes append a thousand events to fifty sessions."""
    processes, many = (4, 50) if LONG else (2, 20)
    async with PgSessionService(dsn) as sessions:
        for n in range(many):
            await sessions.create_session(app_name="a", user_id="u", session_id=f"s{n}")
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        line = [*warm_python(), "-c", APPENDER, dsn]
        writers = [
            subprocess.Popen([*line, f"writer{n}", str(many)], **pipes) for n in range(processes)
        ]
        assert {"ready\n"} == {await asyncio.to_thread(one.stdout.readline) for one in writers}
        ended = await asyncio.gather(*(asyncio.to_thread(w.communicate, "go") for w in writers))
        assert [("", None)] * processes == ended
        assert [0] * processes == [writer.returncode for writer in writers]
        for n in range(many):
            session = await reload(sessions, f"s{n}", app_name="a", user_id="u")
            by_writer: dict[str, list[str]] = {}
            for event in session.events:
                by_writer.setdefault(event.author, []).append(event.content.parts[0].text)
            assert {f"writer{w}": list("01234") for w in range(processes)} == by_writer
    grouped = "SELECT array_agg(seq ORDER BY seq) FROM hippocampus.events GROUP BY thread_id"
    assert [list(range(1, 5 * processes + 1))] * many == column(dsn, grouped)


async def test_a_session_takes_appends_in_order_odd_keys_and_one_of_blind_writers(sessions, untold):
    events = [said(str(n)) for n in range(20)]
    await asyncio.gather(*(sessions.append_event(untold, event) for event in events))
    assert events == untold.events == (await reload(sessions, "s1", **WHO)).events
    odd = {"k": {"a\ud800": 1, "b\x00": ["c\ud800"]}}
    await sessions.append_event(untold, said("tea", actions=EventActions(state_delta=odd)))
    loaded = await reload(sessions, "s1", **WHO)
    assert {"a\ufffd": 1, "b\ufffd": ["c\ufffd"]} == loaded.state["k"]
    await sessions.append_event(untold, said("First."))
    for round_ in range(5):
        loaded = await reload(sessions, "s1", **WHO)
        copies = [Session.model_validate_json(loaded.model_dump_json()) for _ in range(4)]
        writers = [PgSessionService(engine=sessions.engine) for _ in copies]
        appending = (
            writer.append_event(copy, said(f"{round_} {n}"))
            for n, (writer, copy) in enumerate(zip(writers, copies, strict=True))
        )
        outcomes = await asyncio.gather(*appending, return_exceptions=True)
        assert 3 == len([o for o in outcomes if isinstance(o, StaleSessionError)])


def test_sessions_work_on_one_loop_after_another(dsn):
    service = PgSessionService(dsn)
    session = asyncio.run(service.create_session(**WHO))
    for n in range(3):
        asyncio.run(service.append_event(session, said(str(n))))
    loaded = asyncio.run(reload(service, session.id, **WHO))
    asyncio.run(service.close())
    assert session.events == loaded.events


async def test_an_answer_that_was_lost_does_not_double_the_event(sessions, session):
    """The same event again from an object that never heard of the first time."""
    before = session.model_copy(deep=True)
    event = said("Once only.")
    await sessions.append_event(session, event)
    await sessions.append_event(before, event)
    await sessions.append_event(before, said("And then."))
    loaded = await reload(sessions, "s1", **WHO)
    told = [event.content.parts[0].text for event in loaded.events]
    assert [*TOLD, "Once only.", "And then."] == told
    assert loaded.events == before.events


async def test_two_users_may_use_the_same_session_and_event_ids(sessions, service):
    for user in ("ann", "bob"):
        session = await sessions.create_session(app_name="a", user_id=user, session_id="s")
        await sessions.append_event(session, said(f"tea for {user}", id="e1"))
        await service.add_session_to_memory(session)
    for user in ("ann", "bob"):
        answer = await service.search_memory(app_name="a", user_id=user, query="tea")
        assert {f"tea for {user}"} == set(texts(answer.memories))


async def test_words_cleaned_by_the_caller_are_what_is_remembered(sessions, service, untold):
    said_event = said("My card is 4111111111111111, book the hotel.")
    await sessions.append_event(untold, said_event)
    cleaned = said("My card is [redacted], book the hotel.", id=said_event.id)
    await service.add_events_to_memory(**WHO, events=[cleaned], session_id="s1")
    for entry in await service.list_memories(**WHO):
        assert "4111111" not in str(entry)
    assert "My card is [redacted], book the hotel." in await found(service, "card hotel")
    assert [said_event] == (await reload(sessions, "s1", **WHO)).events


async def test_a_log_has_the_order_it_was_appended_in(sessions, service):
    """Also where memory knew some turns before, as after a move from another session service."""
    events = [said(f"tea {n}", id=f"e{n}") for n in range(5)]
    await service.add_events_to_memory(**WHO, events=[events[0], events[3]], session_id="s1")
    session = await sessions.create_session(**WHO, session_id="s1")
    for event in events:
        await sessions.append_event(session, event)
    await service.add_session_to_memory(session)
    assert events == (await reload(sessions, "s1", **WHO)).events
    window = await service.get_context_window(**WHO, thread_id="s1", query="tea")
    assert [f"tea {n}" for n in range(5)] == [item.text for item in window.section("history")]


async def test_erasing_a_session_reaches_facts_whose_turns_faded(sessions, service, session, dsn):
    await service.add_session_to_memory(session)
    report = await service.cleanup_memories(**WHO, threshold=1, min_age_days=0)
    assert 4 == report["cleaned_count"]
    assert "User lives in Lisbon." in await found(service, "Lisbon lives")
    assert 3 == await service.delete_session_memory(**WHO, session_id="s1")
    assert [] == await service.list_memories(**WHO)
    assert [] == await service.engine.facts(ANA)
    await service.add_session_to_memory(session)
    assert [] == await service.list_memories(**WHO)


async def test_a_rewound_turn_leaves_memory_and_the_context_at_once(sessions, service, untold):
    await sessions.append_event(untold, said("I live in Porto.", invocation_id="i1"))
    await sessions.append_event(untold, said("My password is hunter2.", invocation_id="i2"))
    await service.add_session_to_memory(untold)
    back = EventActions(rewind_before_invocation_id="i2")
    await sessions.append_event(untold, Event(author="user", invocation_id="i3", actions=back))
    window = await service.get_context_window(**WHO, thread_id="s1", query="password")
    assert "hunter2" not in window.to_prompt()
    assert "Porto" in window.to_prompt()


async def test_a_session_of_the_same_name_is_another_session(sessions, untold):
    await sessions.delete_session(**WHO, session_id="s1")
    await sessions.create_session(**WHO, session_id=" s1 ")
    with pytest.raises(StaleSessionError):
        await sessions.append_event(untold, said("From before."))


@pytest.mark.parametrize("odd", ["a\x00b", "\ud800", ""])
async def test_an_id_nothing_can_be_stored_under_finds_nothing(sessions, service, session, odd):
    assert 0 == await service.delete_session_memory(**WHO, session_id=odd)
    assert None is await sessions.get_session(**WHO, session_id=odd)
    await sessions.delete_session(**WHO, session_id=odd)
    with pytest.raises(InvalidInput, match="thread_id"):
        await service.get_context_window(**WHO, thread_id=odd, query="tea")
    session.id = odd
    with pytest.raises(SessionNotFoundError):
        await sessions.append_event(session, said("tea"))


async def test_an_opening_whose_answer_was_lost_may_be_sent_again(dsn):
    now = datetime.now(UTC)
    async with open_memory(dsn, clock=lambda: now) as memory:
        sent = await memory.sessions.create(ANA, "s1")
        again = await memory.sessions.create(ANA, "s1")
    assert sent == again
