"""What is known and says nearly what drafts say: in the same words, or near in meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import MemoryId
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.runs import LikeText
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.run_records import rows_in
from shared_core.storage.oceanbase.vectors import asked_form, models, table_of
from shared_core.storage.oceanbase.visibility import Condition, all_of, below, living, of_kinds

NEAREST = 3
"""Memories of which a draft may say the same."""


def like_texts(
    tx: Transaction,
    tenant: str,
    path: str,
    kinds: Sequence[str],
    words_keys: Mapping[ItemAddress, UUID],
    vectors: VectorRows | None,
    now: datetime,
) -> dict[ItemAddress, list[LikeText]]:
    """Return of each address the living memories with its words, and then the nearest ones."""
    there = all_of(below(path), living(now), of_kinds(kinds))
    said = _said(tx, tenant, there, list(words_keys.values()))
    found = {address: [*said[key]] for address, key in words_keys.items() if key in said}
    if vectors is not None and (dimensions := models(tx).get(vectors.model)):
        for address, vector in zip(vectors.addresses, vectors.vectors, strict=True):
            rows = tx.rows(
                f"SELECT e.memory_id, min(cosine_distance(e.embedding, %s)) AS distance"
                f" FROM {table_of(dimensions)} e"
                " JOIN memories m ON m.tenant_id = e.tenant_id AND m.memory_id = e.memory_id"
                f" WHERE e.tenant_id = %s AND e.model = %s AND {there.sql}"
                f" GROUP BY e.memory_id ORDER BY distance, e.memory_id LIMIT {NEAREST:d}",
                asked_form(vector),
                tenant,
                vectors.model,
                *there.values,
            )
            texts = _texts(tx, tenant, [row[0] for row in rows])
            near = [_like(row[0], texts[row[0]], 1 - row[1]) for row in rows]
            if near:
                found.setdefault(address, []).extend(near)
    return found


def _said(
    tx: Transaction, tenant: str, there: Condition, words_keys: Sequence[UUID]
) -> dict[UUID, list[LikeText]]:
    found: dict[UUID, list[LikeText]] = {}
    for words_key, memory_id, text in rows_in(
        tx,
        "SELECT m.words_key, m.memory_id, m.text FROM memories m"
        f" WHERE m.tenant_id = %s AND m.words_key IN %s AND {there.sql} ORDER BY m.memory_id",
        tenant,
        words_keys,
        *there.values,
    ):
        found.setdefault(words_key, []).append(_like(memory_id, text, 1.0))
    return found


def _texts(tx: Transaction, tenant: str, memory_ids: Sequence[UUID]) -> dict[UUID, str]:
    return dict(
        tx.rows(
            "SELECT memory_id, text FROM memories WHERE tenant_id = %s AND memory_id IN %s",
            tenant,
            list(memory_ids),
        )
    )


def _like(memory_id: UUID, text: str, similarity: float) -> LikeText:
    return LikeText(memory_id=MemoryId(memory_id), text=text, similarity=float(similarity))
