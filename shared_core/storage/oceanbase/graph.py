"""OceanBaseStorage: the knowledge graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from shared_core.core.domain import AsOf, Scope
from shared_core.core.namespaces import scope_path
from shared_core.nlp.text import without_accents
from shared_core.ports.graph import Edge, Entity, FoundEdge, Walk
from shared_core.storage.oceanbase.base import OceanBasePart, reading
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.edge_rows import EdgeRow, Edges, touching
from shared_core.storage.oceanbase.visibility import WhereClause, all_of


class OceanBaseGraph(OceanBasePart):
    """The knowledge graph of one scope."""

    async def walk(
        self, scope: Scope, keys: Sequence[str], depth: int, limit: int, as_of: AsOf | None
    ) -> Sequence[Walk]:
        def work(tx: Transaction) -> list[Walk]:
            edges = self._edges(tx, scope, as_of)
            return [_walk(edges, edges.names.root(key), depth, limit) for key in keys]

        return await self._database.read(work)

    @reading
    def edges_of(
        self, tx: Transaction, scope: Scope, key: str, limit: int, as_of: AsOf | None
    ) -> Sequence[FoundEdge]:
        edges = self._edges(tx, scope, as_of)
        names = edges.names.with_aliases([edges.names.root(key)])
        last = _newest(
            limit, *(edges.first(touching(names, end), limit, holding=False) for end in ENDS)
        )
        return edges.found(sorted(last, key=lambda one: one.began))

    @reading
    def entities(
        self, tx: Transaction, scope: Scope, matching: str, limit: int, as_of: AsOf | None
    ) -> Sequence[Entity]:
        edges = self._edges(tx, scope, as_of)
        rows = edges.where(all_of(edges.known(), edges.covering()))
        degrees, names = _entities(edges.found(edges.holding(edges.living(rows))))
        aliases = edges.names.aliases_of(degrees)
        roots = [
            root
            for root in degrees
            if _has_name([root, *(one.alias_key for one in aliases[root])], matching)
        ]
        roots.sort(key=lambda root: (-degrees[root], root))
        return [
            Entity(
                name=names[root],
                aliases=tuple(one.alias for one in aliases[root]),
                degree=degrees[root],
            )
            for root in roots[:limit]
        ]

    @reading
    def one_edge(self, tx: Transaction, scope: Scope, edge_id: UUID) -> Edge | None:
        edges = self._edges(tx, scope, None)
        rows = edges.where(WhereClause("e.edge_id = %s", (edge_id,)))
        return next((one.edge for one in edges.found(rows)), None)

    def _edges(self, tx: Transaction, scope: Scope, as_of: AsOf | None) -> Edges:
        return Edges(tx, scope_path(scope), self._clock(), as_of)


ENDS = ("subject", "object")
OTHER = {"subject": "object", "object": "subject"}


def _walk(edges: Edges, root: str, depth: int, limit: int) -> Walk:
    """Walk breadth first; each entity is visited once, so cycles end."""
    reached, visited = [root], {root}
    met: dict[UUID, EdgeRow] = {}
    hops: dict[UUID, int] = {}
    for hop in range(1, depth + 1):
        if not reached or len(met) >= limit:
            break
        names = edges.names.with_aliases(reached)
        past = visited - {*reached}
        behind = edges.names.with_aliases(sorted(past)) if past else []
        step = _newest(
            limit - len(met),
            *(
                edges.first(_leading(names, behind, end), limit - len(met), holding=True)
                for end in ENDS
            ),
        )
        met |= {one.edge_id: one for one in step}
        hops = {one.edge_id: hop for one in step} | hops
        roots = edges.names.roots(
            name for one in step for name in (one.subject_key, one.object_key)
        )
        reached = sorted({one.key for one in roots.values()} - visited)
        visited |= {*reached}
    found = sorted(_newest(len(met), met.values()), key=lambda one: hops[one.edge_id])
    return Walk(root=root, edges=edges.found(found, hops))


def _leading(names: Sequence[str], behind: Sequence[str], end: str) -> WhereClause:
    """Return the condition that an edge leads from some names to one not visited yet."""
    if not behind:
        return touching(names, end)
    onward = WhereClause(f"e.{OTHER[end]}_key NOT IN %s", (list(behind),))
    return all_of(touching(names, end), onward)


def _newest(limit: int, *found: Iterable[EdgeRow]) -> list[EdgeRow]:
    """Return the newest edges, each once, at most `limit`."""
    every = {one.edge_id: one for edges in found for one in edges}
    in_order = sorted(every.values(), key=lambda one: one.edge_id)
    return sorted(in_order, key=lambda one: one.valid_from, reverse=True)[:limit]


def _entities(found: Sequence[FoundEdge]) -> tuple[dict[str, int], dict[str, str]]:
    """Return the degree and the name of each entity: its merged name, or its last spelling."""
    degrees: dict[str, int] = defaultdict(int)
    merged: dict[str, str] = {}
    spelt: dict[str, str] = {}
    newest = sorted(found, key=lambda one: one.edge.edge_id)
    newest.sort(key=lambda one: one.edge.valid_from, reverse=True)
    for one in newest:
        ends = {one.subject_root: (one.subject_alias_of, one.edge.subject)}
        ends.setdefault(one.object_root, (one.object_alias_of, one.edge.object))
        for root, (entity, name) in ends.items():
            degrees[root] += 1
            if entity is not None:
                merged.setdefault(root, entity)
            spelt.setdefault(root, name)
    return dict(degrees), spelt | merged


def _has_name(keys: Sequence[str], matching: str) -> bool:
    plain = without_accents(matching)
    return not matching or any(matching in key or plain in without_accents(key) for key in keys)
