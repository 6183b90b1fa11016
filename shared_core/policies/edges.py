"""Edges as they were believed at a moment: around an entity, of its history, of the whole graph.

A limit counts edges that are alive, and that hold where it is asked for those. So edges are read
newest first, a page at a time, until enough of them are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from shared_core.core.domain import AsOf, MemoryId
from shared_core.nlp.text import without_accents
from shared_core.policies.aliases import aliases_of, entity_of, merged_at, names_of, select_aliases
from shared_core.ports.graph import Edge, Entity, FoundEdge, Walk
from shared_core.ports.operations import (
    Condition,
    Join,
    Policy,
    Row,
    Select,
    compare,
    equal,
    one_of,
    one_of_rows,
    open_after,
)

PAGE = 64
"""Minimum number of edges read at a time."""
_GROWTH = 4
"""Each page is this many times as long as the one before it, which it reads again."""
_OTHER_END = {"subject_key": "object_key", "object_key": "subject_key"}
_TURN = Join("events", "v", (("thread_id", "thread_id"), ("event_id", "event_id")), is_left=True)


def edges_of(key: str, limit: int, now: datetime, as_of: AsOf | None) -> Policy[list[FoundEdge]]:
    """Return the latest edges of an entity, ended ones too, in time order."""
    edges = _Edges(now, as_of)
    [names] = yield from edges.names([key])
    ends = [equal(end, name) for name in names for end in _OTHER_END]
    last = _newest(limit, (yield from edges.first(ends, limit, must_hold=False)))
    return (yield from edges.found(sorted(last, key=lambda one: one.began)))


def edge_of(edge_id: UUID, now: datetime) -> Policy[Edge | None]:
    """Return one edge by its id, or None."""
    edges = _Edges(now, None)
    [rows] = yield [Select("edges", EdgeRow._fields, (equal("edge_id", edge_id),))]
    found = yield from edges.found([EdgeRow(*row) for row in rows])
    return found[0].edge if found else None


def entities(matching: str, limit: int, now: datetime, as_of: AsOf | None) -> Policy[list[Entity]]:
    """Return entities with edges that hold whose name or alias contains a text, by degree."""
    edges = _Edges(now, as_of)
    [rows] = yield [Select("edges", EdgeRow._fields, edges.covering, (), _NEWEST)]
    alive = yield from edges.living([EdgeRow(*row) for row in rows])
    degrees, names = edges.degrees((yield from edges.holding(alive)))
    aliases = aliases_of((yield select_aliases(sorted(degrees), edges.known)))
    of_root = defaultdict[str, list[tuple[str, str]]](list)
    for one in aliases:
        of_root[one.entity_key].append((one.alias_key, one.alias))
    fitting = [
        root for root in degrees if _has_name([root, *(key for key, _ in of_root[root])], matching)
    ]
    fitting.sort(key=lambda root: (-degrees[root], root))
    return [
        Entity(
            name=names[root],
            aliases=tuple(alias for _, alias in of_root[root]),
            degree=degrees[root],
        )
        for root in fitting[:limit]
    ]


def edges_about(
    keys: Sequence[str], limit: int, now: datetime, as_of: AsOf | None
) -> Policy[list[FoundEdge]]:
    """Return edges that hold and touch one of some names or its aliases.

    limit: maximum number for each name and direction, the newest first.
    """
    edges = _Edges(now, as_of)
    names = sorted({name for of in (yield from edges.names(keys)) for name in of})
    ends = [equal(end, name) for name in names for end in _OTHER_END]
    found = yield from edges.first(ends, limit, must_hold=True)
    return (yield from edges.found(found, dict.fromkeys((one.edge_id for one in found), 1)))


def walk(key: str, depth: int, limit: int, now: datetime, as_of: AsOf | None) -> Policy[Walk]:
    """Walk breadth first from an entity; each entity is visited once, so cycles end."""
    edges = _Edges(now, as_of)
    [[root, *_]] = yield from edges.names([key])
    reached, visited = [root], {root}
    met: dict[UUID, EdgeRow] = {}
    hops: dict[UUID, int] = {}
    for hop in range(1, depth + 1):
        if not reached or len(met) >= limit:
            break
        past = sorted(visited - {*reached})
        of_names = yield from edges.names([*reached, *past])
        onward = _leading_away({name for of in of_names[len(reached) :] for name in of})
        names = sorted({name for of in of_names[: len(reached)] for name in of})
        ends = [one_of(end, names) for end in _OTHER_END]
        more = yield from edges.first(ends, limit - len(met), must_hold=True, fits=onward)
        step = _newest(limit - len(met), more)
        met |= {one.edge_id: one for one in step}
        hops = {one.edge_id: hop for one in step} | hops
        reached = sorted({edges.root(name) for one in step for name in one.ends} - visited)
        visited |= {*reached}
    nearest = sorted(_newest(len(met), met.values()), key=lambda one: hops[one.edge_id])
    return Walk(root=root, edges=(yield from edges.found(nearest, hops)))


def _leading_away(behind: Collection[str]) -> Callable[[str, EdgeRow], bool]:
    """Return whether an edge with a name at one end leads to a name that is not behind."""

    def leads(end: str, edge: EdgeRow) -> bool:
        return getattr(edge, _OTHER_END[end]) not in behind

    return leads


class EdgeRow(NamedTuple):
    """One row of the table edges."""

    edge_id: UUID
    memory_id: UUID | None
    subject: str
    relation: str
    object: str
    functional: bool
    confidence: float
    valid_from: datetime
    valid_until: datetime | None
    recorded_at: datetime
    superseded_at: datetime | None
    subject_key: str
    object_key: str
    run_id: UUID | None
    fact_id: UUID | None

    @property
    def began(self) -> tuple[datetime, datetime, UUID]:
        return self.valid_from, self.recorded_at, self.edge_id

    @property
    def ends(self) -> tuple[str, str]:
        """The names at both ends."""
        return self.subject_key, self.object_key


def _newest(limit: int, edges: Iterable[EdgeRow]) -> list[EdgeRow]:
    """Return the newest edges, at most `limit`."""
    in_order = sorted(edges, key=lambda one: one.edge_id)
    return sorted(in_order, key=lambda one: one.valid_from, reverse=True)[:limit]


class _Edges:
    """Reads edges as of one moment, and keeps what it learned of them."""

    def __init__(self, now: datetime, as_of: AsOf | None) -> None:
        self._now = now
        self._at = (as_of.valid if as_of else None) or now
        self.known = as_of.known if as_of else None
        self._is_past = as_of is not None and as_of != AsOf()
        self._alive: dict[UUID, bool] = {}
        self._turns: dict[UUID, set[str]] = {}
        self._roots: dict[str, tuple[str, str | None]] = {}

    @property
    def covering(self) -> tuple[Condition, ...]:
        """The conditions of all edges that may cover the moment; covers() decides."""
        conditions = [*self._recorded, compare("valid_from", "<=", self._at)]
        if self.known is None:
            conditions.append(open_after("valid_until", self._at))
        return tuple(conditions)

    @property
    def _recorded(self) -> list[Condition]:
        return [] if self.known is None else [compare("recorded_at", "<=", self.known)]

    def names(self, keys: Sequence[str]) -> Policy[list[list[str]]]:
        """Return the names of the entity of each key: that of the entity, then its aliases."""
        aliases = aliases_of((yield select_aliases(keys, self.known)))
        roots = [entity_of(key, aliases) for key in keys]
        return [sorted(names_of(root, aliases), key=lambda one: one != root) for root in roots]

    def root(self, key: str) -> str:
        """Return the key of the entity of a name at the end of an edge that living() saw."""
        return self._roots.get(key, (key, None))[0]

    def first(
        self,
        conditions: Sequence[Condition],
        limit: int,
        *,
        must_hold: bool,
        fits: Callable[[str, EdgeRow], bool] = lambda end, edge: True,
    ) -> Policy[list[EdgeRow]]:
        """Return the newest living edges that meet each condition, up to `limit` for each.

        conditions: on the name at one end. fits: says with that end which edges count.
        """
        found: dict[UUID, EdgeRow] = {}
        waiting, size = list(conditions), max(PAGE, limit)
        where = self.covering if must_hold else tuple(self._recorded)
        while waiting:
            pages = yield [
                Select("edges", EdgeRow._fields, (one, *where), (), _NEWEST, size)
                for one in waiting
            ]
            edges = [[EdgeRow(*row) for row in page] for page in pages]
            unique = {one.edge_id: one for page in edges for one in page}
            alive = yield from self.living(list(unique.values()))
            kept = (yield from self.holding(alive)) if must_hold else alive
            ids, short = {one.edge_id for one in kept}, []
            for condition, page in zip(waiting, edges, strict=True):
                [end] = condition.columns
                own = [one for one in page if one.edge_id in ids and fits(end, one)][:limit]
                found |= {one.edge_id: one for one in own}
                if len(own) < limit and len(page) == size:
                    short.append(condition)
            waiting, size = short, size * _GROWTH
        return list(found.values())

    def covers(self, edge: EdgeRow) -> bool:
        """Return whether an edge covers the moment, with its end as it was known."""
        if edge.valid_from > self._at:
            return False
        if edge.superseded_at is not None and self.known and edge.superseded_at > self.known:
            return True
        if edge.valid_until is not None:
            return edge.valid_until > self._at
        return edge.superseded_at is None

    def holding(self, edges: Sequence[EdgeRow]) -> Policy[list[EdgeRow]]:
        """Return the edges that hold, in their order.

        Of several edges of a functional relation that cover a moment, the last to begin holds.
        """
        covering = [one for one in edges if self.covers(one)]
        # Now there is only one current edge of a functional relation; nothing to compare.
        alone = {(one.subject_key, one.relation) for one in covering if one.functional}
        if not alone or not self._is_past:
            return covering
        places = one_of_rows(("subject_key", "relation"), sorted(alone))
        where = (places, equal("functional", True), *self.covering)
        [rows] = yield [Select("edges", EdgeRow._fields, where)]
        rivals = [one for one in (EdgeRow(*row) for row in rows) if self.covers(one)]
        last: dict[tuple[str, str], EdgeRow] = {}
        alive = yield from self.living(rivals)
        for one in sorted(alive, key=lambda one: one.began):
            last[one.subject_key, one.relation] = one

        def holds(edge: EdgeRow) -> bool:
            later = last.get((edge.subject_key, edge.relation))
            return not edge.functional or later is None or later.began <= edge.began

        return [one for one in covering if holds(one)]

    def living(self, edges: Sequence[EdgeRow]) -> Policy[list[EdgeRow]]:
        """Return the living edges, in their order; learn their turns and entities."""
        new = [one for one in edges if one.edge_id not in self._alive]
        if new:
            facts = {one for edge in new for one in (edge.fact_id, edge.memory_id) if one}
            ids = [one.edge_id for one in new]
            turns = ("edge_id", "basis", "event_id", "v.expires_at")
            names = sorted({name for one in new for name in one.ends})
            memories, sources, roots = yield [
                Select("memories", ("memory_id", "demoted_at", "expires_at"),
                       (one_of("memory_id", list(facts)),)),
                Select("edge_sources", turns, (one_of("edge_id", ids),), (_TURN,)),
                Select("entity_aliases", ("alias_key", "entity_key", "entity"),
                       (one_of("alias_key", names), *merged_at(self.known))),
            ]  # fmt: skip
            self._learn(new, memories, sources)
            self._roots |= {name: (key, entity) for name, key, entity in roots}
        return [one for one in edges if self._alive[one.edge_id]]

    def _learn(
        self, edges: Sequence[EdgeRow], memories: Sequence[Row], sources: Sequence[Row]
    ) -> None:
        """Note which edges live, and the turns of each.

        An edge that repeats a fact fades with it. An edge derived from a fact or from turns lives
        until its last basis expires.
        """
        faded = {row[0] for row in memories if row[1] is not None}
        expired = {row[0] for row in memories if self._is_over(row[2])}
        bases = defaultdict[UUID, dict[int, bool]](dict)
        self._turns |= {one.edge_id: set() for one in edges}
        for edge_id, basis, event_id, expires_at in sources:
            self._turns[edge_id].add(event_id)
            lives = not self._is_over(expires_at)
            bases[edge_id][basis] = bases[edge_id].get(basis, True) and lives
        for one in edges:
            has_basis = one.memory_id is not None and one.memory_id not in expired
            held = bases.get(one.edge_id)
            from_turns = any(held.values()) if held else one.memory_id is None
            is_faded = (one.fact_id or one.memory_id) in faded
            self._alive[one.edge_id] = not is_faded and (has_basis or from_turns)

    def _is_over(self, expires_at: datetime | None) -> bool:
        return expires_at is not None and expires_at <= self._now

    def found(
        self, edges: Sequence[EdgeRow], hops: Mapping[UUID, int] | None = None
    ) -> Policy[list[FoundEdge]]:
        """Return edges with their entities and turns, in their order; hops: of each, or 0."""
        yield from self.living(edges)
        facts = sorted({one.memory_id for one in edges if one.memory_id})
        turns = defaultdict[UUID | None, set[str]](set)
        if facts:
            of_facts = (one_of("memory_id", facts),)
            [rows] = yield [Select("memory_sources", ("memory_id", "event_id"), of_facts)]
            for memory_id, event_id in rows:
                turns[memory_id].add(event_id)
        current = {one.edge_id for one in (yield from self.holding(edges))}
        return [
            self._found(
                one,
                self._turns[one.edge_id] | turns[one.memory_id],
                is_current=one.edge_id in current,
                hops=(hops or {}).get(one.edge_id, 0),
            )
            for one in edges
        ]

    def _found(
        self, row: EdgeRow, turns: Collection[str], *, is_current: bool, hops: int
    ) -> FoundEdge:
        subject_root, subject = self._roots.get(row.subject_key, (row.subject_key, None))
        object_root, object_ = self._roots.get(row.object_key, (row.object_key, None))
        edge = Edge(
            edge_id=row.edge_id,
            subject=row.subject,
            relation=row.relation,
            object=row.object,
            subject_entity=subject or row.subject,
            object_entity=object_ or row.object,
            functional=row.functional,
            confidence=row.confidence,
            valid_from=row.valid_from,
            valid_until=row.valid_until,
            recorded_at=row.recorded_at,
            superseded_at=row.superseded_at,
            fact_id=MemoryId(row.fact_id) if row.fact_id else None,
            run_id=row.run_id,
            source_event_ids=tuple(sorted(turns)),
            current=is_current,
            hops=hops,
        )
        return FoundEdge(
            edge=edge,
            subject_root=subject_root,
            object_root=object_root,
            subject_alias_of=subject,
            object_alias_of=object_,
        )

    def degrees(self, edges: Iterable[EdgeRow]) -> tuple[dict[str, int], dict[str, str]]:
        """Return the degree and the name of each entity: its merged name, or its last spelling.

        edges: the newest first.
        """
        degrees = defaultdict[str, int](int)
        names: dict[str, str] = {}
        spelt: dict[str, str] = {}
        for one in edges:
            subject, entity = self._roots.get(one.subject_key, (one.subject_key, None))
            object_, other = self._roots.get(one.object_key, (one.object_key, None))
            ends = [(subject, entity, one.subject)]
            if object_ != subject:
                ends.append((object_, other, one.object))
            for root, merged_name, name in ends:
                degrees[root] += 1
                spelt.setdefault(root, name)
                if merged_name is not None:
                    names.setdefault(root, merged_name)
        return dict(degrees), spelt | names


_NEWEST = ("-valid_from", "edge_id")


def _has_name(keys: Sequence[str], matching: str) -> bool:
    plain = without_accents(matching)
    return not matching or any(matching in key or plain in without_accents(key) for key in keys)
