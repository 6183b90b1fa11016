"""Erasures, their receipts, and what the core asks of a storage; ports.Storage joins it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

from shared_core.core.domain import JsonValue, Scope, ThreadId

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ERASED_TOKEN = "[erased]"
"""Whom a token was for that was only for a user who is erased; it is revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReceipt:
    """What an erasure took away, in numbers: nothing of what it said.

    thread_id: the one thread that was erased; None for all of the user. counts: rows by table. Of
    "tombstones" those that were left, so that what was erased does not come back; of "api_tokens"
    those that named the user. Times are aware, in UTC. receipt_hash: SHA-256 of all else.
    """

    erasure_id: UUID
    scope: Scope
    thread_id: str | None
    counts: Mapping[str, int]
    requested_at: datetime
    completed_at: datetime
    receipt_hash: str

    @property
    def is_intact(self) -> bool:
        """Whether the receipt says what it said when it was written."""
        return self.receipt_hash == self.sealed().receipt_hash

    def sealed(self) -> ErasureReceipt:
        """Return the receipt with the hash of what it says."""
        return replace(self, receipt_hash=hashlib.sha256(self._hashed().encode()).hexdigest())

    def to_dict(self) -> dict[str, JsonValue]:
        """Return what can be written as JSON; times in ISO 8601."""
        return {
            "erasure_id": str(self.erasure_id),
            "app": self.scope.app,
            "user_id": self.scope.user,
            "thread_id": self.thread_id,
            "counts": dict(self.counts),
            "requested_at": self.requested_at.isoformat(),
            "completed_at": self.completed_at.isoformat(),
            "receipt_hash": self.receipt_hash,
        }

    def _hashed(self) -> str:
        """Return the lines that are hashed, as the statement add_erasure puts them."""
        times = [str((at - EPOCH) // timedelta(microseconds=1)) for at in self._times()]
        rows = [f"{table}={count}" for table, count in sorted(self.counts.items())]
        head = [str(self.erasure_id), self.scope.app, self.scope.user, self.thread_id or ""]
        return "\n".join([*head, *times, *rows])

    def _times(self) -> tuple[datetime, datetime]:
        return self.requested_at, self.completed_at


class ErasureStorage(Protocol):
    """Erasing everything of a user, or of one thread, in one transaction with its receipt."""

    async def erase(
        self, scope: Scope, thread_id: ThreadId | None, erasure_id: UUID, requested_at: datetime
    ) -> ErasureReceipt:
        """Erase a user, or one thread; return the receipt, which is stored. Tombstones stay."""

    async def erasures(self, scope: Scope | None, app: str | None) -> Sequence[ErasureReceipt]:
        """Return receipts, newest first: of a user, of an application, or of all."""
