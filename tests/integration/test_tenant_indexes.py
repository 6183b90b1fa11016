"""The approximate indexes of large tenants: never wrong, and who builds them."""

import asyncio
import multiprocessing
import uuid

import psycopg
import pytest
from every_case import every_case
from langgraph.store.base import PutOp
from postgres_admin import column, execute, new_user, rows
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner, Result
from waiting import until

from langgraph_store import OceanBaseHippocampusStore, PgHippocampusStore
from shared_core import Scope, StorageReadOnly, StorageUnavailable
from shared_core.cli.main import app
from shared_core.jobs import index_maintenance as indexes
from shared_core.jobs.index_maintenance import plan_indexes
from shared_core.ports.indexes import TenantIndex, TenantVectors
from shared_core.storage.postgres.connection.migrations import APP_ROLE
from shared_core.storage.postgres.connection.statements import statement
from shared_core.storage.postgres.indexes import sorted_out
from tests.integration.large_tenants import (
    BIG,
    DIMS,
    THRESHOLD,
    asked,
    both,
    build,
    built,
    embed,
    fill,
    index_names,
    keys,
    large,
    memory_at,
    recall,
    store_at,
    threshold,
)

__all__ = ["asked", "built", "large", "threshold"]


def test_an_index_finds_what_reading_all_finds_and_what_is_new_and_not_what_is_gone(built, asked):
    with both(built) as (store, exact):
        assert recall(store, exact) >= 0.99
        assert all(asked.by_index) and len(asked.by_index) == 20
        asked.by_index.clear()
        pages = [store.search(BIG, query="pages", limit=20, offset=n) for n in range(0, 160, 20)]
        right = keys(exact.search(BIG, query="pages", limit=160))
        found = [key for page in pages for key in keys(page)]
        assert len(found) == len(set(found)) == 160
        assert len(set(found) & set(right)) >= 158
        assert [True] * 5 + [False] * 3 == asked.by_index
        asked.by_index.clear()
        fill(store, count=100, start=20_000)  # younger than the index
        store.batch([PutOp(BIG, f"{n}", {"text": f"another {n}"}) for n in range(0, 900, 3)])
        for number in range(1, 900, 9):
            store.delete(BIG, f"{number}")
        assert recall(store, exact) >= 0.99
        for text, key in (("another 333", "333"), ("note 20042", "20042")):
            assert key == store.search(BIG, query=text, limit=1)[0].key
        assert "1" not in {item.key for item in store.search(BIG, query="note 1", limit=10)}
        assert all(asked.by_index)
        asked.by_index.clear()
        store.ttl_config = exact.ttl_config = {"omit_expired": True}
        nearest = [item.key for item in store.search(BIG, query="who", limit=40)]
        expire = "UPDATE hippocampus.memories SET expires_at = now() - interval '1 hour'"
        assert 20 == len(rows(built, f"{expire} WHERE key = ANY(%s) RETURNING key", [nearest[::2]]))
        found = [item.key for item in store.search(BIG, query="who", limit=15)]
        assert nearest[1:30:2] == found
        assert found == [item.key for item in exact.search(BIG, query="who", limit=15)]
        assert [True, True] == asked.by_index


def test_scores_and_order_are_those_of_the_exact_search(dsn, asked):
    with both(dsn) as (store, exact):
        fill(store, count=400)
        store.batch([PutOp(BIG, f"twin {n}", {"text": "note 7"}) for n in range(5)])
        build(dsn)
        found = store.search(BIG, query="note 7", limit=12)
        right = exact.search(BIG, query="note 7", limit=12)
        assert asked.by_index == [True]
        expected = [(item.key, item.score) for item in right]
        assert expected == [(item.key, item.score) for item in found]
        assert {"7", *(f"twin {n}" for n in range(5))} == {item.key for item in found[:6]}


def test_filters_and_namespaces_below_the_tenant_fill_the_page(dsn, asked):
    deep = (*BIG, "notes", "work")
    with both(dsn) as (store, exact):
        fill(store, count=300)
        fill(store, deep, count=300, start=5_000)
        build(dsn)
        assert recall(store, exact, filter={"even": True}) >= 0.99
        assert recall(store, exact, prefix=deep) >= 0.99
        assert recall(store, exact, prefix=(*BIG, "notes"), filter={"even": False}) >= 0.99
        assert all(asked.by_index) and len(asked.by_index) == 60


def test_what_a_filter_leaves_few_of_is_found_whole(dsn, asked):
    with both(dsn) as (store, exact):
        fill(store, count=400)
        store.batch([PutOp(BIG, f"rare {n}", {"text": f"rare {n}", "rare": n}) for n in range(4)])
        fill(store, (*BIG, "small"), count=20, start=8_000)
        build(dsn)
        rare = {"filter": {"rare": {"$gte": 0}}}
        found = store.search(BIG, query="note", limit=10, **rare)
        assert {f"rare {n}" for n in range(4)} == {item.key for item in found}
        below = store.search((*BIG, "small"), query="note", limit=50)
        assert keys(exact.search((*BIG, "small"), query="note", limit=50)) == keys(below)
        assert len(below) == 20
        assert [False, False] == asked.by_index


def test_a_memory_with_several_vectors_comes_once_by_its_nearest(dsn, asked):
    fields = ("title", "body")
    with both(dsn, fields=fields) as (store, exact):
        values = [{"title": f"title {n}", "body": f"body {n % 400}"} for n in range(800)]
        puts = [PutOp(BIG, f"{n}", value) for n, value in enumerate(values)]
        store.batch(puts[:400])
        store.batch(puts[400:])
        assert ["build"] == build(dsn)
        assert recall(store, exact) >= 0.99
        found = store.search(BIG, query="body 7", limit=3)
        assert {"7", "407"} == {item.key for item in found[:2]}
        assert found[0].score == pytest.approx(1, abs=1e-3)
        assert all(asked.by_index)


def test_another_tenant_is_never_seen_and_a_tenant_may_have_any_name(dsn, asked):
    other = ("shop", "big2")
    with both(dsn) as (store, _):
        fill(store, count=400)
        fill(store, other, count=400)  # the same texts
        fill(store, ("shop", "small"), count=20)
        assert ["build", "build"] == build(dsn)
        for tenant, by_index in ((BIG, True), (other, True), (("shop", "small"), False)):
            found = store.search(tenant, query="note 3", limit=15)
            assert {tenant} == {item.namespace for item in found} and len(found) == 15
            assert by_index == asked.by_index[-1]
        assert {"3"} == {item.key for item in store.search(("shop",), query="note 3", limit=3)}
    asked.by_index.clear()
    labels = ("o'neil", 'a"b', "100%s %(x)s", "back\\slash", "陈 {tenant}", "$1")
    with both(dsn) as (store, exact):
        for label in labels:
            fill(store, (label, f"{label}; --"), count=THRESHOLD + 1)
        assert ["build"] * len(labels) == build(dsn)
        for label in labels:
            asking = {"query": "note 3", "limit": 10}
            right = exact.search((label, f"{label}; --"), **asking)
            assert keys(right) == keys(store.search((label, f"{label}; --"), **asking))
        assert [True] * len(labels) == asked.by_index


def test_an_index_that_vanishes_is_not_missed(built, asked):
    with both(built) as (store, exact):
        store.search(BIG, query="before", limit=5)
        [name] = index_names(built)
        execute(built, f"DROP INDEX hippocampus.{name}")
        assert 1.0 == recall(store, exact)
        assert all(asked.by_index)


def test_what_cannot_be_used_is_not_used(built, asked):
    with both(built) as (store, _):
        [name] = index_names(built)
        invalid = "UPDATE pg_index SET indisvalid = false"
        execute(built, f"{invalid} WHERE indexrelid = 'hippocampus.{name}'::regclass")
        store.search(BIG, query="note 3", limit=10)
        assert ["build"] == build(built)
        assert [False] == asked.by_index and name not in index_names(built)


def test_a_session_that_only_reads_uses_an_index_and_off_means_none(built, asked, monkeypatch):
    with store_at(make_conninfo(built, options="-c default_transaction_read_only=on")) as reader:
        assert "3" == reader.search(BIG, query="note 3", limit=10)[0].key
        assert [True] == asked.by_index
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "off")
    used: list[str] = []
    module = "shared_core.storage.postgres.indexes"
    monkeypatch.setattr(f"{module}.search_text", lambda *_: used.append("used"))
    with store_at(built) as store:
        assert "3" == store.search(BIG, query="note 3", limit=10)[0].key
    assert [] == used


ITEMS = 2_000
FILTERS = {
    "all": {}, "half": {"even": True}, "one in a hundred": {"number": {"$gte": 500, "$lt": 520}},
    "one in a thousand": {"$or": [{"number": 7}, {"number": 1_900}]},
    "five": {"number": {"$in": [1, 400, 800, 1_200, 1_999]}}, "none": {"number": -1},
}  # fmt: skip


def numbered_store(dsn: str) -> PgHippocampusStore:
    kind = OceanBaseHippocampusStore if "seekdb" in dsn else PgHippocampusStore
    return kind(dsn, index={"dims": DIMS, "embed": embed, "fields": ["text"]})


def fill_numbered(store: PgHippocampusStore) -> None:
    puts = []
    for number in range(ITEMS):
        value = {"text": f"note {number}", "even": number % 2 == 0, "number": number}
        puts.append(PutOp((*BIG, "notes" if number % 500 else "rare"), f"{number}", value))
    for first in range(0, ITEMS, 500):
        store.batch(puts[first : first + 500])


@pytest.mark.both_engines
@pytest.mark.tail
def test_what_is_left_of_a_large_user_is_found_whole(dsn, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "off")
    with numbered_store(dsn) as exact:
        fill_numbered(exact)
        monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "300")
        if "seekdb" not in dsn:
            assert build(dsn) == ["build"]
        with numbered_store(dsn) as store:
            for name, wanted in FILTERS.items():
                found, right = [], []
                for number in range(10):
                    asked = {"query": f"question {number}", "limit": 10, "filter": wanted}
                    found += keys(store.search(BIG, **asked))
                    right += keys(exact.search(BIG, **asked))
                assert len(found) == len(right)
                if name in ("all", "half"):
                    assert len({*found} & {*right}) >= 0.99 * len({*right})
                else:
                    assert found == right, name
            rare = {"query": "question", "limit": 10}
            assert 4 == len(store.search((*BIG, "rare"), **rare))
            expected = keys(exact.search((*BIG, "rare"), **rare))
            assert keys(store.search((*BIG, "rare"), **rare)) == expected


def command(dsn: str, *options: str) -> Result:
    return CliRunner().invoke(app, ["index", "--uri", dsn, *options])


def filled(dsn: str, count: int = 400) -> None:
    """Store so many items of one tenant, who earns an index."""
    with store_at(dsn) as store:
        fill(store, count=count)


def usable_indexes(dsn: str) -> int:
    with psycopg.connect(dsn, options="-c search_path=hippocampus") as connection:
        return len(sorted_out(connection.execute(statement("tenant_indexes")).fetchall())[0])


def test_the_command_lists_and_builds_what_is_earned(dsn):
    assert "No tenant is large enough" in command(dsn, "--dry-run").stdout
    with store_at(dsn) as store:
        fill(store, count=400)
        fill(store, ("shop", "small"), count=100)
    listed = command(dsn, "--dry-run").stdout
    assert "big" in listed and "400" in listed and "gets an index" in listed
    assert [] == index_names(dsn)
    built = command(dsn)
    assert 0 == built.exit_code, built.stderr
    assert "shop / big (400 vectors) gets an index" in built.stdout
    assert 1 == len(index_names(dsn))
    assert "Nothing to do" in command(dsn).stdout
    assert "has an index" in command(dsn, "--dry-run").stdout


def test_the_command_says_that_indexes_are_off(dsn, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "off")
    done = command(dsn)
    assert 1 == done.exit_code and "HIPPOCAMPUS_ANN_THRESHOLD" in done.stderr


async def test_a_long_tail_makes_a_new_index_and_erasure_takes_it_away(dsn):
    with store_at(dsn) as store:
        fill(store, count=400)
        assert ["build"] == build(dsn)
        [first] = index_names(dsn)
        fill(store, count=THRESHOLD, start=1_000)
        assert [] == build(dsn)
        store.put(BIG, "one more", {"text": "one more"})
        assert ["rebuild"] == build(dsn)
        [second] = index_names(dsn)
        assert first != second
    async with memory_at(dsn) as memory:
        assert 400 + THRESHOLD + 1 == await memory.forget_scope(Scope(*BIG))
    assert ["drop"] == build(dsn)
    assert [] == index_names(dsn)


async def test_of_two_builders_one_builds(dsn):
    filled(dsn)
    async with memory_at(dsn) as one, memory_at(dsn) as other:
        done = await asyncio.gather(one.indexes.refresh(), other.indexes.refresh())
        actions = [[step.action for step in steps] for steps in done if steps is not None]
        assert ["build"] in actions and 1 == len(index_names(dsn))
        assert actions in ([["build"]], [["build"], []], [[], ["build"]])
        held: list[object] = []
        async with one._storage.indexes.index_builder() as builder:
            assert builder is not None
            held.append(await other.indexes.refresh())
        assert [None] == held
        assert [] == await other.indexes.refresh()


async def test_what_an_interrupted_build_left_goes_with_the_next(dsn):
    filled(dsn)
    on = "ON hippocampus.embeddings USING hnsw ((embedding::halfvec(24)) halfvec_cosine_ops)"
    names = ("embeddings_near_uncommented", "embeddings_near_invalid", "mine")
    invalid = "UPDATE pg_index SET indisvalid = false WHERE indexrelid"
    execute(
        dsn, *(f"CREATE INDEX {name} {on}" for name in names),
        f"{invalid} = 'hippocampus.embeddings_near_invalid'::regclass",
    )  # fmt: skip
    assert ["build"] == build(dsn)
    assert 1 == len(index_names(dsn))
    assert [None] != column(dsn, "SELECT to_regclass('hippocampus.mine')")


async def test_a_build_that_is_interrupted_leaves_everything_usable(dsn):
    with store_at(dsn) as store:
        fill(store, count=400)
        with psycopg.connect(dsn) as writer:  # the build waits for this transaction
            writer.execute("UPDATE hippocampus.memories SET author = 'a' WHERE key = '1'")
            writer.execute("UPDATE hippocampus.embeddings SET field = field")
            async with memory_at(dsn) as memory:
                building = asyncio.create_task(memory.indexes.refresh())
                await until(lambda: bool(index_names(dsn)))
                building.cancel()
                await asyncio.wait([building])
                assert [] == await memory._storage.indexes.tenant_indexes()
            writer.rollback()
        assert "3" == store.search(BIG, query="note 3", limit=1)[0].key
        assert ["build"] == build(dsn)
        assert 1 == len(index_names(dsn))


async def test_only_the_owner_builds_where_it_can_write_and_others_hear_why_not(dsn, caplog):
    filled(dsn)
    with new_user(dsn, f"IN ROLE {APP_ROLE}") as guest:
        async with memory_at(make_conninfo(dsn, user=guest)) as memory:
            assert ["build"] == [step.action for step in await memory.indexes.plan()]
            with pytest.raises(StorageUnavailable, match=r"owner.*hippocampus index --uri"):
                await memory.indexes.refresh()
    assert [] == index_names(dsn)
    read_only = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    async with memory_at(read_only) as memory:
        with pytest.raises(StorageReadOnly, match="primary"):
            await memory.indexes.refresh()
        stop = asyncio.Event()
        keeping = asyncio.create_task(memory.indexes.keep(stop, every_s=0.01))
        await until(lambda: caplog.text.count("not maintained") >= 2)
        stop.set()
        await keeping


async def test_the_background_builds_when_it_is_time_and_not_before(dsn, monkeypatch):
    with store_at(dsn) as store:
        fill(store, count=400)
        store.search(BIG, query="note 3")
        monkeypatch.setattr(indexes, "FIRST_LOOK_S", 0.0)
        async with memory_at(dsn) as memory:  # worker=False
            memory.indexes.nudge()
            await asyncio.sleep(0.3)  # an index would take as long
        assert [] == index_names(dsn)
    with store_at(dsn) as store:
        store.get(BIG, "3")
        await until(lambda: bool(index_names(dsn)))


async def test_the_worker_builds_too(dsn):
    filled(dsn)
    command = ["worker", "--uri", dsn, "--poll", "0.05"]
    worker = multiprocessing.get_context("fork").Process(target=app, args=(command,))
    worker.start()
    try:
        await until(lambda: usable_indexes(dsn) == 1)
    finally:
        worker.terminate()
        await asyncio.to_thread(worker.join)
    assert 0 == worker.exitcode
    assert 1 == len(index_names(dsn))


async def test_large_tenants_are_found_in_a_sample(dsn):
    filled(dsn, 1_500)
    execute(dsn, "ANALYZE hippocampus.embeddings")
    async with memory_at(dsn) as memory:
        found = await memory._storage.indexes.large_tenants(1_200, [])
    assert [(BIG, 1_500)] == [(one.namespace, one.vectors) for one in found]


def index_of(model: str, dimensions: int) -> TenantIndex:
    cutoff = uuid.UUID(int=0)
    return TenantIndex(name="i", tenant="/a/u/", model=model, dimensions=dimensions, cutoff=cutoff)


def tenant(vectors: int, *, tail: int | None = None, dimensions: int = 384) -> TenantVectors:
    index = None if tail is None else index_of("m", dimensions)
    return TenantVectors(
        namespace=("a", "u"), model="m", dimensions=dimensions, vectors=vectors,
        tail=vectors if tail is None else tail, index=index,
    )  # fmt: skip


@every_case(
    (tenant(20_000), "exact"), (tenant(20_001), "build"),
    (tenant(90_000, dimensions=4_001), "exact"), (tenant(10_000, tail=0), "keep"),
    (tenant(9_999, tail=0), "drop"), (tenant(100_000, tail=20_000), "keep"),
    (tenant(100_000, tail=20_001), "rebuild"), (tenant(900_000, tail=90_000), "keep"),
    (tenant(900_000, tail=90_001), "rebuild"),
)  # fmt: skip
def test_what_is_earned(one, action):
    [step] = plan_indexes([one], [one.index] if one.index else [], 20_000)
    assert action == step.action


def test_an_index_of_a_model_that_is_no_longer_used_goes():
    old = index_of("old", 8)
    gone, built = plan_indexes([tenant(30_000)], [old], 20_000)
    assert ("drop", old, "build") == (gone.action, gone.old, built.action)
