"""`hippocampus import DSN --from langmem`: what langmem keeps becomes memories of its users."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langgraph.store.postgres import PostgresStore
from langmem import create_manage_memory_tool, create_memory_store_manager
from typer.testing import CliRunner, Result

from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import MemoryEngine, Scope, run_sync
from shared_core.cli import StoreImport, import_store
from shared_core.cli.main import app
from shared_core.errors import InvalidInput
from tests.integration.scripted_chat import ScriptedChatModel, calls

ANN = Scope("app", "ann")
CONFIG: Any = {"configurable": {"thread_id": "t", "langgraph_user_id": "ann"}}
TEMPLATE = ("memories", "{langgraph_user_id}")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["import", *arguments])


@pytest.fixture
def source(empty_dsn: str) -> str:
    """A PostgresStore in which langmem's tool and manager remembered something of Ann."""
    with PostgresStore.from_conn_string(empty_dsn) as store:
        store.setup()
        model = ScriptedChatModel(answers=[calls("Memory", content="安住在上海。")])
        manager = create_memory_store_manager(model, namespace=TEMPLATE, store=store)
        manager.invoke({"messages": [{"role": "user", "content": "我住在上海。"}]}, CONFIG)
        tool = create_manage_memory_tool(namespace=TEMPLATE, store=store)
        tool.invoke({"content": "Ann plays the cello.", "action": "create"}, CONFIG)
        store.put(("memories", "ben", "work"), "k", {"content": "Ben is a pilot."})
        store.put(("settings",), "theme", {"value": "dark"})
        store.put(("memories",), "all", {"content": "shared"})
    return empty_dsn


def test_memories_of_langmem_are_found_by_recall_adk_and_langmem(source: str, dsn: str) -> None:
    at = (source, "--from", "langmem", "--app", "app", "--uri", dsn)
    report = json.loads(run(*at, "--json").stdout)
    assert (5, 3, 2) == (report["in_source"], report["copied"], report["elsewhere"])
    assert report["complete"]
    with PgHippocampusStore(dsn) as store:
        found = run_sync(store.engine.recall(ANN, "Which instrument does Ann play?"))
        assert "Ann plays the cello." == found[0].memory.text
        assert "安住在上海。" in [
            hit.memory.text for hit in run_sync(store.engine.recall(ANN, "安住在哪里？"))
        ]
        adk = OpenMemoryService(engine=store.engine)
        answer = run_sync(adk.search_memory(app_name="app", user_id="ann", query="instrument"))
        assert any("cello" in str(one.content) for one in answer.memories)
        items = store.search(memories_namespace("app", "ann"))
        assert {"content": "Ann plays the cello."} in [item.value for item in items]
        pilot = store.get((*memories_namespace("app", "ben"), "work"), "k")
        assert pilot is not None and pilot.value == {"content": "Ben is a pilot."}
    again = run(*at)
    assert "0 copied, 3 were here already, 2 are of no user (see --namespace)" in again.stdout


async def test_any_label_can_be_the_user(source: str, memory: MemoryEngine, dsn: str) -> None:
    with PostgresStore.from_conn_string(source) as store:
        store.put(("acme", "eva", "facts"), "1", {"content": "Eva is a judge."})
    task = StoreImport(dsn=source, uri=dsn, app="app", namespace="acme.{user}.facts")
    report = await import_store(task)
    assert (1, 5) == (report.copied, report.elsewhere)
    [found] = await memory.recall(Scope("app", "eva"), "judge")
    assert "Eva is a judge." == found.memory.text


async def test_the_texts_of_items_are_masked_and_their_other_values_stay(
    source: str, memory: MemoryEngine, dsn: str
) -> None:
    told = "The wifi password is: hunter22"
    value = {
        "kind": "Memory",
        "content": {"content": told, "notes": [told]},
        "card": "4111111111111111",
    }
    with PostgresStore.from_conn_string(source) as store:
        store.put(("memories", "eva"), "1", value)
        store.put(("memories", "eva"), "2", {"note": told})
    task = StoreImport(dsn=source, uri=dsn, app="app")
    assert 5 == (await import_store(task)).copied
    written = "".join([line async for line in memory.export(Scope("app", "eva"))])
    assert "hunter22" not in written
    assert "[REDACTED: password]" in written and "4111111111111111" in written
    assert 5 == (await import_store(task)).here


@pytest.mark.parametrize("namespace", ["memories", "{user}.{user}", "a..{user}", ""])
def test_a_namespace_must_name_one_label_of_the_user(namespace: str) -> None:
    with pytest.raises(InvalidInput, match="namespace must name one label {user}"):
        StoreImport(dsn="postgresql://host/db", app="app", namespace=namespace)


async def test_the_progress_of_a_store_moves_within_a_page(
    empty_dsn: str, memory: MemoryEngine
) -> None:
    from shared_core.storage.postgres.langgraph_tables import PostgresStoreSource
    from shared_core.transfer.importing import ImportOptions, import_items

    with PostgresStore.from_conn_string(empty_dsn) as store:
        store.setup()
        for number in range(120):
            store.put(("app", "ann"), str(number), {"content": f"note {number}"})
    options = ImportOptions(to_namespace=tuple, text_of_field=lambda value, name: None)
    seen: list[int] = []
    async with PostgresStoreSource(empty_dsn) as source:
        await import_items(
            memory.imported_items, source, options,
            failed=lambda item, reason: None, advanced=seen.append,
        )  # fmt: skip
    assert [50, 50, 20] == seen


async def test_the_progress_of_our_own_export_moves(memory: MemoryEngine, other_dsn: str) -> None:
    from shared_core import open_memory

    await memory.remember(ANN, [f"Ann saw film {number}." for number in range(200)])
    lines = [line async for line in memory.export(ANN)]
    seen: list[int] = []
    async with open_memory(other_dsn) as other:
        await other.import_lines(lines, progress=seen.append)
    assert len(set(seen)) >= 5 and seen == sorted(seen)
