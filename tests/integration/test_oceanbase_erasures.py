"""Erasures on SeekDB take away and count what they do on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

from both_engines import NOW, Both
from whole_user import WholeClock, populate, said

from shared_core import MemoryEngine, Scope, open_memory
from shared_core.core.domain import ThreadId
from shared_core.core.namespaces import scope_path
from shared_core.policies.profiles import profile_of
from shared_core.ports.erasures import ERASED_TOKEN, ErasureReceipt
from shared_core.settings import load_settings
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Transaction
from tests import forgetting_calls as calls

ANA, BOB = Scope("app", "ana"), Scope("app", "bob")
STAYS = {"tombstones", "import_marks", "erasures", "tenants"}


async def rows_of(dsn: str, user: str) -> Mapping[str, int]:
    """Return how many rows of a user each table has, of tables that have some."""
    database = OceanBaseDatabase(load_settings(dsn))
    await database.open()

    def work(tx: Transaction) -> dict[str, int]:
        tables = tx.rows(
            "SELECT table_name FROM information_schema.columns"
            " WHERE column_name = 'tenant_id' AND table_schema = database()"
        )
        counted = {
            str(name): tx.rows(f"SELECT 1 FROM {name} WHERE tenant_id = %s", [f"/app/{user}/"])
            for (name,) in tables
        }
        return {name: len(rows) for name, rows in counted.items() if rows}

    try:
        return await database.read(work)
    finally:
        await database.close()


async def lived(memory: MemoryEngine, clock: WholeClock) -> None:
    """Let Ana and Bob have lived, with tokens of the application."""
    await populate(memory, ANA, clock)
    await memory.append_events(BOB, "t1", [said(1, "My name is Bob. I live in Rome.")])
    await memory.consolidate(BOB, "t1")
    await memory.tokens.create("app", users=["ana"], label="phone of Ana")
    await memory.tokens.create("app", users=["bob", "ana"], label="family")
    await memory.tokens.create("app", label="all")


async def erased(uri: str) -> list[ErasureReceipt]:
    """Erase a thread of Ana, then her, and her again; return the receipts."""
    clock = WholeClock()
    async with open_memory(uri, clock=clock, worker=False, track_access=False) as memory:
        await lived(memory, clock)
        receipts = [await memory.erase(ANA, "t1"), await memory.erase(ANA), await memory.erase(ANA)]
        stored = await memory.erasures(ANA)
        assert {one.erasure_id for one in stored} == {one.erasure_id for one in receipts}
        assert stored == await memory.erasures(app="app") == await memory.erasures()
        assert [] == await memory.erasures(BOB) == await memory.erasures(app="ap")
        assert [] == await memory.list_memories(ANA) and await memory.list_memories(BOB)
        tokens = {one.label: one for one in await memory.tokens.list("app")}
        assert {"", "family", "all"} == {*tokens}
        assert ((ERASED_TOKEN,), ("bob",)) == (tokens[""].users, tokens["family"].users)
        assert tokens[""].revoked_at is not None and tokens["family"].revoked_at is None
        again = [said(1, "My name is Ana. I live in Leeds.")]
        assert set() == await memory.append_events(ANA, "t1", again)
    return receipts


async def test_as_much_goes_as_on_postgresql(dsn: str, seekdb_dsn: str) -> None:
    ours, theirs = await erased(seekdb_dsn), await erased(dsn)
    assert [one.counts for one in ours] == [one.counts for one in theirs]
    assert all(one.is_intact for one in ours)
    assert {"threads", "events", "memories", "embeddings", "tombstones"} < {*ours[0].counts}
    assert 2 == ours[1].counts["api_tokens"]


async def test_nothing_is_left_of_the_user_and_all_of_the_next(seekdb_dsn: str) -> None:
    clock = WholeClock()
    async with open_memory(seekdb_dsn, clock=clock, worker=False) as memory:
        await lived(memory, clock)
    before, others = await rows_of(seekdb_dsn, "ana"), await rows_of(seekdb_dsn, "bob")
    async with open_memory(seekdb_dsn, clock=clock, worker=False) as memory:
        receipt = await memory.erase(ANA)
    after = await rows_of(seekdb_dsn, "ana")
    assert {*after} <= STAYS
    assert others == await rows_of(seekdb_dsn, "bob")
    vectors = {name: rows for name, rows in before.items() if name.startswith("embeddings_")}
    gone = {name: rows for name, rows in before.items() if name not in STAYS | {*vectors}}
    assert gone | {"embeddings": sum(vectors.values())} == {
        name: rows for name, rows in receipt.counts.items() if name not in STAYS | {"api_tokens"}
    }
    assert "ana" not in json.dumps(dict(receipt.counts))


async def test_a_version_that_names_no_memory_is_blurred_too(both: Both) -> None:
    version = {
        "subject_kind": "user", "subject_id": "bot", "version": 1, "content_hash": b"told",
        "created_at": NOW, "memory_id": UUID(int=1), "entries": [{"role": "mind"}],
        "began_at": NOW,
    }  # fmt: skip
    await both.put(scope_path(ANA), {"profiles": [version]})
    await both.same(lambda s: calls.erase(s, ANA, ThreadId("t"), UUID(int=2), NOW))
    for storage in (both.postgres, both.seekdb):
        found = await storage.query(scope_path(ANA), lambda: profile_of("user", "bot"))
        assert found is not None and b"told".hex() != found.version.content_hash
