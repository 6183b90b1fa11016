"""One model in the place of another, beside those who write with the old one, on SeekDB."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from seekdb_databases import SeekdbDatabases
from test_oceanbase_lost_answers import NOW, SHELF, memory

from shared_core import EmbeddingMismatch
from shared_core.ports.items import VectorRows
from shared_core.settings import Settings
from shared_core.storage.oceanbase import vectors
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.item_writes import put_vectors
from shared_core.storage.oceanbase.storage import OceanBaseStorage


@pytest.fixture
async def pair(seekdb: SeekdbDatabases) -> AsyncIterator[tuple[OceanBaseStorage, ...]]:
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


def of(model: str, *keys: str) -> VectorRows:
    return VectorRows(
        model=model,
        addresses=[(SHELF, key) for key in keys],
        fields=["text"] * len(keys),
        vectors=np.ones((len(keys), 3), dtype=np.float32),
    )


async def held(storage: OceanBaseStorage) -> tuple[list[str], list[str]]:
    """Return the models that are known, and those there are vectors of."""

    def work(tx: Transaction) -> tuple[list[str], list[str]]:
        known = tx.rows("SELECT model FROM embedding_models ORDER BY model")
        used = tx.rows(f"SELECT DISTINCT model FROM {vectors.table_of(3)} ORDER BY model")
        return [row[0] for row in known], [row[0] for row in used]

    return await storage._database.read(work)


@pytest.mark.parametrize("paused", ["before", "behind"])
async def test_nobody_takes_over_while_the_first_vector_is_stored(
    pair: tuple[OceanBaseStorage, ...], monkeypatch: pytest.MonkeyPatch, paused: str
) -> None:
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
    writing = asyncio.create_task(writer.items.put_memories([memory("a")], of("old", "a")))
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


async def test_an_old_vector_that_is_stored_anew_stays(
    pair: tuple[OceanBaseStorage, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is all there is of its memory once the vector of the new model is gone."""
    writer, other = pair
    await writer.use_model("old", 3)
    await writer.items.put_memories([memory("a")], of("old", "a"))
    await other.reembedding.set_model("new", 3, active=False)
    await other._database.write(
        lambda tx: vectors.add_vectors(
            tx, "new", [("/app/ana/", UUID(int=ord("a")), "text", [1.0, 1.0, 1.0])]
        )
    )
    found, done = threading.Event(), threading.Event()
    lock = Transaction.lock

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
        put_vectors(tx, of("old", "a"))

    await writer._database.write(again)
    done.set()
    assert await dropping == 0
    assert (await held(other))[1] == ["old"]
