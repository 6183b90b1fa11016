"""Profiles on SeekDB are what they are on PostgreSQL, whatever is written, read and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import pytest
from both_engines import NOW, Both

from shared_core import Event, Scope
from shared_core.core.domain import MemoryId, ThreadId
from shared_core.core.namespaces import profile_namespace, scope_path
from shared_core.knowledge.run_rows import apply_run
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
from shared_core.ports.events import EventRow
from shared_core.ports.items import MemoryRow
from shared_core.ports.jobs import JobType
from shared_core.ports.operations import PolicyFactory
from shared_core.ports.profiles import (
    PARAGRAPH_KEY,
    EntryRole,
    NewVersion,
    ProfileRun,
    StageRecord,
    SubjectKind,
    marks_id,
)
from shared_core.ports.runs import Passage, RunPlan
from tests import forgetting_calls as calls

T = TypeVar("T")
SCOPE = Scope("bot", "ann 安")
TENANT = scope_path(SCOPE)
AGENTS = ("bot", "Bot", "bot ", "böt", "助手")
THREADS = tuple(map(ThreadId, ("t", "T", "t ", "聊天")))
ROLES: tuple[EntryRole, ...] = ("statement", "ended", "event", "mind")
TEXTS = ("", " ", "茶 🍵", "I like tea. " * 100)
HELD = {
    "profiles": "subject_kind subject_id version run_id created_at memory_id entries event_limit"
    " began_at revision",
    "memories": "memory_id namespace key kind text value created_at updated_at superseded_at"
    " run_id",
    "memory_sources": "memory_id thread_id event_id basis",
    "memory_bases": "memory_id basis_id",
    "memory_access": "memory_id forget_at stage",
    "runs": "run_id kind extractor counts started_at finished_at undone_at number",
    "pipeline_log": "run_id step stage output error started_at duration_s status input memory_id"
    " thread_id",
    "threads": "thread_id last_seq last_memory_seq consolidated_seq updated_at",
    "events": "thread_id seq event_id memory_seq",
    "tombstones": "thread_id event_id",
}


class RandomProfiles:
    """What is random comes from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.runs: list[UUID] = []
        self.told: dict[ThreadId, list[str]] = {thread: [] for thread in THREADS}
        self.memories: dict[UUID, list[MemoryId]] = {}
        self._last_id = 0
        self._versions = 0

    def id(self) -> UUID:
        self._last_id += 1
        return UUID(int=self._last_id)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def subject(self) -> tuple[SubjectKind, str, UUID]:
        kind: SubjectKind = self.random.choice(("user", "user", "agent"))
        agent = self.random.choice(AGENTS)
        return kind, agent, UUID(int=10_000 + 10 * AGENTS.index(agent) + (kind == "agent"))

    def turns(self, thread: ThreadId, now: datetime) -> list[EventRow]:
        rows = []
        for _ in range(self.random.randrange(1, 4)):
            event_id = f"e{len(self.told[thread])}{self.random.choice(('', ' '))}"
            self.told[thread].append(event_id)
            event = Event(
                event_id=event_id,
                author=self.random.choice(AGENTS),
                role=self.random.choice(("user", "agent")),
                text=self.random.choice(TEXTS),
                occurred_at=now - timedelta(minutes=self.random.randrange(3)),
                expires_at=now + timedelta(minutes=5) if self.maybe(0.2) else None,
            )
            memory_id = MemoryId(self.id()) if self.maybe(0.7) else None
            rows.append(
                EventRow(event=event, memory_id=memory_id, logged=False, value={}, terms=["tea"])
            )
        return rows

    def some_turns(self) -> list[tuple[ThreadId, str]]:
        every = [(thread, one) for thread, told in self.told.items() for one in told]
        return self.random.sample(every, min(len(every), self.random.randrange(3)))

    def stages(self, thread: ThreadId | None, now: datetime) -> list[StageRecord]:
        first: dict[str, Any] = {"turns": 2, "of": 0.5}
        if thread is not None and self.maybe(0.4):
            first["to_seq"] = self.random.randrange(len(self.told[thread]) + 1)
        return [
            StageRecord(
                stage=stage,
                status=self.random.choice(("success", "warning", "error")),
                input=first if stage == "read" else {},
                output={"ü": [1, None]},
                started_at=now - timedelta(seconds=self.random.randrange(2)),
                duration_s=0.25,
                error=self.random.choice((None, "", "失败")),
            )
            for stage in ("read", "write")[: self.random.randrange(3)]
        ]

    def run(self, now: datetime) -> ProfileRun:
        thread = self.random.choice((None, *THREADS))
        undoes = self.random.choice(self.runs) if self.runs and self.maybe(0.15) else None
        return ProfileRun(
            run_id=self.id(),
            extractor="rules",
            started_at=now,
            counts={"new": 1},
            stages=self.stages(thread, now),
            thread_id=thread,
            undoes=undoes,
        )

    def version(
        self, kind: SubjectKind, agent: str, memory_id: UUID, run_id: UUID, newest: Any
    ) -> NewVersion:
        """Return what comes after the newest version; each third came too late."""
        self._versions += 1
        held = self.memories.setdefault(memory_id, [])
        rows = [self._row(kind, agent, MemoryId(self.id()), run_id) for _ in range(2)]
        again = self.random.sample(held, min(len(held), self.random.randrange(3)))
        rows += [self._row(kind, agent, one, run_id) for one in again]
        paragraph = self._row(kind, agent, MemoryId(UUID(int=memory_id.int + 5000)), run_id)
        rows.append(replace(paragraph, key=PARAGRAPH_KEY))
        named = [row.memory_id for row in rows[:-1]]
        named += self.random.sample(held, min(len(held), 2))
        ids = list(dict.fromkeys(named))
        held += [row.memory_id for row in rows[:2]]
        return NewVersion(
            subject=kind,
            agent_id=agent,
            expected=(newest.version if newest else 0) + (self._versions % 3 == 0),
            revision=newest.revision if newest else 0,
            revises=newest is not None and self.maybe(0.2),
            event_limit=self.random.choice((1, 50)),
            content_hash=f"{self._last_id:08x}",
            began_at=NOW,
            entries=[(one, self.random.choice(ROLES)) for one in ids],
            rows=rows,
            sources=[
                (self.random.choice(rows).key, turn, self.random.randrange(2))
                for turn in self.some_turns()
            ]
            + [("no such key", (THREADS[0], "e0"), 0)],
            rewritten=again,
            required=self.some_turns() if self.maybe(0.3) else (),
            covered=ids[:2],
            keep=self.random.choice((1, 2, 4)),
        )

    def _row(self, kind: SubjectKind, agent: str, memory_id: MemoryId, run_id: UUID) -> MemoryRow:
        text = self.random.choice(TEXTS)
        return MemoryRow(
            memory_id=memory_id,
            namespace=profile_namespace(SCOPE, kind, agent),
            key=str(memory_id),
            kind="semantic",
            text=text,
            value={"content": text, "n": 1.5},
            terms=["tea"],
            importance=5,
            occurred_at=NOW,
            run_id=run_id,
        )


async def queried(both: Both, reader: PolicyFactory[T]) -> T:
    return await both.same(lambda s: s.query(TENANT, reader))


async def reads(both: Both, world: RandomProfiles) -> None:
    """Every way to ask answers the same."""
    for agent in AGENTS:
        for kind in ("user", "agent"):
            await queried(both, partial(profile_of, kind, agent))
    kind, agent, memory_id = world.subject()
    for version in (None, 1, 2, 99):
        await queried(both, partial(profile_by_id, memory_id, version))
    await both.same(lambda s: s.read(TENANT, [select_versions(memory_id, 2)]))
    await queried(both, partial(pipeline_history, memory_id, 3))
    for known in (None, both.now - timedelta(minutes=3)):
        roles: Sequence[EntryRole] = ("statement", "mind")
        await queried(both, partial(profiles_to_show, SCOPE.app, known, roles))
    for run_id in (*world.runs[-3:], UUID(int=0)):
        await queried(both, partial(profile_of_run, run_id))
    for thread in THREADS:
        ids = (memory_id, marks_id(agent))
        await queried(both, partial(turns_to_profile, ids, thread, 3, both.now))
        forgotten = forgotten_turns(thread, ["e0", "e0 ", "E1"])
        await both.same(lambda s, f=forgotten: s.read(TENANT, [f]))
    for author in (None, *AGENTS):
        await queried(both, partial(recent_threads, author, 3, both.now))


async def saved(both: Both, world: RandomProfiles) -> object:
    kind, agent, memory_id = world.subject()
    run = world.run(both.now)
    newest = await queried(both, partial(profile_of, kind, agent))
    version = None
    if world.maybe(0.8):
        version = world.version(
            kind, agent, memory_id, run.run_id, newest.version if newest else None
        )
    turns = world.turns(run.thread_id, both.now) if run.thread_id and world.maybe(0.4) else ()
    world.runs.append(run.run_id)
    policy = partial(save_profile, SCOPE, memory_id, run, version, None, turns, both.now)
    return await both.outcome(lambda s: s.transact(TENANT, policy))


async def dropped(both: Both, memory_id: UUID, run_id: UUID) -> None:
    [rows] = await both.same(lambda s: s.read(TENANT, [select_versions(memory_id, 1)]))
    if rows:
        policy = partial(drop_profile, SCOPE, version_of(rows[0]), run_id, both.now)
        await both.same(lambda s: s.transact(TENANT, policy))


@pytest.mark.parametrize("seed", range(4))
async def test_any_course_is_the_same(both: Both, seed: int) -> None:
    world = RandomProfiles(seed)
    refused = set()
    for step in range(30):
        both.now = NOW + timedelta(minutes=step // 2, microseconds=step)
        _, _, memory_id = world.subject()
        thread = world.random.choice(THREADS)
        match world.random.choice("ttssssssdfcx"):
            case "t":
                rows = world.turns(thread, both.now)
                await both.same(
                    lambda s, t=thread, r=rows: s.events.append_events(SCOPE, t, r, None)
                )
            case "s":
                refused.add(isinstance(await saved(both, world), str))
            case "d":
                await dropped(both, memory_id, world.id())
                world.memories.pop(memory_id, None)
            case "f":
                await both.same(
                    lambda s, t=thread: calls.forget_turns(s, SCOPE, t, ["e0", "e1 "], both.now)
                )
            case "c":
                await consolidated(both, world, thread)
            case "x":
                await both.same(lambda s, t=thread: calls.forget_scope(s, SCOPE, t, both.now))
        await both.left(TENANT, HELD)
        if step % 6 == 5:
            await reads(both, world)
    assert {True, False} == refused


async def consolidated(both: Both, world: RandomProfiles, thread: ThreadId) -> None:
    """Some of what is unread of a thread is read."""
    threads = (await both.left(TENANT, HELD))["threads"]
    marks = {row["thread_id"]: (row["consolidated_seq"], row["last_memory_seq"]) for row in threads}
    if thread not in marks:
        return
    mark, last = marks[thread]
    plan = RunPlan(
        run_id=world.id(),
        scope=SCOPE,
        kind=JobType.FULL_CONSOLIDATION,
        thread_id=thread,
        extractor="rules",
        read=Passage(mark=mark, to=world.random.randint(mark, last)),
        counts={},
        started_at=both.now,
    )
    await both.same(lambda s: apply_run(s, plan, lambda: both.now))


async def test_of_two_of_one_moment_the_same_is_shown(both: Both) -> None:
    version = {
        "subject_kind": "user", "version": 1, "content_hash": b"", "created_at": NOW,
        "entries": [], "began_at": NOW,
    }  # fmt: skip
    agents = ("b", "a", "Z", "c")
    rows = [
        version | {"subject_id": agent, "memory_id": UUID(int=n)} for n, agent in enumerate(agents)
    ]
    await both.put(TENANT, {"profiles": rows})
    [shown] = await queried(both, partial(profiles_to_show, SCOPE.app, None, ["mind"]))
    assert "Z" == shown.version.agent_id
