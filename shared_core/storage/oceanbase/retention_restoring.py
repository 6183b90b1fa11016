"""Memories that come back into recall, within one transaction of a locked tenant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from shared_core.core.json_text import to_json
from shared_core.errors import Conflict
from shared_core.ports.retention import Archived
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.item_writes import stored_terms
from shared_core.storage.oceanbase.retention_timing import Policies, Timed, counters

MOST_ACCESSES = 2_147_483_647


def require_faded(tx: Transaction, tenant: str, away: Sequence[Archived]) -> None:
    """Raise Conflict if a memory was moved on, restored or written since it was read."""
    ids = [one.memory_id for one in away]
    there = {
        memory_id: archived_at
        for page in pages(ids)
        for memory_id, archived_at in tx.rows(
            "SELECT m.memory_id, x.archived_at FROM memories m LEFT JOIN memory_archive x"
            " ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id"
            " WHERE m.tenant_id = %s AND m.memory_id IN %s AND m.demoted_at IS NOT NULL",
            tenant,
            page,
        )
    }
    for one in away:
        if one.memory_id not in there or there[one.memory_id] != one.archived_at:
            raise Conflict("a memory was moved on meanwhile")


def restore(
    tx: Transaction,
    tenant: str,
    memory_ids: Sequence[UUID],
    terms: Mapping[UUID, Sequence[str]],
    now: datetime,
) -> list[UUID]:
    """Bring memories back as if they were read now; return which.

    What was archived comes with its text, and with terms, the words made of it, unless it kept
    them.
    """
    for page in pages(memory_ids):
        archived = tx.rows(
            "SELECT memory_id, text, value, is_shown, words_key, keeps_words FROM memory_archive"
            " WHERE tenant_id = %s AND memory_id IN %s",
            tenant,
            page,
        )
        for row in archived:
            _unpack(tx, tenant, row, terms.get(row[0], ()))
        tx.run(
            "UPDATE memories SET demoted_at = NULL WHERE tenant_id = %s AND memory_id IN %s",
            tenant,
            page,
        )
        tx.run("DELETE FROM memory_archive WHERE tenant_id = %s AND memory_id IN %s", tenant, page)
    policies = Policies(tx, [tenant])
    fresh = [
        _read_now(one, now) for one in counters(tx, tenant, memory_ids).values() if one.is_counted
    ]
    tx.insert(
        "memory_access",
        ("tenant_id", "memory_id", "stage", "staged_at", "access_count", "last_accessed_at",
         "forget_at"),
        (
            (tenant, one.memory_id, 0, now, min(one.access_count, MOST_ACCESSES),
             one.last_accessed_at, one.leaves_at(policies.of(tenant, one.kind)))
            for one in fresh
        ),
        update=("stage", "staged_at", "access_count", "last_accessed_at", "forget_at"),
    )  # fmt: skip
    return [one.memory_id for one in fresh]


def _unpack(tx: Transaction, tenant: str, row: Row, words: Sequence[str]) -> None:
    memory_id, text, value, is_shown, words_key, keeps_words = row
    if is_shown:
        value = to_json({**json.loads(value), "content": text})
    wordless = "" if keeps_words else ", terms = %s, term_count = %s"
    values = () if keeps_words else (stored_terms(words), len(words))
    tx.run(
        f"UPDATE memories SET text = %s, value = %s, words_key = %s{wordless}"
        " WHERE tenant_id = %s AND memory_id = %s",
        text, value, words_key, *values, tenant, memory_id,
    )  # fmt: skip


def _read_now(one: Timed, now: datetime) -> Timed:
    return replace(
        one,
        stage=0,
        staged_at=now,
        access_count=one.access_count + 1,
        last_accessed_at=max(one.last_accessed_at or now, now),
    )
