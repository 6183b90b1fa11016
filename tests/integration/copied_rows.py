"""Copies all rows of a PostgreSQL to a SeekDB, with their ids."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from pgvector.psycopg import register_vector

from shared_core.core.json_text import to_json
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.storage import OceanBaseStorage
from shared_core.storage.oceanbase.vectors import add_vectors, models

TABLES = (
    "threads", "events", "memories", "memory_sources", "memory_bases", "memory_access", "facts",
    "fact_closures", "edges", "edge_sources", "entity_aliases", "runs", "run_changes",
)  # fmt: skip


@asynccontextmanager
async def copied(
    dsn: str, uri: str, clock: Callable[[], datetime], ann_threshold: int | None = 20_000
) -> AsyncIterator[OceanBaseStorage]:
    """Yield an open storage at uri with all rows of the PostgreSQL at dsn."""
    storage = OceanBaseStorage(Settings(uri=uri, home=Path(), ann_threshold=ann_threshold), clock)
    await storage.open()
    try:
        with psycopg.connect(dsn, options="-c search_path=hippocampus,public") as connection:
            for model, dimensions in connection.execute(
                "SELECT model, dimensions FROM embedding_models WHERE active"
            ):
                await storage.use_model(model, dimensions)
            await storage._database.write(lambda tx: _copy(connection, tx))
        yield storage
    finally:
        await storage.close()


def _copy(connection: psycopg.Connection[Any], tx: Transaction) -> None:
    tx.run("SET foreign_key_checks = 0")
    for table in TABLES:
        columns = {row[0]: row[1] for row in tx.rows(f"SHOW COLUMNS FROM {table}")}
        types = dict(
            connection.execute(
                "SELECT column_name, udt_name FROM information_schema.columns"
                " WHERE table_schema = current_schema() AND table_name = %s",
                [table],
            ).fetchall()
        )
        quoted = ", ".join(f'"{name}"{_cast(types[name])}' for name in columns)
        rows = connection.execute(f"SELECT {quoted} FROM {table}").fetchall()
        kinds = [types[name] for name in columns]
        tx.insert(
            table, [f"`{name}`" for name in columns], ([*map(_held, kinds, row)] for row in rows)
        )
    tx.run("SET foreign_key_checks = 1")
    register_vector(connection)
    held = "SELECT tenant_id, memory_id, field, embedding FROM embeddings WHERE model = %s"
    for model in models(tx):
        vectors = connection.execute(held, [model]).fetchall()
        add_vectors(tx, model, ((*row[:3], np.array(row[3].to_list())) for row in vectors))


def _cast(kind: str) -> str:
    return "::text" if kind in ("jsonb", "tsvector") else ""


def _held(kind: str, value: Any) -> object:
    if value is None:
        return None
    if kind == "tsvector":
        return _words(value)
    if kind == "float4":  # read as the nearest decimal, but the core gets all its digits
        return float(np.float32(value))
    if kind == "jsonb":
        return to_json(json.loads(value))
    return to_json(value) if isinstance(value, list) else value


def _words(tsvector: str) -> str:
    """Return the words of a tsvector in their order, each between spaces."""
    places: dict[int, str] = {}
    for word, positions in re.findall(r"'((?:[^']|'')*)':([\d,]+)", tsvector):
        plain = word.replace("''", "'").replace("\\\\", "\\")
        places |= {int(place): plain for place in positions.split(",")}
    return "".join(f" {places[place]}" for place in sorted(places)) + " "


def in_any_order(found: Sequence[Any]) -> list[str]:
    """Return the results in an order of their own, so that two results compare."""
    return sorted(map(repr, found))
