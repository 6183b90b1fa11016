"""A store in the place of PostgresStore and AsyncPostgresStore: how it is opened and configured."""

import asyncio
import math
from concurrent.futures import Future
from typing import Any

import numpy as np
import psycopg
import pytest
from every_case import every_case
from langchain_core.embeddings import Embeddings
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.store.base import PutOp
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from toy_models import ToyModel

from langgraph_store import BatchError, PgHippocampusStore
from shared_core import InvalidInput, Scope, open_memory, run_sync
from shared_core.ports import WriteItem

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
HERE = ("app", "ann", "notes")
ANN = Scope("app", "ann")
FAR = ("app", "bob", "profile", "user", "me")


class Plane(Embeddings):
    """Reads a text as two numbers."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(number) for number in text.split()]


def index(**others: Any) -> Any:
    return {"dims": 2, "embed": Plane(), **others}


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("distance", "order", "scores"),
    [
        ("cosine", ["short", "long", "other"], [1.0, 10 / math.sqrt(101), 0.0]),
        ("l2", ["short", "other", "long"], [0.0, -math.sqrt(2), -math.sqrt(82)]),
        ("inner_product", ["long", "short", "other"], [10.0, 1.0, 0.0]),
    ],
)
def test_vectors_are_ranked_by_the_distance_that_is_asked_for(dsn, distance, order, scores):
    with PgHippocampusStore(dsn, index=index(distance_type=distance)) as store:
        for key, text in (("long", "10 1"), ("short", "1 0"), ("other", "0 1")):
            store.put(HERE, key, {"text": text})
        found = store.search(HERE, query="1 0")
        assert order == [item.key for item in found]
        assert scores == pytest.approx([item.score for item in found], abs=2e-2)
        [second] = store.search(HERE, query="1 0", limit=1, offset=1)
        assert order[1] == second.key


@every_case(
    ({"dims": 0}, "dims"), ({"dims": "2"}, "dims"), ({"dims": True}, "dims"),
    ({"distance_type": "hamming"}, "hamming.*cosine"), ({"distance": "l2"}, "distance"),
    ({"ann_index_config": {"lists": 3}}, "lists"), ({"ann_index_config": []}, "ann_index"),
    ({"fields": ""}, "field path"), ({"embed": None}, "'dims'.*'embed'"),
    ({"embed": "e6"}, "e6.*e5"), ({"embed": "nobody:x"}, "nobody"),
    ({"embed": "e5", "dims": 512}, "512.*384"),
    (["x"], "index"), ({"ttl": {"omit": True}}, "omit"),
    ({"pool_config": {"size": 3}}, "size"), ({"pool_config": {"max_size": "3"}}, "max_size"),
    ({"pool_config": {"kwargs": {"hots": "x"}}}, "hots"),
    ({"pool_config": {"kwargs": {1: 2}}}, "names with texts"),
    ({"pool_config": {"kwargs": {"user": object()}}}, "names with texts"),
)  # fmt: skip
def test_a_configuration_that_cannot_be_used_is_refused_by_name(config, said):
    others: Any = isinstance(config, dict) and config.keys() & {"ttl", "pool_config"}
    options = config if others else {"index": index(**config) if config != ["x"] else config}
    with pytest.raises(InvalidInput, match=said):
        PgHippocampusStore(NOWHERE, **options)


def test_what_a_pool_is_told_needs_a_server_and_its_secrets_stay_out_of_errors():
    told = {"kwargs": {"application_name": "x", "password": "s3cret", "port": object()}}
    with pytest.raises(InvalidInput, match="DSN of a server") as refused:
        PgHippocampusStore(pool_config=told)
    assert "s3cret" not in str(refused.value)
    PgHippocampusStore(pool_config={"kwargs": {"autocommit": True}})


def test_vectors_of_other_dimensions_or_with_numbers_that_none_can_hold_are_refused(dsn):
    for options, text, told in (
        ({"dims": 3}, "1 0", "'dims'.* is 3.*2 dimensions"),
        ({"distance_type": "l2"}, "70000 1", "65,504"),
    ):
        with PgHippocampusStore(dsn, index=index(**options)) as store:
            with pytest.raises(Exception, match=told):
                store.put(HERE, "k", {"text": text})
            assert store.get(HERE, "k") is None


def test_its_configuration_can_be_read_and_an_engine_has_its_embedder():
    with pytest.raises(InvalidInput, match="'embed'"):
        PgHippocampusStore(engine=open_memory(NOWHERE, embedder=Plane()), index=index())
    config = index(ann_index_config={"kind": "hnsw", "vector_type": "halfvec"}, fields=["text"])
    store = PgHippocampusStore(NOWHERE, index=config, ttl={"default_ttl": 1})
    assert (config, config["embed"]) == (store.index_config, store.embeddings)
    assert {"default_ttl": 1} == store.ttl_config
    plain = PgHippocampusStore(NOWHERE)
    assert (None, None, None) == (plain.index_config, plain.embeddings, plain.ttl_config)
    named = PgHippocampusStore(NOWHERE, index={"dims": 512, "embed": "use"}).embeddings
    assert named is not None and 512 == len(named.embed_query("tea"))


def test_with_opens_what_from_conn_string_makes(empty_dsn):
    pool: Any = {"min_size": 1, "max_size": 2, "kwargs": {"connect_timeout": 5}}
    with PgHippocampusStore.from_conn_string(empty_dsn, pool_config=pool) as store:
        assert store.setup() is not None
        store.put(HERE, "k", {"n": 1}, index=False)
        future = store.start_ttl_sweeper(60)
        assert isinstance(future, Future) and not future.done()
        assert store.stop_ttl_sweeper(timeout=10) == 1 and 0 == store.sweep_ttl()


async def test_async_with_opens_it_too_and_everything_can_be_awaited(empty_dsn):
    async with PgHippocampusStore.from_conn_string(empty_dsn, pipeline=True) as store:
        assert await store.setup() is None
        await store.aput(HERE, "k", {"n": 1}, index=False, ttl=1e-4)
        sweeping = await store.start_ttl_sweeper(1e-3)
        async with asyncio.timeout(60):
            while await store.aget(HERE, "k", refresh_ttl=False):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert not sweeping.done()
        assert await store.stop_ttl_sweeper() and 0 == await store.sweep_ttl()


async def test_a_store_that_nothing_opened_can_be_called_and_awaited_on_a_loop(empty_dsn):
    store = PgHippocampusStore(empty_dsn)
    await store.setup()
    store.put(HERE, "k", {"n": 1}, index=False)
    assert store.get(HERE, "k") is not None
    assert 0 == await store.sweep_ttl() == store.sweep_ttl()
    (await store.start_ttl_sweeper(60)).cancel()
    await store.stop_ttl_sweeper()
    await store.aclose()


def test_a_connection_or_a_pool_of_another_names_the_database(empty_dsn):
    with (
        psycopg.connect(empty_dsn, autocommit=True) as connection,
        ConnectionPool(empty_dsn, min_size=1, max_size=3, kwargs={"autocommit": True}) as pool,
    ):
        PostgresSaver(pool).setup()
        for given in (connection, pool):
            with PgHippocampusStore(given) as store:
                store.put(HERE, "k", {"by": type(given).__name__}, index=False)
        with PgHippocampusStore(empty_dsn) as store:
            item = store.get(HERE, "k")
            assert item is not None and {"by": "ConnectionPool"} == item.value
        assert pool.get_stats()["pool_size"] <= 3
        assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
    with pytest.raises(InvalidInput, match="closed"):
        PgHippocampusStore(connection)
    with pytest.raises(InvalidInput, match="conn must be"):
        PgHippocampusStore(3)


async def test_an_async_pool_does_as_well(dsn):
    async with (
        AsyncConnectionPool(dsn, min_size=1, max_size=2, open=False) as pool,
        PgHippocampusStore(pool) as store,
    ):
        await store.aput(HERE, "k", {"n": 1}, index=False)
        assert await store.aget(HERE, "k") is not None


@pytest.mark.both_engines
def test_labels_of_ours_are_nobody_elses(dsn):
    with PgHippocampusStore(dsn, index=index()) as store:
        for labels in (FAR, ("app", "ann", "instructions"), ("app", "ann", "profile")):
            store.put(labels, "k", {"text": "1 0"}, ttl=5)
            assert {"text": "1 0"} == store.get(labels, "k").value  # type: ignore[union-attr]
            assert ["k"] == [item.key for item in store.search(labels, query="1 0")]
            store.delete(labels, "k")
            assert store.get(labels, "k") is None


@pytest.mark.both_engines
def test_a_page_holds_what_there_is(dsn):
    with PgHippocampusStore(dsn, index=index()) as store:
        for number in range(6):
            store.put(HERE, f"near {number}", {"text": f"1 0.{number}"})
            store.put(HERE, f"bare {number}", {"n": number}, index=False)
        found = store.search(HERE, query="1 0", limit=10)
        assert [False] * 6 + [True] * 4 == [item.score is None for item in found]
        rest = store.search(HERE, query="1 0", limit=10, offset=10)
        assert 12 == len({item.key for item in (*found, *rest)})
        both = store.search(HERE, query="1 0", limit=10, filter={"n": {"$gte": 0}})
        assert {None} == {item.score for item in both} and 6 == len(both)


@pytest.mark.both_engines
def test_among_many_that_are_equally_near_the_newest_comes_first(dsn):
    with PgHippocampusStore(dsn, index=index()) as store:
        names = [f"{number:03}" for number in range(300)]
        for begin in range(0, 300, 30):
            store.batch([PutOp(HERE, key, {"text": "1 0"}) for key in names[begin : begin + 30]])
        pages = [store.search(HERE[:2], query="1 0", limit=10, offset=at) for at in (0, 10, 140)]
        listed = store.search(HERE[:2], limit=300)
        for at, page in zip((0, 10, 140), pages, strict=True):
            assert [i.key for i in listed[at : at + 10]] == [item.key for item in page]


@every_case(
    ({"$lt": math.inf}, "ab"), ({"$lte": math.inf}, "ab"), ({"$gt": math.inf}, ""),
    ({"$gt": -math.inf}, "ab"), ({"$gte": -math.inf}, "ab"), ({"$lt": -math.inf}, ""),
    ({"$gt": math.nan}, ""), ({"$lte": math.nan}, ""), ({"$ne": math.nan}, "abcd"),
    ({"$eq": math.inf}, ""), ({"$in": [1, math.inf]}, "a"), ({"$nin": [1, math.nan]}, "bcd"),
    (math.nan, ""), ({"$not": {"$lt": math.inf}}, "cd"),
)  # fmt: skip
@pytest.mark.both_engines
def test_filters_compare_with_infinity_and_nan(condition, kept, dsn):
    values: dict[str, Any] = {"a": {"n": 1}, "b": {"n": -2.5}, "c": {"n": "x"}, "d": {}}
    store = PgHippocampusStore(dsn)
    store.batch([PutOp(HERE, key, value, index=False) for key, value in values.items()])
    assert sorted(kept) == sorted(item.key for item in store.search(HERE, filter={"n": condition}))
    store.close()


@pytest.mark.both_engines
async def test_reembed_leaves_the_model_of_a_store_alone(dsn):
    async with open_memory(dsn, embedder="use", worker=False) as memory:
        await memory.remember(ANN, "Ann likes tea.")
        async with PgHippocampusStore(dsn, index=index()) as store:
            await store.aput(HERE, "k", {"text": "1 0"})
            report = await memory.reembed(Words())
            assert (1, 0) == (report.embedded, report.left)
            [found] = await store.asearch(HERE, query="1 0")
            assert found.score == pytest.approx(1.0, abs=1e-3)
    async with open_memory(dsn, embedder=Words(), worker=False) as memory:
        [hit] = await memory.search(ANN, "tea")
        assert "Ann likes tea." == hit.memory.text


@pytest.mark.both_engines
async def test_a_model_that_reembed_left_stays_with_a_store_that_takes_it(dsn, caplog):
    async with open_memory(dsn, embedder=Words(), worker=False) as memory:
        await memory.remember(ANN, "Ann likes tea.")
        await memory.reembed(Letter(), drop_old=True)  # the name of "words" stays behind
    async with PgHippocampusStore(dsn, index={"embed": Words()}) as store:  # type: ignore[typeddict-item]
        await store.aput(HERE, "k", {"text": "tea"})
        assert "'words' beside those of 'letter'" in caplog.text
        async with open_memory(dsn, embedder=Letter(), worker=False) as memory:
            report = await memory.reembed(Third())
            assert (1, 0) == (report.embedded, report.left)
        [found] = await store.asearch(HERE, query="tea")
        assert found.score == pytest.approx(1.0, abs=1e-3)


@pytest.mark.both_engines
async def test_the_model_of_a_store_becomes_that_of_a_database_without_one(dsn):
    async with (
        open_memory(dsn, embedder=Letter(), worker=False) as memory,
        PgHippocampusStore(dsn, index={"embed": Words()}) as store,  # type: ignore[typeddict-item]
    ):
        await memory.remember(ANN, "Ann likes tea.")
        await store.aput(HERE, "k", {"text": "tea"})
        await memory.erase(ANN)
    async with open_memory(dsn, embedder=Words(), worker=False) as memory:
        await memory.remember(ANN, "Ann likes tea.")
        assert "words" == (await memory.report()).model
        assert 1 == (await memory.reembed(Letter())).embedded


@pytest.mark.both_engines
def test_a_search_by_both_finds_nothing_that_has_expired(dsn, clock):
    engine = open_memory(dsn, embedder=Words(), clock=clock, worker=False)
    store = PgHippocampusStore(engine=engine, search="hybrid")
    store.put(HERE, "gone", {"text": "tea"}, ttl=1)
    store.put(HERE, "there", {"text": "tea"})
    clock.forward(minutes=2)
    assert ["there"] == [item.key for item in store.search(HERE, query="tea")]
    assert {"gone", "there"} == {item.key for item in store.search(HERE)}
    run_sync(engine.close())


async def test_what_cannot_be_copied_is_shared_and_writes_to_one_address_keep_their_order(dsn):
    deep: Any = {}
    for _ in range(480):
        deep = {"d": deep}
    async with PgHippocampusStore(dsn) as store:
        await store.aput(HERE, "deep", deep, index=False)
        await store.aput(HERE, "flat", {"n": 1}, index=False)
        keys = ("deep", "deep", "flat", "flat")
        found = await asyncio.gather(*(store.aget(HERE, key) for key in keys))
        assert [deep, deep, {"n": 1}, {"n": 1}] == [item.value for item in found if item]
        assert found[2] is not found[3]
        ways: list[Any] = [HERE, [*HERE], HERE]
        puts = [store.aput(way, "k", {"n": n}, index=False) for n, way in enumerate(ways)]
        await asyncio.gather(*puts)
        assert {"n": 2} == (await store.aget(HERE, "k")).value  # type: ignore[union-attr]


async def test_an_address_that_is_none_fails_alone(dsn):
    async with open_memory(dsn, embedder=Words(), worker=False) as memory:
        odd: Any = (HERE, ["k"])
        ops = [WriteItem(address=odd, value={"n": 1}), WriteItem(address=(HERE, "k"), value={})]
        with pytest.raises(BatchError) as failed:
            await memory.run_item_ops(ops)
        assert [0] == [*failed.value.errors]
        assert isinstance(failed.value.errors[0], InvalidInput)


class Words(ToyModel):
    """A model of its own: whether a text has tea in it."""

    model = "words"

    async def embed_passages(self, texts: Any) -> Any:
        return np.array([[float("tea" in text), 1.0] for text in texts], np.float32)


class Letter(Words):
    """Another model: how long a text is."""

    model = "letter"

    async def embed_passages(self, texts: Any) -> Any:
        return np.array([[float(len(text)), 1.0, 0.0] for text in texts], np.float32)


class Third(Letter):
    """The same numbers under another name."""

    model = "third"
