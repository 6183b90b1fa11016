"""Marks of transactions: a writer whose answer was lost learns whether it was committed."""

from __future__ import annotations

import time
from uuid import UUID

import psycopg

from shared_core.core.ids import uuid7, uuid7_of
from shared_core.storage.postgres.connection.operations import tables_of
from shared_core.storage.postgres.connection.pipeline import Statement
from shared_core.storage.postgres.connection.statements import step

KEPT_S = 3600.0
"""Seconds for which a mark is kept at least: longer than all attempts of a write."""
_TABLE = "writes"
_DROPPED_EVERY = 16
"""One write in so many removes its tenant's outdated marks."""


class AnswerLost(Exception):
    """An earlier attempt of a write was committed, and its answer is lost."""


class Mark:
    """The mark of one write, the same in all its attempts, stored with rows of a tenant."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._write_id: UUID = uuid7()

    def written(self) -> list[Statement]:
        """Return the statements that store the mark; a second one is refused (is_marked)."""
        tenant: dict[str, object] = {"tenant": self._tenant}
        mark = step("mark_write", tenant | {"write_id": self._write_id}).statement
        if self._write_id.int % _DROPPED_EVERY:
            return [mark]
        outdated = tenant | {"outdated": uuid7_of(time.time() - KEPT_S)}
        return [step("drop_marks", outdated).statement, mark]

    def looked_for(self) -> Statement:
        """Return the statement that returns a row if the mark is stored."""
        values = {"tenant": self._tenant, "write_id": self._write_id}
        return step("marked_write", values).statement


def is_marked(error: BaseException) -> bool:
    """Return whether an error says that the transaction has been committed already."""
    return isinstance(error, psycopg.errors.UniqueViolation) and _TABLE in tables_of(error)
