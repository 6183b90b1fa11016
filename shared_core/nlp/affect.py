"""Emotion and importance of a text, from the word lists of rules/signals.toml. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from shared_core.core.domain import Emotion, FactDraft
from shared_core.nlp.extractive_summary import QUESTION, SMALL_TALK
from shared_core.nlp.rules import read_rule_file
from shared_core.nlp.text import language

MAX_CHARACTERS: Final = 4_000
"""Maximum number of characters read of a text."""
ASKING_PART: Final = re.compile(r"(?<![^.!?。！？\n])[^.!?。！？\n]*+[?？]")
NEGATED_EN: Final = re.compile(
    r"\b(?:not|no|never|hardly|isn't|wasn't|aren't|am not|don't|didn't|doesn't|can't|without|nor"
    r"|far from|less|if|would be|used to be)(?: \w+){0,2} $",
    re.IGNORECASE,
)
NEGATED_ZH: Final = re.compile(
    "(?:不|没有?|别|未|无|并非|不太|不是很|不怎么|不再|如果|要是)(?:太|很|那么|感到|觉得)?$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeling:
    """A feeling and the pattern of its words in each language."""

    valence: float
    arousal: float
    labels: dict[str, str]
    words: dict[str, re.Pattern[str]]


@lru_cache
def load_feelings() -> tuple[Feeling, ...]:
    """Return the feelings of signals.toml, in file order."""
    return tuple(
        Feeling(
            valence=float(table["valence"]),
            arousal=float(table["arousal"]),
            labels={"en": table["label"], "zh": table["label_zh"]},
            words={
                "en": re.compile(rf"\b(?:{'|'.join(table['en'])})\b", re.IGNORECASE),
                "zh": re.compile("|".join(table["zh"])),
            },
        )
        for table in _source()["feelings"]
    )


@lru_cache
def _any_feeling(language: str) -> re.Pattern[str]:
    words = "|".join(feeling.words[language].pattern for feeling in load_feelings())
    return re.compile(words, re.IGNORECASE)


@lru_cache
def load_weights() -> tuple[tuple[float, re.Pattern[str]], ...]:
    """Return (importance, pattern) pairs for topics that matter, most important first."""
    found = [
        (float(table["importance"]), re.compile(table[name], re.IGNORECASE))
        for table in _source()["weights"]
        for name in ("en", "zh")
    ]
    return tuple(sorted(found, key=lambda one: -one[0]))


@lru_cache
def _source() -> dict[str, list[dict[str, str]]]:
    return dict(read_rule_file("signals.toml"))


def emotion_of(text: str) -> Emotion | None:
    """Return the emotion a text states outright, or None.

    Negated words and questions do not count: "not happy" is no sadness. Valence and arousal are the
    mean over all feelings found. The label is the feeling with the most words.
    """
    lang = language(text)
    text = text[:MAX_CHARACTERS].replace("’", "'")
    if not _any_feeling(lang).search(text):
        return None
    stated = ASKING_PART.sub(" ", text)
    counted = [(feeling, _count(feeling.words[lang], stated, lang)) for feeling in load_feelings()]
    counted = [(feeling, count) for feeling, count in counted if count]
    if not counted:
        return None
    total = sum(count for _, count in counted)
    strongest = max(counted, key=lambda one: one[1])[0]
    return Emotion(
        valence=round(sum(feeling.valence * count for feeling, count in counted) / total, 2),
        arousal=round(sum(feeling.arousal * count for feeling, count in counted) / total, 2),
        label=strongest.labels[lang],
    )


def _count(words: re.Pattern[str], text: str, lang: str) -> int:
    negated = NEGATED_ZH if lang == "zh" else NEGATED_EN
    return sum(
        not negated.search(text[max(0, match.start() - 24) : match.start()])
        for match in words.finditer(text)
    )


EVERYDAY: Final = 5.0
QUESTION_ALONE: Final = 3.0
SMALL_TALK_ALONE: Final = 1.0

BY_SLOT: Final[Mapping[str, float]] = {
    "name": 10.0, "age": 9.0, "birthday": 9.0, "email": 9.0, "employer": 9.0, "job": 9.0,
    "residence": 9.0, "origin": 9.0, "work_city": 8.0, "allergy": 8.0, "trait": 8.0,
    "marital_status": 8.0, "education": 8.0, "relation": 8.0, "rule": 7.0, "language": 7.0,
    "like": 6.0, "dislike": 6.0, "favourite": 6.0, "activity": 5.0, "surname": 9.0, "health": 8.0,
    "medication": 8.0, "parent_of": 8.0, "plan": 7.0, "schedule": 6.0, "car": 6.0,
    "possession": 6.0, "pet_kind": 7.0, "rent": 6.0, "salary": 7.0, "grade": 8.0, "skill": 7.0,
    "weight": 6.0, "height": 6.0, "zodiac": 6.0, "passport_expiry": 7.0, "instrument": 6.0,
    "size": 6.0,
}  # fmt: skip
OF_OTHERS: Final[Mapping[str, float]] = {
    "allergy": 8.0, "trait": 7.0, "marital_status": 7.0, "birthday": 7.0, "health": 7.0,
}  # fmt: skip
"""Importance of facts about the people around the user, by attribute."""
PERSON_FACT_IMPORTANCE: Final = 6.0
"""Importance of every other fact about those people."""


def fact_importance(slot: str) -> float:
    """Return the importance of a fact by its slot, from 1 (trivial) to 10 (who the user is)."""
    parts = slot.split(".")
    if parts[0] == "relation" and len(parts) > 2:
        return OF_OTHERS.get(parts[2], PERSON_FACT_IMPORTANCE)
    return float(BY_SLOT.get(parts[0], EVERYDAY))


def turn_importance(text: str, facts: Sequence[FactDraft]) -> float:
    """Return the importance of a turn, by its facts or else by its words."""
    if facts:
        return max(fact.importance for fact in facts)
    text = text[:MAX_CHARACTERS].strip()
    for importance, regex in load_weights():
        if regex.search(text):
            return importance
    if SMALL_TALK.match(text) or not re.search(r"\w", text):
        return SMALL_TALK_ALONE
    return QUESTION_ALONE if QUESTION.search(text) else EVERYDAY
