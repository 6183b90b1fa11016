"""Compares extracted facts with known ones: assert, replace, end, doubt, or confirm. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from uuid import UUID

from shared_core.core.domain import UNKNOWN_START, USER, FactDraft, MemoryId
from shared_core.knowledge.validity import (
    Stated,
    ValidityEnd,
    first_of,
    next_ends,
    next_value,
    same_spell,
    still_ending,
)
from shared_core.nlp.similarity import same_place
from shared_core.nlp.slots import about_slot, denial_slot, relation_slots
from shared_core.nlp.text import normalised
from shared_core.ports.runs import KnownFact, PlannedFact, Retraction

OPPOSITES = {"like": "dislike", "dislike": "like"}
"""Opposite slots: a value in one excludes the same value in the other."""

MAX_KEY_BYTES = 1_500
"""Maximum bytes of a fact key; an index row of PostgreSQL holds 2,704 bytes."""

LEFT_BEHIND = {"residence": "work_city"}
"""Slots that a move ends: the city of work, if the user lived there or the old home is unknown."""

ATTRIBUTE = re.compile(r"(relation\.[^.]+)\..")
"""Matches a slot with an attribute of a relation, not with its name."""


@dataclass(slots=True)
class FactPlan:
    """The changes of a run to facts. restated: drafts that restate known facts.

    retracted: retractions and doubts, and their turns. bounds: facts and retractions that ended
    opened facts. doubted: known facts that become doubtful, or with None certain again. moved:
    facts whose end has come, and the earlier end that a word read late gives them.
    """

    opened: list[PlannedFact] = field(default_factory=list)
    closed: dict[MemoryId, datetime] = field(default_factory=dict)
    restated: list[tuple[FactDraft, Stated]] = field(default_factory=list)
    retracted: list[tuple[Retraction, tuple[str, ...]]] = field(default_factory=list)
    bounds: list[UUID] = field(default_factory=list)
    doubted: dict[MemoryId, datetime | None] = field(default_factory=dict)
    moved: dict[MemoryId, datetime] = field(default_factory=dict)

    @property
    def seen_again(self) -> list[tuple[MemoryId, tuple[str, ...]]]:
        """The known facts stated again, and the turns that state each."""
        return [
            (MemoryId(one.row_id), (draft.event_id, *draft.other_event_ids))
            for draft, one in self.restated
        ]

    @property
    def restated_facts(self) -> list[PlannedFact]:
        """The known facts stated again, with the drafts that state them."""
        return [
            PlannedFact(
                memory_id=MemoryId(one.row_id),
                draft=draft,
                key=fact_key(draft),
                valid_from=one.valid_from,
                valid_until=one.valid_until,
            )
            for draft, one in self.restated
        ]

    def ended(self, by: datetime) -> list[MemoryId]:
        """Return the facts of the run that have ended by a moment."""
        stated = [*self.opened, *self.restated_facts]
        past = [one.memory_id for one in stated if one.valid_until and one.valid_until <= by]
        closed = [memory_id for memory_id, until in self.closed.items() if until <= by]
        return list(dict.fromkeys([*closed, *past]))


def doubt_counts(plan: FactPlan) -> dict[str, int]:
    """Return how many facts a run makes doubtful, and certain again, without zeros."""
    marks = [*plan.doubted.values(), *(one.doubted_at for one in plan.opened if one.doubted_at)]
    doubted = sum(at is not None for at in marks)
    counts = {"doubted": doubted, "confirmed": len(marks) - doubted}
    return {name: count for name, count in counts.items() if count}


def fact_key(draft: FactDraft) -> str:
    """Return the key under which at most one fact is current.

    Slot, subject if it is not the user, and value if the slot holds many: "employer",
    "like:jazz", "relation.daughter.age@mia", "relation.daughter.like@mia:jazz".
    """
    place = subject_key(draft)
    return place if draft.functional else _indexable(f"{place}:{normalised(draft.value)}")


def _indexable(key: str) -> str:
    """Return a key that fits an index; a long one is cut and gets its SHA-256 appended."""
    encoded = key.encode()
    if len(encoded) <= MAX_KEY_BYTES:
        return key
    return f"{encoded[:MAX_KEY_BYTES].decode(errors='ignore')}#{sha256(encoded).hexdigest()}"


def subject_key(draft: FactDraft) -> str:
    """Return the key of all values of the slot for one subject."""
    if draft.subject == USER:
        return draft.slot
    return f"{draft.slot}@{re.sub('[@:]', ' ', normalised(draft.subject))}"


def slots_to_read(drafts: Iterable[FactDraft]) -> list[str]:
    """Return the slots whose current facts plan_facts needs.

    These include opposites, names of relations, and other slots about the same person.
    """
    drafts = list(drafts)
    slots = {draft.slot for draft in drafts}
    slots |= {LEFT_BEHIND[slot] for slot in slots & LEFT_BEHIND.keys()}
    for draft in drafts:
        if draft.subject != USER:
            about = about_slot(draft.subject, draft.slot)
            slots.add(about)
            for relation, slot in relation_slots(draft.subject, about or draft.slot).items():
                slots |= {relation, slot}
    beside = {find(slot) for slot in slots for find in (opposite_slot, denial_slot, name_slot)}
    return sorted(slots | beside - {""})


def opposite_slot(slot: str) -> str:
    """Return "dislike" for "like", "relation.son.like" for "relation.son.dislike", else ""."""
    person, dot, name = slot.rpartition(".")
    if dot and not name_slot(slot):
        return ""
    return person + dot + OPPOSITES[name] if name in OPPOSITES else ""


def without_moot(drafts: Sequence[FactDraft]) -> list[FactDraft]:
    """Return the drafts of one turn without ends and doubts of facts that a later one replaces."""
    kept: list[FactDraft] = []
    replaced: set[str] = set()
    for draft in reversed(drafts):
        place = subject_key(draft)
        if draft.operation != "assert" and draft.functional and place in replaced:
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
    """Return the changes that drafts, in the order of their turns, make to the known facts.

    - A fact is only ended by the same slot and subject: by another value of a functional slot, by
      its opposite, or by a retraction.
    - The times of the turns decide, not the order of reading. A fact stated before a known value,
      opposite or retraction becomes history. A retraction ends no fact stated after it. At equal
      times the later reading wins.
    - A fact that a draft tells as past becomes history and ends no current one. If it is current,
      it ends.
    - A period ends at the latest where the next value of its place began, however late that is
      read: ends that are known move to an earlier time.
    - A value that is stated ends the denial of it.
    - A fact begins when its draft says so: after the start of the facts it ends, and not after its
      turn. One that foretells begins later, and ends them then; if it is ended before, it never
      held.
    - A doubt marks the current fact of the same slot, subject and value, unless it was stated after
      the doubt. The mark goes when the fact is stated again after the doubt. It ends nothing.
    - A fact about "my daughter" is about the only daughter with a known name; with two, about
      neither. A fact about a name is about the only relation with that name.

    Args:
        drafts: in the order of their turns.
        known: facts of slots_to_read(drafts), including those whose end came, or became known,
            after the first draft.
        said_at: maps event ids to the times of the turns.
        new_id: makes memory ids.
        retractions: those stated after the first draft, doubts included.
        now: an end after it is still to come.
    """
    fold = _FactFold(known, retractions, new_id, now)
    for draft in drafts:
        states = draft.operation == "assert" and not draft.confirms
        if states or not fold.holds(draft):
            draft = fold.identified(draft)
        at = said_at[draft.event_id]
        if draft.operation == "retract":
            fold.retract(draft, at)
        elif draft.operation == "doubt":
            fold.doubt(draft, at)
        else:
            fold.state(draft, at)
    return fold.plan


class _FactFold:
    """The facts and retractions after each draft, by type and key."""

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
        self._ended_before = {
            fact.memory_id
            for fact in known
            if fact.valid_until and fact.valid_until <= (now or fact.valid_until)
        }
        self._doubted_before = {fact.memory_id: fact.doubted_at for fact in known}
        for fact in known:
            times = sorted(fact.stated_at) or [fact.valid_from]
            one = Stated(
                fact.memory_id, fact.value, fact.valid_from, fact.valid_until, times,
                fact.doubted_at, was_past=self._was_past(fact, times[0]),
            )  # fmt: skip
            self._add((fact.fact_type, fact.key), one)

    def _was_past(self, fact: KnownFact, stated_at: datetime) -> bool:
        """Return whether a fact was told as past: no retraction gave it an end so early."""
        until = fact.valid_until
        if until is None or not fact.valid_from < until <= stated_at:
            return False
        return not any(
            one.valid_until == until
            and f"{fact.key}:".startswith(f"{one.subject_key}:")
            and one.value in ("", normalised(fact.value))
            for one in self._retractions
        )

    def _add(self, place: tuple[str, str], one: Stated) -> None:
        self._stated.setdefault(place, []).append(one)
        if one.valid_until is None:
            self._current[place] = one

    def holds(self, draft: FactDraft) -> bool:
        """Tell whether the fact of a draft is current exactly as the draft names it."""
        current = self._current.get((draft.fact_type, fact_key(draft)))
        return current is not None and normalised(current.value) == normalised(draft.value)

    def identified(self, draft: FactDraft) -> FactDraft:
        """Return the draft with the named person as subject, if the relation is unambiguous."""
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
        """Return a draft about a name as a draft about the only relation with that name."""
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
        """End the same attribute of a person under a bare name or a relation that has ended."""
        about = about_slot(draft.subject, draft.slot) if draft.subject != USER else ""
        if not about:
            return
        keys, name = {key for _, key in self._current}, normalised(draft.subject)
        slots = relation_slots(draft.subject, about).items()
        former = [slot for relation, slot in slots if f"{relation}:{name}" not in keys]
        apart = {fact_key(replace(draft, slot=slot)) for slot in (about, *former)}
        for place in [one for one in self._current if one[1] in apart]:
            self._close(place, at, begins)

    def state_past(self, draft: FactDraft, at: datetime) -> None:
        """Open a fact that ended before its turn, unless it is known, or current and ends so."""
        place, until = (draft.fact_type, fact_key(draft)), draft.valid_until
        assert until is not None
        value = normalised(draft.value)
        same = [one for one in self._stated.get(place, []) if normalised(one.value) == value]
        if held := [one for one in same if one.holds(at)]:
            told_late = all(until <= one.valid_from for one in held)  # it was over when it was told
            over = replace(draft, operation="retract", valid_from=until, denies=told_late)
            self.retract(over, at)
            if not told_late:
                return
            same = [one for one in same if one not in held]
        begins = min(draft.valid_from or UNKNOWN_START, until)
        if draft.functional:
            here = self._stated.get(place, [])
            others = [one for one in here if normalised(one.value) != value]
            until = next_value(begins, until, others)
        ends = [one.of(begins) for one in self._ends_of(draft, at)]
        until = min([until, *ends])
        if begins in ends:
            return  # it was denied
        if any(one.valid_from <= until and (one.valid_until or at) >= begins for one in same):
            return
        fact = PlannedFact(
            memory_id=self._new_id(), draft=draft, key=place[1], valid_from=begins,
            valid_until=until, doubted_at=None,
        )  # fmt: skip
        self.plan.opened.append(fact)
        told = Stated(fact.memory_id, draft.value, begins, until, [at], was_past=True)
        self._add(place, told)
        if draft.functional and draft.valid_from:
            self._bound(place, begins, begins, told)

    def state(self, draft: FactDraft, at: datetime) -> None:
        if draft.valid_until is not None and draft.valid_until <= at:
            self.state_past(draft, at)
            return
        draft = self._as_kept(draft)
        place, opposites = (draft.fact_type, fact_key(draft)), self._opposites(draft)
        here, value = self._stated.get(place, []), normalised(draft.value)
        same = [one for one in here if normalised(one.value) == value]
        others = [one for one in here if normalised(one.value) != value]
        beside = self._beside(place) if draft.functional else []
        for key in (*opposites, *beside):
            others += self._stated.get(key, [])
        self._moved_in_run(draft, at, place, same)
        same, others = still_ending(same, others)
        begins = _begins(draft, at, [one for one in others if one.holds(at)])
        rivals = [one for one in others if begins <= at or one.valid_from >= begins]
        ends = next_ends(at, same, rivals, self._ends_of(draft, at))
        known, end = same_spell(at, same, ends), first_of(ends, begins)
        if draft.confirms and known is None:
            return
        until = _first(end.of(begins) if end else None, _next_beginning(others, begins))
        if until:
            until = next_value(begins, until, [one for one in others if one.was_past])
        fell_through = begins > at and until == begins
        for key in () if fell_through else (place, *opposites, *beside):
            if known is None or self._current.get(key) is not known:
                self._close(key, at, begins)
                self._bound(key, at, max(begins, known.valid_from) if known else begins, known)
        if known is not None:
            self.plan.restated.append((draft, known))
            known.add(at)
            if known.doubted_at is not None and known.doubted_at <= at:
                self._mark(known, None)
            return
        if not fell_through:
            self._end_apart(draft, at, begins)
            self._leave(draft, at, begins, others)
        fact = PlannedFact(
            memory_id=self._new_id(),
            draft=draft,
            key=place[1],
            valid_from=begins,
            valid_until=_first(until, _lapses(draft, begins)),
            doubted_at=None if end else self._later_doubt(draft, at),
        )
        self.plan.opened.append(fact)
        self.plan.bounds += [end.row_id] if end else []
        opened = Stated(
            fact.memory_id, draft.value, begins, fact.valid_until, [at], fact.doubted_at
        )
        self._add(place, opened)

    def _moved_in_run(
        self, draft: FactDraft, at: datetime, place: tuple[str, str], same: Sequence[Stated]
    ) -> None:
        """Undo what this run foretold, or ended for a future day, if a draft contradicts it."""
        opened = {MemoryId(one.memory_id) for one in self.plan.opened}
        for one in same:
            begins = draft.valid_from or at
            is_current = self._current.get(place) is one
            if (
                one.row_id in opened
                and is_current
                and one.is_to_come(at)
                and one.valid_from != begins
            ):
                del self._current[place]
                self._end(one, one.valid_from)
                self._go_on(place, one)
            elif self.plan.closed.get(MemoryId(one.row_id), at) > at and not any(
                other.valid_from == one.valid_until for other in self._stated[place]
            ):
                self._reopen(place, one)

    def _leave(
        self, draft: FactDraft, at: datetime, begins: datetime, before: Sequence[Stated]
    ) -> None:
        """End the workplace that a move leaves behind. before: all stated homes."""
        slot = LEFT_BEHIND.get(draft.slot, "") if begins <= at else ""
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
        """Return a draft of a custom slot as functional, if the slot was stated so before."""
        one = (draft.fact_type, subject_key(draft)) in self._stated
        return replace(draft, functional=True) if one and draft.fact_type == "custom" else draft

    def _beside(self, place: tuple[str, str]) -> list[tuple[str, str]]:
        """Return the places of other values of a slot that becomes functional."""
        return [one for one in self._stated if one[0] == place[0]
                and one[1].startswith(f"{place[1]}:")]  # fmt: skip

    @staticmethod
    def _opposites(draft: FactDraft) -> list[tuple[str, str]]:
        """Return the places of what a value excludes: its opposite, and the denial of it."""
        slot, denial = opposite_slot(draft.slot), denial_slot(draft.slot)
        opposite = [replace(draft, slot=slot)] if slot else []
        denied = replace(draft, slot=denial, functional=False)
        return [(draft.fact_type, fact_key(one)) for one in (*opposite, denied)]

    def _ends_of(self, draft: FactDraft, at: datetime) -> list[ValidityEnd]:
        """Return the retractions of the fact of a draft."""
        return [
            ValidityEnd(one.said_at, one.valid_until or one.said_at, one.retraction_id)
            for one in self._stated_against(draft, at)
            if not one.is_doubt
        ]

    def _later_doubt(self, draft: FactDraft, at: datetime) -> datetime | None:
        """Return the time of the latest doubt of the fact of a draft."""
        doubts = [one.said_at for one in self._stated_against(draft, at) if one.is_doubt]
        return max(doubts, default=None)

    def _stated_against(self, draft: FactDraft, at: datetime) -> list[Retraction]:
        """Return the retractions and doubts of the fact of a draft that were stated after it."""
        place, value = subject_key(draft), normalised(draft.value)
        return [
            one
            for one in self._retractions
            if one.said_at > at
            and (one.fact_type, one.subject_key) == (draft.fact_type, place)
            and one.value in ("", value)
            and not (one.value == "" and one.valid_until is not None and one.valid_until < at)
        ]

    def doubt(self, draft: FactDraft, at: datetime) -> None:
        """Mark the current facts of a draft, unless they were stated or doubted after it."""
        for _, current in self._current_of(draft):
            if not current.stated_after(at):
                self._mark(current, max(at, current.doubted_at or at))
        self._keep(draft, at, is_doubt=True)

    def _mark(self, one: Stated, at: datetime | None) -> None:
        """Make a fact doubtful since a moment, or with None certain."""
        one.doubted_at = at
        for position, fact in enumerate(self.plan.opened):
            if fact.memory_id == one.row_id:
                self.plan.opened[position] = replace(fact, doubted_at=at)
                return
        memory_id = MemoryId(one.row_id)
        self.plan.doubted[memory_id] = at
        if at == self._doubted_before[memory_id]:
            del self.plan.doubted[memory_id]

    def _current_of(self, draft: FactDraft) -> list[tuple[tuple[str, str], Stated]]:
        """Return the places and current facts that a retraction or a doubt is about."""
        value, slot = normalised(draft.value), subject_key(draft)
        return [
            (place, current)
            for place, current in self._current.items()
            if place[0] == draft.fact_type
            and (place[1] == slot or place[1].startswith(f"{slot}:"))
            and value in ("", normalised(current.value))
        ]

    def retract(self, draft: FactDraft, at: datetime) -> None:
        value, slot = normalised(draft.value), subject_key(draft)
        for place, current in self._current_of(draft):
            if is_earlier_end(draft, current.stated_at[-1]):
                continue
            until = current.valid_from if draft.denies else _begins(draft, at, [current])
            if current.is_to_come(at):  # it may end after it has begun
                if current.stated_after(at) or not value:
                    continue
                until = max(draft.valid_from or current.valid_from, current.valid_from)
            self._close(place, at, until)
            self._go_on(place, current)
        for place in list(self._stated):
            if place[0] == draft.fact_type and f"{place[1]}:".startswith(f"{slot}:"):
                self._end_earlier(place, at, draft)
        self._keep(draft, at, is_doubt=False)

    def _go_on(self, place: tuple[str, str], fell: Stated) -> None:
        """Reopen the facts that this run ended for a foretold fact, which then fell through."""
        for one in self._stated[place] if fell.fell_through else ():
            if one.valid_until == fell.valid_from and one is not fell:
                self._reopen(place, one)

    def _reopen(self, place: tuple[str, str], one: Stated) -> None:
        """Remove the end of a fact, if this run set it."""
        memory_id, until = MemoryId(one.row_id), one.valid_until
        if self.plan.closed.get(memory_id) == until:
            del self.plan.closed[memory_id]
        else:
            for position, fact in enumerate(self.plan.opened):
                if fact.memory_id == memory_id:
                    self.plan.opened[position] = replace(fact, valid_until=None)
                    break
            else:
                return
        one.valid_until, self._current[place] = None, one

    def _keep(self, draft: FactDraft, at: datetime, *, is_doubt: bool) -> None:
        """Keep a retraction or a doubt for what is stated earlier and read later."""
        retraction = Retraction(
            retraction_id=self._new_id(),
            fact_type=draft.fact_type,
            slot=draft.slot,
            subject_key=subject_key(draft),
            value=normalised(draft.value),
            said_at=at,
            valid_until=_kept_until(draft, at),
            pattern=draft.pattern,
            is_doubt=is_doubt,
        )
        self._retractions.append(retraction)
        self.plan.retracted.append((retraction, (draft.event_id, *draft.other_event_ids)))

    def _bound(
        self, place: tuple[str, str], at: datetime, begins: datetime, kept: Stated | None
    ) -> None:
        """Move the ends that are known to where another value of the place begins."""
        for one in self._stated.get(place, []):
            if one is kept or one.fell_through or not one.outlasts(at, begins):
                continue
            beside = one.was_past or (kept is not None and kept.was_past)
            if one.valid_from < begins or not beside:
                self._end(one, begins)

    def _end_earlier(self, place: tuple[str, str], at: datetime, draft: FactDraft) -> None:
        """Move the ends that are known of what a draft retracts to where it says."""
        for one in self._stated.get(place, []):
            if one.fell_through or normalised(draft.value) not in ("", normalised(one.value)):
                continue
            if at < one.stated_at[0] or is_earlier_end(draft, one.stated_at[-1]):
                continue
            until = one.valid_from if draft.denies else _begins(draft, at, [one])
            if draft.value and one.is_to_come(until):
                until = one.valid_from
            if one.outlasts(at, until):
                self._end(one, until)

    def _close(self, place: tuple[str, str], at: datetime, until: datetime) -> None:
        """End the current fact of a place, unless it begins later or was stated again later."""
        current = self._current.get(place)
        if current is None or current.is_to_come(until):
            return
        if current.stated_after(max(at, until)):
            return
        del self._current[place]
        value = normalised(current.value)
        here = self._stated[place]
        past = [one for one in here if one.was_past and normalised(one.value) != value]
        self._end(current, next_value(current.valid_from, until, past, current.stated_at))

    def _end(self, one: Stated, until: datetime) -> None:
        one.valid_until = until = max(until, one.valid_from)
        for position, fact in enumerate(self.plan.opened):
            if fact.memory_id == one.row_id:
                self.plan.opened[position] = replace(fact, valid_until=until)
                return
        ends = self.plan.moved if one.row_id in self._ended_before else self.plan.closed
        ends[MemoryId(one.row_id)] = until


def is_earlier_end(draft: FactDraft, stated_at: datetime) -> bool:
    """Tell whether a draft without a value ends what ended before a fact was stated.

    "I was laid off in 2019" is about an earlier employer than the one named this year.
    """
    return not draft.value and draft.valid_from is not None and draft.valid_from < stated_at


def _begins(draft: FactDraft, at: datetime, against: Sequence[Stated]) -> datetime:
    """Return when the fact of a draft began, after the start of the facts it ends."""
    begins = draft.valid_from
    if begins is None or (begins > at and not draft.foretells):
        return at
    if any(begins <= one.valid_from <= at for one in against):
        return at
    return begins


def _kept_until(draft: FactDraft, at: datetime) -> datetime | None:
    """Return the end that a retraction names, or None for its own time."""
    if draft.denies:
        return UNKNOWN_START
    return draft.valid_from if _begins(draft, at, []) != at else None


def _next_beginning(others: Iterable[Stated], begins: datetime) -> datetime | None:
    """Return the first beginning of a foretold fact after a moment, or None."""
    later = [one.valid_from for one in others if one.is_to_come(begins)]
    return min(later, default=None)


def _lapses(draft: FactDraft, begins: datetime) -> datetime | None:
    """Return when a plan lapses, unless that is over when it begins."""
    return draft.valid_until if draft.valid_until and draft.valid_until > begins else None


def _first(one: datetime | None, other: datetime | None) -> datetime | None:
    return min(one, other) if one and other else one or other
