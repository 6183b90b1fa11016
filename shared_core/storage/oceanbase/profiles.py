"""OceanBaseStorage: profiles; versions in a table of their own, made of memories."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import pymysql

from shared_core.core.domain import Event, Scope, ThreadId
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import profile_namespace, rest_of, scope_path
from shared_core.errors import Conflict
from shared_core.ports.events import EventRow
from shared_core.ports.items import VectorRows
from shared_core.ports.profiles import (
    EntryRole,
    NewVersion,
    ProfileRun,
    ProfileVersion,
    RunOfProfile,
    StageLog,
    StoredProfile,
    SubjectKind,
    ThreadOverview,
    marks_id,
)
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.event_steps import append_turns, forgotten as forgotten_of
from shared_core.storage.oceanbase.item_writes import put_vectors, strengths_of
from shared_core.storage.oceanbase.profile_marks import (
    drop_logged_runs,
    mark_all_read,
    mark_read,
    unread,
)
from shared_core.storage.oceanbase.profile_rows import (
    STAGE_COLUMNS,
    VERSION_COLUMNS,
    stage_of,
    stored,
    version_of,
)
from shared_core.storage.oceanbase.profile_threads import overviews
from shared_core.storage.oceanbase.profile_writing import write_run, write_version

DUPLICATE = 1062

_VERSIONS = f"SELECT {VERSION_COLUMNS}, entries FROM profiles WHERE tenant_id = %s"


class OceanBaseProfiles(OceanBasePart):
    """Profiles of one scope at a time."""

    async def profile_by_id(
        self, scope: Scope, memory_id: UUID, version: int | None = None
    ) -> StoredProfile | None:
        tenant = scope_path(scope)
        condition = "" if version is None else " AND version = %s"
        values = () if version is None else (version,)

        def work(tx: Transaction) -> StoredProfile | None:
            rows = tx.rows(
                f"{_VERSIONS} AND memory_id = %s{condition} ORDER BY version DESC LIMIT 1",
                tenant,
                memory_id,
                *values,
            )
            return next(iter(stored(tx, tenant, rows)), None)

        return await self._database.read(work)

    async def profile_of(
        self, scope: Scope, subject: SubjectKind, agent_id: str
    ) -> StoredProfile | None:
        tenant = scope_path(scope)

        def work(tx: Transaction) -> StoredProfile | None:
            return next(iter(stored(tx, tenant, _newest(tx, tenant, subject, agent_id))), None)

        return await self._database.read(work)

    async def profiles_to_show(
        self, scope: Scope, known: datetime | None, roles: Sequence[EntryRole]
    ) -> Sequence[StoredProfile]:
        """Of several of a kind: that of the agent called as the application, else the last."""
        tenant = scope_path(scope)

        def work(tx: Transaction) -> list[StoredProfile]:
            chosen: dict[str, tuple[tuple[bool, datetime], Row]] = {}
            for subject, agent_id in tx.rows(
                "SELECT DISTINCT subject_kind, subject_id FROM profiles WHERE tenant_id = %s"
                " ORDER BY subject_kind, subject_id",
                tenant,
            ):
                for row in _newest(tx, tenant, subject, agent_id, known):
                    rank = (agent_id == scope.app, version_of(row).created_at)
                    if subject not in chosen or rank > chosen[subject][0]:
                        chosen[subject] = (rank, row)
            rows = [chosen[subject][1] for subject in sorted(chosen, reverse=True)]
            return stored(tx, tenant, rows, roles)

        return await self._database.read(work)

    async def profile_versions(
        self, scope: Scope, memory_id: UUID, limit: int
    ) -> Sequence[ProfileVersion]:
        rows = await self._database.read(
            lambda tx: tx.rows(
                f"{_VERSIONS} AND memory_id = %s ORDER BY version DESC LIMIT %s",
                scope_path(scope),
                memory_id,
                limit,
            )
        )
        return [version_of(row) for row in rows]

    async def profile_of_run(self, scope: Scope, run_id: UUID) -> RunOfProfile | None:
        tenant = scope_path(scope)

        def work(tx: Transaction) -> RunOfProfile | None:
            written = tx.one(
                "SELECT memory_id, version FROM profiles WHERE tenant_id = %s AND run_id = %s",
                tenant,
                run_id,
            )
            if written is None:
                return _unkept(tx, tenant, run_id)
            newest = tx.one(
                "SELECT version, run_id FROM profiles WHERE tenant_id = %s AND memory_id = %s"
                " ORDER BY version DESC LIMIT 1",
                tenant,
                written[0],
            )
            return RunOfProfile(*written, *(newest or (None, None)))

        return await self._database.read(work)

    async def pipeline_history(
        self, scope: Scope, memory_id: UUID, limit: int
    ) -> Sequence[StageLog]:
        tenant = scope_path(scope)

        def work(tx: Transaction) -> list[StageLog]:
            began = tx.rows(
                "SELECT run_id, started_at FROM pipeline_log WHERE tenant_id = %s"
                " AND memory_id = %s AND step = 1 ORDER BY started_at DESC, run_id DESC LIMIT %s",
                tenant,
                memory_id,
                limit,
            )
            place = {run_id: number for number, (run_id, _) in enumerate(began)}
            logged = [
                row
                for page in pages(list(place))
                for row in tx.rows(
                    f"SELECT {STAGE_COLUMNS} FROM pipeline_log"
                    " WHERE tenant_id = %s AND run_id IN %s",
                    tenant,
                    page,
                )
            ]
            versions: dict[UUID, int] = {
                run_id: version
                for page in pages(list(place))
                for run_id, version in tx.rows(
                    "SELECT run_id, version FROM profiles WHERE tenant_id = %s AND run_id IN %s",
                    tenant,
                    page,
                )
            }
            logged.sort(key=lambda row: (place[row[0]], row[1]))
            return [stage_of(row, versions.get(row[0])) for row in logged]

        return await self._database.read(work)

    async def turns_to_profile(
        self, scope: Scope, agent_id: str, memory_id: UUID, thread_id: ThreadId, limit: int
    ) -> Sequence[tuple[int, Event]]:
        tenant, now = scope_path(scope), self._clock()
        ids = [memory_id, marks_id(agent_id)]
        return await self._database.read(lambda tx: unread(tx, tenant, ids, thread_id, limit, now))

    async def forgotten_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> set[str]:
        return await self._database.read(
            lambda tx: forgotten_of(tx, scope_path(scope), thread_id, event_ids)
        )

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
                given = [row.event.event_id for row in turns]
                mark_read(tx, tenant, run.run_id, run.thread_id, given)
            if version:
                write_version(tx, scope, memory_id, run, version, now, strengths)
            put_vectors(tx, vectors)
            return new

        def guarded(tx: Transaction) -> set[str]:
            try:
                return work(tx)
            except pymysql.IntegrityError as error:
                if error.args[0] != DUPLICATE:
                    raise
                raise Conflict(str(error.args[-1])) from error

        try:
            return await self._database.write(guarded)
        except Conflict as error:
            raise Conflict(
                f"profile {memory_id} was changed by somebody else, or a turn it draws from was"
                " forgotten, since it was loaded: load it again and repeat"
            ) from error

    async def drop_profile(
        self, scope: Scope, memory_id: UUID, subject: SubjectKind, agent_id: str
    ) -> int:
        tenant = scope_path(scope)
        namespace = rest_of(profile_namespace(scope, subject, agent_id))

        run_id, now = uuid7(), self._clock()

        def work(tx: Transaction) -> int:
            tx.lock(tenant)
            if subject == "user":
                mark_all_read(tx, tenant, memory_id, marks_id(agent_id), run_id, now)
            gone = tx.run(
                "DELETE FROM profiles WHERE tenant_id = %s AND memory_id = %s", tenant, memory_id
            )
            drop_logged_runs(tx, tenant, memory_id)
            if gone:
                tx.run(
                    "DELETE FROM memories WHERE tenant_id = %s AND namespace = %s",
                    tenant,
                    namespace,
                )
            return gone

        return await self._database.write(work)

    async def recent_threads(
        self, scope: Scope, author: str | None, limit: int
    ) -> Sequence[ThreadOverview]:
        tenant, now = scope_path(scope), self._clock()
        said = ""
        values: tuple[object, ...] = ()
        if author is not None:  # by its length, too: names that end in other spaces are equal
            said = " AND e.role = 'agent' AND e.author = %s AND LENGTH(e.author) = %s"
            values = (author, len(author.encode()))

        def work(tx: Transaction) -> list[ThreadOverview]:
            threads = tx.rows(
                "SELECT t.thread_id FROM threads t WHERE t.tenant_id = %s AND EXISTS"
                " (SELECT 1 FROM events e WHERE e.tenant_id = t.tenant_id"
                f" AND e.thread_id = t.thread_id AND e.memory_seq IS NOT NULL{said})"
                " ORDER BY t.updated_at DESC, t.thread_id LIMIT %s",
                tenant,
                *values,
                limit,
            )
            return overviews(tx, tenant, [row[0] for row in threads], now)

        return await self._database.read(work)


def _newest(
    tx: Transaction, tenant: str, subject: str, agent_id: str, known: datetime | None = None
) -> list[Row]:
    """Return the newest version of the profile of a subject, as of a moment."""
    condition, values = ("", ()) if known is None else (" AND created_at <= %s", (known,))
    return tx.rows(
        f"{_VERSIONS} AND subject_kind = %s AND subject_id = %s{condition}"
        " ORDER BY version DESC LIMIT 1",
        tenant,
        subject,
        agent_id,
        *values,
    )


def _unkept(tx: Transaction, tenant: str, run_id: UUID) -> RunOfProfile | None:
    """Return a run about a profile of which no version is kept; None if it is no such run."""
    is_one = tx.rows(
        "SELECT 1 FROM runs WHERE tenant_id = %s AND run_id = %s AND kind = 'profile'",
        tenant,
        run_id,
    )
    return RunOfProfile(None, None, None, None) if is_one else None
