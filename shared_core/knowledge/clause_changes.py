"""What one clause of a user does to the facts that hold: ends, doubts, new values. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from shared_core.core.domain import USER, HeldFact
from shared_core.knowledge.clause_subject import UNKNOWN, Subjects
from shared_core.knowledge.held_index import HeldIndex, kinds_of, relation_of
from shared_core.nlp.rules import load_rules
from shared_core.nlp.rules.revision import (
    MENTION,
    EndRule,
    EventRule,
    Replacement,
    RevisionRules,
    Successor,
    Verdict,
    load_revision_rules,
    load_revision_tables,
    value_in,
)
from shared_core.nlp.slots import RELATION, slot_of
from shared_core.nlp.text import Language, normalised, place_of

MANY: Final = re.compile(r"[2-9]|s\b|[两兩二三四五六七八九十几幾些]", re.IGNORECASE)
"""Tells that a value names more than one animal."""
NUMBER: Final = re.compile(r"\d[\d.,]{0,9}(?:k\b|万)?")
ADOPTED_TURNS: Final = 2
"""Number of turns, the telling one included, in which an adopted animal may be named."""
MOVED_TASTE_TURNS: Final = 3
"""Number of turns, the ending one included, in which another taste may take its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A decision about a held fact, or about the new value of a slot.

    verdict: "end" or "doubt" of `fact`; "assert" states `value` in `slot`, or in the place of
    `fact`. rule: its id. sources: ids of further turns it rests on.
    """

    verdict: Literal["end", "doubt", "assert"]
    rule: str
    fact: HeldFact | None = None
    slot: str = ""
    value: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidClause:
    """A clause that the user says as true now.

    text: without lead-in, with the subject it shares with the clause before. original: as written.
    sentence: all of it. hedged: a guard of the extraction rules calls it uncertain.
    """

    text: str
    original: str
    sentence: str
    language: Language
    hedged: bool


@dataclass(slots=True)
class ClauseReader:
    """Reads clauses in order, against the facts that hold before each.

    open_slots: slots with a value that ended, which a new value may fill; has_open_diet: one of
    those values is a diet.
    """

    held: HeldIndex
    subjects: Subjects
    open_slots: set[str]
    has_open_diet: bool = False
    _turn: int = 0
    _event_id: str = ""
    _adopted: tuple[int, str, str] = (-9, "", "")
    _taste_ended: tuple[int, str] = (-9, "")
    _mentioned: list[HeldFact] = field(default_factory=list)

    def begin_turn(self, event_id: str) -> None:
        self._turn += 1
        self._event_id = event_id
        self._mentioned = []
        self.subjects.begin_turn()

    def may_change(self, sentence: str, language: Language) -> bool:
        """Tell whether a sentence needs to be read: a rule matches, or it names somebody."""
        rules = load_revision_rules(language)
        patterns = [rule.regex for rule in rules.events]
        patterns += [rule.regex for rule in rules.successors]
        patterns += [*(rule.regex for rule in rules.replacements), rules.rejects.adopted]
        mentioned = self.held.mentioned(sentence, language)
        mentioned += self.held.mentioned_things(sentence, language)
        return any(kinds_of(fact.slot) or relation_of(fact) for fact, _ in mentioned) or any(
            pattern.search(sentence) for pattern in patterns
        )

    def changes(self, clause: SaidClause) -> list[Change]:
        """Return what a clause changes, in order."""
        rules = load_revision_rules(clause.language)
        limit: Verdict = "doubt" if clause.hedged else "end"
        found = _decided([*self._ends(clause, rules, limit), *self._events(clause, rules, limit)])
        for change in found:
            self._note(change)
        found += self._successors(clause, rules)
        found += self._replacements(clause, rules)
        self.subjects.observe(clause.text, clause.language)
        return found

    def open_to(self, ended: HeldFact) -> None:
        """Let a new value fill the slot of a fact that ended."""
        self.open_slots.add(ended.slot)
        self.has_open_diet |= _is_diet(ended, "any")

    def _note(self, change: Change) -> None:
        if change.fact is None or change.verdict != "end":
            return
        self.open_to(change.fact)
        if kinds_of(change.fact.slot) & {"taste", "pursuit"}:
            self._taste_ended = (self._turn, self._event_id)

    def _ends(self, clause: SaidClause, rules: RevisionRules, limit: Verdict) -> Iterator[Change]:
        text = clause.text
        if clause.language == "zh" and clause.original.endswith(text):
            text = clause.original  # A lead-in such as 现在 tells that an end lasts.
        named = self.held.mentioned(text, clause.language)
        for fact, masked in [*named, *self.held.mentioned_things(text, clause.language)]:
            kinds = kinds_of(fact.slot)
            for rule in rules.ends if kinds and f"{MENTION}'s" not in masked else ():
                match = rule.regex.search(masked) if rule.about & kinds else None
                if match is None or rule.unless.search(masked):
                    continue
                vetoed = vetoed_verdict(masked, clause.sentence, rules, rule.about & kinds)
                verdict = weakest(rule.verdict, limit, vetoed)
                if verdict != "none" and self._concerns(fact, rule, masked, match, clause.language):
                    yield Change(verdict=verdict, rule=rule.id, fact=fact)
                    break

    def _concerns(
        self, fact: HeldFact, rule: EndRule, masked: str, match: re.Match[str], lang: Language
    ) -> bool:
        """Tell whether an end is about the person whom the fact is about."""
        before = masked[: match.start()]
        if rule.whom == "user":
            return fact.subject == USER
        if rule.whom in ("thing", "object"):
            return fact.subject == USER and self.subjects.owner(before, lang) == USER
        about = self.subjects.before(before, lang)
        return about is not UNKNOWN and about == fact.subject

    def _events(self, clause: SaidClause, rules: RevisionRules, limit: Verdict) -> Iterator[Change]:
        text, language = clause.text, clause.language
        vetoed = vetoed_verdict(text, clause.sentence, rules, frozenset())
        if vetoed == "none":
            return
        for rule in rules.events:
            verdict = weakest(rule.verdict, limit, vetoed)
            if rule.unless.search(text) or not rule.only.search(text):
                continue
            if rule.whom == "object":
                yield from self._of_object(rule, clause, verdict)
            elif match := rule.regex.search(text):
                about = self.subjects.before(text[: match.start()], language)
                about = USER if rule.whom == "user" else about
                if rule.event in ("born", "died", "pet-gone") and about is UNKNOWN:
                    yield from self._of_unnamed(rule, text[: match.start()], language, verdict)
                if about is UNKNOWN or (rule.whom == "partner" and about == USER):
                    continue
                happened = _LifeEvent(rule, clause, about, rules, self.held)
                yield from happened.changes(verdict)

    def _of_unnamed(
        self, rule: EventRule, before: str, language: Language, verdict: Verdict
    ) -> Iterator[Change]:
        """Yield what an event ends of one without a known name: "my wife", "my dog", 狗狗."""
        words, particles = load_rules(language), load_revision_rules(language).particles
        kin = words.kin_mention.match(before)
        rest = before[kin.end() :] if kin else ""
        relation = words.kin.get((kin["kin"] if kin else before.strip()).lower(), "")
        if verdict == "none" or not relation or set(rest.lower().split()) - particles:
            return
        pregnant = filter(is_pregnancy, self.held.of_slot(f"{RELATION}.{relation}.trait"))
        for fact in pregnant if rule.event == "born" else pet_kinds(self.held, relation):
            yield Change(verdict=verdict, rule=rule.id, fact=fact)

    def _of_object(self, rule: EventRule, clause: SaidClause, verdict: Verdict) -> Iterator[Change]:
        people = load_revision_tables().people
        only = {"pet-gone": people["pets"], "partner-left": people["partners"]}.get(rule.event)
        for fact, masked in self.held.mentioned(clause.text, clause.language):
            relation = relation_of(fact)
            fits = relation in only if only is not None else bool(relation)
            if fits and verdict != "none" and rule.regex.search(masked):
                yield Change(verdict=verdict, rule=rule.id, fact=fact)

    def _successors(self, clause: SaidClause, rules: RevisionRules) -> Iterator[Change]:
        text, language = clause.original, clause.language
        self._adopt(clause, rules)
        vetoed = vetoed_verdict(text, clause.sentence, rules, frozenset())
        for rule in rules.successors:
            match = None if clause.hedged and not rule.hedged else rule.regex.search(text)
            if match is None or vetoed == "none" or (vetoed == "doubt" and not rule.hedged):
                continue
            value, needs = value_in(match), self._needs(rule)
            if needs is None or not value or rules.rejects.value.search(value):
                continue
            if rules.rejects.to_come.search(text):
                continue
            before = text[: match.start()]
            if rule.slot.startswith(f"{RELATION}."):
                about = self.subjects.owner(before, language, carries=False)
            else:
                about = self.subjects.before(before, language)
            if about == USER or rule.needs in ("adopted", "diet", "moved-taste"):
                yield from self._filled(rule, value, text, rules, needs)

    def _replacements(self, clause: SaidClause, rules: RevisionRules) -> Iterator[Change]:
        """Yield new values of held facts: another date of a plan, another amount."""
        text = clause.text
        self._mentioned += [fact for fact, _ in self.held.mentioned(text, clause.language)]
        for rule in rules.replacements:
            match = None if clause.hedged else rule.regex.search(text)
            if match is None or vetoed_verdict(text, text, rules, frozenset()) != "end":
                continue
            value = value_in(match)
            verdict: Literal["doubt", "assert"] = "assert"
            if rule.of == "plan":
                held = self._dated_plans(value, rules)
                mentioned = [one for one in held if one in self._mentioned]
                if not mentioned and match["what"]:
                    continue  # Something else was moved.
                verdict, held = ("assert", mentioned) if mentioned else ("doubt", held)
            else:
                held = self._replaceable(rule, text)
            if len(held) != 1:
                continue
            if rule.of in ("plan", "amount"):
                shape = rules.date if rule.of == "plan" else NUMBER
                value = shape.sub(value.replace("\\", ""), held[0].value, count=1)
            if normalised(value) != normalised(held[0].value):
                yield Change(verdict=verdict, rule=rule.id, fact=held[0], value=value)

    def _dated_plans(self, date: str, rules: RevisionRules) -> list[HeldFact]:
        """Return the plans with a date of the same form: a day of a month, or of the week."""
        plans = [
            (one, rules.date.search(one.value)) for one in self.held
            if one.subject == USER and "plan" in kinds_of(one.slot)
        ]  # fmt: skip
        return [
            one for one, at in plans
            if at and bool(NUMBER.search(at[0])) is bool(NUMBER.search(date))
        ]  # fmt: skip

    def _replaceable(self, rule: Replacement, text: str) -> list[HeldFact]:
        if rule.of == "amount":
            names = load_revision_tables().amounts
            low = text.lower()
            return [
                one for one in self.held
                if one.subject == USER and NUMBER.search(one.value)
                and any(place_of(word, low) >= 0 for word in names.get(one.slot, ()))
            ]  # fmt: skip
        return self.held.of_slot(rule.of)

    def _needs(self, rule: Successor) -> tuple[str, tuple[str, ...]] | None:
        """Return the slot a successor fills and the turns that say so, or None if it may not."""
        if rule.needs == "open":
            is_open = rule.slot in self.open_slots or self.held.of_slot(rule.slot)
            return (rule.slot, ()) if is_open else None
        if rule.needs == "ended":
            is_free = rule.slot in self.open_slots and not self.held.of_slot(rule.slot)
            return (rule.slot, ()) if is_free else None
        if rule.needs == "diet":
            held = any(_is_diet(one, "any") for one in self.held.of_slot(rule.slot))
            return (rule.slot, ()) if held or self.has_open_diet else None
        if rule.needs == "moved-taste":
            turn, event_id = self._taste_ended
            recent = self._turn - turn < MOVED_TASTE_TURNS
            return (rule.slot, (event_id,)) if recent else None
        turn, pet, event_id = self._adopted
        recent = bool(pet) and self._turn - turn < ADOPTED_TURNS
        return (f"{RELATION}.{pet}", (event_id,)) if recent and self._had_pet() else None

    def _had_pet(self) -> bool:
        slots = {f"{RELATION}.{one}" for one in load_revision_tables().people["pets"]}
        return bool(slots & self.open_slots) or any(self.held.of_slot(one) for one in slots)

    def _adopt(self, clause: SaidClause, rules: RevisionRules) -> None:
        match = rules.rejects.adopted.search(clause.original)
        if match is None:
            return
        before = clause.original[: match.start()]
        if self.subjects.before(before, clause.language) == USER:
            pet = load_revision_tables().pets[match["pet"].lower()]
            self._adopted = (self._turn, pet, self._event_id)

    def _filled(
        self,
        rule: Successor,
        value: str,
        clause: str,
        rules: RevisionRules,
        needs: tuple[str, tuple[str, ...]],
    ) -> Iterator[Change]:
        slot, sources = needs
        held = self.held.of_slot(slot)
        if any(normalised(value) == normalised(one.value) for one in held):
            return
        if slot == "employer" and is_place(value):
            return
        known = slot_of(slot)
        one_value = bool(known and known.functional) or slot == f"{RELATION}.boss"
        if rule.needs == "diet":
            one_value, held = True, [one for one in held if _is_diet(one, "any")]
        if one_value and not rules.rejects.second.search(clause):
            for old in held:
                yield Change(verdict="end", rule=rule.id, fact=old)
        sources = tuple(one for one in sources if one and one != self._event_id)
        yield Change(verdict="assert", rule=rule.id, slot=slot, value=value, sources=sources)


@dataclass(frozen=True, slots=True)
class _LifeEvent:
    """An event in the life of the user or of somebody with a name, and the facts it changes."""

    rule: EventRule
    clause: SaidClause
    about: str
    rules: RevisionRules
    held: HeldIndex

    def changes(self, verdict: Verdict) -> Iterator[Change]:
        reads: Mapping[str, Callable[[], Iterator[HeldFact]]] = {
            "job-left": self._job_left,
            "retired": self._retired,
            "post-left": self._post_left,
            "died": self._died,
            "pet-gone": self._pet_gone,
            "split": self._split,
            "healed": self._healed,
            "eats-meat": self._eats_meat,
            "eats-animal-food": self._eats_animal_food,
            "moved-out": self._moved_out,
            "born": self._born,
        }
        if verdict == "none":
            return
        if self.rule.event in ("engaged", "married"):
            yield from self._renamed(verdict)
            return
        for fact in reads[self.rule.event]():
            yield Change(verdict=verdict, rule=self.rule.id, fact=fact)

    def _mentions(self, facts: list[HeldFact]) -> list[HeldFact]:
        mentioned = [
            fact for fact, _ in self.held.mentioned(self.clause.text, self.clause.language)
        ]
        return [one for one in facts if one in mentioned]

    def _job_left(self) -> Iterator[HeldFact]:
        if self.about != USER:
            return
        firms, rejects = self.held.of_slot("employer"), self.rules.rejects
        if named := self._mentions(firms):
            yield from named
        elif not any(one.search(self.clause.text) for one in (rejects.other_firm, rejects.old_job)):
            yield from firms if len(firms) == 1 else ()

    def _retired(self) -> Iterator[HeldFact]:
        tables = load_revision_tables()
        if self.about == USER:
            for slot in sorted(tables.falls["retired"]):
                yield from self.held.of_slot(slot)
            yield from self.held.people(sorted(tables.people["bosses"]))

    def _post_left(self) -> Iterator[HeldFact]:
        bosses = self.held.people(sorted(load_revision_tables().people["bosses"]))
        yield from (one for one in bosses if normalised(one.value) == self.about)

    def _named(self) -> list[HeldFact]:
        return [one for one in self.held.named() if normalised(one.value) == self.about]

    def _died(self) -> Iterator[HeldFact]:
        yield from self._named()

    def _pet_gone(self) -> Iterator[HeldFact]:
        pets = load_revision_tables().people["pets"]
        yield from (one for one in self._named() if relation_of(one) in pets)

    def _with_one_of(self, names: set[str]) -> bool:
        """Tell whether the sentence names one of these people beside the user, or nobody."""
        other = self.rules.rejects.with_whom.search(self.clause.sentence)
        return other is None or normalised(other["name"] or joined_subject(self.clause)) in names

    def _split(self) -> Iterator[HeldFact]:
        people = load_revision_tables().people
        partners = self.held.people(sorted(people["partners"]))
        names = {normalised(one.value) for one in partners}
        if self.about != USER and self.about not in names:
            return
        if not self._with_one_of(names):
            return
        gone = partners if self.about == USER else [
            one for one in partners if normalised(one.value) == self.about
        ]  # fmt: skip
        yield from gone
        over = ("divorced", "single", "separated", "widowed", "离异", "离婚了", "单身", "丧偶")
        yield from (
            one for one in self.held.of_slot("marital_status")
            if normalised(one.value) not in over
        )  # fmt: skip

    def _healed(self) -> Iterator[HeldFact]:
        if self.about != USER:
            return
        ill = [
            one for one in self.held
            if one.subject == USER and one.slot != "trait" and kinds_of(one.slot) == {"health"}
        ]  # fmt: skip
        passing = [one for one in ill if "allerg" not in one.slot]
        yield from self._mentions(ill) or (passing if len(passing) == 1 else ())

    def _eats_meat(self) -> Iterator[HeldFact]:
        return self._diets("meatless")

    def _eats_animal_food(self) -> Iterator[HeldFact]:
        return self._diets("strict")

    def _diets(self, which: str) -> Iterator[HeldFact]:
        if self.about == USER:
            facts = [*self.held.of_slot("trait"), *self.held.of_slot("diet")]
            yield from (one for one in facts if _is_diet(one, which))

    def _moved_out(self) -> Iterator[HeldFact]:
        if self.about == USER and not re.search(r"到|去|\bto\b|\binto\b", self.clause.text):
            yield from self.held.of_slot("residence")

    def _born(self) -> Iterator[HeldFact]:
        """Yield the pregnancy that is over; "we" had the baby of the user or a partner."""
        partners = {f"{RELATION}.{one}.trait" for one in load_revision_tables().people["partners"]}
        expecting = [one for one in self.held if is_pregnancy(one)]
        if self.about != USER:
            yield from (one for one in expecting if one.subject == self.about)
            return
        own = [one for one in expecting if one.slot == "trait" or one.slot in partners]
        yield from own if len(own) == 1 else ()

    def _renamed(self, verdict: Verdict) -> Iterator[Change]:
        """Yield the end of a boyfriend and the beginning of a fiance, for instance."""
        tables = load_revision_tables()
        steps = tables.engaged if self.rule.event == "engaged" else tables.married
        found = [one for one in self.held.people(sorted(steps))
                 if self.about in (USER, normalised(one.value))]  # fmt: skip
        if len(found) != 1 or verdict == "none":
            return
        if not self._with_one_of({normalised(found[0].value)}):
            return
        yield Change(verdict=verdict, rule=self.rule.id, fact=found[0])
        if verdict == "end":
            slot = f"{RELATION}.{steps[relation_of(found[0])]}"
            yield Change(verdict="assert", rule=self.rule.id, slot=slot, value=found[0].value)


def joined_subject(clause: SaidClause) -> str:
    """Return the name that shares the predicate of a clause with the user: "Lea and I split"."""
    joined = load_revision_rules(clause.language).rejects.with_whom.search(clause.sentence)
    return (joined["joined"] or "") if joined else ""


def vetoed_verdict(
    clause: str, sentence: str, rules: RevisionRules, kinds: frozenset[str]
) -> Verdict:
    """Return the strongest verdict that the vetoes allow for a clause.

    A veto for some kinds only reaches over the whole sentence: "it rains, no badminton".
    """
    verdict: Verdict = "end"
    for veto in rules.vetoes:
        concerns = not veto.about or veto.about & kinds
        if concerns and veto.regex.search(sentence if veto.about else clause):
            verdict = weakest(verdict, veto.verdict)
    return verdict


def weakest(*verdicts: Verdict) -> Verdict:
    order: tuple[Verdict, ...] = ("none", "doubt", "end")
    return order[min(order.index(one) for one in verdicts)]


def _decided(found: list[Change]) -> list[Change]:
    """Return changes with one verdict for each fact: an end wins over a doubt."""
    ended = {id(one.fact) for one in found if one.verdict == "end"}
    kept: list[Change] = []
    seen: set[int] = set()
    for change in found:
        fact = id(change.fact)
        if change.fact is not None:
            if fact in seen or (change.verdict == "doubt" and fact in ended):
                continue
            seen.add(fact)
        kept.append(change)
    return kept


def pet_kinds(held: HeldIndex, relation: str) -> list[HeldFact]:
    """Return the facts that the user has one animal of a kind: "a dog", but not "two dogs"."""
    kinds = load_revision_tables().pets
    return [
        one for one in held.of_slot("pet_kind")
        if {kinds[word] for word in kinds if word in one.value.casefold()} == {relation}
        and not MANY.search(one.value)
    ]  # fmt: skip


def is_pregnancy(fact: HeldFact) -> bool:
    """Tell whether a fact says that somebody expects a child."""
    is_trait = fact.slot.rpartition(".")[2] == "trait"
    return is_trait and normalised(fact.value) in load_revision_tables().pregnant


def _is_diet(fact: HeldFact, which: str) -> bool:
    return normalised(fact.value) in load_revision_tables().diets[which]


def is_place(value: str) -> bool:
    """Tell whether a value is a town or country of the rule files."""
    languages: tuple[Language, ...] = ("en", "zh")
    return any(load_revision_rules(one).place.fullmatch(value) for one in languages)
