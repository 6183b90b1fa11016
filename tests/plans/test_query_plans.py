"""Which index answers, and how many rows are touched, on a store that other tenants fill."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import pytest
from every_case import every_case
from langgraph.store.base import PutOp
from pgvector import HalfVector
from policy_plans import (
    BIND,
    EXACT,
    NEAREST,
    Node,
    add_memories,
    add_vectors,
    connections,
    explained,
    give_statistics,
    kinds,
    of_table,
    reads_of,
    touched,
)
from psycopg.conninfo import make_conninfo

from langgraph_store import PgHippocampusStore
from langgraph_store.conformance.samples import HERE, INDEX
from shared_core import Scope, open_memory, run_sync
from shared_core.core.namespaces import path_end
from shared_core.policies.derivation import derivation
from shared_core.storage.postgres.connection.statements import statement
from shared_core.storage.postgres.indexes import search_text, sorted_out

TENANTS = 60
PER_TENANT = 100
DIMENSIONS = 64
VALUES = {
    "tenant": "/app/u7/", "path": "/memories/", "path_end": "/memories0", "tenants": ["/app/u7/"],
    "namespaces": ["/memories/"], "keys": ["5"], "now": "2100-01-01", "limit": 10, "offset": 0,
    "kinds": None, "model": "m", "embedding": HalfVector(np.ones(DIMENSIONS)),
    "term_queries": ["word3"], "any_term": "word3", "candidates": 50, "besides": [],
    "with_expired": False, "most": 50, "memory_ids": [], "patterns": [], "max_depth": 9,
}  # fmt: skip
LITERALS = {"search_items": EXACT, "search_rest": EXACT, "search_nearest": NEAREST}
SEARCHES = ["search_items", "search_nearest", "search_rest", "recall", "list_items"]


@pytest.fixture(scope="module")
def filled(postgres):
    """6,000 memories of 60 tenants, analysed."""
    for connection in connections(postgres):
        rows = f"generate_series(1, {TENANTS}) t, generate_series(1, {PER_TENANT}) n"
        terms = "to_tsvector('simple', 'word' || n % 10)"
        add_memories(connection, rows, terms=terms, term_count="1")
        add_vectors(connection, DIMENSIONS)
        sources = "SELECT tenant_id, memory_id, 'thread', key FROM memories"
        connection.execute(f"INSERT INTO memory_sources {sources}")
        connection.execute("ANALYZE")
        yield connection


def plan(connection: psycopg.Connection[Any], name: str, **values: object) -> list[Node]:
    """The plan of a statement as the application runs it: its role, inside the scope."""
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, ["/app/u7/"])
        query = statement(name, literals=LITERALS.get(name, ()))
        return explained(connection, query, VALUES | values)


@every_case(*[*SEARCHES, "get_items", "list_namespaces"])
def test_a_read_of_one_tenant_never_scans_a_table(name, filled):
    found, tables = plan(filled, name), ("memories", "embeddings", "memory_sources")
    scans = [node for table in tables for node in of_table(found, table)]
    assert scans and "Seq Scan" not in kinds(scans)


@every_case(*SEARCHES)
def test_a_search_touches_only_the_rows_of_its_tenant(name, filled):
    found = plan(filled, name)
    # recall reads the rows it returns once more for their columns; vectors it counts in the index,
    # scans, and looks up again for the turns before its candidates
    assert touched(of_table(found, "memories")) <= 2 * PER_TENANT
    most = (3 if name == "recall" else 1) * PER_TENANT
    assert touched(of_table(found, "embeddings")) <= most


def test_reading_one_item_touches_its_row_recall_few_vectors_and_the_nearest_are_exact(filled):
    [scan] = of_table(plan(filled, "get_items"), "memories")
    assert scan["Actual Rows"] * scan["Actual Loops"] == 1
    few = 5
    change = "UPDATE memories SET namespace = %s WHERE tenant_id = '/app/u7/' AND key::int <= %s"
    filled.execute(change, ["/few/", few])
    read = of_table(plan(filled, "recall", path="/few/", path_end="/few0"), "embeddings")
    scanned = [node["Actual Rows"] * node["Actual Loops"] for node in read]
    filled.execute(change, ["/memories/", few])
    assert few <= max(scanned) <= 3 * few
    assert sum(scanned) <= 5 * few
    # An ANN index of the whole table must not tempt the planner away from a small tenant.
    column = f"(embedding::halfvec({DIMENSIONS})) halfvec_cosine_ops"
    filled.execute(f"CREATE INDEX tempting ON embeddings USING hnsw ({column})")
    filled.execute("ANALYZE embeddings")
    with filled.transaction(force_rollback=True):
        filled.execute(BIND, ["/app/u7/"])
        query = statement("search_items", literals=EXACT)
        found = [row[1] for row in filled.execute(query, VALUES)]
    exact = filled.execute(
        "SELECT m.key FROM memories m JOIN embeddings e USING (tenant_id, memory_id)"
        " WHERE tenant_id = '/app/u7/' ORDER BY (e.embedding <=> %s) + 0 LIMIT 10",
        [VALUES["embedding"]],
    ).fetchall()
    filled.execute("DROP INDEX tempting")
    assert [row[0] for row in exact] == found


def test_a_claim_touches_few_of_many_jobs(filled):
    """One tenant has thousands that are due, sixty have one that is not."""
    values = {
        "worker_id": "w", "now": "2100-01-01", "lease_until": "2100-01-02",
        "job_types": ["full_consolidation", "callback"], "names": ["reflector"],
        "applications": ["/app/"], "after_tenant": "/app/u7/",
    }  # fmt: skip
    with filled.transaction(force_rollback=True):
        filled.execute(
            "INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)"
            " SELECT '/app/u' || t || '/', n::text, now(), now()"
            " FROM generate_series(1, 60) t, generate_series(1, 5000) n WHERE n = 1 OR t = 3;"
            " INSERT INTO consolidation_jobs (tenant_id, job_id, thread_id, job_type, run_after,"
            " created_at) SELECT tenant_id, gen_random_uuid(), thread_id, 'full_consolidation',"
            " CASE tenant_id WHEN '/app/u3/' THEN now() ELSE '2200-01-01' END, now() FROM threads;"
            " ANALYZE consolidation_jobs"
        )
        filled.execute(BIND, ["/"])
        filled.execute(statement("take_in_order"))
        read = of_table(explained(filled, statement("claim_job"), values), "consolidation_jobs")
        running = "SELECT tenant_id FROM consolidation_jobs WHERE status = 'running'"
        [taken] = filled.execute(running).fetchall()
    scans = [node for node in read if "Scan" in node["Node Type"]]
    assert "Seq Scan" not in kinds(scans)
    assert touched(scans) <= 4 * TENANTS
    assert ("/app/u3/",) == taken


USERS, PER_USER, OVER = 500, 40, 5
TURN: dict[str, object] = {
    "tenant": "/app/u7/", "thread_id": "new", "event_id": "e", "author": "user", "role": "user",
    "text": "tea", "metadata": "{}", "occurred_at": "2026-03-01", "time_zone": None,
    "importance": 5.0, "expires_at": None, "context": 5, "once": True, "now": "2026-03-01",
    "max_events": 100, "timeout": timedelta(minutes=30), "max_duration": timedelta(hours=24),
}  # fmt: skip


@pytest.fixture(scope="module")
def sessions(postgres):
    """20,000 sessions of 500 users, one of each active, and five of those over."""
    for connection in connections(postgres):
        connection.execute(
            "INSERT INTO conversations (tenant_id, thread_id, status, event_count, created_at,"
            " last_active_at, ends_at)"
            " SELECT '/app/u' || u || '/', 't' || n,"
            " CASE WHEN n = 1 THEN 'active' ELSE 'ended' END,"
            f" 9, '2026-01-01', '2026-01-01', CASE WHEN u <= {OVER} THEN '2026-01-02'"
            " ELSE '2026-04-01' END::timestamptz"
            f" FROM generate_series(1, {USERS}) u, generate_series(1, {PER_USER}) n"
        )
        connection.execute("ANALYZE")
        yield connection


def scans(connection: psycopg.Connection[Any], name: str, values: dict[str, object]) -> list[Node]:
    """Return the nodes of the plan of a statement that read conversations."""
    with connection.transaction(force_rollback=True):
        read = of_table(explained(connection, statement(name), values), "conversations")
    return [node for node in read if "Scan" in node["Node Type"]]


def test_a_look_reads_the_sessions_that_are_over_and_an_input_its_own(sessions):
    [found] = scans(sessions, "conversations_over", {"now": "2026-03-01", "limit": 100})
    assert ("conversations_ending", OVER) == (found["Index Name"], found["Actual Rows"])
    found = scans(sessions, "hear_turn", TURN)
    assert {"conversations_one_active"} == {node.get("Index Name") for node in found}
    assert all(node["Actual Rows"] <= 1 for node in found)


PEOPLE, TASTES = 12, 3_000
ANN = "/app/ann/"
OF_ANN = {"tenant": ANN, "people": 200, "now": "2100-01-01"}
FILL_PEOPLE = f"""
    INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)
    SELECT '{ANN}', 't', now(), now();
    INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, occurred_at,
                        recorded_at, memory_seq)
    SELECT tenant_id, 't', key::int, 'e' || key, 'u', 'user', 'x', now(), now(), key::int
    FROM memories;
    INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)
    SELECT tenant_id, memory_id, 't', 'e' || key FROM memories;
    INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional, confidence,
                       extractor, pattern, valid_from, recorded_at)
    SELECT tenant_id, memory_id, 'profile', s.slot, s.slot || ':p' || key,
           to_jsonb('p' || key), false, 1, 'x', 'p', now(), now()
    FROM memories CROSS JOIN LATERAL (
        SELECT CASE WHEN key::int <= {PEOPLE} THEN 'relation.son' ELSE 'trait' END AS slot) s;
    ANALYZE;"""


def test_people_are_looked_up_among_the_relations_alone(postgres):
    for connection in connections(postgres):
        rows = f"generate_series(1, {PEOPLE + TASTES}) n"
        add_memories(connection, rows, tenant_id=f"'{ANN}'", kind="'semantic'")
        connection.execute(FILL_PEOPLE)
        with connection.transaction(force_rollback=True):
            connection.execute(BIND, [ANN])
            query = statement("known_people")
            assert PEOPLE == len(connection.execute(query, OF_ANN).fetchall())
            read = [one for one in explained(connection, query, OF_ANN) if "Relation Name" in one]
    scanned = [one for one in read if one["Node Type"] == "Seq Scan"]
    assert scanned == of_table(scanned, "entity_aliases")
    assert PEOPLE <= touched(read) <= 6 * PEOPLE


BATCHES, SIZE = 6, 500
ROWS_READ = """
    SELECT sum(t.seq_tup_read) + (SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i
                                  WHERE i.schemaname = 'hippocampus' AND i.relname = 'memories')
    FROM pg_stat_user_tables t WHERE t.schemaname = 'hippocampus' AND t.relname = 'memories'"""


async def test_bulk_after_single_calls_reads_few_rows_per_item(dsn):
    """Each item is looked up by its key, not among all of its tenant: 90 rows, and not 980."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("ALTER TABLE hippocampus.memories SET (autovacuum_enabled = false)")
    async with PgHippocampusStore(dsn, index=INDEX, pool_size=1) as store:
        await store.aput(HERE, "first", {"text": "one item, while there are no others"})
        await store.aget(HERE, "first")
        for batch in range(BATCHES):
            texts = {f"{batch}-{n}": f"item {n}" for n in range(SIZE)}
            await store.abatch([PutOp(HERE, key, {"text": text}) for key, text in texts.items()])
        for n in range(20):
            await store.aput(HERE, f"0-{n}", {"text": "rewritten"})
            assert await store.aget(HERE, f"0-{n}") is not None
    with psycopg.connect(dsn) as connection:
        [read] = connection.execute(ROWS_READ).fetchone() or [0]
    assert read < 300 * BATCHES * SIZE


MEMORIES = 20_000
PER_DAY = 40
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
PAGE = 20
SLICE = statement("list_memories", literals=(("direction", "DESC"),))
COUNTS = statement("count_memories")
THREAD = statement("list_memories", literals=(("direction", "DESC"),), of_thread=True)
IN_THREAD = 30
ALL_TENANTS = 51
WITH_STATISTICS = pytest.mark.parametrize("has_statistics", [True, False])
MODES = pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])


@pytest.fixture(scope="module")
def slices(postgres):
    """One user of 20,000 memories, 40 a day, among 50 of 200."""
    for connection in connections(postgres):
        add_memories(
            connection, "generate_series(0, 50) t"
            f" CROSS JOIN generate_series(1, CASE WHEN t = 7 THEN {MEMORIES} ELSE 200 END) n",
            kind="'episodic'", occurred_at=f"timestamptz '{BEGIN}' + n * interval '36 minutes'",
        )  # fmt: skip
        connection.execute(
            "INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)"
            " SELECT tenant_id, memory_id, CASE WHEN key::int <= %s THEN 'first' ELSE 'other' END,"
            " key FROM memories",
            [IN_THREAD],
        )
        connection.execute("ANALYZE")
        yield connection


def scan(
    connection: psycopg.Connection[Any], text: bytes, begin: object, end: object, mode: str
) -> tuple[str, float]:
    """Return which index a statement reads memories by, and how many rows of it."""
    values = {
        "tenant": "/app/u7/", "path": "/memories/", "path_end": "/memories0", "kinds": None,
        "now": datetime.now(UTC), "begin": begin, "end": end, "limit": PAGE, "offset": 0,
        "bounds": [begin], "thread_id": "first",
    }  # fmt: skip
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, ["/app/u7/"])
        connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        if text == SLICE:
            connection.execute(statement("walk_index"))
        found = explained(connection, text, values, prepare=True)
    used = [node for node in found if node.get("Index Name", "").startswith("memories_")]
    [read] = [node for node in used if node["Actual Loops"]]
    return read["Index Name"], touched([read])


@WITH_STATISTICS
@MODES
@pytest.mark.parametrize(
    ("text", "begin", "end", "most"),
    [
        (SLICE, "-infinity", "infinity", PAGE),
        (SLICE, BEGIN + timedelta(days=100), BEGIN + timedelta(days=101), PAGE),
        (SLICE, BEGIN + timedelta(days=9000), "infinity", 0),
        (COUNTS, BEGIN + timedelta(days=100), BEGIN + timedelta(days=103), 3 * PER_DAY + 1),
    ],
)
def test_a_slice_reads_its_page_and_no_more(slices, text, begin, end, most, mode, has_statistics):
    give_statistics(slices, "memories", has=has_statistics)
    index, rows = scan(slices, text, begin, end, mode)
    assert "memories_in_time" == index
    assert rows <= most


@WITH_STATISTICS
@MODES
@pytest.mark.parametrize("text", [THREAD, statement("count_memories", of_thread=True)])
def test_a_thread_is_read_by_its_turns(slices, text, mode, has_statistics):
    give_statistics(slices, "memories", "memory_sources", has=has_statistics)
    assert ("memories_pkey", IN_THREAD) == scan(slices, text, "-infinity", "infinity", mode)


@WITH_STATISTICS
def test_one_memory_is_read_with_its_relatives_alone(slices, has_statistics):
    give_statistics(slices, has=has_statistics)
    found = slices.execute("SELECT memory_id FROM memories WHERE tenant_id = '/app/u7/' LIMIT 1")
    row = found.fetchone()
    assert row is not None
    plans = reads_of(slices, "/app/u7/", derivation(Scope("app", "u7"), row[0], datetime.now(UTC)))
    read = [*of_table(plans, "memories"), *of_table(plans, "memory_sources")]
    assert read and "Seq Scan" not in kinds(read)
    assert touched(read) <= 20


@WITH_STATISTICS
@MODES
@pytest.mark.parametrize(("scope", "limit"), [("/", 20), ("/app/", 1000)])
def test_tenants_are_found_by_one_row_of_each(slices, scope, limit, mode, has_statistics):
    give_statistics(slices, "memories", has=has_statistics)
    values = {"after": scope, "tenant_end": path_end(scope), "limit": limit}
    with slices.transaction(force_rollback=True):
        slices.execute(BIND, [scope])
        slices.execute(statement("by_index"))
        slices.execute(f"SET LOCAL plan_cache_mode = {mode}")
        found = slices.execute(statement("tenants"), values, prepare=True).fetchall()
        read = of_table(explained(slices, statement("tenants"), values, prepare=True), "memories")
    assert len(found) == min(limit, ALL_TENANTS) == round(touched(read))
    assert found == sorted(found)


LARGE = 4_000
SMALL = 100
NEAR = {
    "with_expired": False,
    "path": "/", "path_end": "0", "now": "2100-01-01", "limit": 10, "offset": 0, "candidates": 40,
    "few": 500, "model": "m", "embedding": HalfVector(np.ones(DIMENSIONS)),
}  # fmt: skip


@pytest.fixture(scope="module")
def indexed(postgres):
    """A tenant with an index among forty without, one memory in four below /deep/."""
    for connection in connections(postgres):
        add_memories(
            connection, "generate_series(1, 40) t,"
            f" generate_series(1, CASE t WHEN 7 THEN {LARGE} ELSE {SMALL} END) n",
            memory_id="('00000000-' || substr(gen_random_uuid()::text, 10))::uuid",
            namespace="CASE n % 4 WHEN 0 THEN '/deep/' ELSE '/notes/' END",
        )  # fmt: skip
        add_vectors(connection, DIMENSIONS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "1000")
            run_sync(_build(make_conninfo(connection.info.dsn)))
        yield connection


async def _build(dsn: str) -> None:
    async with open_memory(dsn, worker=False) as memory:
        await memory.indexes.refresh()


def searched(
    connection: psycopg.Connection[Any], query: bytes, tenant: str, **values: Any
) -> list[Node]:
    """The plan of a search as the application runs it: its role, its settings, in the scope."""
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, [tenant])
        connection.execute("SELECT set_config('plan_cache_mode', 'force_generic_plan', true)")
        if b"halfvec(" in query:
            tuning = {"ef_search": "100", "max_scan": "20000"}
            connection.execute(statement("tune_index_search"), tuning)
        return explained(connection, query, NEAR | {"tenant": tenant} | values)


def index_of(connection: psycopg.Connection[Any]) -> Any:
    [[index], _] = sorted_out(connection.execute(statement("tenant_indexes")).fetchall())
    return index


@pytest.mark.parametrize("analysed", [True, False])
def test_a_large_tenant_is_searched_by_its_index(indexed, analysed):
    index = index_of(indexed)
    give_statistics(indexed, "embeddings", "memories", has=analysed)
    found = searched(indexed, search_text(index), index.tenant)
    indexed.execute("ANALYZE embeddings, memories")
    assert index.name in {node.get("Index Name") for node in found}
    assert "Seq Scan" not in kinds(found)
    assert touched(of_table(found, "embeddings")) <= 2 * 40
    assert touched(of_table(found, "memories")) <= 2 * 40


def test_below_a_path_the_scan_fills_the_page_and_another_tenant_sees_nothing(indexed):
    index = index_of(indexed)
    found = searched(indexed, search_text(index), index.tenant, path="/deep/", path_end="/deep0")
    assert index.name in {node.get("Index Name") for node in found}
    assert 10 == found[0]["Actual Rows"]
    assert touched(of_table(found, "embeddings")) <= 10 * 40
    index = index_of(indexed)
    deep = {"path": "/deep/", "path_end": "/deep0", "few": 2_000}
    found = searched(indexed, search_text(index), index.tenant, **deep)
    assert 0 == found[0]["Actual Rows"]
    [counted] = [node for node in found if node["Node Type"] == "Index Only Scan"]
    assert LARGE / 4 == counted["Actual Rows"] and 0 == touched(of_table(found, "embeddings"))
    index = index_of(indexed)
    with indexed.transaction(force_rollback=True):
        indexed.execute(BIND, ["/app/u3/"])
        values = NEAR | {"tenant": "/app/u3/"}
        assert [] == indexed.execute(search_text(index), values).fetchall()


@every_case("/app/u3/", "/app/u7/")
def test_the_exact_search_never_takes_the_index(tenant, indexed):
    found = searched(indexed, statement("search_items", literals=EXACT), tenant)
    found += searched(indexed, statement("search_nearest", literals=NEAREST), tenant, most=140)
    assert not {node.get("Index Name") for node in found} & {index_of(indexed).name}
