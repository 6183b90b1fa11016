"""Texts of many callers for one model: embedded together, none lost, each answered with its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from shared_core.models.model_batches import EncodeRequest, ModelBatches

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors


class Model:
    """Embeds numbers as themselves, notes what it is given, and waits until it may."""

    def __init__(self) -> None:
        self.given: list[list[str]] = []
        self.threads: list[int] = []
        self.began = threading.Event()
        self.go_on = threading.Event()

    def encode(self, texts: list[str]) -> Vectors:
        self.given.append(texts)
        self.threads.append(threading.get_ident())
        self.began.set()
        assert self.go_on.wait(60)
        if "bad" in texts:
            raise ValueError("bad")
        return np.array([[float(text)] for text in texts], dtype=np.float32)


def batch(
    encode: Callable[[list[str]], Vectors], *texts: str, most_texts: int = 4
) -> EncodeRequest:
    return EncodeRequest(texts=texts, encode=encode, most_texts=most_texts, most_characters=20)


async def held(batches: ModelBatches, model: Model) -> asyncio.Task[Vectors]:
    """Return a caller that the model is at work for, and stays so until model.go_on."""
    task = asyncio.create_task(batches.embed(batch(model.encode, "0"), urgent=True, brief=False))
    await asyncio.to_thread(model.began.wait, 60)
    return task


async def test_what_waits_is_embedded_together_as_far_as_it_fits() -> None:
    batches, model = ModelBatches("test"), Model()
    other = Model()
    first = await held(batches, model)
    wanted = [
        batch(model.encode, "1"),
        batch(model.encode, "2", "3"),
        batch(model.encode, "4", "5"),  # one more than four texts
        batch(model.encode, "6" * 19),  # too many characters
        batch(other.encode, "7"),  # another model
    ]
    waiting = [asyncio.create_task(batches.embed(one, urgent=True, brief=False)) for one in wanted]
    await asyncio.sleep(0)
    model.go_on.set()
    other.go_on.set()
    found = [vectors.ravel().tolist() for vectors in await asyncio.gather(first, *waiting)]
    assert [["0"], ["1", "2", "3"], ["4", "5"], ["6" * 19]] == model.given
    assert [["7"]] == other.given
    assert [[0.0], [1.0], [2.0, 3.0], [4.0, 5.0], [float(np.float32("6" * 19))], [7.0]] == found


async def test_who_asks_alone_is_answered_here_and_who_asks_at_once_together() -> None:
    batches, model = ModelBatches("test"), Model()
    model.go_on.set()
    await batches.embed(batch(model.encode, "1"), urgent=True, brief=True)
    assert [threading.get_ident()] == model.threads
    both = (batch(model.encode, "2"), batch(model.encode, "3"))
    await asyncio.gather(*(batches.embed(one, urgent=True, brief=True) for one in both))
    assert [["1"], ["2", "3"]] == model.given
    assert threading.get_ident() != model.threads[1]


async def test_an_error_is_told_to_everybody_it_befell() -> None:
    batches, model = ModelBatches("test"), Model()
    first = await held(batches, model)
    bad = [batch(model.encode, "1"), batch(model.encode, "bad")]
    waiting = [asyncio.create_task(batches.embed(one, urgent=True, brief=False)) for one in bad]
    await asyncio.sleep(0)
    model.go_on.set()
    await first
    for task in waiting:
        with pytest.raises(ValueError, match="bad"):
            await task
    again = await batches.embed(batch(model.encode, "8"), urgent=True, brief=True)
    assert [[8.0]] == again.tolist()


async def test_who_gives_up_is_left_out_and_keeps_nobody_waiting() -> None:
    batches, model = ModelBatches("test"), Model()
    first = await held(batches, model)
    wanted = [batch(model.encode, str(number)) for number in range(1, 9)]
    waiting = [asyncio.create_task(batches.embed(one, urgent=True, brief=True)) for one in wanted]
    await asyncio.sleep(0)
    for task in waiting[::2]:
        task.cancel()
    await asyncio.sleep(0)
    model.go_on.set()
    await first
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [float(number) for number in (2, 4, 6, 8)] == [float(one[0][0]) for one in found[1::2]]
    assert all(isinstance(one, asyncio.CancelledError) for one in found[::2])
    assert [["0"], ["2", "4", "6", "8"]] == model.given


async def test_many_threads_and_loops_lose_nothing() -> None:
    batches, model = ModelBatches("test"), Model()
    model.go_on.set()

    async def ask(number: int) -> bool:
        one = batch(model.encode, str(number))
        vectors = await batches.embed(one, urgent=bool(number % 2), brief=bool(number % 3))
        return vectors.tolist() == [[float(number)]]

    async def many(first: int) -> list[bool]:
        return list(await asyncio.gather(*(ask(first + number) for number in range(100))))

    done = await asyncio.gather(
        *(asyncio.to_thread(asyncio.run, many(1000 * place)) for place in range(6))
    )
    assert [[True] * 100] * 6 == done
