"""Facts, edges and retractions as rows: those that are known, and those that a run writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from shared_core.domain import MemoryId
from shared_core.jsontext import to_json
from shared_core.run_ports import KnownEdge, KnownFact, PlannedEdge, PlannedFact, Retraction
from shared_core.storage.database import by_column
from shared_core.storage.rows import utc


def known_fact(row: Sequence[Any]) -> KnownFact:
    """Return a row of known_facts."""
    return KnownFact(
        memory_id=MemoryId(row[2]),
        fact_type=row[0],
        key=row[1],
        value=row[3],
        valid_from=utc(row[4]),
        valid_until=row[5] and utc(row[5]),
        said=[utc(at) for at in row[6] or ()],
    )


def known_retraction(row: Sequence[Any]) -> Retraction:
    """Return a row of known_retractions."""
    return Retraction(
        retraction_id=row[0],
        fact_type=row[1],
        slot=row[2],
        subject_key=row[3],
        value=row[4],
        said_at=utc(row[5]),
        valid_until=row[6] and utc(row[6]),
    )


def known_edge(row: Sequence[Any]) -> KnownEdge:
    """Return a row of known_edges."""
    return KnownEdge(
        edge_id=row[0],
        subject=row[1],
        relation=row[2],
        object=row[3],
        valid_from=utc(row[4]),
        valid_until=row[5] and utc(row[5]),
        said=[utc(at) for at in row[6] or ()],
    )


def retraction_columns(
    retractions: Sequence[tuple[Retraction, tuple[str, ...]]],
) -> dict[str, object]:
    """Return the columns of retractions with the ids of their turns."""
    columns = by_column(
        [
            (one.retraction_id, one.fact_type, one.slot, one.subject_key, one.value, one.said_at,
             one.valid_until, to_json(event_ids))
            for one, event_ids in retractions
        ],
        8,
    )  # fmt: skip
    names = ("retraction_ids", "fact_types", "slots", "subject_keys", "values", "said_at",
             "valid_until", "event_ids")  # fmt: skip
    return dict(zip(names, columns, strict=True))


def fact_columns(facts: Sequence[PlannedFact]) -> dict[str, object]:
    """Return the columns of facts."""
    columns = by_column(
        [
            (fact.memory_id, fact.draft.fact_type, fact.draft.slot, fact.key,
             to_json(fact.draft.value), fact.draft.functional, float(fact.draft.confidence),
             fact.draft.pattern, fact.valid_from, fact.valid_until)
            for fact in facts
        ],
        10,
    )  # fmt: skip
    names = ("memory_ids", "fact_types", "slots", "keys", "values", "functional",
             "confidences", "patterns", "valid_from", "valid_until")  # fmt: skip
    return dict(zip(names, columns, strict=True))


def edge_columns(edges: Sequence[PlannedEdge]) -> dict[str, object]:
    """Return the columns of edges."""
    columns = by_column(
        [
            (edge.edge_id, edge.memory_id, edge.fact_id, edge.draft.subject,
             edge.draft.relation, edge.draft.object, edge.subject_key, edge.object_key,
             edge.draft.functional, float(edge.draft.confidence),
             edge.valid_from, edge.valid_until)
            for edge in edges
        ],
        12,
    )  # fmt: skip
    names = ("edge_ids", "memory_ids", "fact_ids", "subjects", "relations", "objects",
             "subject_keys", "object_keys", "functional", "confidences", "valid_from",
             "valid_until")  # fmt: skip
    return dict(zip(names, columns, strict=True))


def edge_source_columns(sources: Sequence[tuple[UUID, str, int]]) -> dict[str, object]:
    """Return the columns of the turns of edges: edge, turn, basis."""
    return dict(zip(("edge_ids", "event_ids", "bases"), by_column(sources, 3), strict=True))


def relation_columns(relations: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return the columns of subject keys with a relation each."""
    return dict(zip(("subjects", "relations"), by_column(relations, 2), strict=True))
