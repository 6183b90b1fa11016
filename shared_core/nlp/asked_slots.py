"""Which facts a question asks for: "Where do I live now?" asks for the residence. Pure.

The questions stand in rules/questions.toml.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from shared_core.nlp.coreference import SPEAKER
from shared_core.nlp.relation_phrases import asked_kin, asks_about_user, with_subject
from shared_core.nlp.rules import load_kinship, read_rule_file
from shared_core.nlp.slots import RELATION, favourites_named
from shared_core.nlp.text import Language, language

ATTRIBUTES: Final = {"": "name", "place": "residence", "school": "education"}
"""The slot of the user for an attribute of a relative, where its name is another."""
OWNER: Final = re.compile(r" i (?:['’]s|s)\b", re.IGNORECASE)
READ_CHARACTERS: Final = 300
"""Maximum characters of a question that is read; a longer text asks for more than a fact."""
THIRD_PERSON: Final = (
    (re.compile(r"\b(?:the )?user['’]s\b|用户的", re.IGNORECASE), {"en": "my", "zh": "我的"}),
    (re.compile(r"\b(?:the )?user\b|用户", re.IGNORECASE), {"en": "i", "zh": "我"}),
)
"""How an agent speaks of the user when it asks a memory."""


def asked_slots(question: str, among: Collection[str]) -> frozenset[str]:
    """Return which slots of facts a question asks for, about the user or those around them.

    {"residence"} for "Where do I live?", {"relation.sister.age"} for 我姐姐多大. Empty for a
    question about anything else, and for one that names the user beside somebody around them.
    """
    if len(question) > READ_CHARACTERS:
        return frozenset()
    lang = language(question)
    for words, instead in THIRD_PERSON:
        question = words.sub(instead[lang], question)
    if not SPEAKER.search(question):
        return frozenset()
    kin = asked_kin(question)
    if kin and asks_about_user(question):
        return frozenset()
    if kin:
        question = with_subject(question, "我" if lang == "zh" else " i ")
        question = OWNER.sub("my", question)
    asked = _AskedOfUser(" ".join(question.split()), _questions(lang))
    if not kin:
        favourites = favourites_named(question).intersection(among)
        return favourites.union(slot for slot in among if asked.asks_for(slot))
    relations = {name for one in kin for name in (one, *load_kinship().general.get(one, ()))}
    return frozenset(slot for slot in among if asked.asks_for(_of_relative(slot, relations)))


@dataclass(frozen=True, slots=True)
class _AskedOfUser:
    _text: str
    _patterns: Mapping[str, re.Pattern[str]]

    def asks_for(self, slot: str) -> bool:
        pattern = self._patterns.get(slot)
        return pattern is not None and pattern.search(self._text) is not None


def _of_relative(slot: str, relations: Collection[str]) -> str:
    """Return the attribute in a slot of one of these relations: "age" of "relation.sister.age"."""
    kind, _, rest = slot.partition(".")
    relation, _, attribute = rest.partition(".")
    if kind != RELATION or relation not in relations:
        return ""
    return ATTRIBUTES.get(attribute, attribute)


@lru_cache
def _questions(lang: Language) -> Mapping[str, re.Pattern[str]]:
    source = read_rule_file("questions.toml")
    words = {"{be}": source["be"], "{now}": source["now"]}

    def filled(pattern: str) -> str:
        for name, expression in words.items():
            pattern = pattern.replace(name, expression)
        return pattern

    either = {
        slot: "|".join(f"(?:{filled(one)})" for one in questions[lang])
        for slot, questions in source["slots"].items()
    }
    begin = r"\b" if lang == "en" else ""
    return {slot: re.compile(f"{begin}(?:{one})", re.IGNORECASE) for slot, one in either.items()}
