"""On PostgreSQL, a call whose answer was lost is answered as if it had arrived."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from postgres_admin import column, execute
from turns import Clock, said

from shared_core import Scope
from shared_core.core.domain import MemoryId, ThreadId
from shared_core.errors import Conflict, StorageUnavailable
from shared_core.ports.events import EventRow
from shared_core.ports.operations import Delete, Insert, Last, Policy, Select, equal
from shared_core.settings import Settings
from shared_core.storage.postgres.connection import marks, policies
from shared_core.storage.postgres.connection.marks import Mark
from shared_core.storage.postgres.connection.pipeline import Connection, Rows, Statement
from shared_core.storage.postgres.storage import PostgresStorage

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ANN = "/app/ann/"
LOST = "server closed the connection unexpectedly"


class Cutter:
    """Cuts the connection of the next commits, before they reach the server or behind it.

    cuts: "before" or "behind" for each commit to come, or, with cuts_writes, for each exchange that
    marks a write. away: connections that cannot be opened.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cuts: list[str] = []
        self.away = 0
        self.cuts_writes = False
        exchange, connect = Connection.exchange, policies.PostgresDatabase._connect

        async def cutting(opened: Connection, steps: list[Statement], **options: Any) -> list[Rows]:
            is_last = steps[-1][0] == b"COMMIT"
            if self.cuts_writes:
                is_last = any(b"INSERT INTO writes" in text for text, _ in steps)
            cut = self.cuts.pop(0) if is_last and self.cuts else ""
            rows = [] if cut == "before" else await exchange(opened, steps, **options)
            if cut:
                opened.pgconn.finish()
                raise psycopg.OperationalError(LOST)
            return rows

        async def connecting(database: Any) -> Connection:
            if self.away and not self.cuts:
                self.away -= 1
                raise StorageUnavailable("the server is away")
            return await connect(database)

        monkeypatch.setattr(Connection, "exchange", cutting)
        monkeypatch.setattr(policies.PostgresDatabase, "_connect", connecting)


@pytest.fixture
async def storage(dsn):
    storage = PostgresStorage(Settings(uri=dsn, home=Path()), Clock())
    await storage.open()
    yield storage
    await storage.close()


@pytest.fixture
def cutter(storage, monkeypatch):
    return Cutter(monkeypatch)


def held(key: str) -> Select:
    return Select("instructions", ("version",), (equal("instruction_key", key),))


def add(key: str) -> Policy[int]:
    """Add a version of an instruction, and return its number."""
    [rows] = yield [held(key)]
    version = len(rows) + 1
    names = ("instruction_key", "version", "content", "created_at")
    yield Last([Insert("instructions", names, [(key, version, "Be brief.", NOW)])])
    return version


def drop(key: str) -> Policy[int]:
    """Delete all versions of an instruction, and return how many there were."""
    [rows] = yield [held(key)]
    yield Last([Delete("instructions", (equal("instruction_key", key),))])
    return len(rows)


async def versions(storage: PostgresStorage, key: str) -> list[int]:
    [rows] = await storage.read(ANN, [held(key)])
    return sorted(row[0] for row in rows)


@pytest.mark.parametrize("cuts", [["before"], ["behind"], ["before", "before"]])
@pytest.mark.parametrize("lock", ["wait", "none"])
async def test_a_policy_runs_once_and_answers(storage, cutter, cuts, lock):
    for number in (1, 2):
        cutter.cuts = list(cuts)
        assert number == await storage.transact(ANN, lambda: add("tone"), lock=lock)
        assert not cutter.cuts
    assert [1, 2] == await versions(storage, "tone")
    cutter.cuts = list(cuts)
    assert 2 == await storage.transact(ANN, lambda: drop("tone"), lock=lock)
    assert [] == await versions(storage, "tone")


async def test_several_tenants_are_one_write(storage, cutter):
    cutter.cuts = ["behind"]
    both = {tenant: lambda: add("tone") for tenant in (ANN, "/app/bob/")}
    assert {ANN: 1, "/app/bob/": 1} == await storage.transact_all(both)
    assert [1] == await versions(storage, "tone")


async def test_a_server_that_is_away_is_waited_for(storage, cutter):
    cutter.cuts, cutter.away = ["behind"], 3
    assert 1 == await storage.transact(ANN, lambda: add("tone"))
    assert 0 == cutter.away
    assert [1] == await versions(storage, "tone")


async def test_what_nobody_knows_is_said(storage, cutter):
    storage._database.statement_s = 0.05
    cutter.cuts, cutter.away = ["behind"], 1_000_000
    with pytest.raises(StorageUnavailable, match="may or may not be stored"):
        await storage.transact(ANN, lambda: add("tone"))
    cutter.away = 0
    assert [1] == await versions(storage, "tone")


async def test_a_write_that_is_still_under_way_counts(storage, monkeypatch):
    """The first attempt commits while the second runs: its mark tells the second."""
    work = policies._Work([ANN], [lambda: add("tone")], "none")
    seam = policies.PostgresPolicies(storage._database)
    assert [1] == await seam._attempts(work)
    too_early = Mark("/app/bob/").looked_for()
    monkeypatch.setattr(Mark, "looked_for", lambda _: too_early)
    assert [1] == await seam._attempts(work)
    assert [1] == await versions(storage, "tone")


async def test_an_append_whose_answer_was_lost_names_the_new_turns(storage, cutter):
    cutter.cuts, cutter.cuts_writes = ["behind", "before", "behind"], True
    scope, thread = Scope("app", "ann"), ThreadId("t")
    rows = [row(text) for text in ("one", "two", "")]
    assert {"one", "two", ""} == await storage.events.append_events(scope, thread, rows, None)
    assert ["before", "behind"] == cutter.cuts
    rows = [row("two"), row("three")]
    assert {"three"} == await storage.events.append_events(scope, thread, rows, None)
    assert not cutter.cuts


def row(text: str) -> EventRow:
    """Return a turn with its text as its id; a blank one has no memory."""
    event = said(text, text)
    memory_id = MemoryId(uuid4()) if text else None
    return EventRow(event=event, memory_id=memory_id, logged=False, value={}, terms=text.split())


@pytest.mark.parametrize("lock", ["wait", "none", "skip"])
@pytest.mark.parametrize("state", ["40P01", "26000"])
async def test_a_failed_look_for_the_answer_is_repeated(storage, cutter, monkeypatch, lock, state):
    looks = [(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$".encode(), {})]
    look = Mark.looked_for
    monkeypatch.setattr(Mark, "looked_for", lambda mark: looks.pop() if looks else look(mark))
    cutter.cuts = ["behind"]
    assert 1 == await storage.transact(ANN, lambda: add("tone"), lock=lock)
    assert not looks
    assert [1] == await versions(storage, "tone")


async def test_a_missing_row_is_a_conflict(storage):
    def count_a_lost_memory() -> Policy[None]:
        yield Last([Insert("memory_access", ("memory_id", "stage"), [(uuid4(), 0)])])

    with pytest.raises(Conflict, match="was deleted meanwhile"):
        await storage.transact(ANN, count_a_lost_memory)


async def test_several_reads_are_of_one_moment(storage):
    await storage.transact(ANN, lambda: add("tone"))
    first, second = await storage.read(ANN, [Select("instructions", ("version",)), held("tone")])
    assert [(1,)] == first == second


async def test_old_marks_are_removed(storage, dsn, monkeypatch):
    monkeypatch.setattr(marks, "_DROPPED_EVERY", 1)
    await storage.transact(ANN, lambda: add("tone"))
    execute(dsn, "UPDATE hippocampus.writes SET write_id = '00000000-0000-7000-8000-000000000000'")
    await storage.transact(ANN, lambda: add("tone"))
    assert [1] == column(dsn, "SELECT count(*) FROM hippocampus.writes")
