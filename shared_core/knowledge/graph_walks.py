"""What walks met, as the parts of a graph: entities by distance, and paths between two. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from shared_core.ports.graph import Edge, FoundEdge, Path, Subgraph, Walk


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
