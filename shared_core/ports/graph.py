"""What the core asks of a storage for the knowledge graph; ports.Storage joins it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """Edges around an entity, nearest and newest first.

    entities: the names of all that the edges touch, and how many hops away each is, nearest first.
    more: whether there were more edges than the limit.
    """

    entities: Mapping[str, int]
    edges: Sequence[Edge]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A way from one entity to another that meets none twice.

    entities: one more than edges, from the first to the last; edges may be walked either way.
    """

    entities: Sequence[str]
    edges: Sequence[Edge]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A name in the graph, the names that were merged into it, and how many edges it has."""

    name: str
    aliases: tuple[str, ...]
    degree: int


class Operation(StrEnum):
    """What became of an edge that was to be added."""

    ADD = "ADD"
    NOOP = "NOOP"
    UPDATE = "UPDATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChange:
    """What add() or retract() did. edge_id: of the edge that says it, for add().

    closed: the edges that ended. run_id: what undo_run() takes it back by; None if nothing changed.
    """

    operation: Operation
    edge_id: UUID | None
    closed: tuple[UUID, ...]
    run_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEdge:
    """An edge as a walk met it. subject_root, object_root: keys of the entities it joins.

    subject_alias_of, object_alias_of: the name that the alias was merged into, None for no alias.
    """

    edge: Edge
    subject_root: str
    object_root: str
    subject_alias_of: str | None
    object_alias_of: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What was met on the way from an entity. root: its key. Edges are nearest and newest first."""

    root: str
    edges: Sequence[FoundEdge]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A time during which a subject had an object. value: the key of the object's entity."""

    edge_id: UUID
    value: str
    valid_from: datetime
    valid_until: datetime | None
    fact_id: MemoryId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSpells:
    """The spells of a subject's relation, and whose they are.

    value: the key of the object asked about. subject_keys: all names of the subject. number: of
    the last run they are the work of.
    """

    value: str
    subject_keys: Sequence[str]
    spells: Sequence[Spell]
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A name that was merged into an entity. alias, entity: as they were given."""

    alias_id: UUID
    alias_key: str
    alias: str
    entity_key: str
    entity: str


class GraphStorage(Protocol):
    """The graph of one scope. Every method is one transaction and one round trip.

    Names come as keys (facts.normalised). What is asked about now leaves out as_of's moments.
    """

    async def walk(
        self, scope: Scope, keys: Sequence[str], depth: int, limit: int, as_of: AsOf | None
    ) -> Sequence[Walk]:
        """Return the edges within depth hops of each entity, limit of each at most."""

    async def edges_of(
        self, scope: Scope, key: str, limit: int, as_of: AsOf | None
    ) -> Sequence[FoundEdge]:
        """Return the last edges that an entity ever had, in time order, as believed at as_of."""

    async def entities(
        self, scope: Scope, matching: str, limit: int, as_of: AsOf | None
    ) -> Sequence[Entity]:
        """Return entities with current edges of which a name holds a text; most edges first."""

    async def known_spells(
        self, scope: Scope, subject_key: str, relation: str, object_key: str, *, alone: bool
    ) -> KnownSpells:
        """Return what a subject's relation was and is; alone: to this object, not to any."""

    async def one_edge(self, scope: Scope, edge_id: UUID) -> Edge | None:
        """Return one edge by its id."""

    async def restore_edge(self, scope: Scope, edge: Edge, run_id: UUID) -> None:
        """Reopen an edge that ended, with its fact and what ended with that, as a run.

        Conflict if its place is taken.
        """

    async def aliases(self, scope: Scope, keys: Sequence[str]) -> Sequence[Alias]:
        """Return the current aliases in the groups that any of the keys belongs to."""

    async def change_aliases(
        self, scope: Scope, run_id: UUID, ended: Sequence[UUID], added: Sequence[Alias]
    ) -> None:
        """End some aliases and add others, as a run. Conflict if they were changed meanwhile."""
