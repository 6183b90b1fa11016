"""SeekDB: a call whose answer was lost is answered as the first time, committed or not; and who
writes beside a change of the model or of a policy is waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pymysql
import pytest
from both_engines import NOW
from long_forms import LONG
from storage_calls import end_conversation, open_conversation, stored_jobs
from turns import said

from shared_core import Conflict, EmbeddingMismatch, Scope, StorageUnavailable
from shared_core.core.domain import MemoryId, ThreadId
from shared_core.core.namespaces import memories_namespace, scope_path, to_path
from shared_core.jobs.scheduled_task import ScheduledTask
from shared_core.knowledge.run_rows import apply_run
from shared_core.policies.api_tokens import add_token
from shared_core.policies.retention import accesses_of, select_accesses
from shared_core.policies.run_undo import undo_run
from shared_core.ports.api_tokens import ApiToken
from shared_core.ports.conversations import SessionRules
from shared_core.ports.items import MemoryRow, VectorRows
from shared_core.ports.jobs import JobType, NewJob
from shared_core.ports.operations import Select
from shared_core.ports.retention import Accesses, NewAccesses
from shared_core.ports.runs import RunPlan
from shared_core.settings import Settings
from shared_core.storage.oceanbase import retention_timing as timing, vectors
from shared_core.storage.oceanbase.connection import database as database_module
from shared_core.storage.oceanbase.connection.attempts import CommitMark, CommitMarks, was_committed
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.item_writes import put_vectors
from shared_core.storage.oceanbase.retention import OceanBaseRetention
from shared_core.storage.oceanbase.storage import OceanBaseStorage
from tests import forgetting_calls as calls
from tests.integration.retention_world import ANN, BOB, opened_world

RULES = SessionRules(
    timeout=timedelta(minutes=30), max_duration=timedelta(hours=24), max_events=100
)
LOST = pymysql.OperationalError(2013, "Lost connection to MySQL server during query")


class Wire:
    """Cuts the connection of the next commit, before it reaches the server or behind it.

    Only of a commit with a mark: that of a new tenant's row, before any work, may be done twice.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cut = ""
        commit, put = pymysql.Connection.commit, CommitMarks.put
        marked: list[pymysql.Connection[Any]] = []

        def putting(marks: CommitMarks, connection: pymysql.Connection[Any]) -> CommitMark:
            marked.append(connection)
            return put(marks, connection)

        def cutting(connection: pymysql.Connection[Any]) -> None:
            cut = ""
            if connection in marked:
                marked.remove(connection)
                cut, self.cut = self.cut, ""
            if cut != "before":
                commit(connection)
            if cut == "unknown":
                raise pymysql.OperationalError(6225, "Transaction result is unknown")
            if cut:
                connection.close()
                raise LOST

        monkeypatch.setattr(CommitMarks, "put", putting)
        monkeypatch.setattr(pymysql.Connection, "commit", cutting)


@pytest.fixture
def storage(both):
    return both.seekdb


@pytest.fixture
def user(both):
    return both.scope


@pytest.fixture
def wire(monkeypatch):
    return Wire(monkeypatch)


def memory(user: Scope, key: str) -> MemoryRow:
    return MemoryRow(
        memory_id=MemoryId(UUID(int=ord(key))), namespace=memories_namespace(user), key=key,
        kind="episodic", text=key, value={}, terms=[key], occurred_at=NOW,
    )  # fmt: skip


def job(number: int, kind: JobType = JobType.FULL_CONSOLIDATION) -> NewJob:
    return NewJob(job_id=UUID(int=number), job_type=kind, run_after=NOW)


async def taken(storage: OceanBaseStorage, user: Scope) -> object:
    return await ScheduledTask(storage, user.app).take("me", NOW, 60)


async def tokened(storage: OceanBaseStorage, user: Scope) -> object:
    token = ApiToken(token_id=user.app, app=user.app, users=None, label="", created_at=NOW)
    tenant = to_path((user.app,))
    await storage.transact(tenant, lambda: add_token(token, b"x" * 32), lock="none")
    return len(await storage.tokens.tokens(user.app))


async def ended(storage: OceanBaseStorage, user: Scope) -> object:
    reflecting = job(8, JobType.DEEP_REFLECTION)
    found = await end_conversation(storage, user, reflecting, RULES, if_over=False)
    return found and found.session_id


async def forgotten(storage: OceanBaseStorage, user: Scope) -> object:
    named = [(memories_namespace(user), key) for key in "ab"]
    return await calls.forget(storage, named, NOW)


async def forgotten_scope(storage: OceanBaseStorage, user: Scope) -> object:
    return await calls.forget_scope(storage, user, None, NOW)


async def erased(storage: OceanBaseStorage, user: Scope) -> object:
    counts = (await calls.erase(storage, user, None, UUID(int=1), NOW)).counts
    return counts["memories"], counts["events"]


async def cancelled(storage: OceanBaseStorage, user: Scope) -> object:
    return await stored_jobs(storage).cancel([UUID(int=7)])


async def counted(storage: OceanBaseStorage, user: Scope) -> object:
    read = MemoryId(UUID(int=ord("a")))
    await storage.accesses.add_accesses([NewAccesses(user, read, Accesses(2, NOW))])
    [rows] = await storage.read(scope_path(user), [select_accesses([read])])
    return accesses_of(rows)[read].access_count


def run(user: Scope, number: int) -> RunPlan:
    return RunPlan(
        run_id=UUID(int=number), kind=JobType.FULL_CONSOLIDATION, scope=user, thread_id=None,
        extractor="rules", started_at=NOW,
    )  # fmt: skip


async def written(storage: OceanBaseStorage, user: Scope) -> object:
    await apply_run(storage, run(user, 2), lambda: NOW)
    with pytest.raises(Conflict):
        await apply_run(storage, run(user, 2), lambda: NOW)
    [rows] = await storage.read(scope_path(user), [Select("runs", ("number",))])
    return len(rows)


async def undone(storage: OceanBaseStorage, user: Scope) -> object:
    await storage.transact(scope_path(user), lambda: undo_run(user, UUID(int=1), NOW))
    return await storage.read(scope_path(user), [Select("runs", ("undone_at",))])


async def filled(storage: OceanBaseStorage, user: Scope) -> None:
    await storage.items.put_memories([memory(user, key) for key in "ab"], None)
    await storage.jobs.enqueue(user, ThreadId("t"), job(7))
    await open_conversation(storage, user, ThreadId("conversation:1"), RULES)
    heard = (user, ThreadId("conversation:2"), said("e", "Hello.", NOW), RULES, 0, ())
    await storage.conversations.hear_turn(*heard, once=False)


@pytest.mark.parametrize("cut", ["before", "behind", "unknown"])
@pytest.mark.parametrize(
    ("call", "answer"),
    [(taken, True), (tokened, 1), (ended, "conversation:1"), (forgotten, 2), (forgotten_scope, 2),
     (erased, (2, 1)), (counted, 2), (written, 2), (undone, [[(NOW,)]])],
)  # fmt: skip
async def test_the_answer_is_the_first_one(storage, user, wire, call, answer, cut):
    await filled(storage, user)
    await apply_run(storage, run(user, 1), lambda: NOW)
    wire.cut = cut
    assert answer == await call(storage, user)
    assert not wire.cut


async def tenants(database: OceanBaseDatabase, user: Scope) -> list[str]:
    """Return the tenants that a test wrote, by the last letters of their names."""
    written = "SELECT tenant_id FROM tenants WHERE tenant_id LIKE %s"
    found = await database.read(lambda tx: tx.rows(written, [f"/x/{user.app}/%"]))
    return sorted(row[0].split("/")[3] for row in found)


def inserting(user: Scope, runs: list[int]) -> Callable[[Transaction], int]:
    """Return work that notes its runs and writes a row for each."""

    def work(tx: Transaction) -> int:
        runs.append(1)
        tx.insert("tenants", ["tenant_id"], [[f"/x/{user.app}/{len(runs)}/"]])
        return len(runs)

    return work


async def test_what_was_not_committed_is_done_again(storage, user, wire):
    work = inserting(user, [])
    wire.cut = "before"
    assert await storage._database.write(work, "/app/ana/") == 2
    wire.cut = "behind"
    assert await storage._database.write(work, "/app/ana/") == 3
    assert await tenants(storage._database, user) == ["2", "3"]


class Away:
    """A server on another machine that is unreachable for a number of attempts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wire: Wire) -> None:
        self.left, connect = 0, OceanBaseDatabase._connect

        def connecting(database: OceanBaseDatabase, *given: Any) -> Any:
            if self.left and not wire.cut:
                self.left -= 1
                raise pymysql.OperationalError(2003, "Can't connect to MySQL server")
            return connect(database, *given)

        monkeypatch.setattr(OceanBaseDatabase, "_connect", connecting)
        monkeypatch.setattr(database_module, "RESTARTS", 0)


async def test_the_answer_is_asked_for_until_the_server_is_back_or_it_ends(
    storage, user, wire, monkeypatch
):
    away, database = Away(monkeypatch, wire), storage._database
    await filled(storage, user)
    wire.cut, away.left = "behind", 10
    assert await forgotten(storage, user) == 2
    assert not away.left
    await filled(storage, user)
    monkeypatch.setattr(database, "_settings", replace(database._settings, statement_timeout_s=1))
    wire.cut, away.left = "behind", 1_000
    with pytest.raises(StorageUnavailable, match="may or may not be stored"):
        await forgotten(storage, user)
    away.left = 0
    assert await forgotten(storage, user) == 0
    database._drop_idle()
    away.left = 1_000
    with pytest.raises(StorageUnavailable, match="cannot be used"):
        await forgotten(storage, user)
    assert away.left == 999  # it was not there at all, so that is told at once


async def test_nobody_overwrites_a_mark_that_is_looked_for(storage, user, wire, monkeypatch):
    """The connection is alive, and another writer would take it before the next attempt."""
    runs, others = list[int](), 0
    give_back = OceanBaseDatabase._give_back

    def giving(self: OceanBaseDatabase, connection: Any) -> None:
        nonlocal others
        give_back(self, connection)
        if runs and not others:
            others += 1
            row = [[f"/y/{user.app}/"]]
            write = partial(Transaction.insert, table="tenants", columns=["tenant_id"], rows=row)
            self._retried(write, database_module.WRITING)

    monkeypatch.setattr(OceanBaseDatabase, "_give_back", giving)
    wire.cut = "unknown"
    assert await storage._database.write(inserting(user, runs)) == len(runs) == others == 1


async def test_whoever_commits_late_is_waited_for(storage, user, monkeypatch):
    """The connection is gone, and the server has not come to the end of the commit yet."""
    late, runs, once = list[Any](), list[int](), OceanBaseDatabase._once

    def dying(self: OceanBaseDatabase, connection: Any, work: Any) -> Any:
        if late:
            return once(self, connection, work)
        late.append(connection)
        work(Transaction(connection))
        raise LOST

    def looked(connection: Any, mark: CommitMark) -> bool:
        threading.Timer(0.5, late[0].commit).start()
        return was_committed(connection, mark)

    monkeypatch.setattr(OceanBaseDatabase, "_once", dying)
    monkeypatch.setattr(OceanBaseDatabase, "_give_back", lambda self, connection: None)
    monkeypatch.setattr(database_module, "_drop", lambda connection: None)
    monkeypatch.setattr(database_module, "was_committed", looked)
    assert await storage._database.write(inserting(user, runs)) == len(runs) == 1


async def test_a_server_that_stays_away_is_told(storage, user, monkeypatch):
    def lost(connection: Any) -> None:
        connection.close()
        raise LOST

    monkeypatch.setattr(pymysql.Connection, "commit", lost)
    with pytest.raises(StorageUnavailable, match="2013"):
        await storage.items.put_memories([memory(user, "a")], None)


# Two processes on one database


@pytest.fixture
async def pair(seekdb):
    """Two processes on one empty database, as it were."""
    lent = seekdb.lend()
    uri = next(lent)
    two = tuple(OceanBaseStorage(Settings(uri=uri, home=Path()), lambda: NOW) for _ in range(2))
    for storage in two:
        await storage.open()
    yield two
    for storage in two:
        await storage.close()
    next(lent, None)


async def test_marks_do_not_pile_up_and_cancelling_is_answered_once(pair, wire):
    storage, database = pair[0], pair[0]._database

    async def marks() -> int:
        [(count,)] = await database.read(lambda tx: tx.rows("SELECT count(*) FROM writes"))
        return int(count)

    for number in range(5):
        await database.write(lambda tx, n=number: tx.insert("tenants", ["tenant_id"], [[f"/{n}/"]]))
    await database.write(lambda tx: None)
    assert await marks() == 1
    await database.define("UPDATE writes SET written_at = '2020-01-01'")
    await storage.close()
    await storage.open()
    await database.write(lambda tx: tx.insert("tenants", ["tenant_id"], [["/9/"]]))
    assert await marks() == 1
    for number, cut in enumerate(("before", "behind", "unknown")):
        await storage.jobs.enqueue(Scope("app", f"{number}"), ThreadId("t"), job(7))
        wire.cut = cut
        assert await cancelled(storage, ANN) == 1
        assert not wire.cut


def of(model: str, key: str = "a") -> VectorRows:
    return VectorRows(
        model=model, addresses=[(memories_namespace(ANN), key)], fields=["text"],
        vectors=np.ones((1, 3), dtype=np.float32),
    )  # fmt: skip


async def held(storage: OceanBaseStorage) -> tuple[list[str], list[str]]:
    """Return the models that are known, and those there are vectors of."""

    def work(tx: Transaction) -> tuple[list[str], list[str]]:
        known = tx.rows("SELECT model FROM embedding_models ORDER BY model")
        used = tx.rows(f"SELECT DISTINCT model FROM {vectors.table_of(3)} ORDER BY model")
        return [row[0] for row in known], [row[0] for row in used]

    return await storage._database.read(work)


@pytest.mark.parametrize("paused", ["before", "behind"])
async def test_nobody_takes_over_while_the_first_vector_is_stored(pair, monkeypatch, paused):
    """paused: where the writer is, before its insert or behind it."""
    writer, other = pair
    await writer.use_model("old", 3)
    there, done = threading.Event(), threading.Event()
    insert = Transaction.insert

    def pausing(self: Transaction, table: str, *given: object, **more: object) -> None:
        stops = table.startswith("embeddings_") and not there.is_set()
        if stops and paused == "before":
            there.set()
            done.wait(30)
        insert(self, table, *given, **more)  # type: ignore[arg-type]
        if stops and paused == "behind":
            there.set()
            done.wait(30)

    monkeypatch.setattr(Transaction, "insert", pausing)
    writing = asyncio.create_task(writer.items.put_memories([memory(ANN, "a")], of("old")))
    await asyncio.to_thread(there.wait, 30)
    taking = asyncio.create_task(other.use_model("new", 3))
    await asyncio.sleep(0.3)
    if paused == "before":
        await taking
        done.set()
        with pytest.raises(EmbeddingMismatch, match="took over"):
            await writing
        assert await held(other) == (["new"], [])
    else:
        done.set()
        await writing
        with pytest.raises(EmbeddingMismatch, match="were made by 'old'"):
            await taking
        assert await held(other) == (["old"], ["old"])


async def test_an_old_vector_that_is_stored_anew_stays(pair, monkeypatch):
    """It is all there is of its memory once the vector of the new model is gone."""
    writer, other = pair
    await writer.use_model("old", 3)
    await writer.items.put_memories([memory(ANN, "a")], of("old"))
    await other.reembedding.set_model("new", 3, active=False)
    new = ("/app/ann/", UUID(int=ord("a")), "text", [1.0, 1.0, 1.0])
    await other._database.write(lambda tx: vectors.add_vectors(tx, "new", [new]))
    found, done, lock = threading.Event(), threading.Event(), Transaction.lock

    def pausing(self: Transaction, *tenants: str) -> None:
        if not found.is_set():
            found.set()
            done.wait(30)
        lock(self, *tenants)

    monkeypatch.setattr(Transaction, "lock", pausing)
    dropping = asyncio.create_task(other.reembedding.drop_old_vectors("new", 100))
    await asyncio.to_thread(found.wait, 30)

    def again(tx: Transaction) -> None:
        tx.run(f"DELETE FROM {vectors.table_of(3)}")
        put_vectors(tx, of("old"))

    await writer._database.write(again)
    done.set()
    assert await dropping == 0
    assert (await held(other))[1] == ["old"]


# A policy reaches what is written while it is set


@pytest.fixture
async def world(seekdb_dsn):
    async with opened_world(seekdb_dsn) as found:
        yield found


class Writer:
    """Stops a writer between reading the policies and committing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_read, self.goes_on = threading.Event(), threading.Event()
        self.is_awaited = threading.Event()
        counters, lock = timing.counters, Transaction.lock

        def paused(*given: Any) -> Any:
            if not self.has_read.is_set():
                self.has_read.set()
                assert self.goes_on.wait(60)
            return counters(*given)

        def noticed(tx: Transaction, *tenants: str) -> None:
            if self.has_read.is_set() and "/app/ann/" in tenants:
                self.is_awaited.set()
            lock(tx, *tenants)

        monkeypatch.setattr(timing, "counters", paused)
        monkeypatch.setattr(Transaction, "lock", noticed)


PLACES: dict[str, dict[str, Any]] = {"all": {}, "app": {"app": "app"}, "user": {"scope": ANN}}


@pytest.mark.parametrize(
    ("place", "known"),
    [(place, known) for place in PLACES for known in (False, True) if LONG]
    or [("all", False), ("app", True), ("user", False)],
)
async def test_a_policy_reaches_what_is_committed_while_it_is_set(world, monkeypatch, known, place):
    given = PLACES[place]
    await world.memory.retention.set_policy({"episodic": None}, **given)
    await world.say("another", scope=BOB)
    if known:
        await world.say("first")
    writer = Writer(monkeypatch)
    writing = asyncio.ensure_future(world.say("second"))
    await world.until(writer.has_read.is_set)
    policy = asyncio.ensure_future(world.memory.retention.set_policy("sensitive", **given))
    await world.until(lambda: policy.done() or writer.is_awaited.is_set())
    writer.goes_on.set()
    await asyncio.gather(writing, policy)
    world.go(365)
    assert {"demoted": 2 if known else 1} == await world.run(ANN)


async def test_all_writers_are_waited_for_page_by_page(world, monkeypatch):
    monkeypatch.setattr("shared_core.storage.oceanbase.retention.LOCKED_AT_ONCE", 1)
    await world.say("one")
    await world.say("two", scope=BOB)
    asked: list[str] = []
    lock_free = Transaction.lock_free

    def noted(tx: Transaction, tenants: Iterable[str]) -> set[str]:
        asked.extend(names := list(tenants))
        return lock_free(tx, names)

    monkeypatch.setattr(Transaction, "lock_free", noted)
    assert 2 == await world.memory.retention.set_policy("sensitive", app="app")
    assert ["/app/", "/app/ann/", "/app/bob/"] == asked[:3]


@pytest.mark.parametrize("since", ["before", "after"])
async def test_who_waits_for_one_user_holds_no_other(world, monkeypatch, since):
    """since: somebody writes to BOB before the writers are waited for, or only after that."""
    await world.say("one")
    await world.say("two", scope=BOB)
    written, is_reached, end = threading.Event(), threading.Event(), threading.Event()
    rows = Transaction.rows

    def holding(tx: Transaction) -> None:
        tx.lock("/app/bob/")
        written.set()
        assert end.wait(60)

    def noticed(tx: Transaction, sql: str, values: Sequence[object] = ()) -> list[Row]:
        if sql.endswith("FOR UPDATE") and "/app/bob/" in values and written.is_set():
            is_reached.set()
        return rows(tx, sql, values)

    storage: Any = world.memory._storage
    waited, writing = OceanBaseRetention._wait_for_writers, list[Any]()

    async def busy() -> None:
        writing.append(asyncio.ensure_future(storage._database.write(holding)))
        await world.until(written.is_set)

    async def then_busy(self: Any, path: str) -> None:
        await waited(self, path)
        await busy()

    if since == "before":
        await busy()
    else:
        monkeypatch.setattr(OceanBaseRetention, "_wait_for_writers", then_busy)
    monkeypatch.setattr(Transaction, "rows", noticed)
    policy = asyncio.ensure_future(world.memory.retention.set_policy("sensitive", app="app"))
    await world.until(is_reached.is_set)
    free = await storage._database.write(lambda tx: tx.lock_free(["/app/ann/"]))
    is_done = policy.done()
    end.set()
    await asyncio.gather(policy, *writing)
    assert {"/app/ann/"} == free and not is_done
    world.go(365)
    assert {"demoted": 1} == await world.run(ANN)
    assert {"demoted": 1} == await world.run(BOB)
