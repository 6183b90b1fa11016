"""engine.graph: read the neighbourhood, paths and history of entities; change their edges."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from shared_core.core.domain import USER, AsOf, MemoryId, Scope, TripleDraft
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, scope_path
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_as_of, check_moment
from shared_core.core.validation import id_of, listed, whole_number
from shared_core.errors import CapabilityMissing, Conflict, InvalidInput, NotFound
from shared_core.knowledge.facts import Facts
from shared_core.knowledge.run_rows import applied, apply_run, until_applied
from shared_core.lifecycle import Handle
from shared_core.nlp.relation_schema import Relations, slot_of_relation
from shared_core.nlp.text import MAX_NAME_BYTES, normalised
from shared_core.policies.aliases import aliases_of, change_aliases, select_aliases
from shared_core.policies.edges import edge_of, edges_of, entities
from shared_core.policies.reopening import restore_edge
from shared_core.policies.spells import known_spells
from shared_core.ports.graph import (
    Alias,
    Edge,
    Entity,
    FoundEdge,
    GraphChange,
    KnownSpells,
    Operation,
    Path,
    Spell,
    Subgraph,
    Walk,
)
from shared_core.ports.runs import PlannedEdge, RunPlan
from shared_core.ports.storage import Storage

MAX_DEPTH = 3
MAX_HOPS = 4
MAX_EDGES = 500
"""Maximum number of edges or names in one answer."""
MAX_PATHS = 100
MAX_ALIASES = 100
REACH = 1_000
"""Maximum number of edges read from either end to find paths, nearest and newest first."""
OPERATOR = "caller"


class Graph:
    """The edges of a scope. Case, width, spacing and end punctuation of names do not count.

    Reads return the edges that hold now, or with as_of those that held, or were known, at a moment.
    Every change is a run: engine.runs() lists it, engine.undo_run() undoes it. All methods raise
    CapabilityMissing if the graph is switched off.
    """

    def __init__(self, handle: Handle, relations: Relations | None, facts: Facts) -> None:
        """relations: None switches the graph off. facts: writes the fact of an edge."""
        self._handle = handle
        self._clock = handle.clock
        self._relations = relations
        self._facts = facts

    async def neighbourhood(
        self,
        scope: Scope,
        entity: str,
        *,
        depth: int = 2,
        limit: int = 50,
        as_of: AsOf | None = None,
    ) -> Subgraph:
        """Return the edges near an entity, in either direction, nearest and newest first.


        An unknown entity has no edges.

        Args:
            depth: maximum hops, 1 to 3.
            limit: 1 to 500 edges.
        """
        whole_number(depth, "depth", 1, MAX_DEPTH)
        whole_number(limit, "limit", 1, MAX_EDGES)
        key = _read_key(entity)
        storage = await self._ready(scope, as_of)
        [walk] = await storage.graph.walk(scope, [key], depth, limit + 1, as_of)
        return subgraph(walk, limit)

    async def paths(
        self,
        scope: Scope,
        start: str,
        goal: str,
        *,
        max_hops: int = 3,
        limit: int = 10,
        as_of: AsOf | None = None,
    ) -> list[Path]:
        """Return the simple paths from one entity to another, shortest first.


        The search reads the 1,000 nearest and newest edges of each end, so it may miss a path over
        older edges of a hub.

        Args:
            max_hops: 1 to 4.
            limit: maximum number of paths, 1 to 100.
        """
        whole_number(max_hops, "max_hops", 1, MAX_HOPS)
        whole_number(limit, "limit", 1, MAX_PATHS)
        keys = [_read_key(start), _read_key(goal)]
        storage = await self._ready(scope, as_of)
        walks = await storage.graph.walk(scope, keys, (max_hops + 1) // 2, REACH, as_of)
        return simple_paths(walks, max_hops, limit)

    async def history(
        self, scope: Scope, entity: str, *, limit: int = MAX_EDGES, as_of: AsOf | None = None
    ) -> list[Edge]:
        """Return the last edges of an entity, current and ended, in the order they began.


        Edge.superseded_at is when its end became known.

        Args:
            limit: maximum number of edges, 1 to 500.
        """
        whole_number(limit, "limit", 1, MAX_EDGES)
        key = _read_key(entity)
        storage = await self._ready(scope, as_of)
        read = partial(edges_of, key, limit, self._clock(), as_of)
        found = await storage.query(scope_path(scope), read)
        names = entity_names(found)
        return [named_edge(one, names) for one in found]

    async def entities(
        self, scope: Scope, *, matching: str = "", limit: int = 100, as_of: AsOf | None = None
    ) -> list[Entity]:
        """Return the entities with current edges, those with the most edges first.

        Args:
            matching: a part of one of the names; accents do not count here.
            limit: 1 to 500.
        """
        whole_number(limit, "limit", 1, MAX_EDGES)
        part = normalised(check_label(matching, "matching")) if matching else ""
        storage = await self._ready(scope, as_of)
        read = partial(entities, part, limit, self._clock(), as_of)
        return await storage.query(scope_path(scope), read)

    async def add(
        self,
        scope: Scope,
        subject: str,
        relation: str,
        object: str,  # the field's term
        *,
        valid_from: datetime | None = None,
        functional: bool | None = None,
        confidence: float = 1.0,
    ) -> GraphChange:
        """Add an edge: ADD, NOOP if it holds already, or UPDATE if it replaces another.

        The edge ends when a later one of its relation begins. The fact of a replaced edge ends too.
        An edge of the user whose relation stands for a slot also adds the fact.

        Args:
            valid_from: when the edge begins, also in the future; now by default.
            functional: whether a subject has one object at a time; None for the declaration in
                relations.toml or open_memory(relations=...).
            confidence: 0 to 1.
        """
        storage = await self._ready(scope)
        relations = self._declared()
        subject_key, object_key = entity_key(subject, "subject"), entity_key(object, "object")
        name = relations.name(check_label(relation, "relation"))
        if not (isinstance(confidence, int | float) and 0 <= confidence <= 1):
            raise InvalidInput(f"confidence must be between 0 and 1, got {shown(confidence)}")
        if not isinstance(functional, bool | None):
            raise InvalidInput(f"functional must be True, False or None, got {shown(functional)}")
        if functional is None:
            functional = bool(relations.functional(name))
        now = self._clock()
        edge = PlannedEdge(
            edge_id=uuid7(),
            draft=TripleDraft(
                subject=subject, relation=name, object=object, event_id="",
                functional=functional, confidence=confidence,
            ),
            subject_key=subject_key,
            object_key=object_key,
            memory_id=None,
            fact_id=None,
            valid_from=_moment(valid_from, "valid_from") or now,
            valid_until=None,
        )  # fmt: skip
        return await until_applied(lambda: self._add(storage, scope, edge, now))

    async def _add(
        self, storage: Storage, scope: Scope, edge: PlannedEdge, now: datetime
    ) -> GraphChange:
        relation, functional = edge.draft.relation, edge.draft.functional
        known = await self._known_spells(
            storage, scope, edge.subject_key, relation, edge.object_key, alone=not functional
        )
        found = plan_addition(known.spells, known.value, edge.valid_from, functional=functional)
        if found.operation is Operation.NOOP:
            facts = [one.fact_id for one in known.spells if one.edge_id == found.edge_id]
            await self._facts.revive_faded(scope, [one for one in facts if one])
            return GraphChange(
                operation=Operation.NOOP, edge_id=found.edge_id, closed=(), run_id=None
            )
        edge = replace(edge, valid_until=found.valid_until)
        plan = _run(scope, now, known, relation, found.ends, found.bounds)
        slot = slot_of_relation(relation)
        if slot and slot.functional == functional and USER in known.subject_keys:
            edge, plan = await self._facts.beside_edge(scope, slot, edge, plan)
        plan = replace(plan, edges=[edge], counts={**plan.counts, "edges": 1})
        await applied(apply_run(storage, plan, self._clock))
        return GraphChange(
            operation=found.operation,
            edge_id=edge.edge_id,
            closed=found.ends.edge_ids,
            run_id=plan.run_id,
        )

    async def _known_spells(
        self, storage: Storage, scope: Scope, subject: str, relation: str, object: str, *,
        alone: bool,
    ) -> KnownSpells:  # fmt: skip
        read = partial(known_spells, subject, relation, object, alone=alone, now=self._clock())
        return await storage.query(scope_path(scope), read)

    async def retract(
        self,
        scope: Scope,
        subject: str,
        relation: str,
        object: str | None = None,  # the field's term
        *,
        valid_until: datetime | None = None,
    ) -> GraphChange:
        """End the edges of a subject and relation: UPDATE, or NOOP if there is none to end.


        Their facts end with them. Ended edges stay in the history.

        Args:
            object: None ends the edges to all objects.
            valid_until: when they end; now by default.
        """
        storage = await self._ready(scope)
        relations = self._declared()
        subject_key = entity_key(subject, "subject")
        object_key = None if object is None else entity_key(object, "object")
        name = relations.name(check_label(relation, "relation"))
        now = self._clock()
        until = _moment(valid_until, "valid_until") or now

        async def attempt() -> GraphChange:
            known = await self._known_spells(
                storage, scope, subject_key, name, object_key or "", alone=object_key is not None
            )
            ends = plan_retraction(known.spells, object_key and known.value, until)
            if not ends.edge_ids:
                return GraphChange(operation=Operation.NOOP, edge_id=None, closed=(), run_id=None)
            plan = _run(scope, now, known, name, ends)
            await applied(apply_run(storage, plan, self._clock))
            return GraphChange(
                operation=Operation.UPDATE, edge_id=None, closed=ends.edge_ids, run_id=plan.run_id
            )

        return await until_applied(attempt)

    async def restore(self, scope: Scope, edge_id: UUID | str) -> Edge:
        """Undo the end of an edge and of the fact that it restates; return the edge.

        Raises:
            NotFound: for an unknown edge.
            Conflict: if it holds, or another has replaced it.
        """
        edge = id_of(edge_id, "edge_id")
        storage, tenant = await self._ready(scope), scope_path(scope)
        read = partial(edge_of, edge, self._clock())
        found = await storage.query(tenant, read)
        if found is None:
            raise NotFound(f"there is no edge {edge} of {scope}: graph.history() lists their ids")
        if found.superseded_at is None:
            raise Conflict(f"edge {edge} has not ended: there is nothing to restore")
        run_id, now = uuid7(), self._clock()
        await storage.transact(tenant, lambda: restore_edge(tenant, found, run_id, now))
        restored = await storage.query(tenant, read)
        if restored is None:
            raise NotFound(f"edge {edge} was forgotten meanwhile")
        return restored

    async def merge_aliases(self, scope: Scope, name: str, aliases: Sequence[str]) -> int:
        """Merge aliases into the entity of a name; return the number of merged names.

        Reads by any name return the edges of all; edges are not rewritten. An alias brings the
        names of its entity along. Names without edges are merged too.

        Args:
            aliases: at most 100.
        """

        def planned(known: Sequence[Alias]) -> AliasPlan:
            return plan_merge(name, aliases, known, uuid7)

        return len((await self._change_aliases(scope, name, aliases, planned)).added)

    async def unmerge_aliases(
        self, scope: Scope, name: str, aliases: Sequence[str] | None = None
    ) -> int:
        """Separate aliases from an entity, None for all; return the number of separated names."""

        def planned(known: Sequence[Alias]) -> AliasPlan:
            return plan_unmerge(name, aliases, known, uuid7)

        given = () if aliases is None else aliases
        plan = await self._change_aliases(scope, name, given, planned)
        return len(plan.ended) - len(plan.added)

    async def _change_aliases(
        self,
        scope: Scope,
        name: str,
        aliases: Sequence[str],
        planned: Callable[[Sequence[Alias]], AliasPlan],
    ) -> AliasPlan:
        if len(listed(aliases, "aliases", '["Mia"]')) > MAX_ALIASES:
            raise InvalidInput(
                f"aliases must be a list of up to {MAX_ALIASES} names, got {len(aliases)}"
            )
        keys = [entity_key(name, "name"), *(entity_key(one, "an alias") for one in aliases)]
        storage, tenant = await self._ready(scope), scope_path(scope)

        async def attempt() -> AliasPlan:
            plan = planned(aliases_of(await storage.read(tenant, select_aliases(keys))))
            if plan.ended or plan.added:
                run_id, now = uuid7(), self._clock()
                change = storage.transact(
                    tenant, lambda: change_aliases(run_id, plan.ended, plan.added, now)
                )
                await applied(change)
            return plan

        return await until_applied(attempt)

    def _declared(self) -> Relations:
        if self._relations is None:
            raise CapabilityMissing(
                "the knowledge graph is switched off here: open the memory with"
                " open_memory(graph_enabled=True), or without HIPPOCAMPUS_GRAPH=off"
            )
        return self._relations

    async def _ready(self, scope: Scope, as_of: AsOf | None = None) -> Storage:
        self._declared()
        scope_path(scope)
        check_as_of(as_of)
        return await self._handle.storage()


def _run(
    scope: Scope,
    now: datetime,
    known: KnownSpells,
    relation: str,
    ends: Ends,
    bounds: Sequence[UUID] = (),
) -> RunPlan:
    return RunPlan(
        run_id=uuid7(),
        kind="graph",
        scope=scope,
        thread_id=None,
        extractor=OPERATOR,
        started_at=now,
        close=ends.facts,
        ended=[fact_id for fact_id, until in ends.facts if until <= now],
        bounds=bounds,
        close_edges=ends.close,
        move_edges=ends.move,
        counts={"closed": len(ends.facts), "edges_closed": len(ends.edge_ids)},
        relations=[(key, relation) for key in known.subject_keys],
        known_number=known.number,
    )


def _read_key(name: str) -> str:
    return normalised(check_label(name, "an entity"))


def _moment(moment: datetime | None, what: str) -> datetime | None:
    if moment is None:
        return None
    check_moment(moment, what)
    return moment.astimezone(UTC)


def entity_key(name: object, what: str) -> str:
    """Return the key of a name: without case, width, spacing and closing punctuation.

    Accents count, because "Müller" and "Muller" may be two people, and one key could not be split
    again; merge_aliases() joins them. Raises InvalidInput for a text that is no name.
    """
    key = normalised(check_label(name, what))
    if not key or max(len(key.encode()), len(str(name).encode())) > MAX_NAME_BYTES:
        raise InvalidInput(
            f"{what} must be a name of at most {MAX_NAME_BYTES} bytes with more than punctuation,"
            f" got {shown(name)}"
        )
    return key


@dataclass(slots=True)
class AliasPlan:
    """The aliases to end and to add."""

    ended: list[UUID] = field(default_factory=list)
    added: list[Alias] = field(default_factory=list)


def plan_merge(
    name: str, aliases: Sequence[str], known: Sequence[Alias], new_id: Callable[[], UUID]
) -> AliasPlan:
    """Return the plan that merges aliases into the entity of a name.

    known: the current aliases of each entity that one of the names belongs to. An alias brings all
    names of its entity.
    """
    by_key = {one.alias_key: one for one in known}
    own = by_key.get(normalised(name))
    root, entity = (own.entity_key, own.entity) if own else (normalised(name), name)
    entity = next((one.entity for one in known if one.entity_key == root), entity)
    names: dict[str, str] = {}
    plan = AliasPlan()
    for alias in aliases:
        key = normalised(alias)
        group = by_key[key].entity_key if key in by_key else key
        if group == root:
            continue
        members = [one for one in known if one.entity_key == group]
        names.setdefault(group, next((one.entity for one in members), alias))
        for one in members:
            names.setdefault(one.alias_key, one.alias)
            if one.alias_id not in plan.ended:
                plan.ended.append(one.alias_id)
        names.setdefault(key, alias)
    plan.added = [
        Alias(alias_id=new_id(), alias_key=key, alias=alias, entity_key=root, entity=entity)
        for key, alias in names.items()
    ]
    return plan


def plan_unmerge(
    name: str, aliases: Sequence[str] | None, known: Sequence[Alias], new_id: Callable[[], UUID]
) -> AliasPlan:
    """Return the plan that separates aliases from an entity; None for all of them.

    If the name of the entity itself leaves, the others stay together under the first of them.
    """
    by_key = {one.alias_key: one for one in known}
    own = by_key.get(normalised(name))
    root = own.entity_key if own else normalised(name)
    members = [one for one in known if one.entity_key == root]
    leaving = None if aliases is None else {normalised(one) for one in aliases}
    if leaving is None or root not in leaving:
        gone = [one for one in members if leaving is None or one.alias_key in leaving]
        return AliasPlan(ended=[one.alias_id for one in gone])
    plan = AliasPlan(ended=[one.alias_id for one in members])
    staying = [one for one in members if one.alias_key not in leaving]
    if staying:
        first = staying[0]
        plan.added = [
            replace(one, alias_id=new_id(), entity_key=first.alias_key, entity=first.alias)
            for one in staying[1:]
        ]
    return plan


@dataclass(slots=True)
class Ends:
    """The ends of open edges (close), of edges with a later end (move), and of facts."""

    close: list[tuple[UUID, datetime]] = field(default_factory=list)
    move: list[tuple[UUID, datetime]] = field(default_factory=list)
    facts: list[tuple[MemoryId, datetime]] = field(default_factory=list)

    @property
    def edge_ids(self) -> tuple[UUID, ...]:
        """The edges that end."""
        return tuple(edge_id for edge_id, _ in (*self.close, *self.move))

    def add(self, spell: Spell, until: datetime) -> None:
        """Add the end of a spell and of its fact."""
        until = max(until, spell.valid_from)
        if spell.valid_until is not None:
            self.move.append((spell.edge_id, until))
        else:
            self.close.append((spell.edge_id, until))
        if spell.fact_id is not None:
            self.facts.append((spell.fact_id, until))


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """The plan of an edge to add. edge_id: the equal edge, for a NOOP.

    ends: the edges that it replaces. bounds: the edges that begin at its end, valid_until.
    """

    operation: Operation
    edge_id: UUID | None
    valid_until: datetime | None
    ends: Ends
    bounds: Sequence[UUID] = ()


def plan_addition(
    spells: Sequence[Spell], value: str, begins: datetime, *, functional: bool
) -> Addition:
    """Return the changes if a subject has a value from begins on.

    A spell of the same value holds then: NOOP. A functional relation has another value then: UPDATE
    ends it. Otherwise: ADD. A later spell stays, and the new one ends when it begins. For a
    relation that is not functional, only a later spell of the same value counts.
    """
    current = [one for one in spells if _holds(one, begins)]
    for one in current:
        if one.value == value:
            return Addition(
                operation=Operation.NOOP, edge_id=one.edge_id, valid_until=None, ends=Ends()
            )
    ends = Ends()
    for one in current if functional else ():
        ends.add(one, begins)
    later = [
        one
        for one in spells
        if one.valid_from > begins
        and one.valid_until != one.valid_from
        and (functional or one.value == value)
    ]
    until = min((one.valid_from for one in later), default=None)
    return Addition(
        operation=Operation.UPDATE if ends.edge_ids else Operation.ADD,
        edge_id=None,
        valid_until=until,
        ends=ends,
        bounds=[one.edge_id for one in later if one.valid_from == until],
    )


def plan_retraction(spells: Sequence[Spell], value: str | None, until: datetime) -> Ends:
    """Return the ends of the spells of a value that hold after until; None for any value."""
    ends = Ends()
    for one in spells:
        holds_on = one.valid_until is None or one.valid_until > max(until, one.valid_from)
        if holds_on and (value is None or one.value == value):
            ends.add(one, until)
    return ends


def _holds(spell: Spell, at: datetime) -> bool:
    return spell.valid_from <= at and (spell.valid_until is None or spell.valid_until > at)


def subgraph(walk: Walk, limit: int) -> Subgraph:
    """Return the first edges of a walk, at most limit, with the entities they touch."""
    edges = walk.edges[:limit]
    names = entity_names(edges)
    hops = distances(neighbours(edges), walk.root) if edges else {}
    return Subgraph(
        entities={names[root]: distance for root, distance in hops.items()},
        edges=[named_edge(one, names) for one in edges],
        more=len(walk.edges) > limit,
    )


def simple_paths(walks: Sequence[Walk], max_hops: int, limit: int) -> list[Path]:
    """Return the simple paths from the root of the first walk to that of the second.

    The shortest paths come first; among equal lengths, those over newer edges.
    """
    start, goal = (walk.root for walk in walks)
    edges = list({one.edge.edge_id: one for walk in walks for one in walk.edges}.values())
    edges.sort(key=lambda one: (-one.edge.valid_from.timestamp(), one.edge.edge_id))
    near = neighbours(edges)
    hops = distances(near, goal)
    if start == goal or start not in hops:
        return []
    names = entity_names(edges)
    found: list[Path] = []
    for length in range(1, max_hops + 1):
        for path in _paths(near, hops, [start], goal, length):
            roots = [start]
            for one in path:
                roots.append(_other(one, roots[-1]))
            steps = [
                replace(named_edge(one, names), hops=place) for place, one in enumerate(path, 1)
            ]
            found.append(Path(entities=[names[root] for root in roots], edges=steps))
            if len(found) == limit:
                return found
    return found


def entity_names(edges: Iterable[FoundEdge]) -> dict[str, str]:
    """Return the name of each entity by key: that of its aliases, or its first spelling."""
    merged: dict[str, str] = {}
    first: dict[str, str] = {}
    for one in edges:
        for root, alias_of, name in (
            (one.subject_root, one.subject_alias_of, one.edge.subject),
            (one.object_root, one.object_alias_of, one.edge.object),
        ):
            if alias_of is not None:
                merged.setdefault(root, alias_of)
            first.setdefault(root, name)
    return first | merged


def named_edge(one: FoundEdge, names: Mapping[str, str]) -> Edge:
    """Return an edge with the names of its entities from entity_names()."""
    return replace(
        one.edge, subject_entity=names[one.subject_root], object_entity=names[one.object_root]
    )


_Near = Mapping[str, Sequence[FoundEdge]]


def neighbours(edges: Iterable[FoundEdge]) -> _Near:
    """Return the edges of each entity, by its key."""
    near: dict[str, list[FoundEdge]] = {}
    for one in edges:
        for root in {one.subject_root, one.object_root}:
            near.setdefault(root, []).append(one)
    return near


def distances(near: _Near, root: str) -> dict[str, int]:
    """Return the hops to each reachable entity, nearest first."""
    hops = {root: 0} if root in near else {}
    waiting = deque(hops)
    while waiting:
        here = waiting.popleft()
        for one in near[here]:
            other = _other(one, here)
            if other not in hops:
                hops[other] = hops[here] + 1
                waiting.append(other)
    return hops


def _paths(
    near: _Near, hops: Mapping[str, int], seen: list[str], goal: str, length: int
) -> Iterator[list[FoundEdge]]:
    """Yield the paths of exactly this length from the last visited entity to the goal."""
    here = seen[-1]
    if not length:
        if here == goal:
            yield []
        return
    for one in near[here]:
        other = _other(one, here)
        if other in seen or hops.get(other, length) >= length or (other == goal) != (length == 1):
            continue
        for rest in _paths(near, hops, [*seen, other], goal, length - 1):
            yield [one, *rest]


def _other(one: FoundEdge, root: str) -> str:
    return one.object_root if one.subject_root == root else one.subject_root
