"""Every way to ask by words and meaning answers from the index, and as the statement does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import pytest
from resident_users import ANN, drawn, indexes, make_resident
from turns import START, said

from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import MemoryEngine
from shared_core.core.domain import MemoryKind
from shared_core.ports.recall import Recalled, SearchRequest
from shared_core.profiles.search import Filters
from shared_core.storage._resident import KEPT_VIEWS

SAID = (
    "My daughter is called Mia.", "I live in Rome, near the river.", "I drink green tea all day.",
    "I moved to Bonn last week.", "我住在上海，喜欢喝绿茶。", "Mia likes green tea too.",
    "I am allergic to peanuts.",
)  # fmt: skip
QUESTIONS = ("Where do I live?", "Who drinks green tea?", "我喜欢喝什么？", "Does Mia like tea?")

Face: TypeAlias = Callable[[MemoryEngine, str], Awaitable[Any]]


def near(score: float) -> Any:
    """Return what equals this score, whichever of the two computed it, in which precision."""
    return pytest.approx(score, abs=2e-4)


async def process(memory: MemoryEngine, question: str) -> Any:
    answer: Any = await memory.process_memory(question, "ann", app="app")
    scored = [(one["content"], near(one["score"])) for one in answer["memories"]]
    return scored, answer["relations"], answer["resolved_query"]


async def window(memory: MemoryEngine, question: str) -> Any:
    return (await memory.context_window(ANN, "other", question)).prompt


async def conversations(memory: MemoryEngine, question: str) -> Any:
    searcher = memory.profiles.searcher(ANN)
    since = Filters(time_range=(START + timedelta(minutes=1), START + timedelta(days=9)))
    found = await searcher.search_conversations(question, filters=since)
    return [[hit.text for hit in one.hits] for one in found]


async def hybrid(memory: MemoryEngine, question: str) -> Any:
    found = await memory.profiles.searcher(ANN).hybrid_search(question, limit=20)
    return [(one.text, near(one.score)) for one in found]


async def agent_kit(memory: MemoryEngine, question: str) -> Any:
    service = OpenMemoryService(engine=memory, min_relevance=0.0)
    found = await service.search_memory(app_name="app", user_id="ann", query=question)
    return [one.content for one in found.memories]


async def store(memory: MemoryEngine, question: str) -> Any:
    space = memories_namespace("app", "ann")
    found = await PgHippocampusStore(engine=memory).asearch(space, query=question, limit=20)
    return [(one.key, near(one.score or 0)) for one in found]


async def text_store(memory: MemoryEngine, question: str) -> Any:
    texts = PgHippocampusStore(engine=memory, search="text")
    found = await texts.asearch(memories_namespace("app", "ann"), query=question, limit=2, offset=1)
    return [one.key for one in found]


@pytest.fixture
async def memory(dsn: str) -> AsyncIterator[MemoryEngine]:
    async with drawn(dsn) as memory:
        for day in range(3):
            events = [
                said(f"{day}-{at}", text, START + timedelta(days=day, minutes=at))
                for at, text in enumerate(SAID)
            ]
            await memory.append_events(ANN, f"t{day}", events)
            await memory.consolidate(ANN, f"t{day}")
        await memory.remember(ANN, ["Ann likes the sea.", "Ann plays the violin."])
        yield memory


def watched(memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that grows by whether an index answered, for each request to the indexes."""
    kept, answered = indexes(memory), []
    recall = kept.recall

    async def noting(request: SearchRequest, edges: Any) -> Recalled | None:
        found = await recall(request, edges)
        answered.append(found is not None)
        return found

    monkeypatch.setattr(kept, "recall", noting)
    return answered


@pytest.mark.parametrize(
    "face",
    [process, window, conversations, hybrid, agent_kit, store, text_store],
    ids=lambda face: face.__name__,
)
async def test_the_index_answers_and_as_the_statement_does(
    memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch, face: Face
) -> None:
    await make_resident(memory, ANN)
    answered = watched(memory, monkeypatch)
    found = [await face(memory, question) for question in QUESTIONS]
    assert sum(answered) == len(QUESTIONS) and any(found)
    monkeypatch.setattr(indexes(memory), "_most_bytes", 0)
    assert found == [await face(memory, question) for question in QUESTIONS]
    assert sum(answered) == len(QUESTIONS)


async def test_the_views_asked_last_are_kept_until_something_changes(memory: MemoryEngine) -> None:
    async def texts(kind: MemoryKind) -> list[str]:
        return [hit.memory.text for hit in await memory.recall(ANN, "green tea", kinds=[kind])]

    def kept() -> list[int]:
        [entry] = indexes(memory)._entries.values()
        return [*map(id, entry.index._filtered.values())]

    await make_resident(memory, ANN)
    before = await texts("semantic")
    views = kept()
    assert before == await texts("semantic") and 1 == len(views) and views == kept()
    for kind in ("episodic", "summary"):
        await texts(kind)
    assert KEPT_VIEWS == len(kept())
    assert before == await texts("semantic")
    await memory.remember(ANN, ["Ann grows green tea."])
    assert "Ann grows green tea." in await texts("semantic")
