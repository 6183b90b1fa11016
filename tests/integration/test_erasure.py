"""Erasing a user or a thread: nothing is left in any table but marks and receipts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from langchain_core.messages import HumanMessage
from psycopg.rows import dict_row
from typer.testing import CliRunner, Result
from whole_user import START, WholeClock, populate, said, write_the_rest

from langgraph_store.messages import turns_of
from shared_core import InvalidInput, MemoryEngine, Scope, open_memory
from shared_core.cli.main import app
from shared_core.ports.session_logs import Seen

ANA, BOB, CAT = Scope("app", "ana/ü%"), Scope("app", "bob"), Scope("app", "cat")
TENANT = "/app/ana%2Fü%25/"
MARKS = {"writes", "memory_changes"}
STAYS = {"tombstones", "erasures", "import_marks", *MARKS}
"""Tables that keep rows of who was erased: marks without words, and receipts."""


@pytest.fixture
async def memory(dsn: str) -> AsyncIterator[MemoryEngine]:
    """Ana, of whom every table holds something, and Bob."""
    clock = WholeClock()
    async with open_memory(dsn, clock=clock, worker=False) as memory:
        await populate(memory, ANA, clock)
        write_the_rest(dsn, TENANT)
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "INSERT INTO hippocampus.schedules (tenant_id, task, next_at)"
                " VALUES (%s, 'x', now())",
                [TENANT],
            )
        clock.now = START + timedelta(days=900)
        await memory.append_events(BOB, "t1", [said(1, "My name is Bob. I live in Rome.")])
        await memory.consolidate(BOB, "t1")
        yield memory


def rows_of(dsn: str, tenant: str) -> dict[str, list[dict[str, object]]]:
    """Return the rows of a tenant by table, of tables that have some."""
    found = {}
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        tables = connection.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
            " WHERE c.relnamespace = 'hippocampus'::regnamespace AND c.relkind = 'r'"
            " AND a.attname = 'tenant_id'"
        ).fetchall()
        for table in sorted(str(row["relname"]) for row in tables):
            query = f"SELECT * FROM {table} WHERE tenant_id = %s".encode()
            if rows := connection.execute(query, [tenant]).fetchall():
                found[table] = rows
    return found


async def test_a_user_goes_from_every_table_and_the_receipt_counts_it(
    memory: MemoryEngine, dsn: str
) -> None:
    before, others = rows_of(dsn, TENANT), rows_of(dsn, "/app/bob/")
    assert {"shared_state", "schedules", "pipeline_log", "profiles", "conversations"} < {*before}
    receipt = await memory.erase(ANA)
    after = rows_of(dsn, TENANT)
    assert {*after} <= STAYS
    assert others == rows_of(dsn, "/app/bob/")
    gone = {name: len(rows) for name, rows in before.items() if name not in STAYS | {"schedules"}}
    assert gone == {name: n for name, n in receipt.counts.items() if name not in STAYS}
    assert receipt.counts["tombstones"] == len(after["tombstones"]) - len(before["tombstones"]) > 0
    words = json.dumps([row for name in STAYS for row in after.get(name, [])], default=str)
    assert not [word for word in ("Lisbon", "cello", "Acme", "tea", "上海") if word in words]
    assert receipt.is_intact and not replace(receipt, counts={"memories": 1}).is_intact
    stored = await memory.erasures(ANA)
    assert receipt == stored[0] and 2 == len(stored)  # one was there before
    assert [] == await memory.erasures(BOB)
    assert stored == await memory.erasures(app="app") == await memory.erasures()
    with pytest.raises(InvalidInput, match="not both"):
        await memory.erasures(ANA, app="app")


async def test_what_comes_again_after_an_erasure_is_not_remembered(memory: MemoryEngine) -> None:
    again = [said(1, "My name is Ana. I live in Leeds."), said(20, "Logged only")]
    await memory.erase(ANA)
    assert set() == await memory.append_events(ANA, "t1", again[:1])
    assert set() == await memory.append_events(ANA, "s", again[1:])
    assert [] == await memory.list_memories(ANA)
    second = await memory.erase(ANA)
    assert {} == {name: n for name, n in second.counts.items() if name not in ("threads",)}


async def test_tokens_lose_the_name_and_those_for_nobody_else_end(memory: MemoryEngine) -> None:
    make = memory.tokens.create
    own = await make("app", users=[ANA.user], label="phone of Ana")
    shared = await make("app", users=["bob", ANA.user], label="family")
    whole, foreign = await make("app"), await make("other", users=[ANA.user])
    receipt = await memory.erase(ANA)
    assert 2 == receipt.counts["api_tokens"]
    assert await memory.tokens.verify(own.text) is None
    left = await memory.tokens.verify(shared.text)
    assert left is not None and (("bob",), "family") == (left.users, left.label)
    for token in (whole, foreign):
        assert token.token == await memory.tokens.verify(token.text)
    names = [(one.users, one.label) for one in await memory.tokens.list("app")]
    assert not [one for one in names if "Ana" in one[1] or ANA.user in (one[0] or ())]


async def test_a_thread_goes_with_its_session_log_and_no_other_does(
    memory: MemoryEngine, dsn: str
) -> None:
    log = await memory.sessions.create(ANA, "t4")
    turn = said(40, "I bought a red kayak.")
    await memory.sessions.append(ANA, "t4", turn, "{}", seen=Seen(version=log.version))
    await memory.append_events(ANA, "t4", [turn])
    before = rows_of(dsn, TENANT)
    receipt = await memory.erase(ANA, "t4")
    assert "t4" == receipt.thread_id and receipt.is_intact
    assert (1, 1, 1) == tuple(receipt.counts[name] for name in ("threads", "events", "tombstones"))
    assert await memory.sessions.load(ANA, "t4") is None
    assert not [one for one in await memory.list_memories(ANA, limit=500) if "kayak" in one.text]
    after = rows_of(dsn, TENANT)
    changed = {name for name in before if len(before[name]) != len(after.get(name, []))}
    assert changed - MARKS == {*receipt.counts} | {"erasures"}
    assert set() == await memory.append_events(ANA, "t4", [turn])
    assert receipt in await memory.erasures(ANA)


async def test_the_commands_erase_only_when_it_is_meant(memory: MemoryEngine, dsn: str) -> None:
    async def call(*arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--uri", dsn])

    refused = await call("erase", ANA.app, ANA.user)
    assert 2 == refused.exit_code and "--yes" in refused.output
    assert await memory.list_memories(ANA)
    done = await call("erase", ANA.app, ANA.user, "--yes", "--json")
    assert 0 == done.exit_code, done.output
    [newest, _] = await memory.erasures(ANA)
    assert newest.to_dict() == json.loads(done.output)
    shown = await call("erasures", "--app", ANA.app, "--json")
    assert newest.to_dict() == json.loads(shown.output.splitlines()[0])
    assert str(newest.erasure_id)[:8] in (await call("erasures")).output
    assert 2 == (await call("erasures", "--user", "ana")).exit_code


async def test_no_id_or_hash_that_is_made_of_words_stays(memory: MemoryEngine, dsn: str) -> None:
    secret = {"role": "user", "content": "My diagnosis is gout."}
    other = {"role": "user", "content": "I live in Leeds."}
    profiles = memory.profiles.repository(CAT)
    known = await profiles.load_or_create("app")
    for name, messages in (("sick", [secret]), ("home", [other]), (None, [secret])):
        talk = {"conversation_id": name, "messages": messages}
        known, _ = await profiles.update_with_pipeline(known, talk)
    turns = turns_of([HumanMessage("I have gout.")], "graph", START)
    await memory.append_events(CAT, "graph", turns)
    assert await memory.append_events(CAT, "graph", turns) == set()
    before = rows_of(dsn, "/app/cat/")
    made = [str(row["event_id"]) for row in before["events"] if row["thread_id"] != "graph"]
    assert 2 == len([one for one in made if one.startswith("words-")]) and 3 == len(made)
    assert turns[0].event_id.startswith("words-")
    hashes = {bytes(row["content_hash"]) for row in before["profiles"]}  # type: ignore[call-overload]
    await memory.forget_thread(CAT, "graph")
    await memory.erase(CAT, "sick")
    after = rows_of(dsn, "/app/cat/")
    assert not [one for one in after["tombstones"] if "sick" == one["thread_id"]]
    assert ["graph"] == [one["thread_id"] for one in after["tombstones"]]
    kept = [bytes(row["content_hash"]) for row in after["profiles"]]  # type: ignore[call-overload]
    assert len(kept) == len(before["profiles"]) and not hashes & {*kept}
    receipt = await memory.erase(CAT)
    left = rows_of(dsn, "/app/cat/")
    assert {"tombstones", "erasures", *MARKS} == {*left}
    ids = [str(one["event_id"]) for one in left["tombstones"]]
    assert 1 == len(ids) == receipt.counts["tombstones"] and 7 == UUID(ids[0]).version
