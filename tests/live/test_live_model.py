"""Tier "live": a real model, named by HIPPOCAMPUS_TEST_LLM, e.g. "langchain:openai:gpt-5-mini"."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from shared_core.core.domain import Event
from shared_core.extraction.llm_extractor import ModelExtractor
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.models.language_model import resolve_language_model

NAME = os.environ.get("HIPPOCAMPUS_TEST_LLM")
pytestmark = pytest.mark.skipif(not NAME, reason="HIPPOCAMPUS_TEST_LLM names no model")


@pytest.mark.parametrize(
    ("said", "slot", "value"),
    [
        ("I've just started at Meta as an engineer, after years at Google.", "employer", "Meta"),
        ("我上个月从北京搬到上海了，女儿灿灿很开心。", "residence", "上海"),
    ],
)
async def test_a_real_model_reads_a_plain_statement(said, slot, value):
    reader = ModelExtractor(resolve_language_model(NAME), RuleExtractor())
    event = Event(event_id="e1", author="zhu", role="user", text=said, occurred_at=datetime(2026,
        3, 1, tzinfo=UTC))  # fmt: skip
    found = await reader.extract([event], [])
    assert (slot, value) in [(one.slot, one.value) for one in found.facts]
    summary, _ = await reader.summarise([event], "", 200)
    assert value in summary
    assert reader.usage.calls <= 3
