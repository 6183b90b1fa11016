"""The graph on SeekDB is that of PostgreSQL: walks, entities and facts, as of every moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import fact_calls
import pytest
from both_engines import NOW, Both, World

from shared_core import Scope
from shared_core.core.domain import AsOf, ThreadId
from shared_core.core.namespaces import scope_path
from shared_core.ports.events import MemoryQuery
from shared_core.ports.graph import Alias

SCOPE = Scope("app", "ann 安")
TENANT = scope_path(SCOPE)
THREAD = ThreadId("t")
NAMES = ("user", "emil", "émil", "emil ", "bonn", "上海", "acme", "leeds")
RELATIONS = ("lives_in", "knows", "Knows")
HELD = {
    "edges": "edge_id memory_id fact_id valid_from valid_until recorded_at superseded_at",
    "entity_aliases": "alias_id alias_key alias entity_key entity merged_at unmerged_at",
    "facts": "memory_id key valid_from valid_until superseded_at",
    "fact_closures": "memory_id closed_at restored_at valid_until run_id",
    "memories": "memory_id superseded_at",
    "memory_access": "memory_id forget_at",
    "runs": "run_id kind counts number",
    "run_changes": "run_id change target before",
}


class RandomGraph:
    """What is random comes from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._last_id = 0

    def id(self) -> UUID:
        self._last_id += 1
        return UUID(int=self._last_id)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def moment(self) -> datetime:
        return NOW + timedelta(minutes=self.random.randrange(-9, 9))

    def past(self) -> datetime:
        return NOW - timedelta(minutes=self.random.randrange(9))

    def as_of(self) -> AsOf | None:
        valid, known = (self.moment() if self.maybe(0.6) else None for _ in range(2))
        return AsOf(valid=valid, known=known) if self.maybe(0.8) else None

    def ends(self) -> tuple[datetime, datetime | None, datetime | None]:
        """Return from when until when something holds, and since when the end is known."""
        begins = self.moment()
        if self.maybe(0.5):
            return begins, None, None
        return begins, begins + timedelta(minutes=self.random.randrange(9)), self.past()

    def world(self) -> World:
        memories = [self._memory() for _ in range(24)]
        facts = self._facts([row["memory_id"] for row in memories[:16]])
        edges = self._edges(40, [row["memory_id"] for row in memories])
        return {
            "threads": [{
                "thread_id": THREAD, "state": {}, "last_seq": 6, "created_at": NOW,
                "updated_at": NOW,
            }],
            "events": [self._event(number) for number in range(6)],
            "memories": memories,
            "memory_sources": self._sources("memory_id", memories),
            "memory_bases": [
                {"memory_id": memories[-1]["memory_id"], "basis_id": memories[0]["memory_id"]}
            ],
            "facts": facts,
            "edges": edges,
            "edge_sources": self._sources("edge_id", edges),
            "entity_aliases": self._aliases(),
        }  # fmt: skip

    def _event(self, number: int) -> dict[str, Any]:
        return {
            "thread_id": THREAD, "seq": number, "event_id": f"e{number}", "author": "ann",
            "role": "user", "text": "tea", "metadata": {}, "occurred_at": NOW, "recorded_at": NOW,
            "memory_seq": number,
            "expires_at": self.moment() if self.maybe(0.4) else None,
        }  # fmt: skip

    def _memory(self) -> dict[str, Any]:
        memory_id, written = self.id(), self.past()
        return {
            "memory_id": memory_id, "namespace": "/memories/", "key": str(memory_id),
            "kind": self.random.choice(("semantic", "reflection")), "text": "Acme in 上海",
            "value": {}, "terms": "", "term_count": 0, "thread_id": None,
            "occurred_at": self.moment(), "created_at": written, "updated_at": written,
            "superseded_at": self.past() if self.maybe(0.3) else None,
            "demoted_at": self.past() if self.maybe(0.15) else None,
            "expires_at": self.moment() if self.maybe(0.3) else None,
        }  # fmt: skip

    def _facts(self, memory_ids: list[UUID]) -> list[dict[str, Any]]:
        facts, taken = [], set()
        for memory_id in memory_ids:
            slot = self.random.choice(("like", "dislike", "relation.son.dislike", "city"))
            value = self.random.choice(("Acme", "上海"))
            key = slot if slot == "city" else f"{slot}:{value.lower()}"
            begins, until, since = self.ends()
            if until is None and key in taken:
                until, since = begins + timedelta(minutes=1), self.past()
            taken |= {key} if until is None else set()
            facts.append({
                "memory_id": memory_id, "fact_type": "preference", "slot": slot, "key": key,
                "value": value, "functional": slot == "city", "confidence": 0.5, "extractor": "r",
                "pattern": "p", "valid_from": begins, "valid_until": until,
                "recorded_at": self.past(), "superseded_at": since,
            })  # fmt: skip
        return facts

    def _edges(self, number: int, memory_ids: list[UUID]) -> list[dict[str, Any]]:
        edges, taken = [], set()
        for _ in range(number):
            subject, object_ = self.random.choice(NAMES), self.random.choice(NAMES)
            relation, (begins, until, since) = self.random.choice(RELATIONS), self.ends()
            functional = relation == "lives_in"
            place = (subject, relation, "" if functional else object_)
            if until is None and place in taken:
                until, since = begins + timedelta(minutes=1), self.past()
            taken |= {place} if until is None else set()
            fact_id = self.random.choice(memory_ids) if self.maybe(0.4) else None
            edges.append({
                "edge_id": self.id(), "subject": subject.title(), "relation": relation,
                "object": object_.upper(), "subject_key": subject, "object_key": object_,
                "functional": functional, "confidence": 0.5, "valid_from": begins,
                "valid_until": until, "recorded_at": self.past(), "superseded_at": since,
                "fact_id": fact_id, "memory_id": fact_id if self.maybe(0.5) else None,
            })  # fmt: skip
        return edges

    def _sources(self, name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = {
            (row[name], self.random.randrange(2), f"e{self.random.randrange(7)}")
            for row in rows
            for _ in range(self.random.randrange(4))
        }
        return [
            {name: one, "basis": basis, "thread_id": THREAD, "event_id": event_id}
            for one, basis, event_id in sorted(found)
        ]

    def _aliases(self) -> list[dict[str, Any]]:
        """Names that were merged, some of them twice, one after the other."""
        found = []
        for alias in ("émil", "emil ", "leeds"):
            merged = NOW - timedelta(minutes=20)
            for entity in self.random.sample(("emil", "bonn"), 2):
                parted = merged + timedelta(minutes=self.random.randrange(1, 15))
                ends = parted if parted < NOW and self.maybe(0.7) else None
                found.append(self._alias(alias, entity, merged, ends))
                if ends is None:
                    break
                merged = ends
        return found

    def _alias(
        self, alias: str, entity: str, merged: datetime, ends: datetime | None
    ) -> dict[str, Any]:
        return {
            "alias_id": self.id(), "alias_key": alias, "alias": alias.title(),
            "entity_key": entity, "entity": entity.title(), "merged_at": merged,
            "unmerged_at": ends,
        }  # fmt: skip


async def graph_reads(both: Both, world: RandomGraph) -> None:
    as_of, limit = world.as_of(), world.random.choice((1, 3, 50))
    names = world.random.sample((*NAMES, "nobody"), 3)
    for depth in (1, 2, 4):
        await both.same(lambda s, d=depth: s.graph.walk(SCOPE, names, d, limit, as_of))
    for name in names:
        await both.same(lambda s, n=name: fact_calls.edges_of(s, SCOPE, NOW, n, limit, as_of))
        for relation in RELATIONS:
            for alone in (True, False):
                await both.same(
                    lambda s, n=name, r=relation, a=alone: fact_calls.spells(
                        s, SCOPE, NOW, n, r, "émil", alone=a
                    )
                )
    for matching in ("", "emil", "émi", "海", " "):
        await both.same(lambda s, m=matching: fact_calls.entities(s, SCOPE, NOW, m, limit, as_of))
    await both.same(lambda s: fact_calls.aliases(s, SCOPE, names))


async def memory_reads(both: Both, world: RandomGraph) -> None:
    as_of = world.as_of()
    for history in (False, True):
        for slot in (None, "like"):
            await both.same(
                lambda s, h=history, o=slot: fact_calls.list_facts(
                    s, SCOPE, NOW, slot=o, history=h, as_of=as_of
                )
            )
    namespace = (SCOPE.app, SCOPE.user)
    query = MemoryQuery(scope=SCOPE, namespace=namespace, as_of=as_of)
    await both.same(lambda s: s.events.list_memories(query, "newest", 7, 2))
    begin, end = sorted((world.moment(), world.moment() + timedelta(minutes=9)))
    stretch = replace(query, begin=begin, end=end)
    for order in ("newest", "oldest"):
        await both.same(lambda s, o=order: s.events.list_memories(stretch, o, 5, 1))
    bounds = [begin + timedelta(minutes=number) for number in range(12)]
    await both.same(lambda s: s.events.count_memories(stretch, bounds))


@pytest.mark.parametrize("seed", range(4))
async def test_every_moment_is_told_alike(both: Both, seed: int) -> None:
    graph = RandomGraph(seed)
    world = graph.world()
    await both.put(TENANT, world)
    for _ in range(8):
        await graph_reads(both, graph)
        await memory_reads(both, graph)
    for row in graph.random.sample(world["edges"], 8):
        edge = await both.same(lambda s, e=row["edge_id"]: fact_calls.edge_of(s, SCOPE, NOW, e))
        run_id = graph.id()
        await both.outcome(lambda s, e=edge, r=run_id: fact_calls.restore_edge(s, SCOPE, NOW, e, r))
        await both.left(TENANT, HELD)
    for _ in range(6):
        await aliases_changed(both, graph, world)
        await both.left(TENANT, HELD)
    await graph_reads(both, graph)


async def aliases_changed(both: Both, graph: RandomGraph, world: World) -> None:
    """Part some names, and merge others."""
    ended = [row["alias_id"] for row in world["entity_aliases"] if graph.maybe(0.3)]
    alias, entity = graph.random.sample(NAMES, 2)
    added = [Alias(alias_id=graph.id(), alias_key=alias, alias=alias, entity_key=entity,
                   entity=entity.title())]  # fmt: skip
    run_id = graph.id()
    await both.outcome(lambda s: fact_calls.change_aliases(s, SCOPE, NOW, run_id, ended, added))
