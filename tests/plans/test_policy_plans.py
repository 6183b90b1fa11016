"""How many rows policies read and write: of the graph, of profiles, and by forgetting."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import policy_plans as plans
import psycopg
import pytest
from every_case import every_case

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.namespaces import from_path
from shared_core.policies import fading, profiles, retention_counts
from shared_core.policies.edges import edges_of
from shared_core.policies.facts import FactQuery
from shared_core.policies.profile_versions import drop_profile, save_profile
from shared_core.policies.spells import known_spells
from shared_core.ports.operations import Last, Policy
from shared_core.ports.profiles import NewVersion, ProfileRun, ProfileVersion
from shared_core.retention.pages import by_tenant
from shared_core.storage.postgres.connection.operations import compiled
from shared_core.storage.postgres.connection.statements import statement

NOW = datetime(2100, 1, 1, tzinfo=UTC)
HUB = 10_000
ANN = "/app/ann/"
VALUES = {
    "tenant": ANN, "key": "hub", "depth": 3, "limit": 50, "valid": None, "known": None,
    "now": "2100-01-01", "begin": "-infinity", "end": "infinity", "relation": "knows",
    "value": "p7", "path": "/memories/", "path_end": "/memories0", "kinds": None,
    "thread_id": None, "offset": 0,
}  # fmt: skip
EDGES = """
    INSERT INTO edges (tenant_id, edge_id, subject, relation, object, subject_key, object_key,
                       valid_from, recorded_at, valid_until, superseded_at)
    SELECT %s, gen_random_uuid(), %s, 'knows', 'p' || n, %s, 'p' || n,
           timestamptz '2026-01-01' + n * interval '1 second', now(), %s, %s
    FROM generate_series(1, %s) n"""


@pytest.fixture(scope="module")
def hubs(postgres):
    """Two hubs that know the same 10,000 people, one that knew them, and 50 other tenants."""
    for connection in plans.connections(postgres):
        for name, end in (("hub", None), ("other hub", None), ("past", "2026-06-01")):
            connection.execute(EDGES, [ANN, name, name, end, end, HUB])
        for number in range(50):
            connection.execute(EDGES, [f"/app/u{number}/", "hub", "hub", None, None, 200])
        connection.execute("ANALYZE")
        yield connection


def scans(
    connection: psycopg.Connection[Any],
    query: bytes,
    table: str,
    values: Any = VALUES,
    *,
    in_order: bool = True,
) -> list[plans.Node]:
    """Return the nodes of the plan of a statement that read a table, or an index as a bitmap."""
    with connection.transaction(force_rollback=True):
        connection.execute(plans.BIND, [ANN])
        if in_order:
            connection.execute(statement("read_in_order"))
        found = plans.explained(connection, query, values)
    bitmaps = [node for node in found if node["Node Type"] == "Bitmap Index Scan"]
    return plans.of_table(found, table) + bitmaps


def test_a_walk_from_a_hub_costs_what_it_returns_and_slots_and_ends_have_an_index(hubs):
    read = scans(hubs, statement("walk"), "edges")
    assert "Seq Scan" not in plans.kinds(read)
    assert 0 < plans.touched(read) <= 2_000
    plans.add_memories(hubs, "generate_series(1, 2000) n", tenant_id=f"'{ANN}'", kind="'semantic'")
    hubs.execute(
        """INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional,
               confidence, extractor, pattern, valid_from, recorded_at)
           SELECT tenant_id, memory_id, 'custom', CASE WHEN key <= '1' THEN 'employer' ELSE 'like'
               END, key, '1', false, 1, 'x', 'p', now(), now() FROM memories"""
    )
    hubs.execute("ANALYZE memories, facts")
    for asked in FactQuery(now=NOW, slot="employer").selects():
        query, values = compiled(asked, ANN)
        assert 0 < plans.touched(scans(hubs, query.replace(b")b", b")s"), "facts", values)) < 10
    # Only ends that were known before are compared with now, and they have an index.
    plans.add_memories(
        hubs, "generate_series(1, 5000) n", tenant_id=f"'{ANN}'", kind="'semantic'",
        key="'ended ' || n", superseded_at="now()",
    )  # fmt: skip
    hubs.execute(
        """INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional,
               confidence, extractor, pattern, valid_from, recorded_at, valid_until, superseded_at)
           SELECT tenant_id, memory_id, 'custom', 'like', key, '1', false, 1, 'x', 'p',
               now() - interval '2 days', now(), now() - interval '1 day',
               CASE WHEN key = 'ended 7' THEN now() - interval '2 days' ELSE now() END
           FROM memories WHERE key LIKE 'ended %'"""
    )
    hubs.execute("ANALYZE memories, facts")
    listed = statement("list_memories", literals=(("direction", "DESC"),))
    read = scans(hubs, listed, "facts", in_order=False)
    assert "Seq Scan" not in plans.kinds(read)
    assert plans.touched(read) <= 2


@every_case(
    (edges_of("hub", 50, NOW, None), 200),
    (known_spells("hub", "knows", "", alone=False, now=NOW), HUB * 1.5)
)  # fmt: skip
def test_the_edges_of_a_hub_are_looked_up_by_an_index(policy, most, hubs):
    edges = plans.of_table(plans.reads_of(hubs, ANN, policy), "edges")
    assert edges and "Seq Scan" not in plans.kinds(edges)
    assert 0 < plans.touched(edges) <= most


PROFILES, VERSIONS, MEMORIES = 40, 60, 60
"""As many versions as memories, so that one series fills all tables."""
ONE = UUID("00000000-0000-7000-8000-000000000007")
SCOPE = Scope("app", "u7")
NAMESPACE = "/profile/user/bot/"
PRESENT = datetime.now(UTC)
EMPTY = {"threads", "events", "memory_bases"}


@pytest.fixture(scope="module")
def versions(postgres):
    """40 users with a profile of 60 versions, each of 60 memories, and a log of every run."""
    ids = "('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid"
    many = f"generate_series(1, {PROFILES}) t, generate_series(1, {MEMORIES}) n"
    of = "SELECT '/app/u' || t || '/'"
    for connection in plans.connections(postgres):
        plans.add_memories(connection, many, memory_id=ids, namespace=f"'{NAMESPACE}'")
        for query in (
            f"INSERT INTO memory_sources {of}, {ids}, 't', 'e' || n FROM {many}",
            "INSERT INTO profiles (tenant_id, subject_kind, subject_id, version, content_hash,"
            f" run_id, created_at, memory_id, entries) {of}, 'user', 'bot', n, '', {ids}, now(),"
            f" '{ONE}', (SELECT jsonb_agg(jsonb_build_object('id', '00000000-0000-7000-8000-'"
            " || lpad(x::text, 12, '0'), 'role', 'event')) FROM generate_series(1, 60) x)"
            f" FROM {many}",
            "INSERT INTO runs (tenant_id, run_id, kind, extractor, started_at, finished_at)"
            f" {of}, {ids}, 'profile', 'x', now(), now() FROM {many}",
            "INSERT INTO pipeline_log (tenant_id, run_id, step, stage, started_at, duration_s,"
            f" memory_id) {of}, {ids}, 1, 's', now() + n * interval '1 s', 1, '{ONE}' FROM {many}",
            f"INSERT INTO tombstones {of}, 't', 'x' || n, now() FROM {many}",
            "ANALYZE",
        ):
            connection.execute(query.encode())
        yield connection


NEWEST = ProfileVersion(
    subject="user", agent_id="bot", version=VERSIONS, memory_id=ONE, event_limit=50,
    content_hash="00", run_id=ONE, began_at=PRESENT, created_at=PRESENT,
)  # fmt: skip
RUN = ProfileRun(run_id=UUID(int=1), extractor="x", started_at=PRESENT, counts={})
NEXT = NewVersion(
    subject="user", agent_id="bot", expected=VERSIONS, revision=0, revises=False, event_limit=50,
    content_hash="00", began_at=PRESENT, entries=[(ONE, "event")], rows=(), sources=(),
    rewritten=[ONE], required=(), covered=(), keep=VERSIONS,
)  # fmt: skip
POLICIES: dict[str, tuple[Callable[[], Policy[Any]], float]] = {
    "by_id": (partial(profiles.profile_by_id, ONE), 200),
    "of": (partial(profiles.profile_of, "user", "bot"), 200),
    "to_show": (partial(profiles.profiles_to_show, "app", None, ["event"]), 200),
    "of_run": (partial(profiles.profile_of_run, ONE), VERSIONS + 2),
    "history": (partial(profiles.pipeline_history, ONE, 10), 150),
    "unread": (partial(profiles.turns_to_profile, [ONE], ThreadId("t"), 10, PRESENT), VERSIONS),
    "recent": (partial(profiles.recent_threads, None, 10, PRESENT), 30),
    "save": (partial(save_profile, SCOPE, ONE, RUN, NEXT, None, (), PRESENT), 7 * VERSIONS),
    "drop": (partial(drop_profile, SCOPE, NEWEST, UUID(int=1), PRESENT), 7 * MEMORIES),
}  # fmt: skip


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_reads_rows_of_its_profile_by_an_index(versions, name, has_statistics):
    policy, most = POLICIES[name]
    plans.give_statistics(versions, has=has_statistics)
    read = plans.reads_of(versions, "/app/u7/", policy())
    assert not {node["Relation Name"] for node in read if node["Node Type"] == "Seq Scan"} - EMPTY
    assert plans.touched(read) <= most


TENANTS, PER_TENANT, DUE = 100, 100, 100
MARCH = datetime(2026, 3, 1, tzinfo=UTC)
OF_ALL: dict[str, object] = {
    "tenant": "/", "tenant_end": "0", "now": MARCH, "limit": 1000,
    "after_at": "-infinity", "after_tenant": "", "after_id": UUID(int=0),
}  # fmt: skip
T = TypeVar("T")
Written = dict[str, tuple[int, int, int]]
Work = dict[str, tuple[int, ...]]
WORK = """
    SELECT relname, n_tup_ins, n_tup_upd, n_tup_del, seq_tup_read,
           (SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0) FROM pg_index
            WHERE indrelid = relid)
    FROM pg_stat_xact_user_tables WHERE schemaname = 'hippocampus'"""


@pytest.fixture(scope="module")
def turns(postgres):
    """10,000 turns with sources, events, vectors and counters; one in a hundred is due."""
    for connection in plans.connections(postgres):
        plans.add_memories(
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


def work(connection: psycopg.Connection[Any]) -> Work:
    """What this transaction inserted, updated, deleted, and read by scans and by indexes."""
    return {row[0]: row[1:] for row in connection.execute(WORK.encode()).fetchall()}


def bind(connection: psycopg.Connection[Any], path: str) -> None:
    connection.execute(plans.BIND, [path])
    connection.execute("SELECT set_config('plan_cache_mode', 'force_generic_plan', true)")


def across(connection: psycopg.Connection[Any], name: str, **values: object) -> list[Any]:
    """Return the rows of a statement that reads memories of many users."""
    path = str(values.get("tenant", "/"))
    bind(connection, path)
    connection.execute(statement("by_index"))
    sent = statement(name, one_tenant=len(from_path(path)) == 2)
    rows = connection.execute(sent, {**OF_ALL, **values}).fetchall()
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


def of_due(connection: psycopg.Connection[Any]) -> Iterator[tuple[str, list[UUID]]]:
    rows = across(connection, "due_memories")
    for group in by_tenant(((tenant, one) for _, tenant, one in rows), 1000):
        yield from ((tenant, list(ids)) for tenant, ids in group.items())


def changed(before: Work, after: Work) -> Work:
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
def test_a_run_writes_what_it_forgets_and_reads_little_more(turns, stage, written, in_sql):
    turns.execute("VACUUM")  # an index returns what a run that was rolled back has left in it
    with turns.transaction(force_rollback=True):
        staged = "UPDATE memory_access SET stage = %s, staged_at = '2025-06-01'"
        turns.execute(f"{staged} WHERE forget_at < '2026-02-01'", [stage])
        before = work(turns)
        if in_sql:
            bind(turns, "/")
            call = "SELECT * FROM forget_faded('/', %s, 1000)"
            [(_, _, count)] = turns.execute(call, [MARCH]).fetchall()
        else:
            counts: Counter[Any] = Counter()
            for tenant, ids in of_due(turns):
                counts += driven(turns, tenant, fading.move_on(tenant, ids, MARCH)).counts
            [count] = counts.values()
        after = work(turns)
    assert DUE == count
    done = changed(before, after)
    # Policies are noted by the seam; here they run without it. Each due memory is another user's.
    noted = {"memory_changes": (DUE, 0, 0)} if in_sql else {}
    assert {**written, **noted} == {table: row[:3] for table, row in done.items() if any(row[:3])}
    scanned = {table: row[3] for table, row in done.items() if row[3]}
    scanned.pop("threads", 0)  # its hundred rows fill one page
    policies = scanned.pop("retention_policies", 0)
    assert ({}, True) == (scanned, policies <= 10 * DUE)
    looked_up = {table: row[4] for table, row in done.items() if row[4] > 8 * DUE}
    if not in_sql:  # a delete and an update of pairs, which may read a short thread each
        assert looked_up.pop("events", 0) <= 2 * PER_TENANT * DUE
    assert {} == {table: n for table, n in looked_up.items() if table != "retention_policies"}


def test_a_dry_run_reads_what_is_due_and_counting_reads_looks_each_memory_up(turns):
    with turns.transaction(force_rollback=True):
        before = work(turns)
        ahead = [
            driven(turns, tenant, fading.what_moves_on(tenant, ids, MARCH))
            for tenant, ids in of_due(turns)
        ]
        done = changed(before, work(turns))
    assert DUE == sum(len(one.fates) for one in ahead)
    for table in ("memories", "memory_access"):
        assert (0, 0, 0, 0) == done[table][:4]
        assert done[table][4] <= 4 * DUE
    rows = turns.execute("SELECT memory_id FROM memories WHERE tenant_id = '/app/u7/' LIMIT 10")
    ids = [row[0] for row in rows.fetchall()]
    values = {"tenant": "/app/u7/", "memory_ids": ids, "counts": [1] * 10,
              "moments": ["2026-01-01"] * 10}  # fmt: skip
    with turns.transaction(force_rollback=True):
        before = work(turns)
        bind(turns, "/app/u7/")
        for name in ("add_accesses", "time_accesses"):
            turns.execute(statement(name).replace(b")b", b")s"), values)
        change = changed(before, work(turns))
    written = {table: row[:3] for table, row in change.items() if any(row[:3])}
    assert {"memory_access": (0, 20, 0)} == written
    assert 0 == change["memories"][3] == change["memory_access"][3]
    assert change["memories"][4] <= 40


@every_case("/", "/app/u7/")
def test_statistics_look_up_the_memories_below_a_path_alone(path, turns):
    end = path[:-1] + "0"
    with turns.transaction(force_rollback=True):
        before = work(turns)
        rows = across(turns, "memories_below", tenant=path, tenant_end=end, limit=1_000_000)
        counted = retention_counts.Counted(leaving={})
        for group in by_tenant(rows, 1_000_000):
            for tenant, ids in group.items():
                counted.add(driven(turns, tenant, retention_counts.count(tenant, ids, MARCH, [])))
        done = changed(before, work(turns))
    everything = (TENANTS if path == "/" else 1) * PER_TENANT
    assert everything == sum(row.count for row in counted.rows())
    for table in ("memories", "memory_access"):
        assert (0, 0, 0, 0) == done[table][:4]
        assert done[table][4] <= 3 * everything


@every_case(
    ("due_memories", "memory_access", DUE + 1, {}),  # all of them are due at the same moment
    ("memories_below", "memories", 20, {"after_tenant": "/app/u5/"})
)  # fmt: skip
def test_a_page_reads_no_further_than_its_limit(name, table, most, after, turns):
    with turns.transaction(force_rollback=True):
        before = work(turns)
        rows = across(turns, name, limit=10, **after)
        done = changed(before, work(turns))
    assert 10 == len(rows)
    assert 0 == done[table][3] and done[table][4] <= most
