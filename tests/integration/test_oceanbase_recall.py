"""Recall on SeekDB finds what it finds on PostgreSQL: the same memories, in the same order."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from copied_rows import copied, in_any_order
from seekdb_databases import SeekdbDatabases

from shared_core import AsOf, Event, Hit, InvalidInput, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.ports.recall import SearchRequest
from shared_core.recall.query import RecallOptions, recall
from shared_core.storage.oceanbase.storage import OceanBaseStorage

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
    """Return 300 sentences, half of each language; some are said more than once."""
    dice = random.Random(7)
    found = []
    for *parts, between in WORDS.values():
        found += [between.join(map(dice.choice, parts)) for _ in range(150)]
    dice.shuffle(found)
    return found


@pytest.fixture(autouse=True)
def dsn_of_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever engine the other tests run on, dsn is of PostgreSQL here, and uri of SeekDB."""
    monkeypatch.delenv("HIPPOCAMPUS_TEST_ENGINE", raising=False)


@pytest.fixture
def uri(seekdb: SeekdbDatabases) -> Iterator[str]:
    yield from seekdb.lend()


@pytest.fixture
async def memory(dsn: str) -> AsyncIterator[MemoryEngine]:
    """Twelve threads of Ann, notes, current and ended facts, and memories of Bob."""
    now = [START]
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        said = texts()
        for thread in range(12):
            now[0] = START + timedelta(days=thread)
            turns = [
                turn(f"{thread}/{n}", now[0] + n * timedelta(minutes=40) * (1 + 9 * (n % 7 == 6)),
                     text, ("user", "agent")[n % 2])
                for n, text in enumerate(said[20 * thread : 20 * thread + 20])
            ]  # fmt: skip
            await memory.append_events(ANN, f"thread {thread}", turns)
        for n, text in enumerate(TOLD):
            now[0] = START + timedelta(days=15 + n)
            await memory.append_events(ANN, "told", [turn(f"told {n}", now[0], text, "user")])
            await memory.consolidate(ANN, "told")
        notes = [NewMemory(text=text, key=f"note {n}") for n, text in enumerate(said[240:])]
        await memory.remember(ANN, notes)
        await memory.remember(BOB, [NewMemory(text=text) for text in said[:20]])
        await memory.graph.add(ANN, "Mia", "likes", "whales")
        await memory.graph.merge_aliases(ANN, "Mia", ["my sister"])
        await memory.forget(ANN, "note 3")
        now[0] = LATER
        yield memory


def turn(event_id: str, moment: datetime, text: str, role: Any) -> Event:
    return Event(event_id=event_id, author="ann", role=role, text=text, occurred_at=moment)


@asynccontextmanager
async def on_both(
    memory: MemoryEngine, dsn: str, uri: str, **options: Any
) -> AsyncIterator[tuple[Any, OceanBaseStorage]]:
    async with copied(dsn, uri, lambda: LATER, **options) as storage:
        yield memory._storage, storage


async def hits(memory: MemoryEngine, storage: Any, query: str, **options: Any) -> Any:
    """Return what one storage answers; PostgreSQL keeps half the digits, so both are asked so."""
    vector, is_degraded = await memory._handle.embedding.query_or_words(query)
    assert vector is not None
    half = _half(vector)
    usual: dict[str, Any] = {"limit": 10, "with_graph": True, "embedded": (half, is_degraded)}
    wanted = RecallOptions(now=LATER, **usual | options)
    return await recall(storage, memory._handle.embedding, ANN, query, wanted)


def _half(vector: Any) -> Any:
    return vector.astype(np.float16).astype(np.float32)


def close(first: Hit, second: Hit) -> None:
    assert first.memory == second.memory
    assert first.matched == second.matched
    assert first.parts == pytest.approx(second.parts, abs=1e-4)
    assert first.score == pytest.approx(second.score, abs=1e-4)


async def test_thirty_questions_have_the_same_ten_answers(
    memory: MemoryEngine, dsn: str, uri: str
) -> None:
    async with on_both(memory, dsn, uri) as (postgres, oceanbase):
        for query in QUERIES:
            expected = await hits(memory, postgres, query)
            found = await hits(memory, oceanbase, query)
            assert 10 == len(expected) == len(found)
            for one, other in zip(expected, found, strict=True):
                close(one, other)
            assert in_any_order(expected.graph_results) == in_any_order(found.graph_results)


@pytest.mark.parametrize(
    "options",
    [
        {"kinds": ["semantic", "summary"]},
        {"kinds": []},
        {"namespace": ("app", "ann", "elsewhere")},
        {"begin": START + timedelta(days=2), "end": START + timedelta(days=4)},
        {"as_of": AsOf(valid=START + timedelta(days=16))},
        {"as_of": AsOf(known=START + timedelta(days=16, hours=1))},
        {"as_of": AsOf(valid=START + timedelta(days=18), known=START + timedelta(days=17))},
        {"limit": 400},
        {"limit": 200, "ranking": "fusion"},
        {"ranking": "vector"},
        {"ranking": "bm25"},
        {"ranking": "three_factor"},
        {"distinct": True, "diversity": 0.5, "limit": 20},
    ],
    ids=str,
)
async def test_every_option_means_the_same(
    memory: MemoryEngine, dsn: str, uri: str, options: dict[str, Any]
) -> None:
    async with on_both(memory, dsn, uri) as (postgres, oceanbase):
        for query in QUERIES[::4]:
            expected = await hits(memory, postgres, query, **options)
            found = await hits(memory, oceanbase, query, **options)
            assert len(expected) == len(found)
            for one, other in zip(expected, found, strict=True):
                close(one, other)


@pytest.mark.parametrize("vector", [True, False])
async def test_a_filter_cuts_the_corpus_alike(
    memory: MemoryEngine, dsn: str, uri: str, vector: bool
) -> None:
    embedded, _ = await memory._handle.embedding.query_or_words("violin")
    assert embedded is not None
    request = SearchRequest(
        scope=ANN, namespace=("app", "ann", "memories"), terms=["violin", "a%b", "x\\"],
        model=await memory._handle.embedding.model(), vector=_half(embedded) if vector else None,
        kinds=None, candidates=7, filter={"content": {"$contains": "violin"}},
    )  # fmt: skip
    async with on_both(memory, dsn, uri) as (postgres, oceanbase):
        expected, found = (
            await postgres.recall.recall(request),
            await oceanbase.recall.recall(request),
        )
        assert expected.corpus and found.corpus and 5 < len(found.corpus.length) < 100
        for name in ("similarity", "length", "opens"):
            one, other = getattr(expected.corpus, name), getattr(found.corpus, name)
            np.testing.assert_allclose(other, one, atol=1e-5)
        held = [
            {*zip(one.holders, one.words, strict=True)} for one in (expected.corpus, found.corpus)
        ]
        assert held[0] == held[1]
        assert in_any_order([one.memory() for one in expected.candidates]) == in_any_order(
            [one.memory() for one in found.candidates]
        )
        stranger = replace(request, scope=Scope("app", "nobody"))
        with pytest.raises(InvalidInput, match="not in scope"):
            await oceanbase.recall.recall(stranger)


@pytest.mark.parametrize("options", [{}, {"begin": START, "end": START + timedelta(days=1)}])
async def test_of_a_large_user_all_is_read_as_well(
    memory: MemoryEngine, dsn: str, uri: str, options: dict[str, Any]
) -> None:
    async with on_both(memory, dsn, uri, ann_threshold=20) as (postgres, oceanbase):
        for query in QUERIES[::2]:
            expected = await hits(memory, postgres, query, **options)
            found = await hits(memory, oceanbase, query, **options)
            assert len(expected) == len(found)
            for one, other in zip(expected, found, strict=True):
                close(one, other)
