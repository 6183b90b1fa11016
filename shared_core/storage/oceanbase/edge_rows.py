"""Edges of the graph and the names of their entities, as they were believed at a moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from shared_core.core.domain import AsOf, MemoryId
from shared_core.policies.aliases import ALIAS_COLUMNS
from shared_core.ports.graph import Alias, Edge, FoundEdge
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.rows import sources_of
from shared_core.storage.oceanbase.visibility import WhereClause, all_of, if_set

PAGE = 256
"""Minimum number of edges read at a time, until enough of them are alive."""


class EdgeRow(NamedTuple):
    """One row of the table edges."""

    edge_id: UUID
    memory_id: UUID | None
    subject: str
    relation: str
    object: str
    functional: int
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


COLUMNS = ", ".join(f"e.{name}" for name in EdgeRow._fields)


class Edges:
    """Reads the edges of one tenant as of one moment."""

    def __init__(self, tx: Transaction, tenant: str, now: datetime, as_of: AsOf | None) -> None:
        self.names = EntityNames(tx, tenant, as_of.known if as_of else None)
        self._tx = tx
        self._tenant = tenant
        self._now = now
        self._at = (as_of.valid if as_of else None) or now
        self._known = as_of.known if as_of else None
        self._is_past = as_of is not None and as_of != AsOf()

    def where(self, condition: WhereClause, order: str = "e.edge_id") -> list[EdgeRow]:
        """Return the edges that match a condition, including ended and future ones."""
        rows = self._tx.rows(
            f"SELECT {COLUMNS} FROM edges e WHERE e.tenant_id = %s AND {condition.sql}"
            f" ORDER BY {order}",
            [self._tenant, *condition.values],
        )
        return [EdgeRow(*row) for row in rows]

    def known(self) -> WhereClause:
        """Return {edge_known}."""
        return if_set("e.recorded_at <= %s", self._known)

    def covering(self) -> WhereClause:
        """Return {edge_covers}: the edge covers the moment, with its end as it was known."""
        later_known = " OR e.superseded_at > %s" if self._known else ""
        return WhereClause(
            "e.valid_from <= %s AND (e.valid_until > %s"
            f" OR e.valid_until IS NULL AND e.superseded_at IS NULL{later_known})",
            (self._at, self._at, *([self._known] if self._known else [])),
        )

    def first(self, condition: WhereClause, limit: int, *, holding: bool) -> list[EdgeRow]:
        """Return the newest living edges that match a condition; holding: only those that hold."""
        found: list[EdgeRow] = []
        for page in self._pages(condition, limit, holding):
            living = self.living(page)
            found += self.holding(living) if holding else living
            if len(found) >= limit:
                break
        return found[:limit]

    def _pages(self, condition: WhereClause, limit: int, holding: bool) -> Iterator[list[EdgeRow]]:
        conditions = [condition, self.known(), *([self.covering()] if holding else [])]
        size = max(PAGE, limit)
        after = WhereClause("TRUE")
        while True:
            rows = self.where(
                all_of(*conditions, after), f"e.valid_from DESC, e.edge_id LIMIT {size:d}"
            )
            yield rows
            if len(rows) < size:
                return
            last = rows[-1]
            after = WhereClause(
                "(e.valid_from < %s OR e.valid_from = %s AND e.edge_id > %s)",
                (last.valid_from, last.valid_from, last.edge_id),
            )

    def covers(self, edge: EdgeRow) -> bool:
        """Return whether an edge meets covering()."""
        if edge.valid_from > self._at:
            return False
        if edge.superseded_at is not None and self._known and edge.superseded_at > self._known:
            return True
        if edge.valid_until is not None:
            return edge.valid_until > self._at
        return edge.superseded_at is None

    def holding(self, edges: Sequence[EdgeRow]) -> list[EdgeRow]:
        """Return the edges that hold ({edge_holds}), in their order.

        Of several edges of a functional relation that cover a moment, the last to begin holds.
        """
        covering = [one for one in edges if self.covers(one)]
        # Now there is only one current edge of a functional relation; nothing to compare.
        alone = [one for one in covering if one.functional] if self._is_past else []
        if not alone:
            return covering
        rivals = self.where(
            all_of(
                WhereClause("e.functional = 1"),
                WhereClause("e.subject_key IN %s", (sorted({one.subject_key for one in alone}),)),
                WhereClause("e.relation IN %s", (sorted({one.relation for one in alone}),)),
                self.known(),
                self.covering(),
            )
        )
        last: dict[tuple[str, str], EdgeRow] = {}
        for one in sorted(self.living(rivals), key=lambda one: one.began):
            last[one.subject_key, one.relation] = one

        def holds(edge: EdgeRow) -> bool:
            later = last.get((edge.subject_key, edge.relation))
            return not edge.functional or later is None or later.began <= edge.began

        return [one for one in covering if holds(one)]

    def living(self, edges: Sequence[EdgeRow]) -> list[EdgeRow]:
        """Return the living edges ({edge_living}), in their order.

        An edge that repeats a fact fades with it. An edge derived from a fact or from turns lives
        until its last basis expires.
        """
        if not edges:
            return []
        facts = {one for edge in edges for one in (edge.fact_id, edge.memory_id) if one}
        faded, expired = self._gone(facts)

        def has_living_fact(edge: EdgeRow) -> bool:
            return edge.memory_id is not None and edge.memory_id not in expired

        unsure = [one.edge_id for one in edges if not has_living_fact(one)]
        whole = self._whole(unsure)
        return [
            one
            for one in edges
            if (one.fact_id or one.memory_id) not in faded
            and (has_living_fact(one) or whole.get(one.edge_id, one.memory_id is None))
        ]

    def _gone(self, memory_ids: Iterable[UUID]) -> tuple[set[UUID], set[UUID]]:
        """Return the memories that have faded out of recall, and those that have expired."""
        rows = self._tx.select(
            "memories", "memory_id, demoted_at, expires_at", self._tenant, memory_id=memory_ids
        )
        faded = {row[0] for row in rows if row[1] is not None}
        return faded, {row[0] for row in rows if row[2] is not None and row[2] <= self._now}

    def _whole(self, edge_ids: Sequence[UUID]) -> dict[UUID, bool]:
        """Return whether each edge with turns has a basis without an expired turn."""
        bases: dict[UUID, dict[int, bool]] = defaultdict(dict)
        for edge_id, basis, expires_at in self._tx.rows(
            "SELECT s.edge_id, s.basis, v.expires_at FROM edge_sources s"
            " LEFT JOIN events v ON v.tenant_id = s.tenant_id AND v.thread_id = s.thread_id"
            " AND v.event_id = s.event_id"
            " WHERE s.tenant_id = %s AND s.edge_id IN %s",
            [self._tenant, list(edge_ids)],
        ):
            lives = expires_at is None or expires_at > self._now
            bases[edge_id][basis] = bases[edge_id].get(basis, True) and lives
        return {edge_id: any(held.values()) for edge_id, held in bases.items()}

    def found(
        self, edges: Sequence[EdgeRow], hops: Mapping[UUID, int] | int = 0
    ) -> list[FoundEdge]:
        """Return edges with their entities, in their order; hops: of each edge, or of all."""
        sources = self._sources(edges)
        roots = self.names.roots(
            name for one in edges for name in (one.subject_key, one.object_key)
        )
        current = {one.edge_id for one in self.holding(edges)}
        found = []
        for one in edges:
            subject, object_ = roots[one.subject_key], roots[one.object_key]
            edge = Edge(
                edge_id=one.edge_id,
                subject=one.subject,
                relation=one.relation,
                object=one.object,
                subject_entity=subject.entity or one.subject,
                object_entity=object_.entity or one.object,
                functional=bool(one.functional),
                confidence=one.confidence,
                valid_from=one.valid_from,
                valid_until=one.valid_until,
                recorded_at=one.recorded_at,
                superseded_at=one.superseded_at,
                fact_id=MemoryId(one.fact_id) if one.fact_id else None,
                run_id=one.run_id,
                source_event_ids=tuple(sorted(sources[one.edge_id])),
                current=one.edge_id in current,
                hops=hops if isinstance(hops, int) else hops[one.edge_id],
            )
            found.append(
                FoundEdge(
                    edge=edge,
                    subject_root=subject.key,
                    object_root=object_.key,
                    subject_alias_of=subject.entity,
                    object_alias_of=object_.entity,
                )
            )
        return found

    def _sources(self, edges: Sequence[EdgeRow]) -> dict[UUID, set[str]]:
        """Return the turns of edges and of the facts they were derived from."""
        sources: dict[UUID, set[str]] = {one.edge_id: set() for one in edges}
        for edge_id, event_id in self._tx.select(
            "edge_sources", "edge_id, event_id", self._tenant, edge_id=sources
        ):
            sources[edge_id].add(event_id)
        facts = {one.memory_id for one in edges if one.memory_id}
        turns = sources_of(self._tx, self._tenant, facts)
        for one in edges:
            if one.memory_id:
                sources[one.edge_id].update(turns.get(one.memory_id, ()))
        return sources


def touching(keys: Sequence[str], end: str) -> WhereClause:
    """Return the condition that an edge has one of some names as "subject" or "object"."""
    return WhereClause(f"e.{end}_key IN %s", (list(keys),))


def edges_about(
    tx: Transaction, tenant: str, keys: Sequence[str], limit: int, now: datetime, as_of: AsOf | None
) -> list[FoundEdge]:
    """Return edges that hold and touch one of some names or its aliases.

    limit: maximum number for each name and direction, the newest first.
    """
    edges = Edges(tx, tenant, now, as_of)
    roots = {root.key for root in edges.names.roots(keys).values()}
    found: dict[UUID, EdgeRow] = {}
    for name in edges.names.with_aliases(sorted(roots)):
        for end in ("subject", "object"):
            held = edges.first(touching([name], end), limit, holding=True)
            found |= {one.edge_id: one for one in held}
    return edges.found(list(found.values()), 1)


class Root(NamedTuple):
    """The entity a name stands for: its key, and its name if the given name is an alias."""

    key: str
    entity: str | None


def alias_known(known: datetime | None, alias: str = "a") -> WhereClause:
    """Return {alias_known}: merged by then and not separated again; None: merged now."""
    if known is None:
        return WhereClause(f"{alias}.unmerged_at IS NULL")
    return WhereClause(
        f"({alias}.unmerged_at IS NULL OR {alias}.unmerged_at > %s) AND {alias}.merged_at <= %s",
        (known, known),
    )


class EntityNames:
    """The entity names of one tenant, each looked up once."""

    def __init__(self, tx: Transaction, tenant: str, known: datetime | None) -> None:
        self._tx = tx
        self._tenant = tenant
        self._known = alias_known(known)
        self._roots: dict[str, Root] = {}

    def roots(self, keys: Iterable[str]) -> dict[str, Root]:
        """Return the entity each name stands for: itself, unless it is an alias."""
        requested = set(keys)
        if missing := requested - self._roots.keys():
            self._roots |= {key: Root(key, None) for key in missing}
            for alias_key, entity_key, entity in self._tx.rows(
                "SELECT a.alias_key, a.entity_key, a.entity FROM entity_aliases a"
                f" WHERE a.tenant_id = %s AND a.alias_key IN %s AND {self._known.sql}",
                [self._tenant, sorted(missing), *self._known.values],
            ):
                self._roots[alias_key] = Root(entity_key, entity)
        return {key: self._roots[key] for key in requested}

    def root(self, key: str) -> str:
        """Return the key of the entity a name stands for."""
        return self.roots([key])[key].key

    def with_aliases(self, roots: Sequence[str]) -> list[str]:
        """Return entities and all their aliases, sorted."""
        rows = self._tx.rows(
            "SELECT a.alias_key FROM entity_aliases a"
            f" WHERE a.tenant_id = %s AND a.entity_key IN %s AND {self._known.sql}",
            [self._tenant, sorted(roots), *self._known.values],
        )
        return sorted({*roots, *(row[0] for row in rows)})

    def aliases_of(self, roots: Iterable[str]) -> dict[str, list[Alias]]:
        """Return the aliases of each entity, sorted."""
        found: dict[str, list[Alias]] = {root: [] for root in roots}
        for row in self._tx.rows(
            f"SELECT {', '.join(ALIAS_COLUMNS)} FROM entity_aliases a"
            f" WHERE a.tenant_id = %s AND a.entity_key IN %s AND {self._known.sql}"
            " ORDER BY a.alias_key",
            [self._tenant, sorted(found), *self._known.values],
        ):
            alias = Alias(**dict(zip(ALIAS_COLUMNS, row, strict=True)))
            found[alias.entity_key].append(alias)
        return found
