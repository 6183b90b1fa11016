"""Reads are counted afterwards, in batches, and never at the cost of a read."""

import asyncio
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
import pytest
from postgres_admin import column, rows
from psycopg.conninfo import make_conninfo
from turns import Clock

from adk_memory import OpenMemoryService
from shared_core import InvalidInput, NewMemory, Scope, open_memory, run_sync
from shared_core.core.domain import MemoryId
from shared_core.errors import StorageUnavailable
from shared_core.lifecycle import CLOSED, StorageLifecycle
from shared_core.ports.retention import Accesses, NewAccesses
from shared_core.ports.storage import Storage
from shared_core.recall import access_log as logs
from shared_core.recall.access_log import AccessLog
from shared_core.storage.postgres.connection.pipeline import Connection, Statement

ANN, BOB = Scope("app", "ann"), Scope("other app", "bob")


def counted(dsn: str) -> dict[str, int]:
    """Return how often each memory was read, by its text, past row security."""
    return dict(rows(
        dsn, "SELECT m.text, a.access_count FROM hippocampus.memory_access a"
        " JOIN hippocampus.memories m USING (tenant_id, memory_id)"
        " WHERE a.last_accessed_at IS NOT NULL",
    ))  # fmt: skip


def all_rows(dsn: str, counting: str = "count(*)") -> int:
    return int(column(dsn, f"SELECT {counting} FROM hippocampus.memory_access")[0])


async def soon(dsn: str, expected: Mapping[str, int]) -> None:
    """Wait until the background has counted so much, of texts or in all."""
    while expected not in (found := counted(dsn), {"in all": sum(found.values())}):  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_what_is_returned_is_counted_and_what_was_only_looked_at_is_not(dsn, clocked, clock):
    await clocked.remember(ANN, ["tea", "the dog", "sails"])
    [tea] = await clocked.recall(ANN, "tea", limit=1)
    clock.forward(hours=1)
    await clocked.recall(ANN, "tea", limit=2)
    await clocked.search(ANN, "tea", 1)
    await clocked.list_memories(ANN)
    assert {} == counted(dsn)
    known = await clocked.accesses(ANN, [tea.memory.memory_id, uuid4()])
    assert {tea.memory.memory_id: Accesses(3, clock.now)} == known
    assert 2 == len(counted(dsn)) and 3 == counted(dsn)["tea"]
    assert {} == await clocked.accesses(BOB, [str(tea.memory.memory_id)])
    # What was remembered outright does not fade.
    assert 0 == all_rows(dsn, "count(forget_at)")
    with pytest.raises(InvalidInput, match="memory_ids must be UUIDs"):
        await clocked.accesses(ANN, ["tea"])


WATCHED = """
    CREATE TABLE public.waits (of text, commits text);
    CREATE FUNCTION public.waits() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        INSERT INTO public.waits VALUES (TG_TABLE_NAME, current_setting('synchronous_commit'));
        RETURN NULL;
    END $$;
    CREATE TRIGGER waits AFTER INSERT OR UPDATE ON hippocampus.memory_access
        FOR EACH STATEMENT EXECUTE FUNCTION public.waits();
    CREATE TRIGGER waits AFTER INSERT OR UPDATE ON hippocampus.memories
        FOR EACH STATEMENT EXECUTE FUNCTION public.waits()"""


async def test_counting_does_not_wait_for_the_disk_and_remembering_does(dsn, clocked):
    await clocked.remember(ANN, ["tea"])
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(WATCHED)
        await clocked.recall(ANN, "tea")
        await clocked.flush()
        counted_ones = admin.execute("SELECT DISTINCT commits FROM waits").fetchall()
        await clocked.remember(ANN, ["sails"])
        written = admin.execute("SELECT commits FROM waits WHERE of = 'memories'").fetchall()
    assert [("off",)] == counted_ones
    assert {("on",)} == set(written)


async def test_a_search_of_adk_counts_what_it_shows(dsn, memory):
    said = ["Ann drinks tea.", "ann drinks tea", "Ann drinks green tea.", "quantum lattices"]
    await memory.remember(ANN, said)
    service = OpenMemoryService(engine=memory, top_k=3, min_relevance=0.4)
    shown = await service.search_memory(app_name="app", user_id="ann", query="Does Ann drink tea?")
    await memory.flush()
    texts = [entry.content.parts[0].text for entry in shown.memories if entry.content.parts]
    assert 2 == len(texts)
    assert dict.fromkeys(texts, 1) == counted(dsn)


async def test_the_background_counts_by_itself(dsn, memory, monkeypatch):
    monkeypatch.setattr(logs, "WRITE_EVERY_S", 0.05)
    await memory.remember(ANN, "tea")
    await memory.remember(BOB, "coffee")
    for scope, query in ((ANN, "tea"), (BOB, "coffee"), (ANN, "tea")):
        await memory.recall(scope, query)
    await soon(dsn, {"tea": 2, "coffee": 1})
    await memory.recall(ANN, "tea")
    await soon(dsn, {"tea": 3, "coffee": 1})


async def test_many_are_counted_before_their_time(dsn, memory, monkeypatch):
    monkeypatch.setattr(logs, "WRITE_EVERY_S", 3600.0)
    monkeypatch.setattr(logs, "FULL", 3)
    await memory.remember(ANN, ["tea one", "tea two", "tea three"])
    await memory.recall(ANN, "tea", limit=2)
    await memory.recall(ANN, "tea", limit=3)
    await soon(dsn, {"in all": 5})


async def test_close_and_flush_count_what_is_left(dsn, memory):
    await memory.remember(ANN, "tea")
    await memory.recall(ANN, "tea")
    assert await memory.flush()
    assert {"tea": 1} == counted(dsn)
    await memory.recall(ANN, "tea")
    await memory.close()
    assert {"tea": 2} == counted(dsn)
    assert 1 == len(await memory.recall(ANN, "tea"))  # it opens again, and counts again
    await memory.close()
    assert {"tea": 3} == counted(dsn)


async def test_nothing_is_counted_where_it_is_not_wanted(dsn):
    async with open_memory(dsn, track_access=False) as memory:
        await memory.remember(ANN, "tea")
        [hit] = await memory.recall(ANN, "tea")
        await memory.flush()
        assert {} == await memory.accesses(ANN, [hit.memory.memory_id])
    assert 0 == all_rows(dsn)


async def test_reads_count_once_when_the_connection_is_lost_behind_them(dsn, memory, monkeypatch):
    await memory.remember(ANN, NewMemory(text="I sail."))
    [sailing] = await memory.list_memories(ANN)
    exchange, lost = Connection.exchange, []

    async def then_lost(self: Connection, steps: Sequence[Statement], **options: bool) -> Any:
        answers = await exchange(self, steps, **options)
        if not lost and any(b"INSERT INTO memory_access" in text for text, _ in steps):
            lost.append(self)
            self.pgconn.finish()
            raise psycopg.OperationalError("the server closed the connection")
        return answers

    monkeypatch.setattr(Connection, "exchange", then_lost)
    await memory.accesses.record_now(ANN, [sailing.memory_id])
    assert lost
    assert {"I sail.": 1} == counted(dsn)
    await memory.accesses.record_now(ANN, [sailing.memory_id])
    assert {"I sail.": 2} == counted(dsn)


async def test_counters_go_with_their_memories(dsn, memory):
    tea, _, _ = await memory.remember(ANN, ["tea", "coffee", "water"])
    await memory.recall(ANN, "tea")
    await memory.flush()
    assert 3 == all_rows(dsn)
    await memory.recall(ANN, "tea")
    await memory.forget(ANN, tea)  # before its second read is counted
    await memory.flush()
    assert {"coffee": 2, "water": 2} == counted(dsn)
    await memory.forget_scope(ANN)
    assert 0 == all_rows(dsn)


async def test_who_deletes_a_memory_does_not_wait_for_its_counter_nor_that_for_it(dsn, memory):
    await memory.remember(ANN, ["tea", "coffee"])
    await memory.recall(ANN, "tea")
    with psycopg.connect(dsn) as admin:
        admin.execute("DELETE FROM hippocampus.memories WHERE text = 'tea'")
        await asyncio.wait_for(memory.flush(), 30)
        admin.commit()
    assert {"coffee": 1} == counted(dsn)


async def test_writers_of_many_loops_and_threads_lose_no_read(dsn):
    memory = open_memory(dsn)
    run_sync(memory.remember(ANN, ["tea", "coffee"]))

    async def ask() -> None:
        for _ in range(5):
            await memory.recall(ANN, "tea")
            await memory.flush()

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    async with open_memory(dsn) as other:
        for _ in range(5):
            await other.recall(ANN, "coffee")
            await other.flush()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await memory.close()
    assert {"tea": 25, "coffee": 25} == counted(dsn)


async def test_a_read_only_database_is_told_of_once(dsn, caplog):
    async with open_memory(dsn) as memory:
        await memory.remember(ANN, "tea")
    caplog.set_level(logging.INFO, "hippocampus")
    read_only = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    async with open_memory(read_only, worker=False) as memory:
        for _ in range(3):
            assert 1 == len(await memory.recall(ANN, "tea"))
            [hit] = await memory.search(ANN, "tea")
            assert {} == await memory.accesses(ANN, [hit.memory.memory_id])
    told = [record for record in caplog.records if "not counted" in record.message]
    assert ["INFO"] == [record.levelname for record in told]
    assert 0 == all_rows(dsn)


class Refusing:
    """The access counters of a storage: takes the batches it is told to, and keeps what it took."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.taken: list[Sequence[NewAccesses]] = []

    async def add_accesses(self, batch: Sequence[NewAccesses]) -> None:
        if self.errors:
            raise self.errors.pop()
        self.taken.append(batch)

    async def accesses(self, *_: Any) -> Mapping[MemoryId, Accesses]:
        raise AssertionError("not asked")


def some(number: int) -> list[MemoryId]:
    return [MemoryId(UUID(int=one)) for one in range(number)]


def lifecycle_of(storage: Refusing) -> StorageLifecycle:
    """A lifecycle that counts as open in this process."""
    counting = cast(Storage, SimpleNamespace(accesses=storage))
    lifecycle = StorageLifecycle(counting, lambda: datetime.now(UTC))
    lifecycle._opened_in = os.getpid()
    return lifecycle


@pytest.mark.parametrize("error", [StorageUnavailable("away"), ZeroDivisionError("what?")])
async def test_a_failure_is_logged_and_loses_one_batch(error, caplog):
    storage = Refusing()
    storage.errors = [error]
    log = AccessLog(lifecycle_of(storage), Clock())
    log.record(ANN, some(2))
    await log.flush()
    assert "reads of 2 memories are not counted" in caplog.text
    log.record(ANN, some(3))
    await log.stop()
    assert [3] == [len(batch) for batch in storage.taken]


async def test_memory_is_bounded_and_what_is_closed_counts_nothing(monkeypatch):
    monkeypatch.setattr(logs, "WRITE_EVERY_S", 3600.0)
    monkeypatch.setattr(logs, "FULL", 10**9)
    monkeypatch.setattr(logs, "MOST", 5)
    storage = Refusing()
    lifecycle = lifecycle_of(storage)
    log = AccessLog(lifecycle, Clock())
    log.record(ANN, some(9))
    log.record(ANN, some(2))
    await log.flush()
    assert [2, 2, 1, 1, 1] == [one.accesses.access_count for one in storage.taken[0]]
    lifecycle._opened_in = CLOSED
    log.record(ANN, some(1))
    await log.stop()
    assert 1 == len(storage.taken)


def test_a_forked_child_counts_its_own_reads_alone(dsn):
    memory = open_memory(dsn)
    run_sync(memory.remember(ANN, "tea"))
    run_sync(memory.recall(ANN, "tea"))
    child = os.fork()
    if child == 0:
        try:  # whatever happens, the child must not go on with the tests of its parent
            run_sync(memory.recall(ANN, "tea"))
            run_sync(memory.flush())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert {"tea": 1} == counted(dsn)
    run_sync(memory.close())
    assert {"tea": 2} == counted(dsn)
