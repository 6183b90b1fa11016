"""Runs and facts on SeekDB are what they are on PostgreSQL: written, refused, undone, asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import fact_calls
import pymysql
import pytest
from both_engines import NOW, Both
from random_runs import MODEL, SCOPE, SLOTS, THREADS, RandomRuns

from shared_core import Conflict
from shared_core.core.domain import AsOf, ThreadId
from shared_core.core.namespaces import memories_namespace, scope_path
from shared_core.knowledge.run_rows import apply_run
from shared_core.policies import summaries
from shared_core.policies.memories import recent_memories
from shared_core.policies.run_reads import known_of, run_of, select_runs
from shared_core.policies.run_undo import undo_run
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.jobs import JobType
from shared_core.ports.runs import ReadRequest, RunPlan, RunRecord
from shared_core.storage.oceanbase.connection import database
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Transaction

TENANT = scope_path(SCOPE)
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
def copies(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both engines give the copies of summaries the same ids; two of one moment have the same."""

    def now_as_id() -> UUID:
        return UUID(int=int(both.now.timestamp()))

    monkeypatch.setattr(summaries, "uuid7", now_as_id)


async def outcome(both: Both, call: Callable[[Any], Awaitable[object]]) -> str:
    """Return with what a call on both engines is refused, which must be the same: "" for well."""

    async def called(storage: Any) -> str:
        await call(storage)
        return ""

    return str(await both.outcome(called))


async def begun(both: Both, world: RandomRuns) -> None:
    for storage in (both.postgres, both.seekdb):
        await storage.use_model(MODEL, 3)
    for thread in THREADS:
        rows = world.turns(thread, 4)
        await both.same(lambda one, t=thread, r=rows: one.events.append_events(SCOPE, t, r, None))


async def number_of_last(both: Both) -> int:
    known = await both.same(lambda one: one.query(TENANT, lambda: known_of([], [], NOW)))
    return int(known.number)


async def reads(both: Both, world: RandomRuns) -> None:
    """Every way to ask answers the same."""
    moments = [None, AsOf(valid=world.moment()), AsOf(known=both.now - timedelta(minutes=3)),
               AsOf(valid=world.moment(), known=both.now - timedelta(minutes=2))]  # fmt: skip
    for as_of in moments:
        for slot in (None, "like"):
            for history in (False, True):
                await both.same(
                    lambda one, a=as_of, s=slot, h=history: fact_calls.list_facts(
                        one, SCOPE, both.now, slot=s, history=h, as_of=a
                    )
                )
    for thread in (*THREADS, ThreadId("none")):
        await both.same(lambda one, t=thread: one.runs.read_thread(SCOPE, t, ASKED))
        await both.same(lambda one, t=thread: runs(one, t, 5))
    await both.same(lambda one: runs(one, None, 100))
    now = both.now
    await both.same(lambda one: one.query(TENANT, lambda: recent_memories(SCOPE, 5, now)))
    relations = [("user", "lives_in"), ("emil", "knows")]
    since = world.moment()
    await both.same(lambda one: known(one, list(SLOTS), relations, since))
    drafts: list[ItemAddress] = [(memories_namespace(SCOPE), f"draft {n}") for n in range(3)]
    asked = world.vectors(drafts[:2])
    await both.same(lambda one: likes(one, drafts, asked))
    for name in map(str, world.facts[-3:] + world.memories[-2:]):
        await both.same(lambda one, n=name: fact_calls.named_memory(one, SCOPE, both.now, n))
    assert (
        await both.same(lambda one: fact_calls.named_memory(one, SCOPE, both.now, "none")) is None
    )


async def runs(storage: Any, thread_id: ThreadId | None, limit: int) -> list[RunRecord]:
    [rows] = await storage.read(TENANT, [select_runs(thread_id, limit)])
    return [run_of(row) for row in rows]


async def undo(storage: Any, run_id: UUID, now: datetime) -> None:
    await storage.transact(TENANT, lambda: undo_run(SCOPE, run_id, now))


async def known(storage: Any, slots: Any, relations: Any, since: datetime) -> Any:
    """Return what is known; PostgreSQL says it in any order."""
    found = await storage.query(TENANT, lambda: known_of(slots, relations, since))
    parts = (found.facts, found.retractions, found.edges)
    return found.number, [sorted(map(repr, part)) for part in parts]


async def likes(storage: Any, drafts: list[ItemAddress], asked: VectorRows | None) -> Any:
    """Return how near what is known is; of what is as near as another either may come."""
    words = {one: UUID(int=10_000 + n) for n, one in enumerate(drafts)}
    found = await storage.runs.like_texts(SCOPE, ["semantic"], words, asked)
    return {one: [round(like.similarity, 3) for like in near] for one, near in found.items()}


@pytest.mark.parametrize("seed", range(6))
async def test_runs_at_random_end_alike(both: Both, copies: None, seed: int) -> None:
    world = RandomRuns(seed)
    await begun(both, world)
    ended = set()
    for step in range(18):
        both.now = NOW + timedelta(minutes=step)
        if step % 5 == 4:
            thread = world.random.choice(THREADS)
            rows = world.turns(thread, 2)
            await both.same(
                lambda one, t=thread, r=rows: one.events.append_events(SCOPE, t, r, None)
            )
        plan = world.plan(await number_of_last(both))
        said = await outcome(both, lambda one, p=plan: apply_run(one, p, lambda: both.now))
        ended.add(said.partition(":")[0])
        if not said:
            world.applied(plan)
        await both.left(TENANT, HELD)
        if step % 3 == 2:
            await restored(both, world)
        if step % 6 == 5:
            await reads(both, world)
    assert {"", "Conflict"} == ended
    for run_id in world.random.sample(world.runs, min(3, len(world.runs))):
        await outcome(both, lambda one, r=run_id: undo(one, r, both.now))
        await both.left(TENANT, HELD)
    for run in await both.same(lambda one: runs(one, None, 100)):
        await outcome(both, lambda one, r=run.run_id: undo(one, r, both.now))
        await both.left(TENANT, HELD)
    await reads(both, world)


async def restored(both: Both, world: RandomRuns) -> None:
    """Let a fact hold again that has ended, or one that has not."""
    facts = await both.same(lambda one: fact_calls.list_facts(one, SCOPE, both.now, history=True))
    if not facts:
        return
    fact = world.random.choice(facts)
    fact = replace(fact, superseded_at=fact.superseded_at or both.now)
    run_id = world.id()
    await outcome(both, lambda one: fact_calls.restore_fact(one, SCOPE, both.now, fact, run_id))
    await both.left(TENANT, HELD)


@pytest.mark.parametrize("seed", [23, 24])
async def test_undoing_the_last_run_leaves_what_was_before(
    both: Both, copies: None, seed: int
) -> None:
    world = RandomRuns(seed)
    await begun(both, world)
    undone = 0
    for step in range(30):
        both.now = NOW + timedelta(minutes=step)
        before = await both.left(TENANT, UNDONE)
        world.retired = {row["memory_id"] for row in before["memories"] if row["superseded_at"]}
        plan = world.plan(await number_of_last(both))
        if await outcome(both, lambda one, p=plan: apply_run(one, p, lambda: both.now)):
            continue
        if world.maybe(0.4):
            world.applied(plan)
            continue
        await both.same(lambda one, p=plan: undo(one, p.run_id, both.now))
        after = await both.left(TENANT, UNDONE)
        kept = [row["memory_id"] for row in before["memory_access"]]
        after["memory_access"] = [r for r in after["memory_access"] if r["memory_id"] in kept]
        before["threads"] = after["threads"] = []  # what is unread is counted anew
        assert before == after
        undone += 1
        said = await outcome(both, lambda one, p=plan: undo(one, p.run_id, both.now))
        assert "was undone already" in said
    assert undone
    assert "there is no run" in await outcome(both, lambda one: undo(one, UUID(int=1), both.now))


def plain_run(number: int) -> RunPlan:
    return RunPlan(
        run_id=UUID(int=number),
        kind=JobType.FULL_CONSOLIDATION,
        scope=SCOPE,
        thread_id=None,
        extractor="rules",
        started_at=NOW,
    )


async def test_a_run_that_was_committed_unseen_is_not_written_again(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = iter([True])
    tell, begin, begun = OceanBaseDatabase._once, database._begin, [()]

    def noted(connection: Any, statements: Any) -> None:
        begun[0] = statements
        begin(connection, statements)

    def cut(self: OceanBaseDatabase, connection: Any, work: Any) -> Any:
        answer = tell(self, connection, work)
        if begun[0] == database.WRITING and next(lost, False):
            connection.close()
            raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")
        return answer

    monkeypatch.setattr(database, "_begin", noted)
    monkeypatch.setattr(OceanBaseDatabase, "_once", cut)
    await apply_run(both.seekdb, plain_run(1), lambda: both.now)
    lost = iter([True])
    await undo(both.seekdb, UUID(int=1), NOW)
    [run] = await runs(both.seekdb, None, 9)
    assert run.undone_at == NOW
    with pytest.raises(Conflict):
        await apply_run(both.seekdb, plain_run(1), lambda: both.now)


async def test_a_run_that_breaks_off_leaves_nothing(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = RandomRuns(0)
    await begun(both, world)
    before = await both.left(TENANT, HELD)
    insert = Transaction.insert

    def dying(self: Transaction, table: str, *given: Any, **more: Any) -> None:
        if table == "memory_sources":
            raise KeyboardInterrupt
        insert(self, table, *given, **more)

    monkeypatch.setattr(Transaction, "insert", dying)
    with pytest.raises(KeyboardInterrupt):
        await apply_run(both.seekdb, world.plan(0), lambda: both.now)
    monkeypatch.undo()
    assert before == await both.left(TENANT, HELD)


async def test_runs_of_a_tenant_stand_in_line(both: Both) -> None:
    runs = [plain_run(number) for number in range(1, 9)]
    await asyncio.gather(*(apply_run(both.seekdb, run, lambda: both.now) for run in runs))
    numbers = await both.seekdb._database.read(
        lambda tx: tx.rows("SELECT number FROM runs ORDER BY number")
    )
    assert [(n,) for n in range(1, 9)] == numbers
