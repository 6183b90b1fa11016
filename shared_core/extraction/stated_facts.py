"""Turn a fact that a caller states into a draft: slot, sentence and subject. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from shared_core.core.domain import USER, FactDraft
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput
from shared_core.nlp.affect import fact_importance
from shared_core.nlp.rules import load_rules
from shared_core.nlp.slots import Slot, is_kin, near_slot, near_slot_message, slot_about, slot_of
from shared_core.nlp.text import HAN_CHARACTER, Language, language

STATED: Final = "caller"
"""Pattern and extractor name of a fact stated by a caller."""
USER_IN: Final = {"en": "User", "zh": "用户"}
GENERAL: Final = {"en": "User's {name} is {value}.", "zh": "用户的{name}是{value}。"}
INSTEAD: Final = {
    ("en", "activity"): "User's activity is {value}.",
    ("zh", "activity"): "用户的活动是{value}。",
    ("zh", "trait"): "用户是{value}。",
}
"""Sentences for slots with a rule sentence that needs the words of a match."""
YEARS: Final = re.compile(r"[\d〇零一二两三四五六七八九十百]+")
YEARS_OLD: Final = re.compile(r"(?:years? old|岁)$", re.IGNORECASE)


def stated_slot(given: str) -> Slot:
    """Return the slot a caller names. A custom slot holds one value at a time.

    Raises InvalidInput for no name, a secret, or a typo of a known slot, which it suggests.
    """
    if not isinstance(given, str):
        raise InvalidInput(f"slot must be a string such as 'employer', got {shown(given)}")
    slot = slot_of(given)
    if slot is None or not slot.name:
        raise InvalidInput(
            "slot must be a name of letters, e.g. 'employer' or 'shoe_size', and no secret,"
            f" got {shown(given)}"
        )
    if not slot.known and near_slot(slot.name):
        raise InvalidInput(near_slot_message(given, slot.name))
    if slot.known:
        return slot
    return Slot(name=slot.name, fact_type="custom", functional=True, known=False)


def stated_draft(
    slot: Slot, value: str, subject: str, valid_from: datetime | None, lang: Language
) -> FactDraft:
    """Return the draft of what a caller states about the user or another subject."""
    about, of = subject, slot
    if subject != USER:
        of = slot_about(subject, slot)
        if of.name.startswith("relation.") and (of != slot or is_kin(subject)):
            about = USER
    return FactDraft(
        fact_type=of.fact_type,
        slot=of.name,
        value=value,
        statement=sentence(slot if about == subject else of, value, about, lang),
        event_id="",
        functional=of.functional,
        confidence=1.0,
        pattern=STATED,
        language=lang,
        subject=about,
        valid_from=valid_from,
        importance=fact_importance(of.name),
    )


def statement_language(text: str, known: Sequence[str]) -> Language:
    """Return the language for a stated value: its own, or that of most known statements.

    text: the value, plus the slot if it is a custom one. known: statements about the user.
    """
    chinese = sum(language(one) == "zh" for one in known)
    return "zh" if HAN_CHARACTER.search(text) or 2 * chinese > len(known) else "en"


def sentence(slot: Slot, value: str, subject: str, lang: Language) -> str:
    """Return a sentence that states the value of a slot: "User works at Zenith."."""
    parts = slot.name.split(".")
    shape, names = slot.name, {"name": _words(slot.name)}
    if parts[0] == "favourite" and len(parts) == 2:
        shape, names["thing"] = "favourite.{thing}", _word(parts[1], lang)
    elif parts[0] == "relation" and len(parts) > 1:
        shape = ".".join(["relation.{kin}", *parts[2:]])
        names["kin"] = names["canonical_kin"] = _word(parts[1], lang)
    own = load_rules(lang).sentences.get(shape, GENERAL[lang])
    template = INSTEAD.get((lang, slot.name), own) if slot.known else GENERAL[lang]
    names |= {"a": "an" if value[:1].lower() in {*"aeiou"} else "a", "verb": "is"}
    shown = _aged(value, lang) if parts[-1] == "age" else value
    text = template.format_map(names | {"value": shown.rstrip(".。")})
    if parts[-1] == "age" and YEARS_OLD.search(value.strip()):
        text = re.sub(r" years old\.$", ".", text)
    return text if subject == USER else text.replace(USER_IN[lang], subject, 1)


def _aged(value: str, lang: Language) -> str:
    return f"{value}岁" if lang == "zh" and YEARS.fullmatch(value.strip()) else value


def _word(name: str, lang: Language) -> str:
    """Return the word of a language for a relation or a thing."""
    words = load_rules(lang).canonical
    if lang == "zh":
        found = [word for word, one in words.items() if one == name and HAN_CHARACTER.search(word)]
        return min(found, key=len, default=name)
    return name


def _words(name: str) -> str:
    return re.sub(r"[._]+", " ", name).strip()
