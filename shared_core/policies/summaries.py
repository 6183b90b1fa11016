"""The summary of a thread in a run: a copy of the one it replaces, and the turns it covers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared_core.core.ids import uuid7
from shared_core.core.namespaces import memories_namespace, rest_of
from shared_core.errors import Conflict
from shared_core.policies.batches import Found, Reads
from shared_core.policies.run_records import RunChange
from shared_core.policies.run_sources import SourceRow, Sources, TurnKey
from shared_core.ports.operations import (
    Condition,
    Delete,
    Insert,
    Operation,
    Select,
    Update,
    compare,
    equal,
    is_not_null,
    one_of,
)
from shared_core.ports.runs import RunPlan

KEPT = 10
"""Maximum number of replaced summaries that are kept for each thread."""
COPIED = (
    "text", "value", "terms", "term_count", "author", "importance", "run_id", "occurred_at",
    "created_at", "updated_at", "expires_at",
)  # fmt: skip
"""The columns of a summary that its copy keeps."""
_PLACED = ("namespace", "key", "kind", "thread_id")
_OWN = ("memory_id", "superseded_at", "demoted_at")
_TURN = ("thread_id", "event_id", "expires_at")


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """The summary that is stored for a thread."""

    memory_id: UUID
    superseded_at: datetime | None
    demoted_at: datetime | None
    columns: dict[str, Any]

    def lives_at(self, moment: datetime) -> bool:
        """Return whether it was neither replaced nor expired at a moment."""
        expires_at = self.columns["expires_at"]
        return self.superseded_at is None and (expires_at is None or expires_at > moment)


def select_summary(plan: RunPlan) -> Reads:
    """Return what reads the stored summary of a thread, and the turns that the new one adds."""
    if plan.summary_key is None or plan.thread_id is None:
        return {}
    place = (
        equal("namespace", rest_of(memories_namespace(plan.scope))),
        equal("key", plan.summary_key),
        equal("kind", "summary"),
    )
    replaced = (
        equal("thread_id", plan.thread_id), equal("kind", "summary"), is_not_null("superseded_at"),
    )  # fmt: skip
    reads = {
        "summary": Select("memories", (*_OWN, *_PLACED, *COPIED), place),
        "replaced_summaries": Select("memories", ("memory_id", "superseded_at"), replaced),
    }
    if plan.summed is not None:
        of_thread = equal("thread_id", plan.thread_id)
        reads["summed"] = Select("events", _TURN, (of_thread, *_between(plan.summed.mark, plan)))
    return reads


def select_summed_before(plan: RunPlan, summary: StoredSummary | None) -> Reads:
    """Return what reads the turns before, which a summary covers if it replaces none."""
    if plan.summed is None or plan.summed.mark <= 0 or not _writes_anew(plan, summary):
        return {}
    where = (equal("thread_id", plan.thread_id), *_between(0, plan))
    return {"summed": Select("events", _TURN, where)}


def _writes_anew(plan: RunPlan, summary: StoredSummary | None) -> bool:
    return plan.summary_key is not None and not _is_current(plan, summary)


def _between(mark: int, plan: RunPlan) -> tuple[Condition, Condition]:
    assert plan.summed is not None
    return compare("memory_seq", ">", mark), compare("memory_seq", "<=", plan.summed.to)


def stored_summary(found: Found) -> StoredSummary | None:
    """Return the summary that is stored, or None."""
    for memory_id, superseded_at, demoted_at, *rest in found["summary"]:
        columns = dict(zip((*_PLACED, *COPIED), rest, strict=True))
        return StoredSummary(memory_id, superseded_at, demoted_at, columns)
    return None


def require_summary(plan: RunPlan, summary: StoredSummary | None, now: datetime) -> None:
    """Raise Conflict if the summary that the run extends was replaced or is gone."""
    lives = summary is not None and summary.demoted_at is None and summary.lives_at(now)
    run_id = summary.columns["run_id"] if summary is not None and lives else None
    if plan.summary_key is not None and run_id != plan.summary_run:
        raise Conflict("the summary was changed meanwhile")


def _is_current(plan: RunPlan, summary: StoredSummary | None) -> bool:
    """Return whether the new summary replaces a stored one.

    One that expired after the run began counts, as the new one contains it; an archived one, which
    has no text, does not.
    """
    is_there = summary is not None and summary.lives_at(plan.started_at)
    return is_there and summary is not None and summary.columns["text"] != ""


def keep_summary(
    plan: RunPlan, found: Found, summary: StoredSummary | None, now: datetime, log: list[RunChange]
) -> list[Operation]:
    """Return what copies the summary that a run replaces, with its vectors; the last copies stay.

    The new summary writes over the stored one, so that its vectors can move to the copy.
    """
    if not _is_current(plan, summary):
        return []
    assert summary is not None
    copy_id = uuid7()
    log.append(RunChange("summary", summary.memory_id, "", {"copy": str(copy_id)}))
    newest = sorted(((row[1], row[0]) for row in found["replaced_summaries"]), reverse=True)
    dropped = [memory_id for _, memory_id in newest[KEPT - 1 :]]
    columns = summary.columns | {
        "memory_id": copy_id,
        "key": f"{summary.columns['key']}/{copy_id}",
        "superseded_at": now,
    }
    operations: list[Operation] = [
        Insert("memories", tuple(columns), [tuple(columns.values())]),
        Update("embeddings", {"memory_id": copy_id}, (equal("memory_id", summary.memory_id),)),
    ]
    if dropped:
        operations.append(Delete("memories", (one_of("memory_id", sorted(dropped)),)))
    return operations


def cover(
    plan: RunPlan, found: Found, later: Found, summary_id: UUID, sources: Sources
) -> dict[TurnKey, datetime | None]:
    """Add the turns that a summary covers to its sources; return when these expire.

    later: rows of select_summed_before().
    """
    rows = [*found["summed"], *later["summed"]] if plan.summed is not None else []
    turns: dict[TurnKey, datetime | None] = {(row[0], row[1]): row[2] for row in rows}
    sources.joined += [SourceRow(summary_id, *turn, 0) for turn in turns]
    return turns


def bounded(
    plan: RunPlan, summary: StoredSummary | None, expires_at: datetime | None
) -> datetime | None:
    """Return when a summary expires: no later than the one it replaces."""
    if not _is_current(plan, summary):
        return expires_at
    assert summary is not None
    ends = [end for end in (expires_at, summary.columns["expires_at"]) if end is not None]
    return min(ends, default=None)
