"""Brings faded memories back into recall, as if they were read now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import JsonValue, MemoryId
from shared_core.core.namespaces import from_path
from shared_core.errors import Conflict
from shared_core.policies.batches import Found, Reads, read
from shared_core.policies.run_records import RunChange, iso
from shared_core.policies.timing import RULES, RuleOf, TimedMemory, rules_of, select_timed, timed_of
from shared_core.ports.operations import (
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
    Verb,
    is_not_null,
    one_of,
)
from shared_core.ports.retention import Archived, Revival

MOST_ACCESSES = 2_147_483_647
"""The maximum of the column access_count."""
ARCHIVE = Join("memory_archive", "x", (("memory_id", "memory_id"),), is_left=True)
_ARCHIVE = (
    "memory_id", "text", "value", "is_shown", "words_key", "keeps_words", "archived_at",
)  # fmt: skip
_COUNTERS = ("stage", "staged_at", "access_count", "last_accessed_at", "forget_at")


def select_away(memory_ids: Sequence[UUID]) -> Select:
    """Return the operation that reads the demoted and archived ones of some memories."""
    return Select(
        "memories",
        ("memory_id", "namespace", "key", "x.text", "x.archived_at", "x.keeps_words"),
        (one_of("memory_id", sorted(set(memory_ids))), is_not_null("demoted_at")),
        (ARCHIVE,),
        order=("memory_id",),
    )


def away_of(row: Row, tenant: str) -> Archived:
    """Return the memory in a row of select_away()."""
    memory_id, namespace, key, text, archived_at, keeps_words = row
    labels = from_path(tenant + namespace[1:])
    return Archived(memory_id, labels, key, text, archived_at, keeps_words is False)


def bring_back(tenant: str, revival: Revival, now: datetime) -> Policy[list[MemoryId]]:
    """Bring memories back in a transaction of their own; return their ids.

    Raises:
        Conflict: a memory was moved, revived or written since it was read.
    """
    found = yield from read({"rules": RULES, **select_faded(revival)})
    yield Last(revive(revival, found, rules_of(found["rules"], tenant), now, None))
    return [MemoryId(row[0]) for row in found["faded_counters"]]


def select_faded(revival: Revival | None) -> Reads:
    """Return what reads the memories to revive. Their rows and counters stay locked."""
    if revival is None:
        return {}
    faded = (one_of("memory_id", sorted(one.memory_id for one in revival.faded)),)
    return {
        "faded": Select("memories", ("memory_id", "demoted_at"), faded, lock="update"),
        "faded_counters": Select("memory_access", ("memory_id",), faded, lock="update"),
        "archived": Select("memory_archive", _ARCHIVE, faded),
        "faded_timed": select_timed([one.memory_id for one in revival.faded]),
    }


def revive(
    revival: Revival | None, found: Found, rule: RuleOf, now: datetime, log: list[RunChange] | None
) -> list[Operation]:
    """Return what brings memories back; an archived one gets back its text.

    Its search terms are made anew unless it kept them. log: notes what lets them fade again.

    Raises:
        Conflict: a memory was moved, revived or written since it was read.
    """
    if revival is None:
        return []
    demoted_at: dict[UUID, datetime | None] = dict(found["faded"])
    archived_at = {row[0]: row[6] for row in found["archived"]}
    for planned in revival.faded:
        is_faded = demoted_at.get(planned.memory_id) is not None
        if not is_faded or archived_at.get(planned.memory_id) != planned.archived_at:
            raise Conflict("a memory was moved on meanwhile")
    values = {row[0]: shown_value(row) for row in found["archived"]}
    counters = []
    for row in found["faded_timed"]:
        one = timed_of(row)
        if not one.is_counted:
            continue
        if log is not None:
            log.append(
                RunChange(
                    "revived", one.memory_id, "", _before(one, demoted_at[one.memory_id], now)
                )
            )
        one.value = values.get(one.memory_id, one.value)
        counters.append(_read_now(one, rule, now))
    ids = sorted(demoted_at)
    operations = [
        *_unpacked(revival, found["archived"], values),
        Update("memories", {"demoted_at": None}, (one_of("memory_id", ids),)),
        Delete("memory_archive", (one_of("memory_id", ids),)),
    ]
    if counters:
        columns = ("memory_id", *_COUNTERS)
        operations.append(Insert("memory_access", columns, sorted(counters), "update", _COUNTERS))
    if revival.vectors is not None:
        operations.append(Verb("add_vectors", (revival.vectors,)))
    return operations


def shown_value(row: Row) -> JsonValue:
    """Return the value of an archived memory; one that shows its text gets it back."""
    _, text, value, is_shown, *_ = row
    return {**value, "content": text} if is_shown else value


def _unpacked(
    revival: Revival, archived: Sequence[Row], values: dict[UUID, JsonValue]
) -> list[Operation]:
    """Return what gives archived memories their texts back."""
    kept, wordless = [], []
    for memory_id, text, _, _, words_key, keeps_words, _ in archived:
        row = (memory_id, text, values[memory_id], words_key)
        if keeps_words:
            kept.append(row)
        else:
            words = list(revival.terms.get(memory_id, ()))
            wordless.append((*row, words, len(words)))
    columns = ("text", "value", "words_key")
    operations: list[Operation] = []
    if kept:
        operations.append(UpdateEach("memories", ("memory_id",), columns, kept))
    if wordless:
        with_terms = (*columns, "terms", "term_count")
        operations.append(UpdateEach("memories", ("memory_id",), with_terms, wordless))
    return operations


def _before(one: TimedMemory, demoted_at: datetime | None, now: datetime) -> dict[str, JsonValue]:
    """Return what lets a revived memory fade again if the run is undone."""
    return {
        "demoted_at": iso(demoted_at),
        "staged_at": iso(one.staged_at),
        "access_count": one.access_count,
        "last_accessed_at": iso(one.last_accessed_at),
        "revived_at": iso(now),
    }


def _read_now(one: TimedMemory, rule: RuleOf, now: datetime) -> tuple[object, ...]:
    """Return the id and the counters of a memory that is read now, in its first stage."""
    one.stage, one.staged_at = 0, now
    one.access_count = min(one.access_count + 1, MOST_ACCESSES)
    one.last_accessed_at = max(one.last_accessed_at or now, now)
    leaves_at = one.leaves_at(rule(one.kind))
    return one.memory_id, 0, now, one.access_count, one.last_accessed_at, leaves_at
