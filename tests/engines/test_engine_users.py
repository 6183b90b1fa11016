"""A user with rows in every table is kept, forgotten, erased and moved alike on both engines."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar, get_args
from uuid import UUID

import pytest
from both_engines import NOW, Both

from shared_core import (
    Conflict,
    InvalidInput,
    MemoryEngine,
    RetentionPolicy,
    Scope,
    open_memory,
    run_sync,
)
from shared_core.core.domain import MemoryId, MemoryKind, ThreadId
from shared_core.core.namespaces import from_path, profile_namespace, scope_path, to_path
from shared_core.core.retention_policy import STAGES
from shared_core.jobs.scheduled_task import ScheduledTask
from shared_core.policies.profile_versions import drop_profile, save_profile
from shared_core.policies.profiles import (
    forgotten_turns,
    pipeline_history,
    profile_by_id,
    profile_of,
    profile_of_run,
    profiles_to_show,
    recent_threads,
    select_versions,
    turns_to_profile,
    version_of,
)
from shared_core.ports.erasures import ERASED_TOKEN, ErasureReceipt
from shared_core.ports.events import EventRow
from shared_core.ports.items import MemoryRow
from shared_core.ports.operations import PolicyFactory
from shared_core.ports.profiles import (
    PARAGRAPH_KEY,
    NewVersion,
    ProfileRun,
    StageRecord,
    SubjectKind,
    marks_id,
)
from shared_core.ports.retention import Kept, Revival, Weak
from shared_core.ports.tables import tables
from shared_core.ports.transfer import TABLES, ExportScope
from shared_core.storage.oceanbase import transfer
from tests import forgetting_calls as calls
from tests.integration.retention_calls import Calls
from tests.integration.whole_user import START, WholeClock, populate, said, write_the_rest

T = TypeVar("T")
USER = "ana/ü%"
DAYS = timedelta(days=1)


class Whole(Both):
    """A user with rows in every table on both engines, each in a memory of its own."""

    def __init__(self, postgres: str, seekdb: str, lines: dict[bool, list[str]]) -> None:
        self._dsn = postgres
        self._lines = lines
        self.begin()
        uris = (postgres, seekdb)
        self.memories = [open_memory(uri, clock=lambda: self.now, worker=False) for uri in uris]

    async def open(self) -> None:
        for memory in self.memories:
            await memory.report()
        self.postgres, self.seekdb = [memory._storage for memory in self.memories]  # type: ignore[assignment]

    async def close(self) -> None:
        for memory in self.memories:
            await memory.close()

    def begin(self) -> None:
        super().begin()
        self.now = START + 600 * DAYS
        self.scope = Scope(self.scope.app.replace(" ", ""), USER)
        self.tenant = scope_path(self.scope)

    @property
    def calls(self) -> list[Calls]:
        return [Calls(storage, lambda: self.now) for storage in self.storages]

    def lines(self, *, vectors: bool = True) -> list[str]:
        """Return the export of the user, under the name of this test's application."""
        head, *rows = self._lines[vectors]
        header = json.loads(head)
        header["of"]["app"] = self.scope.app
        return [json.dumps(header), *(row.replace("/app/", f"/{self.scope.app}/") for row in rows)]

    async def arrive(self) -> None:
        """Import the user into both memories."""
        for memory in self.memories:
            await memory.import_lines(self.lines())

    async def rows(self) -> list[str]:
        """Return all rows of the user, which must be equal on both engines."""
        whose = ExportScope(app=self.scope.app, user=USER, path=self.tenant)
        held = []
        for storage in self.storages:
            async with storage.transfer.snapshot(whose, vectors=True) as snapshot:
                held.append([f"{row.table} {row.text}" async for row in snapshot.rows])
        assert held[1] == held[0]
        return held[0]

    async def alike(self, call: Callable[[Calls], Awaitable[T]]) -> T:
        """Return what both say, and check that they say and hold the same."""
        first, second = [await call(one) for one in self.calls]
        assert _rounded(second) == _rounded(first)
        await self.rows()
        return first

    async def queried(self, reader: PolicyFactory[T]) -> T:
        return await self.same(lambda s: s.query(self.tenant, reader))


def _rounded(told: Any) -> Any:
    """Return what a storage told, strengths to 9 digits: so far do both formulas agree."""
    if isinstance(told, Kept):
        return replace(told, strength=round(told.strength, 9))
    if isinstance(told, list | tuple):
        return [_rounded(one) for one in told]
    return told


@pytest.fixture(scope="module")
def two_memories(postgres, seekdb):
    """A memory on each engine, and the exports of a user, without vectors and with them."""
    lent, clock = [postgres.lend(), postgres.lend(), seekdb.lend()], WholeClock()
    source, *uris = map(next, lent)

    async def made() -> dict[bool, list[str]]:
        ana = Scope("app", USER)
        async with open_memory(source, clock=clock, worker=False) as memory:
            await populate(memory, ana, clock)
            write_the_rest(source, scope_path(ana))
            return {
                vectors: [line async for line in memory.export(ana, vectors=vectors)]
                for vectors in (False, True)
            }

    whole = Whole(*uris, run_sync(made()))
    run_sync(whole.open())
    yield whole
    run_sync(whole.close())
    for one in lent:
        next(one, None)


@pytest.fixture(params=["postgres and seekdb"])
def empty(two_memories):
    """A memory on each engine, and a user who has not arrived there."""
    two_memories.begin()
    return two_memories


@pytest.fixture
async def whole(empty):
    """A user with rows in every table, the same on both engines."""
    await empty.arrive()
    return empty


# Retention


async def ids_of(whole: Whole) -> list[UUID]:
    weak = Weak(threshold=1.1, min_age_days=0, decay_rate=5)
    return list(await whole.alike(lambda one: one.weak(whole.scope, weak)))


async def test_memories_go_through_their_stages(whole):
    scope, path = whole.scope, to_path((whole.scope.app,))
    await whole.alike(lambda one: one.retention_rules(scope))
    policy = RetentionPolicy(
        decay_rate=0.07, threshold=0.2, archive_threshold=0.3, archive_after_days=3,
        erase_threshold=0.5, erase_after_days=4,
    )  # fmt: skip
    rules = dict.fromkeys(get_args(MemoryKind), policy)
    await whole.alike(lambda one: one.set_rules(path, rules))
    assert rules != await whole.alike(lambda one: one.retention_rules(scope))
    await whole.alike(lambda one: one.set_rules(whole.tenant, None))
    assert rules == await whole.alike(lambda one: one.retention_rules(scope))
    waiting = await whole.alike(lambda one: one.retimings())
    assert {path, whole.tenant} <= {*waiting}
    for place in (path, whole.tenant):
        looked = 1
        while looked:
            looked, _ = await whole.alike(lambda one, at=place: one.retime(at, 7))
    waiting = await whole.alike(lambda one: one.retimings())
    assert not {path, whole.tenant} & {*waiting}
    gone = set[str]()
    for _ in range(6):
        now = whole.now
        rows, leaving = await counted(whole)
        assert rows and leaving
        await whole.alike(lambda one, now=now: one.due(None, scope.app, now, 5))
        await whole.alike(lambda one, now=now: one.due(scope, None, now, 100))
        if len(gone) < 1:
            await whole.alike(lambda one, now=now: one.forget_faded(None, now, 100))
        counts, _, _ = await whole.alike(lambda one, now=now: one.forget_faded(scope, now, 100))
        gone |= {*counts}
        await whole.alike(lambda one: one.staged(scope, STAGES, None, 50, 1))
        whole.now += timedelta(days=2, microseconds=3)
    rest = await whole.alike(lambda one: one.due(None, None, whole.now, 100))
    assert [] != await ids_of(whole) or rest


async def counted(whole: Whole) -> tuple[Any, Any]:
    """Return the numbers of a moment, which are added up in another order by each engine."""
    found = []
    for one in whole.calls:
        rows, leaving = await one.stats(whole.scope.app, whole.now, (0.0, 1.0, 5.5, 400.0))
        sums: dict[Any, list[float]] = {}
        for row in rows:
            some = sums.setdefault((row.kind, row.fades, row.stage, row.bucket), [0, 0.0, 0])
            some[0] += row.count
            some[1] += row.score_sum
            some[2] += row.pinned
        found.append(({key: (n, round(s, 9), p) for key, (n, s, p) in sums.items()}, leaving))
    assert found[0] == found[1]
    return found[0]


async def test_what_is_pinned_stays_what_faded_comes_back_and_what_is_weak_goes(whole):
    ids, scope = await ids_of(whole), whole.scope
    faded = await whole.alike(lambda one: one.staged(scope, STAGES[1:], None, 100, 0))
    assert ids and "archived" in {one.stage for one in faded}
    for pinned in (True, False):
        for some in (ids[:4], ids[2:6], []):
            await whole.alike(lambda one, of=some, to=pinned: one.set_pinned(scope, of, to))
        await whole.alike(lambda one: one.kept(scope, ids))
    names = ["cello", "nobody", str(ids[0]), str(ids[1]).upper(), "\0"]
    await whole.alike(lambda one: one.named_ids(scope, names))
    assert ["nobody", "\0"] == await whole.alike(lambda one: one.unknown_names(scope, names))
    away_ids = [one.memory_id for one in faded]
    found = await whole.alike(lambda one: one.out_of_recall(scope, away_ids))
    held = (await whole.left({"memories": "memory_id namespace key"}))["memories"]
    places = [
        ((scope.app, scope.user, *from_path(one["namespace"])), one["key"])
        for one in held
        if one["memory_id"] in away_ids
    ]
    assert len(places) == len(away_ids)

    async def items(storage: Any) -> list[Any]:
        return sorted(await storage.items.get_items(places), key=repr)

    assert await whole.same(items)  # one that faded is read as it was
    away = [one for one in found if one.text is not None][:3]
    away += [one for one in found if one.text is None][:2]
    terms = {one.memory_id: ["some", "words", "some"] for one in away if one.is_wordless}
    revival = Revival(faded=away, terms=terms, vectors=None)
    back = await whole.alike(lambda one: one.revive_memories(scope, revival))
    assert {one.memory_id for one in away} == set(back)
    for one in whole.calls:
        with pytest.raises(Conflict, match="moved on meanwhile"):
            await one.revive_memories(scope, revival)
    for decay_rate in (0.2, None):
        weak = Weak(threshold=0.6, min_age_days=3, decay_rate=decay_rate)
        ids = await whole.alike(lambda one, w=weak: one.weak(scope, w))
        assert ids or decay_rate is None
        first, second = [await one.average_score(scope, weak) for one in whole.calls]
        assert first[0] == second[0] and first[1] == pytest.approx(second[1], abs=1e-9)
        gone = [set(await one.forget_weak(scope, weak, [*ids, *ids[:1]])) for one in whole.calls]
        assert gone[0] == gone[1] == set(ids)
        assert [] == await whole.alike(lambda one, w=weak: one.weak(scope, w))


async def test_a_task_is_done_by_one_at_a_time(empty):
    now, name = empty.now, empty.scope.app
    later = now + timedelta(seconds=50)

    async def task(verb: str, *given: Any, of: str = name) -> Any:
        return await empty.same(lambda s: getattr(ScheduledTask(s, of), verb)(*given))

    assert await task("last") is None
    assert await task("take", "w1", now, 60)
    assert not await task("take", "w2", later, 60)
    assert await task("keep", "w1", later, 60)
    assert not await task("keep", "w2", later, 60)
    await task("end", "w2", later, later, {"not": "mine"})
    await task("end", "w1", later, later, {"n": 1})
    turn = await task("last")
    assert turn and (later, later, {"n": 1}) == (turn.next_at, turn.done_at, turn.result)
    assert not await task("take", "w2", now, 60)
    assert await task("take", "w2", later, 60)
    await task("take", "w1", now, 60, of=f"other {name}")
    await task("drop")
    assert await task("last") is None and await task("last", of=f"other {name}")
    for storage in empty.storages:
        ahead = await storage.retention.ahead_of_server(datetime.now(START.tzinfo) + 2 * DAYS)
        assert 1.9 * DAYS < ahead < 2.1 * DAYS


# Forgetting and erasing


async def test_what_is_forgotten_takes_the_same_along(whole):
    scope, chance = whole.scope, Random(1)

    async def same(call: Callable[[Any], Awaitable[T]]) -> T:
        told = await whole.same(call)
        await whole.rows()
        return told

    for forget in (False, True):
        await same(
            lambda s, f=forget: calls.close_session(s, scope, ThreadId("s"), whole.now, forget=f)
        )
    taken = 0
    for thread, event_ids in (("t1", ["e2", "e9"]), ("t2", ["e6", "unknown"]), ("t1", ["e5"])):
        taken += await same(
            lambda s, t=thread, e=event_ids: calls.forget_turns(s, scope, t, e, whole.now)
        )
        memories = (await whole.left({"memories": "memory_id key namespace"}))["memories"]
        some = chance.sample([one for one in memories if one["namespace"] == "/memories/"], 2)
        named = [((scope.app, scope.user, "memories"), one["key"]) for one in some]
        assert 2 <= await same(lambda s, n=named: calls.forget(s, n, whole.now))
    assert taken > 3
    assert await same(lambda s: calls.forget_scope(s, scope, ThreadId("t1"), whole.now))
    assert await same(lambda s: calls.forget_scope(s, scope, None, whole.now))
    assert [] == (await whole.left({"memories": "memory_id"}))["memories"]


async def erased(whole: Whole, number: int, thread: str | None = None) -> ErasureReceipt:
    of = None if thread is None else ThreadId(thread)
    receipt = await whole.same(
        lambda s: calls.erase(s, whole.scope, of, UUID(int=number), whole.now)
    )
    assert receipt.is_intact and USER not in json.dumps(dict(receipt.counts))
    await whole.rows()
    return receipt


async def lines_of(memory: MemoryEngine, scope: Scope) -> list[str]:
    """Return the rows of a user in every table, vectors included."""
    return [line async for line in memory.export(scope, vectors=True)]


async def test_an_erased_user_is_gone_from_every_table(whole):
    app, bob = whole.scope.app, Scope(whole.scope.app, "bob")
    for memory in whole.memories:
        await memory.append_events(bob, "t1", [said(1, "My name is Bob. I live in Rome.")])
        for label, users in (("phone", [USER]), ("family", ["bob", USER]), ("all", None)):
            await memory.tokens.create(app, users=users, label=label)
        await memory.consolidate(bob, "t1")
    others = [await lines_of(memory, bob) for memory in whole.memories]
    first = await erased(whole, 1, "t1")
    assert {"threads", "events", "memories", "embeddings", "tombstones"} < {*first.counts}
    second, third = await erased(whole, 2), await erased(whole, 3)
    assert 2 == second.counts["api_tokens"] and not third.counts.get("memories")
    left = {row.partition(" ")[0] for row in await whole.rows()}
    assert left == {"tombstones", "import_marks", "erasures"}
    assert others == [await lines_of(memory, bob) for memory in whole.memories]
    stored = [await memory.erasures(whole.scope) for memory in whole.memories]
    assert stored[0] == stored[1] and {1, 2, 3} < {one.erasure_id.int for one in stored[0]}
    for memory in whole.memories:
        assert stored[0] == await memory.erasures(app=app)
        every = await memory.erasures()
        assert all(one in every for one in stored[0])
        assert [] == await memory.erasures(bob) == await memory.erasures(app=app[:-1])
        tokens = {one.label: one for one in await memory.tokens.list(app)}
        assert {"", "family", "all"} == {*tokens}
        assert ((ERASED_TOKEN,), ("bob",)) == (tokens[""].users, tokens["family"].users)
        assert tokens[""].revoked_at is not None and tokens["family"].revoked_at is None
        again = [said(1, "My name is Ana. I live in Leeds.")]
        assert set() == await memory.append_events(whole.scope, "t1", again)
    for storage in whole.storages:
        assert app in await storage.transfer.applications()


async def test_a_version_that_names_no_memory_is_blurred_too(both):
    version = {
        "subject_kind": "user", "subject_id": "bot", "version": 1, "content_hash": b"told",
        "created_at": NOW, "memory_id": UUID(int=1), "entries": [{"role": "mind"}],
        "began_at": NOW,
    }  # fmt: skip
    await both.put({"profiles": [version]})
    await both.same(lambda s: calls.erase(s, both.scope, ThreadId("t"), UUID(int=2), NOW))
    for storage in both.storages:
        found = await storage.query(both.tenant, lambda: profile_of("user", "bot"))
        assert found is not None and b"told".hex() != found.version.content_hash


# Profiles

AGENTS = ("bot", "Bot", "bot ", "助手")
SUBJECTS: tuple[SubjectKind, ...] = ("user", "user", "user", "agent")
"""Whom the profiles of each agent are about."""
THREADS = tuple(map(ThreadId, ("t", "t ", "聊天")))
PROFILES = {
    "profiles": "subject_kind subject_id version run_id created_at memory_id entries event_limit"
    " began_at revision",
    "memories": "memory_id namespace key kind text value created_at updated_at superseded_at"
    " run_id",
    "memory_sources": "memory_id thread_id event_id basis",
    "memory_bases": "memory_id basis_id",
    "runs": "run_id kind extractor counts started_at finished_at undone_at number",
    "pipeline_log": "run_id step stage output error started_at duration_s status input memory_id"
    " thread_id",
    "events": "thread_id seq event_id memory_seq",
}


async def queried(both: Both, reader: PolicyFactory[T]) -> T:
    return await both.same(lambda s: s.query(both.tenant, reader))


def profile_run(both: Both, step: int, undoes: UUID | None = None) -> ProfileRun:
    stages = [
        StageRecord(
            stage=stage, status="error" if error else "success", input={"to_seq": step // 3},
            output={"ü": [1, None]}, started_at=both.now, duration_s=0.25, error=error,
        )
        for stage, error in (("read", None), ("write", "失败"))
    ]  # fmt: skip
    return ProfileRun(
        run_id=UUID(int=1_000 + step), extractor="rules", started_at=both.now, counts={"new": 1},
        stages=stages, thread_id=THREADS[step % 3], undoes=undoes,
    )  # fmt: skip


def profile_version(both: Both, step: int, expected: int) -> NewVersion:
    """Return a version of the agent of a step: new memories, one written again, its paragraph."""
    agent, subject, run_id = AGENTS[step % 4], SUBJECTS[step % 4], UUID(int=1_000 + step)
    numbers = [100 + 2 * step, 101 + 2 * step, *([100 + 2 * (step - 4)] if step > 3 else ())]
    ids = [MemoryId(UUID(int=number)) for number in (*numbers, 5_000 + step % 4)]
    rows = [
        MemoryRow(
            memory_id=one, namespace=profile_namespace(both.scope, subject, agent), text="茶",
            key=PARAGRAPH_KEY if one == ids[-1] else str(one), kind="semantic", terms=["tea"],
            value={"content": "茶", "n": 1.5}, occurred_at=NOW, run_id=run_id,
        )
        for one in ids
    ]  # fmt: skip
    turn = (THREADS[step % 3], f"e{step}")
    return NewVersion(
        subject=subject, agent_id=agent, expected=expected, revision=0, revises=step == 9,
        event_limit=1 if step == 10 else 50, content_hash=f"{step:08x}", began_at=NOW,
        entries=list(zip(ids[:-1], ("statement", "mind", "ended"), strict=False)),
        rows=rows, sources=[(rows[0].key, turn, 0), (rows[-1].key, turn, 1), ("none", turn, 0)],
        rewritten=ids[2:-1], required=[turn], covered=ids[:2], keep=2,
    )  # fmt: skip


async def profiles_are_read(both: Both, agent: str, memory_id: UUID) -> None:
    """Check that every way to ask answers the same."""
    for version in (None, 1, 99):
        await queried(both, partial(profile_by_id, memory_id, version))
    await both.same(lambda s: s.read(both.tenant, [select_versions(memory_id, 2)]))
    await queried(both, partial(pipeline_history, memory_id, 3))
    for known in (None, both.now - timedelta(minutes=3)):
        await queried(both, partial(profiles_to_show, "bot", known, ["statement", "mind"]))
    for step in (0, 1, 5, 99):
        await queried(both, partial(profile_of_run, UUID(int=1_000 + step)))
    for thread in THREADS:
        ids = (memory_id, marks_id(agent))
        await queried(both, partial(turns_to_profile, ids, thread, 3, both.now))
        gone = forgotten_turns(thread, ["e0", "e1", "E1"])
        await both.same(lambda s, f=gone: s.read(both.tenant, [f]))
    for author in (None, agent):
        await queried(both, partial(recent_threads, author, 3, both.now))
    await both.left(PROFILES)


async def test_profiles_change_alike(both):
    refused = set[object]()
    for step in range(12):
        both.now = NOW + timedelta(minutes=step, microseconds=step)
        agent, memory_id = AGENTS[step % 4], UUID(int=10_000 + step % 4)
        newest = await queried(both, partial(profile_of, SUBJECTS[step % 4], agent))
        late = step == 6  # after a version that is not there
        new = profile_version(both, step, (newest.version.version if newest else 0) + late)
        event = replace(said(step, "I like tea. 茶"), author=agent)
        turn = EventRow(event=event, memory_id=MemoryId(UUID(int=step + 1)), logged=False, value={},
                        terms=["tea"])  # fmt: skip
        run = profile_run(both, step, UUID(int=1_000 + step - 1) if step in (3, 7) else None)
        policy = partial(save_profile, both.scope, memory_id, run, new, None, [turn], both.now)
        told = await both.outcome(lambda s, p=policy: s.transact(both.tenant, p))
        refused.add(told if isinstance(told, str) else "")
        if step % 4 == 3:
            await profiles_are_read(both, agent, memory_id)
    assert "" in refused and len(refused) > 1
    for step in (0, 4):
        await both.same(
            lambda s, n=step: calls.forget_turns(s, both.scope, THREADS[n % 3], [f"e{n}"], both.now)
        )
    await profiles_are_read(both, "bot", UUID(int=10_000))
    [rows] = await both.same(lambda s: s.read(both.tenant, [select_versions(memory_id, 1)]))
    drop = partial(drop_profile, both.scope, version_of(rows[0]), UUID(int=9), both.now)
    assert await both.same(lambda s: s.transact(both.tenant, drop))
    await profiles_are_read(both, agent, memory_id)


async def test_of_two_of_one_moment_the_same_is_shown(both):
    version = {
        "subject_kind": "user", "version": 1, "content_hash": b"", "created_at": NOW,
        "entries": [], "began_at": NOW,
    }  # fmt: skip
    agents = ("b", "a", "Z", "c")
    await both.put({"profiles": [
        version | {"subject_id": agent, "memory_id": UUID(int=n)} for n, agent in enumerate(agents)
    ]})  # fmt: skip
    [shown] = await queried(both, partial(profiles_to_show, both.scope.app, None, ["mind"]))
    assert "Z" == shown.version.agent_id


# Export and import


async def exported(whole: Whole, engine: int, *, vectors: bool) -> list[str]:
    return [line async for line in whole.memories[engine].export(whole.scope, vectors=vectors)]


@pytest.mark.parametrize("vectors", [False, True])
async def test_an_export_goes_to_the_other_engine_and_back(empty, vectors, monkeypatch):
    monkeypatch.setattr(transfer, "FETCHED", 3)  # every table takes several pages
    lines, (postgres, seekdb) = empty.lines(vectors=vectors), empty.memories
    held = Counter(json.loads(line).get("table") for line in lines)
    assert {None, *TABLES} == set(held), {*TABLES} - {*held}

    def text_of_field(value: Any, name: str) -> Any:
        return value[name]

    report = await seekdb.import_lines(lines, text_of_field=text_of_field)
    assert (len(lines) - 2, 0, 0) == (report.written, report.here, report.unembedded)
    again = await seekdb.import_lines(lines, text_of_field=text_of_field)
    assert (0, len(lines) - 2, 0) == (again.written, again.here, again.differ)
    assert lines[1:] == (await exported(empty, 1, vectors=vectors))[1:]
    await postgres.import_lines(await exported(empty, 1, vectors=True))
    assert lines[1:] == (await exported(empty, 0, vectors=vectors))[1:]
    for wanted in (1, 2, len(lines) - 1):  # an export may be left early
        async with aclosing(seekdb.export(empty.scope, vectors=vectors)) as some:
            assert lines[1:wanted] == [await anext(some) for _ in range(wanted)][1:]


async def test_what_was_forgotten_here_comes_back_if_that_is_asked(whole):
    lines, seekdb = whole.lines(), whole.memories[1]
    await whole.change(
        "INSERT INTO tombstones (thread_id, event_id, deleted_at, tenant_id)"
        " VALUES ('t1', 'e2', '2026-01-01', %s)"
    )
    number = 1 + next(n for n, line in enumerate(lines) if '"event_id":"e2"' in line)
    with pytest.raises(Conflict, match=f"line {number}, a row of events: this turn was forgotten"):
        await seekdb.import_lines(lines)
    report = await seekdb.import_lines(lines, restore=True)
    assert 0 == report.written
    assert lines[1:] == (await exported(whole, 1, vectors=True))[1:]


def changed(lines: Sequence[str], table: str, **values: object) -> tuple[int, list[str]]:
    """Return the number of the first row of a table, and the lines with other values there."""
    place = next(n for n, line in enumerate(lines) if f'"table": "{table}"' in line)
    line = json.loads(lines[place])
    line["row"] |= values
    return place + 1, [*lines[:place], json.dumps(line), *lines[place + 1 :]]


REFUSED: list[tuple[str, str, object, str]] = [
    ("memories", "text", None, "null value"),
    ("memories", "kind", "no kind", "violates check constraint"),
    ("memories", "created_at", "yesterday-ish", "date/time|timestamp"),
    ("memories", "importance", "high", "invalid input syntax"),
    ("memories", "importance", 11, "violates check constraint"),
    ("memories", "text", "\ud800", "cannot be|invalid|surrogate"),
    ("memories", "value", {"a": "\0"}, "NUL"),
    ("memories", "mystery", 1, "memories has no 'mystery'"),
    ("facts", "valid_until", "1970-01-01T00:00:00+00:00", "OceanBase cannot"),
]


async def test_a_row_that_fits_no_table_or_place_is_named(empty):
    lines, seekdb = empty.lines(vectors=False), empty.memories[1]
    assert {"memories", "facts"} < {*tables()}
    for table, column, value, told in REFUSED:
        number, some = changed(lines, table, **{column: value})
        with pytest.raises(InvalidInput, match=f"line {number}, a row of {table}: .*({told})"):
            await seekdb.import_lines(some)
    await seekdb.import_lines(lines)
    _, some = changed(lines, "memories", memory_id="00000000-0000-4000-8000-000000000000")
    with pytest.raises(
        Conflict, match=r"a row of memories: something else has its place .* is of '/.*/', .*key '"
    ):
        await seekdb.import_lines(some)
