"""One embedding model in the place of another, while everybody works on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from shared_core import (
    EmbeddingMismatch,
    MemoryEngine,
    ModelUnavailable,
    NewMemory,
    Scope,
    open_memory,
)
from shared_core.cli.main import app
from shared_core.ingest.items import WriteItem

ANA, BO = Scope("app", "ana"), Scope("other", "bo")
TEXTS = [f"Ana saw {number} birds in town {number % 7}." for number in range(450)]


class Letters:
    """A model: how often each of so many letters occurs."""

    model = "letters"

    def __init__(self, dimensions: int = 26, dies_after: int = 10**9) -> None:
        self.dimensions = dimensions
        self.left = dies_after

    async def embed_passages(self, texts: Any) -> Any:
        import numpy as np

        self.left -= len(texts)
        if self.left < 0:
            raise ModelUnavailable("the model is gone")
        letters = [chr(97 + n) for n in range(self.dimensions)]
        rows = np.array([[1 + 9 * text.count(one) for one in letters] for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    async def embed_query(self, text: str) -> Any:
        return await self.embed_passages([text])


def vectors(dsn: str) -> dict[str, int]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT model, count(*) FROM hippocampus.embeddings GROUP BY model"
        ).fetchall()
    return {model.partition("/")[0].partition(":")[0]: count for model, count in rows}


@pytest.fixture
async def filled(memory: MemoryEngine) -> MemoryEngine:
    await memory.remember(ANA, TEXTS)
    await memory.remember(BO, "Bo skis.")
    place = ("app", "ana", "notes")
    fields = {"title": "A title", "body": "of a book"}
    await memory.run_item_ops([WriteItem(address=(place, "k"), value=fields, texts=fields)])
    return memory


async def test_the_new_model_answers_as_if_it_had_always_been_there(
    filled: MemoryEngine, dsn: str
) -> None:
    told: list[int] = []
    report = await filled.reembed(
        Letters(), text_of_field=lambda value, name: str(value[name]), progress=told.append
    )
    assert (453, 0, 0) == (report.embedded, report.left, report.dropped)
    assert told == sorted(told) and told[-1] == 453
    async with open_memory(dsn, embedder=Letters(), worker=False) as new:
        [hit, *_] = await new.search(ANA, TEXTS[44])
        assert 1.0 == round(hit.score, 3)  # digits are no letters: it is one of several
        [hit] = await new.search(BO, "Bo skis.")
        assert 1.0 == round(hit.score, 3)
        await new.remember(ANA, "Stored with the new model.")
    async with open_memory(dsn, worker=False) as old:
        with pytest.raises(EmbeddingMismatch, match="hippocampus reembed"):
            await old.search(ANA, "birds")
    assert {453, 454} == set(vectors(dsn).values())


async def test_until_it_is_done_the_old_model_serves_and_the_next_run_does_the_rest(
    filled: MemoryEngine, dsn: str
) -> None:
    with pytest.raises(ModelUnavailable, match="gone"):
        await filled.reembed(Letters(dies_after=300))
    assert 200 == vectors(dsn)["letters"]
    async with open_memory(dsn, worker=False) as old:
        [hit, *_] = await old.search(ANA, TEXTS[44])
        assert TEXTS[44] == hit.memory.text
        await old.remember(ANA, "Stored meanwhile.")
    report = await filled.reembed(Letters())
    assert (454 - 200 - 2, 2) == (report.embedded, report.left)  # fields that nobody can read


async def test_what_is_rewritten_meanwhile_gets_the_vector_of_its_new_text(
    memory: MemoryEngine, dsn: str
) -> None:
    await memory.remember(ANA, NewMemory(text="aaa", key="k"))

    class Slow(Letters):
        async def embed_passages(self, texts: Any) -> Any:
            if "aaa" in texts:
                await memory.remember(ANA, NewMemory(text="zzz", key="k"))
            return await super().embed_passages(texts)

    await memory.reembed(Slow(), drop_old=True)
    assert {"letters": 1} == vectors(dsn)
    async with open_memory(dsn, embedder=Letters(), worker=False) as new:
        [hit] = await new.search(ANA, "zzz")
        assert ("zzz", 1.0) == (hit.memory.text, round(hit.score, 3))


async def test_what_was_stored_with_the_old_model_later_is_caught_up(
    filled: MemoryEngine, dsn: str
) -> None:
    await filled.reembed(Letters())
    await filled.remember(ANA, "By who was open before.")  # its model was declared before
    report = await filled.reembed(Letters(), drop_old=True)
    assert (1, 452) == (report.embedded, report.dropped)
    assert 452 == vectors(dsn)["letters"]


async def test_one_name_stands_for_one_model(filled: MemoryEngine) -> None:
    await filled.reembed(Letters())
    with pytest.raises(EmbeddingMismatch, match="26 dimensions here before, and makes 20"):
        await filled.reembed(Letters(20))


async def test_an_empty_memory_changes_its_model_too(memory: MemoryEngine, dsn: str) -> None:
    assert 0 == (await memory.reembed(Letters())).embedded
    async with open_memory(dsn, embedder=Letters(), worker=False) as new:
        await new.remember(ANA, "Ana skis.")
        assert "letters" == (await new.report()).model


async def test_the_command_tells_what_it_did(filled: MemoryEngine, dsn: str) -> None:
    async def run(*arguments: str) -> Result:
        command = ["reembed", "--uri", dsn, *arguments]
        return await asyncio.to_thread(CliRunner().invoke, app, command)

    ran = await run("--embedder", "e5", "--json")
    assert 0 == ran.exit_code, ran.output
    assert (0, 0) == (json.loads(ran.stdout)["embedded"], json.loads(ran.stdout)["dropped"])
    told = (await run("--embedder", "e5")).stdout
    assert told.startswith("0 vectors made. The model in use is")
    assert 1 == (await run("--embedder", "none")).exit_code
