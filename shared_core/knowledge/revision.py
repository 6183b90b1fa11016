"""Compares turns with the facts that are held: ends, doubts, new values, and what falls with them.

Rules read a turn without knowing what is held. Here each turn is read again, in order, against the
facts that hold before it. A clause ends a fact if an expression of `nlp/rules/revision_*.toml`
governs the mention of its value, or tells of an event in the life of the person it is about. Where
the clause is hedged the fact is doubted. Everything else changes nothing. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from shared_core.core.domain import (
    USER,
    Event,
    Extraction,
    FactDraft,
    HeldFact,
    KnownPerson,
    MemoryId,
    ThreadId,
)
from shared_core.extraction.rule_reader import PET_KIND, PLAN, guarded, pattern_of
from shared_core.extraction.trained_reader import is_note, is_proposed, is_proposed_end
from shared_core.knowledge.clause_changes import (
    Change,
    ClauseReader,
    SaidClause,
    is_place,
    joined_subject,
    pet_kinds,
)
from shared_core.knowledge.clause_subject import Subjects
from shared_core.knowledge.fact_planning import is_earlier_end
from shared_core.knowledge.held_index import HeldIndex, Key, key_of, relation_of
from shared_core.knowledge.judged_changes import judged_changes
from shared_core.knowledge.tagged_ends import DOUBTS, REPLACES, tagged_ends
from shared_core.nlp.affect import fact_importance
from shared_core.nlp.clauses import clauses, own_sentences
from shared_core.nlp.kinship import gender_of
from shared_core.nlp.relation_schema import triples_of
from shared_core.nlp.rules import RuleSet, kin_word, load_rules
from shared_core.nlp.rules.revision import load_revision_rules, load_revision_tables, value_in
from shared_core.nlp.slots import RELATION, is_name_slot, slot_of
from shared_core.nlp.text import Language, is_question, language, normalised, place_of
from shared_core.nlp.typed_text import as_meant
from shared_core.nlp.vouching import is_embedded

END_CONFIDENCE: Final = 0.8
DOUBT_CONFIDENCE: Final = 0.5
VALUE_CONFIDENCE: Final = 0.7
MAX_READ_CHARACTERS: Final = 6_000
"""Longer turns are pasted texts; only their beginning is compared."""
CORRECTED_TURNS: Final = 2
"""Number of user turns before a bare correction in which the fact it corrects was stated."""
MAX_CORRECTION_CHARACTERS: Final = 60
SPLIT: Final = (".split", ".left-me", ".left-them", ".is-ex", ".divorce-final")
"""Ends of the ids of rules that say a couple has split."""
MAX_SLIP: Final = 12
"""Maximum difference between a number and its correction."""
CORRECTABLE: Final = frozenset({"residence", "employer", "job", "name", "age", "origin", "email"})
DRAFTED: Final = MemoryId(UUID(int=0))


def revised(
    turns: Sequence[Event],
    extraction: Extraction,
    held: Sequence[HeldFact],
    context: Sequence[Event] = (),
    thread_id: ThreadId | None = None,
    *,
    reader: bool = True,
) -> Extraction:
    """Return an extraction with what its turns do to the facts that are held.

    Args:
        turns: the turns that were read, in order.
        extraction: what an extractor drew from them without knowing what is held.
        held: facts that hold, or ended, before the turns.
        context: earlier turns of the thread, in order.
        thread_id: the thread of the turns.
        reader: whether the trained judge of changes compares them, beside the rules.
    """
    revision = Revision(held, context, thread_id, reader=reader)
    drafts = _by_turn(extraction.facts)
    facts = [one for event in turns for one in revision.read(event, drafts.pop(event.event_id, []))]
    facts += [one for left in drafts.values() for one in left]
    return _with_facts(extraction, facts)


def cascaded(extraction: Extraction, held: Sequence[HeldFact]) -> Extraction:
    """Return an extraction with what falls with the facts it ends.

    For an extractor that was shown what is held and says itself what the turns end. Plans with
    somebody whose relation to the user ends, end as well; nothing does if another relation goes on
    or begins, as when friends become a couple. What an ended fact was to replace goes on.
    """
    index = HeldIndex(one for one in held if one.ended_at is None)
    stated = [one for one in extraction.facts if one.operation == "assert"]
    asserted = {key_of(one) for one in stated}
    facts: list[FactDraft] = []
    for draft in extraction.facts:
        facts.append(draft)
        for gone in _ended_by(draft, index):
            index.drop(key_of(gone))
            if draft.denies:
                facts += (_going_on(draft, gone, one) for one in _replaced_by(gone, held, stated))
            if again := _again(draft, gone, stated):
                facts += _with_end_of(gone, again, index)
                continue
            if _is_still_related(gone, index, stated):
                continue
            plans = (("revise.falls.plan", one) for one in _plans_with(gone, index))
            for rule, fallen in (*_fallen(gone, index, draft.pattern), *plans):
                if key_of(fallen) not in asserted:
                    end = _end(draft.event_id, draft.language, fallen, rule)
                    when = draft.valid_from if draft.foretells else None
                    facts.append(replace(end, valid_from=when, foretells=draft.foretells))
                    index.drop(key_of(fallen))
    return _with_facts(extraction, facts)


class Revision:
    """Compares the turns of one thread, one after the other, with what is held before each."""

    def __init__(
        self,
        held: Iterable[HeldFact] = (),
        context: Sequence[Event] = (),
        thread_id: ThreadId | None = None,
        *,
        reader: bool = True,
    ) -> None:
        held = list(held)
        self._judges = reader
        self._thread_id = thread_id
        self._held = HeldIndex(one for one in held if one.ended_at is None)
        self._reader = ClauseReader(self._held, Subjects(self._held), set())
        for fact in held:
            if fact.ended_at is not None:
                self._reader.open_to(fact)
        self._recent: list[str] = []
        for event in context:
            if event.role == "user":
                self._reader.begin_turn(event.event_id)
                self._recent.append(event.event_id)
                for clause in _clauses(event.text, self._reader):
                    self._reader.subjects.observe(clause.text, clause.language)

    def read(self, event: Event, drafts: Sequence[FactDraft]) -> list[FactDraft]:
        """Return the drafts of a turn with what the turn does to the facts held before it."""
        if event.role != "user":
            return self._take_in(event, drafts)
        self._reader.begin_turn(event.event_id)
        corrected = self._corrected(event)
        over = [one for one in drafts if is_proposed_end(one)]
        unsure = [one for one in drafts if one not in over and self._is_rash(one)]
        drafts = [one for one in drafts if one not in over and one not in unsure]
        said = self._said(event, drafts, over)
        ended = {key_of(gone) for one in drafts for gone in _ended_by(one, self._held)}
        rash = [one for one in unsure if self._is_rash(one, ended)]
        drafts += [one for one in unsure if one not in rash]
        said |= self._doubted_by(event, rash)
        if any(one.pattern.startswith("revise.") for one in said.values()):
            drafts = [one for one in drafts if not is_note(one)]
        gone = {key for operation, key in said if operation == "retract"}
        kept = [
            one for one in drafts
            if one.operation != "assert" or key_of(one) not in gone or pattern_of(one)
        ]  # fmt: skip
        taken = {(one.slot, one.subject) for one in kept if one.operation == "assert"}
        mine = [
            one for one in said.values()
            if one.operation != "assert" or (one.slot, one.subject) not in taken
        ]  # fmt: skip
        self._recent.append(event.event_id)
        known = {key_of(one) for one in self._held}
        begun = self._begun(event, self._take_in(event, kept), known)
        return [*mine, *begun, *self._take_in(event, corrected)]

    def _begun(
        self, event: Event, drafts: Sequence[FactDraft], known: Collection[Key]
    ) -> list[FactDraft]:
        """Return the drafts of a turn without whom it tells as gone: "my dog Bruno died".

        known: keys of what was held before the turn, which ends instead.
        """
        stated = {
            key_of(one) for one in drafts
            if one.operation == "assert" and (is_name_slot(one.slot) or one.slot == PET_KIND)
        }  # fmt: skip
        if not stated:
            return list(drafts)
        gone: dict[Key, tuple[Change, Language]] = {}
        for clause in _clauses(event.text, self._reader):
            changes = self._reader.changes(clause)
            if any(one.verdict == "assert" for one in changes):
                continue  # A friend who becomes a partner is not gone.
            said = normalised(f"{clause.text} {joined_subject(clause)}")
            gone |= {
                key_of(fact): (one, clause.language) for one in changes
                if (fact := one.fact) and key_of(fact) in stated
                if fact.slot == PET_KIND or place_of(normalised(fact.value), said) >= 0
            }  # fmt: skip
        ends = [
            draft for key, (change, lang) in gone.items() if key in known
            for draft in self._drafts(event, lang, change)
        ]  # fmt: skip
        for key in gone.keys() - known:
            self._held.drop(key)
        names = {value for slot, _, value in gone if slot != PET_KIND}
        left = [one for one in drafts if key_of(one) not in gone and key_of(one)[1] not in names]
        return [*self._take_in(event, ends), *left]

    def _is_rash(self, draft: FactDraft, ended: Collection[Key] = ()) -> bool:
        """Tell whether the trained reader is not sure of a value that would replace another.

        ended: keys of what the turn ends, which leaves room: "I quit Barclays, I'm at HSBC now".
        """
        if not is_proposed(draft) or not draft.functional or draft.confidence >= REPLACES:
            return False
        return any(key_of(one) not in ended for one in self._others_of(draft))

    def _others_of(self, draft: FactDraft) -> list[HeldFact]:
        """Return the facts with another value than a draft, in its slot and about its subject."""
        held = self._held.of_slot(*key_of(draft)[:2])
        return [one for one in held if normalised(one.value) != normalised(draft.value)]

    def _doubted_by(
        self, event: Event, rash: Sequence[FactDraft]
    ) -> dict[tuple[str, Key], FactDraft]:
        """Return doubts of the facts that unsure drafts of the reader would replace."""
        found: dict[tuple[str, Key], FactDraft] = {}
        for draft in rash:
            for fact in self._others_of(draft) if draft.confidence >= DOUBTS else ():
                doubt = Change(verdict="doubt", rule=draft.pattern, fact=fact)
                for one in self._drafts(event, draft.language, doubt):
                    found[one.operation, key_of(one)] = one
                    self._apply(event, one)
        return found

    def _said(
        self, event: Event, drafts: Sequence[FactDraft], over: Sequence[FactDraft]
    ) -> dict[tuple[str, Key], FactDraft]:
        """Return the drafts of a turn beside those given, by operation and key.

        over: what the trained reader takes for over. What the rules read the turn as stating does
        not end, and what they end needs no second draft.
        """
        stated = {key_of(one) for one in drafts if one.operation == "assert" and pattern_of(one)}
        ended = {key_of(one) for one in drafts if one.operation == "retract"}
        said: dict[tuple[str, Key], FactDraft] = {}

        def say(draft: FactDraft) -> None:
            slot, subject, _ = key = key_of(draft)
            is_read = key in stated or {key, (slot, subject, "")} & ended
            if draft.operation != "assert" and is_read:
                return
            if said.setdefault((draft.operation, key), draft) is draft:
                self._apply(event, draft)

        told_of: set[str] = set()
        for clause in _clauses(event.text, self._reader):
            for change in self._reader.changes(clause):
                if not _is_own_word(clause, change):
                    continue
                told_of |= {change.fact.subject} if change.fact else set()
                if change.fact is not None and key_of(change.fact) in stated:
                    continue
                for draft in self._drafts(event, clause.language, change):
                    say(draft)
        for change, lang in _over(self._trained(event, over), stated, told_of):
            for draft in self._drafts(event, lang, change):
                say(draft)
        for draft in self._displaced(event, drafts):
            say(draft)
        return said

    def _trained(
        self, event: Event, over: Sequence[FactDraft]
    ) -> Iterator[tuple[Change, Language]]:
        """Yield what the trained reader and the trained judge take for over in a turn, each fact
        once: an end wins over a doubt.
        """
        judged: dict[Key | None, tuple[Change, Language]] = {}
        if self._judges:
            found = judged_changes(event.text, self._held, most_read=MAX_READ_CHARACTERS)
            judged = {_key(change): (change, lang) for change, lang in found}
        for change, lang in tagged_ends(over, self._held):
            other = judged.pop(_key(change), None)
            yield other if other and other[0].verdict == "end" else (change, lang)
        yield from judged.values()

    def _drafts(self, event: Event, lang: Language, change: Change) -> Iterator[FactDraft]:
        is_tagged = change.rule.startswith("reader.")
        pattern = change.rule if is_tagged else f"revise.{change.rule}"
        if change.verdict == "assert" and change.fact is not None:
            yield from _replaced(event, lang, change.fact, change.value, pattern)
        elif change.verdict == "assert":
            yield _value(event, lang, change, pattern)
        elif change.fact is not None and change.verdict == "doubt":
            if not change.fact.is_doubted:
                end = _end(event.event_id, lang, change.fact, pattern)
                yield replace(end, operation="doubt", confidence=DOUBT_CONFIDENCE)
        elif change.fact is not None:
            yield _end(event.event_id, lang, change.fact, pattern)
            renamed = change.rule.endswith((".engaged", ".married"))
            for rule, fallen in () if renamed else _fallen(change.fact, self._held, pattern):
                yield _end(event.event_id, lang, fallen, rule)

    def _displaced(self, event: Event, drafts: Sequence[FactDraft]) -> Iterator[FactDraft]:
        """Yield ends of what a drafted value or end leaves no room for."""
        for draft in drafts:
            lang = draft.language
            if draft.operation == "retract":
                for gone in _ended_by(draft, self._held):
                    for rule, fallen in _fallen(gone, self._held, draft.pattern):
                        yield _end(event.event_id, lang, fallen, rule)
            elif draft.operation == "assert" and draft.subject == USER:
                for rule, other in self._excluded(draft):
                    yield _end(event.event_id, lang, other, rule)
                for other in self._rivals(draft):
                    if _is_new_one(draft, event.text):
                        yield _end(event.event_id, lang, other, "revise.person.new")
                        for rule, fallen in _fallen(other, self._held, "revise.person.new"):
                            yield _end(event.event_id, lang, fallen, rule)
                        continue
                    end = _end(event.event_id, lang, other, "revise.person.other")
                    yield replace(end, operation="doubt", confidence=DOUBT_CONFIDENCE)

    def _excluded(self, draft: FactDraft) -> Iterator[tuple[str, HeldFact]]:
        """Yield what a value excludes: other diets, and what falls with another employer."""
        value, diets = normalised(draft.value), load_revision_tables().diets["any"]
        others = [
            one for one in self._held.of_slot(draft.slot) if normalised(one.value) != value
        ]  # fmt: skip
        if value in diets:
            yield from (("revise.diet.other", one) for one in others
                        if normalised(one.value) in diets)  # fmt: skip
        if draft.slot == "employer" and draft.change:
            for left in others:
                for rule, fallen in _fallen(left, self._held, draft.pattern):
                    if fallen.slot != "work_city":  # The town may stay the same.
                        yield rule, fallen

    def _rivals(self, draft: FactDraft) -> Iterator[HeldFact]:
        """Yield the other holders of a relation that has one holder at a time."""
        value = normalised(draft.value)
        if draft.slot.removeprefix(f"{RELATION}.") in load_revision_tables().people["single"]:
            for other in self._held.of_slot(draft.slot):
                known = normalised(other.value)
                if known not in value and value not in known and not other.is_doubted:
                    yield other

    def _corrected(self, event: Event) -> list[FactDraft]:
        """Return the drafts of a sentence that only names the right value: "sorry, 33"."""
        for sentence, lang in own_sentences(event.text, MAX_READ_CHARACTERS)[:2]:
            rules = load_revision_rules(lang).correction
            short = len(sentence) <= MAX_CORRECTION_CHARACTERS
            match = rules.mark.search(sentence) if short else None
            value = value_in(match) if match else ""
            is_number = bool(rules.number.fullmatch(value))
            if rules.refuse.search(value) or not (is_number or rules.word.fullmatch(value)):
                continue
            if not (is_number or is_place(value) or rules.strong.search(sentence)):
                continue
            for event_id in self._recent[-CORRECTED_TURNS:][::-1]:
                fit = [
                    fact for fact in self._held
                    if fact.thread_id == self._thread_id and event_id in fact.event_ids
                    and _same_type(fact, value, is_number=is_number)
                ]  # fmt: skip
                if fit:
                    return self._right(event, lang, fit, value)
        return []

    def _right(
        self, event: Event, lang: Language, fit: Sequence[HeldFact], value: str
    ) -> list[FactDraft]:
        pattern = f"revise.{lang}.correction"
        return _replaced(event, lang, fit[0], value, pattern) if len(fit) == 1 else []

    def _take_in(self, event: Event, drafts: Sequence[FactDraft]) -> list[FactDraft]:
        for draft in drafts:
            self._apply(event, draft)
        return list(drafts)

    def _apply(self, event: Event, draft: FactDraft) -> None:
        """Hold what a draft states, and no longer what it ends."""
        subject = key_of(draft)[1]
        if draft.operation == "retract":
            for gone in _ended_by(draft, self._held):
                self._held.drop(key_of(gone))
                self._reader.open_to(gone)
        elif draft.operation == "doubt":
            if fact := self._held.get(key_of(draft)):
                self._held.add(replace(fact, is_doubted=True))
        elif draft.value:
            for old in self._held.of_slot(draft.slot, subject) if draft.functional else ():
                self._held.drop(key_of(old))
            self._held.add(
                HeldFact(
                    memory_id=DRAFTED,
                    fact_type=draft.fact_type,
                    slot=draft.slot,
                    subject=subject,
                    value=draft.value,
                    statement=draft.statement,
                    functional=draft.functional,
                    stated_at=event.occurred_at,
                    thread_id=self._thread_id,
                    event_ids=(event.event_id,),
                )
            )


def _clauses(text: str, reader: ClauseReader) -> Iterator[SaidClause]:
    """Yield the clauses a user says as true now, in sentences that may change what is held."""
    found = own_sentences(text, MAX_READ_CHARACTERS)
    read = [reader.may_change(sentence, lang) for sentence, lang in found]
    if not any(read):
        return
    if any(guarded(sentence, load_rules(lang), "turn") for sentence, lang in found):
        return
    for (sentence, lang), needed in zip(found, read, strict=True):
        rules = load_rules(lang)
        if guarded(rules.lead.sub("", sentence, count=1), rules, "rest"):
            return
        guard = guarded(sentence, rules, "sentence") if needed else None
        if needed and (guard is None or guard.tells):
            yield from _sentence_clauses(sentence, lang, rules, hedged=guard is not None)


def _sentence_clauses(
    sentence: str, lang: Language, rules: RuleSet, *, hedged: bool
) -> Iterator[SaidClause]:
    for clause, original in clauses(sentence, rules):
        if guarded(clause, rules, "rest"):
            return
        guard = guarded(clause, rules, "onward")
        if guard and guard.id.endswith(".question") and not is_question(sentence):
            continue  # "what should I cook, I started eating fish" asks in its first clause only.
        if guard and not guard.tells:
            return
        hedged = hedged or guard is not None
        yield SaidClause(
            text=clause, original=original, sentence=sentence, language=lang, hedged=hedged
        )


def _is_own_word(clause: SaidClause, change: Change) -> bool:
    """Tell whether the user says a change themself: "everyone assumed I left Acme" ends nothing."""
    value = change.value or (change.fact.value if change.fact else "")
    at = clause.sentence.casefold().find(value.casefold()) if value else -1
    if at < 0 or clause.hedged:
        return True
    return not is_embedded(clause.sentence, at, at + len(value), clause.language, reach="clause")


def _ended_by(draft: FactDraft, held: HeldIndex) -> list[HeldFact]:
    """Return the held facts that a draft ends."""
    if draft.operation != "retract":
        return []
    _, subject, value = key_of(draft)
    return [
        one
        for one in held.of_slot(draft.slot, subject)
        if one.fact_type == draft.fact_type
        and value in ("", normalised(one.value))
        and not is_earlier_end(draft, one.stated_at)
    ]


def _is_still_related(gone: HeldFact, held: HeldIndex, stated: Sequence[FactDraft]) -> bool:
    """Tell whether another fact, held or stated, names the person of a relation that ended.

    Relations of two genders are of two persons, and that of an animal is of no other being.
    """
    name, gender = normalised(gone.value), gender_of(relation_of(gone))
    if not relation_of(gone) or not name or gender == "animal":
        return False
    named = [(one.slot, one.value) for one in held.named() if normalised(one.value) == name]
    named += [
        (one.slot, one.value)
        for one in stated
        if is_name_slot(one.slot) and one.subject == USER and one.slot != gone.slot
        if one.valid_until is None and normalised(one.value).startswith(name)
    ]
    genders = {gender_of(slot.removeprefix(f"{RELATION}.")) for slot, _ in named}
    return any(one in ("unknown", gender) or gender == "unknown" for one in genders - {"animal"})


def _again(draft: FactDraft, gone: HeldFact, stated: Sequence[FactDraft]) -> FactDraft | None:
    """Return the draft that states in the same turn what another ends, to move its end; or None."""
    keys = ((one, key_of(one)) for one in stated if one.event_id == draft.event_id)
    return next((one for one, key in keys if key == key_of(gone)), None)


def _with_end_of(gone: HeldFact, again: FactDraft, held: HeldIndex) -> Iterator[FactDraft]:
    """Yield what moves the ends to come of facts that were to fall with one, as its own end is."""
    for rule, fallen in _fallen(gone, held, again.pattern):
        if fallen.ends_at is not None and fallen.ends_at == gone.ends_at:
            end = _end(again.event_id, again.language, fallen, rule)
            yield end
            until, people = again.valid_until, (fallen.memory_id,)
            yield replace(end, operation="assert", valid_until=until, people=people)


def _is_replaced(fact: HeldFact, by: HeldFact) -> bool:
    """Tell whether a fact ends when another in its place begins, which was foretold."""
    place, end = (by.slot, by.subject), fact.ends_at or fact.ended_at
    return end is not None and end == by.begins_at and (fact.slot, fact.subject) == place


def grounds(extraction: Extraction, held: Sequence[HeldFact]) -> list[KnownPerson]:
    """Return the held facts on which drafts rest beside their turns: for a value, or what goes on.

    Drafts rest on facts as on those that name a person, so they take that form.
    """
    used = {one for draft in extraction.facts for one in draft.people}
    return as_grounds([one for one in held if one.memory_id in used])


def as_grounds(held: Sequence[HeldFact]) -> list[KnownPerson]:
    """Return facts in the form of what drafts may rest on."""
    return [
        KnownPerson(
            memory_id=one.memory_id,
            relation="",
            name=one.value,
            statement=one.statement,
            turns=one.turns,
            told_at=one.stated_at,
            expires_at=one.expires_at,
        )
        for one in held
    ]


def _replaced_by(
    gone: HeldFact, held: Sequence[HeldFact], stated: Sequence[FactDraft]
) -> list[HeldFact]:
    """Return the facts that one that never held was to replace, if nothing else replaces them."""
    begun = [one for one in stated if key_of(one)[:2] == (gone.slot, gone.subject)]
    if any(one.valid_from in (None, gone.begins_at) for one in begun):
        return []
    return [one for one in held if _is_replaced(one, gone)]


def _going_on(draft: FactDraft, gone: HeldFact, fact: HeldFact) -> FactDraft:
    """Return the draft that states a fact again, because what was to replace it never held."""
    end = _end(draft.event_id, draft.language, fact, "revise.goes.on")
    people, begins = (fact.memory_id,), gone.begins_at
    return replace(end, operation="assert", people=people, valid_from=begins)


def _plans_with(gone: HeldFact, held: HeldIndex) -> list[HeldFact]:
    """Return the plans that name the person of a fact that ended."""
    name = normalised(gone.value)
    if not relation_of(gone) or not name:
        return []
    plans = (one for one in held if one.slot.rpartition(".")[2] == PLAN and not one.is_doubted)
    return [one for one in plans if place_of(name, normalised(one.statement)) >= 0]


def _fallen(gone: HeldFact, held: HeldIndex, pattern: str) -> Iterator[tuple[str, HeldFact]]:
    """Yield what falls with a fact that ended, with the rule that says so; each once.

    pattern: what ended it. A denial of an employer ("I never worked there") lets nothing fall.
    """
    tables = load_revision_tables()
    if gone.slot == "employer" and not pattern.endswith(".never"):
        for slot in sorted(tables.falls["employer"]):
            yield from (("revise.falls.job", one) for one in held.of_slot(slot))
        for boss in held.people(sorted(tables.people["bosses"])):
            yield "revise.falls.job", boss
            yield from (("revise.falls.person", one) for one in held.attributes(boss))
    if relation_of(gone) in tables.people["pets"]:
        yield from (("revise.falls.pet", one) for one in pet_kinds(held, relation_of(gone)))
    if relation_of(gone) and relation_of(gone) not in tables.people["acquaintances"]:
        yield from (("revise.falls.person", one) for one in held.attributes(gone))
    if pattern.endswith(SPLIT) and relation_of(gone) in tables.people["partners"]:
        for one in held.people(sorted(tables.people["in_laws"])):
            yield "revise.falls.partner", one
            yield from (("revise.falls.person", about) for about in held.attributes(one))


def _over(
    read: Iterable[tuple[Change, Language]], stated: Collection[Key], told_of: Collection[str]
) -> list[tuple[Change, Language]]:
    """Return those changes that the trained reader and judge read which the rules allow.

    stated: keys that the rules read as stated. told_of: subjects of what they read as ended: "Ines
    had the baby" ends something about Ines, who is no less a wife.
    """

    def is_over(fact: HeldFact | None) -> bool:
        if fact is None or key_of(fact) in stated:
            return False
        return not (relation_of(fact) and normalised(fact.value) in told_of)

    return [(change, lang) for change, lang in read if is_over(change.fact)]


def _key(change: Change) -> Key | None:
    return key_of(change.fact) if change.fact else None


def _is_new_one(draft: FactDraft, text: str) -> bool:
    """Tell whether a turn calls somebody the new one: "my new gf is called priya"."""
    if is_proposed(draft):
        return False
    for sentence, lang in own_sentences(text, MAX_READ_CHARACTERS):
        rules, value = load_revision_rules(lang), draft.value.casefold()
        match = rules.new_one.search(as_meant(sentence)) if value in sentence.casefold() else None
        if match is not None and not rules.rejects.second.search(sentence):
            kin = load_rules(lang).kin.get(match["kin"].casefold())
            return draft.slot == f"{RELATION}.{kin}"
    return False


def _end(event_id: str, lang: Language, fact: HeldFact, pattern: str) -> FactDraft:
    """Return the draft that ends a held fact."""
    return FactDraft(
        fact_type=fact.fact_type,
        slot=fact.slot,
        value=fact.value,
        statement=fact.statement,
        event_id=event_id,
        functional=fact.functional,
        confidence=END_CONFIDENCE,
        pattern=pattern,
        language=lang,
        operation="retract",
        subject=fact.subject,
        importance=fact_importance(fact.slot),
        change=True,
    )


def _value(event: Event, lang: Language, change: Change, pattern: str) -> FactDraft:
    """Return the draft that states the new value of a slot about the user."""
    slot = slot_of(change.slot)
    rules = load_rules(lang)
    kin = change.slot.removeprefix(f"{RELATION}.")
    shape = "relation.{kin}" if kin != change.slot else change.slot
    words = {"value": change.value, "kin": kin_word(kin, lang), "canonical_kin": kin, "a": "a"}
    return FactDraft(
        fact_type=slot.fact_type if slot else "custom",
        slot=change.slot,
        value=change.value,
        statement=rules.sentences[shape].format_map(words),
        event_id=event.event_id,
        functional=bool(slot and slot.functional),
        confidence=VALUE_CONFIDENCE,
        pattern=pattern,
        language=lang,
        other_event_ids=change.sources,
        importance=fact_importance(change.slot),
        change=True,
    )


def _replaced(
    event: Event, lang: Language, fact: HeldFact, value: str, pattern: str
) -> list[FactDraft]:
    """Return the drafts that put another value in the place of a fact."""
    end = _end(event.event_id, lang, fact, pattern)
    others = tuple(one for one in fact.event_ids if one != event.event_id)
    statement = fact.statement.replace(fact.value, value, 1)
    right = replace(end, operation="assert", value=value, statement=statement,
                    other_event_ids=others, confidence=VALUE_CONFIDENCE)  # fmt: skip
    return [right] if fact.functional else [end, right]


def _same_type(fact: HeldFact, value: str, *, is_number: bool) -> bool:
    """Tell whether a value may stand in the place of a fact's value."""
    last = fact.slot.rpartition(".")[2]
    if normalised(value) == normalised(fact.value):
        return False
    if is_number:
        rules = load_revision_rules(language(fact.value) if not fact.value.isascii() else "en")
        held_number = rules.correction.number.fullmatch(fact.value)
        return bool(held_number) and last in ("age", "shoe_size", "size") and _is_near(value, fact)
    if last in ("residence", "place", "origin", "work_city"):
        return is_place(value) or (last == "residence" and not is_place(fact.value))
    if is_place(value) or any(one.isdigit() for one in fact.value):
        return False
    return fact.slot in CORRECTABLE - {"job", "age", "email"} or bool(relation_of(fact))


def _is_near(value: str, fact: HeldFact) -> bool:
    """Tell whether a number may be a slip for the number of a fact: 34 for 33, but not 3."""
    digits = re.search(r"\d+", value), re.search(r"\d+", fact.value)
    if not digits[0] or not digits[1]:
        return True
    return abs(int(digits[0][0]) - int(digits[1][0])) <= MAX_SLIP


def _by_turn(drafts: Sequence[FactDraft]) -> dict[str, list[FactDraft]]:
    found: defaultdict[str, list[FactDraft]] = defaultdict(list)
    for draft in drafts:
        found[draft.event_id].append(draft)
    return dict(found)


def _with_facts(extraction: Extraction, facts: list[FactDraft]) -> Extraction:
    """Return an extraction with other facts: with the edges of new ones, not of dropped ones."""
    if facts == list(extraction.facts):
        return extraction
    old, kept = ({id(one) for one in these} for these in (extraction.facts, facts))
    new = [one for one in facts if id(one) not in old and one.operation == "assert"]
    gone = triples_of([one for one in extraction.facts if id(one) not in kept])
    triples = [*(one for one in extraction.triples if one not in gone), *triples_of(new)]
    return replace(extraction, facts=facts, triples=triples)
