"""Writes turns by INSERT ... SELECT, many at once, as append_events() leaves them.

The connection sees two tables: said, made by write_said(), and load, made by the caller: one row
for each turn, in the order of writing, with the columns tenant_id, memory_id, thread_id, event_id,
seq, role, at (when it was said) and said_id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

import numpy as np
import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from benchmarks.tenant_load import SCHEMA, copy_rows, without_foreign_keys
from shared_core.nlp.text import search_terms
from shared_core.storage._rows import to_tsvector
from shared_core.storage.postgres.connection.changes import MOST_NOTED

_SAID = {
    "said_id": "int4", "text": "text", "terms": "tsvector", "term_count": "int4",
    "embedding": "halfvec",
}  # fmt: skip

_WRITTEN: tuple[LiteralString, ...] = (
    "INSERT INTO threads (tenant_id, thread_id, last_seq, last_memory_seq, created_at, updated_at)"
    " SELECT tenant_id, thread_id, max(seq), max(seq), min(at), max(at) FROM load GROUP BY 1, 2"
    " ON CONFLICT (tenant_id, thread_id) DO UPDATE SET last_seq = excluded.last_seq,"
    " last_memory_seq = excluded.last_memory_seq, updated_at = excluded.updated_at",
    "INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, occurred_at,"
    " recorded_at, memory_seq) SELECT tenant_id, thread_id, seq, event_id, role, role, text, at,"
    " at, seq FROM load JOIN said USING (said_id)",
    "INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,"
    " term_count, author, role, thread_id, occurred_at, created_at, updated_at)"
    " SELECT tenant_id, memory_id, '/memories/', memory_id::text, 'episodic', text,"
    " jsonb_build_object('kind', 'episodic', 'content', text, 'author', role, 'occurred_at', at,"
    " 'thread_id', thread_id), terms, term_count, role, role, thread_id, at, at, at"
    " FROM load JOIN said USING (said_id)",
    "INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)"
    " SELECT tenant_id, memory_id, thread_id, event_id FROM load",
    # Turns of the same moment leave their stage together.
    "INSERT INTO memory_access (tenant_id, memory_id, forget_at)"
    " SELECT tenant_id, memory_id, forget_at FROM load JOIN ("
    "SELECT at, next_stage_at(r, 0, NULL, NULL, NULL, 5, 0, 0, at, at) AS forget_at"
    " FROM (SELECT DISTINCT at FROM load) m CROSS JOIN retention_rule('/', 'episodic') r"
    ") d USING (at)",
    "INSERT INTO embeddings (tenant_id, model, memory_id, field, embedding)"
    " SELECT tenant_id, %(model)s, memory_id, 'text', embedding"
    " FROM load JOIN said USING (said_id)",
    # As if each turn had been written by a transaction with the id of its memory.
    "INSERT INTO memory_changes (tenant_id, write_ids, memory_ids)"
    " SELECT tenant_id, ids[:%(most)s], ids[:%(most)s] FROM ("
    "SELECT tenant_id, array_agg(memory_id ORDER BY memory_id DESC) AS ids FROM load GROUP BY 1) l"
    " ON CONFLICT (tenant_id) DO UPDATE SET write_ids = excluded.write_ids,"
    " memory_ids = excluded.memory_ids",
)


def write_said(
    connection: psycopg.Connection[Any], texts: Sequence[str], vectors: np.ndarray[Any, Any]
) -> None:
    """Create the table said: each text once, with its words and its vector."""
    register_vector(connection)
    columns = ", ".join(f"{name} {kind}" for name, kind in _SAID.items())
    connection.execute(f"CREATE UNLOGGED TABLE said ({columns})".encode())
    words = map(search_terms, texts)
    rows = (
        (number, text, to_tsvector(terms), len(terms), HalfVector(vector))
        for number, (text, terms, vector) in enumerate(zip(texts, words, vectors, strict=True))
    )
    # A tsvector has no binary form in the driver.
    copy_rows(connection, "said", _SAID, rows, binary=False)
    connection.execute("ANALYZE said")


def write_turns(connection: psycopg.Connection[Any], model: str) -> None:
    """Write the turns of load, with the vectors of a model; vectors of it are registered."""
    connection.execute("ANALYZE load")
    with without_foreign_keys(connection):
        for query in _WRITTEN:
            values = {"model": model, "most": MOST_NOTED}
            connection.execute(query, values if "%(" in query else None)


def use_schema(connection: psycopg.Connection[Any]) -> None:
    """Let the statements of a connection name the tables of the store."""
    connection.execute(f"SET search_path TO {SCHEMA}, public".encode())
