"""Runs, facts and the graph are on SeekDB what they are on PostgreSQL: written, undone, read."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pymysql
import pytest
from both_engines import NOW, Both, World
from long_forms import LONG
from random_runs import THREADS, RandomRuns

from shared_core import Conflict, Scope
from shared_core.core.domain import AsOf, MemoryId, ThreadId
from shared_core.core.namespaces import memories_namespace, scope_path
from shared_core.knowledge.run_rows import apply_run
from shared_core.policies import edges, reopening, summaries
from shared_core.policies.aliases import change_aliases
from shared_core.policies.run_reads import known_of
from shared_core.policies.run_undo import undo_run
from shared_core.ports.events import MemoryQuery
from shared_core.ports.graph import Alias
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.jobs import JobType
from shared_core.ports.operations import Select
from shared_core.ports.runs import ReadRequest, RunPlan
from shared_core.storage.oceanbase.connection import database
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Transaction

ASKED = ReadRequest(turns=3, context=2, replay=3, reread=1, people=3)
HELD = {
    "threads": "thread_id consolidated_seq summarised_seq unread_bytes last_memory_seq",
    "memories": "memory_id namespace key kind text value author importance thread_id run_id"
    " occurred_at created_at updated_at expires_at superseded_at words_key demoted_at",
    "memory_sources": "memory_id thread_id event_id basis",
    "memory_bases": "memory_id basis_id",
    "memory_access": "memory_id forget_at stage strength",
    "facts": "memory_id fact_type slot key functional confidence extractor pattern"
    " valid_from valid_until recorded_at superseded_at",
    "fact_closures": "memory_id closed_at restored_at valid_until run_id",
    "edges": "edge_id memory_id fact_id run_id subject relation object subject_key object_key"
    " functional confidence valid_from valid_until recorded_at superseded_at",
    "edge_sources": "edge_id thread_id event_id basis",
    "entity_aliases": "alias_id alias_key alias entity_key entity merged_at unmerged_at",
    "runs": "run_id kind thread_id extractor from_seq to_seq summed_from_seq summed_to_seq counts"
    " started_at finished_at undone_at number",
    "run_changes": "run_id change target event_id before",
    "retractions": "retraction_id run_id fact_type slot subject_key said_at valid_until thread_id",
    "consolidation_jobs": "job_id thread_id job_type status",
    "extraction_counts": "extractions",
}


@pytest.fixture
def copies(both, monkeypatch):
    """Both engines give the copies of summaries the same ids; two of one moment have the same."""

    def now_as_id() -> UUID:
        return UUID(int=int(both.now.timestamp()))

    monkeypatch.setattr(summaries, "uuid7", now_as_id)


async def refusal(both: Both, call: Callable[[Any], Awaitable[object]]) -> str:
    """Return with what a call on both engines is refused, which must be the same: "" for well."""

    async def called(storage: Any) -> str:
        await call(storage)
        return ""

    return str(await both.outcome(called))


async def told(both: Both, world: RandomRuns, thread: ThreadId, number: int) -> None:
    rows = world.turns(thread, number)
    await both.same(lambda one: one.events.append_events(both.scope, thread, rows, None))


async def begun(both: Both, seed: int) -> RandomRuns:
    world = RandomRuns(seed, both.scope)
    for thread in THREADS:
        await told(both, world, thread, 4)
    return world


async def applied(both: Both, plan: RunPlan) -> str:
    return await refusal(both, lambda one: apply_run(one, plan, lambda: both.now))


async def undone(both: Both, run_id: UUID) -> str:
    return await refusal(both, lambda one: undo(one, both.scope, run_id, both.now))


async def undo(storage: Any, scope: Scope, run_id: UUID, now: datetime) -> None:
    await storage.transact(scope_path(scope), lambda: undo_run(scope, run_id, now))


async def number_of_last(both: Both) -> int:
    known = await both.same(lambda one: one.query(both.tenant, lambda: known_of([], [], NOW)))
    return int(known.number)


async def reads(both: Both, world: RandomRuns) -> None:
    """Read threads, and what is like some drafts, which must be the same on both engines."""
    scope = both.scope
    for thread in (*THREADS, ThreadId("none")):
        await both.same(lambda one, t=thread: one.runs.read_thread(scope, t, ASKED))
    drafts: list[ItemAddress] = [(memories_namespace(scope), f"draft {n}") for n in range(3)]
    asked = world.vectors(drafts[:2])
    await both.same(lambda one: likes(one, scope, drafts, asked))


async def likes(
    storage: Any, scope: Scope, drafts: list[ItemAddress], asked: VectorRows | None
) -> Any:
    """Return how near what is known is; of what is as near as another either may come."""
    words = {one: UUID(int=10_000 + n) for n, one in enumerate(drafts)}
    found = await storage.runs.like_texts(scope, ["semantic"], words, asked)
    return {one: [round(like.similarity, 2) for like in near] for one, near in found.items()}


@pytest.mark.parametrize("seed", [*range(6)] if LONG else [5])
async def test_runs_at_random_are_written_and_read_alike(both, copies, seed):
    world = await begun(both, seed)
    refused = set()
    for step in range(18):
        both.now = NOW + timedelta(minutes=step)
        if step % 5 == 4:
            await told(both, world, world.random.choice(THREADS), 2)
        plan = world.plan(await number_of_last(both))
        said = await applied(both, plan)
        refused.add(said.partition(":")[0])
        if not said:
            world.applied(plan)
        if step % 6 == 5:
            await both.left(HELD)
            await reads(both, world)
    assert {"", "Conflict"} == refused
    for run_id in reversed(world.runs):
        await undone(both, run_id)
    await both.left(HELD)
    await reads(both, world)


async def test_the_same_words_are_as_like_as_can_be(both):
    world = RandomRuns(1, both.scope)
    rows = [world._row(UUID(int=1), THREADS[0], MemoryId(UUID(int=n)), "semantic") for n in (2, 3)]
    words = UUID(int=7)
    rows = [replace(rows[0], words_key=words, expires_at=None), replace(rows[1], expires_at=None)]
    vectors = world.vectors([(one.namespace, one.key) for one in rows])
    await both.same(lambda s: s.items.put_memories(rows, vectors))
    draft: ItemAddress = (memories_namespace(both.scope), "draft")
    for kinds, count in ((["semantic"], 1), (["reflection"], 0)):
        found = await both.same(
            lambda s, k=kinds: s.runs.like_texts(both.scope, k, {draft: words}, None)
        )
        assert [1.0] * count == [one.similarity for one in found.get(draft, ())]


def plain_run(both: Both, number: int) -> RunPlan:
    return RunPlan(
        run_id=UUID(int=number), kind=JobType.FULL_CONSOLIDATION, scope=both.scope, thread_id=None,
        extractor="rules", started_at=NOW,
    )  # fmt: skip


async def test_a_run_that_was_committed_unseen_is_not_written_again(both, monkeypatch):
    lost = iter([True])
    tell, begin, statements_of = OceanBaseDatabase._once, database._begin, [()]

    def noted(connection: Any, statements: Any) -> None:
        statements_of[0] = statements
        begin(connection, statements)

    def cut(self: OceanBaseDatabase, connection: Any, work: Any) -> Any:
        answer = tell(self, connection, work)
        if statements_of[0] == database.WRITING and next(lost, False):
            connection.close()
            raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")
        return answer

    monkeypatch.setattr(database, "_begin", noted)
    monkeypatch.setattr(OceanBaseDatabase, "_once", cut)
    await apply_run(both.seekdb, plain_run(both, 1), lambda: both.now)
    lost = iter([True])
    await undo(both.seekdb, both.scope, UUID(int=1), NOW)
    assert [[(NOW,)]] == await both.seekdb.read(both.tenant, [Select("runs", ("undone_at",))])
    with pytest.raises(Conflict):
        await apply_run(both.seekdb, plain_run(both, 1), lambda: both.now)


async def test_a_run_that_breaks_off_leaves_nothing(both, monkeypatch):
    world = await begun(both, 0)
    before = await both.left(HELD)
    insert = Transaction.insert

    def dying(self: Transaction, table: str, *given: Any, **more: Any) -> None:
        if table == "memory_sources":
            raise KeyboardInterrupt
        insert(self, table, *given, **more)

    monkeypatch.setattr(Transaction, "insert", dying)
    with pytest.raises(KeyboardInterrupt):
        await apply_run(both.seekdb, world.plan(0), lambda: both.now)
    monkeypatch.undo()
    assert before == await both.left(HELD)


async def test_runs_of_a_tenant_stand_in_line(both):
    plans = [plain_run(both, number) for number in range(1, 9)]
    await asyncio.gather(*(apply_run(both.seekdb, one, lambda: both.now) for one in plans))
    numbers = Select("runs", ("number",), order=("number",))
    assert [[(n,) for n in range(1, 9)]] == await both.seekdb.read(both.tenant, [numbers])


# The graph

NAMES = ("user", "emil", "émil", "emil ", "bonn", "上海", "acme", "leeds")
RELATIONS = ("lives_in", "knows", "Knows")


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
                "thread_id": THREADS[0], "state": {}, "last_seq": 6, "created_at": NOW,
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
            "thread_id": THREADS[0], "seq": number, "event_id": f"e{number}", "author": "ann",
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
            {name: one, "basis": basis, "thread_id": THREADS[0], "event_id": event_id}
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


async def walked(both: Both, world: RandomGraph) -> int:
    """Walk the graph on both engines; return how many edges the walks met."""
    as_of, limit = world.as_of(), world.random.choice((1, 3, 50))
    names, met = world.random.sample((*NAMES, "nobody"), 3), 0
    for depth in (1, 2, 4):
        found = await both.same(lambda s, d=depth: s.graph.walk(both.scope, names, d, limit, as_of))
        met += len(found)
    return met


async def memory_reads(both: Both, world: RandomGraph) -> None:
    as_of = world.as_of()
    namespace = (both.scope.app, both.scope.user)
    query = MemoryQuery(scope=both.scope, namespace=namespace, as_of=as_of)
    await both.same(lambda s: s.events.list_memories(query, "newest", 7, 2))
    begin, end = sorted((world.moment(), world.moment() + timedelta(minutes=9)))
    stretch = replace(query, begin=begin, end=end)
    for order in ("newest", "oldest"):
        await both.same(lambda s, o=order: s.events.list_memories(stretch, o, 5, 1))
    bounds = [begin + timedelta(minutes=number) for number in range(12)]
    await both.same(lambda s: s.events.count_memories(stretch, bounds))


@pytest.mark.parametrize("seed", range(4 if LONG else 2))
async def test_every_moment_is_told_alike(both, seed):
    graph = RandomGraph(seed)
    await both.put(graph.world())
    met = 0
    for _ in range(8 if LONG else 4):
        met += await walked(both, graph)
        await memory_reads(both, graph)
    assert met > 10


def edge(number: int, relation: str, object_: str, ended: bool) -> dict[str, Any]:
    then = NOW - timedelta(days=9 - number)
    end = then + timedelta(hours=1) if ended else None
    return {
        "edge_id": UUID(int=number), "subject": "user", "relation": relation, "object": object_,
        "subject_key": "user", "object_key": object_.lower(), "functional": relation == "lives_in",
        "confidence": 0.5, "valid_from": then, "valid_until": end, "recorded_at": then,
        "superseded_at": end,
    }  # fmt: skip


async def test_an_edge_is_restored_once_and_only_where_its_place_is_free(both):
    tenant = both.tenant
    taken, free = edge(1, "lives_in", "Rome", True), edge(3, "likes", "Tea", True)
    await both.put({"edges": [taken, edge(2, "lives_in", "Paris", False), free]})
    refused = []
    for number, row in enumerate((taken, free, free)):
        ended: Any = await both.same(
            lambda s, e=row["edge_id"]: s.query(tenant, lambda: edges.edge_of(e, NOW))
        )
        ended = replace(ended, superseded_at=row["superseded_at"])
        restoring = partial(reopening.restore_edge, tenant, ended, UUID(int=100 + number), NOW)
        refused.append(await refusal(both, lambda s, r=restoring: s.transact(tenant, r)))
    assert "another edge has taken its place" in refused[0] and "" == refused[1]
    assert "holds, or is gone" in refused[2]
    await both.left(HELD)


async def test_names_are_merged_once_and_parted_once(both):
    bob = {"alias_key": "bobby", "alias": "Bobby", "entity_key": "bob", "entity": "Bob"}
    row = {"alias_id": UUID(int=1), **bob, "merged_at": NOW - timedelta(days=1)}
    await both.put({"entity_aliases": [row]})
    again, refused = Alias(alias_id=UUID(int=2), **bob), []
    changes = (([], [again]), ([UUID(int=3)], []), ([UUID(int=1)], []))
    for number, (ended, added) in enumerate(changes):
        changing = partial(change_aliases, UUID(int=10 + number), ended, added, NOW)
        refused.append(await refusal(both, lambda s, c=changing: s.transact(both.tenant, c)))
    assert ["changed the aliases" in one for one in refused] == [True, True, False]
    assert "" == refused[2]
    await both.left(HELD)
