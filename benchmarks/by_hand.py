"""Runs the same lookups as hand-written SQL on the same tables.

It uses sync psycopg in autocommit with prepared statements and binary results, and returns raw
rows. It has no row security (the user must be a superuser), no connection pool, and builds no
objects. Searches and reads use the tables of our store. Writes use a second copy of its schema, so
that neither store holds the other's items.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.resources import files
from types import TracebackType
from typing import Any, LiteralString, cast

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from benchmarks.dataset import LIMIT, Entry, Matrix, Question
from benchmarks.operations import BlockingContender, Get, Operation, Put
from shared_core import open_memory, run_sync

SCHEMA = "by_hand"

BELOW_TENANT = "/"
"""The path below the tenant: empty, because both labels of a namespace name the tenant."""


class ByHand(BlockingContender):
    """The contender in bare SQL, the denominator of the ratios. Its with block closes it."""

    def __init__(self, dsn: str, vectors: dict[str, Matrix], model: str, clients: int) -> None:
        super().__init__("sql")
        self._vectors = vectors
        self._model = model
        self._sql = _statements()
        _make_schema(dsn, model, len(next(iter(vectors.values()))))
        self._idle = deque(_connect(dsn) for _ in range(clients))

    def __enter__(self) -> ByHand:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for connection in self._idle:
            connection.close()

    def perform(self, operation: Operation) -> object:
        if isinstance(operation, Put):
            return self._run("put", self._put_values(operation.entries))
        if isinstance(operation, Get):
            path = _path(operation.entry.namespace)
            values = {"tenant": path, "path": BELOW_TENANT, "key": operation.entry.key}
            return self._run("get", values)
        return self._search(operation.question)

    def keys_of(self, answer: object) -> list[str]:
        return [row[1] for row in cast("list[tuple[Any, ...]]", answer)]

    def _search(self, question: Question) -> object:
        path = _path(question.namespace)
        values: dict[str, object] = {
            "model": self._model,
            "embedding": HalfVector(self._vectors[question.text]),
            "limit": LIMIT,
        }
        if not question.namespace:
            return self._run("search_everything", values)
        # "0" follows "/" in byte order.
        values |= {"tenant": path, "path": BELOW_TENANT, "path_end": "0"}
        return self._run("search", values)

    def _put_values(self, entries: Sequence[Entry]) -> dict[str, object]:
        paths = [_path(entry.namespace) for entry in entries]
        return {
            "model": self._model,
            "tenants": paths,
            "ids": [uuid.uuid4() for _ in entries],
            "paths": [BELOW_TENANT] * len(paths),
            "keys": [entry.key for entry in entries],
            "texts": [entry.text for entry in entries],
            "values": [json.dumps(entry.value) for entry in entries],
            "embeddings": [HalfVector(self._vectors[entry.text]) for entry in entries],
        }

    def _run(self, name: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        connection = self._idle.pop()
        try:
            cursor = connection.execute(self._sql[name], values, prepare=True, binary=True)
            return cursor.fetchall() if cursor.description else []
        finally:
            self._idle.append(connection)


def _connect(dsn: str) -> psycopg.Connection[tuple[Any, ...]]:
    connection = psycopg.connect(dsn, autocommit=True)
    register_vector(connection)
    connection.execute("SET search_path TO hippocampus, public")
    return connection


def _make_schema(dsn: str, model: str, dims: int) -> None:
    engine = open_memory(dsn, schema=SCHEMA, pool_size=1)
    run_sync(engine.open())
    run_sync(engine.close())
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "INSERT INTO by_hand.embedding_models (model, dimensions, created_at)"
            " VALUES (%s, %s, now())",
            [model, dims],
        )


def _path(labels: Sequence[str]) -> str:
    return f"/{'/'.join(labels)}/"


def _statements() -> dict[str, LiteralString]:
    text = (files("benchmarks") / "by_hand.sql").read_text("utf-8")
    parts = re.split(r"^-- name: (\w+)$", text, flags=re.MULTILINE)[1:]
    return {
        name: cast(LiteralString, body) for name, body in zip(parts[::2], parts[1::2], strict=True)
    }
