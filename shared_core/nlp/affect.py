"""What words tell of feelings and of weight, as data: rules/signals.toml. Pure."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

from shared_core.core.domain import Emotion
from shared_core.nlp.text import language

MAX_CHARACTERS: Final = 4_000
"""So much of a text is read for what it expresses."""
QUESTION: Final = re.compile(r"[^.!?。！？\n]*[?？]")
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
    """A feeling, with its words in each language as one expression."""

    valence: float
    arousal: float
    labels: dict[str, str]
    words: dict[str, re.Pattern[str]]


@lru_cache
def load_feelings() -> tuple[Feeling, ...]:
    """Return the feelings of the data file, in its order."""
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
    """Return importance and expression of what makes a turn matter, the heaviest first."""
    found = [
        (float(table["importance"]), re.compile(table[name], re.IGNORECASE))
        for table in _source()["weights"]
        for name in ("en", "zh")
    ]
    return tuple(sorted(found, key=lambda one: -one[0]))


@lru_cache
def _source() -> dict[str, list[dict[str, str]]]:
    text = (files("shared_core.nlp.rules") / "signals.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text))


def emotion_of(text: str) -> Emotion | None:
    """Return what a text says it feels in so many words; None for no such word.

    Negated words and questions do not count: "not happy" is no sadness. Of several feelings valence
    and arousal are the mean, and the label is that of the one with most words.
    """
    spoken = language(text)
    text = text[:MAX_CHARACTERS].replace("’", "'")
    if not _any_feeling(spoken).search(text):
        return None
    stated = QUESTION.sub(" ", text)
    counted = [
        (feeling, _count(feeling.words[spoken], stated, spoken)) for feeling in load_feelings()
    ]
    counted = [(feeling, count) for feeling, count in counted if count]
    if not counted:
        return None
    total = sum(count for _, count in counted)
    strongest = max(counted, key=lambda one: one[1])[0]
    return Emotion(
        valence=round(sum(feeling.valence * count for feeling, count in counted) / total, 2),
        arousal=round(sum(feeling.arousal * count for feeling, count in counted) / total, 2),
        label=strongest.labels[spoken],
    )


def _count(words: re.Pattern[str], text: str, spoken: str) -> int:
    negated = NEGATED_ZH if spoken == "zh" else NEGATED_EN
    return sum(
        not negated.search(text[max(0, match.start() - 24) : match.start()])
        for match in words.finditer(text)
    )
