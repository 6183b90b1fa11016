"""How many versions of a profile are kept, and what goes with the oldest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared_core import Conflict, InvalidInput, MemoryEngine, NotFound, Scope
from shared_core.profiles.memory import Memory
from shared_core.storage.postgres.connection.statements import Step

TOWNS = ("Leeds", "Lisbon", "Oslo", "Rome", "Paris", "Bern", "Graz", "Kyoto")


async def told(memory: MemoryEngine, scope: Scope, keep: int, *towns: str) -> Memory:
    repository = memory.profiles.repository(scope, keep_versions=keep)
    known = await repository.load_or_create("bot")
    for town in towns:
        said = [{"role": "user", "content": f"I live in {town} now."}]
        known, _ = await repository.update_with_pipeline(known, said)
    return known


async def numbers(memory: MemoryEngine, scope: Scope, known: Memory) -> list[int]:
    found = await memory.profiles.repository(scope).versions(known.memory_id)
    return [one.version for one in found]


async def test_the_oldest_versions_go_and_what_is_kept_can_be_gone_back_to(
    memory: MemoryEngine, scope: Scope
) -> None:
    known = await told(memory, scope, 3, *TOWNS[:5])
    assert [5, 4, 3] == await numbers(memory, scope, known)
    repository = memory.profiles.repository(scope, keep_versions=3)
    oldest = await repository.load_memory(known.memory_id, 3)
    assert "User lives in Oslo." == oldest.get_profile_content()
    assert ["User lives in Leeds.", "User lives in Lisbon."] == [
        one.text for one in oldest.profile_memory.history
    ]
    back = await repository.rollback_memory(known.memory_id, 3)
    assert (6, oldest.to_prompt()) == (back.version, back.to_prompt())
    assert oldest.to_prompt() == (await repository.load_memory(known.memory_id)).to_prompt()
    assert [6, 5, 4] == await numbers(memory, scope, known)
    with pytest.raises(NotFound, match="its versions are 4 to 6"):
        await repository.rollback_memory(known.memory_id, 3)
    assert "User lives in Oslo." == await memory.profiles.shown(scope)
    again = await told(memory, scope, 3, "Bern", "Graz", "Kyoto")
    assert "User lives in Kyoto." == again.get_profile_content()


async def test_memories_that_no_version_names_go_with_the_oldest(
    memory: MemoryEngine, scope: Scope
) -> None:
    known = await told(memory, scope, 2, "Leeds")
    repository = memory.profiles.repository(scope, keep_versions=2)
    sentence = known.profile_memory.statements[0].statement_id
    for text in ("User plays the cello.", "User has a cat."):
        await repository.update_memory_profile(known.memory_id, text)
    stored = f"/{scope.app}/{scope.user}/", known.memory_id
    await repository.rollback_memory(known.memory_id, 2)

    async def rows() -> set[Any]:
        database: Any = memory._storage._database  # type: ignore[attr-defined]
        query = b"SELECT memory_id FROM memories WHERE tenant_id = %(t)s AND kind = 'item'"
        [found] = await database.run(stored[0], Step("rows", query, {"t": stored[0]}))
        return {row[0] for row in found}

    newest = await repository.load_memory(known.memory_id)
    with_cat = await repository.load_memory(known.memory_id, 3)
    cat = [one for one in with_cat.profile_memory.statements if "cat" in one.text]
    assert {sentence, cat[0].statement_id} <= await rows()
    assert sentence in {one.statement_id for one in newest.profile_memory.statements}
    for text in ("User plays chess.", "User likes tea."):
        await repository.update_memory_profile(known.memory_id, text)
    left = await rows()
    assert sentence in left and cat[0].statement_id not in left


async def test_a_run_whose_version_is_gone_is_not_undone(
    memory: MemoryEngine, scope: Scope
) -> None:
    first = await told(memory, scope, 2, "Leeds")
    runs = await memory.runs(scope)
    await told(memory, scope, 2, "Lisbon", "Oslo")
    with pytest.raises(Conflict, match="made no version of a profile that is kept"):
        await memory.undo_run(scope, runs[0].run_id)
    newest = await memory.runs(scope, limit=1)
    await memory.undo_run(scope, newest[0].run_id)
    kept = await memory.profiles.repository(scope).load_memory(first.memory_id)
    assert "User lives in Lisbon." == kept.get_profile_content()


async def test_a_run_that_only_said_it_again_is_not_undone(
    memory: MemoryEngine, scope: Scope
) -> None:
    await told(memory, scope, 9, "Leeds")
    repository = memory.profiles.repository(scope)
    known = await repository.load_or_create("bot")
    for _ in range(2):
        said = {
            "conversation_id": "c",
            "messages": [{"role": "user", "content": "I live in Leeds."}],
        }
        known, result = await repository.update_with_pipeline(known, said)
    assert not result.changed
    with pytest.raises(Conflict, match="made no version"):
        await memory.undo_run(scope, result.run_id)
    assert "User lives in Leeds." == await memory.profiles.shown(scope)


async def test_updates_at_once_keep_no_more_and_another_profile_keeps_its_own(
    memory: MemoryEngine, scope: Scope
) -> None:
    other = memory.profiles.repository(scope)
    await other.update_with_pipeline(
        Memory("other"), [{"role": "user", "content": "I live in Ulm."}]
    )
    known = await told(memory, scope, 2, "Leeds")
    await asyncio.gather(*(told(memory, scope, 2, town) for town in TOWNS[1:5]))
    assert [5, 4] == await numbers(memory, scope, known)
    kept = await other.load_memory_by_agent("other")
    assert kept is not None and "User lives in Ulm." == kept.get_profile_content()


@pytest.mark.parametrize("keep", [0, 1, 1001, True, "9", None])
async def test_a_bound_that_is_none_is_named(memory: MemoryEngine, scope: Scope, keep: Any) -> None:
    with pytest.raises(InvalidInput, match="keep_versions must be between 2"):
        memory.profiles.repository(scope, keep_versions=keep)
