"""Tier "live": a Citus cluster, named by HIPPOCAMPUS_TEST_CITUS_DSN: a user who is no superuser, in
a database that has the extensions citus and vector. Its schemas hippocampus_live and hippocampus
are dropped first."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any
from unittest.mock import MagicMock

import psycopg
import pytest
from citus_databases import CITUS_DSN as DSN, LIVE_TIMEOUT_S
from pgvector.psycopg import register_vector
from psycopg import ClientCursor
from toy_models import Letters
from typer.testing import CliRunner

from langgraph_store import PgHippocampusStore
from shared_core import InvalidInput, MemoryEngine, Scope, open_memory
from shared_core.cli.main import app
from shared_core.models.embedders import resolve_embedder
from shared_core.storage.postgres.connection.citus import bound_everywhere, place_of
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import Step
from tests.live.citus_loop import PARTS, said

SCHEMA = "hippocampus_live"
pytestmark = [
    pytest.mark.skipif(not DSN, reason="HIPPOCAMPUS_TEST_CITUS_DSN names no cluster"),
    pytest.mark.timeout(LIVE_TIMEOUT_S),
]
ANA, ZHU = Scope("app", "ana"), Scope("app", "朱莉")

_NOBODY = MagicMock()
_NOBODY.__class__ = MemoryEngine  # type: ignore[assignment] # only the names of the steps are read
STEPS = [name for part in PARTS for name in part(_NOBODY)]


@pytest.fixture(scope="module", autouse=True)
def schema():
    """A schema that an ordinary user migrated and distributed by the command."""
    with psycopg.connect(DSN, autocommit=True) as owner:
        owner.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    first = distributed()
    assert all(one["moved"] == (place_of(one["table"]) != "coordinator") for one in first)
    assert not any(one["moved"] for one in distributed())
    yield


def distributed() -> list[dict[str, Any]]:
    """Run the command, and return the place of each table and whether it was moved there."""
    command = ["migrate", "--distribute", "--json", "--uri", DSN, "--schema", SCHEMA]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    tables: list[dict[str, Any]] = json.loads(result.stdout)["tables"]
    return tables


@pytest.fixture(scope="module")
def failures(schema):
    """What failed of the loop, step by step."""
    found: dict[str, str] = {}

    async def run() -> None:
        async with open_memory(DSN, schema=SCHEMA) as memory:
            for name, work in [step for part in PARTS for step in part(memory).items()]:
                sent = asyncio.wait_for(work(), 60)  # type: ignore[arg-type] # a coroutine
                [outcome] = await asyncio.gather(sent, return_exceptions=True)
                if isinstance(outcome, BaseException):
                    found[name] = f"{type(outcome).__name__}: {outcome}"

    asyncio.run(run())
    return found


@pytest.mark.parametrize("name", STEPS)
def test_the_loop_runs_on_a_cluster(failures, name):
    assert failures.get(name) is None


async def test_row_security_holds_on_every_node():
    async with open_memory(DSN, schema=SCHEMA, worker=False) as memory:
        for scope in (ANA, ZHU):
            await memory.append_events(scope, "t", [said(1, f"I am {scope.user}.")], later=True)
    with psycopg.connect(DSN) as connection:
        for seen, bound in (("/app/ana/", "/app/ana/"), ("/app/ana/", "/app/朱莉/")):
            for text, _ in bound_everywhere(
                {"search_path": SCHEMA, "statement_timeout": "9000", "scope": bound}
            ):
                connection.execute(text)
            for table in ("memories", "events", "threads", "memory_sources"):
                rows = connection.execute(
                    f"SELECT DISTINCT tenant_id FROM {table} WHERE tenant_id = %s",  # type: ignore[arg-type]
                    [seen],
                ).fetchall()
                assert rows == ([(seen,)] if seen == bound else []), (table, bound)
            assert connection.execute("SELECT DISTINCT tenant_id FROM memories").fetchall() == [
                (bound,)
            ]
            connection.rollback()
    database_error = b"UPDATE memories SET kind = 'item' WHERE tenant_id = '/app/ana/' RETURNING 1"
    async with open_memory(DSN, schema=SCHEMA, worker=False) as memory:
        database: PostgresDatabase = memory._storage._database  # type: ignore[attr-defined]
        [rows] = await database.run("/app/朱莉/", Step("foreign", database_error, {}))
        assert rows == []
        thread = (
            b"INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)"
            b" VALUES ('/app/ana/', 'x', now(), now())"
        )
        with pytest.raises(InvalidInput, match="another scope"):
            await database.run("/app/朱莉/", Step("foreign", thread, {}))


async def test_vectors_of_another_model_take_the_place_of_the_old_ones():
    """On all nodes, and back again, because a schema has one model."""
    users = [Scope("models", f"u{number}") for number in range(8)]
    async with open_memory(DSN, schema=SCHEMA, worker=False) as memory:
        for scope in users:
            await memory.remember(scope, ["I sail to Bergen.", "I row."])
        report = await memory.reembed(Letters(), drop_old=True)
        assert report.dropped == report.embedded >= 16
        async with open_memory(DSN, schema=SCHEMA, embedder=Letters(), worker=False) as other:
            for scope in users:
                [hit, *_] = await other.search(scope, "I sail to Bergen.")
                assert hit.memory.text == "I sail to Bergen."
            back = await other.reembed(resolve_embedder("e5"), drop_old=True)
            assert back.dropped == report.embedded


@pytest.fixture
def other_dsn(citus):
    """The DSN of another distributed schema, empty."""
    yield from citus.lend()


@pytest.mark.parametrize("vectors", [True, False])
async def test_an_application_moves_into_another_schema(other_dsn, vectors):
    name = f"moving_{vectors}"
    users = [Scope(name, f"u{number}") for number in range(4)]
    async with open_memory(DSN, schema=SCHEMA, worker=False) as memory:
        for scope in users:
            await memory.append_events(scope, "t", [said(1, "I live in Bergen.")])
            await memory.consolidate(scope, "t")
            await memory.append_events(scope, "t", [said(2, "I row.")])
        lines = [line async for line in memory.export(app=name, vectors=vectors)]
    async with open_memory(other_dsn, worker=False) as other:
        for _ in range(2):  # what is there stays as it is
            await other.import_lines(lines)
        assert [line async for line in other.export(app=name, vectors=vectors)][1:] == lines[1:]
        for scope in users:
            assert {fact.value for fact in await other.facts(scope)} == {"Bergen"}
            assert "Bergen" in str(await other.recall(scope, "Where do I live?"))


async def test_expired_items_of_all_users_are_swept_and_their_receipts_listed():
    async with open_memory(DSN, schema=SCHEMA, worker=False) as memory:
        store = PgHippocampusStore(engine=memory)
        for number in range(8):
            await store.aput(("sweep", f"u{number}"), "k", {"v": 1}, ttl=1e-4)
        await asyncio.sleep(0.1)
        assert await store._sweep() >= 8
        for number in range(8):
            await memory.erase(Scope("receipts", f"u{number}"))
        assert len(await memory.erasures(app="receipts")) == 8


async def test_the_users_who_have_memories_are_listed_and_counted():
    async with open_memory(DSN, schema=SCHEMA, worker=False) as memory:
        users = [Scope("directory", f"u{number}") for number in range(8)]
        for scope in users:
            await memory.remember(scope, "I sail.")
        found = await memory.users("directory", limit=5)
        found = [*found, *await memory.users("directory", after=found[-1].scope)]
        assert users == [one.scope for one in found]
        assert {1} == {one.memories for one in found}
        [listed] = await memory.list_memories(users[0], contains="SAIL")
        assert [] == await memory.list_memories(users[0], thread_id="t")
        assert [1] == list(await memory.count_memories(users[0], [listed.occurred_at]))
        assert "I sail." == (await memory.memory(users[0], listed.key)).memory.text


@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_the_command_says_that_a_cluster_has_no_approximate_indexes(option):
    refused = CliRunner().invoke(app, ["index", *option, "--uri", DSN, "--schema", SCHEMA])
    assert refused.exit_code == 1
    assert "a Citus cluster has no approximate indexes" in refused.stderr


def test_the_doctor_finds_row_security_enforced():
    found = CliRunner().invoke(app, ["doctor", "--json", "--uri", DSN, "--schema", SCHEMA])
    assert "enforced: a row of one scope was seen inside it and not outside" in found.stdout


def plan_of(sent: Step, scope: str) -> str:
    with psycopg.connect(DSN, cursor_factory=ClientCursor) as connection:
        path = f"{SCHEMA}, public"
        register_vector(connection)
        for text, _ in bound_everywhere(
            {"search_path": path, "statement_timeout": "9000", "scope": scope}
        ):
            connection.execute(text)
        text = b"EXPLAIN (COSTS OFF) " + re.sub(rb"(%\(\w+\))b", rb"\1s", sent.text)
        rows = connection.execute(text, dict(sent.values)).fetchall()
        connection.rollback()
    return "\n".join(row[0] for row in rows)


@pytest.fixture(scope="module")
def plans(schema):
    """The plans of the statements of each verb, but for those of the coordinator."""
    sent: list[tuple[str, Step]] = []
    found: dict[str, dict[str, str]] = {}
    run = PostgresDatabase.run

    async def noted(self: PostgresDatabase, scope: str, *steps: Step, **more: Any) -> Any:
        sent.extend((scope, one) for one in steps)
        return await run(self, scope, *steps, **more)

    async def verbs() -> None:
        async with open_memory(DSN, schema=SCHEMA, worker=False, track_access=False) as memory:
            store = PgHippocampusStore(engine=memory)
            own = ("app", "ana", "notes")
            await memory.append_events(ANA, "p", [said(7, "I sail to Bergen.")])
            for name, work in {
                "append": lambda: memory.append_events(ANA, "p", [said(8, "I row.")], later=True),
                "put": lambda: store.aput(own, "k", {"content": "a boat"}),
                "get": lambda: store.aget(own, "k"),
                "search": lambda: store.asearch(own, query="boat"),
                "recall": lambda: memory.recall(ANA, "Where do I sail?"),
                "list": lambda: memory.list_memories(ANA),
            }.items():
                sent.clear()
                await work()
                found[name] = {one.name: plan_of(one, scope) for scope, one in sent}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresDatabase, "run", noted)
        asyncio.run(verbs())
    return {
        verb: {name: plan for name, plan in each.items() if "Citus" in plan}
        for verb, each in found.items()
    }


def tasks(plan: str) -> list[int]:
    return [int(number) for number in re.findall(r"Task Count: (\d+)", plan)]


@pytest.mark.parametrize("verb", ["get", "search", "recall", "list"])
def test_a_read_of_one_user_is_one_task_on_one_node(plans, verb):
    assert plans[verb]
    for name, plan in plans[verb].items():
        assert "Distributed Subplan" not in plan, name
        assert tasks(plan) == [1], name


@pytest.mark.parametrize("verb", ["put", "append"])
def test_a_write_of_one_user_is_on_one_node(plans, verb):
    assert plans[verb]
    for name, plan in plans[verb].items():
        assert all(count == 1 for count in tasks(plan)), name


@pytest.mark.parametrize(
    "verb",
    [
        "put",
        pytest.param(
            "append",
            marks=pytest.mark.xfail(reason="turns are numbered from their thread", strict=True),
        ),
    ],
)
def test_a_write_of_one_user_is_one_task(plans, verb):
    for name, plan in plans[verb].items():
        assert "Distributed Subplan" not in plan, name
        assert tasks(plan) == [1], name
