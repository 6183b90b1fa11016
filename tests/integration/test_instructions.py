"""Instructions: every put a version, the newest counts, and any can come back."""

import asyncio
import threading

import pytest

import langgraph_store
from shared_core import InvalidInput, NotFound, Scope
from shared_core.core.namespaces import instructions_scope
from shared_core.ports.items import Item, ReadItem

pytestmark = pytest.mark.both_engines


@pytest.fixture
def said(shared_memory):
    return shared_memory.instructions


async def test_every_write_is_a_version_and_the_newest_counts(shared_memory, said, scope):
    assert await said.read(scope, "tone") is None
    first = await said.write(scope, "tone", {"content": "Be kind."})
    second = await said.write(scope, "tone", {"content": "Be brief.", "n": [1]})
    assert (1, 2) == (first.version, second.version)
    newest = await said.read(scope, "tone")
    assert newest == second and {"content": "Be brief.", "n": [1]} == newest.value
    address = ((scope.app, scope.user, "hippocampus-instructions"), "tone")
    [item] = await shared_memory.run_item_ops([ReadItem(address=address)])
    assert isinstance(item, Item) and newest.value == item.value
    assert (newest.created_at, newest.written_at) == (item.created_at, item.updated_at)
    assert newest.created_at == first.created_at < newest.written_at
    assert [2, 1] == [one.version for one in await said.history(scope, "tone")]
    assert [2] == [one.version for one in await said.history(scope, "tone", limit=1)]


async def test_what_the_newest_says_already_makes_no_version(said, scope):
    for _ in range(2):
        written = await said.write(scope, "tone", {"content": "Be kind."})
    assert 1 == written.version


async def test_a_rollback_is_a_version_too(said, scope):
    for text in ("one", "two", "three"):
        await said.write(scope, "tone", {"content": text})
    back = await said.rollback(scope, "tone")
    assert (4, "two") == (back.version, back.value["content"])
    back = await said.rollback(scope, "tone", 1)
    assert (5, "one") == (back.version, back.value["content"])
    assert 5 == (await said.rollback(scope, "tone", 1)).version
    for missing in (0, 6, -1):
        with pytest.raises(NotFound, match="versions are 1 to 5"):
            await said.rollback(scope, "tone", missing)
    with pytest.raises(NotFound, match="there is no instruction 'unknown'"):
        await said.rollback(scope, "unknown")


async def test_each_rollback_goes_one_further_back(said, scope):
    async def write(*texts: str) -> None:
        for text in texts:
            await said.write(scope, "tone", {"content": text})

    async def back() -> object:
        return (await said.rollback(scope, "tone")).value["content"]

    await write("one", "two", "three")
    assert ["two", "one"] == [await back(), await back()]
    with pytest.raises(NotFound, match="version 5, and no earlier"):
        await back()
    await write("four", "five")
    assert ["four", "one"] == [await back(), await back()]
    assert "one" == (await said.history(scope, "tone"))[0].value["content"]
    await write("two", "one", "three", "two")  # by hand: one takes back two, and it is new again
    assert ["three", "one"] == [await back(), await back()]


async def test_a_key_that_is_not_there_is_named_with_whose_it_would_be(said, scope):
    for version in (None, 3):
        told = f"no instruction 'tnoe' of user 'alice@example.com' in '{scope.app}'"
        with pytest.raises(NotFound, match=told):
            await said.rollback(scope, "tnoe", version)


async def test_writers_at_the_same_moment_make_versions_one_after_another(said, scope):
    writes = [said.write(scope, "tone", {"content": str(n)}) for n in range(20)]
    written = await asyncio.gather(*writes)
    assert 20 == len(await said.history(scope, "tone"))
    assert 20 == max(one.version for one in written)


async def test_users_keep_their_own_and_forgetting_them_takes_all(shared_memory, said, scope):
    bob = Scope(scope.app, "bob/%.")
    await said.write(scope, "tone", {"content": "Be kind."})
    await said.write(scope, "facts", {"content": "Be right."})
    await said.write(bob, "tone", {"content": "Be brief."})
    assert ["facts", "tone"] == [one.key for one in await said.list(scope)]
    assert ["tone"] == [one.key for one in await said.list(scope, limit=1, offset=1)]
    assert 1 == await said.delete(scope, "facts")
    await shared_memory.forget_scope(scope)
    assert [] == await said.list(scope)
    assert [bob] == [one.scope for one in await said.list(bob)]


async def test_what_cannot_be_stored_is_refused(said, scope):
    with pytest.raises(InvalidInput):
        await said.write(scope, "a\x00b", {"content": "x"})
    with pytest.raises(InvalidInput):
        await said.write(scope, "tone", {"content": float("nan")})
    with pytest.raises(InvalidInput):
        await said.history(scope, "tone", limit=0)
    odd = await said.write(scope, "tone", {"content": "NUL \x00", "deep": {"a": None}})
    assert {"content": "NUL \ufffd", "deep": {"a": None}} == odd.value


def test_a_graph_uses_them_in_sync_code(shared_memory, scope):
    with langgraph_store.PgHippocampusStore(engine=shared_memory) as store:
        app, user = scope.app, "ann@example.com"
        langgraph_store.put_instruction(store, app, user, "tone", {"content": "one"})
        given = (store, app, user, "tone", {"content": "two"})
        thread = threading.Thread(target=langgraph_store.put_instruction, args=given)
        thread.start()
        thread.join()
        assert 2 == langgraph_store.get_instruction(store, app, user, "tone").version
        assert 3 == langgraph_store.rollback_instruction(store, app, user, "tone").version
        history = langgraph_store.instruction_history(store, app, user, "tone")
        assert ["one", "two", "one"] == [one.value["content"] for one in history]
    here = langgraph_store.instructions_namespace("app", user)
    assert ("app", "ann@example%2Ecom", "hippocampus-instructions") == here
    assert Scope("app", user) == instructions_scope(("app", user, "hippocampus-instructions"))
    assert instructions_scope((*here, "deeper")) is None
    assert instructions_scope(("app", "hippocampus-instructions")) is None
