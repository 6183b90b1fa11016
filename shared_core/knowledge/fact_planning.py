"""Matches what an extractor read with what is known: assert, replace, end, or nothing. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from uuid import UUID

from shared_core.core.domain import USER, FactDraft, MemoryId
from shared_core.knowledge.validity import Stated, ValidityEnd, next_end, same_spell
from shared_core.nlp.similarity import same_place
from shared_core.nlp.slots import about_slot, relation_slots
from shared_core.nlp.text import normalised
from shared_core.ports.runs import KnownFact, PlannedFact, Retraction

OPPOSITES = {"like": "dislike", "dislike": "like"}
"""Slots of which one value cannot be in both: to like it now is to dislike it no more."""

MAX_KEY_BYTES = 1_500
"""Of a fact. An index row of PostgreSQL holds 2,704 bytes."""

LEFT_BEHIND = {"residence": "work_city"}
"""What a move ends besides: the city one worked in, if one lived there or nobody knows where."""

ATTRIBUTE = re.compile(r"(relation\.[^.]+)\..")
"""A slot that tells something of a relation, not who it is."""


@dataclass(slots=True)
class FactPlan:
    """What a run changes. said_again: drafts that said a fact once more that was there.

    retracted: what was retracted, and the turns that say so. bounds: the facts and retractions that
    made history of what was opened.
    """

    opened: list[PlannedFact] = field(default_factory=list)
    closed: dict[MemoryId, datetime] = field(default_factory=dict)
    said_again: list[tuple[FactDraft, Stated]] = field(default_factory=list)
    retracted: list[tuple[Retraction, tuple[str, ...]]] = field(default_factory=list)
    bounds: list[UUID] = field(default_factory=list)

    @property
    def seen_again(self) -> list[tuple[MemoryId, tuple[str, ...]]]:
        """The facts that were said once more, and by which turns together."""
        return [
            (MemoryId(one.row_id), (draft.event_id, *draft.other_event_ids))
            for draft, one in self.said_again
        ]

    @property
    def told_again(self) -> list[PlannedFact]:
        """The facts that were said once more, as they stand, with the drafts that said so."""
        return [
            PlannedFact(
                memory_id=MemoryId(one.row_id),
                draft=draft,
                key=fact_key(draft),
                valid_from=one.valid_from,
                valid_until=one.valid_until,
            )
            for draft, one in self.said_again
        ]

    def ended(self, by: datetime) -> list[MemoryId]:
        """Return the facts the run tells of that hold no more by a moment."""
        told = [*self.opened, *self.told_again]
        past = [one.memory_id for one in told if one.valid_until and one.valid_until <= by]
        closed = [memory_id for memory_id, until in self.closed.items() if until <= by]
        return list(dict.fromkeys([*closed, *past]))


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


def slots_to_read(drafts: Iterable[FactDraft]) -> list[str]:
    """Return the slots whose current facts plan_facts needs.

    Opposites, names of relations, and what is told of the same person under another slot.
    """
    drafts = list(drafts)
    slots = {draft.slot for draft in drafts}
    slots |= {LEFT_BEHIND[slot] for slot in slots & LEFT_BEHIND.keys()}
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
    retractions: Sequence[Retraction] = (),
    now: datetime | None = None,
) -> FactPlan:
    """Return what changes when drafts, in the order they were said, meet what is known.

    Only a fact of the same slot and subject is ever ended: by another value where the slot holds
    one, by its opposite, or by a retraction. It is the moments when things were said that count,
    not the order in which they are read: what was said before another value, an opposite or a
    retraction that is known already becomes history and not truth, and a retraction ends nothing
    that was said after it. Where two moments are the same, what is read later was said later.
    A fact begins when its draft says so, at the earliest after what it ends began, and never after
    it was said. What is told of "my daughter" is told of the one daughter whose name is known; with
    two, of neither. What is told of a name is told of the one relation who is called so.
    known: facts of slots_to_read(drafts), also those that ended, or whose end became known, after
    the first draft was said; retractions: those said after it. said_at: event id to the moment it
    was said. now: an end that is known and later than now may come earlier.
    """
    fold = _FactFold(known, retractions, new_id, now)
    for draft in drafts:
        draft = fold.identified(draft)
        at = said_at[draft.event_id]
        if draft.operation == "retract":
            fold.retract(draft, at)
        else:
            fold.state(draft, at)
    return fold.plan


class _FactFold:
    """What was stated and retracted after each draft, by type and key."""

    def __init__(
        self,
        known: Sequence[KnownFact],
        retractions: Sequence[Retraction],
        new_id: Callable[[], MemoryId],
        now: datetime | None,
    ) -> None:
        self.plan = FactPlan()
        self._now = now
        self._new_id = new_id
        self._retractions = list(retractions)
        self._stated: dict[tuple[str, str], list[Stated]] = {}
        self._current: dict[tuple[str, str], Stated] = {}
        for fact in known:
            said = sorted(fact.said) or [fact.valid_from]
            one = Stated(fact.memory_id, fact.value, fact.valid_from, fact.valid_until, said)
            self._add((fact.fact_type, fact.key), one)

    def _add(self, place: tuple[str, str], one: Stated) -> None:
        self._stated.setdefault(place, []).append(one)
        if one.valid_until is None:
            self._current[place] = one

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

    def _end_apart(self, draft: FactDraft, at: datetime, begins: datetime) -> None:
        """End what was told of a name before anybody knew whose name it is."""
        slot = about_slot(draft.subject, draft.slot) if draft.subject != USER else ""
        apart = fact_key(replace(draft, slot=slot)) if slot else ""
        for place in [one for one in self._current if apart and one[1] == apart]:
            self._close(place, at, begins)

    def state(self, draft: FactDraft, at: datetime) -> None:
        draft = self._as_kept(draft)
        place, opposite = (draft.fact_type, fact_key(draft)), self._opposite(draft)
        here, value = self._stated.get(place, []), normalised(draft.value)
        same = [one for one in here if normalised(one.value) == value]
        others = [one for one in here if normalised(one.value) != value]
        beside = self._beside(place) if draft.functional else []
        for key in (opposite, *beside):
            others += self._stated.get(key, []) if key else []
        end = next_end(at, same, others, self._ends_of(draft, at))
        known = same_spell(at, same, end)
        begins = _begins(draft, at, [one for one in others if one.holds(at)])
        for key in (place, opposite, *beside):
            if key and (known is None or self._current.get(key) is not known):
                self._close(key, at, begins)
                self._end_earlier(key, at, begins, known)
        if known is not None:
            self.plan.said_again.append((draft, known))
            known.say(at)
            return
        self._end_apart(draft, at, begins)
        self._leave(draft, at, begins, others)
        fact = PlannedFact(
            memory_id=self._new_id(),
            draft=draft,
            key=place[1],
            valid_from=begins,
            valid_until=end.of(begins) if end else None,
        )
        self.plan.opened.append(fact)
        self.plan.bounds += [end.row_id] if end else []
        self._add(place, Stated(fact.memory_id, draft.value, begins, fact.valid_until, [at]))

    def _leave(
        self, draft: FactDraft, at: datetime, begins: datetime, before: Sequence[Stated]
    ) -> None:
        """End what a move leaves behind. before: the homes stated, whenever that was."""
        slot = LEFT_BEHIND.get(draft.slot, "")
        place = (draft.fact_type, fact_key(replace(draft, slot=slot, functional=True)))
        left = self._current.get(place) if slot else None
        if left is None or same_place(normalised(left.value), normalised(draft.value)):
            return
        homes = [one.value for one in before if one.valid_until == begins]
        worked = normalised(left.value)
        lived = any(same_place(worked, normalised(home)) for home in homes)
        if lived or (draft.change and not homes):
            self._close(place, at, begins)

    def _as_kept(self, draft: FactDraft) -> FactDraft:
        """Return a draft of a slot of nobody's ontology as that slot was stated: with one value."""
        one = (draft.fact_type, subject_key(draft)) in self._stated
        return replace(draft, functional=True) if one and draft.fact_type == "custom" else draft

    def _beside(self, place: tuple[str, str]) -> list[tuple[str, str]]:
        """Return where other values of a slot stand that holds one value from now on."""
        return [one for one in self._stated if one[0] == place[0]
                and one[1].startswith(f"{place[1]}:")]  # fmt: skip

    @staticmethod
    def _opposite(draft: FactDraft) -> tuple[str, str] | None:
        slot = opposite_slot(draft.slot)
        return (draft.fact_type, fact_key(replace(draft, slot=slot))) if slot else None

    def _ends_of(self, draft: FactDraft, at: datetime) -> list[ValidityEnd]:
        """Return the retractions of what a draft says."""
        place, value = subject_key(draft), normalised(draft.value)
        return [
            ValidityEnd(one.said_at, one.valid_until or one.said_at, one.retraction_id)
            for one in self._retractions
            if one.said_at > at
            and (one.fact_type, one.subject_key) == (draft.fact_type, place)
            and one.value in ("", value)
        ]

    def retract(self, draft: FactDraft, at: datetime) -> None:
        wanted, slot = normalised(draft.value), subject_key(draft)
        for place, current in list(self._current.items()):
            same_slot = place[0] == draft.fact_type and (
                place[1] == slot or place[1].startswith(f"{slot}:")
            )
            if same_slot and wanted in ("", normalised(current.value)):
                until = current.valid_from if draft.denies else _begins(draft, at, [current])
                self._close(place, at, until)
        for place in list(self._stated) if self._now else []:
            if place[0] == draft.fact_type and f"{place[1]}:".startswith(f"{slot}:"):
                self._end_earlier(place, at, _begins(draft, at, []), None, wanted)
        retraction = Retraction(
            retraction_id=self._new_id(),
            fact_type=draft.fact_type,
            slot=draft.slot,
            subject_key=slot,
            value=wanted,
            said_at=at,
            valid_until=draft.valid_from if _begins(draft, at, []) < at else None,
        )
        self._retractions.append(retraction)
        self.plan.retracted.append((retraction, (draft.event_id, *draft.other_event_ids)))

    def _end_earlier(
        self,
        place: tuple[str, str],
        at: datetime,
        until: datetime,
        kept: Stated | None,
        value: str = "",
    ) -> None:
        """Move ends that are known and did not come yet, of what was not said after at.

        value: normalised, of what ends; "" for all.
        """
        for one in self._stated.get(place, []):
            to_come = self._now and one.valid_until and one.valid_until > max(until, self._now)
            if not to_come or one is kept or value not in ("", normalised(one.value)):
                continue
            if one.holds(at) and not one.said_after(at):
                self._end(one, until)

    def _close(self, place: tuple[str, str], at: datetime, until: datetime) -> None:
        """End what is current as of until, unless it was said after the moment at."""
        current = self._current.get(place)
        if current is None or current.said_after(at):
            return
        del self._current[place]
        self._end(current, until)

    def _end(self, one: Stated, until: datetime) -> None:
        one.valid_until = until = max(until, one.valid_from)
        for position, fact in enumerate(self.plan.opened):
            if fact.memory_id == one.row_id:
                self.plan.opened[position] = replace(fact, valid_until=until)
                return
        self.plan.closed[MemoryId(one.row_id)] = until


def _begins(draft: FactDraft, at: datetime, against: Sequence[Stated]) -> datetime:
    """Return when what a draft says began to hold, after what it speaks against did."""
    told = draft.valid_from
    if told is None or told > at or any(told <= one.valid_from for one in against):
        return at
    return told
