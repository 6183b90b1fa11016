"""The part of PostgresStorage that erases users and threads, and keeps the receipts."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.namespaces import ROOT, from_path, scope_path, to_path
from shared_core.ports.erasures import ERASED_TOKEN, ErasureReceipt
from shared_core.ports.storage import Clock
from shared_core.storage._rows import utc
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Statement
from shared_core.storage.postgres.connection.sql_files import statement


class PostgresErasures:
    """Erasures: what forgets a scope or a thread, and besides it all that this leaves."""

    _database: PostgresDatabase
    _clock: Clock

    def _erasing_steps(self, scope: Scope, thread_id: ThreadId | None) -> list[Statement]:
        raise NotImplementedError

    async def erase(
        self, scope: Scope, thread_id: ThreadId | None, erasure_id: UUID, requested_at: datetime
    ) -> ErasureReceipt:
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "app_tenant": to_path((scope.app,)),
            "app": scope.app,
            "user": scope.user,
            "thread_id": thread_id,
            "nobody": ERASED_TOKEN,
            "salt": secrets.token_bytes(32),
            "erasure_id": erasure_id,
            "requested_at": requested_at,
            "now": self._clock(),
        }
        after = ["drop_marks_of_words", "erase_logs", "drop_lost_jobs", "blur_profiles"]
        if thread_id is None:
            after += ["erase_user", "bind_app", "erase_tokens", "bind_user"]
        line, lock, *forgetting = self._erasing_steps(scope, thread_id)
        before = ["drop_marks_of_words", "count_before_erasing"]
        first = [(statement(name), values) for name in before]
        last = [(statement(name), values) for name in [*after, "add_erasure", "erasure"]]
        *_, [row] = await self._database.run(tenant, line, lock, *first, *forgetting, *last)
        return _receipt(row)

    async def erasures(self, scope: Scope | None, app: str | None) -> Sequence[ErasureReceipt]:
        above = scope_path(scope) if scope else ROOT if app is None else to_path((app,))
        [rows] = await self._database.run(above, (statement("erasures"), {"above": above}))
        return [_receipt(row) for row in rows]


def _receipt(row: Sequence[Any]) -> ErasureReceipt:
    tenant, erasure_id, target, counts, receipt_hash, requested_at, completed_at = row
    return ErasureReceipt(
        erasure_id=erasure_id,
        scope=Scope(*from_path(tenant)),
        thread_id=target.get("thread_id"),
        counts=counts,
        requested_at=utc(requested_at),
        completed_at=utc(completed_at),
        receipt_hash=bytes(receipt_hash).hex(),
    )
