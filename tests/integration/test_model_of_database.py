"""A database knows the model of its vectors: a memory without an embedder takes that one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from shared_core import EmbeddingMismatch, Event, Scope, open_memory
from shared_core.models.embedders import CallableEmbedder, E5Embedder, resolve_embedder

ANA = Scope("app", "ana")
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
async def test_a_database_of_another_bundled_model_keeps_it(dsn: str) -> None:
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


async def test_a_model_of_the_user_has_to_be_given_again(dsn: str) -> None:
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
async def test_a_memory_goes_on_with_the_model_it_was_changed_to(dsn: str, model: str) -> None:
    other = {"use": "e5", "e5": "use"}[model]
    async with open_memory(dsn, embedder=other, worker=False) as memory:
        await memory.remember(ANA, TEXT)
        await memory.reembed(resolve_embedder(model))
    async with open_memory(dsn, worker=False) as memory:
        assert [TEXT] == [hit.memory.text for hit in await memory.search(ANA, QUERY)]


@pytest.mark.both_engines
async def test_imported_vectors_bring_their_model_into_a_new_database_only(
    dsn: str, other_dsn: str
) -> None:
    async with open_memory(dsn, embedder="use", worker=False) as memory:
        await memory.remember(ANA, TEXT)
        lines = [line async for line in memory.export(ANA, vectors=True)]
    async with open_memory(other_dsn, worker=False) as memory:
        assert 0 == (await memory.import_lines(lines)).embedded
        assert [TEXT] == [hit.memory.text for hit in await memory.search(ANA, QUERY)]
    assert ("use-multilingual-v3", 512) == await model_of(other_dsn)


@pytest.mark.both_engines
async def test_imported_vectors_give_way_to_those_that_are_here(dsn: str, other_dsn: str) -> None:
    async with open_memory(dsn, embedder="use", worker=False) as memory:
        await memory.remember(ANA, TEXT)
        lines = [line async for line in memory.export(ANA, vectors=True)]
    async with open_memory(other_dsn, worker=False) as memory:
        await memory.remember(ANA, "She feeds them at noon.")
        assert 1 == (await memory.import_lines(lines)).embedded
    assert E5 == await model_of(other_dsn)


@pytest.mark.both_engines
async def test_a_model_that_was_named_but_has_no_vectors_gives_way(dsn: str) -> None:
    own = CallableEmbedder(ones, model="ones")
    async with open_memory(dsn, embedder=own, worker=False) as memory:
        assert [] == await memory.recall(ANA, QUERY)
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ANA, TEXT)
        assert [TEXT] == [hit.memory.text for hit in await memory.search(ANA, QUERY)]
    assert E5 == await model_of(dsn)


async def test_a_new_database_uses_the_other_model_where_the_best_cannot_run(
    dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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
async def test_an_open_memory_follows_when_another_process_changes_the_model(dsn: str) -> None:
    async with open_memory(dsn, worker=False) as memory, open_memory(dsn, worker=False) as other:
        await memory.remember(ANA, TEXT)
        await other.reembed(resolve_embedder("use"), drop_old=True)
        assert [TEXT] == [hit.memory.text for hit in await memory.search(ANA, QUERY)]
        [found] = (await memory.recall(ANA, QUERY)).vector_results
        assert TEXT == found.memory.text
        await memory.remember(ANA, "She feeds them at noon.")
        assert 2 == len(await memory.search(ANA, QUERY))


async def test_an_open_memory_with_an_embedder_of_its_own_is_told_of_the_change(dsn: str) -> None:
    async with (
        open_memory(dsn, embedder="e5", worker=False) as memory,
        open_memory(dsn, worker=False) as other,
    ):
        await memory.remember(ANA, TEXT)
        await other.reembed(resolve_embedder("use"), drop_old=True)
        for verb in (memory.search, memory.recall):
            with pytest.raises(EmbeddingMismatch, match=r"use-multilingual-v3.*reembed"):
                await verb(ANA, QUERY)


async def test_turns_without_vectors_are_no_change_of_model(dsn: str) -> None:
    async with open_memory(dsn, embedder="e5", worker=False) as memory:
        await memory.remember(ANA, TEXT)
        bob = Scope("app", "bob")
        turn = Event(event_id="1", author="bob", role="user", text=TEXT, occurred_at=NOW)
        await memory.append_events(bob, "t", [turn], later=True, delay_s=3600)
        assert [] == await memory.search(bob, QUERY)
        assert [TEXT] == [hit.memory.text for hit in await memory.recall(bob, "two canaries")]
