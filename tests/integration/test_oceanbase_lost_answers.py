"""A call whose answer was lost is answered as the first time, whether it was committed or not."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pymysql
import pytest
from seekdb_databases import SeekdbDatabases
from storage_calls import end_conversation, open_conversation, stored_jobs

from shared_core import Event, Scope, StorageUnavailable
from shared_core.core.domain import MemoryId, ThreadId
from shared_core.core.namespaces import memories_namespace, scope_path
from shared_core.jobs.scheduled_task import ScheduledTask
from shared_core.policies.api_tokens import add_token
from shared_core.policies.retention import accesses_of, select_accesses
from shared_core.ports.api_tokens import ApiToken
from shared_core.ports.conversations import SessionRules
from shared_core.ports.items import MemoryRow
from shared_core.ports.jobs import JobType, NewJob
from shared_core.ports.retention import Accesses, NewAccesses
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection import database as database_module
from shared_core.storage.oceanbase.connection.attempts import CommitMark, CommitMarks, was_committed
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.storage import OceanBaseStorage
from tests import forgetting_calls as calls

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ANA = Scope("app", "ana")
SHELF = memories_namespace(ANA)
RULES = SessionRules(
    timeout=timedelta(minutes=30), max_duration=timedelta(hours=24), max_events=100
)
LOST = pymysql.OperationalError(2013, "Lost connection to MySQL server during query")

Call = Callable[[OceanBaseStorage], Awaitable[Any]]


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
async def storage(seekdb: SeekdbDatabases) -> AsyncIterator[OceanBaseStorage]:
    lent = seekdb.lend()
    storage = OceanBaseStorage(Settings(uri=next(lent), home=Path()), lambda: NOW)
    await storage.open()
    yield storage
    await storage.close()
    next(lent, None)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(monkeypatch)


def memory(key: str) -> MemoryRow:
    return MemoryRow(
        memory_id=MemoryId(UUID(int=ord(key))),
        namespace=SHELF,
        key=key,
        kind="episodic",
        text=key,
        value={},
        terms=[key],
        occurred_at=NOW,
    )


def job(number: int, kind: JobType = JobType.FULL_CONSOLIDATION) -> NewJob:
    return NewJob(job_id=UUID(int=number), job_type=kind, run_after=NOW)


async def taken(storage: OceanBaseStorage) -> object:
    return await ScheduledTask(storage, "cleanup").take("me", NOW, 60)


async def tokened(storage: OceanBaseStorage) -> object:
    token = ApiToken(token_id="t", app="app", users=None, label="", created_at=NOW)
    await storage.transact("/app/", lambda: add_token(token, b"x" * 32), lock="none")
    return [one.token_id for one, _ in await storage.tokens.tokens()]


async def ended(storage: OceanBaseStorage) -> object:
    found = await end_conversation(
        storage, ANA, job(8, JobType.DEEP_REFLECTION), RULES, if_over=False
    )
    return found and found.session_id


async def forgotten(storage: OceanBaseStorage) -> object:
    return await calls.forget(storage, [(SHELF, "a"), (SHELF, "b")], NOW)


async def forgotten_scope(storage: OceanBaseStorage) -> object:
    return await calls.forget_scope(storage, ANA, None, NOW)


async def erased(storage: OceanBaseStorage) -> object:
    return dict((await calls.erase(storage, ANA, None, UUID(int=1), NOW)).counts)


async def cancelled(storage: OceanBaseStorage) -> object:
    return await stored_jobs(storage).cancel([UUID(int=7)])


async def counted(storage: OceanBaseStorage) -> object:
    read = MemoryId(UUID(int=ord("a")))
    await storage.accesses.add_accesses([NewAccesses(ANA, read, Accesses(2, NOW))])
    [rows] = await storage.read(scope_path(ANA), [select_accesses([read])])
    return accesses_of(rows)[read].access_count


async def filled(storage: OceanBaseStorage) -> None:
    await storage.items.put_memories([memory("a"), memory("b")], None)
    await storage.jobs.enqueue(ANA, ThreadId("t"), job(7))
    await open_conversation(storage, ANA, ThreadId("conversation:1"), RULES)
    turn = Event(event_id="e", author="user", role="user", text="Hello.", occurred_at=NOW)
    await storage.conversations.hear_turn(
        ANA, ThreadId("conversation:2"), turn, RULES, 0, (), once=False
    )


@pytest.mark.parametrize("cut", ["before", "behind", "unknown"])
@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (taken, True),
        (tokened, ["t"]),
        (ended, "conversation:1"),
        (forgotten, 2),
        (forgotten_scope, 2),
        (erased, None),
        (cancelled, 1),
        (counted, 2),
    ],
)
async def test_the_answer_is_the_first_one(
    storage: OceanBaseStorage, wire: Wire, call: Call, answer: object, cut: str
) -> None:
    await filled(storage)
    wire.cut = cut
    said = await call(storage)
    assert not wire.cut
    if answer is None:
        assert isinstance(said, dict) and said["memories"] == 2 and said["events"] == 1
    else:
        assert said == answer


async def test_what_was_not_committed_is_done_again(storage: OceanBaseStorage, wire: Wire) -> None:
    runs = 0

    def work(tx: Transaction) -> int:
        nonlocal runs
        runs += 1
        tx.lock("/app/ana/")
        tx.insert("tenants", ["tenant_id"], [[f"/x/{runs}/"]])
        return runs

    database = storage._database
    wire.cut = "before"
    assert await database.write(work) == 2
    wire.cut = "behind"
    assert await database.write(work) == 3
    made = await database.read(
        lambda tx: tx.rows("SELECT tenant_id FROM tenants WHERE tenant_id LIKE '/x/%%'")
    )
    assert sorted(made) == [("/x/2/",), ("/x/3/",)]


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


async def test_the_answer_is_asked_for_until_the_server_is_back(
    storage: OceanBaseStorage, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(monkeypatch, wire)
    await filled(storage)
    wire.cut, away.left = "behind", 10
    assert await forgotten(storage) == 2
    assert not away.left


async def test_what_nobody_knows_is_told_as_that(
    storage: OceanBaseStorage, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(monkeypatch, wire)
    await filled(storage)
    storage._database._settings = replace(storage._database._settings, statement_timeout_s=1)
    wire.cut, away.left = "behind", 1_000
    with pytest.raises(StorageUnavailable, match="may or may not be stored"):
        await forgotten(storage)
    away.left = 0
    assert await forgotten(storage) == 0


async def test_a_server_that_was_not_there_at_all_is_told_at_once(
    storage: OceanBaseStorage, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(monkeypatch, wire)
    storage._database._drop_idle()
    away.left = 1_000
    with pytest.raises(StorageUnavailable, match="cannot be used"):
        await forgotten(storage)
    assert away.left == 999


async def test_nobody_overwrites_a_mark_that_is_looked_for(
    storage: OceanBaseStorage, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is alive, and another writer would take it before the next attempt."""
    runs, others = 0, 0

    def work(tx: Transaction) -> int:
        nonlocal runs
        runs += 1
        tx.insert("tenants", ["tenant_id"], [[f"/x/{runs}/"]])
        return runs

    give_back = OceanBaseDatabase._give_back

    def giving(self: OceanBaseDatabase, connection: Any) -> None:
        nonlocal others
        give_back(self, connection)
        if runs and not others:
            others += 1
            write = partial(
                Transaction.insert, table="tenants", columns=["tenant_id"], rows=[["/y/"]]
            )
            self._retried(write, database_module.WRITING)

    monkeypatch.setattr(OceanBaseDatabase, "_give_back", giving)
    wire.cut = "unknown"
    assert await storage._database.write(work) == runs == others == 1


async def test_whoever_commits_late_is_waited_for(
    storage: OceanBaseStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is gone, and the server has not come to the end of the commit yet."""
    database, late, runs = storage._database, list[Any](), 0
    once = OceanBaseDatabase._once

    def dying(self: OceanBaseDatabase, connection: Any, work: Any) -> Any:
        if late:
            return once(self, connection, work)
        late.append(connection)
        work(Transaction(connection))
        raise LOST

    def work(tx: Transaction) -> int:
        nonlocal runs
        runs += 1
        tx.insert("tenants", ["tenant_id"], [[f"/x/{runs}/"]])
        return runs

    def looked(connection: Any, mark: CommitMark) -> bool:
        committing = threading.Timer(0.5, late[0].commit)
        committing.start()
        return was_committed(connection, mark)

    monkeypatch.setattr(OceanBaseDatabase, "_once", dying)
    monkeypatch.setattr(OceanBaseDatabase, "_give_back", lambda self, connection: None)
    monkeypatch.setattr(database_module, "_drop", lambda connection: None)
    monkeypatch.setattr(database_module, "was_committed", looked)
    assert await database.write(work) == runs == 1


async def test_marks_do_not_pile_up(storage: OceanBaseStorage) -> None:
    database = storage._database
    for number in range(5):
        await database.write(lambda tx, n=number: tx.insert("tenants", ["tenant_id"], [[f"/{n}/"]]))
    await database.write(lambda tx: None)
    [(marks,)] = await database.read(lambda tx: tx.rows("SELECT count(*) FROM writes"))
    assert marks == 1
    await database.define("UPDATE writes SET written_at = '2020-01-01'")
    await storage.close()
    await storage.open()
    await database.write(lambda tx: tx.insert("tenants", ["tenant_id"], [["/9/"]]))
    [(marks,)] = await database.read(lambda tx: tx.rows("SELECT count(*) FROM writes"))
    assert marks == 1


async def test_a_server_that_stays_away_is_told(
    storage: OceanBaseStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(connection: Any) -> None:
        connection.close()
        raise LOST

    monkeypatch.setattr(pymysql.Connection, "commit", lost)
    with pytest.raises(StorageUnavailable, match="2013"):
        await storage.items.put_memories([memory("a")], None)
