"""The knowledge graph: what is around an entity, how two are connected, and how that changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import UUID

from shared_core.core.domain import USER, AsOf, MemoryId, Scope, TripleDraft
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, scope_path
from shared_core.core.timestamps import check_as_of, check_moment
from shared_core.errors import CapabilityMissing, Conflict, InvalidInput, NotFound
from shared_core.knowledge.facts import Facts
from shared_core.knowledge.run_rows import until_applied
from shared_core.lifecycle import Handle
from shared_core.nlp.relation_schema import Relations, slot_of_relation
from shared_core.nlp.text import MAX_NAME_BYTES, normalised
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
    """The edges of a scope. Names differ in nothing if they differ in case, width or spacing alone.

    What holds now is read, or with as_of what held at a moment, or what was believed at one. Every
    change is a run: engine.runs() lists it, engine.undo_run() takes it back. Raises
    CapabilityMissing where the graph is switched off.
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
        """Return the edges within depth (1 to 3) hops of an entity, either way, nearest first.

        limit: of edges, 1 to 500; of those equally near the newest. Empty for an unknown entity.
        """
        _check_number(depth, "depth", MAX_DEPTH)
        _check_number(limit, "limit", MAX_EDGES)
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
        """Return ways from one entity to another that meet none twice, shortest first.

        max_hops: 1 to 4. limit: of paths, 1 to 100. Of each end the 1,000 nearest and newest edges
        are looked at; what only older edges of a hub connect is not found.
        """
        _check_number(max_hops, "max_hops", MAX_HOPS)
        _check_number(limit, "limit", MAX_PATHS)
        keys = [_read_key(start), _read_key(goal)]
        storage = await self._ready(scope, as_of)
        walks = await storage.graph.walk(scope, keys, (max_hops + 1) // 2, REACH, as_of)
        return simple_paths(walks, max_hops, limit)

    async def history(
        self, scope: Scope, entity: str, *, limit: int = MAX_EDGES, as_of: AsOf | None = None
    ) -> list[Edge]:
        """Return the last edges that an entity ever had, in the order they began.

        current tells which hold; superseded_at since when it is known that one ended.
        """
        _check_number(limit, "limit", MAX_EDGES)
        key = _read_key(entity)
        storage = await self._ready(scope, as_of)
        found = await storage.graph.edges_of(scope, key, limit, as_of)
        names = entity_names(found)
        return [named_edge(one, names) for one in found]

    async def entities(
        self, scope: Scope, *, matching: str = "", limit: int = 100, as_of: AsOf | None = None
    ) -> list[Entity]:
        """Return entities with edges that hold, those with most first.

        matching: what one of its names holds; here accents do not count either. limit: 1 to 500.
        """
        _check_number(limit, "limit", MAX_EDGES)
        wanted = normalised(check_label(matching, "matching")) if matching else ""
        storage = await self._ready(scope, as_of)
        return list(await storage.graph.entities(scope, wanted, limit, as_of))

    async def add(
        self,
        scope: Scope,
        subject: str,
        relation: str,
        object: str,  # the word of the field
        *,
        valid_from: datetime | None = None,
        functional: bool | None = None,
        confidence: float = 1.0,
    ) -> GraphChange:
        """Add an edge: ADD, NOOP if it holds already, UPDATE if it takes the place of another.

        valid_from: when it begins, by default now; in the future, it holds from then on. It lasts
        until what begins later. functional: whether the subject has one object at a time; None for
        what relations.toml, or open_memory(relations=...), declares. With an edge that ends, ends
        the fact that says the same; with one of the user's that a slot stands for, begins the fact.
        """
        storage = await self._ready(scope)
        relations = self._declared()
        subject_key, object_key = entity_key(subject, "subject"), entity_key(object, "object")
        name = relations.name(check_label(relation, "relation"))
        if not (isinstance(confidence, int | float) and 0 <= confidence <= 1):
            raise InvalidInput(f"confidence must be between 0 and 1, got {confidence!r}")
        if not isinstance(functional, bool | None):
            raise InvalidInput(f"functional must be True, False or None, got {functional!r}")
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
        known = await storage.graph.known_spells(
            scope, edge.subject_key, relation, edge.object_key, alone=not functional
        )
        found = plan_addition(known.spells, known.value, edge.valid_from, functional=functional)
        if found.operation is Operation.NOOP:
            facts = [one.fact_id for one in known.spells if one.edge_id == found.edge_id]
            await self._facts.bring_back(scope, [one for one in facts if one])
            return GraphChange(
                operation=Operation.NOOP, edge_id=found.edge_id, closed=(), run_id=None
            )
        edge = replace(edge, valid_until=found.valid_until)
        plan = _run(scope, now, known, relation, found.ends, found.bounds)
        slot = slot_of_relation(relation)
        if slot and slot.functional == functional and USER in known.subject_keys:
            edge, plan = await self._facts.beside_edge(scope, slot, edge, plan)
        await storage.runs.apply_run(
            replace(plan, edges=[edge], counts={**plan.counts, "edges": 1})
        )
        return GraphChange(
            operation=found.operation,
            edge_id=edge.edge_id,
            closed=found.ends.edge_ids,
            run_id=plan.run_id,
        )

    async def retract(
        self,
        scope: Scope,
        subject: str,
        relation: str,
        object: str | None = None,  # the word of the field
        *,
        valid_until: datetime | None = None,
    ) -> GraphChange:
        """End the edges of a subject and relation, to one object or to all: UPDATE, or NOOP.

        valid_until: as of when, by default now. The facts that say the same end with them; what
        ended stays as history.
        """
        storage = await self._ready(scope)
        relations = self._declared()
        subject_key = entity_key(subject, "subject")
        object_key = None if object is None else entity_key(object, "object")
        name = relations.name(check_label(relation, "relation"))
        now = self._clock()
        until = _moment(valid_until, "valid_until") or now

        async def attempt() -> GraphChange:
            known = await storage.graph.known_spells(
                scope, subject_key, name, object_key or "", alone=object_key is not None
            )
            ends = plan_retraction(known.spells, object_key and known.value, until)
            if not ends.edge_ids:
                return GraphChange(operation=Operation.NOOP, edge_id=None, closed=(), run_id=None)
            plan = _run(scope, now, known, name, ends)
            await storage.runs.apply_run(plan)
            return GraphChange(
                operation=Operation.UPDATE, edge_id=None, closed=ends.edge_ids, run_id=plan.run_id
            )

        return await until_applied(attempt)

    async def restore(self, scope: Scope, edge_id: UUID | str) -> Edge:
        """Let an edge that ended hold again, with the fact that says the same; return it.

        Raises NotFound for an unknown edge, Conflict if it holds, or another has taken its place.
        """
        try:
            edge = UUID(str(edge_id))
        except ValueError as error:
            raise InvalidInput(f"edge_id must be a UUID, got {edge_id!r}") from error
        storage = await self._ready(scope)
        found = await storage.graph.one_edge(scope, edge)
        if found is None:
            raise NotFound(f"there is no edge {edge} of {scope}: graph.history() lists their ids")
        if found.superseded_at is None:
            raise Conflict(f"edge {edge} has not ended: there is nothing to restore")
        await storage.graph.restore_edge(scope, found, uuid7())
        restored = await storage.graph.one_edge(scope, edge)
        if restored is None:
            raise NotFound(f"edge {edge} was forgotten meanwhile")
        return restored

    async def merge_aliases(self, scope: Scope, name: str, aliases: Sequence[str]) -> int:
        """Let names stand for one entity, called name: reading any reads all. Return how many.

        Edges are not rewritten. What already has aliases brings them along, and an alias of another
        entity that entity; names that no edge has are merged as well. At most 100 at a time.
        """

        def planned(known: Sequence[Alias]) -> AliasPlan:
            return plan_merge(name, aliases, known, uuid7)

        return len((await self._change_aliases(scope, name, aliases, planned)).added)

    async def unmerge_aliases(
        self, scope: Scope, name: str, aliases: Sequence[str] | None = None
    ) -> int:
        """Let aliases of an entity stand for themselves again; None for all. Return how many."""

        def planned(known: Sequence[Alias]) -> AliasPlan:
            return plan_unmerge(name, aliases, known, uuid7)

        plan = await self._change_aliases(scope, name, aliases or (), planned)
        return len(plan.ended) - len(plan.added)

    async def _change_aliases(
        self,
        scope: Scope,
        name: str,
        aliases: Sequence[str],
        planned: Callable[[Sequence[Alias]], AliasPlan],
    ) -> AliasPlan:
        if isinstance(aliases, str) or len(aliases) > MAX_ALIASES:
            raise InvalidInput(f"aliases must be a list of at most {MAX_ALIASES} names")
        keys = [entity_key(name, "name"), *(entity_key(one, "an alias") for one in aliases)]
        storage = await self._ready(scope)

        async def attempt() -> AliasPlan:
            plan = planned(await storage.graph.aliases(scope, keys))
            if plan.ended or plan.added:
                await storage.graph.change_aliases(scope, uuid7(), plan.ended, plan.added)
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


def _moment(given: datetime | None, what: str) -> datetime | None:
    if given is None:
        return None
    check_moment(given, what)
    return given.astimezone(UTC)


def _check_number(number: object, what: str, most: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
        raise InvalidInput(f"{what} must be between 1 and {most}, a whole number, got {number!r}")


def entity_key(name: object, what: str) -> str:
    """Return a name as it is compared: case, width, spacing and closing punctuation do not count.

    Accents do: "Müller" and "Muller" may be two, and what was merged in error could not be told
    apart again; merge_aliases() makes them one. Raises InvalidInput for what is no name.
    """
    key = normalised(check_label(name, what))
    if not key or max(len(key.encode()), len(str(name).encode())) > MAX_NAME_BYTES:
        raise InvalidInput(
            f"{what} must be a name of at most {MAX_NAME_BYTES} bytes with more than punctuation,"
            f" got {name!r}"
        )
    return key


@dataclass(slots=True)
class AliasPlan:
    """Aliases to end, and to begin."""

    ended: list[UUID] = field(default_factory=list)
    added: list[Alias] = field(default_factory=list)


def plan_merge(
    name: str, given: Sequence[str], known: Sequence[Alias], new_id: Callable[[], UUID]
) -> AliasPlan:
    """Return what makes names stand for one entity, with all that they stood for.

    known: the current aliases of every group that one of the names is in. The entity is that of the
    first name; an entity that becomes an alias brings its own along.
    """
    by_key = {one.alias_key: one for one in known}
    own = by_key.get(normalised(name))
    root, called = (own.entity_key, own.entity) if own else (normalised(name), name)
    called = next((one.entity for one in known if one.entity_key == root), called)
    names: dict[str, str] = {}
    plan = AliasPlan()
    for alias in given:
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
        Alias(alias_id=new_id(), alias_key=key, alias=alias, entity_key=root, entity=called)
        for key, alias in names.items()
    ]
    return plan


def plan_unmerge(
    name: str, given: Sequence[str] | None, known: Sequence[Alias], new_id: Callable[[], UUID]
) -> AliasPlan:
    """Return what takes aliases off an entity again; None for all of them.

    Without the very name that the others were merged into, these stay together under the first.
    """
    by_key = {one.alias_key: one for one in known}
    own = by_key.get(normalised(name))
    root = own.entity_key if own else normalised(name)
    members = [one for one in known if one.entity_key == root]
    leaving = None if given is None else {normalised(one) for one in given}
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
    """What ends, and when: open edges, edges with a later known end, and facts."""

    close: list[tuple[UUID, datetime]] = field(default_factory=list)
    move: list[tuple[UUID, datetime]] = field(default_factory=list)
    facts: list[tuple[MemoryId, datetime]] = field(default_factory=list)

    @property
    def edge_ids(self) -> tuple[UUID, ...]:
        """The edges that end."""
        return tuple(edge_id for edge_id, _ in (*self.close, *self.move))

    def add(self, spell: Spell, until: datetime) -> None:
        """Note that a spell ends."""
        until = max(until, spell.valid_from)
        if spell.valid_until is not None:
            self.move.append((spell.edge_id, until))
        else:
            self.close.append((spell.edge_id, until))
        if spell.fact_id is not None:
            self.facts.append((spell.fact_id, until))


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What add() does. edge_id: of what says it already. valid_until: None if it holds to this day.

    ends: what it takes the place of. bounds: the edges that begin when it ends.
    """

    operation: Operation
    edge_id: UUID | None
    valid_until: datetime | None
    ends: Ends
    bounds: Sequence[UUID] = ()


def plan_addition(
    spells: Sequence[Spell], value: str, begins: datetime, *, functional: bool
) -> Addition:
    """Return what changes if a subject has a value as of begins, until something else follows.

    No spell of the relation at that moment: ADD. One of the same value: NOOP. One of another value
    and a functional relation: UPDATE, it ends and the new one begins. What begins later stays, and
    the new one lasts until then: of a functional relation whatever it is, else the same value.
    """
    at_once = [one for one in spells if _holds(one, begins)]
    for one in at_once:
        if one.value == value:
            return Addition(
                operation=Operation.NOOP, edge_id=one.edge_id, valid_until=None, ends=Ends()
            )
    ends = Ends()
    for one in at_once if functional else ():
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
    """Return what ends if a relation has no such value as of until; None for any value."""
    ends = Ends()
    for one in spells:
        holds_on = one.valid_until is None or one.valid_until > max(until, one.valid_from)
        if holds_on and (value is None or one.value == value):
            ends.add(one, until)
    return ends


def _holds(spell: Spell, at: datetime) -> bool:
    return spell.valid_from <= at and (spell.valid_until is None or spell.valid_until > at)


def subgraph(walk: Walk, limit: int) -> Subgraph:
    """Return the first edges of a walk, so many at most, with all they touch."""
    edges = walk.edges[:limit]
    names = entity_names(edges)
    hops = distances(neighbours(edges), walk.root) if edges else {}
    return Subgraph(
        entities={names[root]: distance for root, distance in hops.items()},
        edges=[named_edge(one, names) for one in edges],
        more=len(walk.edges) > limit,
    )


def simple_paths(walks: Sequence[Walk], max_hops: int, limit: int) -> list[Path]:
    """Return the paths from the root of the first walk to that of the second, shortest first.

    Of equal length, newer edges first. None meets an entity twice.
    """
    start, goal = (walk.root for walk in walks)
    edges = list({one.edge.edge_id: one for walk in walks for one in walk.edges}.values())
    edges.sort(key=lambda one: (-one.edge.valid_from.timestamp(), one.edge.edge_id))
    near = neighbours(edges)
    left = distances(near, goal)
    if start == goal or start not in left:
        return []
    names = entity_names(edges)
    found: list[Path] = []
    for length in range(1, max_hops + 1):
        for way in _ways(near, left, [start], goal, length):
            roots = [start]
            for one in way:
                roots.append(_other(one, roots[-1]))
            steps = [
                replace(named_edge(one, names), hops=place) for place, one in enumerate(way, 1)
            ]
            found.append(Path(entities=[names[root] for root in roots], edges=steps))
            if len(found) == limit:
                return found
    return found


def entity_names(edges: Iterable[FoundEdge]) -> dict[str, str]:
    """Return what entities are called: what their aliases were merged into, or as first spelt."""
    merged: dict[str, str] = {}
    spelt: dict[str, str] = {}
    for one in edges:
        for root, alias_of, name in (
            (one.subject_root, one.subject_alias_of, one.edge.subject),
            (one.object_root, one.object_alias_of, one.edge.object),
        ):
            if alias_of is not None:
                merged.setdefault(root, alias_of)
            spelt.setdefault(root, name)
    return spelt | merged


def named_edge(one: FoundEdge, names: Mapping[str, str]) -> Edge:
    """Return an edge with its entities under the same names as everywhere else."""
    return replace(
        one.edge, subject_entity=names[one.subject_root], object_entity=names[one.object_root]
    )


_Near = Mapping[str, Sequence[FoundEdge]]


def neighbours(edges: Iterable[FoundEdge]) -> _Near:
    """Return the edges of each entity, in the order given."""
    near: dict[str, list[FoundEdge]] = {}
    for one in edges:
        for root in {one.subject_root, one.object_root}:
            near.setdefault(root, []).append(one)
    return near


def distances(near: _Near, root: str) -> dict[str, int]:
    """Return how many hops away what can be reached is, nearest first."""
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


def _ways(
    near: _Near, left: Mapping[str, int], met: list[str], goal: str, length: int
) -> Iterator[list[FoundEdge]]:
    """Yield the ways of exactly this length from the last entity met to the goal."""
    here = met[-1]
    if not length:
        if here == goal:
            yield []
        return
    for one in near[here]:
        other = _other(one, here)
        if other in met or left.get(other, length) >= length or (other == goal) != (length == 1):
            continue
        for rest in _ways(near, left, [*met, other], goal, length - 1):
            yield [one, *rest]


def _other(one: FoundEdge, root: str) -> str:
    return one.object_root if one.subject_root == root else one.subject_root
