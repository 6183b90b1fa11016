"""Matches what an extractor read with what is known: assert, replace, end, or nothing. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256

from shared_core.domain import USER, FactDraft, MemoryId
from shared_core.run_ports import KnownFact, PlannedFact
from shared_core.slots import about_slot, relation_slots

OPPOSITES = {"like": "dislike", "dislike": "like"}
"""Slots of which one value cannot be in both: to like it now is to dislike it no more."""

MAX_KEY_BYTES = 1_500
"""Of a fact. An index row of PostgreSQL holds 2,704 bytes."""

ATTRIBUTE = re.compile(r"(relation\.[^.]+)\..")
"""A slot that tells something of a relation, not who it is."""


@dataclass(slots=True)
class FactPlan:
    """What a run changes. seen_again: facts that were known and were said once more, and where."""

    opened: list[PlannedFact] = field(default_factory=list)
    closed: dict[MemoryId, datetime] = field(default_factory=dict)
    seen_again: list[tuple[MemoryId, str]] = field(default_factory=list)


def fact_key(draft: FactDraft) -> str:
    """Return the key under which at most one fact is current.

    Slot, subject if it is not the user, and value if the slot holds several: "employer",
    "like:jazz", "relation.daughter.age@mia", "relation.daughter.like@mia:jazz".
    """
    place = subject_key(draft)
    return place if draft.functional else _indexable(f"{place}:{normalised(draft.value)}")


def _indexable(key: str) -> str:
    """Return a key that an index holds; of a long one, its beginning and its SHA-256."""
    given = key.encode()
    if len(given) <= MAX_KEY_BYTES:
        return key
    return f"{given[:MAX_KEY_BYTES].decode(errors='ignore')}#{sha256(given).hexdigest()}"


def subject_key(draft: FactDraft) -> str:
    """Return the key of all values of the slot for one subject."""
    if draft.subject == USER:
        return draft.slot
    return f"{draft.slot}@{re.sub('[@:]', ' ', normalised(draft.subject))}"


def normalised(value: str) -> str:
    """Return value without differences of case, width, spacing and closing punctuation."""
    folded = unicodedata.normalize("NFKC", value).casefold()
    return re.sub(r"\s+", " ", folded).strip(" .,!?;:。，！？；：")


def slots_to_read(drafts: Iterable[FactDraft]) -> list[str]:
    """Return the slots whose current facts plan_facts needs.

    Opposites, names of relations, and what is told of the same person under another slot.
    """
    drafts = list(drafts)
    slots = {draft.slot for draft in drafts}
    for draft in drafts:
        if draft.subject != USER:
            slots.add(about_slot(draft.subject, draft.slot))
            for relation, slot in relation_slots(draft.subject, draft.slot).items():
                slots |= {relation, slot}
    beside = {find(slot) for slot in slots for find in (opposite_slot, name_slot)}
    return sorted(slots | beside - {""})


def opposite_slot(slot: str) -> str:
    """Return "dislike" for "like", "relation.son.like" for "relation.son.dislike", else ""."""
    person, dot, name = slot.rpartition(".")
    if dot and not name_slot(slot):
        return ""
    return person + dot + OPPOSITES[name] if name in OPPOSITES else ""


def without_moot(drafts: Sequence[FactDraft]) -> list[FactDraft]:
    """Return the drafts of one turn without ends of facts that a later draft replaces anyway."""
    kept: list[FactDraft] = []
    replaced: set[str] = set()
    for draft in reversed(drafts):
        place = subject_key(draft)
        if draft.operation == "retract" and draft.functional and place in replaced:
            continue
        if draft.operation == "assert":
            replaced.add(place)
        kept.append(draft)
    return kept[::-1]


def name_slot(slot: str) -> str:
    """Return "relation.daughter" for "relation.daughter.age", and "" for any other slot."""
    match = ATTRIBUTE.match(slot)
    return match[1] if match else ""


def plan_facts(
    drafts: Sequence[FactDraft],
    known: Sequence[KnownFact],
    said_at: Mapping[str, datetime],
    new_id: Callable[[], MemoryId],
) -> FactPlan:
    """Return what changes when drafts, in the order they were said, meet what is known.

    Only a fact of the same slot and subject is ever ended: by another value where the slot holds
    one, by its opposite, or by a retraction. A value said before the current one becomes history,
    not truth; what had already ended when known was read is not looked at.
    A fact begins when its draft says so, at the earliest after what it ends began, and never after
    it was said. What is told of "my daughter" is told of the one daughter whose name is known; with
    two, of neither. What is told of a name is told of the one relation who is called so.
    said_at: event id to the moment it was said.
    """
    fold = _Fold(known, new_id)
    for draft in drafts:
        draft = fold.identified(draft)
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

    def identified(self, draft: FactDraft) -> FactDraft:
        """Return the draft about the person it names by relation, if only one can be meant."""
        draft = self._related(draft)
        relation = name_slot(draft.slot)
        if not relation or draft.subject != USER:
            return draft
        names = [
            current.value
            for (_, key), current in self._current.items()
            if key.startswith(f"{relation}:")
        ]
        return replace(draft, subject=names[0]) if len(names) == 1 else draft

    def _related(self, draft: FactDraft) -> FactDraft:
        """Return a draft told of a name as one told of the only relation with that name."""
        if draft.subject == USER or draft.fact_type == "custom":
            return draft
        keys = {key for _, key in self._current}
        found = [
            slot
            for relation, slot in relation_slots(draft.subject, draft.slot).items()
            if f"{relation}:{normalised(draft.subject)}" in keys
        ]
        return replace(draft, slot=found[0], fact_type="profile") if len(found) == 1 else draft

    def _end_apart(self, draft: FactDraft, at: datetime) -> None:
        """End what was told of a name before anybody knew whose name it is."""
        slot = about_slot(draft.subject, draft.slot) if draft.subject != USER else ""
        apart = fact_key(replace(draft, slot=slot)) if slot else ""
        for place in [one for one in self._current if apart and one[1] == apart]:
            self._close(place, at)

    def state(self, draft: FactDraft, at: datetime) -> None:
        place = (draft.fact_type, fact_key(draft))
        current = self._current.get(place)
        if current is not None and normalised(current.value) == normalised(draft.value):
            if not draft.other_event_ids:  # else the turn alone does not say it
                self.plan.seen_again.append((current.memory_id, draft.event_id))
            return
        opposite = self._opposite(draft)
        against = [one for one in (current, opposite and self._current.get(opposite)) if one]
        ends = [one.valid_from for one in against if at < one.valid_from]
        begins = _begins(draft, at, against)
        fact = PlannedFact(
            memory_id=self._new_id(),
            draft=draft,
            key=place[1],
            valid_from=begins,
            valid_until=min(ends, default=None),
        )
        for key in (place, opposite):
            if key:
                self._close(key, begins)
        self._end_apart(draft, begins)
        self.plan.opened.append(fact)
        if not ends:
            self._current[place] = _Current(fact.memory_id, draft.value, begins)

    @staticmethod
    def _opposite(draft: FactDraft) -> tuple[str, str] | None:
        slot = opposite_slot(draft.slot)
        return (draft.fact_type, fact_key(replace(draft, slot=slot))) if slot else None

    def retract(self, draft: FactDraft, at: datetime) -> None:
        wanted, slot = normalised(draft.value), subject_key(draft)
        for place, current in list(self._current.items()):
            same_slot = place[0] == draft.fact_type and (
                place[1] == slot or place[1].startswith(f"{slot}:")
            )
            if same_slot and wanted in ("", normalised(current.value)):
                self._close(place, _begins(draft, at, [current]))

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


def _begins(draft: FactDraft, at: datetime, against: Sequence[_Current]) -> datetime:
    """Return when what a draft says began to hold, after what it speaks against did."""
    told = draft.valid_from
    if told is None or told > at or any(told <= one.valid_from for one in against):
        return at
    return told
