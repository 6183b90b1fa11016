"""Writes versions of profiles and the log of their runs, which records the turns they have read.

In that log "to_seq" means that a profile followed the thread up to there. "read" holds the turns
given to one, as ranges in PostgreSQL's spelling: {[1,4),[6,7)}. The caller has locked the tenant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Event, Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import profile_namespace, rest_of, scope_path
from shared_core.errors import Conflict
from shared_core.ports.profiles import PARAGRAPH_KEY, NewVersion, ProfileRun
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.events import EVENT_COLUMNS, event_of
from shared_core.storage.oceanbase.forgetting import delete_memories
from shared_core.storage.oceanbase.item_writes import put_rows
from shared_core.storage.oceanbase.run_changes import require_memories, require_turns
from shared_core.storage.oceanbase.run_records import insert_caller_run, insert_run

_RANGE = re.compile(r"\[(\d+),(\d+)\)")
_LOG = (
    "tenant_id", "run_id", "step", "stage", "output", "error", "started_at", "duration_s",
    "status", "input", "memory_id", "thread_id",
)  # fmt: skip
_VERSION = (
    "tenant_id", "subject_kind", "subject_id", "version", "content_hash", "run_id", "created_at",
    "memory_id", "entries", "event_limit", "began_at",
)  # fmt: skip


def write_run(
    tx: Transaction, tenant: str, memory_id: UUID, run: ProfileRun, now: datetime
) -> None:
    """Insert a profile run and its stages. Raises Conflict if it cannot undo the run it names."""
    columns = {
        "run_id": run.run_id,
        "kind": "profile",
        "extractor": run.extractor,
        "counts": to_json(run.counts),
        "started_at": run.started_at,
        "finished_at": now,
    }
    insert_run(tx, tenant, columns)
    if run.undoes is not None and not tx.run(
        "UPDATE runs SET undone_at = %s WHERE tenant_id = %s AND run_id = %s AND undone_at IS NULL",
        [now, tenant, run.undoes],
    ):
        raise Conflict("the run is gone, or was undone")
    tx.insert(
        "pipeline_log",
        _LOG,
        (
            (tenant, run.run_id, step, one.stage, to_json(one.output), one.error, one.started_at,
             one.duration_s, one.status, to_json(one.input), memory_id, run.thread_id)
            for step, one in enumerate(run.stages, start=1)
        ),
    )  # fmt: skip


def write_version(
    tx: Transaction,
    scope: Scope,
    memory_id: UUID,
    run: ProfileRun,
    new: NewVersion,
    now: datetime,
    strengths: Mapping[UUID, float | None],
) -> None:
    """Write a version, or revise the newest. Raises Conflict if that is not the loaded one."""
    tenant = scope_path(scope)
    namespace = rest_of(profile_namespace(scope, new.subject, new.agent_id))
    _require_newest(tx, tenant, memory_id, new)
    require_memories(tx, tenant, new.rewritten)
    require_turns(tx, tenant, new.required)
    if new.revises:
        tx.run(
            "UPDATE profiles SET revision = revision + 1 WHERE tenant_id = %s"
            " AND subject_kind = %s AND subject_id = %s AND version = %s",
            [tenant, new.subject, new.agent_id, new.expected],
        )
    else:
        entries = [{"id": str(one), "role": role} for one, role in new.entries]
        row = (
            tenant, new.subject, new.agent_id, new.expected + 1, bytes.fromhex(new.content_hash),
            run.run_id, now, memory_id, to_json(entries), new.event_limit, new.began_at,
        )  # fmt: skip
        tx.insert("profiles", _VERSION, [row])
    put_rows(tx, new.rows, now, strengths)
    ids = _ids_of(tx, tenant, namespace)
    _add_sources(tx, tenant, ids, new)
    if not new.revises:
        _show(tx, tenant, namespace, ids, new, now)
        _prune(tx, tenant, new)


def _require_newest(tx: Transaction, tenant: str, memory_id: UUID, new: NewVersion) -> None:
    newest = tx.one(
        "SELECT version, revision, memory_id FROM profiles"
        " WHERE tenant_id = %s AND subject_kind = %s AND subject_id = %s"
        " ORDER BY version DESC LIMIT 1",
        [tenant, new.subject, new.agent_id],
    )
    held = new.expected == 0 if newest is None else newest == (
        new.expected, new.revision, memory_id
    )  # fmt: skip
    if not held:
        raise Conflict("the profile was changed meanwhile")


def _ids_of(tx: Transaction, tenant: str, namespace: str) -> dict[str, UUID]:
    """Return the ids of a profile's memories by key."""
    return dict(tx.select("memories", "`key`, memory_id", tenant, namespace=namespace))


def _add_sources(tx: Transaction, tenant: str, ids: Mapping[str, UUID], new: NewVersion) -> None:
    """Add the turns of stored memories, named by key."""
    tx.insert(
        "memory_sources",
        ("tenant_id", "memory_id", "thread_id", "event_id", "basis"),
        (
            (tenant, ids[key], thread_id, event_id, basis)
            for key, (thread_id, event_id), basis in new.sources
            if key in ids
        ),
        update="basis = VALUES(basis)",
    )


def _show(
    tx: Transaction,
    tenant: str,
    namespace: str,
    ids: Mapping[str, UUID],
    new: NewVersion,
    now: datetime,
) -> None:
    """Show the memories a version names, retire the others, and set the paragraph's bases."""
    paragraph = ids.get(PARAGRAPH_KEY)
    if paragraph is not None:
        tx.delete("memory_bases", tenant, memory_id=paragraph)
        tx.insert(
            "memory_bases",
            ("tenant_id", "memory_id", "basis_id"),
            ((tenant, paragraph, basis) for basis in dict.fromkeys(new.covered)),
            ignore=True,
        )
    shown = {one for one, role in new.entries if role != "ended"} | {paragraph}
    living: list[UUID] = []
    retired: list[UUID] = []
    for memory_id, superseded_at in tx.select(
        "memories", "memory_id, superseded_at", tenant, namespace=namespace
    ):
        if (superseded_at is None) != (memory_id in shown):
            (living if memory_id in shown else retired).append(memory_id)
    for ids_of_some, moment in ((living, None), (retired, now)):
        tx.update("memories", {"superseded_at": moment}, tenant, memory_id=ids_of_some)


def _prune(tx: Transaction, tenant: str, new: NewVersion) -> None:
    """Delete the versions beyond those to keep, and the memories that only they named."""
    last = new.expected + 1 - new.keep
    if last < 1:
        return
    of_subject = "tenant_id = %s AND subject_kind = %s AND subject_id = %s"
    versions = tx.rows(
        f"SELECT version, entries FROM profiles WHERE {of_subject}",
        [tenant, new.subject, new.agent_id],
    )
    named: dict[bool, set[UUID]] = {True: set(), False: set()}
    for version, entries in versions:
        named[version <= last] |= {
            UUID(entry["id"]) for entry in json.loads(entries) if "id" in entry
        }
    tx.run(
        f"DELETE FROM profiles WHERE {of_subject} AND version <= %s",
        [tenant, new.subject, new.agent_id, last],
    )
    delete_memories(tx, tenant, named[True] - named[False])


def unread(
    tx: Transaction,
    tenant: str,
    memory_ids: Sequence[UUID],
    thread_id: ThreadId,
    limit: int,
    now: datetime,
) -> list[tuple[int, Event]]:
    """Return the first consolidated turns of a thread that no profile with these ids has read."""
    to_seq, read = 0, set[int]()
    for (text,) in tx.rows(
        "SELECT input FROM pipeline_log WHERE tenant_id = %s AND memory_id IN %s"
        " AND thread_id = %s AND status <> 'error'",
        [tenant, list(memory_ids), thread_id],
    ):
        marks = json.loads(text)
        to_seq = max(to_seq, int(marks.get("to_seq") or 0))
        for first, end in _RANGE.findall(str(marks.get("read") or "")):
            read.update(range(int(first), int(end)))
    rows = tx.rows(
        f"SELECT memory_seq, {EVENT_COLUMNS} FROM events"
        " WHERE tenant_id = %s AND thread_id = %s AND (expires_at IS NULL OR expires_at > %s)"
        " AND memory_seq > %s AND memory_seq <= (SELECT consolidated_seq FROM threads"
        " WHERE tenant_id = %s AND thread_id = %s) ORDER BY memory_seq LIMIT %s",
        [tenant, thread_id, now, to_seq, tenant, thread_id, limit + len(read)],
    )
    return [(row[0], event_of(row[1:])) for row in rows if row[0] not in read][:limit]


def mark_read(
    tx: Transaction, tenant: str, run_id: UUID, thread_id: str, event_ids: Sequence[str]
) -> None:
    """Note the turns of a thread that were given to a run, unless it followed the thread."""
    first = tx.one(
        "SELECT input FROM pipeline_log WHERE tenant_id = %s AND run_id = %s AND step = 1",
        [tenant, run_id],
    )
    marks = json.loads(first[0]) if first else {"to_seq": 0}
    numbers = tx.column_in(
        "SELECT memory_seq FROM events WHERE tenant_id = %s AND thread_id = %s"
        " AND event_id IN %s AND memory_seq IS NOT NULL",
        [tenant, thread_id, event_ids],
    )
    if numbers and "to_seq" not in marks:
        tx.run(
            "UPDATE pipeline_log SET input = %s WHERE tenant_id = %s AND run_id = %s AND step = 1",
            [to_json(marks | {"read": _ranges(numbers)}), tenant, run_id],
        )


def mark_all_read(
    tx: Transaction, tenant: str, memory_id: UUID, marks_id: UUID, run_id: UUID, now: datetime
) -> None:
    """Mark all turns as read before a profile is deleted: the next one starts after them."""
    drop_logged_runs(tx, tenant, marks_id)
    if not tx.rows(
        "SELECT 1 FROM profiles WHERE tenant_id = %s AND memory_id = %s LIMIT 1",
        [tenant, memory_id],
    ):
        return
    insert_caller_run(tx, tenant, run_id, now, "profile", {"deleted": True}, extractor="")
    threads = tx.rows(
        "SELECT thread_id, last_memory_seq FROM threads"
        " WHERE tenant_id = %s AND last_memory_seq > 0 ORDER BY thread_id",
        [tenant],
    )
    tx.insert(
        "pipeline_log",
        ("tenant_id", "run_id", "step", "stage", "output", "started_at", "duration_s", "input",
         "memory_id", "thread_id"),
        (
            (tenant, run_id, step, "deletion", "{}", now, 0.0, to_json({"to_seq": to_seq}),
             marks_id, thread_id)
            for step, (thread_id, to_seq) in enumerate(threads, start=1)
        ),
    )  # fmt: skip


def drop_logged_runs(tx: Transaction, tenant: str, memory_id: UUID) -> None:
    """Delete the logged runs of a profile with their log."""
    logged = tx.rows(
        "SELECT DISTINCT run_id FROM pipeline_log WHERE tenant_id = %s AND memory_id = %s",
        [tenant, memory_id],
    )
    tx.delete("runs", tenant, run_id=[row[0] for row in logged])


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as disjoint ranges: {[1,4),[6,7)}."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number:
            found[-1][1] = number + 1
        else:
            found.append([number, number + 1])
    return "{" + ",".join(f"[{first},{end})" for first, end in found) + "}"
