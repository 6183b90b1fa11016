"""Loads the tables of both stores by COPY; each index is built afterwards, by its definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
from pgvector import HalfVector, Vector
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb

from benchmarks.tenant_data import Tenant, key
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import tenant_of

SCHEMA = "hippocampus"
NOW = datetime(2026, 1, 1, tzinfo=UTC)

_MEMORIES = {
    "tenant_id": "text", "memory_id": "uuid", "namespace": "text", "key": "text", "kind": "text",
    "text": "text", "value": "jsonb", "terms": "tsvector", "term_count": "int4",
    "occurred_at": "timestamptz", "created_at": "timestamptz", "updated_at": "timestamptz",
}  # fmt: skip
_EMBEDDINGS = {
    "tenant_id": "text", "model": "text", "memory_id": "uuid", "field": "text",
    "embedding": "halfvec",
}  # fmt: skip
_STORE = {"prefix": "text", "key": "text", "value": "jsonb"}
_VECTORS = {"prefix": "text", "key": "text", "field_name": "text", "embedding": "vector"}


@contextmanager
def without_foreign_keys(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Check no foreign keys meanwhile: without statistics each check scans a whole table."""
    connection.execute("SET session_replication_role = replica")
    yield
    connection.execute("RESET session_replication_role")


def load_ours(connection: psycopg.Connection[Any], tenants: Sequence[Tenant], model: str) -> None:
    """Copy the tenants into memories and embeddings, as puts of {"text": ...} store them."""
    register_vector(connection)
    for tenant in tenants:
        path = tenant_of(tenant.namespace)
        ids = [uuid7() for _ in range(tenant.size)]
        texts = map(_text, range(tenant.size))
        memories = (
            (path, ids[n], "/", key(n), "item", text, Jsonb({"text": text}), "", 0, NOW, NOW, NOW)
            for n, text in enumerate(texts)
        )
        # A tsvector has no binary form in the driver.
        copy_rows(connection, f"{SCHEMA}.memories", _MEMORIES, memories, binary=False)
        vectors = (
            (path, model, ids[n], "text", HalfVector(row)) for n, row in enumerate(tenant.vectors)
        )
        copy_rows(connection, f"{SCHEMA}.embeddings", _EMBEDDINGS, vectors)


def load_reference(connection: psycopg.Connection[Any], tenants: Sequence[Tenant]) -> str:
    """Copy the tenants into the tables of PostgresStore; return its dropped index definition."""
    register_vector(connection)
    row = connection.execute(
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'store_vectors_embedding_idx'"
    ).fetchone()
    assert row is not None
    connection.execute("DROP INDEX store_vectors_embedding_idx")
    for tenant in tenants:
        prefix = ".".join(tenant.namespace)
        items = ((prefix, key(n), Jsonb({"text": _text(n)})) for n in range(tenant.size))
        copy_rows(connection, "store", _STORE, items)
        vectors = ((prefix, key(n), "text", Vector(row)) for n, row in enumerate(tenant.vectors))
        copy_rows(connection, "store_vectors", _VECTORS, vectors)
    return str(row[0])


def build_reference(connection: psycopg.Connection[Any], definition: str) -> None:
    """Build the index of PostgresStore by its own definition, with memory for the whole graph."""
    connection.execute("SET maintenance_work_mem = '2GB'")
    connection.execute(definition.encode())


def _text(number: int) -> str:
    return f"note {number}: what was said about something, in a sentence of common length"


def copy_rows(
    connection: psycopg.Connection[Any],
    table: str,
    columns: dict[str, str],
    rows: Iterable[Sequence[object]],
    *,
    binary: bool = True,
) -> None:
    """Copy rows into a table; columns: their types by name."""
    form = "(FORMAT BINARY)" if binary else ""
    query = f"COPY {table} ({', '.join(columns)}) FROM STDIN {form}"
    with connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
        if binary:
            copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)
