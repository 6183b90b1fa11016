"""How much of a tenant a recall reads: all of it, or of a large one the nearest and newest."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from uuid import UUID

from shared_core.recall_ports import SearchRequest
from shared_core.storage.oceanbase.current import Condition, all_of
from shared_core.storage.oceanbase.transactions import Transaction
from shared_core.storage.oceanbase.vectors import asked_form, models, table_of

AT_MOST = 1_000
"""Candidates that each way of finding adds for a large tenant; an index returns 16,384 at most."""
FEW = 3
"""One look-up of a vector by id costs as much as so many in a row."""


def bounded(
    tx: Transaction, tenant: str, request: SearchRequest, there: Condition, threshold: int
) -> Condition:
    """Return there for up to threshold memories; of more, what is nearest, newest, or has words.

    The rest of a large tenant is not in the corpus: what is rare is judged among these.
    """
    if not _more_than(tx, threshold, Condition("m.tenant_id = %s", (tenant,))):
        return there
    if request.filter or not _more_than(tx, threshold, there):
        return there
    found = {
        *_nearest(tx, tenant, request),
        *_with_words(tx, request, there),
        *_newest(tx, there),
    }
    return all_of(there, Condition("m.memory_id IN %s", (list(found),)))


def _more_than(tx: Transaction, threshold: int, there: Condition) -> bool:
    [(count,)] = tx.rows(
        f"SELECT count(*) FROM (SELECT 1 FROM memories m WHERE {there.sql} LIMIT %s) n",
        *there.values,
        threshold + 1,
    )
    return bool(count > threshold)


def _nearest(tx: Transaction, tenant: str, request: SearchRequest) -> list[UUID]:
    table = _vectors_of(tx, request)
    if table is None or request.vector is None:
        return []
    rows = tx.rows(
        f"SELECT memory_id FROM {table} WHERE tenant_id = %s AND model = %s"
        " ORDER BY cosine_distance(embedding, %s) APPROXIMATE LIMIT %s",
        tenant,
        request.model,
        asked_form(request.vector[0]),
        AT_MOST,
    )
    return [row[0] for row in rows]


def holding(term: str) -> str:
    """Return the pattern of LIKE for the terms of memories that hold a word."""
    return "% " + re.sub(r"[\\\\%_]", r"\\\g<0>", term) + " %"


def _with_words(tx: Transaction, request: SearchRequest, there: Condition) -> list[UUID]:
    """Return what holds the words that tell the most, and of the same the newest.

    Reading all terms costs 12 ms for 10,000 memories; the index of pairs of letters, which nearly
    every text shares, 160 and more.
    """
    patterns = [holding(term) for term in dict.fromkeys(request.terms)]
    if not patterns:
        return []
    counts = ", ".join(["sum(m.terms LIKE %s) AS held"] * len(patterns))
    [[size, *holders]] = tx.rows(
        f"SELECT count(*), {counts} FROM memories m WHERE {there.sql}", *patterns, *there.values
    )
    told = [math.log(1 + (size - int(n) + 0.5) / (int(n) + 0.5)) for n in holders]
    any_word = " OR ".join(["m.terms LIKE %s"] * len(patterns))
    score = " + ".join(["%s * (m.terms LIKE %s)"] * len(patterns))
    rows = tx.rows(
        f"SELECT m.memory_id FROM memories m WHERE {there.sql} AND ({any_word})"
        f" ORDER BY {score} DESC, m.occurred_at DESC LIMIT %s",
        *there.values,
        *patterns,
        *(part for pair in zip(told, patterns, strict=True) for part in pair),
        AT_MOST,
    )
    return [row[0] for row in rows]


def _newest(tx: Transaction, there: Condition) -> list[UUID]:
    rows = tx.rows(
        f"SELECT m.memory_id FROM memories m WHERE {there.sql}"
        " ORDER BY m.occurred_at DESC, m.memory_id DESC LIMIT %s",
        *there.values,
        AT_MOST,
    )
    return [row[0] for row in rows]


def similarities(
    tx: Transaction, tenant: str, request: SearchRequest, ids: Sequence[UUID]
) -> dict[UUID, float]:
    """Return the cosine of each memory with the query, the best of its vectors; some more too."""
    table = _vectors_of(tx, request)
    if table is None or request.vector is None:
        return {}
    whose = Condition("tenant_id = %s AND model = %s", (tenant, request.model))
    if _has_many(tx, table, whose, FEW * len(ids)):
        whose = all_of(whose, Condition("memory_id IN %s", (list(ids),)))
    found: dict[UUID, float] = {}
    for memory_id, distance in tx.rows(
        f"SELECT memory_id, cosine_distance(embedding, %s) AS distance FROM {table}"
        f" WHERE {whose.sql}",
        asked_form(request.vector[0]),
        *whose.values,
    ):
        found[memory_id] = max(1 - distance, found.get(memory_id, -1.0))
    return found


def _has_many(tx: Transaction, table: str, whose: Condition, limit: int) -> bool:
    [(count,)] = tx.rows(
        f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {whose.sql} LIMIT %s) n",
        *whose.values,
        limit,
    )
    return bool(count >= limit)


def _vectors_of(tx: Transaction, request: SearchRequest) -> str | None:
    """Return the table of the model's vectors, None where there is none."""
    dimensions = models(tx).get(request.model) if request.model else None
    return table_of(dimensions) if dimensions else None
