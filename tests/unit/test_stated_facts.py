"""Sentences of what a caller states, and slots that are known but for a letter."""

from __future__ import annotations

from every_case import every_case

from shared_core.core.domain import USER
from shared_core.extraction.stated_facts import (
    sentence,
    stated_draft,
    stated_slot,
    statement_language,
)
from shared_core.nlp.slots import known_slot_names, near_slot
from shared_core.nlp.text import Language

SLOTS = sorted(
    {name for name in known_slot_names() if stated_slot(name).name == name}
    | {"favourite.colour", "relation.daughter", "relation.daughter.age", "relation.mother.place",
       "relation.dog.like", "shoe_size", "my.own.slot"}
)  # fmt: skip


@every_case(*SLOTS)
@every_case(
    ("en", "Zenith", USER), ("en", "Zenith", "Mia"), ("zh", "苏州", USER), ("zh", "苏州", "米娅")
)
def test_every_slot_has_a_sentence(spoken: Language, value: str, subject: str, slot: str) -> None:
    said = sentence(stated_slot(slot), value, subject, spoken)
    who = {"en": "User", "zh": "用户"}[spoken] if subject == USER else subject
    assert value in said and "{" not in said
    assert said.endswith("。" if spoken == "zh" else ".")
    assert who in said or slot == "rule"


@every_case(
    ("age", "30", "en", "User is 30 years old."),
    ("age", "30 years old", "en", "User is 30 years old."),
    ("age", "30", "zh", "用户30岁。"),
    ("age", "三十岁", "zh", "用户三十岁。"),
    ("job", "engineer", "en", "User is an engineer."),
    ("relation.daughter", "米娅", "zh", "用户的女儿叫米娅。"),
    ("favourite.colour", "蓝色", "zh", "用户最喜欢的颜色是蓝色。"),
    ("rule", "Answer briefly.", "en", "Rule from the user: Answer briefly."),
    ("employer", "Yahoo!", "en", "User works at Yahoo!."),
)
def test_a_sentence_says_a_value(slot: str, value: str, spoken: Language, expected: str) -> None:
    assert expected == sentence(stated_slot(slot), value, USER, spoken)


@every_case(
    ("Zenith", [], "en"),
    ("苏州", ["User likes tea."], "zh"),
    ("Zenith", ["用户喜欢茶。", "用户会说中文。", "User likes tea."], "zh"),
    ("Zenith", ["用户会说中文。", "User likes tea.", "User is 30 years old."], "en"),
)
def test_a_bare_name_is_stated_in_the_language_of_what_is_known(
    said: str, known: list[str], expected: Language
) -> None:
    assert expected == statement_language(said, known)


def test_a_slot_of_the_callers_own_holds_one_value() -> None:
    own, known = stated_slot("shoe size"), stated_slot("likes")
    assert ("shoe_size", "custom", True) == (own.name, own.fact_type, own.functional)
    assert ("like", "preference", False) == (known.name, known.fact_type, known.functional)
    draft = stated_draft(known, "tea", "Mia", None, "en")
    assert ("about.mia.like", "Mia") == (draft.slot, draft.subject)


@every_case(
    ("employr", "employer"), ("emplloyer", "employer"), ("emplpyer", "employer"),
    ("emplyoer", "employer"), ("employe", "employer"), ("xemployer", "employer"),
    ("residnce", "residence"), ("compny", "company"), ("employer", None), ("emplyr", None),
    ("game", None), ("mane", None), ("my.employr", None), ("鞋码", None), ("", None),
)  # fmt: skip
def test_one_edit_is_near(given: str, meant: str | None) -> None:
    assert meant == near_slot(given)
