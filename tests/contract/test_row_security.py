"""What the database itself keeps apart, whatever the library asks: row security, on raw SQL."""

import re
from importlib.resources import files

import psycopg
import pytest

from shared_core.ports.transfer import WITHOUT_USER
from shared_core.settings import load_settings
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import Step

Connection = psycopg.Connection[tuple[object, ...]]

ALICE, BOB = "/app/alice/", "/app/bob/"
ONE = "'00000000-0000-7000-8000-000000000001'"
FILL = {
    "threads": "(thread_id, created_at, updated_at) VALUES (%s, 't', now(), now())",
    "events": "(thread_id, seq, event_id, author, role, text, occurred_at, recorded_at)"
    " VALUES (%s, 't', 1, 'e', 'user', 'user', 'tea', now(), now())",
    "shared_state": "(state, updated_at) VALUES (%s, '{}', now())",
    "tombstones": "(thread_id, event_id, deleted_at) VALUES (%s, 't', 'gone', now())",
    "import_marks": "(address_hash, updated_at) VALUES (%s, 'x', now())",
    "memories": "(namespace, memory_id, key, kind, text, value, terms, term_count, occurred_at,"
    f" created_at, updated_at) VALUES (%s, '/memories/', {ONE}, 'k', 'semantic', 'tea',"
    " '{}', 'tea', 1, now(), now(), now())",
    "embeddings": f"(model, memory_id, field, embedding) VALUES (%s, 'm', {ONE}, 'text', '[1]')",
    "memory_sources": f"(memory_id, thread_id, event_id) VALUES (%s, {ONE}, 't', 'e')",
    "memory_bases": f"(memory_id, basis_id) VALUES (%s, {ONE}, {ONE})",
    "memory_access": f"(memory_id) VALUES (%s, {ONE})",
    "memory_archive": "(memory_id, text, value, is_shown, archived_at)"
    f" VALUES (%s, {ONE}, 'tea', '{{}}', true, now())",
    "retention_policies": "(kind, fades, decay_rate, threshold, min_age_days, archive_after_days,"
    " erase_after_days, with_history, updated_at)"
    " VALUES (%s, 'item', true, 0, 0, 0, 0, 0, true, now())",
    "conversations": "(thread_id, created_at, last_active_at, ends_at)"
    " VALUES (%s, 't', now(), now(), now())",
    "retimings": f"(after_tenant, after_id) VALUES (%s, '', {ONE})",
    "schedules": "(task, next_at) VALUES (%s, 't', now())",
    "facts": "(memory_id, fact_type, slot, key, value, functional, confidence, extractor, pattern,"
    f" valid_from, recorded_at) VALUES (%s, {ONE}, 'custom', 's', 'k', '1', true, 1, 'x', 'p',"
    " now(), now())",
    "fact_closures": "(memory_id, closed_at, restored_at, valid_until, run_id)"
    f" VALUES (%s, {ONE}, now(), now(), now(), {ONE})",
    "edges": "(edge_id, subject, relation, object, valid_from, recorded_at)"
    f" VALUES (%s, {ONE}, 's', 'r', 'o', now(), now())",
    "edge_sources": f"(edge_id, thread_id, event_id) VALUES (%s, {ONE}, 't', 'e')",
    "entity_aliases": "(alias_id, alias_key, alias, entity_key, entity, merged_at)"
    f" VALUES (%s, {ONE}, 'a', 'A', 'e', 'E', now())",
    "instructions": "(instruction_key, version, content, created_at)"
    " VALUES (%s, 'i', 1, '', now())",
    "profiles": "(subject_kind, subject_id, version, content_hash, created_at, memory_id)"
    f" VALUES (%s, 'user', 'u', 1, '', now(), {ONE})",
    "consolidation_jobs": "(job_id, thread_id, job_type, run_after, created_at)"
    f" VALUES (%s, {ONE}, 't', 'fast_replay', now(), now())",
    "extraction_counts": "(extractions) VALUES (%s, 1)",
    "runs": f"(run_id, kind, extractor, started_at, finished_at) VALUES (%s, {ONE}, 'k', 'x',"
    " now(), now())",
    "run_changes": f"(run_id, change, target) VALUES (%s, {ONE}, 'closed', {ONE})",
    "retractions": "(retraction_id, run_id, fact_type, slot, subject_key, value, said_at,"
    f" thread_id, event_ids) VALUES (%s, {ONE}, {ONE}, 'custom', 's', 's', 'v', now(), 't',"
    " '{}')",
    "pipeline_log": "(run_id, step, stage, started_at, duration_s)"
    f" VALUES (%s, {ONE}, 1, 's', now(), 1)",
    "api_tokens": "(token_id, secret_hash, created_at) VALUES (%s, 't', sha256('x'), now())",
    "writes": f"(write_id) VALUES (%s, {ONE})",
    "coordinator_writes": f"(write_id) VALUES (%s, {ONE})",
    "memory_changes": "(write_ids, memory_ids) VALUES (%s, '{}', '{}')",
    "erasures": "(erasure_id, target, counts, receipt_hash, requested_at, completed_at)"
    f" VALUES (%s, {ONE}, '{{}}', '{{}}', '', now(), now())",
}
"""A row for every table with a tenant, parents first. The first %s is the tenant."""

POSTGRES_ALONE = ("embeddings", "writes", "coordinator_writes", "memory_changes")
"""Tables with a tenant that OceanBase has in another form."""
GUARDED = """
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'hippocampus'::regnamespace AND c.relkind IN ('r', 'p')
      AND a.attname = 'tenant_id'
"""


def fill(connection: Connection, table: str, tenant: str) -> None:
    statement = FILL[table].replace("(", "(tenant_id, ", 1)
    values = [tenant] * statement.count("%s")
    connection.execute(f"INSERT INTO {table} {statement}".encode(), values)


def tenants(connection: Connection, table: str) -> set[object]:
    rows = connection.execute(f"SELECT tenant_id FROM {table}".encode()).fetchall()
    return {tenant for (tenant,) in rows}


@pytest.fixture
def superuser(dsn):
    """A connection past row security, to a database with a row of both tenants in every table."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        connection.execute("INSERT INTO embedding_models VALUES ('m', 1, true, now())")
        for tenant in (ALICE, BOB):
            for table in FILL:
                fill(connection, table, tenant)
        yield connection


@pytest.fixture
def app(dsn, superuser):
    """A connection with the rights of the application, in autocommit."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        connection.execute("SET ROLE hippocampus_app")
        yield connection


def bind(connection: Connection, scope: str | None) -> None:
    """Bind a scope; None is that of a connection on which none was bound."""
    if scope is not None:
        connection.execute("SELECT set_config('hippocampus.scope', %s, false)", [scope])


def test_every_table_with_a_tenant_forces_row_security_and_checks_its_labels(superuser):
    assert set(FILL) == {table for (table,) in superuser.execute(GUARDED.encode())}
    assert {table for table in FILL if tenants(superuser, table) != {ALICE, BOB}} == set()
    query = f"""
        SELECT c.relname FROM pg_class c
        WHERE c.relname IN ({GUARDED}) AND c.relnamespace = 'hippocampus'::regnamespace
          AND c.relrowsecurity AND c.relforcerowsecurity
          AND ARRAY['within_scope'::name] = (
              SELECT array_agg(p.polname) FROM pg_policy p
              WHERE p.polrelid = c.oid AND p.polcmd = '*' AND p.polroles = '{{0}}'
                AND p.polqual IS NOT NULL AND p.polwithcheck IS NOT NULL)"""
    assert {table for (table,) in superuser.execute(query.encode())} == set(FILL)
    marks = {"writes", "coordinator_writes"}
    of_one = WITHOUT_USER | {"retimings", "schedules", "api_tokens"} | marks
    of_none = {"retention_policies", "retimings", "schedules"} | marks
    for tenant, allowed in {
        "/": of_none, "/app/": of_one, "/app/ana/x/": set(), "/app//": set(), "/app/ana": set()
    }.items():  # fmt: skip
        taken = set()
        for table in FILL:
            try:
                fill(superuser, table, tenant)
            except psycopg.errors.CheckViolation as error:
                assert error.diag.constraint_name == "tenant_labels"
            else:
                taken.add(table)
        assert taken == allowed, tenant
    script = files("shared_core.storage.oceanbase").joinpath("sql/0001_schema.sql").read_text()
    ends = dict(re.findall(r"CREATE TABLE IF NOT EXISTS (\w+) \([^;]+\) \{(\w+)\};", script))
    labels = {"user": "{2}", "namespace": "{1,2}", "path": "{0,2}"}
    guards = files("shared_core.storage.postgres").joinpath("sql/migrations/0001_schema.sql")
    ours = re.findall(r"protect\('(\w+)'(?:, '(.+?)')?\)", guards.read_text())
    expected = {table: count or "{2}" for table, count in ours if table not in POSTGRES_ALONE}
    assert expected == {table: labels[end] for table, end in ends.items() if end != "table"}
    definers = "SELECT proname FROM pg_proc WHERE prosecdef AND pronamespace = %s::regnamespace"
    views = "SELECT viewname FROM pg_views WHERE schemaname = %s"
    owned = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tableowner ~ 'hippocampus'"
    for query in (definers, views, owned):
        assert superuser.execute(query.encode(), ["hippocampus"]).fetchall() == []
    role = "SELECT rolsuper, rolbypassrls, rolcanlogin FROM pg_roles WHERE rolname = %s"
    assert superuser.execute(role, ["hippocampus_app"]).fetchall() == [(False, False, False)]


def test_a_bound_scope_sees_its_own_rows_and_one_that_is_no_path_above_a_tenant_nothing(app):
    for scope in (
        None, "", "/app/ali", "/app/alic", "/app/alice", "app/alice/", "/app/_lice/", "/%/", "%",
        "/APP/ALICE/", "/app/alice/memories/", " ", "/app/carol/", "/ap",
    ):  # fmt: skip
        bind(app, scope)
        assert {table: set() for table in FILL} == {t: tenants(app, t) for t in FILL}, scope
    both = {ALICE, BOB}
    for scope, seen in ((ALICE, {ALICE}), (BOB, {BOB}), ("/app/", both), ("/", both)):
        bind(app, scope)
        assert {table: seen for table in FILL} == {t: tenants(app, t) for t in FILL}, scope


def test_a_scope_works_with_the_state_of_its_application_and_of_no_other(app, superuser):
    for path in ("/app/", "/app2/", "/ap/"):
        fill(superuser, "shared_state", path)
    bind(app, ALICE)
    assert {ALICE, "/app/"} == tenants(app, "shared_state")
    assert 2 == app.execute("UPDATE shared_state SET state = '{}'").rowcount
    bind(app, "/app/alice/memories/")
    assert {"/app/"} == tenants(app, "shared_state")


def test_no_row_is_inserted_or_moved_outside_the_scope(app):
    for scope in (None, "", ALICE):
        bind(app, scope)
        for table in FILL:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                fill(app, table, "/app/mallory/")
    for table in FILL:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            app.execute(f"UPDATE {table} SET tenant_id = '/app/mallory/'".encode())


def test_a_scope_changes_no_models_rows_of_others_or_rules(app, superuser):
    models = superuser.execute("TABLE embedding_models").fetchall()
    for scope in ("", ALICE, "/app/"):
        bind(app, scope)
        assert models == app.execute("TABLE embedding_models").fetchall() != []
        for change in ("UPDATE {} SET active = false", "DELETE FROM {}"):
            assert 0 == app.execute(change.format("embedding_models").encode()).rowcount
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            app.execute("INSERT INTO embedding_models VALUES ('x', 1, false, now())")
    assert models == superuser.execute("TABLE embedding_models").fetchall()
    bind(app, ALICE)
    for table in reversed(FILL):
        for change in (f"UPDATE {table} SET tenant_id = tenant_id", f"DELETE FROM {table}"):
            assert app.execute(f"{change} WHERE tenant_id = %s".encode(), [BOB]).rowcount == 0
        app.execute(f"DELETE FROM {table}".encode())
        assert tenants(superuser, table) == {BOB}
    bind(app, ALICE)
    for statement in (
        "TRUNCATE memories CASCADE", "ALTER TABLE memories DISABLE ROW LEVEL SECURITY",
        "DROP POLICY within_scope ON memories", "SELECT protect('memories')",
        "CREATE VIEW peek AS TABLE memories", "DELETE FROM schema_migrations",
    ):  # fmt: skip
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute(statement.encode())
    app.execute("SET row_security = off")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        tenants(app, "memories")


@pytest.mark.parametrize("last", ["SELECT 1", "SELECT 1 / 0"])
async def test_a_pooled_connection_forgets_its_scope_after_the_transaction(dsn, superuser, last):
    database = PostgresDatabase(load_settings(dsn, pool_size=1))
    await database.open()
    backend = b"SELECT pg_backend_pid(), current_user::text, (SELECT count(*) FROM memories)"
    try:
        [[(pid, role, seen)]] = await database.run(ALICE, Step("backend", backend, {}))
        assert (role, seen) == ("hippocampus_app", 1)
        try:
            await database.run(ALICE, Step("last", last.encode(), {}))
        except psycopg.errors.DivisionByZero:
            assert last != "SELECT 1"
        async with database._pool.connection() as connection:
            state = "SELECT pg_backend_pid(), current_user::text,"
            state += " coalesce(current_setting('hippocampus.scope', true), '')"
            row = await (await connection.execute(state.encode())).fetchone()
            assert row == (pid, "postgres", "")
            await connection.execute("SET ROLE hippocampus_app")
            row = await (await connection.execute("TABLE hippocampus.memories")).fetchone()
            assert row is None
    finally:
        await database.close()
