"""The model of a database: which one a memory takes, and how another takes its place."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from postgres_admin import name_of, rows
from postgres_databases import PostgresDatabases
from toy_models import Letters
from turns import said
from typer.testing import CliRunner, Result

from shared_core import EmbeddingMismatch, ModelUnavailable, NewMemory, Scope, open_memory, run_sync
from shared_core.cli.main import app
from shared_core.ingest.items import WriteItem
from shared_core.models.embedders import CallableEmbedder, E5Embedder, resolve_embedder

ANA, BO = Scope("app", "ana"), Scope("other", "bo")
TEXTS = [f"Ana saw {number} birds in town {number % 7}." for number in range(450)]


def vectors(dsn: str) -> dict[str, int]:
    counted = rows(dsn, "SELECT model, count(*) FROM hippocampus.embeddings GROUP BY model")
    return {model.partition("/")[0].partition(":")[0]: count for model, count in counted}


async def fill(dsn: str) -> None:
    place = ("app", "ana", "notes")
    fields = {"title": "A title", "body": "of a book"}
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ANA, TEXTS)
        await memory.remember(BO, "Bo skis.")
        await memory.run_item_ops([WriteItem(address=(place, "k"), value=fields, texts=fields)])


@pytest.fixture(scope="module")
def many(server, postgres):
    """Databases with 453 vectors, which are made once."""
    for dsn in postgres.lend():
        run_sync(fill(dsn))
        databases = PostgresDatabases(server, name_of(dsn))
        yield databases
        databases.close()


@pytest.fixture
def dsn_of_many(many):
    yield from many.lend()


@pytest.fixture
async def filled(dsn_of_many):
    async with open_memory(dsn_of_many) as memory:
        await memory.recall(BO, "skis")  # it uses the old model
        yield memory


async def test_the_new_model_answers_as_if_it_had_always_been_there(filled, dsn_of_many):
    told: list[int] = []
    report = await filled.reembed(
        Letters(), text_of_field=lambda value, name: str(value[name]), progress=told.append
    )
    assert (453, 0, 0) == (report.embedded, report.left, report.dropped)
    assert told == sorted(told) and told[-1] == 453
    async with open_memory(dsn_of_many, embedder=Letters(), worker=False) as new:
        [hit, *_] = await new.search(ANA, TEXTS[44])
        assert 1.0 == round(hit.score, 3)  # digits are no letters: it is one of several
        [hit] = await new.search(BO, "Bo skis.")
        assert 1.0 == round(hit.score, 3)
        await new.remember(ANA, "Stored with the new model.")
    async with open_memory(dsn_of_many, worker=False) as old:
        with pytest.raises(EmbeddingMismatch, match="hippocampus reembed"):
            await old.search(ANA, "birds")
    assert {453, 454} == set(vectors(dsn_of_many).values())


async def test_until_it_is_done_the_old_model_serves_and_a_later_run_goes_on(filled, dsn_of_many):
    with pytest.raises(ModelUnavailable, match="gone"):
        await filled.reembed(Letters(dies_after=300))
    assert 200 == vectors(dsn_of_many)["letters"]
    async with open_memory(dsn_of_many, worker=False) as old:
        [hit, *_] = await old.search(ANA, TEXTS[44])
        assert TEXTS[44] == hit.memory.text
        await old.remember(ANA, "Stored meanwhile.")
    report = await filled.reembed(Letters())
    assert (454 - 200 - 2, 2) == (report.embedded, report.left)  # fields that nobody can read


async def test_what_is_rewritten_meanwhile_gets_the_vector_of_its_new_text(memory, dsn):
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


async def test_one_name_is_one_model_and_what_the_old_one_stored_is_caught_up(filled, dsn_of_many):
    await filled.reembed(Letters())
    with pytest.raises(EmbeddingMismatch, match="26 dimensions here before, and makes 20"):
        await filled.reembed(Letters(20))
    await filled.remember(ANA, "By who was open before.")  # its model was declared before
    report = await filled.reembed(Letters(), drop_old=True)
    assert (1, 452) == (report.embedded, report.dropped)
    assert 452 == vectors(dsn_of_many)["letters"]


async def test_an_empty_memory_changes_its_model_too(memory, dsn):
    assert 0 == (await memory.reembed(Letters())).embedded
    async with open_memory(dsn, embedder=Letters(), worker=False) as new:
        await new.remember(ANA, "Ana skis.")
        assert "letters" == (await new.report()).model


async def test_the_command_tells_what_it_did(filled, dsn_of_many):
    async def run(*arguments: str) -> Result:
        command = ["reembed", "--uri", dsn_of_many, *arguments]
        return await asyncio.to_thread(CliRunner().invoke, app, command)

    ran = await run("--embedder", "e5", "--json")
    assert 0 == ran.exit_code, ran.output
    assert (0, 0) == (json.loads(ran.stdout)["embedded"], json.loads(ran.stdout)["dropped"])
    assert (await run("--embedder", "e5")).stdout.startswith("0 vectors made. The model in use is")
    assert 1 == (await run("--embedder", "none")).exit_code


NOW = datetime(2026, 11, 1, 9, tzinfo=UTC)
TEXT = "Ana keeps two canaries."
QUERY = "Which birds does she have?"
E5 = ("multilingual-e5-small-centred-1", 384)


def ones(texts: Sequence[str]) -> list[list[float]]:
    return [[1.0, 2.0, 3.0]] * len(texts)


async def model_of(dsn: str) -> tuple[str | None, int | None]:
    async with open_memory(dsn, worker=False) as memory:
        report = await memory.report()
        return report.model, report.dimensions


@pytest.mark.both_engines
async def test_a_database_of_another_bundled_model_keeps_it(dsn):
    async with open_memory(dsn, embedder="use", worker=False) as memory:
        await memory.remember(ANA, TEXT)
    async with open_memory(dsn, worker=False) as memory:
        assert [TEXT] == [hit.memory.text for hit in await memory.search(ANA, QUERY)]
        await memory.remember(ANA, "She feeds them at noon.")
        assert 2 == len(await memory.search(ANA, QUERY))
    assert ("use-multilingual-v3", 512) == await model_of(dsn)
    async with open_memory(dsn, embedder="e5", worker=False) as memory:
        with pytest.raises(EmbeddingMismatch, match=r"use-multilingual-v3.*hippocampus reembed"):
            await memory.search(ANA, QUERY)


async def test_a_model_of_the_user_has_to_be_given_again(dsn):
    own = CallableEmbedder(ones, model="ones")
    async with open_memory(dsn, embedder=own, worker=False) as memory:
        await memory.remember(ANA, TEXT)
    async with open_memory(dsn, worker=False) as memory:
        for call in (memory.recall(ANA, QUERY), memory.remember(ANA, "They sing.")):
            with pytest.raises(EmbeddingMismatch, match=r"'ones' \(3 dim.*hippocampus reembed"):
                await call
        await memory.reembed(resolve_embedder("e5"))
    assert E5 == await model_of(dsn)


@pytest.mark.parametrize("model", ["use", "e5"])
async def test_a_memory_goes_on_with_the_model_it_was_changed_to(dsn, model):
    other = {"use": "e5", "e5": "use"}[model]
    async with open_memory(dsn, embedder=other, worker=False) as memory:
        await memory.remember(ANA, TEXT)
        await memory.reembed(resolve_embedder(model))
    async with open_memory(dsn, worker=False) as memory:
        assert [TEXT] == [hit.memory.text for hit in await memory.search(ANA, QUERY)]


@pytest.fixture
async def lines_of_use(dsn):
    """An export with vectors of the other bundled model."""
    async with open_memory(dsn, embedder="use", worker=False) as memory:
        await memory.remember(ANA, TEXT)
        return [line async for line in memory.export(ANA, vectors=True)]


@pytest.mark.both_engines
async def test_imported_vectors_bring_their_model_into_a_new_database_only(lines_of_use, other_dsn):
    async with open_memory(other_dsn, worker=False) as memory:
        assert 0 == (await memory.import_lines(lines_of_use)).embedded
        assert [TEXT] == [hit.memory.text for hit in await memory.search(ANA, QUERY)]
    assert ("use-multilingual-v3", 512) == await model_of(other_dsn)


@pytest.mark.both_engines
async def test_imported_vectors_give_way_to_those_that_are_here(lines_of_use, other_dsn):
    async with open_memory(other_dsn, worker=False) as memory:
        await memory.remember(ANA, "She feeds them at noon.")
        assert 1 == (await memory.import_lines(lines_of_use)).embedded
    assert E5 == await model_of(other_dsn)


@pytest.mark.both_engines
async def test_a_model_that_was_named_but_has_no_vectors_gives_way(dsn):
    own = CallableEmbedder(ones, model="ones")
    async with open_memory(dsn, embedder=own, worker=False) as memory:
        assert [] == await memory.recall(ANA, QUERY)
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ANA, TEXT)
        assert [TEXT] == [hit.memory.text for hit in await memory.search(ANA, QUERY)]
    assert E5 == await model_of(dsn)


async def test_a_new_database_uses_the_other_model_if_the_best_cannot_run(dsn, monkeypatch, caplog):
    def fails(self: E5Embedder) -> None:
        raise AttributeError("onnxruntime has no SessionOptions")

    monkeypatch.setattr(E5Embedder, "_network", None)
    monkeypatch.setattr(E5Embedder, "_load", fails)
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ANA, TEXT)
        assert [TEXT] == [hit.memory.text for hit in await memory.search(ANA, QUERY)]
    assert ("use-multilingual-v3", 512) == await model_of(dsn)
    assert "a new database uses 'use', because 'e5' cannot run" in caplog.text


@pytest.mark.both_engines
async def test_an_open_memory_follows_when_another_process_changes_the_model(dsn):
    async with open_memory(dsn, worker=False) as memory, open_memory(dsn, worker=False) as other:
        await memory.remember(ANA, TEXT)
        await other.reembed(resolve_embedder("use"), drop_old=True)
        assert [TEXT] == [hit.memory.text for hit in await memory.search(ANA, QUERY)]
        [found] = (await memory.recall(ANA, QUERY)).vector_results
        assert TEXT == found.memory.text
        await memory.remember(ANA, "She feeds them at noon.")
        assert 2 == len(await memory.search(ANA, QUERY))


async def test_an_open_memory_with_an_embedder_of_its_own_is_told_of_the_change(dsn):
    async with (
        open_memory(dsn, embedder="e5", worker=False) as memory,
        open_memory(dsn, worker=False) as other,
    ):
        await memory.remember(ANA, TEXT)
        await other.reembed(resolve_embedder("use"), drop_old=True)
        for verb in (memory.search, memory.recall):
            with pytest.raises(EmbeddingMismatch, match=r"use-multilingual-v3.*reembed"):
                await verb(ANA, QUERY)


async def test_turns_without_vectors_are_no_change_of_model(dsn):
    async with open_memory(dsn, embedder="e5", worker=False) as memory:
        await memory.remember(ANA, TEXT)
        bob = Scope("app", "bob")
        turn = said("1", TEXT, NOW, author="bob")
        await memory.append_events(bob, "t", [turn], later=True, delay_s=3600)
        assert [] == await memory.search(bob, QUERY)
        assert [TEXT] == [hit.memory.text for hit in await memory.recall(bob, "two canaries")]
