"""Marks of transactions: a writer whose answer was lost learns whether it was committed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from uuid import UUID

import psycopg

from shared_core.core.ids import uuid7, uuid7_of
from shared_core.storage.postgres.connection.operations import tables_of
from shared_core.storage.postgres.connection.pipeline import Statement
from shared_core.storage.postgres.connection.statements import step

KEPT_S = 3600.0
"""Seconds for which a mark is kept at least: longer than all attempts of a write."""
_TABLE = "writes"
_ON_COORDINATOR = "coordinator_writes"
_DROPPED_EVERY = 16
"""One write in 16 removes the outdated marks of its tenant."""


class AnswerLost(Exception):
    """An earlier attempt of a write was committed, and its answer is lost."""


class Mark:
    """The mark of one write, the same in all its attempts, stored with rows of a tenant."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._write_id: UUID = uuid7()
        self._table = ""

    def written(self, *, on_coordinator: bool) -> list[Statement]:
        """Return the statements that store the mark; a second one is refused (is_marked).

        on_coordinator: store it on the coordinator of a cluster, beside rows that lie there. The
        first attempt decides: marks in two tables would not refuse each other.
        """
        self._table = self._table or (_ON_COORDINATOR if on_coordinator else _TABLE)
        tenant: dict[str, object] = {"tenant": self._tenant}
        mark = self._step("mark_write", tenant | {"write_id": self._write_id})
        if self._write_id.int % _DROPPED_EVERY:
            return [mark]
        outdated = tenant | {"outdated": uuid7_of(time.time() - KEPT_S)}
        return [self._step("drop_marks", outdated), mark]

    def looked_for(self) -> Statement:
        """Return the statement that returns a row if the mark is stored."""
        values = {"tenant": self._tenant, "write_id": self._write_id}
        return self._step("marked_write", values)

    def _step(self, name: str, values: Mapping[str, object]) -> Statement:
        return step(name, values, literals=(("marks", self._table or _TABLE),)).statement


def is_marked(error: BaseException) -> bool:
    """Return whether an error says that the transaction has been committed already."""
    if not isinstance(error, psycopg.errors.UniqueViolation):
        return False
    return not tables_of(error).isdisjoint((_TABLE, _ON_COORDINATOR))
