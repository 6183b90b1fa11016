"""Each operation of a batch succeeds or fails alone, whatever its neighbours do."""

import math
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from every_case import every_case
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from long_forms import LONG

from langgraph_store import BatchError, PgHippocampusStore as Store, memories_namespace
from langgraph_store.conformance.samples import word_vectors
from shared_core import open_memory, run_sync
from shared_core.errors import EmbeddingMismatch, InvalidInput, ModelUnavailable, StorageUnavailable

pytestmark = pytest.mark.both_engines

HERE = ("batch", "alice")


class Model:
    """A toy embedder that cannot embed some words, or nothing at all."""

    def __init__(self) -> None:
        self.model = "toy"
        self.down = False
        self.calls: list[int] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(len(texts))
        if self.down or any("poison" in text for text in texts):
            raise OSError("no")
        return word_vectors(texts)


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def engine(dsn, model):
    engine = open_memory(dsn, embedder=model)
    yield engine
    run_sync(engine.close())


@pytest.fixture
def store(engine):
    return Store(engine=engine)


def held(store: Store) -> set[str]:
    return {item.key for item in store.search(HERE, limit=10_000)}


BAD: dict[str, Any] = {
    "value": PutOp(HERE, "bad", {"n": math.nan}),
    "date": PutOp(HERE, "bad", {"at": datetime(2026, 1, 1, tzinfo=UTC)}, index=["$"]),
    "no dict": PutOp(HERE, "bad", "text"), "key": PutOp(HERE, "a\x00b", {}),
    "long key": PutOp(HERE, "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(5000)), {}),
    "number key": PutOp(HERE, 7, {}), "read key": GetOp(HERE, 7),
    "huge number": PutOp(HERE, "bad", {"n": 10**200_000}), "label": PutOp(("a.b",), "bad", {}),
    "surrogate": GetOp(("a\ud800",), "bad"), "bare": PutOp("bare", "bad", {}),
    "no namespace": GetOp(None, "k"), "ttl": PutOp(HERE, "bad", {}, ttl=-1),
    "ttl text": PutOp(HERE, "bad", {}, ttl="5"), "index": PutOp(HERE, "bad", {}, index="text"),
    "poison": PutOp(HERE, "bad", {"text": "poison"}), "query": SearchOp(HERE, query="poison"),
    "query type": SearchOp(HERE, query=7), "filter": SearchOp(HERE, filter={"n": {"$no": 1}}),
    "limit": SearchOp(HERE, limit=-1), "limit type": SearchOp(HERE, limit="5"),
    "condition": ListNamespacesOp((MatchCondition("around", ("a",)),)), "no operation": "put",
}  # fmt: skip


@every_case(*BAD)
async def test_one_bad_operation_leaves_its_neighbours_alone(name, store):
    await store.aput(HERE, "old", {"text": "tea"})
    ops = [GetOp(HERE, "old"), PutOp(HERE, "new", {"text": "coffee"}), SearchOp(HERE),
           PutOp(HERE, "old", None), ListNamespacesOp()]  # fmt: skip
    for place in (0, 3, len(ops)):
        with pytest.raises(BatchError) as failed:
            await store.abatch([*ops[:place], BAD[name], *ops[place:]])
        assert [place] == list(failed.value.errors) and f"[{place}]" in str(failed.value)
        results = list(failed.value.results)
        assert results.pop(place) is None
        assert results[0].key == "old" and results[4] == [HERE]
        assert held(store) == {"new"}
        await store.abatch([PutOp(HERE, "new", None), PutOp(HERE, "old", {"text": "tea"})])
    with pytest.raises((InvalidInput, InvalidNamespaceError, ModelUnavailable)):
        await store.abatch([BAD[name]])


def test_a_failed_batch_is_an_exception_group(store):
    caught: list[Exception] = []
    try:
        store.batch([PutOp(HERE, "a", {}), PutOp(HERE, "b", {"n": math.nan}), GetOp(("a.b",), "k")])
    except* InvalidNamespaceError as namespaces:
        caught += namespaces.exceptions
    except* InvalidInput as others:
        caught += others.exceptions
    assert len(caught) == 2 and held(store) == {"a"}


def test_a_failed_batch_can_be_sent_to_another_process():
    error = BatchError({1: InvalidInput("no")}, ["done", None])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.results) == (str(error), ["done", None])
    assert ["no"] == [str(inner) for inner in again.errors.values()]


def test_what_fails_all_operations_alike_is_raised_itself(dsn):
    with Store(dsn, index={"dims": 64, "embed": Model()}) as store:
        store.put(HERE, "k", {})
        run_sync(store.engine._storage.close())  # the database is away from here on
        with pytest.raises(StorageUnavailable):
            store.batch([GetOp(HERE, "k"), SearchOp(HERE), PutOp(HERE, "k", {})])


def test_only_what_needs_a_text_that_cannot_be_embedded_fails(store, model):
    poisoned = {3, 40, 41, 99}
    ops = [PutOp(HERE, str(n), {"text": "poison" if n in poisoned else f"tea {n}"})
           for n in range(100)]  # fmt: skip
    ops += [PutOp(HERE, "unindexed", {"text": "poison"}, index=False), PutOp(HERE, "3", None)]
    with pytest.raises(BatchError) as failed:
        store.batch([*ops[:-1], PutOp(HERE, "never", None)])
    assert poisoned == set(failed.value.errors)
    assert all(isinstance(error, ModelUnavailable) for error in failed.value.errors.values())
    found = store.search(HERE, query="tea", limit=200)
    assert len(held(store)) == len(found) == 97
    assert ["unindexed"] == [item.key for item in found if item.score is None]


def test_an_embedder_that_is_down_is_asked_twice_and_not_for_every_text(store, model):
    store.put(HERE, "before", {"text": "tea"})
    model.down = True
    model.calls.clear()
    ops = [PutOp(HERE, str(n), {"text": f"tea {n}"}) for n in range(500)]
    with pytest.raises(BatchError) as failed:
        store.batch([*ops, PutOp(HERE, "unindexed", {"n": 1}, index=False), GetOp(HERE, "before")])
    assert set(range(500)) == set(failed.value.errors)
    assert [500, 1] == model.calls
    assert held(store) == {"before", "unindexed"}


def test_stores_of_two_models_stand_side_by_side(store, dsn):
    store.put(HERE, "before", {"text": "tea"})
    with Store(dsn, index={"dims": 1, "embed": lambda texts: [[1.0]] * len(texts)}) as two:
        two.batch([PutOp(HERE, "a", {"text": "tea"}), PutOp(HERE, "b", {})])
        for one, own in ((store, "before"), (two, "a")):
            found = one.search(HERE, query="tea")
            assert {"a", "b", "before"} == {item.key for item in found}
            assert [own] == [item.key for item in found if item.score is not None]
        # Memories have the model of the database, whichever store writes them.
        with pytest.raises(EmbeddingMismatch, match="reembed"):
            two.put(memories_namespace("app", "ann"), "k", {"text": "tea"})


def test_the_last_sound_write_to_a_key_wins(store):
    with pytest.raises(BatchError):
        store.batch([PutOp(HERE, "k", {"n": 1}), PutOp(HERE, "k", {"n": math.inf})])
    assert store.get(HERE, "k").value == {"n": 1}


def test_a_write_whose_successor_cannot_be_done_is_done_instead(store, model):
    store.put(HERE, "gone", {"n": 0})
    ops = [PutOp(HERE, "k", {"n": 1}, index=False), PutOp(HERE, "k", {"text": "tea"}),
           PutOp(HERE, "gone", None), PutOp(HERE, "gone", {"text": "poison"}),
           PutOp(HERE, "k", {"text": "poison"}), PutOp(HERE, "k", {"text": "poison too"}),
           PutOp(HERE, "other", {"text": "coffee"})]  # fmt: skip
    with pytest.raises(BatchError) as failed:
        store.batch(ops)
    assert {3, 4, 5} == set(failed.value.errors)
    assert store.get(HERE, "k").value == {"text": "tea"}
    assert held(store) == {"k", "other"} and len(store.search(HERE, query="tea")) == 2
    model.down = True
    with pytest.raises(BatchError) as failed:
        store.batch(ops[:2])
    assert [1] == list(failed.value.errors)
    assert store.get(HERE, "k").value == {"n": 1}
    model.calls.clear()
    with pytest.raises(ModelUnavailable):
        store.batch([PutOp(HERE, "k", {"text": f"tea {n}"}) for n in range(50)])
    assert [1, 1] == model.calls and store.get(HERE, "k").value == {"n": 1}


def test_values_of_many_megabytes_are_kept_in_one_batch(store):
    big = {"text": "tea", "blob": "x" * 10_000_000}
    ops = [PutOp(HERE, str(n), {**big, "n": n}, index=["text"]) for n in range(5, 8)]
    assert store.batch(ops) == [None] * 3
    item = store.get(HERE, "7")
    assert item is not None and len(item.value["blob"]) == 10_000_000
    assert len(store.search(HERE, query="tea", filter={"n": {"$gte": 6}})) == 2


def test_thousands_of_puts_with_a_ttl_are_one_batch(store):
    """By night so many that PostgreSQL could not bind their values one by one."""
    many = range(13_000 if LONG else 2_000)
    store.batch([PutOp(HERE, str(n), {"n": n}, index=False, ttl=5) for n in many])
    got = store.batch([GetOp(HERE, str(n)) for n in many])
    assert [item.value["n"] for item in got] == list(many)
    assert len(store.search(HERE, limit=20_000)) == len(many)


@pytest.mark.parametrize("limit", [2**31, 2**63, 10**30])
def test_a_huge_limit_means_all_there_is(store, limit):
    store.put(HERE, "k", {"text": "tea"})
    assert len(store.search(HERE, limit=limit)) == len(store.search(HERE, query="tea", limit=limit))
    assert store.list_namespaces(limit=limit, max_depth=limit) == [HERE]
    assert store.search(HERE, offset=limit) == store.search(HERE, query="tea", offset=limit) == []
    assert store.list_namespaces(offset=limit) == []


def zero(texts: list[str]) -> list[list[float]]:
    return [[float(text.count(letter)) for letter in "abc"] for text in texts]


def test_a_text_that_says_nothing_to_the_model_is_kept_and_near_to_nothing(dsn):
    with Store(dsn, index={"dims": 3, "embed": zero}) as store:
        store.batch([PutOp(HERE, word, {"text": word}) for word in ("a", "b", "xyz")])
        found = store.search(HERE, query="a")
        assert [("a", 1.0), ("b", 0.0), ("xyz", None)] == [(i.key, i.score) for i in found]
        listed = [(item.key, None) for item in store.search(HERE)]
        assert listed == [(item.key, item.score) for item in store.search(HERE, query="xyz")]
        assert {"a", "b", "xyz"} == held(store)


async def test_a_refused_email_address_names_the_way_out(store):
    with pytest.raises(InvalidNamespaceError, match="memories_namespace"):
        store.put(("app", "ana@example.com"), "k", {})
    with pytest.raises(InvalidNamespaceError, match="memories_namespace"):
        await store.asearch(("app", "ana@example.com"))
    with pytest.raises(InvalidNamespaceError, match="memories_namespace"):
        await store.abatch([GetOp(("app", "ana@example.com"), "k")])


def test_the_root_langgraph_is_reserved_as_in_the_reference(store):
    with pytest.raises(InvalidNamespaceError, match="langgraph"):
        store.put(("langgraph", "a"), "k", {})
    store.batch([PutOp(("langgraph", "a"), "k", {"n": 1})])
    assert store.get(("langgraph", "a"), "k") is not None
