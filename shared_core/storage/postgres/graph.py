"""The knowledge graph on PostgreSQL: walks, and the edges that recall finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared_core.core.domain import AsOf, MemoryId, Scope
from shared_core.core.namespaces import scope_path
from shared_core.ports.graph import Edge, FoundEdge, Walk
from shared_core.ports.storage import Clock
from shared_core.storage._rows import moments
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import Step, step, steps


@dataclass
class PostgresGraph:
    """The graph of one scope at a time."""

    _database: PostgresDatabase
    _clock: Clock

    async def walk(
        self, scope: Scope, keys: Sequence[str], depth: int, limit: int, as_of: AsOf | None
    ) -> Sequence[Walk]:
        values = {
            "tenant": scope_path(scope), "now": self._clock(), "depth": depth, "limit": limit,
            **moments(as_of),
        }  # fmt: skip
        walks = [steps(values | {"key": key}, "key_of_entity", "walk") for key in keys]
        _, *answers = await self._database.run(
            scope_path(scope), step("read_in_order"), *[one for walk in walks for one in walk]
        )
        return [
            Walk(root=root, edges=[found_edge(row) for row in rows])
            for [[root]], rows in zip(answers[::2], answers[1::2], strict=True)
        ]


def edges_about_steps(
    scope: Scope, keys: Sequence[str], limit: int, as_of: AsOf | None, now: datetime
) -> list[Step]:
    """Return the steps that find the edges of some names; edges_about returns them."""
    values = {
        "tenant": scope_path(scope), "now": now, "keys": list(keys), "limit": limit,
        **moments(as_of),
    }  # fmt: skip
    return [step("read_in_order"), step("edges_about", values)]


def found_edge(row: Sequence[Any]) -> FoundEdge:
    """Return the edge in the columns of {edge_columns}, with the entities of both its ends."""
    subject_entity, object_entity = row[15], row[17]
    edge = Edge(
        edge_id=row[0],
        subject=row[1],
        relation=row[2],
        object=row[3],
        subject_entity=subject_entity or row[1],
        object_entity=object_entity or row[3],
        functional=row[4],
        confidence=row[5],
        valid_from=row[6],
        valid_until=row[7],
        recorded_at=row[8],
        superseded_at=row[9],
        fact_id=row[10] and MemoryId(row[10]),
        run_id=row[11],
        source_event_ids=tuple(row[12] or ()),
        current=bool(row[13]),
        hops=row[18],
    )
    return FoundEdge(
        edge=edge,
        subject_root=row[14],
        object_root=row[16],
        subject_alias_of=subject_entity,
        object_alias_of=object_entity,
    )
