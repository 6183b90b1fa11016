"""What the rules read of lines as people type them, and what they must not take from their like."""

from __future__ import annotations

from datetime import UTC, datetime

from every_case import every_case
from typed_lines import CHINESE, ENGLISH, RETRACTIONS, SILENT

from shared_core.core.domain import Event, FactDraft
from shared_core.extraction.rule_reader import extract_facts


def facts(text: str) -> list[FactDraft]:
    said_at = datetime(2026, 3, 10, 10, tzinfo=UTC)
    return extract_facts(
        Event(event_id="e1", author="u", role="user", text=text, occurred_at=said_at)
    )


@every_case(*(ENGLISH + CHINESE))
def test_a_typed_line_becomes_a_fact(pattern: str, text: str, slot: str, value: str) -> None:
    found = {(fact.pattern, fact.operation, fact.slot, fact.value) for fact in facts(text)}
    assert (pattern, "assert", slot, value) in found


@every_case(*RETRACTIONS)
def test_a_rule_of_style_is_withdrawn(pattern: str, text: str, value: str) -> None:
    found = {(fact.pattern, fact.operation, fact.slot, fact.value) for fact in facts(text)}
    assert (pattern, "retract", "rule", value) in found


@every_case(*SILENT)
def test_a_line_of_the_same_words_fills_no_slot(slot: str, text: str) -> None:
    assert [] == [(fact.value, fact.pattern) for fact in facts(text) if fact.slot == slot]
