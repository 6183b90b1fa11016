"""PgHippocampusStore next to LangGraph's own stores, on the operations where all should agree."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict
from zlib import crc32

import psycopg
import pytest
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore

from langgraph_store import PgHippocampusStore
from shared_core import open_memory, run_sync

HERE = ("memories", "alice")


def word_vectors(texts: list[str]) -> list[list[float]]:
    """Bags of words: texts that share words are near."""
    bags = [[crc32(word.encode()) % 63 for word in text.lower().split()] for text in texts]
    return [[0.1, *(float(bag.count(n)) for n in range(63))] for bag in bags]


INDEX: Any = {"dims": 64, "embed": word_vectors, "fields": ["text"]}


@pytest.fixture(params=["ours", "in_memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[BaseStore]:
    if request.param == "in_memory":
        yield InMemoryStore(index=INDEX)
    elif request.param == "postgres":
        dsn = request.getfixturevalue("empty_dsn")
        with PostgresStore.from_conn_string(dsn, index=INDEX) as theirs:
            theirs.setup()
            yield theirs
    else:
        with PgHippocampusStore(request.getfixturevalue("dsn"), index=INDEX) as store:
            yield store


def only(*contenders: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("store", contenders, indirect=True)


@pytest.fixture
def clock() -> list[datetime]:
    """Time that passes only when told to: the first is now."""
    return [datetime(2026, 3, 2, 8, 0, tzinfo=UTC)]


@pytest.fixture
def ours(dsn: str, clock: list[datetime]) -> Iterator[PgHippocampusStore]:
    """Our store, whose time stands still."""
    engine = open_memory(dsn, embedder=word_vectors, clock=lambda: clock[0])
    yield PgHippocampusStore(engine=engine, index=INDEX)
    run_sync(engine.close())


def keys(found: Any) -> list[str]:
    return [item.key for item in found]


def rows(dsn: str, table: str = "memories") -> int:
    with psycopg.connect(dsn) as superuser:
        [count] = superuser.execute(f"SELECT count(*) FROM hippocampus.{table}").fetchone() or [0]
    return int(count)


def test_what_was_put_is_read_back(store: BaseStore) -> None:
    value = {"text": "tea", "n": 1.5, "nested": {"list": [1, None, True, "ü"]}}
    store.put(HERE, "k", value)
    item = store.get(HERE, "k")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (value, "k", HERE)
    assert item.created_at.utcoffset() is not None


async def test_the_async_methods_do_what_the_sync_ones_do(store: BaseStore) -> None:
    await store.aput(HERE, "k", {"text": "tea"})
    item = await store.aget(HERE, "k")
    assert item is not None and item.value == {"text": "tea"}
    assert keys(await store.asearch(HERE)) == ["k"]
    assert await store.alist_namespaces(prefix=("memories",)) == [HERE]
    await store.adelete(HERE, "k")
    assert await store.aget(HERE, "k") is None


def test_what_is_missing_is_none_and_can_be_deleted(store: BaseStore) -> None:
    assert store.get(HERE, "nothing") is None
    store.delete(HERE, "nothing")
    store.put(HERE, "k", {"text": "tea"})
    store.delete(HERE, "k")
    assert store.get(HERE, "k") is None
    assert store.search(HERE) == []


def test_a_put_keeps_the_birth_and_raises_the_update_time(ours: PgHippocampusStore) -> None:
    stamps = []
    for n in range(3):
        ours.put(HERE, "k", {"n": n})
        item = ours.get(HERE, "k")
        assert item is not None
        stamps.append((item.created_at, item.updated_at))
    assert len({created for created, _ in stamps}) == 1
    assert stamps[0][1] < stamps[1][1] < stamps[2][1]


def test_reads_of_a_batch_see_the_state_before_it(store: BaseStore) -> None:
    store.put(HERE, "old", {"n": 0})
    put, get = PutOp(HERE, "new", {"n": 1}), GetOp(HERE, "new")
    results = store.batch([put, SearchOp(HERE), ListNamespacesOp(), get, GetOp(HERE, "old")])
    assert results[0] is None
    assert keys(results[1]) == ["old"]
    assert results[2] == [HERE]
    assert results[3] is None
    assert results[4].value == {"n": 0}  # type: ignore[union-attr]
    assert store.get(HERE, "new") is not None


def test_the_last_write_to_a_key_wins(store: BaseStore) -> None:
    store.put(HERE, "there", {"n": 0})
    ops = [
        PutOp(HERE, "twice", {"n": 1}), PutOp(HERE, "twice", {"n": 2}),
        PutOp(HERE, "gone", {"n": 1}), PutOp(HERE, "gone", None),
        PutOp(HERE, "there", None), PutOp(HERE, "there", {"n": 3}),
    ]  # fmt: skip
    assert store.batch(ops) == [None] * len(ops)
    found = {item.key: item.value["n"] for item in store.search(HERE)}
    assert found == {"twice": 2, "there": 3}


async def test_two_thousand_operations_fit_in_one_batch(store: BaseStore) -> None:
    spaces = [("big", str(n % 7)) for n in range(2000)]
    await store.abatch([PutOp(s, str(n), {"n": n}) for n, s in enumerate(spaces)])
    got = await store.abatch([GetOp(s, str(n)) for n, s in enumerate(spaces)])
    assert [item.value["n"] for item in got] == list(range(2000))  # type: ignore[union-attr]


@only("ours")
def test_sequences_other_than_tuples_are_namespaces(store: BaseStore) -> None:
    store.put(["a", "b"], "k", {"n": 1})  # type: ignore[arg-type]
    assert store.get(["a", "b"], "k") is not None  # type: ignore[arg-type]
    assert keys(store.search(["a"])) == ["k"]  # type: ignore[arg-type]
    assert store.list_namespaces(prefix=["a"]) == [("a", "b")]  # type: ignore[arg-type]
    store.delete(["a", "b"], "k")  # type: ignore[arg-type]
    assert store.search(("a",)) == []


def test_a_prefix_is_of_whole_labels(store: BaseStore) -> None:
    for space in [("foo",), ("foo", "x"), ("foobar",), ("ab",), ("a", "b"), ("a", "bc"), ("a",)]:
        store.put(space, "/".join(space), {"n": 1})
    assert sorted(keys(store.search(("foo",)))) == ["foo", "foo/x"]
    assert sorted(keys(store.search(("a",)))) == ["a", "a/b", "a/bc"]
    assert keys(store.search(("a", "b"))) == ["a/b"]
    assert len(store.search((), limit=20)) == 7


TREE = [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("ab", "b", "c"), ("users", "1", "c"),
        ("users", "2", "public"), ("users", "2", "private", "notes")]  # fmt: skip
CONDITIONS: list[dict[str, Any]] = [
    {}, {"prefix": ("a",)}, {"prefix": ("a", "b")}, {"prefix": ("a", "*", "c")},
    {"prefix": ("*", "b")}, {"prefix": ("users", "*")}, {"suffix": ("c",)}, {"suffix": ("b", "c")},
    {"suffix": ("*", "c")}, {"suffix": ("2", "*")}, {"prefix": ("a",), "suffix": ("c",)},
    {"prefix": ("a", "b", "c", "d")}, {"prefix": ("nothing",)}, {"max_depth": 1},
    {"max_depth": 2}, {"max_depth": 3, "prefix": ("users",)}, {"max_depth": 300},
    {"limit": 2}, {"limit": 2, "offset": 2}, {"offset": 100}, {"limit": 0},
    {"max_depth": 2, "limit": 2, "offset": 1}, {"suffix": ("c",), "max_depth": 1},
]  # fmt: skip


@only("ours", "postgres")
@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_lists_of_namespaces_agree_with_the_memory_store(
    store: BaseStore, condition: dict[str, Any]
) -> None:
    reference = InMemoryStore()
    for each in (reference, store):
        each.batch([PutOp(space, "k", {"n": 1}) for space in TREE])
    assert store.list_namespaces(**condition) == reference.list_namespaces(**condition)


def test_a_condition_may_be_one_bare_label(ours: PgHippocampusStore) -> None:
    ours.batch([PutOp(space, "k", {}) for space in TREE])
    assert ours.list_namespaces(suffix="public") == [("users", "2", "public")]  # type: ignore[arg-type]
    condition = MatchCondition("prefix", "ab")  # type: ignore[arg-type]
    assert ours.batch([ListNamespacesOp((condition,))]) == [[("ab", "b", "c")]]


def test_a_query_finds_the_nearest_first(store: BaseStore) -> None:
    for key, text in {"a": "red tea", "b": "green tea leaves", "c": "old car"}.items():
        store.put(HERE, key, {"text": text})
    found = store.search(HERE, query="green tea")
    assert keys(found)[:2] == ["b", "a"]
    scores = [item.score or 0.0 for item in found]
    assert scores == sorted(scores, reverse=True)
    assert [item.score for item in store.search(HERE)] == [None] * 3


@pytest.mark.parametrize("query", [None, "", "tea"])
@only("ours", "in_memory")
def test_pages_hold_every_item_once(store: BaseStore, query: str | None) -> None:
    store.batch([PutOp(HERE, f"{n:02}", {"text": f"tea {n}"}) for n in range(60)])
    pages = [keys(store.search(HERE, query=query, limit=7, offset=at)) for at in range(0, 70, 7)]
    assert sorted(key for page in pages for key in page) == [f"{n:02}" for n in range(60)]
    assert [len(page) for page in pages] == [7] * 8 + [4, 0]


def test_a_limit_of_zero_finds_nothing(store: BaseStore) -> None:
    store.put(HERE, "k", {"text": "tea"})
    assert store.search(HERE, limit=0) == []
    assert store.search(HERE, limit=0, query="tea") == []


@only("ours", "postgres")
def test_a_listing_is_newest_first(store: BaseStore) -> None:
    for key in ("a", "b", "c", "a"):
        store.put(HERE, key, {"n": 1})
    assert keys(store.search(HERE)) == ["a", "c", "b"]


def test_an_item_put_again_without_index_is_not_found_by_its_old_text(
    ours: PgHippocampusStore,
) -> None:
    ours.put(HERE, "k", {"text": "zebra crossing"})
    ours.put(HERE, "k", {"text": "unrelated"}, index=False)
    assert ours.search(HERE, query="zebra crossing") == []
    assert keys(ours.search(HERE)) == ["k"]
    ours.put(HERE, "list", {"tags": ["zebra", "ape"]}, index=["tags[*]"])
    ours.put(HERE, "list", {"tags": ["zebra"]}, index=["tags[*]"])
    assert [(item.score or 0) < 0.5 for item in ours.search(HERE, query="ape")] == [True]


def test_the_field_dollar_is_the_whole_value(dsn: str) -> None:
    index: Any = {**INDEX, "fields": ["$"]}
    with PgHippocampusStore(dsn, index=index) as whole:
        for store in (InMemoryStore(index=index), whole):
            store.put(HERE, "k", {"about": "zebra"})
            assert [item.score is not None for item in store.search(HERE, query="zebra")] == [True]


VALUES: dict[str, dict[str, Any]] = {
    "two": {"n": 2, "tag": "a", "at": {"city": "Rome", "zip": 1}, "list": [1, 2]},
    "nine": {"n": 9.5, "tag": "b", "at": {"city": "Oslo", "zip": 2}, "list": [1]},
    "ten": {"n": 10, "tag": "a", "at": {"city": "Oslo", "zip": 3}, "list": []},
    "hundred": {"n": 100, "tag": "c", "at": "Oslo", "list": [2, 1]},
}
FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({"n": 10}, {"ten"}), ({"tag": "a"}, {"two", "ten"}), ({"tag": "a", "n": 2}, {"two"}),
    ({"tag": {"$eq": "b"}}, {"nine"}), ({"tag": {"$ne": "a"}}, {"nine", "hundred"}),
    ({"n": {"$gt": 9.5}}, {"ten", "hundred"}), ({"n": {"$gte": 9.5}}, {"nine", "ten", "hundred"}),
    ({"n": {"$lt": 10}}, {"two", "nine"}), ({"n": {"$lte": 10}}, {"two", "nine", "ten"}),
    ({"n": {"$gt": 2, "$lt": 100}}, {"nine", "ten"}), ({"at": {"city": "Oslo"}}, {"nine", "ten"}),
    ({"at": {"zip": {"$gte": 2}, "city": "Oslo"}}, {"nine", "ten"}), ({"list": [1, 2]}, {"two"}),
    ({"nothing": {"$ne": 1}}, {"two", "nine", "ten", "hundred"}), ({"nothing": 1}, set()),
    ({"at": "Oslo"}, {"hundred"}), ({}, {"two", "nine", "ten", "hundred"}),
]  # fmt: skip


@only("ours", "in_memory")
def test_filters_find_what_they_say(store: BaseStore) -> None:
    store.batch([PutOp(HERE, key, value) for key, value in VALUES.items()])
    for wanted, expected in FILTERS:
        assert set(keys(store.search(HERE, filter=wanted))) == expected, wanted


def test_null_is_a_value_and_missing_is_none_at_all(ours: PgHippocampusStore) -> None:
    ours.put(HERE, "null", {"k": None})
    ours.put(HERE, "missing", {"other": 1})
    ours.put(HERE, "yes", {"k": True})
    assert keys(ours.search(HERE, filter={"k": None})) == ["null"]
    assert keys(ours.search(HERE, filter={"k": 1})) == []
    assert sorted(keys(ours.search(HERE, filter={"k": {"$ne": None}}))) == ["missing", "yes"]
    assert keys(ours.search(HERE, filter={"k": {"$gt": 0}})) == []


async def test_an_expired_item_is_nowhere(ours: PgHippocampusStore, clock: list[datetime]) -> None:
    await ours.aput(HERE, "short", {"text": "tea"}, ttl=0.5)
    await ours.aput(("memories", "bob"), "long", {"text": "tea"}, ttl=2)
    clock[0] += timedelta(minutes=0.49)
    assert len(await ours.asearch(("memories",), refresh_ttl=False)) == 2
    clock[0] += timedelta(minutes=0.02)
    assert await ours.aget(HERE, "short") is None
    assert keys(await ours.asearch(("memories",))) == ["long"]
    assert keys(await ours.asearch(("memories",), query="tea")) == ["long"]
    assert await ours.alist_namespaces() == [("memories", "bob")]


@pytest.mark.parametrize(("refresh", "alive"), [(True, True), (None, True), (False, False)])
async def test_a_read_gives_full_time_again_unless_told_not_to(
    ours: PgHippocampusStore, clock: list[datetime], refresh: bool | None, alive: bool
) -> None:
    await ours.aput(HERE, "got", {"n": 1}, ttl=1)
    await ours.aput(("found",), "found", {"n": 1}, ttl=1)
    for _ in range(3):
        clock[0] += timedelta(minutes=0.6)
        await ours.aget(HERE, "got", refresh_ttl=refresh)
        await ours.asearch(("found",), refresh_ttl=refresh)
    assert [item.key for item in await ours.asearch(())] == ["found", "got"] * alive


async def test_a_put_without_time_to_live_is_for_ever(
    ours: PgHippocampusStore, clock: list[datetime]
) -> None:
    ours.ttl_config = {"default_ttl": 1.0, "refresh_on_read": False}
    await ours.aput(HERE, "default", {"n": 1})
    await ours.aput(HERE, "ever", {"n": 1}, ttl=0.1)
    await ours.aput(HERE, "ever", {"n": 2}, ttl=None)
    clock[0] += timedelta(minutes=2)
    assert keys(await ours.asearch(HERE)) == ["ever"]
    assert await ours.engine.sweep_expired() == 1


def together(*jobs: Callable[[], Any]) -> list[Any]:
    """Run all jobs at once, each in a thread; raise what one raises."""
    start = threading.Barrier(len(jobs))
    with ThreadPoolExecutor(len(jobs)) as threads:
        running = [threads.submit(lambda job=job: (start.wait(), job())[1]) for job in jobs]
        return [job.result(timeout=30) for job in running]


async def test_a_sync_call_works_inside_a_running_loop(store: BaseStore) -> None:
    store.put(HERE, "k", {"n": 1})
    assert (await store.aget(HERE, "k")) == store.get(HERE, "k")


@only("ours")
def test_one_store_serves_one_loop_after_the_other(store: BaseStore) -> None:
    for n in range(3):
        asyncio.run(store.aput(HERE, str(n), {"text": "tea"}))
    assert len(asyncio.run(store.asearch(HERE, query="tea"))) == 3


@only("ours")
def test_one_store_serves_two_loops_and_six_threads_at_once(store: BaseStore) -> None:
    async def many(name: str) -> None:
        await asyncio.gather(*(store.aput(HERE, f"{name}{n}", {"n": n}) for n in range(25)))

    def one_by_one(name: str) -> None:
        for n in range(25):
            store.put(HERE, f"{name}{n}", {"n": n})
            assert store.get(HERE, f"{name}{n}") is not None

    loops = [lambda name=name: asyncio.run(many(name)) for name in "ab"]
    together(*loops, *(lambda name=name: one_by_one(name) for name in "cdefgh"))
    assert len(store.search(HERE, limit=1000)) == 8 * 25


def test_many_writers_of_one_key_leave_one_item_with_one_vector(
    ours: PgHippocampusStore, dsn: str
) -> None:
    def writer(n: int) -> None:
        for _ in range(12):
            ours.put(HERE, "same", {"text": f"writer {n}"})

    together(*(lambda n=n: writer(n) for n in range(8)))
    assert (rows(dsn), rows(dsn, "embeddings")) == (1, 1)
    [item] = ours.search(HERE, query="writer")
    assert ours.search(HERE, query=item.value["text"])[0].score == pytest.approx(1, abs=1e-3)


def test_batches_over_the_same_keys_in_any_order_do_not_block_each_other(
    ours: PgHippocampusStore,
) -> None:
    def writer(step: int) -> None:
        for n in range(12):
            ops = [PutOp(HERE, str(key), {"n": n}) for key in range(30)][::step]
            ours.batch([*ops, PutOp(HERE, "gone", None)])

    together(*(lambda n=n: writer(1 if n % 2 else -1) for n in range(8)))
    assert {item.value["n"] for item in ours.search(HERE, limit=100)} == {11}


class State(TypedDict):
    said: str
    known: list[str]


async def test_nodes_of_a_compiled_graph_share_the_store(store: BaseStore) -> None:
    def remember(state: State, *, store: BaseStore) -> dict[str, Any]:
        store.put(HERE, state["said"], {"text": state["said"]})
        return {}

    async def recall(state: State, *, store: BaseStore) -> dict[str, Any]:
        return {"known": keys(await store.asearch(HERE, query=state["said"]))}

    graph = StateGraph(State).add_sequence([remember, recall]).add_edge(START, "remember")
    compiled = graph.compile(store=store)
    await compiled.ainvoke({"said": "green tea", "known": []})
    assert (await compiled.ainvoke({"said": "tea", "known": []}))["known"] == ["tea", "green tea"]
