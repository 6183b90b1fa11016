"""Read durable facts about the user and people they name out of turns, by rules.

No model, no network; the rules are data in `shared_core/nlp/rules`. They accept explicit statements
only. Questions, conditions, wishes, hearsay, jokes, tasks, quotations and orders to the memory
yield nothing. Every fact names its pattern.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from shared_core.core.domain import UNKNOWN_START, Event, FactDraft, MemoryId
from shared_core.extraction.past_statements import PastStatement, past_statement
from shared_core.extraction.pattern_facts import clause_facts
from shared_core.extraction.proposals import Proposal, is_to_come
from shared_core.extraction.reader_rules import load_reader_rules
from shared_core.extraction.third_person import DATED, about_whom, attribute_of, third_person_facts
from shared_core.extraction.trained_reader import is_proposed, passages, proposed_facts
from shared_core.nlp.affect import fact_importance
from shared_core.nlp.clauses import MAX_READ_CHARACTERS, clauses, own_sentences
from shared_core.nlp.coreference import (
    SPEAKER,
    begins_with_person,
    expand_contractions,
    resolve_persons,
    subject_of,
)
from shared_core.nlp.dates import begins_at, lapses_at, to_begin_at
from shared_core.nlp.dialogue_acts import dialogue_act
from shared_core.nlp.discourse import DiscourseState
from shared_core.nlp.kinship import Referent
from shared_core.nlp.rules import Guard, GuardScope, Pattern, RuleSet, load_rules
from shared_core.nlp.slots import is_name_slot
from shared_core.nlp.text import Language
from shared_core.nlp.typed_text import TypedText, as_read, typed_names
from shared_core.nlp.vouching import Bar, is_vouched, of_health

RULES_VERSION: Final = "rules-v5"
PLAN: Final = "plan"
NOTE: Final = "note"
PET_KIND: Final = "pet_kind"
OF_THINGS: Final = frozenset(["like", "dislike", "possession", "tool", "activity"])
"""Slots of the user whose value is nobody with a name: "Waffles loves the park" is about a dog."""
MAX_JUST_GIVEN: Final = 32
MAX_READ_CLAUSES: Final = 25_000
MAX_STATING_CLAUSES: Final = 3_000
QUESTION: Final = ".guard.question"
ASKED_BACK: Final = re.compile(
    r"不是|是不?是|对|right|correct|yes|no\b|is(?:n't)? (?:it|that)|am i|aren't i|do(?:n't)? i",
    re.IGNORECASE,
)
"""How a question about the statement before it begins."""
COMMA: Final = re.compile("(?<=[,，])")
CODE: Final = re.compile(r"[\w.]\(\s*['\"]|[{}<>]|==|=\s*['\"]|;\s*$")
"""A sentence of code, which the trained reader leaves alone."""
SOON: Final = re.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|tonight|next (?:week|month|year))\b"
    r"|明天|明日|后天|後天|下周|下週|下个月|下個月|明年|[周週][一二三四五六日末]",
    re.IGNORECASE,
)
"""What makes a note a plan, which needs a date."""
FAR_PLAN: Final = timedelta(days=1100)
"""Time for which a plan is kept whose month or year is named in a way that is not read."""
FAR: Final = re.compile(
    r"\b(?:20\d\d|jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)|20\d\d年|月", re.I
)
STARTS: Final = re.compile(
    r"\b(?:start|begin|join|move|transfer)s?\b|\b(?:start|join|mov|transferr|beginn)ing\b"
    r"|入[职職]|[报報]到|上班|搬到|搬去|[调調轉转]到|跳槽|加入",
    re.IGNORECASE,
)
"""What tells that a job or a home begins; in English, on a day to come."""
WENT: Final = re.compile(
    r"\b(?:went|was|were|had|been|got back|came back|last (?:week|month|year|night)|yesterday|ago"
    r"|just \w+ed)\b|昨|上周|上个月|上個月|去年|刚|剛|去了|isn'?t|not\b",
    re.IGNORECASE,
)
"""What tells of a trip or an appointment that is over."""
MAX_TAGGED_SENTENCES: Final = 60
"""Maximum number of sentences of a turn that the trained reader reads."""
ONLY_ASKS: Final = 0.9
"""Least chance of a question, as 我周三晚上干嘛, of a sentence that tells nothing to the reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedClause:
    """A clause that states something. text: without lead-in, with pronouns replaced.

    about: the person or animal it is about, None for the user or nobody. predicate: about them.
    complete: every personal pronoun has an antecedent. needs: ids of the earlier turns that
    introduced these people; people: ids of the facts that did.
    """

    text: str
    language: Language
    event_id: str
    about: Referent | None = None
    predicate: str = ""
    complete: bool = False
    facts: tuple[FactDraft, ...] = ()
    needs: tuple[str, ...] = ()
    people: tuple[MemoryId, ...] = ()


@dataclass(slots=True)
class RuleReading:
    """The clauses and facts of one turn.

    sentences: those that are the user's own words, for the trained reader. unread: the turn says
    more than the rules could read.
    """

    sentences: list[tuple[str, Language]] = field(default_factory=list)
    clauses: list[ResolvedClause] = field(default_factory=list)
    facts: list[FactDraft] = field(default_factory=list)
    unread: bool = False


def extract_facts(event: Event) -> list[FactDraft]:
    """Return the facts a user turn states on its own, in order, each once.

    Turns of other roles have none. Reads at most MAX_READ_CHARACTERS, MAX_READ_CLAUSES, and
    MAX_STATING_CLAUSES with facts.
    """
    return read_turn(event, DiscourseState()).facts


def states_facts(event: Event) -> bool:
    """Tell whether extract_facts() finds any; reads the turn up to the first."""
    return bool(read_turn(event, DiscourseState(), most_stating=1).facts)


def read_turn(
    event: Event,
    discourse: DiscourseState,
    without: Collection[str] = (),
    most_stating: int = MAX_STATING_CLAUSES,
    *,
    reader: bool = False,
) -> RuleReading:
    """Return what the user states in a turn, and update the discourse state.

    discourse: the state after the earlier turns. without: ids of disabled patterns. most_stating:
    maximum number of clauses with facts. reader: whether the trained reader proposes facts too.
    """
    reading = RuleReading()
    if event.role != "user":
        return reading
    discourse.begin_turn(event.event_id, event.occurred_at)
    of_others = discourse.speaks_of_others
    reading.unread = len(event.text) > MAX_READ_CHARACTERS
    drafts: dict[tuple[str, str, str, str], FactDraft] = {}
    just_stated: defaultdict[tuple[str, str, str], deque[str]] = defaultdict(just_given)
    read_clauses = stating_clauses = 0
    for stated in stated_clauses(event.text, reading, discourse, event.occurred_at):
        if not stated.text:
            discourse.begin_sentence()
            continue
        read_clauses += 1
        if read_clauses > MAX_READ_CLAUSES or stating_clauses == most_stating:
            reading.unread = True
            break
        read = read_clause(stated, event, discourse, without)
        if read is None:
            reading.unread = True
            continue
        rules = load_rules(stated.language)
        reading.clauses.append(read)
        stating_clauses += bool(read.facts)
        reading.unread |= not read.facts and tells(read.text, rules)
        reading.unread |= names_further(stated.text, read.facts, rules)
        for draft in read.facts:
            key = (draft.slot, draft.subject, draft.value.casefold(), draft.operation)
            values = just_stated[draft.slot, draft.subject, draft.operation]
            if not (draft.functional and any(draft.value in value for value in values)):
                drafts.setdefault(key, draft)
                values.append(draft.value)
    reading.facts = list(drafts.values())
    if reader:
        proposed = propose(reading, event, discourse, without, of_others=of_others)
        reading.facts = without_contested([*reading.facts, *proposed])
    names = {one.name.casefold() for one in discourse.entities if one.named and one.relation}
    reading.facts = [
        one
        for one in reading.facts
        if one.slot not in OF_THINGS or one.value.casefold() not in names
    ]
    return reading


def propose(
    reading: RuleReading,
    event: Event,
    discourse: DiscourseState,
    without: Collection[str],
    *,
    of_others: bool,
) -> Iterator[FactDraft]:
    """Yield what the trained reader proposes for a turn that the rules have read.

    of_others: somebody else was mentioned just before the turn, whom "moved to leeds" may mean.
    """
    for passage in passages(reading.sentences[:MAX_TAGGED_SENTENCES]):
        lang = passage.language
        for draft, proposal in proposed_facts(
            passage, event.event_id, without, known=reading.facts
        ):
            sentence = proposal.sentence
            if dialogue_act(sentence).asks >= ONLY_ASKS:
                continue
            if draft.slot in switched_off(sentence, lang, without):
                continue
            if is_read(draft, reading.facts) or (of_others and may_be_of_other(draft, proposal)):
                continue
            around = proposal.of_kin if proposal.kin else sentence
            about = about_whom(draft, around, lang, discourse)
            of_kin = load_rules(lang).kin_mention.match(sentence)
            if (attribute_of(draft.slot) == NOTE and (draft.slot != NOTE or not of_kin)) and (
                SOON.search(sentence) or lapses_at(sentence, event.occurred_at)
            ):
                about = as_plan(about)
            if attribute_of(about.slot) == PLAN and WENT.search(sentence):
                continue
            for fact in in_time([about], sentence, event) or ():
                if fact.foretells or not is_to_come(proposal, lang):
                    yield fact


def is_read(draft: FactDraft, facts: Collection[FactDraft]) -> bool:
    """Tell whether rules read the clause of a note, a retraction's words, or a pet's name."""
    if attribute_of(draft.slot) == NOTE:
        said = draft.value.casefold()
        return any(one.value and one.value.casefold() in said for one in facts)
    words = draft.value.casefold()
    if draft.slot == PET_KIND and draft.operation == "assert":
        kinds = {one for word, one in load_rules(draft.language).kin.items() if word in words}
        return any(one.slot.removeprefix("relation.") in kinds for one in facts)
    if draft.operation != "retract":
        return False
    return any(words in f"{one.subject} {one.value}".casefold() for one in facts) or any(
        one.operation == "retract" for one in facts
    )


def may_be_of_other(draft: FactDraft, proposal: Proposal) -> bool:
    """Tell whether a value that replaces one stands in a sentence that names nobody."""
    if proposal.kin or not draft.functional:
        return False
    return not load_reader_rules(draft.language).words["self"].search(proposal.sentence)


def as_plan(note: FactDraft) -> FactDraft:
    """Return a note with a date to come as a plan."""
    slot = note.slot.removesuffix(NOTE) + PLAN
    return replace(note, slot=slot, importance=fact_importance(slot))


def without_contested(drafts: Iterable[FactDraft]) -> list[FactDraft]:
    """Return drafts without proposals of the reader that another draft of the turn contests.

    That is a value of a slot with one value beside a rule's or a surer one, and a value that a rule
    put in another slot.
    """
    found = list(drafts)
    ruled = [one for one in found if not is_proposed(one)]
    values = {(one.value.casefold(), one.subject) for one in ruled}
    best: dict[tuple[str, str], FactDraft] = {}
    for one in sorted(found, key=lambda one: (is_proposed(one), -one.confidence)):
        if one.functional and one.operation == "assert" and one.valid_until is None:
            best.setdefault((one.slot, one.subject), one)

    def contested(draft: FactDraft) -> bool:
        if (draft.value.casefold(), draft.subject) in values:
            return True
        first = best.get((draft.slot, draft.subject), draft)
        return draft.operation == "assert" and draft != first

    return [one for one in found if not is_proposed(one) or not contested(one)]


def pattern_of(draft: FactDraft) -> Pattern | None:
    """Return the pattern that found a draft, or None if no rule did."""
    found = (one for one in load_rules(draft.language).patterns if one.id == draft.pattern)
    return next(found, None)


def names_further(clause: str, found: Collection[FactDraft], rules: RuleSet) -> bool:
    """Tell whether a clause with a relative's name names another person too."""
    ends = [
        clause.rfind(draft.value) + len(draft.value) for draft in found if is_name_slot(draft.slot)
    ]
    return bool(ends) and bool(rules.further.search(clause[max(ends) :]))


def just_given() -> deque[str]:
    """Return a store for the last values of a slot, to skip a shorter form of one.

    "My name is Ann Lee, call me Ann": the second adds nothing.
    """
    return deque(maxlen=MAX_JUST_GIVEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedClause:
    """A clause in which the user may state something; an empty one starts a sentence.

    text: as the patterns read it, without lead-in. original: with it. typed: its sentence. around:
    that sentence, with the ones before and after it. only: ids of the patterns that may read it, ()
    for all. past: what the sentence tells as over. since: when what the clause tells of began,
    unless it says so itself.
    """

    text: str
    original: str
    language: Language
    typed: TypedText
    around: str = ""
    only: Collection[str] = ()
    past: PastStatement | None = None
    since: datetime | None = None


def stated_clauses(
    text: str, reading: RuleReading, discourse: DiscourseState, said_at: datetime
) -> Iterator[StatedClause]:
    """Yield the clauses in which the user may state something.

    Skipped clauses set reading.unread if a model may find more, and the discourse state observes
    the people they mention.
    """
    found = own_sentences(text)
    if any(guarded(sentence, load_rules(lang), "turn") for sentence, lang in found):
        discourse.observe_hearsay(found)
        return
    names = typed_names(discourse.names)
    for place, (sentence, lang) in enumerate(found):
        rules = load_rules(lang)
        typed = as_read(sentence, lang, names, alone=not discourse.speaks_of_others)
        discourse.letters |= typed.letters or {}
        forms = dict.fromkeys([sentence, typed.text])
        if any(guarded(rules.lead.sub("", one, count=1), rules, "rest") for one in forms):
            discourse.observe_hearsay(found[place:])
            return
        if guard := next(filter(None, (guarded(one, rules, "sentence") for one in forms)), None):
            reading.unread |= guard.tells and hints(sentence, rules)
            discourse.observe_hearsay([(sentence, lang)])
            continue
        since: datetime | None = None
        past = past_statement(typed.text, lang, said_at)
        if past and not any(clause_facts(past.present, lang, "")):
            past = None
        if not CODE.search(sentence):
            reading.sentences.append((sentence, lang))
        around = " ".join(one for one, _ in found[max(place - 1, 0) : place + 2])
        yield StatedClause(text="", original="", language=lang, typed=typed)
        parts = list(clauses(typed.text, rules))
        if past:
            yield StatedClause(
                text=past.present, original=past.present, language=lang, typed=typed, around=around,
                past=past,
            )  # fmt: skip
            parts = [(one, past.shown) for one, _ in clauses(past.rest, rules)]
            since = past.until if past.follows else None
        to_the_end: Guard | None = None
        only: frozenset[str] | None = None
        for number, (clause, original) in enumerate(parts):
            to_the_end = guarded(clause, rules, "rest")
            guard = to_the_end or guarded(clause, rules, "onward")
            if guard is not None:
                reading.unread |= guard.tells and hints(clause, rules)
                only = guard.allows if only is None else only & guard.allows
            if only is not None and not only:
                discourse.observe_hearsay([(passed, lang) for passed, _ in parts[number:]])
                break
            yield StatedClause(
                text=clause, original=original, language=lang, typed=typed, around=around,
                only=only or (), since=since,
            )  # fmt: skip
        if to_the_end:
            reading.sentences = [one for one in reading.sentences if one[0] != sentence]
            discourse.observe_hearsay(found[place + 1 :])
            return


def tells(clause: str, rules: RuleSet) -> bool:
    """Tell whether a clause says something about the user or a person."""
    return bool(rules.telling.search(clause)) and not rules.idle.search(clause)


def hints(clause: str, rules: RuleSet) -> bool:
    """Tell whether a guarded clause mentions the user or a person."""
    mentions_person = SPEAKER.search(clause) or rules.telling.search(clause)
    return bool(mentions_person) and not rules.idle.search(clause)


def read_clause(
    stated: StatedClause, event: Event, discourse: DiscourseState, without: Collection[str] = ()
) -> ResolvedClause | None:
    """Return what a clause states, or None if it lies in the future."""
    lang, original = stated.language, stated.original
    plain = expand_contractions(stated.text)
    clause = discourse.counted_kin.rewrite(plain, lang, stated.around)
    resolved = resolve_persons(clause, lang, discourse)
    of_other = begins_with_person(clause, lang, discourse)
    drafts = list(
        clause_facts(
            clause, lang, event.event_id, without, relations_only=of_other, only=stated.only
        )
    )
    if stated.only and not drafts:
        discourse.observe_hearsay([(stated.original, lang)])
        return ResolvedClause(text="", language=lang, event_id=event.event_id)
    discourse.observe(
        resolved.text,
        lang,
        original=clause,
        antecedents=resolved.antecedents,
        unresolved=resolved.unresolved,
    )
    found = subject_of(resolved.text, lang, discourse)
    if found is not None and discourse.is_ambiguous(found[0]):
        named = found[0] in resolved.antecedents or load_rules(lang).kin_mention.search(clause)
        found = found if named else None
    people_named = (*resolved.antecedents, *([found[0]] if found else []))
    needs, people = discourse.source_turns(*people_named), discourse.source_facts(*people_named)
    others: list[FactDraft] = []
    if found is not None and not stated.only:
        others = third_person_facts(*found, lang, event.event_id, without, known=drafts)
    facts = [about_whom(draft, resolved.text, lang, discourse) for draft in drafts]
    facts += [replace(draft, other_event_ids=needs, people=people) for draft in others]
    dated = past_facts(facts, stated.past) if stated.past else in_time(facts, original, event)
    if dated is None:
        return None
    if stated.since:
        dated = [
            replace(one, valid_from=one.valid_from or stated.since)
            if attribute_of(one.slot) in DATED
            else one
            for one in dated
        ]
    return ResolvedClause(
        text=stated.typed.restored(resolved.text),
        language=lang,
        event_id=event.event_id,
        about=found[0] if found else None,
        predicate=stated.typed.restored(found[1]) if found else "",
        complete=resolved.complete and not stated.only,
        needs=needs,
        people=people,
        facts=tuple(
            draft
            for one in dated
            if is_own_word(draft := as_typed(one, stated.typed, discourse.letters), stated)
        ),
    )


def past_facts(facts: Sequence[FactDraft], past: PastStatement) -> list[FactDraft]:
    """Return what a clause told in the past states, with its bounds."""
    begins = past.begins or UNKNOWN_START
    return [
        replace(draft, valid_from=begins, valid_until=past.until, change=False)
        for draft in facts
        if draft.operation == "assert" and attribute_of(draft.slot) not in (PLAN, NOTE)
    ]


def is_own_word(draft: FactDraft, stated: StatedClause) -> bool:
    """Tell whether the user vouches for the value of a fact; for an implied value, they do."""
    sentence = stated.around.find(stated.original.strip())
    start = stated.around.casefold().find(draft.value.casefold(), max(sentence, 0))
    if not draft.value or start < 0:
        return True
    bar: Bar = "stated" if draft.operation == "assert" and of_health(draft.slot) else "low"
    of_other = draft.slot.startswith("relation.")
    end = start + len(draft.value)
    return is_vouched(stated.around, start, end, draft.language, bar, of_other=of_other)


def in_time(facts: Sequence[FactDraft], original: str, event: Event) -> list[FactDraft] | None:
    """Return facts with the times their clause gives, or None if they lie in the future.

    A plan needs a date to come, after which it lapses; one of the trained reader may name a month
    or a year that is not understood, and lapses after FAR_PLAN. What it reads as a beginning,
    "starting at Siemens next week", holds from that day on.
    """
    dated = [attribute_of(draft.slot) in DATED for draft in facts]
    began, to_come = None, False
    if any(dated):
        began, to_come = begins_at(undated(original, facts), event.occurred_at)
    lapses = None
    if any(attribute_of(draft.slot) == PLAN for draft in facts):
        lapses = lapses_at(original, event.occurred_at)
        if lapses is None and all(map(is_proposed, facts)) and FAR.search(original):
            lapses = event.occurred_at + FAR_PLAN
    begins, starts = None, STARTS.search(original)
    patterns = list(filter(None, map(pattern_of, facts)))
    if turns := any(one.foretells for one in patterns):
        begins = to_begin_at(original, event.occurred_at, future=True)
    elif starts and any(dated) and all(map(is_proposed, facts)):
        begins = to_begin_at(original, event.occurred_at, future=starts[0].isascii())
    if to_come and not (lapses or begins):
        return None
    found = []
    for draft, has_date in zip(facts, dated, strict=True):
        if attribute_of(draft.slot) == PLAN and draft.operation == "assert":
            if lapses:
                found.append(replace(draft, valid_until=lapses))
        elif has_date and begins:
            found.append(replace(draft, valid_from=begins, foretells=True))
        elif not (has_date and (to_come or turns)):
            found.append(replace(draft, valid_from=began) if has_date else draft)
    return found


def as_typed(draft: FactDraft, typed: TypedText, letters: Mapping[int, int]) -> FactDraft:
    """Return a fact with its value and names as the user typed them."""
    value = typed.quoted(draft.value)
    statement = draft.statement
    if value != draft.value:
        statement = statement.replace(draft.value, value, 1)
    subject = draft.subject.translate(letters)
    if subject != draft.subject:
        statement = statement.replace(draft.subject, subject, 1)
    return replace(draft, value=value, statement=statement, subject=subject)


def switched_off(clause: str, lang: Language, without: Collection[str]) -> set[str]:
    """Return the slots for which disabled patterns read a clause; the reader skips them too."""
    if not without:
        return set()
    read = clause_facts(clause, lang, "")
    return {draft.slot for draft in read if draft.pattern in without}


def undated(clause: str, facts: Sequence[FactDraft]) -> str:
    """Return a clause up to the first comma after its values, with the values masked."""
    end = max(clause.find(draft.value) + len(draft.value) for draft in facts)
    stop = re.search("[,，(（]", clause[end:])
    clause = clause[: end + stop.start()] if stop else clause
    for draft in facts:
        if draft.value:
            clause = clause.replace(draft.value, "…")
    return clause


def guarded(text: str, rules: RuleSet, scope: GuardScope) -> Guard | None:
    """Return the first guard of this scope that matches the text, or None."""
    for guard in rules.guards:
        if guard.scope == scope and guard.regex.search(text):
            return guard
    return None
