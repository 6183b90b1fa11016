"""Facts that a run makes doubtful, or certain again: the mark in the value of their memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import JsonValue
from shared_core.core.doubts import doubted_at, marked
from shared_core.errors import Conflict
from shared_core.policies.batches import Found, Reads
from shared_core.policies.reviving import shown_value
from shared_core.policies.run_records import RunChange, iso
from shared_core.policies.timing import TimedMemory
from shared_core.ports.operations import Operation, Row, Select, UpdateEach, one_of
from shared_core.ports.runs import RunPlan


def select_doubted(plan: RunPlan) -> Reads:
    """Return what reads the facts that a run marks; their rows stay locked."""
    if not plan.doubted:
        return {}
    memory_ids = sorted(dict(plan.doubted))
    named = one_of("memory_id", memory_ids)
    return {
        "doubted": Select("memories", ("memory_id", "value"), (named,), lock="update"),
        "doubted_archive": select_archived_values(memory_ids),
    }


def select_archived_values(memory_ids: Sequence[UUID]) -> Select:
    """Return what reads the values that archived memories get back when they are revived."""
    return Select("memory_archive", ("memory_id", "value"), (one_of("memory_id", memory_ids),))


def mark_facts(plan: RunPlan, found: Found, log: list[RunChange]) -> list[Operation]:
    """Return what marks facts as doubtful or certain, after what revives some of them.

    Raises:
        Conflict: one of them was forgotten since the run read it.
    """
    if not plan.doubted:
        return []
    values: dict[UUID, JsonValue] = dict(found["doubted"])
    archived: dict[UUID, JsonValue] = dict(found["doubted_archive"])
    revived = {row[0]: shown_value(row) for row in found["archived"]}
    if len(values) < len(plan.doubted):
        raise Conflict("a fact was forgotten meanwhile")
    rows: list[Row] = []
    kept: list[Row] = []
    for memory_id, at in sorted(plan.doubted):
        value = archived.get(memory_id, values[memory_id])
        log.append(RunChange("doubted", memory_id, "", {"doubted_at": iso(doubted_at(value))}))
        stays_archived = memory_id in archived and memory_id not in revived
        to = kept if stays_archived else rows
        to.append((memory_id, marked(revived.get(memory_id, value), at)))
    return _written(rows, kept)


def marks_back(
    changes: Iterable[RunChange], memories: Mapping[UUID, TimedMemory], archived: Iterable[Row]
) -> list[Operation]:
    """Return what restores the marks before a run; changes: those of the kind "doubted"."""
    before: dict[UUID, datetime | None] = {
        one.target: one.moment("doubted_at") for one in changes if one.target in memories
    }
    kept = [(one, marked(value, before[one])) for one, value in archived if one in before]
    rows = []
    for memory_id in sorted(before.keys() - dict(kept).keys()):
        one = memories[memory_id]
        one.value = marked(one.value, before[memory_id])
        rows.append((memory_id, one.value))
    return _written(rows, kept)


def _written(rows: Sequence[Row], kept: Sequence[Row]) -> list[Operation]:
    return [
        UpdateEach(table, ("memory_id",), ("value",), values)
        for table, values in (("memories", rows), ("memory_archive", kept))
        if values
    ]
