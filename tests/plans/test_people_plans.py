"""How many rows are looked at to know whom a user has named, among all else that is known."""

from __future__ import annotations

import psycopg

from shared_core.storage.postgres.connection.statements import statement

PEOPLE, TASTES = 12, 3_000
BIND = """
    SELECT set_config('role', 'hippocampus_app', true),
           set_config('hippocampus.scope', '/app/ann/', true),
           set_config('search_path', 'hippocampus, public', true)"""
VALUES = {"tenant": "/app/ann/", "people": 200, "now": "2100-01-01"}
FILL = f"""
    INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)
    SELECT '/app/ann/', 't', now(), now();
    INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, occurred_at,
                        recorded_at, memory_seq)
    SELECT '/app/ann/', 't', n, 'e' || n, 'u', 'user', 'x', now(), now(), n
    FROM generate_series(1, {PEOPLE + TASTES}) n;
    INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,
                          term_count, occurred_at, created_at, updated_at)
    SELECT '/app/ann/', gen_random_uuid(), '/memories/', n::text, 'semantic',
           'User''s son is called x.', '{{}}', '', 0, now(), now(), now()
    FROM generate_series(1, {PEOPLE + TASTES}) n;
    INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)
    SELECT tenant_id, memory_id, 't', 'e' || key FROM memories;
    INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional, confidence,
                       extractor, pattern, valid_from, recorded_at)
    SELECT tenant_id, memory_id, 'profile', s.slot, s.slot || ':p' || key,
           to_jsonb('p' || key), false, 1, 'x', 'p', now(), now()
    FROM memories CROSS JOIN LATERAL (
        SELECT CASE WHEN key::int <= {PEOPLE} THEN 'relation.son' ELSE 'trait' END AS slot) s;
    ANALYZE;"""


def test_people_are_looked_up_among_the_relations_alone(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        connection.execute(FILL)
        with connection.transaction(force_rollback=True):
            connection.execute(BIND)
            query = statement("known_people")
            assert PEOPLE == len(connection.execute(query, VALUES).fetchall())
            found = connection.execute(
                b"EXPLAIN (ANALYZE, FORMAT JSON) " + query, VALUES
            ).fetchone()
    assert found is not None
    waiting, read = [found[0][0]["Plan"]], 0.0
    while waiting:
        node = waiting.pop()
        waiting += node.get("Plans", [])
        if "Relation Name" in node:
            assert node["Node Type"] != "Seq Scan" or node["Relation Name"] == "entity_aliases"
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            read += rows * node["Actual Loops"]
    assert PEOPLE <= read <= 6 * PEOPLE
