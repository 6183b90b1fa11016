"""What must still hold for a run when it is applied: nothing that it read has changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.namespaces import memories_namespace, rest_of
from shared_core.errors import Conflict
from shared_core.policies.batches import Found, Reads
from shared_core.policies.run_sources import StoredTurn, TurnKey
from shared_core.policies.setting_aside import EDIT, FORGET_REQUEST
from shared_core.ports.operations import (
    Condition,
    Join,
    Operation,
    Select,
    Update,
    compare,
    equal,
    is_null,
    one_of,
    one_of_rows,
    open_after,
)
from shared_core.ports.runs import RunPlan

_MARKS = ("consolidated_seq", "summarised_seq", "last_memory_seq", "unread_bytes")


def select_requirements(plan: RunPlan, now: datetime) -> Reads:
    """Return what reads the marks of the thread, later runs, and statements of the same words."""
    reads: Reads = {}
    if plan.thread_id is not None:
        named = (equal("thread_id", plan.thread_id),)
        reads["marks"] = Select("threads", _MARKS, named, lock="update")
    if plan.slots or plan.relations or plan.drawn_from:
        later = (compare("number", ">", plan.known_number),)
        reads["later_runs"] = Select("runs", ("run_id",), later)
    if plan.unsaid:
        same_words = (
            one_of("words_key", sorted({*plan.unsaid})),
            equal("namespace", rest_of(memories_namespace(plan.scope))),
            is_null("superseded_at"),
            is_null("demoted_at"),
            open_after("expires_at", now),
        )
        reads["said"] = Select("memories", ("memory_id",), same_words, limit=1)
    return reads


def require_unsaid(found: Found) -> None:
    """Raise Conflict if a memory has the words of a statement that the run writes."""
    if found["said"]:
        raise Conflict("a statement was written by another run")


def require_turns(plan: RunPlan, turns: Mapping[TurnKey, StoredTurn]) -> None:
    """Raise Conflict if a turn that the run draws from is not remembered any more."""
    for turn in plan.drawn_from:
        stored = turns.get(turn)
        if stored is None or stored.memory_seq is None:
            raise Conflict("a turn was forgotten meanwhile")


def select_changed(plan: RunPlan, later_runs: Sequence[UUID]) -> Reads:
    """Return what reads the facts, retractions and edges of a plan that later runs changed.

    A request to forget a topic, or an edit, may have set aside any of the turns.
    """
    if not later_runs:
        return {}
    by_later = one_of("run_id", later_runs)
    forgotten = (by_later, one_of("kind", [EDIT, FORGET_REQUEST]))
    reads: Reads = {"changed by request": Select("runs", ("run_id",), forgotten, limit=1)}
    if plan.slots:
        slots: list[str] = sorted({*plan.slots})
        written = Join("facts", "f", (("memory_id", "memory_id"),))
        changed = Join("facts", "f", (("target", "memory_id"),))
        of_slots = (by_later, one_of("f.slot", slots))
        reads["changed by memory"] = _first("memories", of_slots, written)
        reads["changed by target"] = _first("run_changes", of_slots, changed)
        reads["changed by retraction"] = _first("retractions", (by_later, one_of("slot", slots)))
    if plan.relations:
        pairs = sorted({*plan.relations})
        changed = Join("edges", "e", (("target", "edge_id"),))
        moved = (
            by_later,
            one_of("change", ["edge", "moved"]),
            one_of_rows(("e.subject_key", "e.relation"), pairs),
        )
        reads["changed by edge"] = _first(
            "edges", (by_later, one_of_rows(("subject_key", "relation"), pairs))
        )
        reads["changed by moved edge"] = _first("run_changes", moved, changed)
    return reads


def _first(table: str, where: tuple[Condition, ...], *joins: Join) -> Select:
    return Select(table, ("run_id",), where, joins, limit=1)


def require_known(later: Found) -> None:
    """Raise Conflict if a later run changed facts or retractions of the slots, edges, or turns."""
    if any(rows for name, rows in later.items() if name.startswith("changed by ")):
        raise Conflict("a fact or a turn was changed by another run")


def move_marks(plan: RunPlan, found: Found) -> list[Operation]:
    """Return what moves the marks of a thread to where the run ended.

    Unread turns keep their share of the unread bytes.

    Raises:
        Conflict: another run moved the marks first, or the thread is gone.
    """
    if plan.thread_id is None:
        return []
    if not found["marks"]:
        raise Conflict("the thread is gone")
    [(read_to, summed_to, last, unread)] = found["marks"]
    for passage, mark in ((plan.read, read_to), (plan.summed, summed_to)):
        if passage is not None and passage.mark != mark:
            raise Conflict("the thread was consolidated by another run")
    if plan.read is not None:
        unread = unread * max(0, last - plan.read.to) // max(1, last - read_to)
        read_to = plan.read.to
    if plan.summed is not None:
        summed_to = plan.summed.to
    moved = {"consolidated_seq": read_to, "summarised_seq": summed_to, "unread_bytes": unread}
    return [Update("threads", moved, (equal("thread_id", plan.thread_id),))]
