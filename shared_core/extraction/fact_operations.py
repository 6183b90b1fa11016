"""Turn the operations of a model's answer on facts into drafts, and drop inadmissible ones. Pure.

A model is not trusted with the ends of facts:
- An operation needs the number of a shown user turn.
- It may only name a fact that was shown with an id; the slot and subject of that fact stay.
- A new value must share a word with the turns, or stand in a known fact, on which the new one then
  rests. So must a new subject, if it is no known person.
- A turn ends or doubts few facts, fewer still that it does not mention, and none if it gives orders
  to the memory.
- Only a known slot or one of the same answer can be ended without an id. An end without a value is
  allowed once per turn, for a slot with one value.
- Slots of the ontology hold one value or many whatever the model says; it decides for its own.
- What the user denied is not added again, unless the answer ends the denial.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from shared_core.core.domain import (
    UNKNOWN_START,
    USER,
    Emotion,
    Event,
    FactDraft,
    HeldFact,
    KnownPerson,
    MemoryId,
)
from shared_core.extraction.evidence import SECRET, USER_WORDS, Evidence, date_of, end_of
from shared_core.extraction.held_listing import NOTHING_HELD, HeldListing, written_subject
from shared_core.extraction.llm_schema import CONFIDENCE, FactOperation
from shared_core.nlp.affect import fact_importance
from shared_core.nlp.kinship import entities_of
from shared_core.nlp.rules import load_rules
from shared_core.nlp.slots import (
    DENIED,
    Slot,
    about_slot,
    denial_slot,
    is_kin,
    is_name_slot,
    slot_about,
    slot_of,
    slots_named,
)
from shared_core.nlp.text import language, normalised, search_terms

MAX_BARE_RETRACTIONS: Final = 1
"""Maximum number of ends in one turn that name a slot but neither a fact nor a value."""
MAX_ENDS: Final = 8
"""Maximum number of known facts that one turn ends or doubts."""
MAX_UNNAMED_ENDS: Final = 3
"""Maximum number of these facts that the turn does not name by a word."""
ENDED_SHARE: Final = 4
"""An answer may end the facts shown divided by this, if the limits above are lower.

A death or a layoff ends many facts at once.
"""
OWN: Final = re.compile(
    r"^(?:(?:the )?user's|users'|my|our|用户的?|[我咱]们?的?)\s*(?=\S)", re.IGNORECASE
)
"""What stands before the word for a relative of the user."""
MAX_SCOPE_CHARACTERS: Final = 24
"""Maximum length of the scope in the name of a slot."""
PLAN: Final = "plan"
TO_COME: Final = (PLAN, "wish")
"""Ends of the names of slots whose values may come true."""

_Given = TypeVar("_Given")
_Admitted = TypeVar("_Admitted")


class Inadmissible(Exception):
    """An operation is not believed; the message says why, without a word of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a fact belongs: its subject, its slot, and the facts that identify the subject."""

    subject: str
    slot: Slot
    people: tuple[MemoryId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """An operation with its user turn, further turns, and the known fact it is about, if any."""

    item: FactOperation
    turn: Event
    others: tuple[str, ...]
    held: HeldFact | None = None
    place: _Place | None = None


class FactDrafting:
    """Turns the operations on facts of one answer into drafts.

    listing: the facts that the model was shown. people: those whom the user named before.
    pattern: name of the drafts' origin. ended: facts that have ended.
    """

    def __init__(
        self,
        evidence: Evidence,
        pattern: str,
        listing: HeldListing = NOTHING_HELD,
        people: Sequence[KnownPerson] = (),
        ended: Sequence[HeldFact] = (),
    ) -> None:
        self._evidence = evidence
        self._pattern = pattern
        self._held = listing.facts
        self._ended = [one for one in ended if one.ended_at is not None]
        self._relatives: list[tuple[str, str]] = []
        self._touched: set[MemoryId] = set()
        self._named = {name.casefold(): one for name, one in entities_of(people).items()}
        self._told_at = {one.memory_id: one.told_at for one in people}

    def drafts(
        self, items: Iterable[FactOperation], emotions: Mapping[str, Emotion]
    ) -> list[FactDraft]:
        """Return the drafts in the order of their turns."""
        items = list(items)
        ids = {one.id for one in items}
        self._touched = {one.memory_id for name, one in self._held.items() if name in ids}
        self._relatives = [
            *((one.slot, one.value) for one in self._held.values() if is_name_slot(one.slot)),
            *((slot.name, one.value) for one in items if one.op == "add" and one.value
              if (slot := slot_of(one.slot)) and is_name_slot(slot.name)),
        ]  # fmt: skip
        read = list(self._admissible(self._read, items))
        read = list(self._admissible(partial(self._undenied, read), read))
        read = self._without_contradictions(read)
        read = self._without_mass_ends(read)
        found: dict[tuple[str, ...], FactDraft] = {}
        bare: Counter[str] = Counter()
        for drafts in self._admissible(lambda one: self._drafts_of(one, found.values()), read):
            for draft in drafts:
                value = normalised(draft.value)
                bare[draft.event_id] += draft.operation == "retract" and not value
                key = (draft.event_id, draft.subject, draft.slot, value, draft.operation)
                found.setdefault(key, replace(draft, emotion=emotions.get(draft.event_id)))
        kept = [
            draft for draft in found.values() if draft.value or self._one_bare(bare[draft.event_id])
        ]
        return sorted(kept, key=lambda draft: self._evidence.order[draft.event_id])

    def _admissible(
        self, admit: Callable[[_Given], _Admitted], given: Iterable[_Given]
    ) -> Iterator[_Admitted]:
        """Yield what is admitted of the given elements, and count the others."""
        for one in given:
            try:
                admitted = admit(one)
            except Inadmissible as error:
                self._evidence.leave_out(str(error))
            else:
                yield admitted

    def _read(self, item: FactOperation) -> _Read:
        """Return an operation with its evidence and the fact it is about."""
        source = self._evidence.source(item.turns)
        if source is None:
            raise Inadmissible("fact without a turn of the user")
        if SECRET.search(item.statement):
            raise Inadmissible("fact with a secret or no slot")
        read = _Read(item=item, turn=source[0], others=source[1])
        if item.id and item.op != "add":
            held = self._held.get(item.id)
            if held is None:
                raise Inadmissible("operation on a fact that was not shown")
            return replace(read, held=held)
        place = self._place(item, read.turn)
        held = self._same(item, place)
        at = read.turn.occurred_at
        begins = held.begins_at if held else None
        if item.op == "add" and begins and begins > at and date_of(item.since, at) != begins:
            return replace(read, item=item.model_copy(update={"op": "update"}), held=held)
        if held is not None and item.op == "add":
            is_past = self._is_past(item, read.turn, item.slot)
            read = replace(read, item=item.model_copy(update={"op": "end" if is_past else "keep"}))
        return replace(read, place=place, held=held)

    def _undenied(self, read: Sequence[_Read], one: _Read) -> _Read:
        """Return an operation, unless it adds what the user denied and does not end the denial."""
        if one.item.op != "add" or one.place is None:
            return one
        denial = replace(
            one.place, slot=replace(one.place.slot, name=denial_slot(one.place.slot.name))
        )
        value = normalised(one.item.value)
        for held in self._held.values():
            ended = any(other.held is held and other.item.op in ("end", "update") for other in read)
            if _is_at(held, denial) and normalised(held.value) == value and not ended:
                raise Inadmissible("addition of what the user denied")
        return one

    @staticmethod
    def _is_past(item: FactOperation, turn: Event, name: str) -> bool:
        """Tell whether a fact of a slot ended before its turn; an end without a date did."""
        end = end_of(item.until, turn.occurred_at)
        begun = date_of(item.until, turn.occurred_at)
        is_plan = (slot := slot_of(name)) is not None and slot.name.endswith(PLAN)
        if end is None or begun is None:
            return bool(item.until) and not is_plan
        return end <= turn.occurred_at or (begun <= turn.occurred_at and not is_plan)

    def _place(self, item: FactOperation, turn: Event) -> _Place:
        slot = slot_of(item.slot)
        if slot is None:
            raise Inadmissible("fact with a secret or no slot")
        if item.where:
            scope = re.sub(r"\W+", "_", item.where.casefold()).strip("_")[:MAX_SCOPE_CHARACTERS]
            slot = replace(slot, name=f"{slot.name}.{scope}", known=False)
        if item.subject.casefold() in USER_WORDS:
            return self._of_one(_Place(subject=USER, slot=slot), item)
        subject = OWN.sub("", item.subject)
        people: tuple[MemoryId, ...] = ()
        if not (self._evidence.says(subject) or self._names_relative(subject)):
            people = self._identified(subject, turn) or self._held_about(subject)
            if not people:
                raise Inadmissible("fact about somebody nobody named")
            named = self._named.get(subject.casefold())
            subject = named.subject if named else subject
        own_slot, slot = slot, slot_about(subject, slot)
        if slot.name.startswith("relation.") and (slot != own_slot or is_kin(subject)):
            subject = USER
        return self._of_one(_Place(subject=subject, slot=slot, people=people), item)

    def _names_relative(self, subject: str) -> bool:
        """Tell whether the turns have a word for the same relative: "mother" for "mom"."""
        relation = slot_of(f"relation.{subject}") if is_kin(subject) else None
        return relation is not None and relation.name in slots_named(self._evidence.text)

    def _of_one(self, place: _Place, item: FactOperation) -> _Place:
        """Return the place of a fact about "the daughter" as that of the one its statement names.

        With several daughters it is about none of them, if the statement names none.
        """
        parts = place.slot.name.split(".")
        if place.subject != USER or parts[0] != "relation" or len(parts) < 3:
            return place
        names = {value for slot, value in self._relatives if slot == ".".join(parts[:2])}
        if len({normalised(one) for one in names}) < 2:
            return place
        named = [one for one in names if _names(item.statement, one)]
        if len(named) != 1:
            raise Inadmissible("fact about one of several relatives without the name")
        return replace(place, subject=named[0])

    def _identified(self, name: str, turn: Event) -> tuple[MemoryId, ...]:
        """Return the fact that named a person before a turn; () if nobody is known by the name."""
        person = self._named.get(name.casefold())
        fact = person.source_fact if person else None
        return (fact,) if fact and self._told_at[fact] <= turn.occurred_at else ()

    def _said_or_held(self, value: str, subject: str, slot: Slot) -> tuple[MemoryId, ...]:
        """Return the known fact that supports a value, or () if the turns say all its words.

        "I got it!" says no value: the plan does. Raises Inadmissible if neither says it.
        """
        told = self._held_about(value) if is_name_slot(slot.name) else ()
        told = told or self._held_with(value, subject)
        if value and not (told or self._evidence.says(value)):
            raise Inadmissible("fact with a value nobody said")
        return told

    def _held_with(self, value: str, subject: str) -> tuple[MemoryId, ...]:
        """Return the known fact about a subject that has all words of a value, or ().

        Only plans, wishes, foretold facts and facts that the same answer changes count. If the
        turns say all words, no fact is needed.
        """
        terms = set(search_terms(value))
        if terms <= self._evidence.terms or (not terms and self._evidence.names(value)):
            return ()
        found = [
            one
            for one in (*self._held.values(), *self._ended)
            if normalised(one.subject) == normalised(subject)
            and (one.memory_id in self._touched or one.begins_at or one.slot.endswith(TO_COME))
            and terms <= set(search_terms(f"{one.value} {one.statement}"))
        ]
        found.sort(key=lambda one: (one.memory_id not in self._touched, len(one.statement)))
        return tuple(one.memory_id for one in found[:1])

    def _held_about(self, name: str) -> tuple[MemoryId, ...]:
        """Return the known fact that names a person or is about them, or ()."""
        found = [
            one
            for one in self._held.values()
            if normalised(name) in (normalised(one.subject), normalised(one.value))
        ]
        found.sort(key=lambda one: not is_name_slot(one.slot))
        return tuple(one.memory_id for one in found[:1])

    def _same(self, item: FactOperation, place: _Place) -> HeldFact | None:
        """Return the shown fact that an operation without an id is about, or None."""
        here = [one for one in self._held.values() if _is_at(one, place)]
        value = normalised(item.value)
        if item.op == "update" or (item.op != "add" and not value):
            return here[0] if len(here) == 1 else None
        return next((one for one in here if normalised(one.value) == value), None)

    def _without_contradictions(self, read: Sequence[_Read]) -> list[_Read]:
        """Drop all but the first operation of a turn on the same known fact."""
        kept: dict[tuple[object, str], _Read] = {}
        for place, one in enumerate(read):
            fact: object = one.held.memory_id if one.held else place
            if kept.setdefault((fact, one.turn.event_id), one) is not one:
                self._evidence.leave_out("second operation on a fact in one turn")
        return list(kept.values())

    def _without_mass_ends(self, read: Sequence[_Read]) -> list[_Read]:
        """Drop the ends and doubts of turns that have too many of them, or give orders."""
        ends: Counter[str] = Counter()
        unnamed: Counter[str] = Counter()
        orders = {one.turn.event_id for one in read if one.held and gives_orders(one.turn.text)}
        for one in read:
            if _ends(one):
                ends[one.turn.event_id] += 1
                unnamed[one.turn.event_id] += not self._mentions(one)
        share = (
            len(self._held) // ENDED_SHARE if ends.total() * ENDED_SHARE <= len(self._held) else 0
        )
        most, most_unnamed = max(MAX_ENDS, share), max(MAX_UNNAMED_ENDS, share)
        kept = []
        for one in read:
            turn = one.turn.event_id
            if turn in orders and one.held and one.item.op != "keep":
                self._evidence.leave_out("change by a turn that gives orders to the memory")
            elif _ends(one) and (ends[turn] > most or unnamed[turn] > most_unnamed):
                self._evidence.leave_out("retraction of everything")
            else:
                kept.append(one)
        return kept

    def _mentions(self, read: _Read) -> bool:
        """Tell whether the turns of an operation have a word of the known fact."""
        assert read.held is not None
        about = "" if read.held.subject == USER else read.held.subject
        said = self._said(read)
        words = {term for term in search_terms(f"{about} {read.held.value}") if len(term) > 1}
        return not words.isdisjoint(search_terms(said)) or _names(said, read.held.value)

    def _states(self, read: _Read, value: str) -> bool:
        """Tell whether the turns of an operation have all words of a value."""
        said, words = self._said(read), search_terms(value)
        return set(words).issubset(search_terms(said)) if words else _names(said, value)

    def _said(self, read: _Read) -> str:
        ids = {read.turn.event_id, *read.others}
        return " ".join(one.text for one in self._evidence.turns.values() if one.event_id in ids)

    def _drafts_of(self, read: _Read, before: Iterable[FactDraft]) -> list[FactDraft]:
        item, held = read.item, read.held
        if held is None:
            return self._unshown(read, before)
        if held.is_ending and item.op in ("keep", "update", "end"):
            return self._end_moved(read, held)
        differs = normalised(item.value) != normalised(held.value)
        if item.op == "update" and (differs or self._is_moved(read, held)):
            return self._replaced(read, held)
        if item.op == "update" and self._is_reworded(read, held):
            return self._reworded(read, held)
        if item.op == "update" and item.id and _differs(item.statement, held.statement):
            self._evidence.leave_out("update in other words that the turn does not say")
        if item.op in ("keep", "update"):
            stated = self._states(read, held.value)
            return [replace(self._again(read, held), confirms=not stated)]
        if item.op == "deny":
            return self._denied(read, replace(self._of(read, held), denies=True))
        return [self._of(read, held)]

    def _end_moved(self, read: _Read, held: HeldFact) -> list[FactDraft]:
        """Return the drafts that retract or move the future end of a known fact."""
        item, end = read.item, self._of(read, held)
        if item.op == "update" and normalised(item.value) != normalised(held.value):
            return self._replaced(read, held)
        rivals = (one for one in self._held.values() if one.begins_at == held.ends_at)
        is_rivalled = any((one.slot, one.subject) == (held.slot, held.subject) for one in rivals)
        if is_rivalled or (item.op == "end" and not (end.valid_from and end.foretells)):
            return [end if item.op == "end" else self._again(read, held)]
        until = end_of(item.until, read.turn.occurred_at)
        again = replace(self._again(read, held), valid_from=None, valid_until=until)
        if not self._states(read, held.value):
            again = replace(again, people=(*again.people, held.memory_id))
        return [replace(end, operation="retract", valid_from=None), again]

    def _denied(self, read: _Read, end: FactDraft) -> list[FactDraft]:
        """Return the drafts that end what is denied as never true, and hold the denial."""
        statement = read.item.statement
        if not (statement and end.value):
            raise Inadmissible("denial without a value or a statement")
        slot = denial_slot(end.slot)
        denial = replace(
            end, operation="assert", denies=False, slot=slot, statement=statement,
            functional=False, language=language(statement), valid_from=None,
        )  # fmt: skip
        return [end, denial]

    def _replaced(self, read: _Read, held: HeldFact) -> list[FactDraft]:
        """Return the drafts that put another value in the place of a known fact, or doubt it."""
        item = read.item
        told = self._held_with(item.value, held.subject)
        if not item.value or not (told or self._evidence.says(item.value)):
            # The new value is the model's own word, but the turn does speak of a change.
            self._evidence.leave_out("update without a value that somebody said")
            return [replace(self._of(read, held), operation="doubt")]
        statement = item.statement
        if not statement or statement == held.statement:
            old = re.compile(re.escape(held.value), re.IGNORECASE)
            statement = old.sub(lambda _: item.value, held.statement, count=1)
        if statement == held.statement:
            statement = f"{held.statement.rstrip('.。')} → {item.value}"
        again = self._again(read, held)
        new = replace(
            again,
            people=again.people + told,
            value=item.value,
            statement=statement,
            language=language(statement),
        )
        end = replace(self._of(read, held), valid_from=new.valid_from, foretells=True, denies=False)
        new = self._in_time(read, new)
        if held.begins_at and (
            held.begins_at > read.turn.occurred_at or self._is_moved(read, held)
        ):
            begins = new.valid_from or (held.begins_at if item.id else None)
            new = replace(new, valid_from=begins, foretells=True)
            return [replace(end, valid_from=None, denies=True), new]
        is_past = new.valid_until is not None and new.valid_until <= read.turn.occurred_at
        return [end, new] if is_past or not held.functional else [new]

    def _is_reworded(self, read: _Read, held: HeldFact) -> bool:
        """Tell whether an operation has another statement, with the same value, that turns support.

        A turn must say one of the new words; if words are only left out, one of the value. What is
        to begin or to end, allergies and denials are not reworded.
        """
        item = read.item
        words, before = set(search_terms(item.statement)), set(search_terms(held.statement))
        is_to_come = held.ends_at is not None or bool(
            held.begins_at and held.begins_at > read.turn.occurred_at
        )
        if is_to_come or item.since or item.until or not (item.id and words) or words == before:
            return False
        if by_word_only(held.slot):
            return False
        said = set(search_terms(self._said(read)))
        return not said.isdisjoint(words - before) if words - before else self._mentions(read)

    def _reworded(self, read: _Read, held: HeldFact) -> list[FactDraft]:
        """Return the drafts that put another statement in the place of that of a known fact."""
        statement, again = read.item.statement, self._again(read, held)
        people = tuple(dict.fromkeys((*again.people, held.memory_id)))
        new = replace(again, statement=statement, language=language(statement), people=people)
        return [replace(self._of(read, held), valid_from=new.valid_from), new]

    @staticmethod
    def _is_moved(read: _Read, held: HeldFact) -> bool:
        """Tell whether an operation changes the day of a foretold fact or of a plan."""
        item, at = read.item, read.turn.occurred_at
        if held.begins_at is not None:
            is_to_come = held.begins_at > at
            return (is_to_come and not item.id) or date_of(item.since, at) not in (
                None, held.begins_at,
            )  # fmt: skip
        return held.ends_at is not None and end_of(item.until, at) not in (None, held.ends_at)

    def _again(self, read: _Read, held: HeldFact) -> FactDraft:
        """Return the draft that states a known fact; it rests on the naming of its subject."""
        unnamed = held.subject != USER and not self._evidence.names(held.subject)
        people = self._identified(held.subject, read.turn) if unnamed else ()
        since = date_of(read.item.since, read.turn.occurred_at)
        return replace(
            self._of(read, held), operation="assert", denies=False, people=people,
            valid_from=since, foretells=True,
        )  # fmt: skip

    def _of(self, read: _Read, held: HeldFact) -> FactDraft:
        """Return the draft that ends or doubts a known fact."""
        item = read.item
        until = date_of(item.until or item.since, read.turn.occurred_at)
        begins = held.begins_at or read.turn.occurred_at
        is_moot = begins > read.turn.occurred_at and (until is None or until <= begins)
        return FactDraft(
            fact_type=held.fact_type,
            slot=held.slot,
            value=held.value,
            statement=held.statement,
            event_id=read.turn.event_id,
            functional=held.functional,
            confidence=CONFIDENCE,
            pattern=self._pattern,
            language=language(held.statement),
            operation="doubt" if item.op == "doubt" else "retract",
            other_event_ids=read.others,
            subject=self._written(held),
            valid_from=until,
            foretells=item.op == "end",
            denies=is_moot and item.op == "end",
            importance=fact_importance(held.slot),
        )

    def _written(self, held: HeldFact) -> str:
        """Return the subject of a known fact as its statement writes it."""
        written, person = written_subject(held), self._named.get(held.subject)
        return person.subject if person and written == held.subject else written

    def _unshown(self, read: _Read, before: Iterable[FactDraft]) -> list[FactDraft]:
        """Return the drafts of an operation on a fact that was not shown."""
        if read.item.op == "deny":
            assert read.place is not None
            end = self._new(replace(read, item=read.item.model_copy(update={"op": "add"})), before)
            return self._denied(read, replace(end, operation="retract", denies=True))
        draft = self._new(read, before)
        if draft.operation == "assert":
            draft = self._in_time(read, draft)
        return [draft]

    def _in_time(self, read: _Read, draft: FactDraft) -> FactDraft:
        """Return a new fact with its end: in the past, or when a plan lapses."""
        item, turn = read.item, read.turn
        if not item.until:
            return draft
        end = end_of(item.until, turn.occurred_at)
        if not self._is_past(item, turn, draft.slot):
            return replace(draft, valid_until=end)
        until = date_of(item.until, turn.occurred_at)
        if until is None or (draft.valid_from and until <= draft.valid_from):
            until = end
        until = min(until or turn.occurred_at, turn.occurred_at)
        place = read.place
        if place and any(
            _is_at(one, place) and normalised(one.value) == normalised(draft.value)
            for one in self._ended
        ):
            raise Inadmissible("past fact that is known already")
        begins = draft.valid_from if draft.valid_from and draft.valid_from < until else None
        return replace(draft, valid_from=begins or UNKNOWN_START, valid_until=until)

    def _new(self, read: _Read, before: Iterable[FactDraft]) -> FactDraft:
        """Return the draft of an operation on a fact that was not shown."""
        item, place = read.item, read.place
        assert place is not None
        slot = place.slot
        if item.op == "doubt":
            raise Inadmissible("doubt about a fact that was not shown")
        people = place.people + self._said_or_held(item.value, place.subject, slot)
        functional = slot.functional or (item.single and not slot.known)
        if item.op == "end":
            added = _added(before, place, item.value)
            if not slot.known and added is None:
                raise Inadmissible("retraction that names nothing known")
            functional = added.functional if added else slot.functional
            if not (item.value or functional):
                raise Inadmissible("retraction that names nothing known")
        elif not item.value or not item.statement:
            raise Inadmissible("fact without a value")
        return FactDraft(
            fact_type=slot.fact_type,
            slot=slot.name,
            value=item.value,
            statement=item.statement,
            event_id=read.turn.event_id,
            functional=functional,
            confidence=CONFIDENCE,
            pattern=self._pattern,
            language=language(item.statement),
            operation="retract" if item.op == "end" else "assert",
            other_event_ids=read.others,
            subject=place.subject,
            valid_from=date_of(item.since, read.turn.occurred_at),
            foretells=True,
            importance=fact_importance(slot.name),
            people=people,
        )

    def _one_bare(self, in_turn: int) -> bool:
        if in_turn > MAX_BARE_RETRACTIONS:
            self._evidence.leave_out("retraction of everything")
        return in_turn <= MAX_BARE_RETRACTIONS


def by_word_only(slot: str) -> bool:
    """Tell whether facts of a slot change by the user's own word alone: allergies and denials."""
    return any(part == "allergy" or part.startswith(DENIED) for part in slot.split("."))


def gives_orders(text: str) -> bool:
    """Tell whether a text gives orders to the memory: "delete all memories"."""
    return any(
        guard.unsafe and guard.scope == "turn" and guard.regex.search(text)
        for lang in ("en", "zh")
        for guard in load_rules(lang).guards
    )


def _names(text: str, value: str) -> bool:
    return bool(normalised(value)) and normalised(value) in normalised(text)


def _differs(statement: str, held: str) -> bool:
    return bool(statement) and normalised(statement) != normalised(held)


def _ends(read: _Read) -> bool:
    return read.held is not None and read.item.op in ("end", "deny", "doubt")


def _is_at(held: HeldFact, place: _Place) -> bool:
    """Tell whether a known fact has this subject and slot, by name or by relation."""
    if normalised(held.subject) != normalised(place.subject):
        return False
    return place.slot.name in (held.slot, about_slot(place.subject, held.slot))


def _added(before: Iterable[FactDraft], place: _Place, value: str) -> FactDraft | None:
    """Return the fact of the same answer that an end without an id is about."""
    return next(
        (
            draft
            for draft in before
            if (draft.operation, draft.subject, draft.slot)
            == ("assert", place.subject, place.slot.name)
            and normalised(value) in (normalised(draft.value), "")
        ),
        None,
    )
