"""Sessions at their edges: beside an erasure, full, said again, exported."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from http_clients import client_of

from shared_core import Conflict, InvalidInput, MemoryEngine, Scope
from shared_core.conversation.answers import ProcessedInput
from shared_core.core.domain import ThreadId
from shared_core.policies import erasing
from shared_core.ports.operations import Operation, Policy, Verb
from shared_core.profiles.transcript import SessionConversation
from shared_core.storage.postgres.connection.statements import Step
from tests.integration.talking import ANN, SCOPE, Watch, info, jobs, opened, rows, statements

GATE = 4711
WAITING = (
    "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
    " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
)


def gated(monkeypatch: pytest.MonkeyPatch, memory: MemoryEngine, after: int) -> None:
    """Let an erasure wait for the gate after a number of the operations that write."""
    storage: Any = memory._storage
    gate = Step("gate", f"SELECT pg_advisory_xact_lock({GATE})".encode(), {})
    storage.transact.__self__.verbs["gate"] = lambda _: [gate]
    found = erasing.forgetting_scope

    def with_gate(thread_id: ThreadId | None, now: datetime) -> Policy[tuple[list[Operation], int]]:
        operations, memories = yield from found(thread_id, now)
        return [*operations[:after], Verb("gate", ()), *operations[after:]], memories

    monkeypatch.setattr(erasing, "forgetting_scope", with_gate)


async def waiting(superuser: psycopg.Connection[Any], count: int, task: asyncio.Task[Any]) -> None:
    """Return when so many wait for locks, or a task is done."""
    while not task.done():
        [(found,)] = superuser.execute(WAITING).fetchall()
        if found >= count:
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("after", [0, 1, 5, 9])
async def test_an_input_beside_an_erasure_is_whole_or_not_there(dsn, after, monkeypatch):
    async with opened(dsn, Watch()) as memory, opened(dsn, Watch()) as other:
        await memory.process_memory("I live in Rome", ANN)
        await other.open()
        gated(monkeypatch, memory, after)
        with psycopg.connect(dsn, autocommit=True) as superuser:
            superuser.execute(f"SELECT pg_advisory_lock({GATE})")
            erasing = asyncio.create_task(memory.forget_scope(SCOPE))
            await waiting(superuser, 1, erasing)
            hearing = asyncio.create_task(other.process_memory("I live in Oslo", ANN))
            await waiting(superuser, 2, hearing)
            superuser.execute(f"SELECT pg_advisory_unlock({GATE})")
            await asyncio.gather(erasing, hearing)
            said = superuser.execute("SELECT text FROM hippocampus.events").fetchall()
        assert ([("active", 1)], [("I live in Oslo",)]) == (rows(dsn), said)


@pytest.mark.parametrize("most", [1, 2])
async def test_a_full_session_is_ended_by_whoever_looks(dsn, most):
    async with opened(dsn, Watch(), max_events=most) as memory:
        for text in ("I live in Rome", "My cat is called Tom")[:most]:
            assert [] == rows(dsn) or await info(memory)
            await memory.process_memory(text, ANN)
        assert {} == await info(memory)
        assert 1 == await memory.conversations.expiry.run()
        assert ([("ending", most)], ["pending"]) == (rows(dsn), jobs(dsn))


async def test_an_input_with_an_id_is_taken_in_once(dsn):
    async with opened(dsn, Watch()) as memory, client_of(memory) as client:
        body = {"input": "I live in Rome", "user_id": ANN, "event_id": "m1"}
        for _ in range(2):
            assert 200 == (await client.post("/process", json=body)).status_code
        await memory.process_memory("I live in Rome", ANN, event_id="m1")
        assert [("active", 1)] == rows(dsn)
        await memory.process_memory("I live in Rome", ANN, event_id="m2")
        await memory.process_memory("I live in Rome", ANN)
        assert [("active", 3)] == rows(dsn)
        with pytest.raises(InvalidInput, match="event_id"):
            await memory.process_memory("I live in Rome", ANN, event_id="")


def unmeasured(answer: ProcessedInput) -> dict[str, Any]:
    return {**answer, "metadata": {**answer["metadata"], "retrieval_time_ms": None}}


async def test_an_input_sent_again_after_its_session_is_answered_and_not_stored(dsn):
    async with opened(dsn) as memory:
        await memory.process_memory("我女儿叫灿灿", ANN, event_id="m1")
        first = await memory.process_memory("她喜欢画画", ANN, event_id="m2")
        await memory.process_memory("我妻子叫小红", ANN, event_id="m3")
        await memory.end_session(ANN)
        assert await memory.flush(60)
        kept = [one.memory_id for one in await memory.list_memories(SCOPE)]
        for then in ([("ended", 3)], [("ended", 3), ("active", 1)]):
            again = await memory.process_memory("她喜欢画画", ANN, event_id="m2")
            assert "灿灿喜欢画画" == again["resolved_query"] == first["resolved_query"]
            assert unmeasured(first) == unmeasured(again)
            assert then == sorted(rows(dsn), reverse=True)
            if len(then) == 1:
                await memory.process_memory("我住在罗马", ANN, event_id="m4")
        assert kept == [one.memory_id for one in await memory.list_memories(SCOPE)]
        await memory.process_memory("我住在巴黎", ANN, event_id="m2")  # another text: another input
        assert [("ended", 3), ("active", 2)] == sorted(rows(dsn), reverse=True)


async def test_an_input_that_was_forgotten_does_not_come_back_when_sent_again(dsn):
    async with opened(dsn) as memory:
        await memory.process_memory("I live in Rome", ANN, event_id="m1")
        await memory.end_session(ANN)
        assert await memory.flush(60)
        await memory.forget_scope(SCOPE)
        again = await memory.process_memory("I live in Rome", ANN, event_id="m1")
        assert ("I live in Rome", []) == (again["resolved_query"], again["memories"])
        assert [] == rows(dsn)
        session = await memory.conversations.add(SCOPE, "My cat is called Tom")
        [said] = await memory.conversations.events(SCOPE, 5)
        await memory.forget_turns(SCOPE, session.session_id, [said.event_id])
        await memory.conversations.add(SCOPE, said)
        assert [] == await memory.conversations.events(SCOPE, 5)


@pytest.mark.parametrize("how", ["erase", "forget_scope"])
async def test_an_input_under_the_id_of_a_forgotten_one_is_told_of(dsn, how):
    async with opened(dsn, Watch()) as memory, client_of(memory) as client:
        first = await memory.process_memory("I live in Rome", ANN, event_id="m1")
        assert "taken_in" not in first["metadata"]
        await getattr(memory, how)(SCOPE)
        again = await memory.process_memory("I love coffee", ANN, event_id="m1")
        assert again["metadata"]["taken_in"] is False
        assert [] == rows(dsn)
        body = {"input": "I love coffee", "user_id": ANN, "event_id": "m1"}
        assert (await client.post("/process", json=body)).json()["metadata"]["taken_in"] is False
        anew = await memory.process_memory("I love coffee", ANN, event_id="m2")
        assert "taken_in" not in anew["metadata"]
        [said] = await memory.conversations.events(SCOPE, 5)
        session = await memory.conversations.active(SCOPE)
        await memory.forget_turns(SCOPE, session.session_id, [said.event_id])
        again = await memory.process_memory("I love tea", ANN, event_id="m2")
        assert again["metadata"]["taken_in"] is False


async def test_a_session_whose_job_is_cancelled_has_ended(clocked, dsn):
    await clocked.process_memory("I live in Rome", ANN)
    await clocked.end_session(ANN)
    assert [("ending", 1)] == rows(dsn)
    [job] = await clocked.jobs.list()
    assert 1 == await clocked.jobs.cancel([job.job_id])
    assert ([("ended", 1)], ["cancelled"]) == (rows(dsn), jobs(dsn))


async def test_no_caller_writes_to_the_thread_of_a_session(dsn):
    async with opened(dsn, Watch()) as memory, client_of(memory) as client:
        await memory.process_memory("I live in Rome", ANN)
        session = await memory.conversations.active(SCOPE)
        name = str(session.session_id)
        message = {"role": "user", "content": "I live in Oslo", "message_id": "z1"}
        [said] = await memory.conversations.events(SCOPE, 5)
        new = replace(said, event_id="z1", text="I live in Oslo")
        repository = memory.profiles.repository(SCOPE)
        talk = {"conversation_id": name, "messages": [message]}
        given = SessionConversation(conversation_id=session.session_id, events=(said, new))
        for call in (
            memory.append_events(SCOPE, name, [new]),
            memory.append_events(SCOPE, name, [new], later=True),
            memory.sessions.create(SCOPE, "conversation:mine"),
            memory.profiles.of(SCOPE).update(talk),
            memory.profiles.of(SCOPE).update(given),
            repository.save_conversation(talk),
            repository.save_conversation_message(name, message),
        ):
            with pytest.raises(InvalidInput, match="must not begin with 'conversation:'"):
                await call
        answer = await client.post("/profile-update", json={"user_id": ANN, **talk})
        assert 422 == answer.status_code
        assert ([("active", 1)], 1) == (rows(dsn), len(await memory.conversations.events(SCOPE, 5)))
        await memory.profiles.of(SCOPE).update(await repository.load_conversation(name))


async def test_what_was_said_long_before_a_pronoun_is_not_read(clocked):
    for filler in ("Rain fell. " * 400, "下雨了。" * 1_100):
        await clocked.process_memory(f"My daughter is called Mia. {filler}", ANN)
        answer = await clocked.process_memory("How old is she?", ANN)
        assert "How old is she?" == answer["resolved_query"]
        await clocked.end_session(ANN)
    await clocked.process_memory(f"{'Rain fell. ' * 400} My daughter is called Mia.", ANN)
    answer = await clocked.process_memory("How old is she?", ANN)
    assert "How old is Mia?" == answer["resolved_query"]


async def test_a_user_with_a_slash_in_the_id_is_found_and_a_sentence_that_is_cut_tells_nothing(dsn):
    async with opened(dsn, Watch()) as memory, client_of(memory) as client:
        await memory.process_memory("I live in Rome", "a/b")
        assert (await client.get("/session-status/a%2Fb")).json()["has_active_session"]
        await memory.graph.add(Scope("default", "a/b"), "user", "lives in", "Rome")
        assert "Rome" in str((await client.get("/graph/a%2Fb")).json())
        said = "My sister is a friend of my daughter Mia. "
        await memory.process_memory(said + "x" * (4_000 - 17) + ". Rain fell.", ANN)
        answer = await memory.process_memory("How old is she?", ANN)
        assert "How old is she?" == answer["resolved_query"]


# --- exported, and imported where the user was erased or goes on talking


async def exported(memory: MemoryEngine) -> list[str]:
    return [line async for line in memory.export(SCOPE)]


def threads(dsn: str) -> int:
    with psycopg.connect(dsn) as superuser:
        return superuser.execute("SELECT FROM hippocampus.threads").rowcount


def a_file(lines: list[str], folder: Path) -> Path:
    path = folder / "export.jsonl"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("as_source", [lambda lines, _: lines, a_file])
async def test_an_old_export_brings_back_nothing_that_was_erased(clocked, dsn, tmp_path, as_source):
    await clocked.process_memory("I live in Rome", ANN)
    source = as_source(await exported(clocked), tmp_path)
    await clocked.forget_scope(SCOPE)
    with pytest.raises(Conflict, match=r"line \d+, a row of events: .*Nothing was imported"):
        await clocked.import_lines(source)
    assert ([], 0) == (rows(dsn), threads(dsn))
    await clocked.import_lines(source, restore=True)
    assert [("active", 1)] == rows(dsn)


async def test_lines_that_come_one_by_one_bring_no_erased_session_back(clocked, dsn):
    await clocked.process_memory("I live in Rome", ANN)
    lines: Iterable[str] = iter(await exported(clocked))
    await clocked.forget_scope(SCOPE)
    with pytest.raises(Conflict, match="a row of conversations: this session was erased here"):
        await clocked.import_lines(lines)
    assert [] == rows(dsn)


async def test_an_active_session_has_ended_where_another_one_is_active(dsn, other_dsn):
    async with opened(dsn, Watch()) as memory, opened(other_dsn, Watch()) as other:
        await memory.process_memory("I live in Oslo", ANN)
        lines = await exported(memory)
        await other.process_memory("My cat is called Tom", ANN)
        await other.process_memory("Good morning", ANN)
        report = await other.import_lines(lines)
        assert (0, 0) == (report.here, report.differ)
        assert [("active", 2), ("ending", 1)] == sorted(rows(other_dsn))
        assert 1 == (await other.import_lines(lines)).differ
        assert ["pending"] == jobs(other_dsn)
    async with opened(other_dsn) as worker:
        assert await worker.flush(60)
        assert [("active", 2), ("ended", 1)] == sorted(rows(other_dsn))
        assert ["I live in Oslo."] == await statements(worker)


async def test_an_empty_session_of_an_export_leaves_nothing_to_wait_for(dsn, other_dsn):
    async with opened(dsn, Watch()) as memory, opened(other_dsn, Watch()) as other:
        await memory.conversations.open(SCOPE)
        lines = await exported(memory)
        await other.process_memory("My cat is called Tom", ANN)
        await other.import_lines(lines)
        assert ([("active", 1), ("ended", 0)], []) == (sorted(rows(other_dsn)), jobs(other_dsn))
