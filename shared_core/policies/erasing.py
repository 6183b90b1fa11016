"""Forgetting and erasing everything of a user, or of one thread, with a receipt.

Forgetting leaves the session logs, a tombstone for each turn, and the state that sessions share.
Erasing takes the logs and the state too, and keeps no hash that would confirm a guess of words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.ids import OF_WORDS
from shared_core.core.namespaces import from_path, scope_path, to_path
from shared_core.policies.forgetting import NAMED, NO_APPENDS, TurnKey, buried, forgetting
from shared_core.policies.items import EVERY_ITEM
from shared_core.ports.erasures import ERASED_TABLES, ERASED_TOKEN, ErasureReceipt
from shared_core.ports.operations import (
    Aggregate,
    Condition,
    Delete,
    Insert,
    Join,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    UpdateEach,
    begins_with,
    equal,
    is_not_null,
    is_null,
    one_of,
)

RECEIPT_COLUMNS = ("erasure_id", "target", "counts", "receipt_hash", "requested_at", "completed_at")
RECEIPTS = Select("erasures", RECEIPT_COLUMNS, order=("-completed_at", "-erasure_id"))
"""Reads the receipts of a tenant, newest first, for receipt_of()."""
_OF_USER = (
    "edges", "memories", "consolidation_jobs", "runs", "conversations", "entity_aliases",
    "instructions", "extraction_counts", "profiles", "retimings",
)  # fmt: skip
"""The tables that forgetting a user empties."""
_OF_THREAD = ("consolidation_jobs", "runs", "conversations")
_LOGS = ("events", "consolidation_jobs", "threads")
_SHARED = ("shared_state", "retractions", "schedules")
"""The tables that erasing empties besides, of a thread and of a user."""
_READ_MARKS = ("to_seq", "read")
_COUNTED = (*ERASED_TABLES, "embeddings")
_COUNTS = [Select(table, (Aggregate("count"),)) for table in _COUNTED]
_SELECT_OF_USER = [
    Select("memories", (Aggregate("count"),)),
    Select("import_marks", ("address_hash",), limit=1),
    Select("retention_policies", ("kind",), limit=1),
]
_TOKENS_ABOVE = Select("api_tokens", ("tenant_id", "users"), above=True)
_VERSION = ("subject_kind", "subject_id", "version")
_PROFILES = Select("profiles", (*_VERSION, "entries"))


def forget_scope(thread_id: ThreadId | None, now: datetime) -> Policy[int]:
    """Forget everything of a user, or of one thread; return how many memories go."""
    operations, memories = yield from forgetting_scope(thread_id, now)
    yield Last(operations)
    return memories


def forgetting_scope(
    thread_id: ThreadId | None, now: datetime
) -> Policy[tuple[list[Operation], int]]:
    """Return what forgets a user or a thread, and how many memories go. It only reads."""
    where = _of(thread_id)
    _, turns, logged, unlogged, *rows = yield [
        NO_APPENDS,
        Select("events", ("thread_id", "event_id"), where),
        Select("events", ("thread_id",), (*where, is_not_null("payload")), is_distinct=True),
        Select("threads", ("thread_id",), (*where, is_null("session_started_at"))),
        *(_SELECT_OF_USER if thread_id is None else _select_of_thread(thread_id)),
    ]
    said = {(row[0], row[1]) for row in turns}
    if thread_id is None:
        operations, memories = _forgetting_user(said, rows, now)
    else:
        operations, memories = yield from _forgetting_thread(thread_id, said, rows, now)
    empty = {row[0] for row in unlogged} - {row[0] for row in logged}
    return [*operations, Delete("threads", (one_of("thread_id", sorted(empty)),))], memories


def close_session(thread_id: ThreadId, now: datetime, *, forget: bool) -> Policy[None]:
    """Close the session log of a thread: its events go, except the remembered turns.

    forget: the thread is forgotten with its log. A thread without events goes as well.
    """
    of_thread = _of(thread_id)
    log = ("session_started_at", "version")
    [found] = yield [Select("threads", log, of_thread, lock="update")]
    operations: list[Operation] = []
    if forget:
        operations, _ = yield from forgetting_scope(thread_id, now)
    is_open = bool(found) and found[0][0] is not None
    remembered = is_not_null("memory_seq")
    stays = (*of_thread, *([remembered] if is_open else []))
    if is_open:
        closed = {
            "session_started_at": None,
            "session_updated_at": None,
            "last_event_id": None,
            "state": {},
            "version": found[0][1] + 1,
            "updated_at": now,
        }
        operations += [
            Update("threads", closed, of_thread),
            Delete("events", (*of_thread, is_null("memory_seq"))),
            Update("events", {"payload": None}, (*of_thread, is_not_null("payload"))),
        ]
    [left] = yield [Select("events", ("seq",), stays, limit=1)]
    if forget or not left:
        operations += [Delete(table, of_thread) for table in ("consolidation_jobs", "threads")]
    yield Last(operations)


def _forgetting_user(
    turns: set[TurnKey], rows: Sequence[Sequence[Row]], now: datetime
) -> tuple[list[Operation], int]:
    """Return what forgets a user, and how many memories go; rows: of _SELECT_OF_USER."""
    [[(memories,)], imported, policies] = rows
    operations = [*buried(turns, now, ()), *(Delete(table, ()) for table in _OF_USER)]
    if policies:  # few have any, and a cluster writes them on all of its nodes
        operations.append(Delete("retention_policies", ()))
    if imported:
        columns = ("address_hash", "updated_at", "deleted_at")
        operations += [
            Delete("import_marks", ()),
            Insert("import_marks", columns, [(EVERY_ITEM, now, now)]),
        ]
    return operations, memories


def _select_of_thread(thread_id: ThreadId) -> list[Select]:
    of_thread = (equal("thread_id", thread_id),)
    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    columns = tuple(f"m.{column}" for column in NAMED)
    kinds = one_of("m.kind", ("episodic", "summary"))
    return [
        Select("memory_sources", columns, (*of_thread, kinds), (memories,), is_distinct=True),
        Select("memory_sources", ("thread_id", "event_id"), of_thread, is_distinct=True),
        Select("pipeline_log", ("run_id", "step", "input"), of_thread),
    ]


def _forgetting_thread(
    thread_id: ThreadId, turns: set[TurnKey], rows: Sequence[list[Row]], now: datetime
) -> Policy[tuple[list[Operation], int]]:
    """Return what forgets a thread, and how many memories go; rows: of _select_of_thread()."""
    named, sources, log = rows
    turns |= {(row[0], row[1]) for row in sources}
    of_thread = (equal("thread_id", thread_id),)
    operations, gone = yield from forgetting(named, turns, now, of_thread)
    # The turns that come will be numbered anew, so no profile has read them.
    unread = [
        (run_id, step, {name: mark for name, mark in marks.items() if name not in _READ_MARKS})
        for run_id, step, marks in log
        if any(name in marks for name in _READ_MARKS)
    ]
    if unread:
        operations.append(UpdateEach("pipeline_log", ("run_id", "step"), ("input",), unread))
    return [*operations, *(Delete(table, of_thread) for table in _OF_THREAD)], len(gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What to erase. salt: random bytes, mixed into what takes the place of hashes of words."""

    scope: Scope
    thread_id: ThreadId | None
    erasure_id: UUID
    requested_at: datetime
    salt: bytes


def erase(wanted: Erasure, now: datetime) -> Policy[ErasureReceipt]:
    """Erase a user or a thread; store and return the receipt. Return it if it is stored already.

    It counts the tokens that name an erased user, and erase_tokens() changes them in the same
    transaction: they belong to the application.
    """
    tenant, where = scope_path(wanted.scope), _of(wanted.thread_id)
    of_words = Delete("tombstones", (*where, begins_with("event_id", OF_WORDS)))
    stored = Select("erasures", RECEIPT_COLUMNS, (equal("erasure_id", wanted.erasure_id),))
    receipts, tokens, _, *before = yield [stored, _TOKENS_ABOVE, of_words, *_COUNTS]
    if receipts:
        return receipt_of(tenant, receipts[0])
    operations, _ = yield from forgetting_scope(wanted.thread_id, now)
    operations += [of_words, *(Delete(table, where) for table in _LOGS)]
    if wanted.thread_id is None:
        operations += [Delete(table, ()) for table in _SHARED]
    *after, profiles = yield [*operations, *_COUNTS, _PROFILES]
    counts = _differences(before, after[len(operations) :])
    if wanted.thread_id is None:
        app = to_path((wanted.scope.app,))
        named = [row for row in tokens if row[0] == app and wanted.scope.user in (row[1] or ())]
        counts["api_tokens"] = len(named)
    receipt = ErasureReceipt(
        erasure_id=wanted.erasure_id,
        scope=wanted.scope,
        thread_id=wanted.thread_id,
        counts={name: rows for name, rows in counts.items() if rows},
        requested_at=wanted.requested_at,
        completed_at=now,
        receipt_hash="",
    ).sealed()
    blurred = yield from _blurred(profiles, wanted.salt)
    yield Last([*blurred, _kept(receipt)])
    return receipt


def erase_tokens(user: str, now: datetime) -> Policy[None]:
    """Remove a user from the tokens of an application.

    A token for this user alone is revoked and loses its label, which may name the user. It keeps
    a placeholder: a token without users is valid for all of them.
    """
    columns = ("token_id", "users", "label", "revoked_at")
    [tokens] = yield [Select("api_tokens", columns, (is_not_null("users"),))]
    changed = []
    for token_id, users, label, revoked_at in tokens:
        if user not in users:
            continue
        if others := [one for one in users if one != user]:
            changed.append((token_id, others, label, revoked_at))
        else:
            changed.append((token_id, [ERASED_TOKEN], "", revoked_at or now))
    yield Last([UpdateEach("api_tokens", columns[:1], columns[1:], changed)] if changed else [])


def receipt_of(tenant: str, row: Row) -> ErasureReceipt:
    """Return the receipt of a tenant in a row of RECEIPTS."""
    erasure_id, target, counts, receipt_hash, requested_at, completed_at = row
    return ErasureReceipt(
        erasure_id=erasure_id,
        scope=Scope(*from_path(tenant)),
        thread_id=target.get("thread_id"),
        counts=counts,
        requested_at=requested_at,
        completed_at=completed_at,
        receipt_hash=bytes(receipt_hash).hex(),
    )


def _of(thread_id: ThreadId | None) -> tuple[Condition, ...]:
    return () if thread_id is None else (equal("thread_id", thread_id),)


def _differences(before: Sequence[Sequence[Row]], after: Sequence[Sequence[Row]]) -> dict[str, int]:
    """Return by how many rows each table changed, from the rows of _COUNTS."""
    pairs = zip(_COUNTED, before, after, strict=True)
    return {table: abs(old[0][0] - new[0][0]) for table, old, new in pairs}


def _blurred(profiles: Iterable[Row], salt: bytes) -> Policy[list[Operation]]:
    """Return what replaces the hashes of versions that lost an entry: they would confirm a guess.

    profiles: rows of _PROFILES.
    """
    entries = {row[:3]: [entry.get("id") for entry in row[3]] for row in profiles}
    ids = {UUID(one) for named in entries.values() for one in named if one}
    [rows] = yield [Select("memories", ("memory_id",), (one_of("memory_id", sorted(ids)),))]
    here = {str(row[0]) for row in rows}
    changed = [
        (*version, hashlib.sha256(salt + repr(version).encode()).digest())
        for version, named in sorted(entries.items())
        if not here.issuperset(named)
    ]
    if not changed:
        return []
    return [UpdateEach("profiles", _VERSION, ("content_hash",), changed)]


def _kept(receipt: ErasureReceipt) -> Operation:
    target = {} if receipt.thread_id is None else {"thread_id": receipt.thread_id}
    row = (
        receipt.erasure_id,
        target,
        dict(receipt.counts),
        bytes.fromhex(receipt.receipt_hash),
        receipt.requested_at,
        receipt.completed_at,
    )
    return Insert("erasures", RECEIPT_COLUMNS, [row])
