"""Instructions: every put a version, the newest counts, and any can come back."""

from __future__ import annotations

import asyncio
import threading

import pytest

from langgraph_store import (
    PgHippocampusStore,
    get_instruction,
    instruction_history,
    instructions_namespace,
    put_instruction,
    rollback_instruction,
)
from shared_core import InvalidInput, MemoryEngine, NotFound, Scope
from shared_core.core.namespaces import instructions_scope
from shared_core.ports.items import Item, ReadItem

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")


async def test_every_write_is_a_version_and_the_newest_counts(memory: MemoryEngine) -> None:
    assert await memory.instructions.read(ANN, "tone") is None
    first = await memory.instructions.write(ANN, "tone", {"content": "Be kind."})
    second = await memory.instructions.write(ANN, "tone", {"content": "Be brief.", "n": [1]})
    assert (1, 2) == (first.version, second.version)
    newest = await memory.instructions.read(ANN, "tone")
    assert newest == second and {"content": "Be brief.", "n": [1]} == newest.value
    [item] = await memory.run_item_ops(
        [ReadItem(address=(("app", "ann", "hippocampus-instructions"), "tone"))]
    )
    assert isinstance(item, Item) and newest.value == item.value
    assert (newest.created_at, newest.written_at) == (item.created_at, item.updated_at)
    assert newest.created_at == first.created_at < newest.written_at
    assert [2, 1] == [one.version for one in await memory.instructions.history(ANN, "tone")]
    assert [2] == [one.version for one in await memory.instructions.history(ANN, "tone", limit=1)]


async def test_what_the_newest_says_already_makes_no_version(memory: MemoryEngine) -> None:
    for _ in range(2):
        written = await memory.instructions.write(ANN, "tone", {"content": "Be kind."})
    assert 1 == written.version


async def test_a_rollback_is_a_version_too(memory: MemoryEngine) -> None:
    for text in ("one", "two", "three"):
        await memory.instructions.write(ANN, "tone", {"content": text})
    back = await memory.instructions.rollback(ANN, "tone")
    assert (4, "two") == (back.version, back.value["content"])
    back = await memory.instructions.rollback(ANN, "tone", 1)
    assert (5, "one") == (back.version, back.value["content"])
    assert 5 == (await memory.instructions.rollback(ANN, "tone", 1)).version
    for missing in (0, 6, -1):
        with pytest.raises(NotFound, match="versions are 1 to 5"):
            await memory.instructions.rollback(ANN, "tone", missing)
    with pytest.raises(NotFound, match="there is no instruction 'unknown'"):
        await memory.instructions.rollback(ANN, "unknown")


async def test_each_rollback_goes_one_further_back(memory: MemoryEngine) -> None:
    async def said(*texts: str) -> None:
        for text in texts:
            await memory.instructions.write(ANN, "tone", {"content": text})

    async def back() -> object:
        return (await memory.instructions.rollback(ANN, "tone")).value["content"]

    await said("one", "two", "three")
    assert ["two", "one"] == [await back(), await back()]
    with pytest.raises(NotFound, match="version 5, and no earlier"):
        await back()
    await said("four", "five")
    assert ["four", "one"] == [await back(), await back()]
    assert "one" == (await memory.instructions.history(ANN, "tone"))[0].value["content"]
    await said("two", "one", "three", "two")  # by hand: one takes back two, and it is new again
    assert ["three", "one"] == [await back(), await back()]


async def test_a_key_that_is_not_there_is_named_with_whose_it_would_be(
    memory: MemoryEngine,
) -> None:
    for version in (None, 3):
        with pytest.raises(NotFound, match="no instruction 'tnoe' of user 'ann' in 'app'"):
            await memory.instructions.rollback(ANN, "tnoe", version)


async def test_writers_at_the_same_moment_make_versions_one_after_another(
    memory: MemoryEngine,
) -> None:
    writes = [memory.instructions.write(ANN, "tone", {"content": str(n)}) for n in range(20)]
    written = await asyncio.gather(*writes)
    assert 20 == len(await memory.instructions.history(ANN, "tone"))
    assert 20 == max(one.version for one in written)


async def test_users_keep_their_own_and_forgetting_them_takes_all(memory: MemoryEngine) -> None:
    bob = Scope("app", "bob/%.")
    await memory.instructions.write(ANN, "tone", {"content": "Be kind."})
    await memory.instructions.write(ANN, "facts", {"content": "Be right."})
    await memory.instructions.write(bob, "tone", {"content": "Be brief."})
    assert ["facts", "tone"] == [one.key for one in await memory.instructions.list(ANN)]
    assert ["tone"] == [one.key for one in await memory.instructions.list(ANN, limit=1, offset=1)]
    assert 1 == await memory.instructions.delete(ANN, "facts")
    await memory.forget_scope(ANN)
    assert [] == await memory.instructions.list(ANN)
    assert [bob] == [one.scope for one in await memory.instructions.list(bob)]


async def test_what_cannot_be_stored_is_refused(memory: MemoryEngine) -> None:
    with pytest.raises(InvalidInput):
        await memory.instructions.write(ANN, "a\x00b", {"content": "x"})
    with pytest.raises(InvalidInput):
        await memory.instructions.write(ANN, "tone", {"content": float("nan")})
    with pytest.raises(InvalidInput):
        await memory.instructions.history(ANN, "tone", limit=0)
    odd = await memory.instructions.write(ANN, "tone", {"content": "NUL \x00", "deep": {"a": None}})
    assert {"content": "NUL \ufffd", "deep": {"a": None}} == odd.value


def test_a_graph_uses_them_in_sync_code(dsn: str) -> None:
    with PgHippocampusStore(dsn) as store:
        user = "ann@example.com"
        put_instruction(store, "app", user, "tone", {"content": "one"})
        thread = threading.Thread(
            target=put_instruction, args=(store, "app", user, "tone", {"content": "two"})
        )
        thread.start()
        thread.join()
        newest = get_instruction(store, "app", user, "tone")
        assert newest is not None and 2 == newest.version
        assert 3 == rollback_instruction(store, "app", user, "tone").version
        texts = [one.value["content"] for one in instruction_history(store, "app", user, "tone")]
        assert ["one", "two", "one"] == texts
    assert ("app", "ann@example%2Ecom", "hippocampus-instructions") == instructions_namespace(
        "app", user
    )
    assert Scope("app", user) == instructions_scope(("app", user, "hippocampus-instructions"))
    assert instructions_scope(("app", user, "hippocampus-instructions", "deeper")) is None
    assert instructions_scope(("app", "hippocampus-instructions")) is None
