"""How many rows are looked at to know whom a user has named, among all else that is known."""

from __future__ import annotations

from policy_plans import BIND, add_memories, connections, explained, of_table, touched
from postgres_databases import PostgresDatabases

from shared_core.storage.postgres.connection.statements import statement

PEOPLE, TASTES = 12, 3_000
ANN = "/app/ann/"
VALUES = {"tenant": ANN, "people": 200, "now": "2100-01-01"}
FILL = f"""
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


def test_people_are_looked_up_among_the_relations_alone(postgres: PostgresDatabases) -> None:
    for connection in connections(postgres):
        rows = f"generate_series(1, {PEOPLE + TASTES}) n"
        add_memories(connection, rows, tenant_id=f"'{ANN}'", kind="'semantic'")
        connection.execute(FILL)
        with connection.transaction(force_rollback=True):
            connection.execute(BIND, [ANN])
            query = statement("known_people")
            assert PEOPLE == len(connection.execute(query, VALUES).fetchall())
            read = [one for one in explained(connection, query, VALUES) if "Relation Name" in one]
    scanned = [one for one in read if one["Node Type"] == "Seq Scan"]
    assert scanned == of_table(scanned, "entity_aliases")
    assert PEOPLE <= touched(read) <= 6 * PEOPLE
