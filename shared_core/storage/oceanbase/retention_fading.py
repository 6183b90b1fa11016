"""Moves faded memories through their stages, erases them, or brings them back into recall."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import MemoryKind
from shared_core.core.json_text import to_json
from shared_core.errors import Conflict
from shared_core.ports.retention import Archived, Revival, Weak
from shared_core.storage.oceanbase.connection.columns import stored_terms
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, grouped, pages
from shared_core.storage.oceanbase.forgetting import bury_turns, delete_memories, turns_of
from shared_core.storage.oceanbase.item_writes import put_vectors
from shared_core.storage.oceanbase.retention_timing import (
    MOST_ACCESSES,
    RIPE,
    TIMED_COLUMNS,
    WITH_COUNTERS,
    CountedMemory,
    DueMemory,
    Policies,
    counters,
    due_of,
    ripe_values,
    score_of,
    timed_of,
)
from shared_core.storage.oceanbase.vectors import vector_tables

_ARCHIVE = (
    "tenant_id", "memory_id", "text", "value", "is_shown", "words_key", "archived_at",
    "keeps_words",
)  # fmt: skip
FateCounts = list[tuple[MemoryKind, str, int]]
"""Kind of memory, what became of it, number of memories."""


def require_faded(tx: Transaction, tenant: str, away: Sequence[Archived]) -> None:
    """Raise Conflict if a memory was moved, revived or written since it was read."""
    ids = [one.memory_id for one in away]
    there: dict[UUID, datetime | None] = dict(
        tx.rows_in(
            "SELECT m.memory_id, x.archived_at FROM memories m LEFT JOIN memory_archive x"
            " ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id"
            " WHERE m.tenant_id = %s AND m.memory_id IN %s AND m.demoted_at IS NOT NULL",
            [tenant, ids],
        )
    )
    for one in away:
        if one.memory_id not in there or there[one.memory_id] != one.archived_at:
            raise Conflict("a memory was moved on meanwhile")


def revive(tx: Transaction, tenant: str, revival: Revival, now: datetime) -> list[UUID]:
    """Bring memories back into recall as if they were read now; return their ids.

    An archived memory gets back its text, and its terms unless it kept them.
    """
    memory_ids = [one.memory_id for one in revival.faded]
    for row in tx.rows_in(
        "SELECT memory_id, text, value, is_shown, words_key, keeps_words FROM memory_archive"
        " WHERE tenant_id = %s AND memory_id IN %s",
        [tenant, memory_ids],
    ):
        _unpack(tx, tenant, row, revival.terms.get(row[0], ()))
    tx.update("memories", {"demoted_at": None}, tenant, memory_id=memory_ids)
    tx.delete("memory_archive", tenant, memory_id=memory_ids)
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
    put_vectors(tx, revival.vectors)
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
        [text, value, words_key, *values, tenant, memory_id],
    )


def _read_now(one: CountedMemory, now: datetime) -> CountedMemory:
    return replace(
        one,
        stage=0,
        staged_at=now,
        access_count=one.access_count + 1,
        last_accessed_at=max(one.last_accessed_at or now, now),
    )


def forget_ripe(tx: Transaction, path: str, now: datetime, limit: int) -> FateCounts:
    """Move at most `limit` due memories below a path to their next stage.

    Returns how many met which fate: "retimed" means that a changed policy gives them more time,
    "along" that they were erased with others.
    """
    tenants = {row[0] for row in _ripe(tx, "a.tenant_id", path, now, limit)}
    if not tenants:
        return []
    tx.lock(*tenants)
    rows = _ripe(tx, TIMED_COLUMNS, path, now, limit)
    ripe = [timed_of(row) for row in rows if row[0] in tenants]
    early, ready = _split(tx, ripe, now)
    tx.insert(
        "memory_access",
        ("tenant_id", "memory_id", "forget_at"),
        ((one.memory.tenant, one.memory.memory_id, one.due_at) for one in early),
        update=("forget_at",),
    )
    _stage(tx, [one for one in ready if one.fate != "erased"], now)
    _archive(tx, [one for one in ready if one.fate == "archived"], now)
    along = erase(tx, [one for one in ready if one.fate == "erased"], now)
    return _fate_counts(early, ready, along)


def _ripe(tx: Transaction, columns: str, path: str, now: datetime, limit: int) -> list[Row]:
    return tx.rows(
        f"SELECT {columns} FROM memory_access a JOIN memories m ON m.tenant_id = a.tenant_id"
        f" AND m.memory_id = a.memory_id WHERE {RIPE} ORDER BY a.forget_at, a.memory_id LIMIT %s",
        [*ripe_values(path, now), limit],
    )


def count_due(tx: Transaction, path: str, now: datetime) -> FateCounts:
    """Return how many of all due memories below a path would meet which fate."""
    rows = tx.rows(
        f"SELECT {TIMED_COLUMNS} FROM memory_access a JOIN memories m"
        f" ON m.tenant_id = a.tenant_id AND m.memory_id = a.memory_id WHERE {RIPE}",
        ripe_values(path, now),
    )
    _, ready = _split(tx, [timed_of(row) for row in rows], now)
    return _fate_counts([], ready, erased_along(tx, [one for one in ready if one.fate == "erased"]))


def _split(
    tx: Transaction, ripe: Sequence[CountedMemory], now: datetime
) -> tuple[list[DueMemory], list[DueMemory]]:
    """Return memories that a changed policy gives more time, and memories that are due."""
    policies = Policies(tx, {one.tenant for one in ripe})
    early, ready = list[DueMemory](), list[DueMemory]()
    for one in ripe:
        due = due_of(one, policies)
        (early if due.due_at is None or due.due_at > now else ready).append(due)
    return early, ready


def _fate_counts(
    early: Sequence[DueMemory],
    ready: Sequence[DueMemory],
    along: Mapping[tuple[str, UUID], MemoryKind],
) -> FateCounts:
    counted = Counter((one.memory.kind, str(one.fate)) for one in ready)
    counted += Counter((one.memory.kind, "retimed") for one in early)
    counted += Counter((kind, "along") for kind in along.values())
    return [(kind, fate, count) for (kind, fate), count in counted.items()]


def _stage(tx: Transaction, due: Sequence[DueMemory], now: datetime) -> None:
    """Put memories into their next stage, out of recall."""
    rows = []
    for one in due:
        stage = 1 if one.fate == "demoted" else 2
        rows.append(
            (one.memory.tenant, one.memory.memory_id, stage, now, _leaves_at(one, stage, now))
        )
    tx.insert(
        "memory_access",
        ("tenant_id", "memory_id", "stage", "staged_at", "forget_at"),
        rows,
        update=("stage", "staged_at", "forget_at"),
    )
    for tenant, ids in _by_tenant(due):
        tx.run_in(
            "UPDATE memories SET demoted_at = coalesce(demoted_at, %s)"
            " WHERE tenant_id = %s AND memory_id IN %s",
            [now, tenant, ids],
        )


def _leaves_at(one: DueMemory, stage: int, since: datetime) -> datetime | None:
    if one.rule is None:
        return None
    return one.memory.end_of(stage, since, one.rule)


def _archive(tx: Transaction, due: Sequence[DueMemory], now: datetime) -> None:
    """Archive the content of memories; only items keep their vectors and words."""
    for tenant, ids in _by_tenant(due):
        for page in pages(ids):
            rows = tx.select(
                "memories", "memory_id, kind, text, value, words_key", tenant, memory_id=page
            )
            tx.insert(
                "memory_archive",
                _ARCHIVE,
                (
                    (tenant, memory_id, text, *_packed(text, value), words_key, now, kind == "item")
                    for memory_id, kind, text, value, words_key in rows
                ),
                update=_ARCHIVE[2:],
            )
            tx.run(
                "UPDATE memories SET text = '', value = '{}', words_key = NULL"
                " WHERE tenant_id = %s AND memory_id IN %s",
                [tenant, page],
            )
            wordless = [row[0] for row in rows if row[1] != "item"]
            tx.update("memories", {"terms": "", "term_count": 0}, tenant, memory_id=wordless)
            for table in vector_tables(tx):
                tx.delete(table, tenant, memory_id=wordless)


def _packed(text: str, value: str) -> tuple[str, bool]:
    """Return the value of a memory without its text, and whether it contained the text."""
    found = json.loads(value)
    if not isinstance(found, dict) or found.get("content") is None:
        return value, False
    content = found["content"]
    if (content if isinstance(content, str) else to_json(content)) != text:
        return value, False
    del found["content"]
    return to_json(found), True


def erase(
    tx: Transaction, due: Sequence[DueMemory], now: datetime, *, alone: bool = False
) -> dict[tuple[str, UUID], MemoryKind]:
    """Delete memories with those that go along, and return the latter; derived facts stay.

    The turns of erased turn memories are buried. alone: spare turns and ended facts.
    """
    along = erased_along(tx, due, with_facts=not alone)
    if not alone:
        for tenant, ids in _by_tenant([one for one in due if one.memory.kind == "episodic"]):
            bury_turns(tx, tenant, turns_of(tx, tenant, ids), now)
    gone: dict[str, set[UUID]] = defaultdict(set)
    for tenant, memory_id in [*((one.memory.tenant, one.memory.memory_id) for one in due), *along]:
        gone[tenant].add(memory_id)
    for tenant, memory_ids in gone.items():
        tx.delete("memory_bases", tenant, basis_id=sorted(memory_ids))
        delete_memories(tx, tenant, memory_ids)
    return along


def erased_along(
    tx: Transaction, due: Sequence[DueMemory], *, with_facts: bool = True
) -> dict[tuple[str, UUID], MemoryKind]:
    """Return the unpinned memories, by kind, that are erased along with others.

    With a fact go the ended facts of its place, if its policy says so. With a summary go those it
    replaced.
    """
    along: dict[tuple[str, UUID], MemoryKind] = {}
    of_facts = [one for one in due if with_facts and (one.rule is None or one.rule.with_history)]
    for tenant, ids in _by_tenant(of_facts):
        along |= _unpinned(
            tx,
            "SELECT m.memory_id, m.kind FROM facts f JOIN facts h ON h.tenant_id = f.tenant_id"
            " AND h.fact_type = f.fact_type AND h.`key` = f.`key`"
            " AND h.superseded_at IS NOT NULL AND h.memory_id <> f.memory_id"
            " JOIN memories m ON m.tenant_id = h.tenant_id AND m.memory_id = h.memory_id",
            "f.tenant_id = %s AND f.memory_id IN %s",
            tenant,
            ids,
        )
    for tenant, ids in _by_tenant([one for one in due if one.memory.kind == "summary"]):
        along |= _unpinned(
            tx,
            "SELECT m.memory_id, m.kind FROM memories s JOIN memories m"
            " ON m.tenant_id = s.tenant_id AND m.thread_id = s.thread_id"
            " AND m.kind = 'summary' AND m.superseded_at IS NOT NULL",
            "s.tenant_id = %s AND s.memory_id IN %s",
            tenant,
            ids,
        )
    return along


def _unpinned(
    tx: Transaction, query: str, condition: str, tenant: str, memory_ids: Sequence[UUID]
) -> dict[tuple[str, UUID], MemoryKind]:
    rows = tx.rows_in(
        f"{query} LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id"
        f" AND a.memory_id = m.memory_id WHERE {condition} AND a.pinned_at IS NULL",
        [tenant, memory_ids],
    )
    return {(tenant, memory_id): kind for memory_id, kind in rows}


def _by_tenant(due: Iterable[DueMemory]) -> list[tuple[str, list[UUID]]]:
    return sorted(grouped((one.memory.tenant, one.memory.memory_id) for one in due).items())


def weak_of(
    tx: Transaction,
    tenant: str,
    weak: Weak,
    now: datetime,
    memory_ids: Sequence[UUID] | None = None,
) -> list[DueMemory]:
    """Return the weak memories of a tenant by id; memory_ids: only among these.

    Weak memories fade, are not pinned, have a minimum age and score below a threshold.
    """
    query = (
        f"SELECT {TIMED_COLUMNS} FROM {WITH_COUNTERS} WHERE m.tenant_id = %s"
        " AND m.superseded_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > %s)"
        " AND a.pinned_at IS NULL"
    )
    if memory_ids is None:
        rows = tx.rows(query, [tenant, now])
    else:
        rows = tx.rows_in(
            f"{query} AND m.memory_id IN %s", [tenant, now, list(dict.fromkeys(memory_ids))]
        )
    policies = Policies(tx, [tenant])
    found = [due_of(timed_of(row), policies) for row in rows]
    found.sort(key=lambda one: one.memory.memory_id)
    return [one for one in found if _is_weak(one.memory, one, weak, now)]


def _is_weak(one: CountedMemory, due: DueMemory, weak: Weak, now: datetime) -> bool:
    if due.rule is None:
        return False
    if (now - one.created_at).total_seconds() < weak.min_age_days * 86_400:
        return False
    decay_rate = due.rule.decay_rate if weak.decay_rate is None else weak.decay_rate
    return score_of(one, decay_rate, now) < weak.threshold
