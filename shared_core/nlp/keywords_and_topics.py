"""Keywords, topics and sentiment of a text. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from shared_core.nlp.affect import emotion_of
from shared_core.nlp.rules import read_rule_file
from shared_core.nlp.text import Language, search_terms

MOST_KEYWORDS: Final = 10
MAX_CHARACTERS: Final = 4_000
"""Maximum number of characters read of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFeatures:
    """Keywords, topics and sentiment of a text.

    keywords: the ten most frequent words at most. topics: English names. sentiment: -1 (unpleasant)
    to 1 (pleasant), None without an emotional word.
    """

    keywords: tuple[str, ...]
    topics: tuple[str, ...]
    sentiment: float | None


def text_features(text: str) -> TextFeatures:
    """Return the keywords, topics and sentiment of a text."""
    text = text[:MAX_CHARACTERS]
    emotion = emotion_of(text)
    return TextFeatures(
        keywords=tuple(keywords(text)),
        topics=tuple(topics(text)),
        sentiment=emotion.valence if emotion else None,
    )


def keywords(text: str) -> list[str]:
    """Return the most frequent terms of a text; for Chinese, pairs of characters."""
    counted = Counter(term for term in search_terms(text) if len(term) > 1)
    return [term for term, _ in counted.most_common(MOST_KEYWORDS)]


def topics(text: str) -> list[str]:
    """Return the names of a text's topics, in file order."""
    return [name for name, words in _topics().items() if words.search(text)]


def topic_names() -> dict[str, str]:
    """Return the English name for each English or Chinese topic name."""
    tables = mind_rules()["topics"]
    return {table[field]: table["name"] for table in tables for field in ("name", "name_zh")}


@lru_cache
def _topics() -> dict[str, re.Pattern[str]]:
    return {
        table["name"]: re.compile(
            rf"\b(?:{'|'.join(table['en'])})\b|{'|'.join(table['zh'])}", re.IGNORECASE | re.ASCII
        )
        for table in mind_rules()["topics"]
    }


@lru_cache
def mind_rules() -> dict[str, list[dict[str, Any]]]:
    """Return the tables of rules/mind.toml."""
    return read_rule_file("mind.toml")


Rule: TypeAlias = "tuple[dict[Language, str], float, dict[Language, re.Pattern[str]]]"


@lru_cache
def patterns(dimension: str) -> tuple[Rule, ...]:
    """Return (labels, confidence, patterns) of the rules for a dimension."""
    return tuple(
        (
            {"en": table["label"], "zh": table["label_zh"]},
            float(table["confidence"]),
            {
                "en": re.compile("|".join(table["en"]), re.IGNORECASE),
                "zh": re.compile("|".join(table["zh"])),
            },
        )
        for table in mind_rules()["findings"]
        if table["dimension"] == dimension
    )
