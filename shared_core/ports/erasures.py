"""Erasures with receipts, and their storage."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

from shared_core.core.domain import JsonValue, Scope

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ERASED_TABLES = (
    "threads", "conversations", "events", "shared_state", "memories", "memory_sources",
    "memory_bases", "memory_access", "memory_archive", "facts", "fact_closures", "edges",
    "edge_sources", "entity_aliases", "instructions", "profiles", "runs", "run_changes",
    "retractions", "pipeline_log", "extraction_counts", "import_marks", "retention_policies",
    "retimings", "consolidation_jobs", "tombstones",
)  # fmt: skip
"""The tables that an erasure reaches, besides those of vectors."""

ERASED_TOKEN = "[erased]"
"""Replaces the user name in a token whose only user was erased; the token is revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReceipt:
    """Proof of an erasure: row counts, without any erased text.

    thread_id: the erased thread, or None for the whole user. counts: erased rows by table; for
    "tombstones" the rows left to keep erased turns from coming back, for "api_tokens" those that
    named the user. Times are aware, in UTC. receipt_hash: SHA-256 of all other fields.
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
        """Whether the hash matches the other fields."""
        return self.receipt_hash == self.sealed().receipt_hash

    def sealed(self) -> ErasureReceipt:
        """Return the receipt with the hash of its other fields."""
        return replace(self, receipt_hash=hashlib.sha256(self._hashed().encode()).hexdigest())

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object; times in ISO 8601."""
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
        """Return the hashed lines, for the hash."""
        times = [str((at - EPOCH) // timedelta(microseconds=1)) for at in self._times()]
        rows = [f"{table}={count}" for table, count in sorted(self.counts.items())]
        head = [str(self.erasure_id), self.scope.app, self.scope.user, self.thread_id or ""]
        return "\n".join([*head, *times, *rows])

    def _times(self) -> tuple[datetime, datetime]:
        return self.requested_at, self.completed_at


class ErasureStorage(Protocol):
    """The receipts of several users."""

    async def receipts(self, app: str | None) -> Sequence[ErasureReceipt]:
        """Return the receipts of an application, or of all, newest first."""
