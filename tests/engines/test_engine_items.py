"""Items are written, found and deleted alike on both engines, and memories recalled alike."""

import os
import random
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from both_engines import DIMENSIONS, MODEL, NOW, Both
from every_case import every_case
from long_forms import LONG
from operation_rows import rows_of
from turns import Clock, said

from shared_core import AsOf, Hit, MemoryEngine, NewMemory, Scope, open_memory, run_sync
from shared_core.core.domain import MemoryId, Namespace, ThreadId
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import instructions_namespace, memories_namespace
from shared_core.errors import EmbeddingMismatch, InvalidInput
from shared_core.jobs.index_maintenance import Indexes
from shared_core.lifecycle import Handle, StorageLifecycle
from shared_core.policies.retention import accesses_of, select_accesses
from shared_core.ports.events import EventRow
from shared_core.ports.items import Item, ItemQuery, MemoryRow, NamespaceQuery, VectorRows
from shared_core.ports.recall import SearchRequest
from shared_core.ports.retention import Accesses, NewAccesses
from shared_core.recall.query import RecallOptions, recall
from shared_core.settings import Settings
from shared_core.storage import open_storage
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.storage import OceanBaseStorage
from shared_core.storage.oceanbase.vectors import LargeTenants

MEMORY = "memory_id namespace key kind text value importance thread_id occurred_at created_at"
MEMORIES = f"{MEMORY} updated_at expires_at ttl_s superseded_at demoted_at"


def row(namespace: Namespace, key: str, **given: Any) -> MemoryRow:
    value = given.pop("value", {"content": key})
    return MemoryRow(
        memory_id=MemoryId(uuid7()), namespace=namespace, key=key, kind=given.pop("kind", "item"),
        text=key, value=value, terms=key.split(), occurred_at=NOW, **given,
    )  # fmt: skip


def vector_rows(rows: Sequence[MemoryRow], each: int = 1) -> VectorRows:
    """Return vectors of rows, all of one length and few enough that many are equally near."""
    chance = np.random.default_rng(1)
    return VectorRows(
        model=MODEL,
        addresses=[(one.namespace, one.key) for one in rows for _ in range(each)],
        fields=[f"field{place}" for _ in rows for place in range(each)],
        vectors=chance.choice([-1.0, 1.0], size=(each * len(rows), DIMENSIONS)).astype(np.float32),
    )


def asking(seed: int) -> Any:
    """Return the vector of a query, with few distances to the others."""
    return np.random.default_rng(seed).choice([-1.0, 1.0], size=(1, DIMENSIONS)).astype(np.float32)


def notes(both: Both, *labels: str, user: str = "") -> Namespace:
    return (both.scope.app, user or both.scope.user, "notes", *labels)


async def stored(both: Both, rows: Sequence[MemoryRow], vectors: VectorRows | None = None) -> None:
    await both.same(lambda s: s.items.put_memories(rows, vectors))


def known(items: Sequence[Item]) -> list[tuple[object, ...]]:
    """Return what must be equal; similarities differ in the last digits."""
    return [(item.namespace, item.key, item.value, item.updated_at) for item in items]


async def found(both: Both, query: ItemQuery) -> list[tuple[object, ...]]:
    """Return what both engines find, which must be the same in the same order."""
    theirs, ours = [(await s.items.find_items([query]))[0] for s in both.storages]
    assert known(ours) == known(theirs)
    near = [one.similarity for one in theirs]
    assert [one.similarity for one in ours] == pytest.approx(near, abs=1e-3)
    return known(ours)


@pytest.fixture
async def filled(both):
    """300 items of a user in three namespaces, and some of Bob, all with two vectors each.

    Written at three moments.
    """
    values = [{"n": number % 5, "at": number} for number in range(300)]
    rows = [row(notes(both, f"box{n % 3}"), f"k{n:03}", value=one) for n, one in enumerate(values)]
    rows += [row(notes(both, user="bob"), f"b{number}") for number in range(40)]
    for part in (2, 0, 1):
        both.now += timedelta(seconds=1)
        await stored(both, rows[part::3], vector_rows(rows[part::3], each=2))
    return both


async def test_pages_distances_namespaces_and_what_follows_the_vectors_are_the_same(filled):
    app = (filled.scope.app,)
    prefixes = (notes(filled), notes(filled, "box1"), (*app, filled.scope.user), app)
    for prefix, wanted, vector in product(prefixes, ({}, {"n": 3}), (None, asking(2))):
        model = None if vector is None else MODEL
        query = ItemQuery(prefix=prefix, limit=1000, filter=wanted, vector=vector, model=model)
        everything = await found(filled, query)
        assert everything
        for offset in (0, 7, 90):
            page = replace(query, limit=20, offset=offset)
            assert await found(filled, page) == everything[offset : offset + 20]
    for vector in (None, asking(2)):
        query = ItemQuery(prefix=(), limit=5000, vector=vector, model=MODEL)
        pages = [(await storage.items.find_items([query]))[0] for storage in filled.storages]
        app = filled.scope.app
        first, second = [known([x for x in page if x.namespace[0] == app]) for page in pages]
        assert first == second and 340 == len(first)
    for distance in ("cosine", "l2", "inner_product"):
        query = ItemQuery(
            prefix=notes(filled), limit=50, model=MODEL, vector=asking(3) * 2,
            distance=distance,  # type: ignore[arg-type]
        )  # fmt: skip
        await found(filled, query)
    rows = [row(notes(filled), key) for key in ("a wordy one", "wordy", "swordy")]
    await stored(filled, rows)
    query = ItemQuery(prefix=notes(filled), limit=1000, terms=["wordy", "none"])
    assert {"a wordy one", "wordy"} == {key for _, key, _, _ in await found(filled, query)}
    query = replace(query, model=MODEL, vector=asking(3), besides=[rows[1].memory_id])
    assert {"a wordy one", "swordy"} == {key for _, key, _, _ in (await found(filled, query))[300:]}


async def test_items_are_read_by_their_addresses_and_live_longer_then(both):
    ends = {"expires_at": NOW + timedelta(seconds=60), "ttl_s": 60.0}
    rows = [row(notes(both), "stays"), row(notes(both), "k"), row(notes(both, user="bob"), "k")]
    await stored(both, [rows[0], *(replace(one, **ends) for one in rows[1:])])
    addresses = [(one.namespace, one.key) for one in rows] + [(notes(both), "K")]

    async def read(**options: bool) -> int:
        """Return how many of the items are there; they come in no order."""

        async def items(storage: Any) -> list[Item]:
            return sorted(await storage.items.get_items(addresses, **options), key=repr)

        return len(await both.same(items))

    assert 3 == await read()
    both.now += timedelta(seconds=59)
    await both.same(lambda s: s.items.extend_items(addresses[:2]))
    for seconds, there, also in ((1, 2, 3), (58, 2, 3), (1, 1, 3)):
        both.now += timedelta(seconds=seconds)
        assert (there, also) == (await read(), await read(with_expired=True))
        for with_expired in (False, True):
            query = ItemQuery(prefix=notes(both), limit=9, with_expired=with_expired)
            assert (2 if with_expired else there) == len(await found(both, query))
    app = (both.scope.app,)
    for limit in (1, 9):
        tenants = await both.same(lambda s, n=limit: s.items.expired_tenants(app, n))
        assert min(limit, 2) == len(tenants)


async def test_a_model_may_stand_beside_and_a_caller_may_give_strengths(new_storage):
    storage = new_storage
    await storage.use_model(MODEL, 3)
    for _ in range(2):
        await storage.add_model("beside", 2)
    with pytest.raises(EmbeddingMismatch, match="2"):
        await storage.add_model("beside", 4)
    assert (MODEL, 3) == await storage.active_model()
    rows = [row(("app", "ana", "memories"), key, kind="semantic") for key in "ab"]
    vectors = VectorRows(
        model="beside", addresses=[(one.namespace, one.key) for one in rows],
        fields=["text"] * 2, vectors=np.eye(2, dtype=np.float32),
    )  # fmt: skip
    settings = Settings(uri=await storage.dsn(), home=Path())
    strong = open_storage(settings, Clock(), lambda traits: 0.25)
    await strong.open()
    await strong.items.put_memories(rows, vectors)
    turn = EventRow(event=said(1, "tea"), memory_id=MemoryId(uuid7()), logged=False, value={},
                    terms=["tea"])  # fmt: skip
    await strong.events.append_events(Scope("app", "ana"), ThreadId("t"), [turn], None)
    await strong.close()
    assert {0.25} == {one for (one,) in await rows_of(storage, "memory_access", "strength")}
    for model, near in (("beside", {0.0, 1.0}), ("unknown", {None})):
        asked = np.array([[1, 0]], dtype=np.float32)
        query = ItemQuery(prefix=rows[0].namespace, limit=2, model=model, vector=asked)
        [page] = await storage.items.find_items([query])
        assert near == {one.similarity and round(one.similarity, 3) for one in page}


@pytest.fixture
def sent(monkeypatch):
    """The reads that are sent to SeekDB."""
    statements: list[str] = []
    rows = Transaction.rows

    def noting(tx: Transaction, sql: str, values: Sequence[object] = ()) -> Any:
        statements.append(sql)
        return rows(tx, sql, values)

    monkeypatch.setattr(Transaction, "rows", noting)
    return statements


async def test_a_large_tenant_is_searched_by_the_index(filled, sent, monkeypatch):
    items: Any = filled.seekdb.items
    monkeypatch.setattr(items, "_large", LargeTenants(100))
    prefix = (filled.scope.app, filled.scope.user)
    query = ItemQuery(prefix=prefix, limit=10, model=MODEL, vector=asking(4))
    [near] = await filled.seekdb.items.find_items([query])
    assert any(" APPROXIMATE LIMIT " in sql for sql in sent)
    [exact] = await filled.postgres.items.find_items([query])
    assert [x.similarity for x in near] == pytest.approx([x.similarity for x in exact], abs=1e-3)
    rare = replace(query, filter={"at": {"$in": [11, 222]}})
    [few] = await filled.seekdb.items.find_items([rare])
    assert {"k011", "k222"} == {item.key for item in few}
    sent.clear()
    small = replace(query, prefix=(filled.scope.app, "bob"))
    [page] = await filled.seekdb.items.find_items([small])
    assert page and not any("APPROX" in sql for sql in sent)


async def test_large_tenants_are_named_and_not_counted_where_the_engine_has_its_index(filled, sent):
    lifecycle = StorageLifecycle(filled.seekdb, lambda: NOW)
    lifecycle._opened_in = os.getpid()
    indexes = Indexes(Handle(lifecycle, *[cast(Any, None)] * 4))
    assert [] == await indexes.refresh() and not any("GROUP BY" in sql for sql in sent)
    indexes.nudge()
    assert 0 == indexes._pid  # it never looks in the background
    await indexes.plan()
    assert any("GROUP BY" in sql for sql in sent)
    named = await filled.seekdb.indexes.large_tenants(100, [])
    namespace = (filled.scope.app, filled.scope.user)
    [large] = [one for one in named if one.namespace[0] == filled.scope.app]
    assert (large.namespace, large.vectors, large.tail) == (namespace, 600, 0)
    assert large.index is not None and [] == await filled.seekdb.indexes.large_tenants(1000, [])
    assert [] == await filled.seekdb.indexes.tenant_indexes()
    async with filled.seekdb.indexes.index_builder() as builder:
        assert builder is not None and [] == await builder.leftovers()


async def test_a_key_that_exists_is_replaced(both):
    first = [
        row(notes(both), "plain", importance=7.0),
        row(notes(both), "said", kind="episodic", thread_id=ThreadId("t")),
        row(notes(both), "sum", kind="summary"),
        row(notes(both), "expired", expires_at=NOW + timedelta(hours=1), ttl_s=3600),
    ]
    sources = [{"memory_id": one.memory_id, "thread_id": "t", "event_id": "e"} for one in first]
    archived = {"memory_id": first[0].memory_id, "text": "old", "value": {}, "is_shown": True,
                "archived_at": NOW}  # fmt: skip
    await stored(both, first, vector_rows(first))
    await both.put({"memory_sources": sources, "memory_archive": [archived]})
    both.now += timedelta(hours=2)
    second = [replace(row(notes(both), "plain"), text="new"), row(notes(both), "said"),
              row(notes(both), "sum", kind="item"), row(notes(both), "expired"),
              row(notes(both), "new")]  # fmt: skip
    await stored(both, second)
    await stored(both, [replace(second[0], text="newer")])
    held = await both.left({
        "memories": MEMORIES, "memory_sources": "memory_id thread_id event_id",
        "memory_archive": "memory_id", "memory_access": "memory_id stage forget_at",
    })  # fmt: skip
    by_key = {one["key"]: one for one in held["memories"]}
    assert by_key["plain"]["memory_id"] == first[0].memory_id
    assert by_key["plain"]["created_at"] == NOW < by_key["expired"]["created_at"]
    assert by_key["plain"]["updated_at"] > both.now and by_key["said"]["kind"] == "episodic"
    assert [first[1].memory_id] == [one["memory_id"] for one in held["memory_sources"]]
    query = ItemQuery(prefix=notes(both), limit=9, model=MODEL, vector=asking(7))
    for storage in both.storages:  # the old vectors are gone
        [page] = await storage.items.find_items([query])
        assert 5 == len(page) and {None} == {item.score for item in page}


async def test_reads_are_counted(both):
    rows = [row(memories_namespace(both.scope), "said", kind="episodic"), row(notes(both), "plain")]
    await stored(both, rows)
    both.now += timedelta(days=1)
    ids = [rows[0].memory_id, rows[1].memory_id, MemoryId(uuid7())]
    batch = [
        NewAccesses(both.scope, one, Accesses(count, NOW + timedelta(hours=count)))
        for count, one in enumerate(ids, 2)
    ]
    for counted in (batch, batch[::-1]):
        await both.same(lambda s, some=counted: s.accesses.add_accesses(some))

    async def accesses(storage: Any) -> dict[MemoryId, Accesses]:
        [some] = await storage.read(both.tenant, [select_accesses(ids)])
        return accesses_of(some)

    assert (await both.same(accesses))[ids[0]] == Accesses(4, NOW + timedelta(hours=2))
    await both.left({"memory_access": "memory_id access_count last_accessed_at stage forget_at"})


async def test_other_letters_make_a_version_and_the_same_number_does_not(both):
    values = ({"n": 1e16}, {"n": 10**16}, {"n": 1.0}, {"n": 1}, {"b": 1, "a": 2}, {"a": 2, "b": 1})
    for value in values:
        await stored(both, [row(instructions_namespace(both.scope), "told", value=value)])
    held = await both.left({"instructions": "instruction_key version"})
    assert [1, 2, 3, 4, 5] == [one["version"] for one in held["instructions"]]


async def test_namespaces_are_the_same(both):
    chance, app = random.Random(6), both.scope.app
    labels = ["a", "b", "a/b", "%", "é", "*x", "." * 40]
    spaces = [(app, *chance.choices(labels, k=chance.randint(1, 4))) for _ in range(60)]
    await stored(both, [row(space, "k") for space in dict.fromkeys(spaces)])
    suffixes = [("a",), ("*", "b"), ("a", "*", "%"), ("*",), ("a/b",), ()]
    for one, suffix, depth in product(suffixes, suffixes, (None, 0, 2, 4)):
        query = NamespaceQuery(
            prefixes=[(app, *one)], suffixes=[suffix], max_depth=depth, limit=9, offset=1
        )
        await both.same(lambda s, query=query: s.items.list_namespaces(query))
    for query in (NamespaceQuery(suffixes=[("a/b",)], limit=50), NamespaceQuery(max_depth=1)):
        await both.same(lambda s, query=query: s.items.list_namespaces(query))


# Recall

ANN, BOB = Scope("app", "ann"), Scope("app", "ann ")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
LATER = START + timedelta(days=40)
WORDS = {
    "en": (
        ["I", "My sister Mia", "Our neighbour", "The new colleague", "Grandma", "The cat"],
        ["planted", "lost", "found", "bought", "is looking for", "painted", "wrote about"],
        ["red tulips", "a violin", "the old car", "two tickets to Lisbon", "a recipe for soup",
         "the key of the garden shed", "a blue bicycle", "some books on whales"],
        ["in the morning.", "before the storm.", "at the market in Rome.", "again!", "for work."],
        " ",
    ),
    "zh": (
        ["我", "我姐姐", "邻居老王", "新同事", "奶奶", "那只猫"],
        ["种了", "丢了", "找到了", "买了", "想要", "画了", "写了关于"],
        ["红色的郁金香", "一把小提琴", "那辆旧车", "两张去北京的票", "一份汤的食谱", "花园的钥匙",
         "一辆蓝色自行车", "几本鲸鱼的书"],
        ["，就在早上。", "，在暴风雨之前。", "，在上海的市场。", "，又一次！", "，为了工作。"],
        "",
    ),
}  # fmt: skip
QUERIES = [
    "Who lost a violin?", "tulips", "What did my sister buy?", "whales and books", "Lisbon",
    "Where is the key of the shed?", "the cat painted soup", "old car before the storm",
    "market in Rome", "grandma's recipe", "I like tea", "Where do I live?", "blue bicycle again",
    "quantum chromodynamics", "Mia Mia Mia", "谁丢了小提琴？", "郁金香", "我姐姐买了什么？",
    "鲸鱼的书", "北京的票", "花园的钥匙在哪里？", "那只猫画了汤", "暴风雨之前的旧车", "上海的市场",
    "奶奶的食谱", "我喜欢喝茶", "我住在哪里？", "蓝色自行车", "量子色动力学", "violin 小提琴",
]  # fmt: skip
TOLD = ["I live in Rome.", "I like tea.", "我喜欢喝茶。", "I moved to Paris.", "I work at Google."]


def texts() -> list[str]:
    """Return 150 sentences, half of each language; some are said more than once."""
    dice = random.Random(7)
    some = []
    for *parts, between in WORDS.values():
        some += [between.join(map(dice.choice, parts)) for _ in range(75)]
    dice.shuffle(some)
    return some


async def lived(memory: MemoryEngine, clock: Clock) -> None:
    """Write six threads of Ann, notes, current and ended facts, and memories of Bob."""
    told = texts()
    for thread in range(6):
        clock.now = START + timedelta(days=2 * thread)
        turns = [
            said(f"{thread}/{n}", text, clock.now + n * timedelta(minutes=40 + 360 * (n % 7 == 6)),
                 role=("user", "agent")[n % 2])
            for n, text in enumerate(told[20 * thread : 20 * thread + 20])
        ]  # fmt: skip
        await memory.append_events(ANN, f"thread {thread}", turns)
    for n, text in enumerate(TOLD):
        clock.now = START + timedelta(days=15 + n)
        await memory.append_events(ANN, "told", [said(f"told {n}", text, clock.now)])
        await memory.consolidate(ANN, "told")
    of_ann = [NewMemory(text=text, key=f"note {n}") for n, text in enumerate(told[120:])]
    await memory.remember(ANN, of_ann)
    await memory.remember(BOB, [NewMemory(text=text) for text in told[:20]])
    await memory.graph.add(ANN, "Mia", "likes", "whales")
    await memory.graph.merge_aliases(ANN, "Mia", ["my sister"])
    await memory.forget(ANN, "note 3")
    clock.now = LATER


class Recalling(NamedTuple):
    """The same memories on both engines, and how their queries are embedded."""

    memory: MemoryEngine
    postgres: Any
    seekdb: Any
    uri: str

    async def alike(self, query: str, seekdb: Any = None, **options: Any) -> Sequence[Hit]:
        """Return what both engines recall, which must be the same in the same order."""
        embedding = self.memory._handle.embedding
        vector, is_degraded = await embedding.query_or_words(query)
        assert vector is not None
        usual = {"limit": 10, "with_graph": True, "embedded": (_half(vector), is_degraded)}
        wanted = RecallOptions(now=LATER, **usual | options)  # type: ignore[arg-type]
        storages = (self.postgres, seekdb or self.seekdb)
        first, second = [await recall(one, embedding, ANN, query, wanted) for one in storages]
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert (one.memory, one.matched) == (other.memory, other.matched)
            assert one.parts == pytest.approx(other.parts, abs=1e-4)
            assert one.score == pytest.approx(other.score, abs=1e-4)
        first_edges, second_edges = [
            in_any_order([replace(one, confidence=round(one.confidence, 6)) for one in edges])
            for edges in (first.graph_results, second.graph_results)
        ]
        assert first_edges == second_edges
        return first


def _half(vector: Any) -> Any:
    """Return a vector with half the digits, as PostgreSQL keeps those of memories."""
    return vector.astype(np.float16).astype(np.float32)


def in_any_order(some: Sequence[Any]) -> list[str]:
    return sorted(map(repr, some))


@pytest.fixture(scope="module", params=["postgres and seekdb"])
def recalling(postgres, seekdb):
    """Memories that were written on PostgreSQL and copied to SeekDB."""
    lent, clock = (postgres.lend(), seekdb.lend()), Clock()
    dsn, uri = map(next, lent)
    memory = open_memory(dsn, clock=clock, worker=False)
    storage = OceanBaseStorage(Settings(uri=uri, home=Path()), lambda: LATER)

    async def fill() -> None:
        await lived(memory, clock)
        async with (
            aclosing(memory.export(app="app", vectors=True)) as lines,
            open_memory(uri, clock=clock, worker=False) as copy,
        ):
            await copy.import_lines([line async for line in lines])
        await storage.open()

    run_sync(fill())
    yield Recalling(memory, memory._storage, storage, uri)
    run_sync(storage.close())
    run_sync(memory.close())
    for one in lent:
        next(one, None)


async def test_thirty_questions_have_the_same_ten_answers_also_of_a_large_user(recalling):
    for query in QUERIES[:: 1 if LONG else 2]:
        assert 10 == len(await recalling.alike(query))
    settings = Settings(uri=recalling.uri, home=Path(), ann_threshold=20)
    large = OceanBaseStorage(settings, lambda: LATER)
    await large.open()
    for options in ({}, {"begin": START, "end": START + timedelta(days=1)}):
        for query in QUERIES[:: 2 if LONG else 4]:
            await recalling.alike(query, large, **options)
    await large.close()


@every_case(
    {"kinds": ["semantic", "summary"]}, {"kinds": []},
    {"namespace": ("app", "ann", "elsewhere")},
    {"begin": START + timedelta(days=2), "end": START + timedelta(days=4)},
    {"as_of": AsOf(valid=START + timedelta(days=16))},
    {"as_of": AsOf(known=START + timedelta(days=16, hours=1))},
    {"as_of": AsOf(valid=START + timedelta(days=18), known=START + timedelta(days=17))},
    {"limit": 400}, {"limit": 200, "ranking": "fusion"}, {"ranking": "vector"},
    {"ranking": "bm25"}, {"ranking": "three_factor"},
    {"distinct": True, "diversity": 0.5, "limit": 20},
)  # fmt: skip
async def test_every_option_means_the_same(options, recalling):
    for query in QUERIES[:: 4 if LONG else 9]:
        await recalling.alike(query, **options)


@pytest.mark.parametrize("vector", [True, False])
async def test_a_filter_cuts_the_corpus_alike(recalling, vector):
    embedding = recalling.memory._handle.embedding
    embedded, _ = await embedding.query_or_words("violin")
    assert embedded is not None
    request = SearchRequest(
        scope=ANN, namespace=("app", "ann", "memories"), terms=["violin", "a%b", "x\\"],
        model=await embedding.model(), vector=_half(embedded) if vector else None,
        kinds=None, candidates=7, filter={"content": {"$contains": "violin"}},
    )  # fmt: skip
    first = await recalling.postgres.recall.recall(request)
    second = await recalling.seekdb.recall.recall(request)
    assert first.corpus and second.corpus and 5 < len(second.corpus.length) < 100
    for name in ("similarity", "length", "opens"):
        one, other = getattr(first.corpus, name), getattr(second.corpus, name)
        np.testing.assert_allclose(other, one, atol=1e-5)
    held = [{*zip(one.holders, one.words, strict=True)} for one in (first.corpus, second.corpus)]
    assert held[0] == held[1]
    told = [in_any_order([one.memory() for one in each.candidates]) for each in (first, second)]
    assert told[0] == told[1]
    stranger = replace(request, scope=Scope("app", "nobody"))
    with pytest.raises(InvalidInput, match="not in scope"):
        await recalling.seekdb.recall.recall(stranger)
