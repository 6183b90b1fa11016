"""What the trained reader knows of tags and words: `nlp/rules/reader.toml`, read on first use."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from shared_core.nlp.rules import load_rules, read_rule_file
from shared_core.nlp.text import Language

LANGUAGES: Final[tuple[Language, ...]] = ("en", "zh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """What becomes of the spans of a tag; see reader.toml."""

    slot: str
    shape: str = "words"
    whole: bool = False
    of_kin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRules:
    """The reader's data in one language; see reader.toml.

    slot_floor, value_floor: least probabilities. words: expressions by name. things: words for the
    only thing of a slot, such as "car"; named: expressions of them where the user owns the thing.
    """

    slot_floor: float
    value_floor: float
    kin: Mapping[str, str]
    sentences: Mapping[str, str]
    words: Mapping[str, re.Pattern[str]]
    things: Mapping[str, Collection[str]]
    named: Mapping[str, re.Pattern[str]]


@lru_cache
def load_tags() -> Mapping[str, Tag]:
    """Return the tags of the reader by name."""
    return {name: Tag(**found) for name, found in _source()["tags"].items()}


@lru_cache
def load_reader_rules(lang: Language) -> ReaderRules:
    """Return the reader's floors, words and sentences in a language."""
    source = _source()
    return ReaderRules(
        slot_floor=source["floors"][lang]["slot"],
        value_floor=source["floors"][lang]["value"],
        kin={**load_rules(lang).kin, **source["kin"][lang]},
        sentences={**load_rules(lang).sentences, **source["sentences"][lang]},
        words={name: re.compile(one, re.IGNORECASE) for name, one in source["words"][lang].items()},
        things={slot: frozenset(words) for slot, words in source["things"][lang].items()},
        named={slot: _named(words, lang) for slot, words in source["things"][lang].items()},
    )


def _named(words: Collection[str], lang: Language) -> re.Pattern[str]:
    known = f"(?P<thing>{'|'.join(sorted(words, key=len, reverse=True))})"
    own = r"\b(?:my|our|the) (?:old )?" if lang == "en" else ""
    return re.compile(own + known + (r"\b" if lang == "en" else ""), re.IGNORECASE)


@lru_cache
def _source() -> dict[str, Any]:
    return read_rule_file("reader.toml")
