"""What runs read: turns of a thread, people, known facts and edges, and texts like a draft."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared_core.core.domain import Event, KnownPerson, MemoryId, ThreadId
from shared_core.policies.aliases import aliases_of, entity_of, select_aliases
from shared_core.policies.run_records import LAST_NUMBER, last_number
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.runs import LikeText, ReadRequest, ThreadWindow
from shared_core.storage.oceanbase.connection.operations import selected
from shared_core.storage.oceanbase.connection.transactions import Transaction, grouped
from shared_core.storage.oceanbase.events import EVENT_COLUMNS, event_of
from shared_core.storage.oceanbase.vectors import models, query_form, table_of
from shared_core.storage.oceanbase.visibility import WhereClause, all_of, below, living, of_kinds

_RELATION = "relation."
NEAREST = 3
"""Maximum number of near memories that a draft is compared with."""


def like_texts(
    tx: Transaction,
    tenant: str,
    path: str,
    kinds: Sequence[str],
    words_keys: Mapping[ItemAddress, UUID],
    vectors: VectorRows | None,
    now: datetime,
) -> dict[ItemAddress, list[LikeText]]:
    """Return for each address the living memories with the same words, then the nearest ones."""
    there = all_of(below(path), living(now), of_kinds(kinds))
    same_words = _same_words(tx, tenant, there, list(words_keys.values()))
    found = {
        address: [*same_words[key]] for address, key in words_keys.items() if key in same_words
    }
    if vectors is not None and (dimensions := models(tx).get(vectors.model)):
        for address, vector in zip(vectors.addresses, vectors.vectors, strict=True):
            rows = tx.rows(
                f"SELECT e.memory_id, min(cosine_distance(e.embedding, %s)) AS distance"
                f" FROM {table_of(dimensions)} e"
                " JOIN memories m ON m.tenant_id = e.tenant_id AND m.memory_id = e.memory_id"
                f" WHERE e.tenant_id = %s AND e.model = %s AND {there.sql}"
                f" GROUP BY e.memory_id ORDER BY distance, e.memory_id LIMIT {NEAREST:d}",
                [query_form(vector), tenant, vectors.model, *there.values],
            )
            texts: dict[UUID, str] = dict(
                tx.select("memories", "memory_id, text", tenant, memory_id=[row[0] for row in rows])
            )
            near = [_like(row[0], texts[row[0]], 1 - row[1]) for row in rows]
            if near:
                found.setdefault(address, []).extend(near)
    return found


def _same_words(
    tx: Transaction, tenant: str, there: WhereClause, words_keys: Sequence[UUID]
) -> dict[UUID, list[LikeText]]:
    rows = tx.rows_in(
        "SELECT m.words_key, m.memory_id, m.text FROM memories m"
        f" WHERE m.tenant_id = %s AND m.words_key IN %s AND {there.sql} ORDER BY m.memory_id",
        [tenant, words_keys, *there.values],
    )
    return grouped((row[0], _like(row[1], row[2], 1.0)) for row in rows)


def _like(memory_id: UUID, text: str, similarity: float) -> LikeText:
    return LikeText(memory_id=MemoryId(memory_id), text=text, similarity=float(similarity))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSource:
    """A thread to read, and the place of its summary."""

    tenant: str
    thread_id: ThreadId
    namespace: str
    summary_key: str


def read_thread(
    tx: Transaction, source: ThreadSource, request: ReadRequest, now: datetime
) -> ThreadWindow | None:
    """Return the turns of a thread since the last runs, or None without a thread."""
    thread = tx.select_one(
        "threads", "consolidated_seq, summarised_seq", source.tenant, thread_id=source.thread_id
    )
    if thread is None:
        return None
    read_mark, replay_mark = thread
    summary = living_summary(tx, source.tenant, source.namespace, source.summary_key, now)
    summed = replay_mark if summary else 0
    replay = request.replay + request.reread if request.replay else 0
    unread = _turns(tx, source, now, "> %s ORDER BY memory_seq", read_mark, request.turns)
    before = _turns(tx, source, now, "<= %s ORDER BY memory_seq DESC", read_mark, request.context)
    return ThreadWindow(
        read_mark=read_mark,
        turns=unread,
        context=[event for _, event in reversed(before)],
        replay_mark=replay_mark,
        summed=summed,
        replay=_turns(tx, source, now, "> %s ORDER BY memory_seq", summed - request.reread, replay),
        summary=summary[0] if summary else "",
        summary_run=summary[1] if summary else None,
        people=_known_people(tx, source.tenant, request.people, now) if request.people else [],
        known_number=last_number(selected(tx, source.tenant, LAST_NUMBER)),
    )


def living_summary(
    tx: Transaction, tenant: str, namespace: str, summary_key: str | None, now: datetime
) -> tuple[str, UUID | None] | None:
    """Return the living summary of a thread and the run that wrote it, or None."""
    lives = living(now)
    row = tx.one(
        "SELECT m.text, m.run_id FROM memories m WHERE m.tenant_id = %s AND m.namespace = %s"
        f" AND m.`key` = %s AND m.kind = 'summary' AND {lives.sql}",
        [tenant, namespace, summary_key, *lives.values],
    )
    return (row[0], row[1]) if row else None


def _turns(
    tx: Transaction, source: ThreadSource, now: datetime, which: str, mark: int, limit: int
) -> list[tuple[int, Event]]:
    if limit <= 0:
        return []
    rows = tx.rows(
        f"SELECT memory_seq, {EVENT_COLUMNS} FROM events"
        " WHERE tenant_id = %s AND thread_id = %s AND (expires_at IS NULL OR expires_at > %s)"
        f" AND memory_seq {which} LIMIT %s",
        [source.tenant, source.thread_id, now, mark, limit],
    )
    return [(row[0], event_of(row[1:])) for row in rows]


def _known_people(tx: Transaction, tenant: str, limit: int, now: datetime) -> list[KnownPerson]:
    """Return the people the user has named, newest first, with their aliases.

    Each comes with the turns of the first basis in which the user names the person.
    """
    facts = tx.rows(
        "SELECT memory_id, slot, value, `key` FROM facts WHERE tenant_id = %s"
        " AND fact_type = 'profile' AND `key` >= 'relation.' AND `key` < 'relation/'"
        " AND valid_until IS NULL AND superseded_at IS NULL"
        f" AND LOCATE('.', SUBSTR(slot, {len(_RELATION) + 1})) = 0"
        " AND LEFT(`key`, LENGTH(slot) + 1) = CONCAT(slot, ':')"
        " ORDER BY recorded_at DESC, memory_id DESC LIMIT %s",
        [tenant, limit],
    )
    ids = [row[0] for row in facts]
    texts: dict[UUID, str] = dict(
        tx.rows(
            "SELECT memory_id, text FROM memories WHERE tenant_id = %s AND memory_id IN %s"
            " AND (expires_at IS NULL OR expires_at > %s)",
            [tenant, ids, now],
        )
    )
    first_bases = _first_basis(tx, tenant, ids, now)
    keys = sorted({_name_key(slot, key) for _, slot, _, key in facts})
    aliases = aliases_of(selected(tx, tenant, one) for one in select_aliases(keys))
    people = []
    for memory_id, slot, value, key in facts:
        basis = first_bases.get(memory_id)
        if memory_id not in texts or basis is None:
            continue
        name = shown(value)
        root = entity_of(_name_key(slot, key), aliases)
        spelt = {
            spelling
            for one in aliases
            if one.entity_key == root
            for spelling in (one.alias, one.entity)
        }
        people.append(
            KnownPerson(
                memory_id=MemoryId(memory_id),
                relation=slot[len(_RELATION) :],
                name=name,
                statement=texts[memory_id],
                turns=tuple(basis.turns),
                told_at=basis.told_at,
                expires_at=basis.expires_at,
                aliases=tuple(one for one in sorted(spelt) if one != name),
            )
        )
    return people


def shown(value: str) -> str:
    """Return a JSON value as statements show it: a text without quotes."""
    held = json.loads(value)
    return held if isinstance(held, str) else value


def _name_key(slot: str, key: str) -> str:
    return key[len(slot) + 1 :]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Basis:
    """The turns of one basis, in order."""

    number: int
    turns: list[tuple[ThreadId, str]]
    told_at: datetime
    expires_at: datetime | None


def _first_basis(
    tx: Transaction, tenant: str, memory_ids: Sequence[UUID], now: datetime
) -> dict[UUID, _Basis]:
    """Return the first basis of each memory that has a user turn and is fully remembered."""
    bases: dict[tuple[UUID, int], list[Any]] = defaultdict(list)
    for memory_id, number, *turn in tx.rows(
        "SELECT s.memory_id, s.basis, s.thread_id, s.event_id, e.occurred_at, e.expires_at,"
        " e.role, e.memory_seq FROM memory_sources s"
        " JOIN events e ON e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id"
        " AND e.event_id = s.event_id WHERE s.tenant_id = %s AND s.memory_id IN %s",
        [tenant, list(memory_ids)],
    ):
        bases[memory_id, number].append(turn)
    found: dict[UUID, _Basis] = {}
    for (memory_id, number), turns in bases.items():
        expires_at = min((turn[3] for turn in turns if turn[3]), default=None)
        if expires_at and expires_at <= now:
            continue
        if not any(turn[4] == "user" for turn in turns) or any(turn[5] is None for turn in turns):
            continue
        basis = _Basis(
            number=number,
            turns=sorted((ThreadId(turn[0]), turn[1]) for turn in turns),
            told_at=max(turn[2] for turn in turns),
            expires_at=expires_at,
        )
        there = found.get(memory_id)
        if there is None or (basis.told_at, number) < (there.told_at, there.number):
            found[memory_id] = basis
    return found
