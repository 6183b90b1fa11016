"""Databases for tests of plans, and how the server reads for a statement or a policy."""

from collections.abc import Iterable, Iterator
from typing import Any

import psycopg
from pgvector.psycopg import register_vector
from postgres_databases import PostgresDatabases

from shared_core.ports.operations import Last, Policy, Row, Select, Verb
from shared_core.storage.postgres.connection.operations import compiled

BIND = """
    SELECT set_config('role', 'hippocampus_app', true), set_config('hippocampus.scope', %s, true),
           set_config('search_path', 'hippocampus, public', true)"""
MEMORY = {
    "tenant_id": "'/app/u' || t || '/'", "memory_id": "gen_random_uuid()",
    "namespace": "'/memories/'", "key": "n::text", "kind": "'item'", "text": "'x'", "value": "'{}'",
    "terms": "''", "term_count": "0", "occurred_at": "now()", "created_at": "now()",
    "updated_at": "now()",
}  # fmt: skip
"""Columns of a memory, as expressions of the number t of a tenant and the number n of a memory."""
EXACT = (("similarity", "1 - min(v.embedding <=> %(embedding)s::halfvec)"),)
NEAREST = (
    ("similarity", "1 - n.distance"), ("distance", "m.embedding <=> %(embedding)s::halfvec"),
)  # fmt: skip

Node = dict[str, Any]


def connections(postgres: PostgresDatabases) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection to a new database with the schema, which is dropped afterwards."""
    for dsn in postgres.lend():
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET search_path TO hippocampus, public")
            yield connection


def add_memories(connection: psycopg.Connection[Any], rows: str, **columns: str) -> None:
    """Insert memories for each row of a FROM clause; columns: expressions for others than usual."""
    given = MEMORY | columns
    names, values = ", ".join(given), ", ".join(given.values())
    connection.execute(f"INSERT INTO memories ({names}) SELECT {values} FROM {rows}")


def add_vectors(connection: psycopg.Connection[Any], dimensions: int) -> None:
    """Give each memory a random vector of the model m."""
    register_vector(connection)
    connection.execute(
        f"INSERT INTO embedding_models VALUES ('m', {dimensions}, true, now());"
        " SELECT setseed(0.5); INSERT INTO embeddings SELECT tenant_id, 'm', memory_id, 'text',"
        f" (SELECT array_agg(random() - 0.5) FROM generate_series(1, {dimensions})"
        " WHERE key <> '')::halfvec FROM memories"
    )


def give_statistics(connection: psycopg.Connection[Any], *tables: str, has: bool) -> None:
    """Analyse tables, or let the planner know nothing of them; no name means all."""
    if has:
        connection.execute(f"ANALYZE {', '.join(tables)}")
    else:
        which = "WHERE starelid = ANY(%s::regclass[])" if tables else ""
        connection.execute(f"DELETE FROM pg_statistic {which}", [[*tables]] if tables else None)


def explained(
    connection: psycopg.Connection[Any], text: bytes, values: Any = None, **options: Any
) -> list[Node]:
    """Run a statement; return the nodes of its plan, the uppermost first."""
    query = b"EXPLAIN (ANALYZE, FORMAT JSON) " + text
    [[[found]]] = connection.execute(query, values, **options).fetchall()
    return [*nodes(found["Plan"])]


def nodes(tree: Node) -> Iterator[Node]:
    yield tree
    for child in tree.get("Plans", []):
        yield from nodes(child)


def reads_of(connection: psycopg.Connection[Any], tenant: str, policy: Policy[Any]) -> list[Node]:
    """Run a policy, undo it, and return the nodes of all plans that read a table.

    The verbs of the policy are passed over.
    """
    read: list[Node] = []
    rows: list[list[Row]] | None = None
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, [tenant])
        while True:
            try:
                batch = policy.send(rows)  # type: ignore[arg-type] # None starts it
            except StopIteration:
                return [node for node in read if node.get("Relation Name")]
            rows = []
            for operation in batch.operations if isinstance(batch, Last) else batch:
                rows.append([])
                if isinstance(operation, Verb):
                    continue
                text, values = compiled(operation, tenant)
                if isinstance(operation, Select):
                    rows[-1] = connection.execute(text, values).fetchall()
                read += explained(connection, text, values)


def of_table(read: Iterable[Node], table: str) -> list[Node]:
    """Return the nodes that read a table."""
    return [node for node in read if node.get("Relation Name") == table]


def touched(read: Iterable[Node]) -> float:
    """Return how many rows of tables the nodes of plans looked at."""
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in read
    )


def kinds(read: Iterable[Node]) -> set[str]:
    return {node["Node Type"] for node in read}
