"""Which facts a question asks for: "Where do I live now?" asks for the residence. Pure.

The questions stand in rules/questions.toml.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from shared_core.nlp.relation_phrases import asked_kin, without_kin
from shared_core.nlp.rules import PLACEHOLDER, load_kinship, read_rule_file
from shared_core.nlp.slots import FAVOURITE, RELATION, slot_name
from shared_core.nlp.text import Language, language
from shared_core.nlp.typed_text import as_meant

READ_CHARACTERS: Final = 120
"""Maximum characters of a question that is read; a longer text asks for more than a fact."""
END: Final = " \t\r\n?？!！.。…~～"
THIRD_PERSON: Final = (
    (re.compile(r"\b(?:the )?user's\b|用户的", re.IGNORECASE), {"en": "my", "zh": "我的"}),
    (re.compile(r"\b(?:the )?user\b|用户", re.IGNORECASE), {"en": "i", "zh": "我"}),
)
"""How an agent speaks of the user when it asks a memory, and how the user would say it."""
SELF: Final = (
    (re.compile(r"\b(?:we|us)\b"), "i"), (re.compile(r"\bour\b"), "my"),
    (re.compile("(?:我|咱)(?:们|們|哋)?(?:还|還)?(?:的)?"), "我"),
)  # fmt: skip
BARE_CHARACTERS: Final = 24
"""Maximum characters of a bare noun phrase that asks."""
MINE: Final[Mapping[Language, str]] = {"en": "my ", "zh": "我"}
IN_FULL: Final[Mapping[Language, Collection[str]]] = {
    "en": ["what is {}"], "zh": ["{}是什么", "{}是多少", "{}是哪天", "{}是哪里"],
}  # fmt: skip
"""How a bare noun phrase asks: "wife name" for "what is my wife's name", 我生日."""
OF_KIN: Final = {"": "name", "place": "residence", "school": "education"}
"""The slot of the user for an attribute of a relative, where its name is another."""


def asked_slots(question: str, among: Collection[str]) -> frozenset[str]:
    """Return which slots of facts a question asks for, about the user or those around them.

    {"residence"} for "Where do I live?", {"relation.sister.age"} for 我姐姐多大. Empty for a text
    that is anything but such a question.
    """
    if len(question) > READ_CHARACTERS:
        return frozenset()
    lang = language(question)
    asked = " ".join(as_meant(question).strip(END).casefold().split())
    for words, instead in THIRD_PERSON:
        asked = words.sub(instead[lang], asked)
    relations = frozenset(
        name for one in asked_kin(asked) for name in (one, *load_kinship().general.get(one, ()))
    )
    forms = {_without_around(asked, lang, relations)}
    if len(asked) <= BARE_CHARACTERS:
        forms.add(_without_around(MINE[lang] + asked, lang, relations))
        forms |= {words.format(one) for one in forms for words in IN_FULL[lang]}
    return frozenset(
        slot for slot in among
        for of_user in [_of_user(slot, relations)]
        if any(_asks_for(lang, form, of_user) for form in forms)
    )  # fmt: skip


def _without_around(asked: str, lang: Language, relations: Collection[str]) -> str:
    """Return a question about the user in the place of relatives, without the words around it."""
    if relations:
        asked = without_kin(asked, lang)
    for around in _around(lang):
        asked = around.sub("", asked)
    for words, word in SELF:
        asked = words.sub(word, asked)
    return " ".join(asked.split())


def slots_asked(question: str) -> frozenset[str]:
    """Return which slots a question asks for, held or not, of the user and relatives it names."""
    slots = [*_source()["slots"]]
    of_kin = [f"{RELATION}.{kin}" for kin in asked_kin(question)]
    return asked_slots(
        question, [*slots, *of_kin, *(f"{one}.{to}" for one in of_kin for to in slots)]
    )


def names_slot(question: str) -> bool:
    """Return whether a question asks for a slot of the user, held or not."""
    return bool(asked_slots(question, _source()["slots"]))


def _of_user(slot: str, relations: Collection[str]) -> str:
    """Return the slot that a question about the user would ask for, or "" for another subject.

    relations: those that the question is about instead of the user.
    """
    kind, _, rest = slot.partition(".")
    if kind != RELATION:
        return "" if relations else slot
    relation, _, attribute = rest.partition(".")
    return OF_KIN.get(attribute, attribute) if relation in relations else ""


def _asks_for(lang: Language, asked: str, slot: str) -> bool:
    kind, _, thing = slot.partition(".")
    pattern = _pattern(lang, kind)
    match = pattern.fullmatch(asked) if pattern is not None else None
    if match is None or kind != FAVOURITE:
        return match is not None and not thing
    named = next((word for word in match.groups() if word), "")
    return slot_name(f"{FAVOURITE}.{named}") == slot


@lru_cache
def _around(lang: Language) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(one) for one in _source()["around"][lang])


@lru_cache(maxsize=256)
def _pattern(lang: Language, slot: str) -> re.Pattern[str] | None:
    """Return the pattern of the questions that ask for a slot, compiled at its first use."""
    source = _source()
    if slot not in source["slots"]:
        return None
    pattern = "|".join(source["slots"][slot][lang])
    return re.compile(PLACEHOLDER.sub(lambda match: source["fragments"][match[1]], pattern))


@lru_cache
def _source() -> Mapping[str, Any]:
    return read_rule_file("questions.toml")
