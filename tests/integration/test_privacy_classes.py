"""The privacy class of what a run writes, in English and Chinese, with the bundled embedder."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from langgraph_store import PgHippocampusStore
from shared_core import Event, MemoryEngine, Scope, open_memory, run_sync
from shared_core.core.domain import (
    NO_USAGE,
    Extraction,
    FactDraft,
    InsightDraft,
    Memory,
    ModelUsage,
    StatementDraft,
)
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.models.embedders import CallableEmbedder, UseEmbedder
from shared_core.nlp.text import language
from shared_core.privacy.classifier import examples

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def said(number: int, text: str) -> Event:
    return Event(
        event_id=f"e{number}",
        author="user",
        role="user",
        text=text,
        occurred_at=START + timedelta(minutes=number),
    )


async def tell(memory: MemoryEngine, *texts: str, first: int = 0) -> None:
    turns = [said(number, text) for number, text in enumerate(texts, first)]
    await memory.append_events(ANN, "t", turns)
    await memory.consolidate(ANN, "t")


async def classes(memory: MemoryEngine) -> dict[str, Any]:
    """Return the class of every memory that was derived, by its text."""
    found = {}
    for one in await memory.list_memories(ANN, limit=1000):
        metadata: Any = one.value.get("metadata", {})
        if one.kind in ("semantic", "reflection"):
            found[one.text] = metadata.get("privacy")
    return found


class Scripted(RuleExtractor):
    """A fake that finds what the test wrote, and concludes from memories what it wrote."""

    name = "fake-v1"

    def __init__(self, *found: Extraction, concluded: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.found = list(found)
        self.concluded = concluded or {}

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        return self.found.pop(0)

    async def reflect(
        self, memories: Sequence[Memory]
    ) -> tuple[Sequence[InsightDraft], ModelUsage]:
        return [
            InsightDraft(text=self.concluded[one.text], memory_ids=(one.memory_id,))
            for one in memories
            if one.text in self.concluded
        ], NO_USAGE


def fact(slot: str, statement: str, **more: Any) -> FactDraft:
    return FactDraft(**{
        "fact_type": "custom", "slot": slot, "value": statement, "statement": statement,
        "event_id": "e0", "functional": False, "confidence": 0.9, "pattern": "fake",
        "language": language(statement), **more,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            ("My daughter is called Cancan.", "She is five.", "She loves art.", "I work at Google.",
             "Beijing is the capital of China.", "Clara is the mother of Ben."),
            {"Beijing is the capital of China.": "public", "Clara is the mother of Ben.": "private",
             "Cancan is my daughter, is five and loves art.": "private",
             "User works at Google.": "private"},
        ),
        (
            ("我女儿叫灿灿", "她今年5岁", "她喜欢画画", "北京是中国的首都",
             "林悦是上海分公司的经理"),
            {"北京是中国的首都": "public", "林悦是上海分公司的经理": "private",
             "灿灿是我的女儿，今年5岁，喜欢画画": "private"},
        ),
    ],
)  # fmt: skip
async def test_what_the_rules_read_has_a_class(
    memory: MemoryEngine, texts: tuple[str, ...], expected: dict[str, str]
) -> None:
    await tell(memory, *texts)
    found = await classes(memory)
    assert expected.items() <= found.items()
    assert {"private", "public"} == set(found.values())


async def test_whatever_an_extractor_leaves_open_gets_a_class(dsn: str) -> None:
    found = Extraction(
        facts=[
            fact("about.paris.population", "Paris is the largest city of France."),
            fact("residence", "Beijing is the capital of China.", privacy="public"),
            fact("首都", "堪培拉是澳大利亚的首都。"),
            fact("小名", "小虎怕打雷。"),
            fact("diagnosis", "The sea is salty.", privacy="private"),
        ],
        statements=[
            StatementDraft(text="Canberra is the capital of Australia.", event_ids=("e0",)),
            StatementDraft(
                text="The user said that Oslo is a city.", event_ids=("e0",), privacy="public"
            ),
            StatementDraft(text="小虎在学校跟同学打架了。", event_ids=("e0",)),
        ],
        insights=[
            InsightDraft(text="Kyoto is the old capital of Japan.", event_ids=("e0",)),
            InsightDraft(text="Family comes first for Maya.", event_ids=("e0",)),
        ],
    )
    async with open_memory(dsn, extractor=Scripted(found)) as memory:
        await tell(memory, "A long story.")
        assert {
            "Paris is the largest city of France.": "public",
            "Beijing is the capital of China.": "private",  # the slot knows better
            "堪培拉是澳大利亚的首都。": "public",
            "小虎怕打雷。": "private",
            "The sea is salty.": "private",
            "Canberra is the capital of Australia.": "public",
            "The user said that Oslo is a city.": "private",
            "小虎在学校跟同学打架了。": "private",
            "Kyoto is the old capital of Japan.": "public",
            "Family comes first for Maya.": "private",
        } == await classes(memory)


async def test_what_is_concluded_from_a_private_memory_is_private(dsn: str) -> None:
    found = Extraction(
        statements=[
            StatementDraft(text="Canberra is the capital of Australia.", event_ids=("e0",)),
            StatementDraft(text="Maya has a toothache.", event_ids=("e0",)),
        ]
    )
    concluded = {
        "Canberra is the capital of Australia.": "Paris is the largest city of France.",
        "Maya has a toothache.": "Kyoto is the old capital of Japan.",
    }
    async with open_memory(dsn, extractor=Scripted(found, concluded=concluded)) as memory:
        await tell(memory, "A long story.")
        await memory.reflect(ANN)
        known = await classes(memory)
        assert "public" == known["Paris is the largest city of France."]
        assert "private" == known["Kyoto is the old capital of Japan."]


async def test_an_embedder_that_fails_on_the_examples_leaves_all_private(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []
    broken = True
    bundled = UseEmbedder()

    async def embed(texts: list[str]) -> Any:
        asked.extend(texts)
        if broken and examples("en")[0] in texts:
            raise RuntimeError("no more for today")
        return await bundled.embed_passages(texts)

    embedder = CallableEmbedder(embed, model="flaky")
    async with open_memory(dsn, embedder=embedder, worker=False) as memory:
        with caplog.at_level(logging.WARNING, "hippocampus"):
            await tell(memory, "Beijing is the capital of China.", "Rome is the capital of Italy.")
        assert {"private"} == set((await classes(memory)).values())
        assert 1 == asked.count(examples("en")[0])
        assert "every text counts as private: embedder 'flaky'" in caplog.text
        broken = False
        await tell(memory, "Canberra is the capital of Australia.", first=10)
        await tell(memory, "Kyoto is the old capital of Japan.", first=20)
        known = await classes(memory)
        assert ("private", "public", "public") == (
            known["Beijing is the capital of China."],
            known["Canberra is the capital of Australia."],
            known["Kyoto is the old capital of Japan."],
        )
        assert 2 == asked.count(examples("en")[0])  # once in vain, once for good
        assert 0 == asked.count(examples("zh")[0])
        turn_and_statement = 2
        assert turn_and_statement == asked.count("Kyoto is the old capital of Japan.")


async def test_an_embedder_without_meaning_leaves_all_private(dsn: str) -> None:
    def lengths(texts: list[str]) -> list[list[float]]:
        return [[float(len(text)), float(len(text) % 7), 1.0] for text in texts]

    embedder = CallableEmbedder(lengths, model="lengths")
    async with open_memory(dsn, embedder=embedder) as memory:
        await tell(memory, "Beijing is the capital of China.", "北京是中国的首都")
        found = await classes(memory)
        assert 2 == len(found)
        assert {"private"} == set(found.values())


def test_a_reader_leaves_out_what_is_public(dsn: str) -> None:
    with PgHippocampusStore(dsn) as store:
        turns = [said(0, "Beijing is the capital of China."), said(1, "I love rowing.")]
        engine = store.engine
        run_sync(engine.append_events(ANN, "t", turns))
        run_sync(engine.consolidate(ANN, "t"))
        kept = store.search(
            ("app", "ann", "memories"),
            filter={"$not": {"metadata": {"privacy": "public"}}},
            limit=50,
        )
        shown = {(one.value["kind"], one.value["content"]) for one in kept}
        assert ("semantic", "User likes rowing.") in shown
        assert ("episodic", "Beijing is the capital of China.") in shown
        assert ("semantic", "Beijing is the capital of China.") not in shown
