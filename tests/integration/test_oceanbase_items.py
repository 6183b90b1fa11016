"""Items are written, found and deleted alike on both engines."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID

import numpy as np
import pytest
from both_engines import NOW, Both

from shared_core import Scope
from shared_core.core.domain import MemoryId, Namespace, ThreadId
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import instructions_namespace, memories_namespace, scope_path
from shared_core.ingest.items import write_items
from shared_core.jobs.index_maintenance import Indexes
from shared_core.lifecycle import Handle, StorageLifecycle
from shared_core.policies.items import forget_keys
from shared_core.policies.retention import accesses_of, select_accesses
from shared_core.ports.items import (
    Item,
    ItemQuery,
    ItemStamp,
    MemoryRow,
    NamespaceQuery,
    VectorRows,
)
from shared_core.ports.retention import Accesses, NewAccesses
from shared_core.storage.oceanbase.vectors import LargeTenants
from tests import forgetting_calls as calls

ANN = Scope("app", "ann")
TENANT = scope_path(ANN)
NOTES = ("app", "ann", "notes")
MODEL, DIMENSIONS = "words", 8
MEMORY = "memory_id namespace key kind text value importance thread_id occurred_at created_at"
MEMORIES = f"{MEMORY} updated_at expires_at ttl_s superseded_at demoted_at"


def row(key: str, namespace: Namespace = NOTES, **given: Any) -> MemoryRow:
    value = given.pop("value", {"content": key})
    return MemoryRow(
        memory_id=MemoryId(uuid7()), namespace=namespace, key=key, kind=given.pop("kind", "item"),
        text=key, value=value, terms=key.split(), occurred_at=NOW, **given,
    )  # fmt: skip


def vector_rows(
    rows: Sequence[MemoryRow], chance: np.random.Generator, each: int = 1
) -> VectorRows:
    """Return vectors of rows, all of one length and few enough that many are equally near."""
    return VectorRows(
        model=MODEL,
        addresses=[(one.namespace, one.key) for one in rows for _ in range(each)],
        fields=[f"field{place}" for _ in rows for place in range(each)],
        vectors=chance.choice([-1.0, 1.0], size=(each * len(rows), DIMENSIONS)).astype(np.float32),
    )


def asking(seed: int) -> Any:
    """Return the vector of a query, with few distances to the others."""
    chance = np.random.default_rng(seed)
    return chance.choice([-1.0, 1.0], size=(1, DIMENSIONS)).astype(np.float32)


def known(items: Sequence[Item]) -> list[tuple[object, ...]]:
    """Return what must be equal; similarities differ in the last digits."""
    return [(item.namespace, item.key, item.value, item.updated_at) for item in items]


async def found(both: Both, query: ItemQuery) -> list[tuple[object, ...]]:
    """Return what both engines find, which must be the same in the same order."""
    ours, theirs = (
        (await both.seekdb.items.find_items([query]))[0],
        (await both.postgres.items.find_items([query]))[0],
    )
    assert known(ours) == known(theirs)
    assert [one.similarity for one in ours] == pytest.approx(
        [x.similarity for x in theirs], abs=1e-3
    )
    return known(ours)


@pytest.fixture
async def filled(both: Both) -> Both:
    """300 items of Ann in two namespaces, and some of Bob, all with two vectors each."""
    for storage in (both.postgres, both.seekdb):
        await storage.use_model(MODEL, DIMENSIONS)
    chance = np.random.default_rng(1)
    rows = [
        row(f"k{number:03}", (*NOTES, f"box{number % 3}"), value={"n": number % 5, "at": number})
        for number in range(300)
    ]
    rows += [row(f"b{number}", ("app", "bob", "notes")) for number in range(40)]
    vectors = vector_rows(rows, chance, each=2)
    for storage in (both.postgres, both.seekdb):
        await storage.items.put_memories(rows, vectors)
    return both


@pytest.mark.parametrize("prefix", [NOTES, (*NOTES, "box1"), ("app", "ann"), ("app",), ()])
@pytest.mark.parametrize("wanted", [{}, {"n": 3}], ids=["all", "filtered"])
async def test_pages_are_the_same(filled: Both, prefix: Namespace, wanted: dict[str, Any]) -> None:
    asked = asking(2)
    for vector in (None, asked):
        query = ItemQuery(
            prefix=prefix, limit=1000, filter=wanted, model=MODEL if vector is not None else None,
            vector=vector,
        )  # fmt: skip
        everything = await found(filled, query)
        assert everything
        for offset in (0, 7, 90, 200):
            page = replace(query, limit=20, offset=offset)
            assert await found(filled, page) == everything[offset : offset + 20]


async def test_what_has_a_word_follows_what_has_a_vector(filled: Both) -> None:
    asked = asking(3)
    rows = [row("a wordy one"), row("wordy"), row("swordy")]
    for storage in (filled.postgres, filled.seekdb):
        await storage.items.put_memories(rows, None)
    query = ItemQuery(prefix=NOTES, limit=1000, terms=["wordy", "none"])
    assert {"a wordy one", "wordy"} == {key for _, key, _, _ in await found(filled, query)}
    besides = [rows[1].memory_id]
    query = replace(query, model=MODEL, vector=asked, besides=besides)
    everything = await found(filled, query)
    assert {"a wordy one", "swordy"} == {key for _, key, _, _ in everything[300:]}


async def test_a_large_tenant_is_searched_by_the_index(
    filled: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    items: Any = filled.seekdb.items
    monkeypatch.setattr(items, "_large", LargeTenants(100))
    monkeypatch.setattr(
        "shared_core.storage.oceanbase.connection.transactions.Transaction.rows", _noting(sent)
    )
    asked = asking(4)
    query = ItemQuery(prefix=("app", "ann"), limit=10, model=MODEL, vector=asked)
    [near] = await filled.seekdb.items.find_items([query])
    assert any(" APPROXIMATE LIMIT " in sql for sql in sent)
    [exact] = await filled.postgres.items.find_items([query])
    assert [x.similarity for x in near] == pytest.approx([x.similarity for x in exact], abs=1e-3)
    rare = replace(query, filter={"at": {"$in": [11, 222]}})
    [few] = await filled.seekdb.items.find_items([rare])
    assert {"k011", "k222"} == {item.key for item in few}
    sent.clear()
    small = replace(query, prefix=("app", "bob"))
    [page] = await filled.seekdb.items.find_items([small])
    assert page and not any("APPROX" in sql for sql in sent)


def _noting(sent: list[str]) -> Any:
    from shared_core.storage.oceanbase.connection.transactions import Transaction

    rows = Transaction.rows

    def noting(tx: Transaction, sql: str, values: Sequence[object] = ()) -> Any:
        sent.append(sql)
        return rows(tx, sql, values)

    return noting


async def test_only_large_tenants_are_named(filled: Both) -> None:
    [large] = await filled.seekdb.indexes.large_tenants(100, [])
    assert (large.namespace, large.vectors, large.tail) == (("app", "ann"), 600, 0)
    assert large.index is not None and [] == await filled.seekdb.indexes.large_tenants(1000, [])


async def test_nothing_is_counted_where_the_engine_keeps_its_index(
    filled: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(
        "shared_core.storage.oceanbase.connection.transactions.Transaction.rows", _noting(sent)
    )

    lifecycle = StorageLifecycle(filled.seekdb, lambda: NOW)
    lifecycle._opened_in = os.getpid()
    indexes = Indexes(Handle(lifecycle, *[cast(Any, None)] * 4))
    assert [] == await indexes.refresh() and not any("GROUP BY" in sql for sql in sent)
    indexes.nudge()
    assert 0 == indexes._pid  # it never looks in the background
    await indexes.plan()
    assert any("GROUP BY" in sql for sql in sent)


async def test_a_key_that_exists_is_replaced(both: Both) -> None:
    for storage in (both.postgres, both.seekdb):
        await storage.use_model(MODEL, DIMENSIONS)
    chance = np.random.default_rng(5)
    first = [
        row("plain", importance=7.0), row("said", kind="episodic", thread_id=ThreadId("t")),
        row("sum", kind="summary"), row("expired", expires_at=NOW + timedelta(hours=1), ttl_s=3600),
    ]  # fmt: skip
    sources = [{"memory_id": one.memory_id, "thread_id": "t", "event_id": "e"} for one in first]
    archive = [
        {"memory_id": first[0].memory_id, "text": "old", "value": {}, "is_shown": True,
         "archived_at": NOW}
    ]  # fmt: skip
    for storage in (both.postgres, both.seekdb):
        await storage.items.put_memories(first, vector_rows(first, chance))
    await both.put(TENANT, {"memory_sources": sources, "memory_archive": archive})
    both.now += timedelta(hours=2)
    second = [
        replace(row("plain"), text="new"), row("said"), row("sum", kind="item"), row("expired"),
        row("new"),
    ]  # fmt: skip
    for storage in (both.postgres, both.seekdb):
        await storage.items.put_memories(second, None)
        await storage.items.put_memories([replace(second[0], text="newer")], None)
    held = await both.left(
        TENANT,
        {
            "memories": MEMORIES,
            "memory_sources": "memory_id thread_id event_id",
            "memory_archive": "memory_id",
            "memory_access": "memory_id stage forget_at",
        },
    )
    by_key = {one["key"]: one for one in held["memories"]}
    assert by_key["plain"]["memory_id"] == first[0].memory_id
    assert by_key["plain"]["created_at"] == NOW < by_key["expired"]["created_at"]
    assert by_key["plain"]["updated_at"] > both.now and by_key["said"]["kind"] == "episodic"
    assert [first[1].memory_id] == [one["memory_id"] for one in held["memory_sources"]]
    query = ItemQuery(prefix=NOTES, limit=9, model=MODEL, vector=asking(7))
    for storage in (both.postgres, both.seekdb):  # the old vectors are gone
        [page] = await storage.items.find_items([query])
        assert 5 == len(page) and {None} == {item.score for item in page}


async def test_reads_are_counted(both: Both) -> None:
    rows = [row("said", memories_namespace(ANN), kind="episodic"), row("plain")]
    for storage in (both.postgres, both.seekdb):
        await storage.items.put_memories(rows, None)
    both.now += timedelta(days=1)
    batch = [
        NewAccesses(ANN, one, Accesses(count, NOW + timedelta(hours=count)))
        for count, one in enumerate([rows[0].memory_id, rows[1].memory_id, MemoryId(uuid7())], 2)
    ]
    for storage in (both.postgres, both.seekdb):
        for counted in (batch, batch[::-1]):
            await storage.accesses.add_accesses(counted)
    ids = [one.memory_id for one in batch]

    async def accesses(storage: Any) -> dict[MemoryId, Accesses]:
        [found] = await storage.read(TENANT, [select_accesses(ids)])
        return accesses_of(found)

    counted = await both.same(accesses)
    assert counted[rows[0].memory_id] == Accesses(4, NOW + timedelta(hours=2))
    columns = "memory_id access_count last_accessed_at stage forget_at"
    await both.left(TENANT, {"memory_access": columns})


async def test_times_of_an_import(both: Both) -> None:
    later, sooner = NOW + timedelta(days=2), NOW - timedelta(days=2)
    rows = [row(key) for key in ("later", "sooner", "equal", "gone")]
    rows.append(row("told", instructions_namespace(ANN)))
    both_storages = (both.postgres, both.seekdb)

    def stamped(one: MemoryRow, at: Any, expires_at: Any = None) -> ItemStamp:
        return ItemStamp(
            address=(one.namespace, one.key), created_at=sooner, updated_at=at,
            expires_at=expires_at, ttl_s=60.0 if expires_at else None,
        )  # fmt: skip

    stamps = [stamped(rows[0], later, later + timedelta(days=9)), stamped(rows[1], sooner),
              stamped(rows[2], NOW, later), stamped(rows[4], later)]  # fmt: skip
    for storage in both_storages:
        await write_items(storage, rows[:1], None, (), [stamped(rows[0], sooner)], both.now)
        await storage.items.put_memories(rows[1:], None)
        await calls.stamp(storage, stamps)
        assert 1 == await calls.forget(storage, [(NOTES, "sooner"), (NOTES, "never")], both.now)
    addresses = [stamp.address for stamp in stamps] + [(NOTES, "gone")]
    marks = await both.same(lambda storage: calls.marks(storage, addresses))
    assert marks[NOTES, "sooner"].deleted_at == NOW and (NOTES, "gone") not in marks
    held = await both.left(
        TENANT, {"memories": MEMORIES, "instructions": "instruction_key version created_at"}
    )
    assert held["instructions"][0]["created_at"] == later
    assert {one["key"]: one["updated_at"] for one in held["memories"]}["later"] == later
    for storage in both_storages:
        await calls.forget_scope(storage, ANN, None, both.now)
    marks = await both.same(lambda storage: calls.marks(storage, addresses))
    assert {mark.deleted_at for mark in marks.values()} == {NOW} and len(marks) == len(addresses)


async def test_other_letters_make_a_version_and_the_same_number_does_not(both: Both) -> None:
    values = ({"n": 1e16}, {"n": 10**16}, {"n": 1.0}, {"n": 1}, {"b": 1, "a": 2}, {"a": 2, "b": 1})
    for value in values:
        for storage in (both.postgres, both.seekdb):
            told = row("told", instructions_namespace(ANN), value=value)
            await storage.items.put_memories([told], None)
    held = await both.left(TENANT, {"instructions": "instruction_key version"})
    assert [1, 2, 3, 4, 5] == [one["version"] for one in held["instructions"]]


async def test_what_expired_is_swept_with_what_it_was(both: Both) -> None:
    ends = NOW + timedelta(hours=1)
    rows = [row(f"k{number}", (*NOTES, f"box{number % 2}"), expires_at=ends) for number in range(9)]
    rows += [row("stays"), row("other", ("app", "bob"), expires_at=ends)]
    for storage in (both.postgres, both.seekdb):
        await storage.items.put_memories(rows, None)
    assert 0 == await both.same(lambda storage: calls.swept(storage, (), 100, both.now))
    both.now += timedelta(hours=2)
    assert 3 == await both.same(lambda storage: calls.swept(storage, (*NOTES, "box0"), 3, both.now))
    assert 7 == await both.same(lambda storage: calls.swept(storage, ("app",), 100, both.now))
    left = await both.left(TENANT, {"memories": "key"})
    assert ["stays"] == [one["key"] for one in left["memories"]]


async def test_namespaces_are_the_same(both: Both) -> None:
    chance = random.Random(6)
    labels = ["a", "b", "a/b", "%", "é", "*x", "." * 40]
    spaces = [tuple(chance.choices(labels, k=chance.randint(1, 5))) for _ in range(60)]
    rows = [row("k", space) for space in dict.fromkeys(spaces)]
    for storage in (both.postgres, both.seekdb):
        await storage.items.put_memories(rows, None)
    conditions = [("a",), ("*", "b"), ("a", "*", "%"), ("*",), ("a/b",), ()]
    for prefix in conditions:
        for suffix in conditions:
            for depth in (None, 0, 1, 3):
                query = NamespaceQuery(
                    prefixes=[prefix], suffixes=[suffix], max_depth=depth, limit=9, offset=1
                )
                await both.same(lambda storage, query=query: storage.items.list_namespaces(query))


async def test_items_are_forgotten_by_their_ids(both: Both) -> None:
    rows = [row(f"k{number}") for number in range(3)]
    for storage in (both.postgres, both.seekdb):
        await storage.items.put_memories(rows, None)
    ids: list[UUID] = [rows[2].memory_id, uuid7(), rows[0].memory_id]
    named = partial(forget_keys, list(map(str, ids)), both.now)
    assert 2 == await both.same(lambda s: s.transact(TENANT, named))
    assert [{"key": "k1"}] == (await both.left(TENANT, {"memories": "key"}))["memories"]
