"""ProfileMemory: one coherent paragraph about a person, merged statement by statement. Pure.

The rules read what users say about themselves. So a text about somebody is read in the first
person: "User lives in Leeds" as "I live in Leeds", 用户住在北京 as 我住在北京. The profile keeps
the original words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from shared_core.core.domain import Event, FactDraft, JsonValue, MemoryId
from shared_core.core.ids import uuid7
from shared_core.errors import InvalidInput
from shared_core.extraction.rule_reader import extract_facts
from shared_core.knowledge.fact_planning import FactPlan, plan_facts, without_moot
from shared_core.nlp.text import language, normalised, sentences
from shared_core.ports.runs import KnownFact, PlannedFact
from shared_core.profiles.entries import (
    Basis,
    Clause,
    ClauseFact,
    Statement,
    Subject,
    checked_text,
    language_of,
    moment_of,
    restated,
    sentence_of,
)

CLAUSES_ZH: Final = re.compile("[，,；;]")
CLAUSES_EN: Final = re.compile(r";\s++|,\s++(?:and\s++)?|(?<!\s)\s++and\s++(?=\w+s\s)")
WHO_EN: Final = r"(?:the )?(?:user|agent|assistant|person)|he|she|they"
POSSESSIVE_EN: Final = re.compile(r"^(?:(?:the )?(?:user|agent|assistant)'s|his|her|their)\b", re.I)
SUBJECT_EN: Final = re.compile(rf"^(?:{WHO_EN})\s+(?=\w)", re.I)
FIRST_EN: Final = re.compile(r"^(?:I|my|I'm|we|our)\b", re.I)
SUBJECT_ZH: Final = re.compile("^(?:该?用户|智能体|助手|助理|他|她|TA)")
VERBS_EN: Final[Mapping[str, str]] = {
    "is": "am", "isn't": "am not", "are": "am", "has": "have", "hasn't": "haven't", "does": "do",
    "doesn't": "don't", "was": "was", "goes": "go",
}  # fmt: skip
INFLECTED: Final = re.compile(r"(?:(\w+)ies|(\w+(?:ss|sh|ch|x|zz|o))es|(\w*[^s\W])s)\Z")
ADVERB: Final = re.compile(r"^(?:no longer|also|now|really|still|currently|often|usually)\s+", re.I)
NAMES_OF_AGENT: Final = (
    (re.compile(r"\byour name is\b", re.I), "my name is"),
    (re.compile(r"\b(?:I(?:'ll| will| want to| would like to)? call you)\b", re.I), "my name is"),
    (re.compile("你的名字(?:叫|是)|你(?:就|以后)?叫|我(?:就|以后)?叫你"), "我叫"),
)
"""How a user names an agent, and how the agent would say it."""
CLAUSE_ENDS: Final = re.compile("[.!?。！？，,;；\n]")
SUBJECT_NAMES: Final[Mapping[Subject, tuple[str, str]]] = {
    "user": ("User", "用户"),
    "agent": ("The agent", "智能体"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadClause:
    """A clause in its original words, and the facts the rules read in it."""

    text: str
    drafts: tuple[FactDraft, ...] = ()


def read_sentences(text: str, at: datetime) -> list[list[ReadClause]]:
    """Return the sentences of a text about a person, each as its clauses.

    The event id of a draft is the place of its clause, e.g. "2.0".
    """
    found: list[list[ReadClause]] = []
    for sentence in sentences(text):
        place = len(found)
        found.append(
            [
                ReadClause(text=clause, drafts=_drafts(clause, f"{place}.{number}", at))
                for number, clause in enumerate(_clauses(sentence))
            ]
        )
    return [clauses for clauses in found if clauses]


def of_subject(draft: FactDraft, subject: Subject) -> FactDraft:
    """Return a draft about the user as one about the subject of a profile."""
    if subject == "user":
        return draft
    english, chinese = SUBJECT_NAMES[subject]
    statement = re.sub(r"^User\b", english, draft.statement)
    return replace(draft, statement=re.sub("^用户", chinese, statement))


def turns_of_subject(subject: Subject, events: Sequence[Event]) -> list[Event]:
    """Return the turns with the subject of a profile in the role "user".

    For an agent, these are its own turns, and the user's turns that give it a name.
    """
    if subject == "user":
        return list(events)
    return [
        replace(event, role="user", text=_named(event))
        if event.role == "agent" or _named(event) != event.text
        else replace(event, role="agent")
        for event in events
        if event.role in ("agent", "user")
    ]


def _named(event: Event) -> str:
    if event.role != "user":
        return event.text
    for pattern, first_person in NAMES_OF_AGENT:
        if match := pattern.search(event.text):
            return first_person + CLAUSE_ENDS.split(event.text[match.end() :], maxsplit=1)[0]
    return event.text


def _clauses(sentence: str) -> list[str]:
    breaks = CLAUSES_ZH if language(sentence) == "zh" else CLAUSES_EN
    clauses = (clause.strip() for clause in breaks.split(sentence.rstrip(" .。;；")))
    return [clause for clause in clauses if clause]


def _drafts(clause: str, place: str, at: datetime) -> tuple[FactDraft, ...]:
    event = Event(
        event_id=place, author="user", role="user", text=in_first_person(clause), occurred_at=at
    )
    return tuple(without_moot(extract_facts(event)))


def in_first_person(clause: str) -> str:
    """Return a clause about a person in the first person."""
    if language(clause) == "zh":
        own = SUBJECT_ZH.sub("我", clause)
        return own if "我" in own else f"我{own}"
    if FIRST_EN.match(clause):
        return clause
    if POSSESSIVE_EN.match(clause):
        return POSSESSIVE_EN.sub("My", clause)
    rest = SUBJECT_EN.sub("", clause)
    adverb = ADVERB.match(rest)
    before = adverb[0] if adverb else ""
    verb, space, behind = rest[len(before) :].partition(" ")
    return f"I {before}{_uninflected(verb)}{space}{behind}"


def names_subject(clause: str) -> bool:
    """Return whether a clause starts with its subject."""
    return any(one.match(clause) for one in (POSSESSIVE_EN, SUBJECT_EN, SUBJECT_ZH))


def _uninflected(verb: str) -> str:
    if verb.lower() in VERBS_EN:
        return VERBS_EN[verb.lower()]
    match = INFLECTED.match(verb)
    if match is None:
        return verb
    return f"{match[1]}y" if match[1] else match[2] or match[3]


def same_words(clause: str) -> str:
    """Return the normalised words of a clause without its subject, for comparison."""
    words = SUBJECT_ZH.sub("", clause) if language(clause) == "zh" else SUBJECT_EN.sub("", clause)
    return normalised(words)


MAX_STATEMENTS: Final = 200
"""Maximum number of current statements; beyond it the oldest become history."""
MAX_HISTORY: Final = 500
"""Maximum number of ended statements."""
IN_ONE_SENTENCE: Final = 4
ORDER: Final = (
    "name", "surname", "age", "birthday", "zodiac", "job", "employer", "salary", "education",
    "grade", "residence", "rent", "origin", "work_city", "marital_status", "parent_of",
    "relation", "pet_kind", "language", "skill", "trait", "height", "weight", "allergy", "health",
    "medication", "car", "possession", "instrument", "tool", "favourite", "like", "dislike",
    "schedule", "plan",
)  # fmt: skip
OF_SUBJECT: Final = re.compile(r"^(User|The agent) (?=\w)|^(用户|智能体)(?!的)")
HEADINGS: Final[Mapping[Subject, Mapping[str, str]]] = {
    "user": {"en": "## User profile", "zh": "## 用户画像"},
    "agent": {"en": "## Agent profile", "zh": "## 智能体画像"},
}


class ProfileMemory:
    """A profile in one paragraph.

    A newer statement supersedes an older one of the same slot (residence, age ...), which becomes
    history. A late statement about an earlier moment becomes history immediately. A sentence that
    no rule reads is kept in its own words, once. The paragraph holds only text of an application
    or of a turn.
    """

    def __init__(
        self,
        statements: Iterable[Statement] = (),
        history: Iterable[Statement] = (),
        *,
        subject: Subject = "user",
    ) -> None:
        self.subject: Subject = subject
        self._statements = list(statements)
        self._history = list(history)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The statements that hold, in the order of the paragraph."""
        return tuple(_in_order(self._statements))

    @property
    def added_order(self) -> tuple[Statement, ...]:
        """The statements that hold, in the order they were added."""
        return tuple(self._statements)

    @property
    def history(self) -> tuple[Statement, ...]:
        """The statements that ended, in the order they ended."""
        return tuple(self._history)

    def get_content(self) -> str:
        """Return the paragraph; "" while nothing is known."""
        return _paragraph(self.statements)

    def content_as_of(self, moment: datetime) -> str:
        """Return the paragraph of the statements that held at a moment, by today's knowledge."""
        at = moment_of(moment, "moment")
        then = [
            one
            for one in [*self._history, *self._statements]
            if one.valid_from <= at and not (one.valid_until and one.valid_until <= at)
        ]
        return _paragraph(_in_order(then))

    def update_content(self, new_info: str, *, at: datetime | None = None) -> bool:
        """Merge a text into the paragraph; return whether it changed.

        at: time of the text, with a time zone; now by default. Raises InvalidInput for a text that
        is blank or above 20,000 characters.
        """
        moment = moment_of(at, "at")
        read = read_sentences(checked_text(new_info, "new_info"), moment)
        drafts = [draft for clauses in read for clause in clauses for draft in clause.drafts]
        before = self._shape()
        plan = self._plan([of_subject(draft, self.subject) for draft in drafts],
                          {draft.event_id: moment for draft in drafts})  # fmt: skip
        for clauses in read:
            self._add_written(clauses, plan, moment)
        self._bound(moment)
        return self._shape() != before

    def merge(
        self,
        drafts: Sequence[FactDraft],
        said_at: Mapping[str, datetime],
        basis_of: Callable[[FactDraft], Basis],
    ) -> FactPlan:
        """Merge the drafts of an extractor; return the facts opened, closed and restated.

        said_at: times by event id. basis_of: returns the turns that support a draft together.
        """
        plan = self._plan([of_subject(draft, self.subject) for draft in drafts], said_at)
        for fact in plan.opened:
            at, basis = said_at[fact.draft.event_id], basis_of(fact.draft)
            self._open(
                Statement(
                    statement_id=uuid7(), clauses=(_clause_of(fact),), said_at=(at,),
                    valid_from=fact.valid_from, valid_until=fact.valid_until,
                    bases=(basis,) if basis else (),
                )
            )  # fmt: skip
        for draft, known in plan.restated:
            self._restate(known.row_id, said_at[draft.event_id], basis_of(draft))
        self._bound(max(said_at.values()) if said_at else None)
        return plan

    def to_prompt(self, language: str | None = None) -> str:
        """Return the paragraph with a heading in "en", "zh" or, by default, its language."""
        content = self.get_content()
        spoken = language_of([content], language)
        return f"{HEADINGS[self.subject][spoken]}\n{content}".rstrip()

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the whole profile as JSON values."""
        return {
            "paragraph": self.get_content(),
            "subject": self.subject,
            "statements": [one.to_dict() for one in self._statements],
            "history": [one.to_dict() for one in self._history],
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> ProfileMemory:
        """Return the profile of a dict; the paragraph follows from its statements."""
        if not isinstance(given, Mapping) or given.get("subject") not in HEADINGS:
            raise InvalidInput("a profile must be a dict that ProfileMemory.to_dict() returned")
        return cls(
            [Statement.from_dict(one) for one in given.get("statements", ())],
            [Statement.from_dict(one) for one in given.get("history", ())],
            subject=given["subject"],
        )

    def copy(self) -> ProfileMemory:
        """Return an independent copy."""
        return ProfileMemory(self._statements, self._history, subject=self.subject)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProfileMemory) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment] # it changes

    def _shape(self) -> tuple[object, ...]:
        return (self.get_content(), len(self._history))

    def _plan(self, drafts: Sequence[FactDraft], said_at: Mapping[str, datetime]) -> FactPlan:
        known = [_known(fact, one) for one in [*self._history, *self._statements]
                 for fact in one.facts]  # fmt: skip
        plan = plan_facts(drafts, known, said_at, lambda: MemoryId(uuid7()))
        for fact_id, until in plan.closed.items():
            self._end_fact(fact_id, until)
        for place, one in enumerate(self._history):
            for until in filter(None, (plan.moved.get(MemoryId(f.fact_id)) for f in one.facts)):
                self._history[place] = replace(one, valid_until=until)
        for fact_id, at in plan.doubted.items():
            self._mark_fact(fact_id, at)
        return plan

    def _add_written(self, clauses: Sequence[ReadClause], plan: FactPlan, at: datetime) -> None:
        """Add the new clauses of a written sentence; facts that already ended become history."""
        holding: list[Clause] = []
        for clause in clauses:
            places = {draft.event_id for draft in clause.drafts}
            opened = [one for one in plan.opened if one.draft.event_id in places]
            ended = [one for one in opened if one.valid_until]
            for one in ended:
                self._open(_written([_clause_of(one)], at, one.valid_from, one.valid_until))
            now = tuple(_fact_of(one) for one in opened if not one.valid_until)
            for draft, known in plan.restated:
                if draft.event_id in places:
                    self._restate(known.row_id, at, ())
            if now:
                holding.append(Clause(text=clause.text, facts=now))
            elif not clause.drafts and not self._knows(clause.text):
                holding.append(Clause(text=clause.text))
        if holding:
            self._open(_written(holding, at, at))

    def _knows(self, text: str) -> bool:
        words = same_words(text)
        return any(same_words(clause.text) == words
                   for one in self._statements for clause in one.clauses)  # fmt: skip

    def _open(self, statement: Statement) -> None:
        (self._statements if statement.valid_until is None else self._history).append(statement)

    def _restate(self, fact_id: UUID, at: datetime, basis: Basis) -> None:
        for kept in (self._statements, self._history):
            for place, one in enumerate(kept):
                if any(fact.fact_id == fact_id for fact in one.facts):
                    kept[place] = restated(one, at, basis)

    def _mark_fact(self, fact_id: UUID, at: datetime | None) -> None:
        """Make a fact doubtful since a moment, or with None certain."""
        self._statements = [
            replace(one, clauses=tuple(
                replace(clause, facts=tuple(
                    replace(fact, doubted_at=at) if fact.fact_id == fact_id else fact
                    for fact in clause.facts
                )) for clause in one.clauses
            ))
            for one in self._statements
        ]  # fmt: skip

    def _end_fact(self, fact_id: UUID, until: datetime) -> None:
        """End the statement of a fact; the rest of its sentence continues as a new statement."""
        for place, one in enumerate(self._statements):
            if not any(fact.fact_id == fact_id for fact in one.facts):
                continue
            over = tuple(
                replace(
                    clause,
                    facts=tuple(
                        replace(f, doubted_at=None) for f in clause.facts if f.fact_id == fact_id
                    ),
                )
                for clause in one.clauses
            )
            self._history.append(
                replace(one, statement_id=uuid7(), clauses=over, valid_until=until)
            )
            rest = [part for clause in one.clauses if (part := _without(clause, fact_id))]
            rest = _with_subject(rest, self.subject)
            self._statements[place : place + 1] = (
                [replace(one, statement_id=uuid7(), clauses=tuple(rest))] if rest else []
            )
            return

    def _bound(self, at: datetime | None) -> None:
        """Move the oldest statements to history, and drop the oldest history, beyond the limits."""
        over = sorted(self._statements, key=lambda one: one.said_at[-1])[:-MAX_STATEMENTS]
        for one in over if at else ():
            self._statements.remove(one)
            until = max(at or one.valid_from, one.valid_from)
            self._history.append(replace(one, statement_id=uuid7(), valid_until=until))
        self._history.sort(key=lambda one: one.valid_until or one.valid_from)
        del self._history[:-MAX_HISTORY]


def _known(fact: ClauseFact, statement: Statement) -> KnownFact:
    return KnownFact(
        memory_id=MemoryId(fact.fact_id),
        fact_type=fact.fact_type,
        key=fact.key,
        value=fact.value,
        valid_from=statement.valid_from,
        valid_until=statement.valid_until,
        stated_at=statement.said_at,
        doubted_at=fact.doubted_at,
    )


def _fact_of(planned: PlannedFact) -> ClauseFact:
    draft = planned.draft
    return ClauseFact(
        fact_id=planned.memory_id, fact_type=draft.fact_type, slot=draft.slot, key=planned.key,
        value=draft.value, functional=draft.functional, statement=draft.statement,
        confidence=draft.confidence, subject=draft.subject, doubted_at=planned.doubted_at,
    )  # fmt: skip


def _clause_of(planned: PlannedFact) -> Clause:
    return Clause(text=planned.draft.statement.rstrip(" .。"), facts=(_fact_of(planned),))


def _written(
    clauses: Sequence[Clause], at: datetime, since: datetime, until: datetime | None = None
) -> Statement:
    return Statement(
        statement_id=uuid7(), clauses=tuple(clauses), said_at=(at,), valid_from=since,
        valid_until=until, told=True,
    )  # fmt: skip


def _without(clause: Clause, fact_id: UUID) -> Clause | None:
    """Return a clause without a fact, or None if nothing remains."""
    rest = tuple(fact for fact in clause.facts if fact.fact_id != fact_id)
    if len(rest) == len(clause.facts):
        return clause
    if not rest:
        return None
    return Clause(text=sentence_of([fact.statement for fact in rest]).rstrip(" .。"), facts=rest)


def _with_subject(clauses: Sequence[Clause], subject: Subject) -> list[Clause]:
    """Return the clauses; the first names the subject."""
    if not clauses:
        return []
    first, *others = clauses
    spoken = language(first.text)
    english, chinese = SUBJECT_NAMES[subject]
    is_named = in_first_person(first.text) == first.text or names_subject(first.text)
    if first.facts and not is_named:
        name = chinese if spoken == "zh" else f"{english} "
        first = replace(first, text=name + first.text)
    return [first, *others]


def _in_order(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements an application wrote, in its order, then the others by slot."""
    return sorted(statements, key=lambda one: (not one.told, 0 if one.told else _rank(one)))


def _rank(statement: Statement) -> int:
    slots = [fact.slot.split(".")[0] for fact in statement.facts]
    return min((ORDER.index(slot) for slot in slots if slot in ORDER), default=len(ORDER))


def _paragraph(statements: Sequence[Statement]) -> str:
    joined: list[str] = []
    for how, some in groupby(statements, key=_joins):
        texts = [one.clauses[0].shown if how else one.text for one in some]
        if not how:
            joined += texts
            continue
        for begin in range(0, len(texts), IN_ONE_SENTENCE):
            first, *others = texts[begin : begin + IN_ONE_SENTENCE]
            joined.append(sentence_of([first, *(OF_SUBJECT.sub("", one) for one in others)]))
    text = ""
    for sentence in joined:
        text += f" {sentence}" if text and text[-1].isascii() else sentence
    return text


def _joins(statement: Statement) -> tuple[str, ...] | None:
    """Return the group of statements (by subject and language) that share a sentence, or None."""
    if statement.told or len(statement.clauses) > 1:
        return None
    match = OF_SUBJECT.match(statement.text)
    return match.groups() if match else None
