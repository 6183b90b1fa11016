"""Search by meaning, by words and by both: what is found, how it scored, page after page."""

from datetime import timedelta
from functools import partial
from itertools import product

import pytest
from langgraph.store.base import PutOp
from turns import START, said

from langgraph_store import PgHippocampusStore, memories_namespace
from langgraph_store.operations import ScoredItem
from shared_core import CapabilityMissing, InvalidInput, MemoryEngine, Scope, open_memory
from shared_core.core.domain import SCORE_PARTS

pytestmark = pytest.mark.both_engines

ALICE = Scope("app", "alice@example.com")
SHARED = memories_namespace("app", "alice@example.com")
HERE = ("search", "alice")


@pytest.fixture
async def store(memory):
    return PgHippocampusStore(engine=memory, score_parts=True)


async def fill(store: PgHippocampusStore, space: tuple[str, ...], count: int = 0) -> None:
    words = ["parrot", "river", "engine", "violin", "harbour", "candle", "glacier", "market"]
    texts = {
        "code": "The access code of the archive is ZX-81.",
        "tea": "She prefers green tea to coffee.",
        "home": "He moved to Lisbon in May.",
    } | {
        f"n{n:03}": f"The {words[n % 8]} number {n} stands near {words[n % 7]}."
        for n in range(count)
    }
    await store.abatch([PutOp(space, key, {"content": text, "n": n % 5})
                        for n, (key, text) in enumerate(texts.items())])  # fmt: skip


async def test_what_both_frameworks_remember_is_searched_as_recall_does(store, memory):
    await fill(store, SHARED, 30)
    for query in ("ZX-81", "what does she drink?", "where does he live"):
        hits = await memory.recall(ALICE, query, limit=5)
        found = await store.asearch(SHARED, query=query, limit=5)
        assert [hit.memory.key for hit in hits] == [item.key for item in found]
        assert [hit.score for hit in hits] == pytest.approx([item.score for item in found])


async def test_the_parts_of_a_score_come_with_the_item(store):
    await fill(store, SHARED)
    await fill(store, HERE)
    item = (await store.asearch(SHARED, query="green tea"))[0]
    assert isinstance(item, ScoredItem)
    assert item.score == pytest.approx(sum(item.score_parts.get(part, 0) for part in SCORE_PARTS))
    assert item.dict()["score_parts"] == item.score_parts
    by_meaning = (await store.asearch(HERE, query="green tea"))[0]
    assert isinstance(by_meaning, ScoredItem)
    assert {"similarity": by_meaning.score} == by_meaning.score_parts
    plain = PgHippocampusStore(engine=store.engine)
    assert not hasattr((await plain.asearch(SHARED, query="green tea"))[0], "score_parts")


async def test_pages_of_any_length_are_one_total_order(memory):
    await fill(PgHippocampusStore(engine=memory), HERE, 260)
    for search, wanted in product(("vector", "hybrid", "text"), ({}, {"n": {"$in": [1, 3]}})):
        store = PgHippocampusStore(engine=memory, search=search)
        find = partial(store.asearch, HERE, query="the parrot near the river", filter=wanted)
        everything = await find(limit=1000)
        keys = [item.key for item in everything]
        case = f"{search}, {wanted}"
        assert len(keys) == len(set(keys)), case
        assert all(wanted == {} or item.value["n"] in (1, 3) for item in everything), case
        if search != "text":
            assert len(keys) == (263 if not wanted else 105), case
        for step in (29, 64, 150):
            offsets = range(0, len(keys) + step, step)
            pages = [await find(limit=step, offset=offset) for offset in offsets]
            assert keys == [item.key for page in pages for item in page], case
        scores = [item.score for item in everything if item.score is not None]
        assert scores == sorted(scores, reverse=True), case


async def test_words_find_what_holds_them_and_a_prefix_of_one_label_is_searched_by_meaning(memory):
    store = PgHippocampusStore(engine=memory, search="text")
    await fill(store, HERE, 20)
    assert ["code"] == [item.key for item in await store.asearch(HERE, query="ZX-81")]
    assert [] == await store.asearch(HERE, query="beverage")
    with pytest.raises(CapabilityMissing, match="two labels"):
        await store.asearch(HERE[:1], query="tea")
    store = PgHippocampusStore(engine=memory, search="hybrid")
    await fill(store, HERE)
    assert "tea" == (await store.asearch(HERE[:1], query="green tea"))[0].key


async def test_an_embedder_that_is_down_leaves_the_words(dsn):
    down = False

    def embed(texts: list[str]) -> list[list[float]]:
        if down:
            raise OSError("down")
        return [[1.0, float(len(text) % 7)] for text in texts]

    async with open_memory(dsn, embedder=embed) as memory:
        store = PgHippocampusStore(engine=memory)
        await fill(store, SHARED)
        down = True
        assert "code" == (await store.asearch(SHARED, query="ZX-81"))[0].key


async def test_turns_and_facts_of_agents_are_found_by_filter_and_question(store, memory):
    await memory.append_events(ALICE, "s1", [said("e1", "I moved to Lisbon.")])
    await memory.consolidate(ALICE, "s1")
    facts = await store.asearch(SHARED, query="Lisbon", filter={"kind": "semantic"})
    assert {"semantic"} == {item.value["kind"] for item in facts}
    turns = await store.asearch(SHARED, query="Lisbon", filter={"kind": {"$ne": "semantic"}})
    assert turns and {"semantic"}.isdisjoint(item.value["kind"] for item in turns)


async def test_hybrid_hits_live_on_when_they_are_read(store):
    await store.aput(SHARED, "k", {"content": "green tea"}, ttl=1)
    await store.asearch(SHARED, query="tea")
    assert (await store.aget(SHARED, "k")) is not None


def test_a_way_to_search_that_is_unknown_is_refused():
    with pytest.raises(InvalidInput, match="magic"):
        PgHippocampusStore("embedded", search="magic")  # type: ignore[arg-type]


def toy(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(len(text) % 7)] for text in texts]


TIE = "I drank coffee number"


async def fill_mixed(memory: MemoryEngine, items: int, turns: int) -> set[str]:
    """Items with vectors, and turns that no worker has embedded yet; all share a word."""
    talk = [said(n, f"{TIE} {n} today", START) for n in range(turns)]
    await memory.append_events(ALICE, "s1", talk, later=True)
    store = PgHippocampusStore(engine=memory)
    await store.abatch([PutOp(SHARED, f"i{n}", {"content": f"{TIE} {n}"}) for n in range(items)])
    return {item.key for item in await store.asearch(SHARED, limit=2000)}


@pytest.mark.parametrize(
    ("items", "turns", "search"),
    [(0, 130, "hybrid"), (120, 30, "hybrid"), (1030, 0, "text")],
    ids=["no vector", "some vectors", "words alone"],
)
async def test_pages_reach_what_shares_a_word_with_a_vector_or_without(dsn, items, turns, search):
    async with open_memory(dsn, embedder=toy, worker=False) as memory:
        everything = await fill_mixed(memory, items, turns)
        store = PgHippocampusStore(engine=memory, search=search)
        find = partial(store.asearch, SHARED, query="coffee number")
        keys = [item.key for item in await find(limit=2000)]
        assert len(keys) == items + turns and everything == set(keys)
        step = (items + turns) // 3
        offsets = range(0, items + turns + step, step)
        pages = [await find(limit=step, offset=offset) for offset in offsets]
        assert keys == [item.key for page in pages for item in page]


async def test_all_that_shares_a_word_is_found_while_the_embedder_is_down(dsn):
    down = False

    def embed(texts: list[str]) -> list[list[float]]:
        if down:
            raise OSError("down")
        return toy(texts)

    async with open_memory(dsn, embedder=embed, worker=False) as memory:
        everything = await fill_mixed(memory, 120, 10)
        down = True
        found = await PgHippocampusStore(engine=memory).asearch(SHARED, query="coffee", limit=2000)
        assert everything == {item.key for item in found}


async def test_words_are_those_of_the_fields_that_are_named(dsn):
    async with open_memory(dsn, embedder=toy) as memory:
        named = PgHippocampusStore(engine=memory, search="text", index={"fields": ["title"]})  # type: ignore[typeddict-item]

        async def keys(query: str) -> list[str]:
            return [item.key for item in await named.asearch(HERE, query=query)]

        await named.aput(HERE, "k", {"title": "zebra crossing", "content": "apple pie"})
        tagged = {"title": "x", "tags": ["长颈鹿"], "note": "password"}
        await named.aput(HERE, "here", tagged, index=["tags[*]"])
        await named.aput(HERE, "out", {"title": "zebra"}, index=False)
        assert (["k"], []) == (await keys("zebra"), await keys("apple"))
        assert (["here"], []) == (await keys("长颈鹿"), await keys("password"))


async def test_equal_items_have_one_order(dsn):
    async with open_memory(dsn, embedder=toy) as memory:
        for search, ends_first in (("vector", False), ("hybrid", True), ("text", True)):
            store = PgHippocampusStore(engine=memory, search=search)  # type: ignore[arg-type]
            space = (*HERE, search)
            keys = [f"k{n}" for n in range(10)]
            await store.abatch([PutOp(space, key, {"content": "the same tea"}) for key in keys])
            found = [item.key for item in await store.asearch(space, query="tea")]
            assert (keys[::-1] if ends_first else keys) == found


async def test_a_fact_that_ended_is_read_by_its_key_and_never_found(memory):
    for day, text in ((1, "I live in Rome."), (2, "I live in Paris.")):
        turn = said(text, text, START + timedelta(days=day))
        await memory.append_events(ALICE, f"s{day}", [turn])
        await memory.consolidate(ALICE, f"s{day}")
    store = PgHippocampusStore(engine=memory)
    facts = await memory.facts(ALICE, history=True)
    [key] = [str(fact.memory_id) for fact in facts if fact.valid_until]
    item = await store.aget(SHARED, key)
    assert item is not None and "Rome" in item.value["content"]
    for query in (None, "Where does the user live?", "Rome"):
        assert key not in {i.key for i in await store.asearch(SHARED, query=query, limit=99)}


async def test_a_fact_of_the_future_is_found_when_it_holds(clocked, clock):
    for text, day in (("I live in Rome.", 0), ("I work at Acme.", 20), ("我喜欢喝茶。", 20)):
        await clocked.append_events(ALICE, "t", [said(text, text, START + timedelta(days=day))])
    await clocked.consolidate(ALICE, "t")
    store = PgHippocampusStore(engine=clocked)
    for expected in ({"User lives in Rome."}, {"User lives in Rome.", "User works at Acme."}):
        for space in (SHARED, SHARED[:1]):
            for query in (None, "Where does the user live and work?"):
                found = await store.asearch(space, query=query, limit=99)
                told = {str(item.value["content"]) for item in found}
                assert expected == {text for text in told if text.startswith("User ")}
        clock.day = 21


async def test_the_only_memory_scores_what_it_is_worth(store):
    await store.aput(SHARED, "tea", {"content": "She prefers green tea to coffee."})
    [item] = await store.asearch(SHARED, query="green tea")
    assert isinstance(item, ScoredItem)
    assert item.score == pytest.approx(item.score_parts["similarity"] + 1)
    assert item.score == pytest.approx(sum(item.score_parts.get(part, 0) for part in SCORE_PARTS))


async def test_other_namespaces_are_searched_and_a_label_that_cannot_be_is_no_empty_answer(store):
    await fill(store, HERE)
    for where in ({"prefix": ("search", "a\ud800")}, {"suffix": ("a\ud800",)}):
        with pytest.raises(InvalidInput, match="a label of a namespace holds a NUL byte or a lone"):
            await store.alist_namespaces(**where)  # type: ignore[arg-type]
    assert [HERE] == await store.alist_namespaces(prefix=("*", "alice"))
    found = await store.asearch(HERE, query="green tea")
    assert all(-1 <= (item.score or -2) <= 1 for item in found) and found[0].key == "tea"
