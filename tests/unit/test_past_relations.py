"""A relation in the past tense is the present one that has ended, where that one is known."""

from __future__ import annotations

from every_case import every_case

from shared_core.nlp.relation_schema import present_relation


@every_case(
    ("lived_in", "lives_in"),
    ("resided_in", "lives_in"),
    ("used_to_live_in", "lives_in"),
    ("formerly_lived_in", "lives_in"),
    ("was_based_in", "lives_in"),
    ("worked_at", "works_at"),
    ("worked_for", "works_at"),
    ("was_employed_by", "works_at"),
    ("worked_as", "works_as"),
)
def test_a_past_form_has_its_present_one(past: str, present: str) -> None:
    assert present == present_relation(past)


@every_case(
    "lives_in", "works_at", "works_for", "employed_by", "based_in", "studied_at", "born_in",
    "was_born_in", "liked", "worked", "worked_on", "worked_with", "lived_with", "moved_to",
    "married", "married_to", "visited", "was_friend_of", "used_to", "need_in", "bred_in", "曾住在",
)  # fmt: skip
def test_other_relations_have_none(relation: str) -> None:
    assert present_relation(relation) is None
