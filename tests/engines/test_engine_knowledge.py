"""Runs, facts and the graph are on SeekDB what they are on PostgreSQL: written, undone, read."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from both_engines import NOW, Both
from long_forms import LONG
from random_runs import THREADS, RandomRuns

from shared_core import Scope
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
from shared_core.ports.runs import ReadRequest, RunPlan
from shared_core.storage.oceanbase.connection.transactions import Transaction

ASKED = ReadRequest(turns=3, context=2, replay=3, reread=1, people=3)
HELD = {
    "threads": "thread_id consolidated_seq summarised_seq unread_bytes last_memory_seq",
    "memories": "memory_id namespace key kind text value author importance thread_id run_id"
    " occurred_at created_at updated_at expires_at superseded_at words_key demoted_at",
    "memory_sources": "memory_id thread_id event_id basis", "memory_bases": "memory_id basis_id",
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
    "consolidation_jobs": "job_id thread_id job_type status", "extraction_counts": "extractions",
}  # fmt: skip


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
        known = await both.same(lambda one: one.query(both.tenant, lambda: known_of([], [], NOW)))
        plan = world.plan(int(known.number))
        said = await applied(both, plan)
        refused.add(said.partition(":")[0])
        if not said:
            world.applied(plan)
        if step % 6 == 5:
            await both.left(HELD)
            await reads(both, world)
    assert {"", "Conflict"} == refused
    await look_alikes(both)
    for hours in (0, 4):  # by then, some have expired
        both.now += timedelta(hours=hours)
        await moments_are_read(both, world)
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
        asked = (both.scope, kinds, {draft: words}, None)
        found = await both.same(lambda s, a=asked: s.runs.like_texts(*a))
        assert [1.0] * count == [one.similarity for one in found.get(draft, ())]


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


# The graph

NAMES = ("user", "emil", "émil", "emil ", "Emil", "bonn", "上海", "nobody")


async def look_alikes(both: Both) -> None:
    """Write edges and aliases of names that look alike, and let reflections fade."""
    edges = [
        edge(number, relation, object_, number == 903, subject=subject)
        for number, (subject, relation, object_) in enumerate(
            [("émil", "knows", "Emil"), ("emil", "Knows", "上海"), ("emil ", "knows", "bonn"),
             ("上海", "knows", "émil"), ("bonn", "Knows", "user")], 901
        )
    ]  # fmt: skip
    merged = NOW - timedelta(minutes=20)
    aliases = [
        {"alias_id": UUID(int=number), "alias_key": alias, "alias": alias.title(),
         "entity_key": entity, "entity": entity.title(), "merged_at": merged, "unmerged_at": ends}
        for number, (alias, entity, ends) in enumerate(
            [("émil", "emil", merged + timedelta(minutes=5)), ("émil", "bonn", None),
             ("emil ", "emil", None)], 1
        )
    ]  # fmt: skip
    await both.put({"edges": edges, "entity_aliases": aliases})
    faded = "UPDATE memories SET demoted_at = created_at WHERE kind = 'reflection'"
    await both.change(f"{faded} AND tenant_id = %s")


async def moments_are_read(both: Both, world: RandomRuns) -> None:
    """Walk the graph and list memories at some moments, which must be the same on both engines."""
    scope, met = both.scope, 0
    valid, known = AsOf(valid=world.moment()), AsOf(known=both.now - timedelta(minutes=9))
    for as_of in (None, valid, known, replace(known, valid=world.moment())):
        for depth, limit in ((1, 50), (2, 3), (4, 50)):
            asked = (scope, NAMES, depth, limit, as_of)
            walks = await both.same(lambda s, a=asked: s.graph.walk(*a))
            met += sum(len(one.edges) for one in walks)
        query = MemoryQuery(scope=scope, namespace=(scope.app, scope.user), as_of=as_of)
        begin = world.moment()
        stretch = replace(query, begin=begin, end=begin + timedelta(hours=2))
        bounds = [begin + timedelta(minutes=10 * number) for number in range(12)]
        await both.same(lambda s, q=query: s.events.list_memories(q, "newest", 7, 2))
        for order in ("newest", "oldest"):
            await both.same(lambda s, q=stretch, o=order: s.events.list_memories(q, o, 5, 1))
        await both.same(lambda s, q=stretch, b=bounds: s.events.count_memories(q, b))
    assert met > 10


def edge(
    number: int, relation: str, object_: str, ended: bool, subject: str = "user"
) -> dict[str, Any]:
    then = NOW - timedelta(days=1000 - number)
    end = then + timedelta(hours=1) if ended else None
    return {
        "edge_id": UUID(int=number), "subject": subject, "relation": relation, "object": object_,
        "subject_key": subject, "object_key": object_.lower(), "functional": relation == "lives_in",
        "confidence": 0.5, "valid_from": then, "valid_until": end, "recorded_at": then,
        "superseded_at": end,
    }  # fmt: skip


async def test_an_edge_is_restored_once_and_only_where_its_place_is_free(both):
    tenant = both.tenant
    taken, free = edge(1, "lives_in", "Rome", True), edge(3, "likes", "Tea", True)
    await both.put({"edges": [taken, edge(2, "lives_in", "Paris", False), free]})
    refused = []
    for number, row in enumerate((taken, free, free)):
        read = partial(edges.edge_of, row["edge_id"], NOW)
        ended: Any = await both.same(lambda s, r=read: s.query(tenant, r))
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
