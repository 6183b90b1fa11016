"""Rerankers: off by default, in every form, and never in the way of an answer."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from every_case import every_case
from langchain_core.documents import BaseDocumentCompressor, Document
from person import Person

from shared_core import InvalidInput, Memory, Scope, run_sync
from shared_core.ports.recall import RecallResult
from shared_core.recall import reranking
from shared_core.recall.query import RERANKED

pytestmark = pytest.mark.both_engines

BLOCKED = threading.Event()
SAID = ["Ann drinks green tea.", "Tea is grown in Assam and Darjeeling.", "Bob sails."]


def overlap(query: str, texts: Sequence[str]) -> list[float]:
    """Score texts by the share of their words that the query has: a small real reranker."""
    asked = set(query.lower().split())
    return [
        len(asked & (words := set(text.lower().rstrip(".").split()))) / len(words) for text in texts
    ]


class Overlap:
    """A reranker as the port has it."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        await asyncio.sleep(0)
        return overlap(query, texts)


async def overlap_async(query: str, texts: Sequence[str]) -> list[float]:
    await asyncio.sleep(0)
    return overlap(query, texts)


class Compressor(BaseDocumentCompressor):
    """A LangChain reranker that keeps some texts, best first, with or without their scores."""

    tells_scores: bool

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        scores = overlap(query, [document.page_content for document in documents])
        kept = sorted(zip(scores, documents, strict=True), key=lambda pair: -pair[0])
        return [
            Document(
                page_content=document.page_content,
                metadata=document.metadata
                | ({"relevance_score": score} if self.tells_scores else {}),
            )
            for score, document in kept
            if score > 0
        ]


@pytest.fixture(scope="module")
def filled(shared_memory):
    """A user with three memories, which no test changes."""
    user = Person(shared_memory, Scope(f"app {uuid4().hex}", "ann"))
    run_sync(user.remember(SAID))
    return user


@pytest.mark.parametrize(
    "reranker",
    [
        pytest.param(overlap, id="function"), pytest.param(overlap_async, id="async function"),
        pytest.param(Overlap(), id="port"),
        pytest.param(Compressor(tells_scores=True), id="compressor with scores"),
        pytest.param(Compressor(tells_scores=False), id="compressor without scores"),
    ],
)  # fmt: skip
async def test_every_form_gives_order_and_scores(ann_with, reranker):
    ann = ann_with(reranker=reranker)
    await ann.remember(SAID)
    found = await ann.recall("Bob sails where tea is grown")
    assert ["Bob", "Tea", "Ann"] == [hit.memory.text[:3] for hit in found]
    assert found.reranked and not found.degraded
    assert all(hit.score == hit.parts["rerank"] for hit in found)
    assert sorted((hit.score for hit in found), reverse=True) == [hit.score for hit in found]
    assert " = +" in found[0].explain() and " rerank" in found[0].explain()
    assert "meaning" in found[0].parts
    plain = await ann.recall("Bob sails where tea is grown", reranker=False)
    assert not plain.reranked and all("rerank" not in hit.parts for hit in plain)
    assert memories(found.vector_results) == memories(plain.vector_results)


async def test_without_one_nothing_is_reranked_and_one_call_may_have_its_own(filled):
    assert not (await filled.recall("tea")).reranked
    shortest = await filled.recall("tea", reranker=lambda _, texts: [-len(t) for t in texts])
    assert shortest.reranked and "Bob sails." == shortest[0].memory.text
    assert not (await filled.recall("tea")).reranked
    assert not (await filled.other("bob").recall("tea", reranker=overlap)).reranked


def memories(hits: Any) -> list[Memory]:
    return [hit.memory for hit in hits]


def assert_in_order_of(plain: RecallResult, found: RecallResult) -> None:
    """Compare answers; the index in the process, if it gives one, rounds scores otherwise."""
    assert not found.reranked and memories(found) == memories(plain)
    assert pytest.approx([hit.score for hit in plain], abs=1e-3) == [hit.score for hit in found]


def fails(_: str, __: Sequence[str]) -> list[float]:
    raise OSError("no route to the reranker")


async def gives_up(_: str, __: Sequence[str]) -> list[float]:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("reranker", "told"),
    [
        (fails, "no route to the reranker"), (gives_up, "cancelled its own work"),
        (lambda _, texts: [1.0] * (len(texts) + 1), "one finite score for each of 3 texts"),
        (lambda _, texts: [float("nan")] * len(texts), "0 of them finite"),
        (lambda _, texts: None, "must return numbers"),
        (lambda _, texts: ["high"] * len(texts), "must return numbers"),
    ],
)  # fmt: skip
async def test_a_failing_reranker_leaves_the_order(filled, caplog, reranker, told):
    plain = await filled.recall("tea")
    assert_in_order_of(plain, await filled.recall("tea", reranker=reranker))
    assert told in caplog.text and "recall goes on without" in caplog.text


async def never(_: str, __: Sequence[str]) -> list[float]:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def blocks(_: str, __: Sequence[str]) -> list[float]:
    BLOCKED.wait()
    raise AssertionError("nobody reads this")


@pytest.mark.parametrize("reranker", [never, blocks])
async def test_a_reranker_that_never_answers_keeps_the_order(filled, caplog, monkeypatch, reranker):
    monkeypatch.setattr(reranking, "TIMEOUT_S", 0.05)
    BLOCKED.clear()
    plain = await filled.recall("tea")
    try:
        found = await asyncio.wait_for(filled.recall("tea", reranker=reranker), 60)
    finally:
        BLOCKED.set()
    assert_in_order_of(plain, found)
    assert "TimeoutError" in caplog.text and "recall goes on without" in caplog.text


async def test_who_gives_up_a_recall_gives_up_its_reranker(filled):
    begun, ended, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

    async def waits(query: str, texts: Sequence[str]) -> list[float]:
        loop.call_soon_threadsafe(begun.set)
        try:
            return await never(query, texts)
        finally:
            loop.call_soon_threadsafe(ended.set)

    recalling = asyncio.ensure_future(filled.recall("tea", reranker=waits))
    await asyncio.wait_for(begun.wait(), 60)
    recalling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await recalling
    await asyncio.wait_for(ended.wait(), 60)


async def test_no_connection_is_held_while_it_works(ann_with):
    ann = ann_with(pool_size=1)
    await ann.remember(SAID)

    async def asks_back(query: str, texts: Sequence[str]) -> list[float]:
        assert 3 == len(await ann.list_memories())
        return overlap(query, texts)

    assert (await asyncio.wait_for(ann.recall("tea", reranker=asks_back), 60)).reranked


async def test_it_reads_the_best_ones_alone_and_the_floor_comes_first(ann):
    await ann.remember([f"tea number {number}" for number in range(RERANKED + 10)])
    read: list[int] = []

    def counts(_: str, texts: Sequence[str]) -> list[float]:
        read.append(len(texts))
        return [1.0] * len(texts)

    plain = await ann.recall("tea number 7", limit=5)
    found = await ann.recall("tea number 7", limit=5, reranker=counts)
    assert [hit.memory.key for hit in plain] == [hit.memory.key for hit in found]
    more = await ann.recall("tea number 7", limit=RERANKED + 5, reranker=counts)
    assert RERANKED + 5 == len(more)
    assert [] == await ann.recall("zygote", min_relevance=0.99, reranker=counts)
    assert [RERANKED, RERANKED + 5] == read


async def test_it_reads_as_many_as_repeats_may_take(ann):
    await ann.remember([f"tea number {number // 2}" for number in range(2 * RERANKED)])
    alike = {"distinct": True, "reranker": lambda _, texts: [1.0] * len(texts)}
    found = await ann.recall("tea number", limit=RERANKED, **alike)
    assert found.reranked and RERANKED == len(found)


@every_case("cohere", 5, Overlap)
def test_what_is_no_reranker_is_refused(reranker, ann_with):
    with pytest.raises(InvalidInput, match=r"is of no known form: give an object with 'async"):
        ann_with(reranker=reranker)
