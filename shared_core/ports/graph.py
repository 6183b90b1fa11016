"""The knowledge graph and its storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from shared_core.core.domain import AsOf, MemoryId, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A stored edge, with the names as spoken, both time lines and its provenance.

    Attributes:
        subject_entity: the entity of the subject, aliases resolved.
        object_entity: the entity of the object, aliases resolved.
        hops: distance from the start of a walk, 1 for an edge of the start itself; 0 without a
            walk.
        valid_until: None while it holds.
        superseded_at: since when its end is known.
        current: whether it holds at the requested moment.
        fact_id: the fact that it restates.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """Edges around an entity, nearest and newest first.

    Attributes:
        entities: the entities that the edges touch, and their distance in hops, nearest first.
        more: whether there were more edges than the limit.
    """

    entities: Mapping[str, int]
    edges: Sequence[Edge]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A simple path between two entities.

    Attributes:
        entities: one more than edges, in order. An edge may be walked in either direction.
    """

    entities: Sequence[str]
    edges: Sequence[Edge]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """An entity of the graph, the aliases merged into it, and its number of edges."""

    name: str
    aliases: tuple[str, ...]
    degree: int


class Operation(StrEnum):
    """The effect of adding an edge."""

    ADD = "ADD"
    NOOP = "NOOP"
    UPDATE = "UPDATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChange:
    """The result of add() or retract().

    Attributes:
        edge_id: of the edge that add() made or found.
        closed: the edges that ended.
        run_id: the run to pass to undo_run(); None if nothing changed.
    """

    operation: Operation
    edge_id: UUID | None
    closed: tuple[UUID, ...]
    run_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEdge:
    """An edge found by a walk. subject_root, object_root: keys of the entities it joins.

    subject_alias_of, object_alias_of: the entity of the alias, or None if the name is no alias.
    """

    edge: Edge
    subject_root: str
    object_root: str
    subject_alias_of: str | None
    object_alias_of: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The edges around an entity, nearest and newest first. root: the key of the entity."""

    root: str
    edges: Sequence[FoundEdge]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A period in which a subject had an object. value: the key of the object's entity."""

    edge_id: UUID
    value: str
    valid_from: datetime
    valid_until: datetime | None
    fact_id: MemoryId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSpells:
    """The spells of a subject's relation.

    value: the key of the requested object. subject_keys: all names of the subject. number: of the
    last run that changed them.
    """

    value: str
    subject_keys: Sequence[str]
    spells: Sequence[Spell]
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A name that was merged into an entity. alias, entity: as the caller spelled them."""

    alias_id: UUID
    alias_key: str
    alias: str
    entity_key: str
    entity: str


class GraphStorage(Protocol):
    """The graph of one scope; other reads of it are policies.

    Keys are normalised names (nlp.text.normalised). as_of: None for now.
    """

    async def walk(
        self, scope: Scope, keys: Sequence[str], depth: int, limit: int, as_of: AsOf | None
    ) -> Sequence[Walk]:
        """Return the edges within depth hops of each entity, at most limit per entity."""
