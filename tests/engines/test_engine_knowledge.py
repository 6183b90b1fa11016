"""Runs, facts and the graph are on SeekDB what they are on PostgreSQL: written, undone, read."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import fact_calls
import pymysql
import pytest
from both_engines import NOW, Both, World
from long_forms import LONG
from random_runs import SLOTS, THREADS, RandomRuns

from shared_core import Conflict, Scope
from shared_core.context.service import summary_of_thread
from shared_core.core.domain import AsOf, MemoryId, ThreadId
from shared_core.core.namespaces import memories_namespace, scope_path
from shared_core.knowledge.run_rows import apply_run
from shared_core.policies import summaries
from shared_core.policies.memories import recent_memories
from shared_core.policies.run_reads import known_of, run_of, select_runs
from shared_core.policies.run_undo import undo_run
from shared_core.ports.events import MemoryQuery
from shared_core.ports.graph import Alias
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.jobs import JobType
from shared_core.ports.runs import ReadRequest, RunPlan, RunRecord
from shared_core.storage.oceanbase.connection import database
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Transaction
from tests import forgetting_calls as calls

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
UNDONE = {
    table: " ".join(name for name in columns.split() if name not in ("updated_at", "forget_at"))
    for table, columns in HELD.items()
    if table not in ("runs", "run_changes", "consolidation_jobs", "extraction_counts")
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
    """Every way to ask answers the same."""
    scope, now = both.scope, both.now
    moments = [None, AsOf(valid=world.moment()), AsOf(known=now - timedelta(minutes=3)),
               AsOf(valid=world.moment(), known=now - timedelta(minutes=2))]  # fmt: skip
    for as_of in moments:
        await facts_are_read(both, as_of)
    for thread in (*THREADS, ThreadId("none")):
        await both.same(lambda one, t=thread: one.runs.read_thread(scope, t, ASKED))
        await both.same(lambda one, t=thread: runs(one, scope, t, 5))
        for as_of in moments:
            await both.same(lambda one, t=thread, a=as_of: summary_of_thread(one, scope, t, a, now))
    await both.same(lambda one: runs(one, scope, None, 100))
    await both.same(lambda one: one.query(both.tenant, lambda: recent_memories(scope, 5, now)))
    since = world.moment()
    await both.same(lambda one: known(one, scope, since))
    drafts: list[ItemAddress] = [(memories_namespace(scope), f"draft {n}") for n in range(3)]
    asked = world.vectors(drafts[:2])
    await both.same(lambda one: likes(one, scope, drafts, asked))
    for name in map(str, [*world.facts[-3:], *world.memories[-2:], "none"]):
        await both.same(lambda one, n=name: fact_calls.named_memory(one, scope, now, n))


async def facts_are_read(both: Both, as_of: AsOf | None) -> None:
    for slot in (None, "like"):
        for history in (False, True):
            await both.same(
                lambda one, s=slot, h=history: fact_calls.list_facts(
                    one, both.scope, both.now, slot=s, history=h, as_of=as_of
                )
            )


async def runs(
    storage: Any, scope: Scope, thread_id: ThreadId | None, limit: int
) -> list[RunRecord]:
    [rows] = await storage.read(scope_path(scope), [select_runs(thread_id, limit)])
    return [run_of(row) for row in rows]


async def known(storage: Any, scope: Scope, since: datetime) -> Any:
    """Return what is known; PostgreSQL says it in any order."""
    relations = [("user", "lives_in"), ("emil", "knows")]
    found = await storage.query(scope_path(scope), lambda: known_of([*SLOTS], relations, since))
    parts = (found.facts, found.retractions, found.edges)
    return found.number, [sorted(map(repr, part)) for part in parts]


async def likes(
    storage: Any, scope: Scope, drafts: list[ItemAddress], asked: VectorRows | None
) -> Any:
    """Return how near what is known is; of what is as near as another either may come."""
    words = {one: UUID(int=10_000 + n) for n, one in enumerate(drafts)}
    found = await storage.runs.like_texts(scope, ["semantic"], words, asked)
    return {one: [round(like.similarity, 2) for like in near] for one, near in found.items()}


@pytest.mark.parametrize("seed", [*range(6)] if LONG else [3, 5])
async def test_runs_at_random_end_alike(both, copies, seed):
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
        await both.left(HELD)
        if step % 3 == 2:
            await restored(both, world)
        if step % 6 == 5:
            await reads(both, world)
    assert {"", "Conflict"} == refused
    for run_id in world.random.sample(world.runs, min(3, len(world.runs))):
        await undone(both, run_id)
        await both.left(HELD)
    for run in await both.same(lambda one: runs(one, both.scope, None, 100)):
        await undone(both, run.run_id)
        await both.left(HELD)
    await reads(both, world)
    await forgotten(both, world)


async def forgotten(both: Both, world: RandomRuns) -> None:
    """Forget turns, memories and a thread, with what was drawn from them."""
    scope, chance = both.scope, world.random
    taken = 0
    for _ in range(4):
        thread = chance.choice(THREADS)
        turns = [f"{thread}{chance.randint(1, 6)}" for _ in range(2)]
        taken += await both.same(
            lambda s, t=thread, e=turns: calls.forget_turns(s, scope, t, e, both.now)
        )
        held = (await both.left(HELD))["memories"]
        some = chance.sample(held, min(len(held), 2))
        named = [(memories_namespace(scope), one["key"]) for one in some]
        taken += await both.same(lambda s, n=named: calls.forget(s, n, both.now)) if named else 0
        await both.left(HELD)
    assert taken
    for whole in (THREADS[0], None):
        await both.same(lambda s, t=whole: calls.forget_scope(s, scope, t, both.now))
        await both.left(HELD)


async def restored(both: Both, world: RandomRuns) -> None:
    """Let a fact hold again that has ended, or one that has not."""
    scope, now = both.scope, both.now
    facts = await both.same(lambda one: fact_calls.list_facts(one, scope, now, history=True))
    if not facts:
        return
    fact = world.random.choice(facts)
    fact = replace(fact, superseded_at=fact.superseded_at or now)
    run_id = world.id()
    await refusal(both, lambda one: fact_calls.restore_fact(one, scope, now, fact, run_id))
    await both.left(HELD)


@pytest.mark.parametrize("seed", [23, 24] if LONG else [23])
async def test_undoing_the_last_run_leaves_what_was_before(both, copies, seed):
    world = await begun(both, seed)
    times = 0
    for step in range(30 if LONG else 15):
        both.now = NOW + timedelta(minutes=step)
        before = await both.left(UNDONE)
        world.retired = {row["memory_id"] for row in before["memories"] if row["superseded_at"]}
        plan = world.plan(await number_of_last(both))
        if await applied(both, plan):
            continue
        if world.maybe(0.4):
            world.applied(plan)
            continue
        assert not await undone(both, plan.run_id)
        after = await both.left(UNDONE)
        kept = [row["memory_id"] for row in before["memory_access"]]
        after["memory_access"] = [r for r in after["memory_access"] if r["memory_id"] in kept]
        before["threads"] = after["threads"] = []  # what is unread is counted anew
        assert before == after
        times += 1
        assert "was undone already" in await undone(both, plan.run_id)
    assert times
    assert "there is no run" in await undone(both, UUID(int=1))


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
    [run] = await runs(both.seekdb, both.scope, None, 9)
    assert run.undone_at == NOW
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
    numbers = await both.seekdb._database.read(
        lambda tx: tx.rows(
            "SELECT number FROM runs WHERE tenant_id = %s ORDER BY number", [both.tenant]
        )
    )
    assert [(n,) for n in range(1, 9)] == numbers


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


async def graph_reads(both: Both, world: RandomGraph) -> int:
    """Read the graph on both engines; return how many edges the walks met."""
    as_of, limit = world.as_of(), world.random.choice((1, 3, 50))
    names, met = world.random.sample((*NAMES, "nobody"), 3), 0
    for depth in (1, 2, 4):
        walked = await both.same(
            lambda s, d=depth: s.graph.walk(both.scope, names, d, limit, as_of)
        )
        met += len(walked)
    for name in names:
        await both.same(lambda s, n=name: fact_calls.edges_of(s, both.scope, NOW, n, limit, as_of))
        for relation in RELATIONS:
            for alone in (True, False):
                await both.same(
                    lambda s, n=name, r=relation, a=alone: fact_calls.spells(
                        s, both.scope, NOW, n, r, "émil", alone=a
                    )
                )
    for matching in ("", "emil", "émi", "海", " "):
        await both.same(
            lambda s, m=matching: fact_calls.entities(s, both.scope, NOW, m, limit, as_of)
        )
    await both.same(lambda s: fact_calls.aliases(s, both.scope, names))
    return met


async def memory_reads(both: Both, world: RandomGraph) -> None:
    as_of = world.as_of()
    await facts_are_read(both, as_of)
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
    world = graph.world()
    await both.put(world)
    met = 0
    for _ in range(8 if LONG else 4):
        met += await graph_reads(both, graph)
        await memory_reads(both, graph)
    assert met > 10
    refused = set()
    for row in graph.random.sample(world["edges"], 8):
        edge: Any = await both.same(
            lambda s, e=row["edge_id"]: fact_calls.edge_of(s, both.scope, NOW, e)
        )
        run_id = graph.id()
        refused.add(await refusal(both, lambda s, e=edge, r=run_id: fact_calls.restore_edge(
            s, both.scope, NOW, e, r)))  # fmt: skip
        await both.left(HELD)
    assert any("Conflict" in one for one in refused)
    for _ in range(6):
        await aliases_changed(both, graph, world)
        await both.left(HELD)
    await graph_reads(both, graph)


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
    taken, free = edge(1, "lives_in", "Rome", True), edge(3, "likes", "Tea", True)
    await both.put({"edges": [taken, edge(2, "lives_in", "Paris", False), free]})
    ended: list[Any] = [
        await both.same(lambda s, e=row["edge_id"]: fact_calls.edge_of(s, both.scope, NOW, e))
        for row in (taken, free)
    ]
    refused = [
        await refusal(both, lambda s, n=n, e=one: fact_calls.restore_edge(
            s, both.scope, NOW, e, UUID(int=100 + n)))
        for n, one in enumerate((*ended, ended[1]))
    ]  # fmt: skip
    assert "another edge has taken its place" in refused[0] and "" == refused[1]
    assert "holds, or is gone" in refused[2]
    assert await both.same(lambda s: fact_calls.edge_of(s, both.scope, NOW, UUID(int=99))) is None
    await both.left(HELD)


async def test_names_are_merged_once_and_parted_once(both):
    bob = {"alias_key": "bobby", "alias": "Bobby", "entity_key": "bob", "entity": "Bob"}
    row = {
        "alias_id": UUID(int=1),
        **bob,
        "merged_at": NOW - timedelta(days=1),
        "unmerged_at": None,
    }
    await both.put({"entity_aliases": [row]})
    again = Alias(alias_id=UUID(int=2), **bob)
    changes = (([], [again]), ([UUID(int=3)], []), ([UUID(int=1)], []))
    refused = [
        await refusal(both, lambda s, n=n, e=ended, a=added: fact_calls.change_aliases(
            s, both.scope, NOW, UUID(int=10 + n), e, a))
        for n, (ended, added) in enumerate(changes)
    ]  # fmt: skip
    assert ["changed the aliases" in one for one in refused] == [True, True, False]
    assert "" == refused[2]
    assert [] == await both.same(lambda s: fact_calls.aliases(s, both.scope, ["bob"]))


async def aliases_changed(both: Both, graph: RandomGraph, world: World) -> None:
    """Part some names, and merge others."""
    ended = [row["alias_id"] for row in world["entity_aliases"] if graph.maybe(0.3)]
    alias, entity = graph.random.sample(NAMES, 2)
    added = [Alias(alias_id=graph.id(), alias_key=alias, alias=alias, entity_key=entity,
                   entity=entity.title())]  # fmt: skip
    run_id = graph.id()
    await both.outcome(
        lambda s: fact_calls.change_aliases(s, both.scope, NOW, run_id, ended, added)
    )
