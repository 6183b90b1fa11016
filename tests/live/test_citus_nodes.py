"""Tier "live": nodes of a Citus cluster that stop, that are added, and that are asked directly.

HIPPOCAMPUS_TEST_CITUS_DSN: a user who is no superuser, in a database with citus and vector. Its
schema hippocampus_nodes is dropped first. The nodes must have the same database and user names.

HIPPOCAMPUS_TEST_CITUS_NODE_COMMAND: a command that ends a node at once, or starts it and waits
until it answers: `COMMAND kill HOST PORT` and `COMMAND start HOST PORT`, as `pg_ctl stop -m
immediate` and `pg_ctl start -w` do. Without it the tests of dead nodes are skipped.

HIPPOCAMPUS_TEST_CITUS_ADMIN_DSN: a superuser in the same database. Without it the test that adds
a node is skipped. HIPPOCAMPUS_TEST_CITUS_SPARE: HOST:PORT of a node that runs, has the database
with both extensions, and was not added; the test adds it, and drains and removes it at its end.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
import pytest
from citus_databases import CITUS_DSN, LIVE_TIMEOUT_S
from google.adk.events.event import Event as AdkEvent
from google.genai import types
from psycopg import sql
from psycopg.conninfo import make_conninfo

from adk_memory import PgSessionService
from langgraph_store import PgHippocampusStore
from shared_core import MemoryEngine, Scope, StorageUnavailable, open_memory, run_sync
from shared_core.core.namespaces import scope_path
from shared_core.storage.postgres.connection.citus import place_of, spread
from tests.live.citus_loop import said

SCHEMA = "hippocampus_nodes"
APP = "nodes"
COMMAND = os.environ.get("HIPPOCAMPUS_TEST_CITUS_NODE_COMMAND", "")
ADMIN = os.environ.get("HIPPOCAMPUS_TEST_CITUS_ADMIN_DSN", "")
SPARE = os.environ.get("HIPPOCAMPUS_TEST_CITUS_SPARE", "")
ANSWERS_S = 90.0
"""Longest wait for the error of a dead node: more than the statement timeout of 60 s."""
pytestmark = [
    pytest.mark.skipif(not CITUS_DSN, reason="HIPPOCAMPUS_TEST_CITUS_DSN names no cluster"),
    pytest.mark.timeout(LIVE_TIMEOUT_S),
]
Node: TypeAlias = tuple[str, int]
Verb: TypeAlias = Callable[[], Awaitable[Any]]


@pytest.fixture(scope="module", autouse=True)
def schema():
    async def migrate() -> None:
        async with open_memory(CITUS_DSN, schema=SCHEMA, worker=False):
            pass

    with psycopg.connect(CITUS_DSN, autocommit=True) as owner:
        owner.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")

    async def embed() -> None:
        async with open_memory(CITUS_DSN, schema=SCHEMA, worker=False) as memory:
            await memory.remember(Scope(APP, "first"), ["The first vector names the model."])

    run_sync(migrate())
    spread(CITUS_DSN, SCHEMA)
    run_sync(embed())  # the model of a schema is stored once, on all nodes
    yield


@pytest.fixture
async def memory():
    async with open_memory(CITUS_DSN, schema=SCHEMA, worker=False) as memory:
        yield memory


def node_of(scope: Scope) -> Node:
    """Return the host and the port of the node that has the rows of a user."""
    with psycopg.connect(CITUS_DSN) as connection:
        row = connection.execute(
            "SELECT n.nodename, n.nodeport FROM pg_dist_placement p JOIN pg_dist_node n"
            " USING (groupid) WHERE p.shardid ="
            " get_shard_id_for_distribution_column(%s::regclass, %s::text)",
            [f"{SCHEMA}.threads", scope_path(scope)],
        ).fetchone()
    assert row is not None
    return str(row[0]), int(row[1])


def users_by_node(prefix: str) -> dict[Node, list[Scope]]:
    found: dict[Node, list[Scope]] = {}
    for number in range(60):
        scope = Scope(APP, f"{prefix}{number}")
        found.setdefault(node_of(scope), []).append(scope)
    assert len(found) > 1, "the cluster has one node"
    return found


def told(text: str) -> AdkEvent:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return AdkEvent(author="user", invocation_id="i", content=content)


class User:
    """All that a user does every day."""

    def __init__(self, memory: MemoryEngine, scope: Scope) -> None:
        self.memory, self.scope = memory, scope
        self.store, self.sessions = (
            PgHippocampusStore(engine=memory),
            PgSessionService(engine=memory),
        )
        self.own = (scope.app, scope.user, "notes")
        self.log: dict[str, str] = {"app_name": scope.app, "user_id": scope.user}
        self.acknowledged: list[str] = []

    async def begin(self) -> None:
        await self.sessions.create_session(**self.log, session_id="s")
        await self.store.aput(self.own, "first", {"content": "a boat"})

    async def log_event(self) -> None:
        session = await self.sessions.get_session(**self.log, session_id="s")
        assert session is not None
        await self.sessions.append_event(session, told("hi"))

    async def put(self, key: str) -> None:
        await self.store.aput(self.own, key, {"content": f"boat {key}"})
        self.acknowledged.append(key)

    def verbs(self, tag: str) -> dict[str, Verb]:
        memory, scope, store = self.memory, self.scope, self.store
        turns = [said(1, "I live in Rome."), said(2, "I row.")]
        return {"put": lambda: self.put(tag), "get": lambda: store.aget(self.own, "first"),
            "search": lambda: store.asearch(self.own, query="boat"),
            "append": lambda: memory.append_events(scope, tag, turns, later=True),
            "consolidate": lambda: memory.consolidate(scope, tag),
            "facts": lambda: memory.facts(scope), "recall": lambda: memory.recall(scope,
            "Where do I live?"), "list": lambda: memory.list_memories(scope),
            "log": self.log_event, "remember": lambda: memory.remember(scope,
            ["I play the oboe."]), "hear": lambda: memory.process_memory("My dog is Rex.",
            scope.user, app=scope.app), "graph": lambda: memory.graph.entities(scope),
            "forget turns": lambda: memory.forget_turns(scope, tag, ["e1"]),
            "delete": lambda: store.adelete(self.own, "nothing")}  # fmt: skip

    async def failures(self, tag: str) -> dict[str, BaseException]:
        found: dict[str, BaseException] = {}
        for name, verb in self.verbs(tag).items():
            [outcome] = await asyncio.gather(
                asyncio.wait_for(verb(), ANSWERS_S),  # type: ignore[arg-type] # a coroutine
                return_exceptions=True,
            )
            if isinstance(outcome, BaseException):
                found[name] = outcome
        return found

    async def kept(self) -> set[str]:
        items = await self.store.asearch(self.own, limit=10_000)
        return {item.key for item in items}


def command(verb: str, node: Node) -> None:
    subprocess.run([*shlex.split(COMMAND), verb, node[0], str(node[1])], check=True, timeout=120)


@contextmanager
def dead(node: Node) -> Iterator[None]:
    command("kill", node)
    try:
        yield
    finally:
        command("start", node)


async def until_up(user: User) -> None:
    """Wait until a node that was started takes writes again."""
    while True:
        try:
            return await user.put("up")
        except StorageUnavailable:
            await asyncio.sleep(0.5)


@pytest.mark.skipif(not COMMAND, reason="HIPPOCAMPUS_TEST_CITUS_NODE_COMMAND stops no node")
async def test_a_dead_node_stops_only_its_own_users(memory):
    """Each node dies once. Users of the others work on, in an open memory and in a new one; its own
    get StorageUnavailable, and everything acknowledged before is there when it is back."""
    found = users_by_node("dies")
    users = {node: User(memory, scopes[0]) for node, scopes in found.items()}
    for user in users.values():
        await user.begin()
        assert await user.failures("before") == {}
    for number, (node, its_user) in enumerate(users.items()):
        living = [user for other, user in users.items() if other != node]
        with dead(node):
            for user in living:
                assert await user.failures(f"down{number}") == {}
            errors = await its_user.failures(f"down{number}")
            assert set(errors) == set(its_user.verbs(""))
            assert {type(one) for one in errors.values()} == {StorageUnavailable}, errors
            assert all("remote node" in str(one) for one in errors.values()), errors
            for name, verb in _of_all_nodes(memory).items():
                with pytest.raises(StorageUnavailable):
                    await verb()
                    pytest.fail(f"{name} asked not all nodes")
            async with open_memory(CITUS_DSN, schema=SCHEMA, worker=False) as opened:
                for user in living:
                    assert await User(opened, user.scope).failures(f"new{number}") == {}
        await until_up(its_user)
        assert await its_user.failures(f"back{number}") == {}
    for user in users.values():
        assert set(user.acknowledged) <= await user.kept()


def _of_all_nodes(memory: MemoryEngine) -> dict[str, Verb]:
    """What docs/explanation/scaling.md says to need all nodes."""
    store = PgHippocampusStore(engine=memory)
    return {"policy": lambda: memory.retention.set_policy("knowledge", app=APP),
        "search": lambda: store.asearch((APP,), query="boat"), "list": store.alist_namespaces,
        "sweep": store._sweep, "receipts": lambda: memory.erasures(app=APP)}  # fmt: skip


@pytest.mark.skipif(not COMMAND, reason="HIPPOCAMPUS_TEST_CITUS_NODE_COMMAND stops no node")
async def test_writes_while_a_node_dies_and_returns_are_not_lost(memory):
    found = users_by_node("kept")
    users = [User(memory, scope) for scopes in found.values() for scope in scopes[:3]]
    for user in users:
        await user.begin()
    node, stopped, raised = next(iter(found)), asyncio.Event(), Counter[str]()

    async def write(user: User) -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            try:
                await user.put(f"k{number}")
            except StorageUnavailable:
                raised["down"] += 1
                await asyncio.sleep(0.1)

    writers = [asyncio.create_task(write(user)) for user in users]
    try:
        await _written(users, 5)
        await asyncio.to_thread(command, "kill", node)
        try:
            await _written([one for one in users if node_of(one.scope) != node], 5)
        finally:
            await asyncio.to_thread(command, "start", node)
        await _written(users, 5)
    finally:
        stopped.set()
        await asyncio.gather(*writers)  # raises whatever else a writer saw
    assert raised["down"]
    for user in users:
        assert set(user.acknowledged) <= await user.kept()


async def _written(users: list[User], more: int) -> None:
    """Wait until each user has written that many more items."""
    goals = [(user, len(user.acknowledged) + more) for user in users]
    for user, goal in goals:
        while len(user.acknowledged) < goal:  # noqa: ASYNC110 # a writer of its own counts them
            await asyncio.sleep(0.05)


@pytest.mark.skipif(not COMMAND, reason="HIPPOCAMPUS_TEST_CITUS_NODE_COMMAND stops no node")
async def test_jobs_of_living_users_are_done_while_a_node_is_dead():
    found = users_by_node("jobs")
    node, *others = found
    async with open_memory(CITUS_DSN, schema=SCHEMA, worker=False) as memory:
        for scopes in found.values():
            await memory.append_events(scopes[0], "t", [said(1, "I live in Oslo.")], later=True)
        living = [found[other][0] for other in others]
        with dead(node):
            async with open_memory(CITUS_DSN, schema=SCHEMA) as worker:
                for scope in living:
                    await worker.append_events(scope, "u", [said(2, "I sail.")], later=True)
                while [job for job in await worker.jobs.list() if job.scope in living]:
                    await worker.flush(5)
                for scope in living:
                    assert "Oslo" in {fact.value for fact in await worker.facts(scope)}
        its_user = found[node][0]
        assert [job for job in await memory.jobs.list() if job.scope == its_user]
        async with open_memory(CITUS_DSN, schema=SCHEMA) as worker:
            await until_up(User(worker, its_user))
            await worker.consolidate(its_user, "t")
            assert "Oslo" in {fact.value for fact in await worker.facts(its_user)}


def rows_on_nodes(tenant: str) -> Counter[str]:
    """Count the rows of a tenant in every shard, asked of the nodes, and in tables elsewhere."""
    found: Counter[str] = Counter()
    with psycopg.connect(CITUS_DSN) as connection:
        shards = connection.execute(
            "SELECT c.relname, shard_name, nodename, nodeport FROM citus_shards"
            " JOIN pg_class c ON c.oid = table_name::oid WHERE c.relnamespace = %s::regnamespace",
            [SCHEMA],
        ).fetchall()
        named = connection.execute(
            "SELECT c.relname, c.oid::regclass::text, %s::text, %s::int FROM pg_attribute a"
            " JOIN pg_class c ON c.oid = a.attrelid WHERE c.relkind = 'r' AND a.attname ="
            " 'tenant_id' AND c.relnamespace = %s::regnamespace",
            [connection.info.host, connection.info.port, SCHEMA],
        ).fetchall()
    whole = [row for row in named if place_of(row[0]) == "coordinator"]
    for host, port in {(row[2], row[3]) for row in [*shards, *whole]}:
        with psycopg.connect(make_conninfo(CITUS_DSN, host=host, port=port)) as node:
            node.execute("SELECT set_config('hippocampus.scope', '/', true)")
            for table, shard, *place in [*shards, *whole]:
                if place != [host, port] or table == "embedding_models":
                    continue
                name = sql.Identifier(*shard.split("."))
                counting = sql.SQL("SELECT count(*) FROM {} WHERE tenant_id = %s").format(name)
                [(count,)] = node.execute(counting, [tenant]).fetchall()
                found[table] += count
    return +found


async def test_an_erased_user_has_no_row_on_any_node(memory):
    gone, stays = Scope(APP, "gone"), Scope(APP, "stays")
    for scope in (gone, stays):
        user = User(memory, scope)
        await user.begin()
        assert await user.failures("t") == {}
        await memory.append_events(scope, "kept", [said(7, "I moved to Bergen.")])
        await memory.consolidate(scope, "kept")
    filled = rows_on_nodes(scope_path(gone))
    assert {"memories", "embeddings", "events", "threads", "facts", "runs"} <= set(filled)
    before = rows_on_nodes(scope_path(stays))
    await memory.erase(gone)
    left = rows_on_nodes(scope_path(gone))
    assert set(left) <= {"erasures", "tombstones", "writes", "coordinator_writes"}, left
    assert left["erasures"] == 1
    assert rows_on_nodes(scope_path(stays)) == before


async def test_several_workers_do_each_job_once(memory):
    scopes = [Scope(APP, f"queued{number}") for number in range(12)]
    for scope in scopes:
        await memory.append_events(scope, "t", [said(1, "I live in Oslo.")], later=True)

    async def work() -> Any:
        async with open_memory(CITUS_DSN, schema=SCHEMA, worker=False) as worker:
            return await worker.jobs.serve(once=True)

    tallies = await asyncio.gather(*(work() for _ in range(3)))
    assert sum(tally.failed for tally in tallies) == 0
    for scope in scopes:
        [run] = [one for one in await memory.runs(scope) if one.thread_id == "t"]
        assert {fact.value for fact in await memory.facts(scope)} == {"Oslo"}, run


@pytest.mark.skipif(not (ADMIN and SPARE), reason="no HIPPOCAMPUS_TEST_CITUS_ADMIN_DSN and _SPARE")
async def test_a_node_is_added_and_drained_under_writers(memory):
    """Shards move to the new node and back while everybody writes and reads: nothing is lost."""
    users = [User(memory, Scope(APP, f"moved{number}")) for number in range(8)]
    for user in users:
        await user.begin()
    stopped = asyncio.Event()

    async def write(user: User) -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            await user.put(f"k{number}")
            turn = said(number, f"I have {number} boats.")
            await memory.append_events(user.scope, "t", [turn], later=True)
            await memory.recall(user.scope, "boats")

    host, port = SPARE.rsplit(":", 1)
    writers = [asyncio.create_task(write(user)) for user in users]
    try:
        await _written(users, 3)
        await asyncio.to_thread(_administer, "SELECT citus_add_node(%s, %s)", host, int(port))
        await asyncio.to_thread(_rebalance)
        assert (host, int(port)) in set(users_by_node("moved"))
        await _written(users, 3)
        await asyncio.to_thread(
            _administer,
            "SELECT citus_set_node_property(%s, %s, 'shouldhaveshards', false)",
            host,
            int(port),
        )
        await asyncio.to_thread(_rebalance)
        assert (host, int(port)) not in set(users_by_node("moved"))
        await _written(users, 3)
    finally:
        stopped.set()
        outcomes = await asyncio.gather(*writers, return_exceptions=True)
        await asyncio.to_thread(_administer, "CALL citus_cleanup_orphaned_resources()")
        await asyncio.to_thread(_administer, "SELECT citus_remove_node(%s, %s)", host, int(port))
    assert [one for one in outcomes if one is not None] == []
    for user in users:
        assert set(user.acknowledged) <= await user.kept()


def _rebalance() -> None:
    # By logical replication a move never ends: it may not write into tables with row security.
    moving = "SELECT rebalance_table_shards(%s::regclass, shard_transfer_mode => 'block_writes')"
    _administer(moving, f"{SCHEMA}.threads")


def _administer(query: str, *values: object) -> None:
    with psycopg.connect(ADMIN, autocommit=True) as admin:
        admin.execute(query.encode(), values)
