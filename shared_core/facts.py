"""Matches what an extractor read with what is known: assert, replace, end, or nothing. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared_core.domain import FactDraft, MemoryId
from shared_core.run_ports import KnownFact, PlannedFact

OPPOSITES = {"like": "dislike", "dislike": "like"}
"""Slots of which one value cannot be in both: to like it now is to dislike it no more."""


@dataclass(slots=True)
class FactPlan:
    """What a run changes. seen_again: facts that were known and were said once more, and where."""

    opened: list[PlannedFact] = field(default_factory=list)
    closed: dict[MemoryId, datetime] = field(default_factory=dict)
    seen_again: list[tuple[MemoryId, str]] = field(default_factory=list)


def fact_key(draft: FactDraft) -> str:
    """Return the key under which at most one fact is current: slot, or slot and value."""
    return draft.slot if draft.functional else f"{draft.slot}:{normalised(draft.value)}"


def normalised(value: str) -> str:
    """Return value without differences of case, width, spacing and closing punctuation."""
    folded = unicodedata.normalize("NFKC", value).casefold()
    return re.sub(r"\s+", " ", folded).strip(" .,!?;:。，！？；：")


def slots_to_read(drafts: Iterable[FactDraft]) -> list[str]:
    """Return the slots whose current facts plan_facts needs, opposites included."""
    slots = {draft.slot for draft in drafts}
    return sorted(slots | {OPPOSITES[slot] for slot in slots if slot in OPPOSITES})


def plan_facts(
    drafts: Sequence[FactDraft],
    known: Sequence[KnownFact],
    said_at: Mapping[str, datetime],
    new_id: Callable[[], MemoryId],
) -> FactPlan:
    """Return what changes when drafts, in the order they were said, meet what is known.

    Only a fact of the same slot is ever ended: by another value where the slot holds one, by its
    opposite, or by a retraction. A value said before the current one becomes history, not truth;
    what had already ended when known was read is not looked at.
    said_at: event id to the moment it was said.
    """
    fold = _Fold(known, new_id)
    for draft in drafts:
        at = said_at[draft.event_id]
        if draft.operation == "retract":
            fold.retract(draft, at)
        else:
            fold.state(draft, at)
    return fold.plan


@dataclass(slots=True)
class _Current:
    memory_id: MemoryId
    value: str
    valid_from: datetime


class _Fold:
    """The facts that are current after each draft."""

    def __init__(self, known: Sequence[KnownFact], new_id: Callable[[], MemoryId]) -> None:
        self.plan = FactPlan()
        self._new_id = new_id
        self._current: dict[tuple[str, str], _Current] = {
            (fact.fact_type, fact.key): _Current(fact.memory_id, fact.value, fact.valid_from)
            for fact in known
        }

    def state(self, draft: FactDraft, at: datetime) -> None:
        place = (draft.fact_type, fact_key(draft))
        current = self._current.get(place)
        valid_until: datetime | None = None
        if current is not None:
            if normalised(current.value) == normalised(draft.value):
                self.plan.seen_again.append((current.memory_id, draft.event_id))
                return
            if at < current.valid_from:
                valid_until = current.valid_from
            else:
                self._close(place, at)
        opposite = self._opposite(draft)
        later = self._current.get(opposite) if opposite else None
        if later is not None and at < later.valid_from:
            valid_until = min(valid_until or later.valid_from, later.valid_from)
        fact = PlannedFact(
            memory_id=self._new_id(),
            draft=draft,
            key=place[1],
            valid_from=at,
            valid_until=valid_until,
        )
        self.plan.opened.append(fact)
        if valid_until is None:
            self._current[place] = _Current(fact.memory_id, draft.value, at)
        if opposite:
            self._close(opposite, at)

    @staticmethod
    def _opposite(draft: FactDraft) -> tuple[str, str] | None:
        slot = OPPOSITES.get(draft.slot)
        return (draft.fact_type, fact_key(replace(draft, slot=slot))) if slot else None

    def retract(self, draft: FactDraft, at: datetime) -> None:
        wanted = normalised(draft.value)
        for place, current in list(self._current.items()):
            same_slot = place[0] == draft.fact_type and place[1].split(":")[0] == draft.slot
            if same_slot and wanted in ("", normalised(current.value)):
                self._close(place, at)

    def _close(self, place: tuple[str, str], at: datetime) -> None:
        current = self._current.get(place)
        if current is None or at < current.valid_from:
            return
        del self._current[place]
        for position, fact in enumerate(self.plan.opened):
            if fact.memory_id == current.memory_id:
                self.plan.opened[position] = replace(fact, valid_until=at)
                return
        self.plan.closed[current.memory_id] = at
