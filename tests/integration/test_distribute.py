"""`migrate --distribute` against a stand-in for Citus: the order of its calls, runs that are cut
short, and the memory without the keys that it drops. No Citus runs here
(docs/explanation/scaling.md)."""

import asyncio
import json
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest
from commands import succeed
from postgres_admin import new_user
from psycopg.conninfo import make_conninfo
from turns import said

from shared_core import CapabilityMissing, Scope, StorageUnavailable, open_memory, run_sync
from shared_core.storage.postgres.connection import citus
from tests.contract.test_row_security import FILL, fill

STAND_IN = Path(__file__).with_name("citus_stand_in.sql").read_text("utf-8")
ANA, BEN, ZHU = Scope("app", "ana"), Scope("app", "ben"), Scope("app", "朱莉")


Admin: TypeAlias = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def owner(server):
    """The name of a user who is no superuser."""
    with new_user(server) as name:
        yield name


@pytest.fixture
def admin(owner, empty_dsn):
    """A superuser in a database of the owner, with the stand-in and a migrated schema."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute(f"ALTER DATABASE {connection.info.dbname} OWNER TO {owner}".encode())
        connection.execute(STAND_IN.encode())
        memory = open_memory(make_conninfo(empty_dsn, user=owner))
        run_sync(memory.open())
        run_sync(memory.close())
        connection.execute("SET search_path TO hippocampus, public")
        yield connection


@pytest.fixture
def own_dsn(owner, empty_dsn, admin):
    return make_conninfo(empty_dsn, user=owner)


def state(admin: Admin) -> dict[str, object]:
    """Return what a run that fails must leave as it was."""

    def ask(query: str) -> list[object]:
        return [row[0] for row in admin.execute(query.encode()).fetchall()]

    tables = ask("SELECT tablename FROM pg_tables WHERE schemaname = 'hippocampus' ORDER BY 1")
    return {
        "rows": {name: ask(f"SELECT count(*) FROM {name}") for name in tables},
        "keys": ask("SELECT conname FROM pg_constraint WHERE contype = 'f' ORDER BY 1"),
        "forced": ask("SELECT relname FROM pg_class WHERE relforcerowsecurity ORDER BY 1"),
        "spread": ask("SELECT count(*) FROM pg_dist_partition"),
        "settings": ask(
            "SELECT setconfig::text FROM pg_db_role_setting"
            " WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ),
    }


def calls(admin: Admin) -> list[tuple[object, ...]]:
    made = admin.execute("SELECT call, relation FROM stand_in_calls ORDER BY number").fetchall()
    admin.execute("DELETE FROM stand_in_calls")
    return made


def test_tables_with_rows_are_moved_once_and_in_an_order_that_keeps_their_keys(admin, own_dsn):
    admin.execute("INSERT INTO embedding_models VALUES ('m', 1, true, now())")
    for tenant in ("/app/ana/", "/app/朱莉/"):
        for table in FILL:
            fill(admin, table, tenant)
    before = state(admin)
    found = citus.spread(own_dsn, "hippocampus")
    after = state(admin)
    elsewhere = {one.table for one in found if citus.place_of(one.table) != "coordinator"}
    assert {one.table for one in found if one.moved} == elsewhere
    assert (after["rows"], after["forced"]) == (before["rows"], before["forced"])
    gone = set(before["keys"]) - set(after["keys"])  # type: ignore[call-overload]
    assert gone == {"consolidation_jobs_tenant_id_thread_id_fkey"}
    made = calls(admin)
    first = [*(("reference", name) for name in citus.REFERENCES), ("distribute", "threads")]
    assert made[: len(first)] == first
    spread_tables = [one.table for one in found if one.place != "coordinator"]
    policies = "SELECT qual, with_check FROM pg_policies WHERE tablename = ANY(%s)"
    written = admin.execute(policies, [spread_tables]).fetchall()
    assert written and not any("SELECT" in str(one) for one in written)
    assert sorted(made) == sorted(
        [("reference", name) for name in citus.REFERENCES]
        + [("distribute", one.table) for one in found if one.place == "distributed"]
        + [("truncate", one.table) for one in found if one.place != "coordinator"]
    )
    assert not {name for _, name in made} & set(citus.ON_COORDINATOR)
    assert not any(one.moved for one in citus.spread(own_dsn, "hippocampus"))
    assert {call for call, _ in calls(admin)} == {"truncate"}  # what a run before did not come to
    assert state(admin) == after


def test_a_table_of_a_later_version_is_moved_by_the_next_run(admin, own_dsn, owner):
    citus.spread(own_dsn, "hippocampus")
    calls(admin)
    admin.execute(
        f"SET ROLE {owner}; CREATE TABLE later (tenant_id text COLLATE \"C\" NOT NULL,"
        " thread_id text COLLATE \"C\", PRIMARY KEY (tenant_id, thread_id), FOREIGN KEY"
        " (tenant_id, thread_id) REFERENCES threads); SELECT protect('later'); RESET ROLE".encode()
    )  # fmt: skip
    assert [one.table for one in citus.spread(own_dsn, "hippocampus") if one.moved] == ["later"]
    assert [name for call, name in calls(admin) if call == "distribute"] == ["later"]


@pytest.mark.parametrize("table", ["embedding_models", "threads", "facts", "run_changes"])
def test_a_run_that_fails_midway_changes_nothing_and_may_be_repeated(table, admin, own_dsn):
    before = state(admin)
    admin.execute("INSERT INTO stand_in_fails_at VALUES (%s)", [table])
    with pytest.raises(StorageUnavailable, match=f"nothing was changed: the node of {table}"):
        citus.spread(own_dsn, "hippocampus")
    assert state(admin) == before
    assert [] == calls(admin)
    admin.execute("DELETE FROM stand_in_fails_at")
    found = citus.spread(own_dsn, "hippocampus")
    assert all(one.moved or one.place == "coordinator" for one in found)


def test_what_no_schema_has_is_not_spread(admin, own_dsn):
    with pytest.raises(CapabilityMissing, match="hippocampus migrate"):
        citus.spread(own_dsn, "elsewhere")
    assert [] == calls(admin)


async def test_the_memory_works_without_the_keys_that_went(admin, own_dsn):
    async with open_memory(own_dsn) as memory:
        await memory.append_events(ANA, "before", [said(0, "I live in Oslo.")], later=True)
    command = ("migrate", "--distribute", "--json", "--uri", own_dsn)
    tables = json.loads(await asyncio.to_thread(succeed, *command))["tables"]
    moved = {(one["moved"], one["place"] == "coordinator") for one in tables}
    assert {(True, False), (False, True)} == moved
    async with open_memory(own_dsn) as memory:
        assert (await memory.report()).role == "none"
        await memory.append_events(ANA, "t", [said(1, "I moved to Bergen.")], later=True)
        await memory.append_events(ZHU, "t", [said(1, "我住在深圳。")], later=True)
        await memory.append_events(BEN, "t", [said(1, "I play the oboe.")], later=True)
        assert await memory.flush(60)
        assert "Bergen" in {fact.value for fact in await memory.facts(ANA)}
        assert "深圳" in (await memory.recall(ZHU, "我住在哪里？"))[0].memory.text
        await memory.undo_run(ANA, (await memory.runs(ANA))[0].run_id)
        assert "Bergen" not in {fact.value for fact in await memory.facts(ANA)}
        assert await memory.forget_turns(ANA, "before", ["e0"])
        await memory.append_events(BEN, "again", [said(2, "I sold the oboe.")], later=True)
        await memory.erase(BEN, "again")
        assert {"t"} == set(_threads_of_jobs(admin, "/app/ben/"))
        assert (await memory.erase(BEN)).counts["threads"] >= 1
        assert [] == _threads_of_jobs(admin, "/app/ben/")
        await memory.forget_scope(ZHU)
        assert [] == await memory.list_memories(ZHU)
        assert [] == _threads_of_jobs(admin, "/app/朱莉/")


async def test_a_session_that_ends_takes_its_jobs_along(admin, own_dsn):
    citus.spread(own_dsn, "hippocampus")
    async with open_memory(own_dsn, worker=False) as memory:
        await memory.append_events(ANA, "kept", [said(1, "I sail.")], later=True)
        await memory.append_events(ANA, "gone", [said(2, "I ski.")], later=True)
        await memory.forget_turns(ANA, "gone", ["e2"])
        assert {"kept", "gone"} == set(_threads_of_jobs(admin, "/app/ana/"))
        await memory.sessions.delete(ANA, "gone")
        assert {"kept"} == set(_threads_of_jobs(admin, "/app/ana/"))


def _threads_of_jobs(admin: Admin, tenant: str) -> list[object]:
    found = admin.execute("SELECT thread_id FROM consolidation_jobs WHERE tenant_id = %s", [tenant])
    return [thread for (thread,) in found.fetchall()]
