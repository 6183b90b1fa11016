"""Between the rows of profiles and their nouns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from uuid import UUID

from shared_core.core.domain import ThreadId, Turn
from shared_core.ports.profiles import (
    EntryRole,
    ProfileEntry,
    ProfileVersion,
    StageLog,
    StageRecord,
    StoredProfile,
)
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction

VERSION_COLUMNS = (
    "subject_kind, subject_id, version, memory_id, event_limit, content_hash, run_id, began_at,"
    " created_at, revision"
)
STAGE_COLUMNS = (
    "run_id, step, stage, status, input, output, error, started_at, duration_s, thread_id"
)


def version_of(row: Row) -> ProfileVersion:
    """Return the version in the columns VERSION_COLUMNS."""
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
    """Return the stage in the columns STAGE_COLUMNS; version: of the profile its run wrote."""
    run_id, step, stage, status, given, output, error, started_at, duration_s, thread_id = row
    return StageLog(
        run_id=run_id,
        step=step,
        record=StageRecord(
            stage=stage,
            status=status,
            input=json.loads(given),
            output=json.loads(output),
            started_at=started_at,
            duration_s=duration_s,
            error=error,
        ),
        thread_id=thread_id and ThreadId(thread_id),
        version=version,
    )


def stored(
    tx: Transaction,
    tenant: str,
    versions: Sequence[Row],
    roles: Sequence[EntryRole] | None = None,
) -> list[StoredProfile]:
    """Return versions with the memories they are made of, in their order, each with its turns.

    versions: the columns VERSION_COLUMNS and entries. roles: only these entries; None for all.
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
    return {
        memory_id: value
        for page in pages(list(named))
        for memory_id, value in tx.rows(
            "SELECT memory_id, value FROM memories WHERE tenant_id = %s AND memory_id IN %s",
            tenant,
            page,
        )
    }


def _bases(
    tx: Transaction, tenant: str, named: Iterable[UUID]
) -> Mapping[UUID | None, tuple[tuple[Turn, ...], ...]]:
    rows = [
        row
        for page in pages(list(named))
        for row in tx.rows(
            "SELECT memory_id, basis, thread_id, event_id FROM memory_sources"
            " WHERE tenant_id = %s AND memory_id IN %s"
            " ORDER BY memory_id, basis, thread_id, event_id",
            tenant,
            page,
        )
    ]
    return {
        memory_id: tuple(
            tuple((ThreadId(thread_id), event_id) for _, _, thread_id, event_id in turns)
            for _, turns in groupby(some, key=lambda row: row[1])
        )
        for memory_id, some in groupby(rows, key=lambda row: row[0])
    }
