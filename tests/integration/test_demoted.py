"""What is demoted is out of recall and listings, and comes back when it is written again."""

from __future__ import annotations

import psycopg

from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import AsOf, MemoryEngine, NewMemory, Scope

ANN = Scope("app", "ann")


def demote(dsn: str, text: str) -> None:
    with psycopg.connect(dsn) as superuser:
        superuser.execute(
            "UPDATE hippocampus.memories SET demoted_at = now() WHERE text = %s", [text]
        )


async def test_no_way_of_finding_finds_what_is_demoted(dsn: str, memory: MemoryEngine) -> None:
    await memory.remember(ANN, ["green tea", "black tea"])
    demote(dsn, "green tea")
    assert ["black tea"] == [hit.memory.text for hit in await memory.recall(ANN, "green tea")]
    assert ["black tea"] == [hit.memory.text for hit in await memory.search(ANN, "green tea")]
    assert ["black tea"] == [one.text for one in await memory.list_memories(ANN)]
    then = AsOf(known=(await memory.list_memories(ANN))[0].created_at)
    assert ["black tea"] == [one.text for one in await memory.list_memories(ANN, as_of=then)]


async def test_what_is_written_again_is_found_again(dsn: str, memory: MemoryEngine) -> None:
    await memory.remember(ANN, NewMemory(text="green tea", key="k"))
    demote(dsn, "green tea")
    await memory.remember(ANN, NewMemory(text="green tea, daily", key="k"))
    assert ["green tea, daily"] == [hit.memory.text for hit in await memory.recall(ANN, "tea")]


def test_a_store_lists_and_searches_without_it_and_gets_it_by_name(dsn: str) -> None:
    place = memories_namespace("app", "ann")
    with PgHippocampusStore(dsn) as store:
        store.put(place, "k", {"text": "green tea"})
        demote(dsn, "green tea")
        assert [] == store.search(place) == store.search(place, query="tea")
        found = store.get(place, "k")
        assert found is not None
        assert {"text": "green tea"} == found.value
