"""The knowledge graph: what is around an entity, how two are connected, and how that changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from shared_core.core.domain import USER, AsOf, Scope, TripleDraft
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, scope_path
from shared_core.core.timestamps import check_as_of, check_moment
from shared_core.errors import CapabilityMissing, Conflict, InvalidInput, NotFound
from shared_core.knowledge.entity_names import AliasPlan, entity_key, plan_merge, plan_unmerge
from shared_core.knowledge.facts import MAX_TRIES, Facts, pause
from shared_core.knowledge.graph_changes import Ends, plan_addition, plan_retraction
from shared_core.knowledge.graph_walks import entity_names, named_edge, simple_paths, subgraph
from shared_core.lifecycle import Handle
from shared_core.nlp.relation_schema import Relations, slot_of_relation
from shared_core.nlp.text import normalised
from shared_core.ports.graph import (
    Alias,
    Edge,
    Entity,
    GraphChange,
    KnownSpells,
    Operation,
    Path,
    Subgraph,
)
from shared_core.ports.runs import PlannedEdge, RunPlan
from shared_core.ports.storage import Storage

MAX_DEPTH = 3
MAX_HOPS = 4
MAX_EDGES = 500
"""So many edges or names are returned at most."""
MAX_PATHS = 100
MAX_ALIASES = 100
REACH = 1_000
"""So many edges from either end are looked at to find paths, the nearest and newest."""
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
            raise InvalidInput(f"confidence must be from 0 to 1, not {confidence!r}")
        if not isinstance(functional, bool | None):
            raise InvalidInput(f"functional must be True, False or None, not {functional!r}")
        if functional is None:
            functional = bool(relations.functional(name))
        now = self._clock()
        begins = _moment(valid_from, "valid_from") or now
        draft = TripleDraft(
            subject=subject, relation=name, object=object, event_id="",
            functional=functional, confidence=confidence,
        )  # fmt: skip

        slot = slot_of_relation(name)

        async def planned(known: KnownSpells) -> tuple[GraphChange, RunPlan | None]:
            found = plan_addition(known.spells, known.value, begins, functional=functional)
            if found.operation is Operation.NOOP:
                facts = [one.fact_id for one in known.spells if one.edge_id == found.edge_id]
                await self._facts.bring_back(scope, [one for one in facts if one])
                return GraphChange(
                    operation=Operation.NOOP, edge_id=found.edge_id, closed=(), run_id=None
                ), None
            edge = PlannedEdge(
                edge_id=uuid7(),
                draft=draft,
                subject_key=subject_key,
                object_key=object_key,
                memory_id=None,
                fact_id=None,
                valid_from=begins,
                valid_until=found.valid_until,
            )
            plan = _run(scope, now, known, name, found.ends, found.bounds)
            if slot and slot.functional == functional and USER in known.subject_keys:
                edge, plan = await self._facts.beside_edge(scope, slot, edge, plan)
            return GraphChange(
                operation=found.operation,
                edge_id=edge.edge_id,
                closed=found.ends.edge_ids,
                run_id=plan.run_id,
            ), replace(plan, edges=[edge], counts={**plan.counts, "edges": 1})

        def read() -> Awaitable[KnownSpells]:
            return storage.graph.known_spells(
                scope, subject_key, name, object_key, alone=not functional
            )

        return await self._change(read, planned)

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

        async def planned(known: KnownSpells) -> tuple[GraphChange, RunPlan | None]:
            value = None if object_key is None else known.value
            ends = plan_retraction(known.spells, value, until)
            plan = _run(scope, now, known, name, ends) if ends.edge_ids else None
            return GraphChange(
                operation=Operation.UPDATE if plan else Operation.NOOP,
                edge_id=None,
                closed=ends.edge_ids,
                run_id=plan.run_id if plan else None,
            ), plan

        def read() -> Awaitable[KnownSpells]:
            return storage.graph.known_spells(
                scope, subject_key, name, object_key or "", alone=object_key is not None
            )

        return await self._change(read, planned)

    async def restore(self, scope: Scope, edge_id: UUID | str) -> Edge:
        """Let an edge that ended hold again, with the fact that says the same; return it.

        Raises NotFound for an unknown edge, Conflict if it holds, or another has taken its place.
        """
        try:
            edge = UUID(str(edge_id))
        except ValueError as error:
            raise InvalidInput(f"edge_id must be a UUID, not {edge_id!r}") from error
        storage = await self._ready(scope)
        found = await storage.graph.one_edge(scope, edge)
        if found is None:
            raise NotFound(f"there is no edge {edge} of {scope}: graph.history() shows their ids")
        if found.superseded_at is None:
            raise Conflict(f"edge {edge} did not end: there is nothing to restore")
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
        for tries in range(1, MAX_TRIES + 1):
            plan = planned(await storage.graph.aliases(scope, keys))
            if not plan.ended and not plan.added:
                return plan
            try:
                await storage.graph.change_aliases(scope, uuid7(), plan.ended, plan.added)
            except Conflict:
                if tries == MAX_TRIES:
                    raise
                await pause(tries)
            else:
                return plan
        raise AssertionError("unreachable")

    async def _change(
        self,
        read: Callable[[], Awaitable[KnownSpells]],
        planned: Callable[[KnownSpells], Awaitable[tuple[GraphChange, RunPlan | None]]],
    ) -> GraphChange:
        storage = await self._handle.storage()
        for tries in range(1, MAX_TRIES + 1):
            known = await read()
            change, plan = await planned(known)
            if plan is None:
                return change
            try:
                await storage.runs.apply_run(plan)
            except Conflict:
                if tries == MAX_TRIES:
                    raise
                await pause(tries)
            else:
                return change
        raise AssertionError("unreachable")

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
        raise InvalidInput(f"{what} must be a whole number from 1 to {most}, not {number!r}")
