"""Forgetting reads and writes what is forgotten and nothing else, whatever there is beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest
from policy_plans import BIND, add_memories, connections
from postgres_databases import PostgresDatabases

from shared_core.core.namespaces import from_path
from shared_core.policies import fading, retention_counts
from shared_core.ports.operations import Last, Policy
from shared_core.retention.pages import by_tenant
from shared_core.storage.postgres.connection.operations import compiled
from shared_core.storage.postgres.connection.statements import statement

TENANTS, PER_TENANT, DUE = 100, 100, 100
NOW = datetime(2026, 3, 1, tzinfo=UTC)
VALUES: dict[str, object] = {
    "tenant": "/", "tenant_end": "0", "now": NOW, "limit": 1000,
    "after_at": "-infinity", "after_tenant": "", "after_id": UUID(int=0),
}  # fmt: skip
T = TypeVar("T")
Written = dict[str, tuple[int, int, int]]
WORK = """
    SELECT relname, n_tup_ins, n_tup_upd, n_tup_del, seq_tup_read,
           (SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0) FROM pg_index
            WHERE indrelid = relid)
    FROM pg_stat_xact_user_tables WHERE schemaname = 'hippocampus'"""


@pytest.fixture(scope="module")
def filled(postgres: PostgresDatabases) -> Iterator[psycopg.Connection[Any]]:
    """10,000 turns with sources, events, vectors and counters; one in a hundred is due."""
    for connection in connections(postgres):
        add_memories(
            connection, f"generate_series(1, {TENANTS}) t, generate_series(1, {PER_TENANT}) n",
            kind="'episodic'", terms="'word'", term_count="1", thread_id="'t'",
            **dict.fromkeys(("occurred_at", "created_at", "updated_at"), "'2025-01-01'"),
        )  # fmt: skip
        for query in (
            "INSERT INTO embedding_models VALUES ('m', 3, true, now())",
            "INSERT INTO embeddings"
            " SELECT tenant_id, 'm', memory_id, 'text', '[1,2,3]' FROM memories",
            "INSERT INTO memory_sources SELECT tenant_id, memory_id, 't', key FROM memories",
            "INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)"
            " SELECT DISTINCT tenant_id, 't', now(), now() FROM memories",
            "INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text,"
            " occurred_at, recorded_at, memory_seq) SELECT tenant_id, 't', key::int, key, 'user',"
            " 'user', text, occurred_at, occurred_at, key::int FROM memories",
            "INSERT INTO memory_access (tenant_id, memory_id, forget_at)"
            " SELECT tenant_id, memory_id, CASE WHEN key = '7' THEN timestamptz '2026-01-01'"
            " ELSE '2027-01-01' END FROM memories",
            "INSERT INTO retention_policies"
            " VALUES ('/', 'episodic', true, 0.1, 0.1, 7, 1, 0, 1, 0, true, now())",
            "VACUUM ANALYZE",
        ):
            connection.execute(query.encode())
        yield connection


def work(connection: psycopg.Connection[Any]) -> dict[str, tuple[int, ...]]:
    """What this transaction inserted, updated, deleted, and read by scans and by indexes."""
    return {row[0]: row[1:] for row in connection.execute(WORK.encode()).fetchall()}


def bind(connection: psycopg.Connection[Any], path: str) -> None:
    connection.execute(BIND, [path])
    connection.execute("SELECT set_config('plan_cache_mode', 'force_generic_plan', true)")


def across(connection: psycopg.Connection[Any], name: str, **values: object) -> list[Any]:
    """Return the rows of a statement that reads memories of many users."""
    path = str(values.get("tenant", "/"))
    bind(connection, path)
    connection.execute(statement("by_index"))
    sent = statement(name, one_tenant=len(from_path(path)) == 2)
    rows = connection.execute(sent, {**VALUES, **values}).fetchall()
    connection.execute(
        "SELECT set_config('enable_sort', 'on', true), set_config('enable_seqscan', 'on', true),"
        " set_config('enable_bitmapscan', 'on', true)"
    )
    return rows


def driven(connection: psycopg.Connection[Any], tenant: str, policy: Policy[T]) -> T:
    """Run a policy in the transaction of a connection."""
    rows = None
    try:
        while True:
            batch = policy.send(rows)  # type: ignore[arg-type] # None starts it
            rows = []
            for one in batch.operations if isinstance(batch, Last) else batch:
                text, values = compiled(one, tenant)  # type: ignore[arg-type] # no verb
                cursor = connection.execute(text.replace(b")b", b")s"), values)
                rows.append(cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        result: T = end.value
        return result


def of_due(
    connection: psycopg.Connection[Any], **values: object
) -> Iterator[tuple[str, list[UUID]]]:
    rows = across(connection, "due_memories", **values)
    for group in by_tenant(((tenant, one) for _, tenant, one in rows), 1000):
        yield from ((tenant, list(ids)) for tenant, ids in group.items())


def changed(
    before: dict[str, tuple[int, ...]], after: dict[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    return {
        table: tuple(now - then for now, then in zip(row, before[table], strict=True))
        for table, row in after.items()
    }


NEW, MOVED, GONE = (DUE, 0, 0), (0, DUE, 0), (0, 0, DUE)
STAGES: Sequence[tuple[int, Written]] = [
    (0, {"memories": MOVED, "memory_access": MOVED}),
    (1, {"memories": MOVED, "memory_access": MOVED, "memory_archive": NEW, "embeddings": GONE}),
    (2, {"memories": GONE, "memory_access": GONE, "embeddings": GONE, "memory_sources": GONE,
         "tombstones": NEW, "events": GONE}),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "written"), STAGES)
@pytest.mark.parametrize("in_sql", [False, True])
def test_a_run_writes_what_it_forgets_and_reads_little_more(
    filled: psycopg.Connection[Any], stage: int, written: Written, in_sql: bool
) -> None:
    filled.execute("VACUUM")  # an index returns what a run that was rolled back has left in it
    with filled.transaction(force_rollback=True):
        filled.execute(
            "UPDATE memory_access SET stage = %s, staged_at = '2025-06-01'"
            " WHERE forget_at < '2026-02-01'",
            [stage],
        )
        before = work(filled)
        if in_sql:
            bind(filled, "/")
            call = "SELECT * FROM forget_faded('/', %s, 1000)"
            [(_, _, count)] = filled.execute(call, [NOW]).fetchall()
        else:
            counts: Counter[Any] = Counter()
            for tenant, ids in of_due(filled):
                counts += driven(filled, tenant, fading.move_on(tenant, ids, NOW)).counts
            [count] = counts.values()
        after = work(filled)
    assert DUE == count
    done = changed(before, after)
    # Policies are noted by the seam; here they run without it. Each due memory is another user's.
    noted = {"memory_changes": (DUE, 0, 0)} if in_sql else {}
    rows = {table: row[:3] for table, row in done.items() if any(row[:3])}
    assert {**written, **noted} == rows
    scanned = {table: row[3] for table, row in done.items() if row[3]}
    scanned.pop("threads", 0)  # its hundred rows fill one page
    policies = scanned.pop("retention_policies", 0)
    assert ({}, True) == (scanned, policies <= 10 * DUE)
    looked_up = {table: row[4] for table, row in done.items() if row[4] > 8 * DUE}
    if not in_sql:  # a delete and an update of pairs, which may read a short thread each
        assert looked_up.pop("events", 0) <= 2 * PER_TENANT * DUE
    assert {} == {table: n for table, n in looked_up.items() if table != "retention_policies"}


def test_a_dry_run_reads_what_is_due(filled: psycopg.Connection[Any]) -> None:
    with filled.transaction(force_rollback=True):
        before = work(filled)
        ahead = [
            driven(filled, tenant, fading.what_moves_on(tenant, ids, NOW))
            for tenant, ids in of_due(filled)
        ]
        done = changed(before, work(filled))
    assert DUE == sum(len(one.fates) for one in ahead)
    for table in ("memories", "memory_access"):
        assert (0, 0, 0, 0) == done[table][:4]
        assert done[table][4] <= 4 * DUE


def test_counting_reads_looks_each_memory_up(filled: psycopg.Connection[Any]) -> None:
    rows = filled.execute("SELECT memory_id FROM memories WHERE tenant_id = '/app/u7/' LIMIT 10")
    ids = [row[0] for row in rows.fetchall()]
    values = {"tenant": "/app/u7/", "memory_ids": ids, "counts": [1] * 10,
              "moments": ["2026-01-01"] * 10}  # fmt: skip
    with filled.transaction(force_rollback=True):
        before = work(filled)
        bind(filled, "/app/u7/")
        for name in ("add_accesses", "time_accesses"):
            filled.execute(statement(name).replace(b")b", b")s"), values)
        change = changed(before, work(filled))
    assert {"memory_access": (0, 20, 0)} == {
        t: row[:3] for t, row in change.items() if any(row[:3])
    }
    assert 0 == change["memories"][3] == change["memory_access"][3]
    assert change["memories"][4] <= 40


@pytest.mark.parametrize("path", ["/", "/app/u7/"])
def test_statistics_look_up_the_memories_below_a_path_alone(
    filled: psycopg.Connection[Any], path: str
) -> None:
    end = path[:-1] + "0"
    with filled.transaction(force_rollback=True):
        before = work(filled)
        rows = across(filled, "memories_below", tenant=path, tenant_end=end, limit=1_000_000)
        counted = retention_counts.Counted(leaving={})
        for group in by_tenant(rows, 1_000_000):
            for tenant, ids in group.items():
                counted.add(driven(filled, tenant, retention_counts.count(tenant, ids, NOW, [])))
        done = changed(before, work(filled))
    everything = (TENANTS if path == "/" else 1) * PER_TENANT
    assert everything == sum(row.count for row in counted.rows())
    for table in ("memories", "memory_access"):
        assert (0, 0, 0, 0) == done[table][:4]
        assert done[table][4] <= 3 * everything


@pytest.mark.parametrize(
    ("name", "table", "most", "after"),
    [
        ("due_memories", "memory_access", DUE + 1, {}),  # all of them are due at the same moment
        ("memories_below", "memories", 20, {"after_tenant": "/app/u5/"}),
    ],
)
def test_a_page_reads_no_further_than_its_limit(
    filled: psycopg.Connection[Any], name: str, table: str, most: int, after: dict[str, object]
) -> None:
    with filled.transaction(force_rollback=True):
        before = work(filled)
        rows = across(filled, name, limit=10, **after)
        done = changed(before, work(filled))
    assert 10 == len(rows)
    assert 0 == done[table][3] and done[table][4] <= most
