"""What an extractor of any make returns is stored, within the bounds of the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import psycopg
import pytest

from shared_core import Event, Scope, open_memory
from shared_core.core.domain import Extraction, FactDraft, TripleDraft
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.knowledge.edge_planning import stated_edges
from shared_core.nlp.relation_schema import DECLARED

ANN = Scope("app", "ann")
TURN = Event(
    event_id="e1", author="user", role="user", text="Hear me out.", occurred_at=datetime.now(UTC)
)
LONG = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(1_500))
FACT = FactDraft(
    fact_type="preference",
    slot="like",
    value="tea",
    statement="The user likes tea.",
    event_id="e1",
    functional=False,
    confidence=1.0,
    pattern="fake",
    language="en",
)
EDGE = TripleDraft(subject="ann", relation="knows", object="ben", event_id="e1")


class Returning(RuleExtractor):
    """A fake: returns what the test wrote."""

    def __init__(self, extraction: Extraction) -> None:
        super().__init__()
        self._extraction = extraction

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        return self._extraction


@pytest.mark.parametrize(
    "wrong",
    [
        replace(FACT, value=LONG),
        replace(FACT, slot="sl\x00ot", subject="su\x00b\ud800", pattern="p\x00"),
        replace(FACT, slot=LONG, subject=LONG, value=LONG),
        replace(FACT, subject="\ufdfa" * 300, value="\ufdfa" * 2_000),
        replace(EDGE, subject="a\x00b", relation="r\x00", object="o\x00"),
        replace(EDGE, subject=LONG, relation=LONG, object=LONG),
        replace(EDGE, object="\ufdfa" * 300),
        replace(EDGE, subject=" "),
    ],
)
async def test_no_draft_fails_a_run(dsn: str, wrong: FactDraft | TripleDraft) -> None:
    facts = [FACT, *([wrong] if isinstance(wrong, FactDraft) else [])]
    triples = [EDGE, *([wrong] if isinstance(wrong, TripleDraft) else [])]
    extractor = Returning(Extraction(facts=facts, triples=triples))
    async with open_memory(dsn, extractor=extractor, worker=False) as memory:
        await memory.append_events(ANN, "t", [TURN])
        report = await memory.consolidate(ANN, "t")
        relations = stated_edges(Extraction(facts=facts, triples=triples), DECLARED)
        named = [triple for triple in relations if triple.subject.strip()]
        assert (len(facts), len(named)) == (report.facts_opened, report.edges)
        with psycopg.connect(dsn) as superuser:
            [(names,)] = superuser.execute(
                "SELECT count(*) FROM hippocampus.edges WHERE object = 'ben'"
            )
    assert 1 == names


async def test_long_values_that_begin_alike_are_two_facts(dsn: str) -> None:
    facts = [replace(FACT, value=LONG[:1_400] + end) for end in ("甲", "乙", "乙")]
    async with open_memory(dsn, extractor=Returning(Extraction(facts=facts))) as memory:
        await memory.append_events(ANN, "t", [TURN])
        assert 2 == (await memory.consolidate(ANN, "t")).facts_opened
        assert {LONG[:1_400] + end for end in "甲乙"} == {
            one.value for one in await memory.facts(ANN)
        }
