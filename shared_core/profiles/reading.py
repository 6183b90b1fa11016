"""Sentences about somebody become clauses and the facts in them, by the rules. Pure.

The rules read what users say of themselves. So "User lives in Leeds" is read as "I live in Leeds",
and 用户住在北京 as 我住在北京; the words that are kept are those that were told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from shared_core.core.domain import Event, FactDraft
from shared_core.extraction.rule_reader import extract_facts
from shared_core.knowledge.fact_planning import without_moot
from shared_core.nlp.text import language, normalised, sentences
from shared_core.profiles.parts import Subject

CLAUSES_ZH: Final = re.compile("[，,；;]")
CLAUSES_EN: Final = re.compile(r";\s+|,\s+(?:and\s+)?|\s+and\s+(?=\w+s\s)")
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
"""How a user tells an agent its name, and how the agent would say so."""
CLAUSE_ENDS: Final = re.compile("[.!?。！？，,;；\n]")
AS_TOLD: Final[Mapping[Subject, tuple[str, str]]] = {
    "user": ("User", "用户"),
    "agent": ("The agent", "智能体"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadClause:
    """A clause as it was told, and what the rules read in it. read: whether they read anything."""

    text: str
    drafts: tuple[FactDraft, ...] = ()


def read_told(text: str, at: datetime) -> list[list[ReadClause]]:
    """Return the sentences of a text about somebody, each as its clauses.

    The event id of a draft is the place of its clause, "2.0".
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
    """Return a draft that tells of the user, as one that tells of the subject of a profile."""
    if subject == "user":
        return draft
    english, chinese = AS_TOLD[subject]
    told = re.sub(r"^User\b", english, draft.statement)
    return replace(draft, statement=re.sub("^用户", chinese, told))


def as_said_by(subject: Subject, events: Sequence[Event]) -> list[Event]:
    """Return the turns so that the subject of a profile is who they call "user".

    Of an agent its own turns are read, and of the user's what gives it a name.
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
    for pattern, said in NAMES_OF_AGENT:
        if match := pattern.search(event.text):
            return said + CLAUSE_ENDS.split(event.text[match.end() :], maxsplit=1)[0]
    return event.text


def _clauses(sentence: str) -> list[str]:
    breaks = CLAUSES_ZH if language(sentence) == "zh" else CLAUSES_EN
    parts = [part.strip() for part in breaks.split(sentence.rstrip(" .。;；"))]
    return [part for part in parts if part]


def _drafts(clause: str, place: str, at: datetime) -> tuple[FactDraft, ...]:
    event = Event(
        event_id=place, author="user", role="user", text=in_first_person(clause), occurred_at=at
    )
    return tuple(without_moot(extract_facts(event)))


def in_first_person(clause: str) -> str:
    """Return a clause about somebody as they would say it of themselves."""
    if language(clause) == "zh":
        told = SUBJECT_ZH.sub("我", clause)
        return told if "我" in told else f"我{told}"
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
    """Tell whether a clause begins with whom it speaks of."""
    return any(one.match(clause) for one in (POSSESSIVE_EN, SUBJECT_EN, SUBJECT_ZH))


def _uninflected(verb: str) -> str:
    if verb.lower() in VERBS_EN:
        return VERBS_EN[verb.lower()]
    match = INFLECTED.match(verb)
    if match is None:
        return verb
    return f"{match[1]}y" if match[1] else match[2] or match[3]


def same_words(clause: str) -> str:
    """Return a clause without its subject and without what does not count in comparing."""
    told = SUBJECT_ZH.sub("", clause) if language(clause) == "zh" else SUBJECT_EN.sub("", clause)
    return normalised(told)
