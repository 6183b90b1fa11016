"""OceanBaseStorage: profiles; versions in a table of their own, made of memories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID

import pymysql

from shared_core.core.domain import Event, Scope, ThreadId, Turn
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import profile_namespace, rest_of, scope_path
from shared_core.errors import Conflict
from shared_core.ports.events import EventRow
from shared_core.ports.items import VectorRows
from shared_core.ports.profiles import (
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
from shared_core.storage.oceanbase.base import OceanBasePart, reading, writing
from shared_core.storage.oceanbase.connection.errors import DUPLICATE, code_of
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages
from shared_core.storage.oceanbase.events import append_turns, forgotten as forgotten_of
from shared_core.storage.oceanbase.item_writes import put_vectors, strengths_of
from shared_core.storage.oceanbase.profile_writing import (
    drop_logged_runs,
    mark_all_read,
    mark_read,
    unread,
    write_run,
    write_version,
)
from shared_core.storage.oceanbase.visibility import if_set

VERSION_COLUMNS = (
    "subject_kind, subject_id, version, memory_id, event_limit, content_hash, run_id, began_at,"
    " created_at, revision"
)
STAGE_COLUMNS = (
    "run_id, step, stage, status, input, output, error, started_at, duration_s, thread_id"
)
THREADS_AT_ONCE = 50
"""Maximum number of threads in one statement that reads their last turns."""
_VERSIONS = f"SELECT {VERSION_COLUMNS}, entries FROM profiles WHERE tenant_id = %s"


class OceanBaseProfiles(OceanBasePart):
    """Profiles of one scope: versions, their runs, and the turns they read."""

    @reading
    def profile_by_id(
        self, tx: Transaction, scope: Scope, memory_id: UUID, version: int | None = None
    ) -> StoredProfile | None:
        tenant = scope_path(scope)
        of_version = if_set("version = %s", version)
        rows = tx.rows(
            f"{_VERSIONS} AND memory_id = %s AND {of_version.sql} ORDER BY version DESC LIMIT 1",
            [tenant, memory_id, *of_version.values],
        )
        return next(iter(stored(tx, tenant, rows)), None)

    @reading
    def profile_of(
        self, tx: Transaction, scope: Scope, subject: SubjectKind, agent_id: str
    ) -> StoredProfile | None:
        tenant = scope_path(scope)
        return next(iter(stored(tx, tenant, _newest(tx, tenant, subject, agent_id))), None)

    @reading
    def profiles_to_show(
        self, tx: Transaction, scope: Scope, known: datetime | None, roles: Sequence[EntryRole]
    ) -> Sequence[StoredProfile]:
        """Return one profile of each kind: by the agent named like the application, or the last."""
        tenant = scope_path(scope)
        chosen: dict[str, tuple[tuple[bool, datetime], Row]] = {}
        for subject, agent_id in tx.rows(
            "SELECT DISTINCT subject_kind, subject_id FROM profiles WHERE tenant_id = %s"
            " ORDER BY subject_kind, subject_id",
            [tenant],
        ):
            for row in _newest(tx, tenant, subject, agent_id, known):
                rank = (agent_id == scope.app, version_of(row).created_at)
                if subject not in chosen or rank > chosen[subject][0]:
                    chosen[subject] = (rank, row)
        rows = [chosen[subject][1] for subject in sorted(chosen, reverse=True)]
        return stored(tx, tenant, rows, roles)

    @reading
    def profile_versions(
        self, tx: Transaction, scope: Scope, memory_id: UUID, limit: int
    ) -> Sequence[ProfileVersion]:
        rows = tx.rows(
            f"{_VERSIONS} AND memory_id = %s ORDER BY version DESC LIMIT %s",
            [scope_path(scope), memory_id, limit],
        )
        return [version_of(row) for row in rows]

    @reading
    def profile_of_run(self, tx: Transaction, scope: Scope, run_id: UUID) -> RunOfProfile | None:
        tenant = scope_path(scope)
        written = tx.select_one("profiles", "memory_id, version", tenant, run_id=run_id)
        if written is None:
            return _unkept(tx, tenant, run_id)
        newest = tx.one(
            "SELECT version, run_id FROM profiles WHERE tenant_id = %s AND memory_id = %s"
            " ORDER BY version DESC LIMIT 1",
            [tenant, written[0]],
        )
        return RunOfProfile(*written, *(newest or (None, None)))

    @reading
    def pipeline_history(
        self, tx: Transaction, scope: Scope, memory_id: UUID, limit: int
    ) -> Sequence[StageLog]:
        tenant = scope_path(scope)
        began = tx.rows(
            "SELECT run_id, started_at FROM pipeline_log WHERE tenant_id = %s"
            " AND memory_id = %s AND step = 1 ORDER BY started_at DESC, run_id DESC LIMIT %s",
            [tenant, memory_id, limit],
        )
        place = {run_id: number for number, (run_id, _) in enumerate(began)}
        logged = tx.select("pipeline_log", STAGE_COLUMNS, tenant, run_id=place)
        versions: dict[UUID, int] = dict(
            tx.select("profiles", "run_id, version", tenant, run_id=place)
        )
        logged.sort(key=lambda row: (place[row[0]], row[1]))
        return [stage_of(row, versions.get(row[0])) for row in logged]

    async def turns_to_profile(
        self, scope: Scope, agent_id: str, memory_id: UUID, thread_id: ThreadId, limit: int
    ) -> Sequence[tuple[int, Event]]:
        tenant, now = scope_path(scope), self._clock()
        ids = [memory_id, marks_id(agent_id)]
        return await self._database.read(lambda tx: unread(tx, tenant, ids, thread_id, limit, now))

    @reading
    def forgotten_turns(
        self, tx: Transaction, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> set[str]:
        return forgotten_of(tx, scope_path(scope), thread_id, event_ids)

    async def save_profile(
        self,
        scope: Scope,
        memory_id: UUID,
        run: ProfileRun,
        version: NewVersion | None,
        vectors: VectorRows | None,
        turns: Sequence[EventRow] = (),
    ) -> set[str]:
        tenant, now = scope_path(scope), self._clock()
        strengths = strengths_of(self._strength, version.rows if version else ())

        def work(tx: Transaction) -> set[str]:
            tx.lock(tenant)
            new: set[str] = set()
            if turns and run.thread_id is not None:
                new = append_turns(tx, scope, run.thread_id, turns, None, now, self._strength)
            write_run(tx, tenant, memory_id, run, now)
            if turns and run.thread_id is not None:
                event_ids = [row.event.event_id for row in turns]
                mark_read(tx, tenant, run.run_id, run.thread_id, event_ids)
            if version:
                write_version(tx, scope, memory_id, run, version, now, strengths)
            put_vectors(tx, vectors)
            return new

        def guarded(tx: Transaction) -> set[str]:
            try:
                return work(tx)
            except pymysql.IntegrityError as error:
                if code_of(error) != DUPLICATE:
                    raise
                raise Conflict(str(error.args[-1])) from error

        try:
            return await self._database.write(guarded)
        except Conflict as error:
            raise Conflict(
                f"another call changed profile {memory_id}, or forgot a turn it was drawn from,"
                " since it was loaded: load it again and repeat"
            ) from error

    @writing
    def drop_profile(
        self, tx: Transaction, scope: Scope, memory_id: UUID, subject: SubjectKind, agent_id: str
    ) -> int:
        tenant = scope_path(scope)
        namespace = rest_of(profile_namespace(scope, subject, agent_id))

        run_id, now = uuid7(), self._clock()
        tx.lock(tenant)
        if subject == "user":
            mark_all_read(tx, tenant, memory_id, marks_id(agent_id), run_id, now)
        gone = tx.delete("profiles", tenant, memory_id=memory_id)
        drop_logged_runs(tx, tenant, memory_id)
        if gone:
            tx.delete("memories", tenant, namespace=namespace)
        return gone

    @reading
    def recent_threads(
        self, tx: Transaction, scope: Scope, author: str | None, limit: int
    ) -> Sequence[ThreadOverview]:
        tenant, now = scope_path(scope), self._clock()
        by_author = ""
        values: tuple[object, ...] = ()
        if author is not None:  # with LENGTH, because the server ignores spaces at the end
            by_author = " AND e.role = 'agent' AND e.author = %s AND LENGTH(e.author) = %s"
            values = (author, len(author.encode()))
        threads = tx.rows(
            "SELECT t.thread_id FROM threads t WHERE t.tenant_id = %s AND EXISTS"
            " (SELECT 1 FROM events e WHERE e.tenant_id = t.tenant_id"
            f" AND e.thread_id = t.thread_id AND e.memory_seq IS NOT NULL{by_author})"
            " ORDER BY t.updated_at DESC, t.thread_id LIMIT %s",
            [tenant, *values, limit],
        )
        return overviews(tx, tenant, [row[0] for row in threads], now)


def _newest(
    tx: Transaction, tenant: str, subject: str, agent_id: str, known: datetime | None = None
) -> list[Row]:
    """Return the newest version of a profile, as of a moment; an empty list without one."""
    created = if_set("created_at <= %s", known)
    return tx.rows(
        f"{_VERSIONS} AND subject_kind = %s AND subject_id = %s AND {created.sql}"
        " ORDER BY version DESC LIMIT 1",
        [tenant, subject, agent_id, *created.values],
    )


def _unkept(tx: Transaction, tenant: str, run_id: UUID) -> RunOfProfile | None:
    """Return a profile run without a kept version, or None if there is no such run."""
    sql = "SELECT 1 FROM runs WHERE tenant_id = %s AND run_id = %s AND kind = 'profile'"
    return RunOfProfile(None, None, None, None) if tx.has(sql, [tenant, run_id]) else None


def overviews(
    tx: Transaction, tenant: str, thread_ids: Sequence[str], now: datetime
) -> list[ThreadOverview]:
    """Return overviews of threads, the most recently used first."""
    counted = tx.rows_in(
        "SELECT thread_id, count(*), min(occurred_at), max(occurred_at) FROM events"
        " WHERE tenant_id = %s AND thread_id IN %s AND memory_seq IS NOT NULL"
        " GROUP BY thread_id",
        [tenant, thread_ids],
    )
    summaries: dict[str, str] = dict(
        tx.rows_in(
            "SELECT thread_id, text FROM memories WHERE tenant_id = %s AND thread_id IN %s"
            " AND kind = 'summary' AND superseded_at IS NULL",
            [tenant, thread_ids],
        )
    )
    texts = _last_texts(tx, tenant, thread_ids, now)
    counted.sort(key=lambda row: row[0].encode())
    counted.sort(key=lambda row: row[3], reverse=True)
    return [
        ThreadOverview(
            thread_id=ThreadId(thread_id),
            started_at=first_at,
            ended_at=last_at,
            turns=turns,
            summary=summaries.get(thread_id, ""),
            user_texts=tuple(texts.get(thread_id, ())),
        )
        for thread_id, turns, first_at, last_at in counted
    ]


def _last_texts(
    tx: Transaction, tenant: str, threads: Sequence[str], now: datetime
) -> dict[str, list[str]]:
    """Return the beginnings of the last turns of users in threads, in order."""
    # LENGTH, because the server takes a text of spaces for equal to an empty one.
    last = (
        f"(SELECT thread_id, seq, LEFT(text, {USER_TEXT_CHARACTERS}) FROM events"
        " WHERE tenant_id = %s AND thread_id = %s AND memory_seq IS NOT NULL AND role = 'user'"
        " AND LENGTH(text) > 0 AND (expires_at IS NULL OR expires_at > %s)"
        f" ORDER BY seq DESC LIMIT {USER_TEXTS})"
    )
    texts: dict[str, list[tuple[int, str]]] = {}
    for page in pages(threads, THREADS_AT_ONCE):
        values = [value for thread_id in page for value in (tenant, thread_id, now)]
        for thread_id, seq, text in tx.rows(" UNION ALL ".join([last] * len(page)), values):
            texts.setdefault(thread_id, []).append((seq, text))
    return {thread_id: [text for _, text in sorted(turns)] for thread_id, turns in texts.items()}


def version_of(row: Row) -> ProfileVersion:
    """Return the version in VERSION_COLUMNS."""
    return ProfileVersion(
        subject=row[0],
        agent_id=row[1],
        version=row[2],
        memory_id=row[3],
        event_limit=row[4],
        content_hash=bytes(row[5]).hex(),
        run_id=row[6],
        began_at=row[7],
        created_at=row[8],
        revision=row[9],
    )


def stage_of(row: Row, version: int | None) -> StageLog:
    """Return the stage in STAGE_COLUMNS; version: the profile version its run wrote."""
    run_id, step, stage, status, input_, output, error, started_at, duration_s, thread_id = row
    return StageLog(
        run_id=run_id,
        step=step,
        record=StageRecord(
            stage=stage,
            status=status,
            input=json.loads(input_),
            output=json.loads(output),
            started_at=started_at,
            duration_s=duration_s,
            error=error,
        ),
        thread_id=thread_id and ThreadId(thread_id),
        version=version,
    )


def stored(
    tx: Transaction, tenant: str, versions: Sequence[Row], roles: Sequence[EntryRole] | None = None
) -> list[StoredProfile]:
    """Return versions with their memories and the turns of these, in their order.

    versions: VERSION_COLUMNS and entries. roles: only entries of these roles; None: all.
    """
    entries = [
        [
            (UUID(entry["id"]) if "id" in entry else None, entry.get("role"))
            for entry in json.loads(row[-1])
            if roles is None or entry.get("role") in roles
        ]
        for row in versions
    ]
    named = {one for some in entries for one, _ in some if one is not None}
    values = _values(tx, tenant, named)
    bases = _bases(tx, tenant, named)
    return [
        StoredProfile(
            version=version_of(row),
            entries=[
                ProfileEntry(role=role, value=json.loads(values[one]), bases=bases.get(one, ()))
                for one, role in some
                if one in values
            ],
            forgotten=frozenset(one for one, _ in some if one is not None and one not in values),
        )
        for row, some in zip(versions, entries, strict=True)
    ]


def _values(tx: Transaction, tenant: str, named: Iterable[UUID]) -> dict[UUID | None, str]:
    return dict(tx.select("memories", "memory_id, value", tenant, memory_id=named))


def _bases(
    tx: Transaction, tenant: str, named: Iterable[UUID]
) -> Mapping[UUID | None, tuple[tuple[Turn, ...], ...]]:
    rows = tx.rows_in(
        "SELECT memory_id, basis, thread_id, event_id FROM memory_sources"
        " WHERE tenant_id = %s AND memory_id IN %s"
        " ORDER BY memory_id, basis, thread_id, event_id",
        [tenant, named],
    )
    return {
        memory_id: tuple(
            tuple((ThreadId(thread_id), event_id) for _, _, thread_id, event_id in turns)
            for _, turns in groupby(some, key=lambda row: row[1])
        )
        for memory_id, some in groupby(rows, key=lambda row: row[0])
    }
