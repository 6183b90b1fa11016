"""Embedders of every form give the same kind of vectors; texts of many callers go in one batch."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from every_case import every_case
from langchain_core.embeddings import Embeddings

from shared_core import CallableEmbedder, InvalidInput, ModelOutputInvalid, ModelUnavailable
from shared_core.models import model_batches as batching
from shared_core.models.embedders import MAX_CHARACTERS, UseEmbedder, resolve_embedder, slices

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors


class Hashed(Embeddings):
    """LangChain embeddings whose queries differ from its documents."""

    model = "tiny"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(len(text)), 1.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0, float(len(text))]


class AsyncHashed(Hashed):
    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.sleep(0, self.embed_documents(texts))

    async def aembed_query(self, text: str) -> list[float]:
        return await asyncio.sleep(0, self.embed_query(text))


def sync_function(texts: list[str]) -> list[list[float]]:
    return [[3.0, 4.0] for _ in texts]


async def async_function(texts: list[str]) -> list[list[float]]:
    return await asyncio.sleep(0, sync_function(texts))


@every_case(sync_function, async_function, lambda texts: async_function(texts))
async def test_a_function_sync_or_async_gives_normalised_vectors(given):
    embedder = resolve_embedder(given)
    vectors = await embedder.embed_passages(["a", "b"])
    assert (2, 2) == vectors.shape and np.allclose([[0.6, 0.8]] * 2, vectors)
    assert (1, 2) == (await embedder.embed_query("a")).shape


@every_case(Hashed(), AsyncHashed())
async def test_langchain_embeddings_embed_queries_their_own_way(given):
    embedder = resolve_embedder(given)
    assert embedder.model.endswith("Hashed:tiny")
    [passage] = await embedder.embed_passages(["abc"])
    [query] = await embedder.embed_query("abc")
    assert np.allclose([3 / math.sqrt(10), 1 / math.sqrt(10)], passage)
    assert np.allclose([1 / math.sqrt(10), 3 / math.sqrt(10)], query)


def test_an_async_embedder_survives_a_change_of_loop_and_slices_are_short_and_lose_nothing():
    loops = []

    async def remembers_its_loop(texts: list[str]) -> list[list[float]]:
        loops.append(asyncio.get_running_loop())
        return sync_function(texts)

    embedder = resolve_embedder(remembers_its_loop)
    for _ in range(3):
        asyncio.run(embedder.embed_query("a"))  # type: ignore[arg-type]
    assert 1 == len(set(loops))
    texts = ["a" * 700, "b" * 700, "c" * 200, "d" * 50_000, "e", "f", "g", "h"]
    found = [list(part) for part in slices(texts, 3)]
    assert [texts[:2], texts[2:3], texts[3:4], texts[4:7], texts[7:]] == found
    assert len(texts[3]) > MAX_CHARACTERS


@every_case(
    ([[math.nan, 1.0]], "NaN"), ([[math.inf, 1.0]], "infinite"),
    ([[1.0], [2.0]], r"shape \(2, 1\) for 1 texts"), ([[1.0, 2.0], [1.0]], "unequal length"),
    ([[0.5] * 20_000], "vectors of 20,000 numbers, and a database holds at most 16,000"),
    ([], "shape"), ([[]], "shape"), ("text", "no numbers|shape"), (None, "shape|no numbers"),
)  # fmt: skip
async def test_an_answer_that_cannot_be_used_is_refused_by_name(answer, complaint):
    with pytest.raises(ModelOutputInvalid, match=rf"'wrong'.*({complaint})"):
        await CallableEmbedder(lambda texts: answer, model="wrong").embed_passages(["one text"])


async def test_a_failing_embedder_is_named_with_its_reason():
    def refuses(texts: Sequence[str]) -> list[list[float]]:
        raise ConnectionError("quota exceeded")

    with pytest.raises(ModelUnavailable, match="'shy' failed on 1 texts.*quota exceeded"):
        await CallableEmbedder(refuses, model="shy").embed_query("a")


@every_case(42, "gpt", object())
def test_an_embedder_of_no_known_form_is_refused(given):
    with pytest.raises(InvalidInput, match="'use', 'e5', 'google:MODEL'"):
        resolve_embedder(given)


@pytest.mark.tail
@pytest.mark.parametrize(("name", "model", "dimensions", "apart"), [
    ("e5", "multilingual-e5-small-centred-1", 384, 0.1), ("use", "use-multilingual-v3", 512, 0.2),
])  # fmt: skip
async def test_a_bundled_model_finds_meaning_across_languages(name, model, dimensions, apart):
    embedder = resolve_embedder(name)
    passages = await embedder.embed_passages(["我喜欢吃辣的火锅", "The train leaves at nine."])
    similarity = passages @ (await embedder.embed_query("She likes spicy food."))[0]
    assert (model, dimensions) == (embedder.model, passages.shape[1])
    assert similarity[0] > similarity[1] + apart


@pytest.mark.tail
@pytest.mark.parametrize("name", ["e5", "use"])
async def test_a_text_of_a_megabyte_and_one_that_is_no_utf8_are_embedded(name):
    embedder = resolve_embedder(name)
    vectors = await embedder.embed_passages(["word " * 200_000, "a\x00b\ud800"])
    assert np.allclose(1.0, np.linalg.norm(vectors, axis=1))


class Recording(UseEmbedder):
    """A bundled embedder that notes what it is given, and stops at the first passages."""

    slice_texts = 2

    def __init__(self) -> None:
        self.given: list[list[str]] = []
        self.began, self.go_on = threading.Event(), threading.Event()

    def _load(self) -> object:
        return self

    def _encode(self, network: object, texts: list[str], query: bool) -> list[list[float]]:
        self.given.append(texts)
        if not query:
            self.began.set()
            self.go_on.wait(60)
        return [[float(text), 1.0] for text in texts]


async def test_a_query_waits_for_one_slice_at_most_and_what_is_brief_for_nothing_else():
    embedder = Recording()
    passages = asyncio.create_task(embedder.embed_passages([str(n) for n in range(7)]))
    await asyncio.to_thread(embedder.began.wait, 60)
    query = asyncio.create_task(embedder.embed_query("100"))
    await asyncio.sleep(0)
    embedder.go_on.set()
    vectors = await passages
    await query
    assert [["0", "1"], ["100"], ["2", "3"], ["4", "5"], ["6"]] == embedder.given
    assert np.allclose(range(7), vectors[:, 0] / vectors[:, 1])
    thread, done = batching.ModelThread("test"), []
    held = threading.Event()
    first = asyncio.create_task(thread.run(lambda: held.wait(60), urgent=True))
    rest = asyncio.create_task(thread.run(lambda: done.append("rest"), urgent=False))
    urgent = [asyncio.create_task(thread.run(lambda: done.append("urgent"), urgent=True))
              for _ in range(2 * batching.MAX_URGENT_IN_A_ROW)]  # fmt: skip
    await asyncio.sleep(0)
    held.set()
    await asyncio.gather(first, rest, *urgent)
    assert batching.MAX_URGENT_IN_A_ROW - 1 == done.index("rest")
    with pytest.raises(ZeroDivisionError):
        await asyncio.create_task(thread.run(lambda: 1 // 0, urgent=True))
    thread, held, begun = batching.ModelThread("test"), threading.Event(), threading.Event()
    here = threading.get_ident()
    assert here == await thread.run(threading.get_ident, urgent=True, brief=True)
    assert here != await thread.run(threading.get_ident, urgent=True)

    def long() -> None:
        begun.set()
        held.wait(60)

    working = asyncio.create_task(thread.run(long, urgent=False))
    await asyncio.to_thread(begun.wait, 60)
    waiting = asyncio.create_task(thread.run(threading.get_ident, urgent=True, brief=True))
    await asyncio.sleep(0)
    assert not waiting.done()
    held.set()
    await working
    assert here != await waiting
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0, urgent=True, brief=True)
    assert here == await thread.run(threading.get_ident, urgent=True, brief=True)


@pytest.mark.tail
async def test_a_loaded_bundled_model_has_nothing_left_to_load():
    embedder = UseEmbedder()
    await embedder.load()
    assert UseEmbedder._network._backend is not None
    lazy = embedder._load()
    assert lazy._backend is not None and lazy._sp is not None


class Model:
    """Embeds numbers as themselves, notes what it is given, and waits until it may."""

    def __init__(self) -> None:
        self.given: list[list[str]] = []
        self.threads: list[int] = []
        self.began, self.go_on = threading.Event(), threading.Event()

    def encode(self, texts: list[str]) -> Vectors:
        self.given.append(texts)
        self.threads.append(threading.get_ident())
        self.began.set()
        assert self.go_on.wait(60)
        if "bad" in texts:
            raise ValueError("bad")
        return np.array([[float(text)] for text in texts], dtype=np.float32)


def batch(encode: Callable[[list[str]], Vectors], *texts: str) -> batching.EncodeRequest:
    return batching.EncodeRequest(texts=texts, encode=encode, most_texts=4, most_characters=20)


async def held(
    model: Model, *wanted: batching.EncodeRequest, brief: bool = False
) -> tuple[batching.ModelBatches, asyncio.Task[Vectors], list[asyncio.Task[Vectors]]]:
    """Return a caller that the model is at work for until model.go_on, and what waits behind."""
    batches = batching.ModelBatches("test")
    task = asyncio.create_task(batches.embed(batch(model.encode, "0"), urgent=True, brief=False))
    await asyncio.to_thread(model.began.wait, 60)
    waiting = [asyncio.create_task(batches.embed(one, urgent=True, brief=brief)) for one in wanted]
    await asyncio.sleep(0)
    return batches, task, waiting


async def test_what_waits_is_embedded_together_as_far_as_it_fits_and_nothing_is_lost():
    model, other = Model(), Model()
    # One more than four texts, too many characters, and another model.
    wanted = [batch(model.encode, *texts) for texts in ("1", "23", "45", ["6" * 19])]
    _, first, waiting = await held(model, *wanted, batch(other.encode, "7"))
    model.go_on.set()
    other.go_on.set()
    found = [vectors.ravel().tolist() for vectors in await asyncio.gather(first, *waiting)]
    assert [["0"], ["1", "2", "3"], ["4", "5"], ["6" * 19]] == model.given
    assert [["7"]] == other.given
    assert [[0.0], [1.0], [2.0, 3.0], [4.0, 5.0], [float(np.float32("6" * 19))], [7.0]] == found
    batches, model = batching.ModelBatches("test"), Model()
    model.go_on.set()
    await batches.embed(batch(model.encode, "1"), urgent=True, brief=True)
    assert [threading.get_ident()] == model.threads
    both = (batch(model.encode, "2"), batch(model.encode, "3"))
    await asyncio.gather(*(batches.embed(one, urgent=True, brief=True) for one in both))
    assert [["1"], ["2", "3"]] == model.given
    assert threading.get_ident() != model.threads[1]
    batches, model = batching.ModelBatches("test"), Model()
    model.go_on.set()

    async def ask(number: int) -> bool:
        one = batch(model.encode, str(number))
        vectors = await batches.embed(one, urgent=bool(number % 2), brief=bool(number % 3))
        return vectors.tolist() == [[float(number)]]

    async def many(first: int) -> list[bool]:
        return list(await asyncio.gather(*(ask(first + number) for number in range(100))))

    threads = (asyncio.to_thread(asyncio.run, many(1000 * place)) for place in range(6))
    assert [[True] * 100] * 6 == await asyncio.gather(*threads)


async def test_an_error_is_told_to_all_it_befell_and_who_gives_up_keeps_nobody_waiting():
    model = Model()
    bad = [batch(model.encode, "1"), batch(model.encode, "bad")]
    batches, first, waiting = await held(model, *bad)
    model.go_on.set()
    await first
    for task in waiting:
        with pytest.raises(ValueError, match="bad"):
            await task
    again = await batches.embed(batch(model.encode, "8"), urgent=True, brief=True)
    assert [[8.0]] == again.tolist()
    model = Model()
    wanted = [batch(model.encode, str(number)) for number in range(1, 9)]
    _, first, waiting = await held(model, *wanted, brief=True)
    for task in waiting[::2]:
        task.cancel()
    await asyncio.sleep(0)
    model.go_on.set()
    await first
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [float(number) for number in (2, 4, 6, 8)] == [float(one[0][0]) for one in found[1::2]]
    assert all(isinstance(one, asyncio.CancelledError) for one in found[::2])
    assert [["0"], ["2", "4", "6", "8"]] == model.given


def test_a_long_work_gives_way_to_what_is_urgent_and_this_to_more_of_it():
    thread, order = batching.ModelThread("t"), []

    def work(name: str, *urgent: str) -> None:
        given = [thread.submit(lambda one=one: work(one), urgent=True) for one in urgent]
        thread.give_way()
        order.append(name)
        assert all(one.done() for one in given)

    thread.give_way()  # from another thread it does nothing
    thread.submit(lambda: work("long", "a", "b"), urgent=False).result(60)
    thread.submit(lambda: work("next", "c"), urgent=True).result(60)
    assert sorted(order[:2]) == ["a", "b"] and order[2:] == ["long", "c", "next"]


def test_an_urgent_work_does_not_starve_where_more_of_it_comes_without_end():
    thread, order = batching.ModelThread("t"), []

    def work(number: int) -> None:
        order.append(number)
        if len(order) < 5_000:
            thread.submit(lambda: work(len(order)), urgent=True)
        thread.give_way()
        if not number:
            order.append(None)

    thread.submit(lambda: work(0), urgent=True).result(60)
    assert order.index(None) < 10
