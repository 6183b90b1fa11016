"""What the core asks of a storage for the knowledge graph; ports.Storage joins it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from shared_core.domain import MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A stored edge: subject and object as they were said, with both times and where it came from.

    subject_entity, object_entity: whom the names stand for, aliases merged. hops: how many edges
    away from where the question began, 1 for an edge of that entity itself; 0 where nothing was
    walked. valid_until: None while it holds. superseded_at: since when its end is known here.
    current: whether it holds at the moment that was asked about. fact_id: the memory of the fact
    that it says again.
    """

    edge_id: UUID
    subject: str
    relation: str
    object: str
    subject_entity: str
    object_entity: str
    functional: bool
    confidence: float
    valid_from: datetime
    valid_until: datetime | None
    recorded_at: datetime
    superseded_at: datetime | None
    current: bool
    source_event_ids: tuple[str, ...]
    fact_id: MemoryId | None = None
    run_id: UUID | None = None
    hops: int = 0
