"""OceanBaseStorage: erases users and threads with everything derived, and keeps the receipts."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import ROOT, from_path, path_end, scope_path, to_path
from shared_core.ports.erasures import ERASED_TABLES, ERASED_TOKEN, ErasureReceipt
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.forgetting import bury, delete_memories, forget_thread
from shared_core.storage.oceanbase.item_writes import mark_all_deleted
from shared_core.storage.oceanbase.vectors import vector_tables

ROWS_AT_ONCE = 2000
"""Maximum number of rows in one DELETE, so that no statement runs long."""
_OF_SCOPE = (
    "entity_aliases", "instructions", "extraction_counts", "profiles", "retimings",
    "retention_policies",
)  # fmt: skip
_COLUMNS = (
    "tenant_id", "erasure_id", "target", "counts", "receipt_hash", "requested_at", "completed_at",
)  # fmt: skip
_RECEIPTS = f"SELECT {', '.join(_COLUMNS)} FROM erasures"


class OceanBaseErasures(OceanBasePart):
    """Erases scopes and threads completely, and keeps a receipt of each erasure."""

    async def erase(
        self, scope: Scope, thread_id: ThreadId | None, erasure_id: UUID, requested_at: datetime
    ) -> ErasureReceipt:
        tenant, app_tenant, now = scope_path(scope), to_path((scope.app,)), self._clock()

        def work(tx: Transaction) -> ErasureReceipt:
            _drop_marks_of_words(tx, tenant, thread_id)
            before, tokens = _rows(tx, tenant), 0
            erase(tx, tenant, thread_id, now)
            _drop_marks_of_words(tx, tenant, thread_id)
            erase_logs(tx, tenant, thread_id)
            _blur_profiles(tx, tenant)
            if thread_id is None:
                erase_shared(tx, tenant)
                tokens = _erase_tokens(tx, app_tenant, scope.user, now)
            after = _rows(tx, tenant)
            counts = {name: abs(rows - after[name]) for name, rows in before.items()}
            counts["api_tokens"] = tokens
            receipt = ErasureReceipt(
                erasure_id=erasure_id,
                scope=scope,
                thread_id=thread_id,
                counts={name: rows for name, rows in counts.items() if rows},
                requested_at=requested_at,
                completed_at=now,
                receipt_hash="",
            ).sealed()
            return _kept(tx, tenant, receipt)

        return await self._database.write(
            work, tenant, *(() if thread_id is not None else (app_tenant,))
        )

    async def erasures(self, scope: Scope | None, app: str | None) -> Sequence[ErasureReceipt]:
        above = scope_path(scope) if scope else ROOT if app is None else to_path((app,))
        rows = await self._database.read(
            lambda tx: tx.rows(
                f"{_RECEIPTS} WHERE tenant_id >= %s AND tenant_id < %s"
                " ORDER BY completed_at DESC, erasure_id DESC",
                [above, path_end(above)],
            )
        )
        return [_receipt(row) for row in rows]


def _rows(tx: Transaction, tenant: str) -> dict[str, int]:
    """Return the number of rows of a tenant in each table that an erasure reaches."""
    vectors = vector_tables(tx)
    counted = tx.rows(
        " UNION ALL ".join(
            f"SELECT '{table}', count(*) FROM {table} WHERE tenant_id = %s"
            for table in (*ERASED_TABLES, *vectors)
        ),
        [tenant] * (len(ERASED_TABLES) + len(vectors)),
    )
    rows = {name: int(count) for name, count in counted}
    return {name: rows[name] for name in ERASED_TABLES} | {
        "embeddings": sum(rows[name] for name in vectors)
    }


def _drop_marks_of_words(tx: Transaction, tenant: str, thread_id: ThreadId | None) -> None:
    """Drop tombstones with a hash of the text as id (core.ids): it would confirm a guess."""
    _delete(tx, "tombstones", tenant, thread_id, " AND LEFT(event_id, 6) = 'words-'")


def _blur_profiles(tx: Transaction, tenant: str) -> None:
    """Overwrite the hashes of versions that lost an entry: they would confirm a guess as well."""
    here = set(tx.column("SELECT memory_id FROM memories WHERE tenant_id = %s", [tenant]))
    for kind, subject, version, entries in tx.rows(
        "SELECT subject_kind, subject_id, version, entries FROM profiles WHERE tenant_id = %s",
        [tenant],
    ):
        named = [entry.get("id") for entry in json.loads(entries)]
        if any(one is None or UUID(one) not in here for one in named):
            tx.run(
                "UPDATE profiles SET content_hash = %s WHERE tenant_id = %s AND subject_kind = %s"
                " AND subject_id = %s AND version = %s",
                [secrets.token_bytes(32), tenant, kind, subject, version],
            )


def _erase_tokens(tx: Transaction, app_tenant: str, user: str, now: datetime) -> int:
    """Remove a user from the tokens of an application; return how many named the user.

    A token for this user alone is revoked and loses its label, which may name the user. It keeps
    a placeholder: a token without users is valid for all of them.
    """
    named = [
        (token_id, [one for one in json.loads(users) if one != user])
        for token_id, users in tx.rows(
            "SELECT token_id, users FROM api_tokens WHERE tenant_id = %s AND users IS NOT NULL",
            [app_tenant],
        )
        if user in json.loads(users)
    ]
    for token_id, others in named:
        revoked = "" if others else ", label = '', revoked_at = coalesce(revoked_at, %s)"
        tx.run(
            f"UPDATE api_tokens SET users = %s{revoked} WHERE tenant_id = %s AND token_id = %s",
            [to_json(others or [ERASED_TOKEN]), *(() if others else (now,)), app_tenant, token_id],
        )
    return len(named)


def _kept(tx: Transaction, tenant: str, receipt: ErasureReceipt) -> ErasureReceipt:
    """Store a receipt and return it; after a lost answer, return the stored one."""
    target = {} if receipt.thread_id is None else {"thread_id": receipt.thread_id}
    row = (
        tenant, receipt.erasure_id, to_json(target), to_json(dict(receipt.counts)),
        bytes.fromhex(receipt.receipt_hash), receipt.requested_at, receipt.completed_at,
    )  # fmt: skip
    tx.insert("erasures", _COLUMNS, [row], ignore=True)
    stored = tx.one(
        f"{_RECEIPTS} WHERE tenant_id = %s AND erasure_id = %s", [tenant, receipt.erasure_id]
    )
    assert stored is not None
    return _receipt(stored)


def _receipt(row: Row) -> ErasureReceipt:
    tenant, erasure_id, target, counts, receipt_hash, requested_at, completed_at = row
    return ErasureReceipt(
        erasure_id=erasure_id,
        scope=Scope(*from_path(tenant)),
        thread_id=json.loads(target).get("thread_id"),
        counts=json.loads(counts),
        requested_at=requested_at,
        completed_at=completed_at,
        receipt_hash=bytes(receipt_hash).hex(),
    )


def erase(tx: Transaction, tenant: str, thread_id: str | None, now: datetime) -> int:
    """Erase the memories of a tenant or of one thread, but no session logs; the tenant is locked.

    Returns the number of erased memories.
    """
    if thread_id is None:
        gone = _forget_all(tx, tenant)
    else:
        gone = len(forget_thread(tx, tenant, thread_id, now))
    _bury_threads(tx, tenant, thread_id, now)
    if thread_id is not None:
        _drop_read_marks(tx, tenant, thread_id)
    for table in ("consolidation_jobs", "runs"):
        _delete(tx, table, tenant, thread_id)
    drop_empty_threads(tx, tenant, thread_id)
    _delete(tx, "conversations", tenant, thread_id)
    if thread_id is None:
        for table in _OF_SCOPE:
            _delete(tx, table, tenant, None)
        mark_all_deleted(tx, tenant, now)
    return gone


def drop_empty_threads(tx: Transaction, tenant: str, thread_id: str | None) -> None:
    """Delete threads without events and session log; thread_id: only this one."""
    _delete(
        tx,
        "threads",
        tenant,
        thread_id,
        " AND session_started_at IS NULL AND NOT EXISTS (SELECT 1 FROM events e"
        " WHERE e.tenant_id = threads.tenant_id AND e.thread_id = threads.thread_id)",
    )


def erase_logs(tx: Transaction, tenant: str, thread_id: str | None) -> None:
    """Delete the session logs of a tenant or of one thread, with the threads."""
    for table in ("events", "threads"):
        _delete(tx, table, tenant, thread_id)


def erase_shared(tx: Transaction, tenant: str) -> None:
    """Delete rows that belong to a user but to no thread."""
    for table in ("shared_state", "retractions", "schedules"):
        _delete(tx, table, tenant, None)


def _forget_all(tx: Transaction, tenant: str) -> int:
    _delete(tx, "edges", tenant, None)
    ids = tx.column("SELECT memory_id FROM memories WHERE tenant_id = %s", [tenant])
    delete_memories(tx, tenant, ids)
    return len(ids)


def _bury_threads(tx: Transaction, tenant: str, thread_id: str | None, now: datetime) -> None:
    """Note all turns as forgotten, and delete those that no session log holds."""
    where, values = _where(tenant, thread_id)
    turns = tx.rows(f"SELECT thread_id, event_id FROM events {where}", values)
    bury(tx, tenant, ((row[0], row[1]) for row in turns), now)
    _delete(tx, "events", tenant, thread_id, " AND payload IS NULL")
    tx.run(
        f"UPDATE events SET memory_seq = NULL {where}"
        " AND payload IS NOT NULL AND memory_seq IS NOT NULL",
        values,
    )


def _delete(
    tx: Transaction, table: str, tenant: str, thread_id: str | None, condition: str = ""
) -> None:
    where, values = _where(tenant, thread_id)
    statement = f"DELETE FROM {table} {where}{condition} LIMIT {ROWS_AT_ONCE}"
    while tx.run(statement, values) == ROWS_AT_ONCE:
        pass


def _where(tenant: str, thread_id: str | None) -> tuple[str, list[str]]:
    if thread_id is None:
        return "WHERE tenant_id = %s", [tenant]
    return "WHERE tenant_id = %s AND thread_id = %s", [tenant, thread_id]


def _drop_read_marks(tx: Transaction, tenant: str, thread_id: str) -> None:
    """Drop the marks of the turns that profiles read: the turns get new numbers."""
    for run_id, step, text in tx.select(
        "pipeline_log", "run_id, step, input", tenant, thread_id=thread_id
    ):
        marks = json.loads(text)
        left = {name: value for name, value in marks.items() if name not in ("to_seq", "read")}
        if left != marks:
            tx.update("pipeline_log", {"input": to_json(left)}, tenant, run_id=run_id, step=step)
