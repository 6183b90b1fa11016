"""Erasing a user or a thread: nothing is left in any table but marks and receipts.

Nor do words remain where rows are no more: in statistics, indexes and files.
"""

import asyncio
import json
import sys
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from commands import run
from langchain_core.messages import HumanMessage
from postgres_admin import column, execute, rows
from psycopg.rows import dict_row
from typer.testing import Result
from whole_user import START, WholeClock, populate, said, write_the_rest

from langgraph_store.messages import turns_of
from shared_core import InvalidInput, MemoryEngine, Scope, open_memory
from shared_core.core.namespaces import scope_path
from shared_core.ports.session_logs import Seen
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres
from tests.integration.large_tenants import THRESHOLD, build, fill, store_at

ANA, BOB = Scope("app", "ana/ü%"), Scope("app", "bob")
TENANT = "/app/ana%2Fü%25/"
MARKS = {"writes", "memory_changes"}
STAYS = {"tombstones", "erasures", "import_marks", *MARKS}
"""Tables that keep rows of who was erased: marks without words, and receipts."""
WORDS = ("Lisbon", "cello", "Acme", "fado", "jazz", "上海", "Mia", "Leeds", "buy milk", "Be brief")
KEPT = {"tenant_id", "kind", "role", "status", "job_type", "fact_type", "change", "model"}
"""Columns of text with statistics: the tenant, which receipts name, and fixed words."""
SAMPLED = """
    SELECT s.tablename, s.attname, t.oid::regtype::text,
           concat(s.most_common_vals, s.histogram_bounds, s.most_common_elems)
    FROM pg_stats s
    JOIN pg_attribute a ON a.attrelid = format('%I.%I', s.schemaname, s.tablename)::regclass
        AND a.attname = s.attname
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE s.schemaname = 'hippocampus'"""
HARMLESS = {
    "boolean", "smallint", "integer", "bigint", "real", "double precision", "uuid",
    "timestamp with time zone",
}  # fmt: skip


async def fill_with_ana_and_bob(memory: MemoryEngine, clock: WholeClock, dsn: str) -> None:
    await populate(memory, ANA, clock)
    write_the_rest(dsn, TENANT)
    await memory.append_events(BOB, "t1", [said(1, "My name is Bob. I live in Rome.")])
    await memory.consolidate(BOB, "t1")


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


async def test_a_user_goes_from_every_table_and_the_receipt_counts_it(dsn):
    clock = WholeClock()
    async with open_memory(dsn, clock=clock, worker=False) as memory:
        await fill_with_ana_and_bob(memory, clock, dsn)
        columns = "INSERT INTO hippocampus.schedules (tenant_id, task, next_at)"
        execute(dsn, f"{columns} VALUES ('{TENANT}', 'x', now())")
        clock.now = START + timedelta(days=900)
        before, others = rows_of(dsn, TENANT), rows_of(dsn, "/app/bob/")
        some = {"shared_state", "schedules", "pipeline_log", "profiles", "conversations"}
        assert some < {*before}
        receipt = await memory.erase(ANA)
        after = rows_of(dsn, TENANT)
        assert {*after} <= STAYS
        assert others == rows_of(dsn, "/app/bob/")
        gone = {name: len(before[name]) for name in before.keys() - STAYS - {"schedules"}}
        assert gone == {name: n for name, n in receipt.counts.items() if name not in STAYS}
        marks = len(after["tombstones"]) - len(before["tombstones"])
        assert receipt.counts["tombstones"] == marks > 0
        words = json.dumps([row for name in STAYS for row in after.get(name, [])], default=str)
        assert not [word for word in ("Lisbon", "cello", "Acme", "tea", "上海") if word in words]
        assert receipt.is_intact and not replace(receipt, counts={"memories": 1}).is_intact
        stored = await memory.erasures(ANA)
        assert receipt == stored[0] and 2 == len(stored)  # one was there before
        assert [] == await memory.erasures(BOB)
        assert stored == await memory.erasures(app="app") == await memory.erasures()
        with pytest.raises(InvalidInput, match="not both"):
            await memory.erasures(ANA, app="app")


async def test_what_comes_again_after_an_erasure_is_not_remembered(shared_memory, scope):
    memory, told, logged = shared_memory, said(1, "I live in Leeds."), said(20, "Logged only")
    await memory.append_events(scope, "t1", [told])
    log = await memory.sessions.create(scope, "s")
    await memory.sessions.append(scope, "s", logged, "{}", seen=Seen(version=log.version))
    await memory.erase(scope)
    assert set() == await memory.append_events(scope, "t1", [told])
    assert set() == await memory.append_events(scope, "s", [logged])
    assert [] == await memory.list_memories(scope)
    second = await memory.erase(scope)
    assert {} == {name: n for name, n in second.counts.items() if name not in ("threads",)}


async def test_tokens_lose_the_name_and_those_for_nobody_else_end(memory):
    make = memory.tokens.create
    own = await make("app", users=[ANA.user], label="phone of Ana")
    shared = await make("app", users=["bob", ANA.user], label="family")
    whole, foreign = await make("app"), await make("other", users=[ANA.user])
    assert 2 == (await memory.erase(ANA)).counts["api_tokens"]
    assert await memory.tokens.verify(own.text) is None
    left = await memory.tokens.verify(shared.text)
    assert (("bob",), "family") == (left.users, left.label)
    for token in (whole, foreign):
        assert token.token == await memory.tokens.verify(token.text)
    names = [(one.users, one.label) for one in await memory.tokens.list("app")]
    assert not [one for one in names if "Ana" in one[1] or ANA.user in (one[0] or ())]


async def test_a_thread_goes_with_its_session_log_and_no_other(shared_memory, shared_dsn, scope):
    memory, tenant, turn = shared_memory, scope_path(scope), said(40, "I bought a red kayak.")
    await memory.append_events(scope, "t1", [said(1, "I live in Leeds."), said(2, "I love tea.")])
    await memory.consolidate(scope, "t1")
    for thread, event in (("t4", turn), ("t5", said(50, "Logged only"))):
        log = await memory.sessions.create(scope, thread)
        await memory.sessions.append(scope, thread, event, "{}", seen=Seen(version=log.version))
    await memory.append_events(scope, "t4", [turn])
    before = rows_of(shared_dsn, tenant)
    receipt = await memory.erase(scope, "t4")
    assert "t4" == receipt.thread_id and receipt.is_intact
    assert (1, 1, 1) == tuple(receipt.counts[name] for name in ("threads", "events", "tombstones"))
    assert await memory.sessions.load(scope, "t4") is None
    assert not [one for one in await memory.list_memories(scope) if "kayak" in one.text]
    after = rows_of(shared_dsn, tenant)
    changed = {name for name in after if len(before.get(name, [])) != len(after[name])}
    assert changed - MARKS == {*receipt.counts} | {"erasures"}
    assert set() == await memory.append_events(scope, "t4", [turn])
    assert receipt in await memory.erasures(scope)


async def test_the_commands_erase_only_when_it_is_meant(shared_memory, shared_dsn, scope):
    async def call(*arguments: str) -> Result:
        return await asyncio.to_thread(run, *arguments, "--uri", shared_dsn)

    await shared_memory.remember(scope, "Ana skis.")
    refused = await call("erase", scope.app, scope.user)
    assert 2 == refused.exit_code and "--yes" in refused.output
    assert await shared_memory.list_memories(scope)
    done = await call("erase", scope.app, scope.user, "--yes", "--json")
    assert 0 == done.exit_code, done.output
    [receipt] = await shared_memory.erasures(scope)
    assert receipt.to_dict() == json.loads(done.output)
    shown = await call("erasures", "--app", scope.app, "--json")
    assert receipt.to_dict() == json.loads(shown.output.splitlines()[0])
    assert str(receipt.erasure_id)[:8] in (await call("erasures")).output
    assert 2 == (await call("erasures", "--user", "ana")).exit_code


async def test_no_id_or_hash_that_is_made_of_words_stays(shared_memory, shared_dsn, scope):
    memory, tenant = shared_memory, scope_path(scope)
    secret = {"role": "user", "content": "My diagnosis is gout."}
    other = {"role": "user", "content": "I live in Leeds."}
    profiles = memory.profiles.repository(scope)
    known = await profiles.load_or_create("app")
    for name, messages in (("sick", [secret]), ("home", [other]), (None, [secret])):
        talk = {"conversation_id": name, "messages": messages}
        known, _ = await profiles.update_with_pipeline(known, talk)
    turns = turns_of([HumanMessage("I have gout.")], "graph", START)
    await memory.append_events(scope, "graph", turns)
    assert await memory.append_events(scope, "graph", turns) == set()
    before = rows_of(shared_dsn, tenant)
    made = [str(row["event_id"]) for row in before["events"] if row["thread_id"] != "graph"]
    assert 2 == len([one for one in made if one.startswith("words-")]) and 3 == len(made)
    assert turns[0].event_id.startswith("words-")
    hashes = {bytes(row["content_hash"]) for row in before["profiles"]}  # type: ignore[call-overload]
    await memory.forget_thread(scope, "graph")
    await memory.erase(scope, "sick")
    after = rows_of(shared_dsn, tenant)
    assert not [one for one in after["tombstones"] if "sick" == one["thread_id"]]
    assert ["graph"] == [one["thread_id"] for one in after["tombstones"]]
    kept = [bytes(row["content_hash"]) for row in after["profiles"]]  # type: ignore[call-overload]
    assert len(kept) == len(before["profiles"]) and not hashes & {*kept}
    receipt = await memory.erase(scope)
    left = rows_of(shared_dsn, tenant)
    assert {"tombstones", "erasures", *MARKS} == {*left}
    ids = [str(one["event_id"]) for one in left["tombstones"]]
    assert 1 == len(ids) == receipt.counts["tombstones"] and 7 == UUID(ids[0]).version


async def test_the_planner_samples_no_words(dsn):
    clock = WholeClock()
    async with open_memory(dsn, clock=clock, worker=False) as memory:
        await fill_with_ana_and_bob(memory, clock, dsn)
    execute(dsn, "ANALYZE")
    sampled, everything = rows(dsn, SAMPLED), rows(dsn, "SELECT s::text FROM pg_statistic s")
    extended = rows(dsn, "SELECT FROM pg_statistic_ext")
    assert {("memories", "tenant_id"), ("facts", "valid_from")} < {row[:2] for row in sampled}
    assert [] == [row for row in sampled if row[2] not in HARMLESS and row[1] not in KEPT]
    # The digest of what a run wrote is a uuid, and would confirm a guess of the words.
    assert [] == extended == [row for row in sampled if row[1] == "words_key"]
    assert not [word for word in WORDS if word in str(everything)]


def test_the_index_of_a_large_tenant_has_no_sample_of_vectors(dsn, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", str(THRESHOLD))
    with store_at(dsn) as store:
        fill(store, count=600)
    build(dsn)
    execute(dsn, "ANALYZE")
    sampled = {*column(dsn, SAMPLED)}
    assert "embeddings" in sampled
    assert not [name for name in sampled if name.startswith("embeddings_near_")]


def files_with_words(empty_home: Path) -> dict[str, list[str]]:
    """Return the words in each file of a data directory and its log, the write-ahead log aside."""
    found = {}
    for path in empty_home.rglob("*"):
        if path.is_file() and "pg_wal" not in path.parts:
            content = path.read_bytes()
            if words := [word for word in WORDS if word.encode() in content]:
                found[str(path.relative_to(empty_home))] = words
    return found


@pytest.mark.tail
@pytest.mark.skipif(sys.platform == "win32", reason="the embedded server needs POSIX")
async def test_after_a_full_vacuum_no_file_holds_a_word_of_an_erased_user(empty_home):
    server, clock = EmbeddedPostgres(empty_home), WholeClock()
    dsn = server.acquire()
    try:
        async with open_memory(f"embedded://{empty_home}", clock=clock, worker=False) as memory:
            await fill_with_ana_and_bob(memory, clock, dsn)
            await memory.erase(ANA)
        execute(dsn, "CHECKPOINT")
        assert {*WORDS} == {*chain.from_iterable(files_with_words(empty_home).values())}
        execute(dsn, "VACUUM FULL", "ANALYZE", "CHECKPOINT")
        assert {} == files_with_words(empty_home)
    finally:
        server.release()
