"""The namespace of instructions in a store: every put is a version, the newest counts."""

import asyncio
import threading
from datetime import UTC, datetime
from functools import reduce
from itertools import chain
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from long_forms import LONG

from adk_memory import OpenMemoryService
from langgraph_store import (
    BatchError,
    PgHippocampusStore,
    get_instruction,
    instruction_history,
    instructions_namespace,
    put_instruction,
    rollback_instruction,
)
from langgraph_store.conformance.samples import INDEX, MODES, Face
from shared_core import InvalidInput, MemoryEngine, Scope, open_memory
from shared_core.ports.items import ItemStamp, WriteItem

ANN = Scope("app", "ann")
HERE = ("app", "ann", "hippocampus-instructions")


@pytest.fixture(scope="module")
def open_store(database):
    with PgHippocampusStore(database.dsn, index=INDEX | {"fields": ["content"]}) as opened:
        yield opened


@pytest.fixture
def store(open_store, database):
    """The open store of the module, emptied for the test."""
    database.empty(open_store.engine)
    return open_store


@pytest.fixture(params=MODES if LONG else ["async"])
def face(request, store):
    """The store by its async methods; by night by its sync ones too."""
    return Face(store, request.param)


def engine_of(face: Face) -> MemoryEngine:
    """Return the memory behind the store."""
    assert isinstance(face.store, PgHippocampusStore)
    return face.store.engine


async def said(face: Face, key: str = "tone") -> list[tuple[int, Any]]:
    """Return the versions of an instruction of Ann, newest first."""
    history = await engine_of(face).instructions.history(ANN, key)
    return [(one.version, one.value) for one in history]


async def test_every_put_is_a_version_and_get_returns_the_newest(face):
    for text in ("one", "two", "two", "three"):
        await face.put(HERE, "tone", {"content": text})
        assert {"content": text} == await face.value("tone", HERE)
    versions = [(3, {"content": "three"}), (2, {"content": "two"}), (1, {"content": "one"})]
    assert versions == await said(face)
    await face.put(HERE, "tone", {"content": 1})
    await face.put(HERE, "tone", {"content": 1.0})
    assert "1.0" == str((await face.value("tone", HERE))["content"])
    assert [5, 4] == [version for version, _ in await said(face)][:2]


async def test_the_item_has_the_times_of_the_instruction_and_delete_takes_all_versions(face):
    for text in ("one", "two"):
        await face.put(HERE, "tone", {"content": text})
    item = await face.get(HERE, "tone")
    [newest, _] = await engine_of(face).instructions.history(ANN, "tone")
    assert (item.created_at, item.updated_at) == (newest.created_at, newest.written_at)
    await face.delete(HERE, "tone")
    await face.delete(HERE, "unknown")
    assert await face.get(HERE, "tone") is None and [] == await face.keys(HERE)
    assert [] == await said(face)
    await face.put(HERE, "tone", {"content": "three"})
    assert [(1, {"content": "three"})] == await said(face)


async def test_helpers_and_store_are_two_ways_to_the_same(store):
    await asyncio.to_thread(put_instruction, store, "app", "a.b", "tone", {"content": "one"})
    here = instructions_namespace("app", "a.b")
    await store.aput(here, "tone", {"content": "two"})
    newest = await asyncio.to_thread(get_instruction, store, "app", "a.b", "tone")
    assert newest is not None and (2, {"content": "two"}) == (newest.version, newest.value)
    await asyncio.to_thread(rollback_instruction, store, "app", "a.b", "tone")
    item = await store.aget(here, "tone")
    assert item is not None and {"content": "one"} == item.value
    history = await asyncio.to_thread(instruction_history, store, "app", "a.b", "tone")
    assert [3, 2, 1] == [one.version for one in history]
    [found] = await store.asearch(here, query="one")
    assert "tone" == found.key and found.score is not None and found.score > 0.9


async def test_the_core_deletes_the_item_with_its_versions(face):
    engine = engine_of(face)
    for key in ("tone", "length", "format"):
        await face.put(HERE, key, {"content": key})
    await face.put(HERE, "tone", {"content": "newer"})
    assert 2 == await engine.instructions.delete(ANN, "tone")
    assert 0 == await engine.instructions.delete(ANN, "tone")
    assert ["format", "length"] == await face.keys(HERE)
    await engine.forget_scope(ANN)
    assert [] == await face.keys(HERE) and [] == await said(face, "length")


async def test_search_filters_ranks_and_pages(face):
    for number in range(7):
        await face.put(HERE, f"k{number}", {"content": f"rule {number}", "even": number % 2 == 0})
    await face.put(HERE, "k0", {"content": "always greet in portuguese", "even": True})
    keys = await face.keys(HERE, limit=100)
    assert ["k0", "k6", "k5", "k4", "k3", "k2", "k1"] == keys
    paged = [await face.keys(HERE, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert keys == list(chain(*paged))
    assert ["k0", "k6", "k4", "k2"] == await face.keys(HERE, filter={"even": True})
    assert "k0" == (await face.keys(HERE, query="greet in portuguese"))[0]
    assert [] == await face.keys(HERE, filter={"even": "no"})


@pytest.mark.parametrize("way", ["vector", "hybrid", "text"])
async def test_every_way_of_searching_finds_them(dsn, way):
    async with PgHippocampusStore(dsn, search=way, score_parts=True) as store:
        await store.aput(HERE, "tone", {"content": "回答要简短，用葡萄牙语问候"})
        await store.aput(HERE, "units", {"content": "Give lengths in metres."})
        found = await store.asearch(HERE, query="葡萄牙语")
        assert "tone" == found[0].key and found[0].score is not None


async def test_a_prefix_above_finds_them_in_one_order(face):
    await face.put(("app", "ann", "notes"), "n", {"content": "a note"})
    await face.put(HERE, "tone", {"content": "be brief"})
    await face.put(("app", "bob", "hippocampus-instructions"), "tone", {"content": "be kind"})
    await face.put((*HERE, "deeper"), "plain", {"content": "no instruction"})
    for prefix, expected in {
        ("app", "ann"): ["plain", "tone", "n"], ("app",): ["plain", "tone", "tone", "n"],
        (): ["plain", "tone", "tone", "n"], HERE: ["plain", "tone"],
    }.items():  # fmt: skip
        assert expected == await face.keys(prefix)
        pages = [await face.keys(prefix, limit=1, offset=n) for n in range(len(expected))]
        assert expected == list(chain(*pages))
    assert "tone" == (await face.keys(("app", "ann"), query="be brief"))[0]
    assert HERE in await face.list_namespaces()
    of_both = await face.list_namespaces(suffix=("hippocampus-instructions",))
    assert [HERE, ("app", "bob", "hippocampus-instructions")] == of_both
    assert [] == await engine_of(face).instructions.history(ANN, "plain")


async def test_a_batch_sees_the_state_before_it_and_the_last_put_wins(face):
    await face.put(HERE, "old", {"content": "old"})
    results = await face.batch([
        GetOp(HERE, "tone"), PutOp(HERE, "tone", {"content": "one"}),
        PutOp(("app", "ann", "notes"), "n", {"content": "a note"}), SearchOp(HERE),
        PutOp(HERE, "tone", {"content": "two"}), PutOp(HERE, "old", None), ListNamespacesOp(),
    ])  # fmt: skip
    assert results[0] is None and ["old"] == [item.key for item in results[3]]
    assert [HERE] == results[6]
    assert [(1, {"content": "two"})] == await said(face) and [] == await said(face, "old")
    await face.batch([PutOp(HERE, "tone", {"content": "three"}), PutOp(HERE, "tone", None)])
    assert [] == await said(face) and await face.get(HERE, "tone") is None


BAD: dict[str, Any] = {
    "value": PutOp(HERE, "bad", {"n": float("nan")}),
    "no dict": PutOp(HERE, "bad", "text"),  # type: ignore[arg-type]
    "deep": PutOp(HERE, "bad", {"d": reduce(lambda inner, _: [inner], range(501), [])}),
    "nul key": PutOp(HERE, "a\x00b", {}),
    "empty key": PutOp(HERE, "", {}),
    "long key": PutOp(HERE, "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(5000)), {}),
    "ttl": PutOp(HERE, "bad", {}, ttl=5),
    "filter": SearchOp(HERE, filter={"n": {"$no": 1}}),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_operation_fails_alone(face, name):
    ops = [PutOp(HERE, "good", {"content": "x"}), BAD[name], PutOp(HERE, "tone", {"content": "y"})]
    with pytest.raises(BatchError) as failed:
        await face.batch(ops)
    assert [1] == list(failed.value.errors) and isinstance(failed.value.errors[1], InvalidInput)
    assert [(1, {"content": "y"})] == await said(face)
    assert ["good", "tone"] == sorted(await face.keys(HERE))


async def test_a_time_to_live_is_refused_and_a_default_one_is_not_theirs(dsn):
    with PgHippocampusStore(dsn, ttl={"default_ttl": 1e-4}) as store:
        for face in (Face(store, mode) for mode in MODES):
            await face.put(HERE, face.mode, {"content": "for ever"})
            await face.put(("app", "ann", "notes"), face.mode, {"content": "a moment"})
            with pytest.raises(InvalidInput, match="'k'.*cannot have a time to live"):
                await face.put(HERE, "k", {"content": "x"}, ttl=5)
            await face.put(HERE, "none", {"content": "x"}, ttl=None)
        await asyncio.sleep(0.02)
        await store.sweep_ttl()
        assert {"async", "none", "sync"} == {item.key for item in await store.asearch(("app",))}


@pytest.mark.parametrize(
    "key", ["a/b", "a.b", "../..", "系统提示", "%2F", "it's; DROP TABLE", "🦜", " "]
)
async def test_keys_and_values_come_back_as_they_were(face, key):
    deep: Any = {"content": "深 NUL \x00", "n": [None, True, 2**80, 1e-300, {"a.b": {"/": []}}]}
    for _ in range(200):
        deep = {"d": deep, "l": [1, "二"]}
    await face.put(HERE, key, deep)
    stored = await face.value(key, HERE)
    assert [(1, stored)] == await said(face, key)
    while "d" in stored:
        assert [1, "二"] == stored["l"]
        stored, deep = stored["d"], deep["d"]
    assert deep | {"content": "深 NUL \ufffd"} == stored
    assert await face.get(HERE, "a\x00b") is None
    await face.delete(HERE, key)
    assert [] == await face.keys(HERE)


async def test_index_says_what_is_embedded(face):
    await face.put(HERE, "out", {"content": "be brief"}, index=False)
    await face.put(HERE, "other", {"content": "be brief", "why": "users hurry"}, index=["why"])
    found = await face.search(HERE, query="users hurry")
    assert ["other", "out"] == [item.key for item in found] and found[1].score is None
    assert ["other", "out"] == await face.keys(HERE)


async def test_writers_at_the_same_moment_lose_no_version(store):
    def write(number: int) -> None:
        store.put(HERE, "tone", {"content": f"sync {number}"})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    await asyncio.gather(
        *(store.aput(HERE, "tone", {"content": f"async {number}"}) for number in range(8)),
        *(store.engine.instructions.write(ANN, "tone", {"content": f"{n}"}) for n in range(8)),
    )
    for thread in threads:
        await asyncio.to_thread(thread.join)
    history = await store.engine.instructions.history(ANN, "tone")
    assert list(range(24, 0, -1)) == [one.version for one in history]
    assert 24 == len({str(one.value) for one in history})
    item = await store.aget(HERE, "tone")
    assert item is not None and history[0].value == item.value


async def test_writers_and_deleters_leave_an_item_with_versions_or_neither(store):
    for _ in range(10):
        await asyncio.gather(
            *(store.aput(HERE, "tone", {"content": f"{number}"}) for number in range(4)),
            *(store.adelete(HERE, "tone") for _ in range(4)),
        )
        item = await store.aget(HERE, "tone")
        newest = await store.engine.instructions.read(ANN, "tone")
        assert (item and item.value) == (newest and newest.value)


async def test_both_faces_see_a_put_and_adk_forgets_it_with_its_user(dsn):
    """Another process stands for an ADK agent: it has an engine and connections of its own."""
    async with PgHippocampusStore(dsn) as store, open_memory(dsn) as engine:
        adk = OpenMemoryService(engine=engine)
        await store.aput(HERE, "tone", {"content": "Greet in Portuguese."})
        await engine.instructions.write(ANN, "tone", {"content": "Greet in Finnish."})
        await store.aput(HERE, "tone", {"content": "Greet in Maltese."})
        newest = await engine.instructions.read(ANN, "tone")
        assert newest is not None
        assert (3, {"content": "Greet in Maltese."}) == (newest.version, newest.value)
        await engine.instructions.rollback(ANN, "tone")
        item = await store.aget(HERE, "tone")
        assert item is not None and {"content": "Greet in Finnish."} == item.value
        found = await adk.search_memory(app_name="app", user_id="ann", query="Greet in Finnish")
        assert [] == found.memories
        await adk.delete_user_memory(app_name="app", user_id="ann")
        assert await store.aget(HERE, "tone") is None
        assert await engine.instructions.read(ANN, "tone") is None


async def test_an_instruction_from_elsewhere_keeps_its_times(store):
    born, changed = (datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2))
    await store.engine.imported_items.write(
        [WriteItem(address=(HERE, "tone"), value={"content": "one"})],
        [ItemStamp(address=(HERE, "tone"), created_at=born, updated_at=changed,
                   expires_at=None, ttl_s=None)]
    )  # fmt: skip
    newest = await store.engine.instructions.read(ANN, "tone")
    assert newest is not None and changed == newest.written_at
