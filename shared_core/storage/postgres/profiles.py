"""Profiles on PostgreSQL: versions in a table of their own, their entries in memories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

import psycopg

from shared_core.core.domain import Event, JsonValue, Scope, ThreadId, Turn
from shared_core.core.ids import uuid7
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import profile_namespace, rest_of, scope_path
from shared_core.errors import Conflict
from shared_core.ports.events import EventRow
from shared_core.ports.items import VectorRows
from shared_core.ports.profiles import (
    PARAGRAPH_KEY,
    USER_TEXT_CHARACTERS,
    USER_TEXTS,
    EntryRole,
    NewVersion,
    ProfileEntry,
    ProfileRun,
    ProfileVersion,
    RunOfProfile,
    StageLog,
    StageRecord,
    StoredProfile,
    SubjectKind,
    ThreadOverview,
    marks_id,
)
from shared_core.ports.storage import Clock
from shared_core.storage._rows import event_from_row, record
from shared_core.storage.postgres.connection.database import PostgresDatabase, by_column
from shared_core.storage.postgres.connection.pipeline import Rows
from shared_core.storage.postgres.connection.statements import Step, step, steps
from shared_core.storage.postgres.events import PostgresEvents
from shared_core.storage.postgres.items import PostgresItems, vector_steps

VERSION_COLUMNS = 10


@dataclass
class PostgresProfiles:
    """Profiles of one scope at a time."""

    _database: PostgresDatabase
    _clock: Clock
    _items: PostgresItems
    _events: PostgresEvents

    async def profile_by_id(
        self, scope: Scope, memory_id: UUID, version: int | None = None
    ) -> StoredProfile | None:
        values = {"memory_id": memory_id, "version": version, "roles": None}
        return next(iter(await self._stored(scope, "profile_by_id", values)), None)

    async def profile_of(
        self, scope: Scope, subject: SubjectKind, agent_id: str
    ) -> StoredProfile | None:
        values = {"subject_kind": subject, "subject_id": agent_id, "roles": None}
        return next(iter(await self._stored(scope, "profile_of_subject", values)), None)

    async def profiles_to_show(
        self, scope: Scope, known: datetime | None, roles: Sequence[EntryRole]
    ) -> Sequence[StoredProfile]:
        values = {"app": scope.app, "known": known, "roles": list(roles)}
        return await self._stored(scope, "profiles_to_show", values)

    async def _stored(
        self, scope: Scope, name: str, values: Mapping[str, object]
    ) -> list[StoredProfile]:
        rows = await self._read(scope, name, **values)
        return [
            _profile(key, [row[VERSION_COLUMNS:] for row in some])
            for key, some in groupby(rows, key=lambda row: row[:VERSION_COLUMNS])
        ]

    async def _read(self, scope: Scope, name: str, **values: object) -> Rows:
        return await self._database.rows(scope_path(scope), name, now=self._clock(), **values)

    async def profile_versions(
        self, scope: Scope, memory_id: UUID, limit: int
    ) -> Sequence[ProfileVersion]:
        rows = await self._read(scope, "profile_versions", memory_id=memory_id, limit=limit)
        return [_version(row) for row in rows]

    async def profile_of_run(self, scope: Scope, run_id: UUID) -> RunOfProfile | None:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "run_id": run_id}
        found, is_one = await self._database.run(
            tenant, *steps(values, "profile_of_run", "is_profile_run")
        )
        if found:
            return RunOfProfile(*found[0])
        return RunOfProfile(None, None, None, None) if is_one else None

    async def pipeline_history(
        self, scope: Scope, memory_id: UUID, limit: int
    ) -> Sequence[StageLog]:
        rows = await self._read(scope, "pipeline_history", memory_id=memory_id, limit=limit)
        return [_stage(row) for row in rows]

    async def turns_to_profile(
        self, scope: Scope, agent_id: str, memory_id: UUID, thread_id: ThreadId, limit: int
    ) -> Sequence[tuple[int, Event]]:
        ids = [memory_id, marks_id(agent_id)]
        rows = await self._read(
            scope, "turns_to_profile", memory_ids=ids, thread_id=thread_id, limit=limit
        )
        return [(row[0], event_from_row(row[1:])) for row in rows]

    async def forgotten_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> set[str]:
        rows = await self._read(
            scope, "forgotten_turns", thread_id=thread_id, event_ids=list(event_ids)
        )
        return {row[0] for row in rows}

    async def save_profile(
        self,
        scope: Scope,
        memory_id: UUID,
        run: ProfileRun,
        version: NewVersion | None,
        vectors: VectorRows | None,
        turns: Sequence[EventRow] = (),
    ) -> set[str]:
        tenant = scope_path(scope)
        sent = steps({"tenants": [tenant]}, "hold_policies", "lock_tenants")
        appends = bool(turns) and run.thread_id is not None
        if turns and run.thread_id is not None:
            sent.append(self._events.append_step(scope, run.thread_id, turns, self._clock()))
        sent += self._record_steps(tenant, memory_id, run)
        if appends:
            sent.append(_mark_step(tenant, run, turns))
        if version:
            sent += self._version_steps(scope, memory_id, run, version)
        try:
            answers = await self._database.run(tenant, *sent, *vector_steps(vectors))
        except (Conflict, psycopg.errors.UniqueViolation) as error:
            raise Conflict(
                f"another call changed profile {memory_id}, or forgot a turn it was drawn from,"
                " since it was loaded: load it again and repeat"
            ) from error
        return {row[0] for row in answers.named("append_events")} if appends else set()

    def _record_steps(self, tenant: str, memory_id: UUID, run: ProfileRun) -> list[Step]:
        now = self._clock()
        record: dict[str, object] = {
            "tenant": tenant, "run_id": run.run_id, "kind": "profile", "thread_id": None,
            "extractor": run.extractor, "from_seq": None, "to_seq": None, "summed_from": None,
            "summed_to": None, "counts": to_json(run.counts), "started_at": run.started_at,
            "now": now,
        }  # fmt: skip
        sent = [step("add_run", record)]
        if run.undoes is not None:
            undone = {"tenant": tenant, "run_id": run.undoes, "now": now}
            sent.append(step("begin_undo", undone))
        if run.stages:
            rows = [(one.stage, to_json(one.output), one.error, one.started_at, one.duration_s,
                     one.status, to_json(one.input)) for one in run.stages]  # fmt: skip
            names = ("stages", "outputs", "errors", "stages_began", "durations", "statuses",
                     "inputs")  # fmt: skip
            logged = by_column(names, rows) | {
                "tenant": tenant, "run_id": run.run_id, "memory_id": memory_id,
                "conversation_id": run.thread_id,
            }  # fmt: skip
            sent.append(step("add_pipeline_log", logged))
        return sent

    def _version_steps(
        self, scope: Scope, memory_id: UUID, run: ProfileRun, new: NewVersion
    ) -> list[Step]:
        tenant = scope_path(scope)
        entries: list[JsonValue] = [{"id": str(one), "role": role} for one, role in new.entries]
        values: dict[str, object] = {
            "tenant": tenant, "subject_kind": new.subject, "subject_id": new.agent_id,
            "expected": new.expected, "revision": new.revision, "memory_id": memory_id,
            "run_id": run.run_id,
            "content_hash": bytes.fromhex(new.content_hash), "entries": to_json(entries),
            "event_limit": new.event_limit, "began_at": new.began_at, "now": self._clock(),
            "namespace": rest_of(profile_namespace(scope, new.subject, new.agent_id)),
            "paragraph_key": PARAGRAPH_KEY, "told": list(new.covered),
            "shown": [one for one, role in new.entries if role != "ended"],
            "rewritten": list(new.rewritten), "keep": new.keep,
        }  # fmt: skip
        rows = [(key, *turn, basis) for key, turn, basis in new.sources]
        sources = by_column(("keys", "thread_ids", "event_ids", "bases"), rows)
        required = by_column(("thread_ids", "event_ids"), list(new.required))
        sent = [
            *steps(values, "require_profile_version", "require_profile_rows"),
            step("require_turns", values | required),
            step("revise_profile" if new.revises else "add_profile_version", values),
            *self._items.put_steps(new.rows),
            step("add_profile_sources", values | sources),
        ]
        if new.revises:
            return sent
        shown = ("drop_profile_bases", "add_profile_bases", "show_profile", "prune_profile")
        return [*sent, *steps(values, *shown)]

    async def drop_profile(
        self, scope: Scope, memory_id: UUID, subject: SubjectKind, agent_id: str
    ) -> int:
        tenant = scope_path(scope)
        namespace = rest_of(profile_namespace(scope, subject, agent_id))
        values = {"tenant": tenant, "memory_id": memory_id, "namespace": namespace}
        sent = [step("lock_tenants", {"tenants": [tenant]})]
        if subject == "user":
            marks = {"marks_id": marks_id(agent_id), "run_id": uuid7(), "now": self._clock()}
            sent.append(step("mark_all_read", values | marks))
        answers = await self._database.run(tenant, *sent, step("drop_profile", values))
        [(deleted,)] = answers.named("drop_profile")
        return int(deleted)

    async def recent_threads(
        self, scope: Scope, author: str | None, limit: int
    ) -> Sequence[ThreadOverview]:
        shown = {"said": USER_TEXTS, "characters": USER_TEXT_CHARACTERS}
        rows = await self._read(scope, "recent_threads", author=author, limit=limit, **shown)
        return [
            record(ThreadOverview, row[:4], summary=row[4] or "", user_texts=tuple(row[5]))
            for row in rows
        ]


def _mark_step(tenant: str, run: ProfileRun, turns: Sequence[EventRow]) -> Step:
    values = {
        "tenant": tenant, "run_id": run.run_id, "conversation_id": run.thread_id,
        "event_ids": [row.event.event_id for row in turns],
    }  # fmt: skip
    return step("mark_turns_read", values)


def _stage(row: Sequence[Any]) -> StageLog:
    run_id, step, *stage, thread_id, version = row
    return record(StageLog, [run_id, step, thread_id, version], record=record(StageRecord, stage))


def _version(row: Sequence[Any]) -> ProfileVersion:
    values = [*row[:5], *row[6:10]]
    return record(ProfileVersion, values, content_hash=bytes(row[5]).hex())


def _profile(key: Sequence[Any], rows: Rows) -> StoredProfile:
    return StoredProfile(
        version=_version(key),
        entries=[
            ProfileEntry(role=role, value=json.loads(value), bases=_bases(sources))
            for _, role, value, sources in rows
            if value is not None
        ],
        forgotten=frozenset(one for one, _, value, _ in rows if one is not None and value is None),
    )


def _bases(sources: Sequence[tuple[int, str, str]] | None) -> tuple[tuple[Turn, ...], ...]:
    return tuple(
        tuple((ThreadId(thread_id), event_id) for _, thread_id, event_id in some)
        for _, some in groupby(sources or (), key=lambda source: source[0])
    )
