"""Facts, edges and retractions as rows: those that are known, and those that a run writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from shared_core.core.domain import KnownPerson, MemoryId, ThreadId, Turn
from shared_core.core.json_text import to_json
from shared_core.ports.retention import Revival
from shared_core.ports.runs import (
    KnownEdge,
    KnownFact,
    PlannedEdge,
    PlannedFact,
    Retraction,
    Source,
)
from shared_core.storage._rows import to_tsvector, utc
from shared_core.storage.postgres.connection.database import by_column


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
        has_faded=row[7],
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


def known_person(row: Sequence[Any]) -> KnownPerson:
    """Return a row of known_people."""
    memory_id, relation, name, statement, thread_ids, event_ids, told_at, expires_at, names = row
    return KnownPerson(
        memory_id=MemoryId(memory_id),
        relation=relation,
        name=name,
        statement=statement,
        turns=tuple(zip(map(ThreadId, thread_ids), event_ids, strict=True)),
        told_at=utc(told_at),
        expires_at=expires_at and utc(expires_at),
        aliases=tuple(one for one in names or () if one != name),
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


def turn_columns(turns: Sequence[Turn]) -> dict[str, object]:
    """Return the columns of turns: thread, event."""
    return dict(zip(("thread_ids", "event_ids"), by_column(turns, 2), strict=True))


def source_columns(sources: Sequence[Source]) -> dict[str, object]:
    """Return the columns of the turns of memories: thread, event, basis."""
    turns = turn_columns([source.turn for source in sources])
    return turns | {"bases": [source.basis for source in sources]}


def edge_source_columns(sources: Sequence[tuple[UUID, Turn, int]]) -> dict[str, object]:
    """Return the columns of the turns of edges: edge, thread, event, basis."""
    turns = turn_columns([turn for _, turn, _ in sources])
    return turns | {
        "edge_ids": [edge_id for edge_id, _, _ in sources],
        "bases": [basis for _, _, basis in sources],
    }


def relation_columns(relations: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return the columns of subject keys with a relation each."""
    return dict(zip(("subjects", "relations"), by_column(relations, 2), strict=True))


def revival_columns(revival: Revival) -> dict[str, object]:
    """Return the columns of the memories that a revival brings back."""
    ids = [one.memory_id for one in revival.faded]
    terms = revival.terms
    return {
        "memory_ids": ids,
        "archived_at": [one.archived_at for one in revival.faded],
        "terms": [to_tsvector(terms[one]) if one in terms else None for one in ids],
        "term_counts": [len(terms.get(one, ())) for one in ids],
    }
