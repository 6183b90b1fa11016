"""Recall by an index in the process: the hits of the statement, by every way to ask."""

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any, TypeAlias

import numpy as np
import pytest
import resident_users as users
from turns import START, said

from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import AsOf, EmbeddingMismatch, InvalidInput, MemoryEngine, Scope, run_sync
from shared_core.core.domain import MemoryKind
from shared_core.core.namespaces import scope_path
from shared_core.nlp.text import search_terms
from shared_core.ports.recall import Recalled, SearchRequest, ThreeFactor
from shared_core.profiles.search import Filters
from shared_core.settings import RESIDENT_MB, load_settings
from shared_core.storage._resident import KEPT_VIEWS

CAT = Scope("app", "cat")
TALK = (
    ("ann", "I live in Rome, near the river."), ("bot", "Rome is lovely! What do you do there?"),
    ("ann", "I work as a nurse, and I drink green tea all day."), ("ann", "I live in Rome."),
    ("bot", "Green tea is healthy."), ("ann", "I moved to Bonn last week."),
    ("ann", "我住在上海，喜欢喝绿茶。"), ("bot", "绿茶很好。"),
    ("ann", "We fly to Lisbon on 9 March."),
    ("ann", "My son Emil likes tea too."),
    ("ann", "I don't work as a nurse any more."), ("ann", "I am allergic to peanuts."),
)  # fmt: skip
QUESTIONS = (
    "Where does Ann live?", "Does Ann drink green tea?", "我喜欢喝什么？",
    "What did Ann do before?",    "When did I move to Bonn?", "zebra", "Who is Emil?",
    "When do we fly to Lisbon?", "Where do I live now?", "我住在哪里？",
)  # fmt: skip


@pytest.fixture
async def memory(dsn):
    async with users.drawn(dsn) as memory:
        yield memory


@pytest.fixture
async def talked(memory):
    """A memory with an index of Ann, who talked."""
    await talk(memory, users.ANN, 1)
    await users.make_resident(memory, users.ANN)
    return memory


async def talk(memory: MemoryEngine, scope: Scope, copies: int = 3) -> None:
    """Hold the same talk in several threads, and draw facts from it."""
    for copy in range(copies):
        events = [
            said(
                f"{copy}-{at}", text, START + timedelta(days=copy, hours=at % 5), author=who,
                role="agent" if who == "bot" else "user", importance=1 + at % 9,
            )
            for at, (who, text) in enumerate(TALK)
        ]  # fmt: skip
        await memory.append_events(scope, f"t{copy}", events)
        await memory.consolidate(scope, f"t{copy}")
    await memory.remember(scope, ["Ann likes the sea.", "Ann may be away in May."])


@pytest.fixture(scope="module")
def talked_thrice(postgres):
    """A memory of three talks, from which the tests read."""
    for dsn in postgres.lend():
        memory = users.drawn(dsn)
        run_sync(talk(memory, users.ANN))
        yield memory
        run_sync(memory.close())


def memories(hits: Any) -> list[Any]:
    return [hit.memory for hit in hits]


@pytest.mark.parametrize(
    "options",
    [
        {}, {"distinct": True, "min_relevance": 0.14}, {"distinct": True, "limit": 40},
        {"ranking": "fusion"}, {"ranking": "rrf"}, {"ranking": "vector"}, {"ranking": "bm25"},
        {"ranking": "three_factor"}, {"ranking": ThreeFactor(recency=0.5)}, {"diversity": 0.5},
        {"kinds": ["semantic"]}, {"kinds": ["episodic", "summary"], "limit": 100},
        {"min_importance": 5}, {"limit": 0}, {"as_of": AsOf(valid=START)},
        {"reranker": lambda query, texts: [float(len(text)) for text in texts]},
    ],
    ids=lambda options: "reranker" if "reranker" in options else str(options),
)  # fmt: skip
async def test_recall_returns_the_same_with_an_index(talked_thrice, monkeypatch, options):
    memory = talked_thrice
    await users.make_resident(memory, users.ANN)
    found = [await memory.recall(users.ANN, question, **options) for question in QUESTIONS]
    near = [await memory.search(users.ANN, question) for question in QUESTIONS]
    assert [scope_path(users.ANN)] == users.indexes(memory).users
    monkeypatch.setattr(users.indexes(memory), "_most_bytes", 0)
    for question, answer, nearest in zip(QUESTIONS, found, near, strict=True):
        expected = await memory.recall(users.ANN, question, **options)
        assert memories(expected) == memories(answer), question
        assert [hit.matched for hit in expected] == [hit.matched for hit in answer]
        for one, other in zip(expected, answer, strict=True):
            assert one.parts == pytest.approx(other.parts, abs=1e-4)
        assert expected.graph_results == answer.graph_results
        assert memories(expected.vector_results) == memories(answer.vector_results)
        assert memories(await memory.search(users.ANN, question)) == memories(nearest)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"candidates": 3}, {"kinds": ["semantic"]}, {"kinds": []}, {"min_importance": 4.5},
        {"begin": START + timedelta(days=1)}, {"end": START + timedelta(days=1)},
        {"begin": START + timedelta(days=9)},
    ],
    ids=str,
)  # fmt: skip
async def test_an_index_answers_with_the_candidates_of_the_statement(talked_thrice, options):
    memory = talked_thrice
    await users.make_resident(memory, users.ANN)
    for question in QUESTIONS:
        answer = await users.by_index(memory, users.ANN, question, **options)
        assert answer is not None
        assert await users.by_statement(memory, users.ANN, question, **options) == answer


async def test_an_index_learns_of_new_names_in_the_graph(memory, dsn):
    await talk(memory, users.ANN)
    await users.make_resident(memory, users.ANN)
    question = "What about Zelda?"
    assert not (await memory.recall(users.ANN, question)).graph_results
    async with users.drawn(dsn) as other:
        await other.graph.add(users.ANN, "Zelda", "works_at", "Harbour")
        assert [edge.subject for edge in (await memory.recall(users.ANN, question)).graph_results]
        await other.graph.merge_aliases(users.ANN, "Zelda", ["Zee"])
    assert await users.by_index(memory, users.ANN, "What about Zee?") is not None
    found = await memory.recall(users.ANN, "What about Zee?")
    assert [edge.subject for edge in found.graph_results] == ["Zelda"]


async def test_a_lapsed_plan_ends_nothing_in_the_arrays_either(memory):
    await talk(memory, users.ANN, 1)
    facts = {one.slot: one for one in await memory.facts(users.ANN, history=True)}
    assert facts["plan"].superseded_at == facts["plan"].recorded_at
    await users.make_resident(memory, users.ANN)
    found = await users.by_index(memory, users.ANN, "Lisbon, nurse")
    assert found == await users.by_statement(memory, users.ANN, "Lisbon, nurse")
    ended = {text: share for _, text, *_, share, _, _, _ in found[0].values()}
    assert not ended["We fly to Lisbon on 9 March."] and any(ended.values())


async def test_the_statement_answers_what_arrays_cannot(talked):
    for options in (
        {"as_of": AsOf(known=START)}, {"filter": {"a": 1}}, {"namespace": ("app", "ann", "notes")},
    ):  # fmt: skip
        assert await users.by_index(talked, users.ANN, "tea", **options) is None
    assert await users.by_index(talked, users.ANN, "tea") is not None


async def test_the_statement_answers_the_first_question_of_a_user(memory):
    await talk(memory, users.ANN, 1)
    assert await users.by_index(memory, users.ANN, "tea") is None
    await users.until(lambda: users.indexes(memory).users)
    assert await users.by_index(memory, users.ANN, "tea") is not None
    assert (
        await users.by_index(memory, users.BOB, "tea") is None
    )  # nothing was ever written for him
    assert [scope_path(users.ANN)] == users.indexes(memory).users


async def test_the_indexes_used_last_stay_within_the_bound(memory, monkeypatch):
    for scope in (users.ANN, users.BOB, CAT):
        await talk(memory, scope, 1)
    await users.make_resident(memory, users.ANN)
    one = users.indexes(memory).nbytes
    monkeypatch.setattr(users.indexes(memory), "_most_bytes", int(2.5 * one))
    await users.make_resident(memory, users.BOB)
    await memory.recall(users.ANN, "tea")
    await users.make_resident(memory, CAT)
    assert [scope_path(users.ANN), scope_path(CAT)] == users.indexes(memory).users
    assert users.indexes(memory).nbytes <= 2.5 * one


async def test_a_user_who_is_too_large_has_no_index(memory, monkeypatch):
    await talk(memory, users.ANN, 1)
    monkeypatch.setattr(users.indexes(memory), "_most_bytes", 600)
    await memory.recall(users.ANN, "tea")
    await users.until(lambda: users.indexes(memory)._refused)
    assert [] == users.indexes(memory).users and await memory.recall(users.ANN, "tea")


async def test_long_texts_count_before_an_index_is_read(memory, monkeypatch):
    """An index of a few long texts would be read in full only to be dropped."""
    words = Random(1)
    await memory.remember(users.ANN, [" ".join(f"{words.random()}" for _ in range(2_000))])
    monkeypatch.setattr(users.indexes(memory), "_most_bytes", 10_000)
    read = users.indexes(memory)._read
    was_read = []
    monkeypatch.setattr(
        users.indexes(memory), "_read", lambda *key: was_read.append(key) or read(*key)
    )
    await memory.recall(users.ANN, "tea")
    await users.until(lambda: users.indexes(memory)._refused)
    assert [] == was_read == users.indexes(memory).users


async def test_an_index_that_fails_leaves_those_of_other_users_alone(memory, monkeypatch, caplog):
    await memory.remember(users.ANN, ["Ann likes tea."])
    await memory.remember(users.BOB, ["Bob likes tea."])
    load = users.indexes(memory)._load

    async def fails(key: tuple[str, str | None]) -> None:
        if key[0] == scope_path(users.ANN):
            raise ValueError("no such array")
        await load(key)

    monkeypatch.setattr(users.indexes(memory), "_load", fails)
    await memory.recall(users.ANN, "tea")
    await users.make_resident(memory, users.BOB)
    assert [scope_path(users.BOB)] == users.indexes(memory).users and await memory.recall(
        users.ANN, "tea"
    )
    assert "ValueError: no such array" in caplog.text


async def test_old_vectors_that_are_dropped_leave_the_arrays(memory):
    """The model of this process is no longer in use: a question is refused, and no vector stays."""

    class Other(users.DrawnVectors):
        model = "another one"

    await memory.remember(users.ANN, ["Ann likes tea.", "Ann has a cat."])
    await users.make_resident(memory, users.ANN)
    await memory.reembed(Other(), drop_old=True)
    assert [] == users.indexes(memory).users
    with pytest.raises(EmbeddingMismatch, match="made by 'another one'"):
        await memory.recall(users.ANN, "tea")
    await users.until(lambda: [scope_path(users.ANN)] == users.indexes(memory).users)
    found = await users.by_index(memory, users.ANN, "tea")
    assert found == await users.by_statement(memory, users.ANN, "tea")
    assert np.isnan(found[1][0].numbers).all()  # no vector


async def test_an_index_that_answers_nothing_is_dropped(talked):
    users.indexes(talked).drop_idle(0)
    assert [scope_path(users.ANN)] == users.indexes(talked).users
    users.indexes(talked).drop_idle(time.monotonic())
    assert [] == users.indexes(talked).users and 0 == users.indexes(talked).nbytes


async def test_nothing_of_a_forgotten_memory_stays_in_the_arrays(memory):
    await talk(memory, users.ANN, 1)
    [key] = await memory.remember(users.ANN, ["The parrot is called Polly."])
    await users.make_resident(memory, users.ANN)
    index = users.index_of(memory)
    vector = (await users.DrawnVectors().embed_passages(["The parrot is called Polly."]))[0]
    cosines = index._vectors @ vector
    assert b"Polly" in index._texts.tobytes() and cosines.max() > 0.99
    [term] = search_terms("Polly")
    assert hash(term) in index._words.tolist()
    words = index._words
    await memory.forget(users.ANN, key)
    await memory.recall(users.ANN, "parrot")
    assert b"Polly" not in index._texts.tobytes() and (index._vectors @ vector).max() < 0.99
    assert hash(term) not in index._words.tolist() and not words.any()


async def test_an_erasure_empties_the_arrays_at_once(talked):
    index = users.index_of(talked)
    await talked.erase(users.ANN)
    assert [] == users.indexes(talked).users
    assert not index._texts.any() and not index._words.any() and not index._vectors.any()


async def test_a_closed_memory_keeps_no_index(dsn):
    async with users.drawn(dsn) as memory:
        await talk(memory, users.ANN, 1)
        await users.make_resident(memory, users.ANN)
        index = users.index_of(memory)
    assert [] == users.indexes(memory).users and not index._texts.any() and not index._words.any()
    async with memory:
        await users.make_resident(memory, users.ANN)
        assert await users.by_index(memory, users.ANN, "tea") is not None


def test_the_setting_is_in_megabytes(monkeypatch):
    for text, expected in (("", RESIDENT_MB), ("off", 0), ("0", 0), ("64", 64)):
        monkeypatch.setenv("HIPPOCAMPUS_RESIDENT_MB", text)
        assert expected == load_settings().resident_mb
    monkeypatch.setenv("HIPPOCAMPUS_RESIDENT_MB", "much")
    with pytest.raises(InvalidInput, match="HIPPOCAMPUS_RESIDENT_MB"):
        load_settings()


SAID = (
    "My daughter is called Mia.", "I live in Rome, near the river.", "I drink green tea all day.",
    "I moved to Bonn last week.", "我住在上海，喜欢喝绿茶。", "Mia likes green tea too.",
    "I am allergic to peanuts.",
)  # fmt: skip
ASKED = ("Where do I live?", "Who drinks green tea?", "我喜欢喝什么？", "Does Mia like tea?")
Face: TypeAlias = Callable[[MemoryEngine, str], Awaitable[Any]]


def near(score: float) -> Any:
    """Return what equals this score, whichever of the two computed it, in which precision."""
    return pytest.approx(score, abs=2e-4)


async def process(memory: MemoryEngine, question: str) -> Any:
    answer: Any = await memory.process_memory(question, "ann", app="app")
    scored = [(one["content"], near(one["score"])) for one in answer["memories"]]
    return scored, answer["relations"], answer["resolved_query"]


async def window(memory: MemoryEngine, question: str) -> Any:
    return (await memory.context_window(users.ANN, "other", question)).prompt


async def conversations(memory: MemoryEngine, question: str) -> Any:
    searcher = memory.profiles.searcher(users.ANN)
    since = Filters(time_range=(START + timedelta(minutes=1), START + timedelta(days=9)))
    found = await searcher.search_conversations(question, filters=since)
    return [[hit.text for hit in one.hits] for one in found]


async def hybrid(memory: MemoryEngine, question: str) -> Any:
    found = await memory.profiles.searcher(users.ANN).hybrid_search(question, limit=20)
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


@pytest.fixture(scope="module")
def asked(postgres):
    """A memory that is asked in every way."""

    async def talk() -> None:
        for day in range(3):
            events = [
                said(f"{day}-{at}", text, START + timedelta(days=day, minutes=at))
                for at, text in enumerate(SAID)
            ]
            await memory.append_events(users.ANN, f"t{day}", events)
            await memory.consolidate(users.ANN, f"t{day}")
        await memory.remember(users.ANN, ["Ann likes the sea.", "Ann plays the violin."])

    for dsn in postgres.lend():
        memory = users.drawn(dsn)
        run_sync(talk())
        yield memory
        run_sync(memory.close())


def watched(memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that grows by whether an index answered, for each request to the indexes."""
    kept, answered = users.indexes(memory), []
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
async def test_the_index_answers_and_as_the_statement_does(asked, monkeypatch, face):
    memory = asked
    await users.make_resident(memory, users.ANN)
    answered = watched(memory, monkeypatch)
    found = [await face(memory, question) for question in ASKED]
    assert sum(answered) == len(ASKED) and any(found)
    monkeypatch.setattr(users.indexes(memory), "_most_bytes", 0)
    assert found == [await face(memory, question) for question in ASKED]
    assert sum(answered) == len(ASKED)


async def test_the_views_asked_last_are_kept_until_something_changes(memory):
    await talk(memory, users.ANN)

    async def texts(kind: MemoryKind) -> list[str]:
        return [
            hit.memory.text for hit in await memory.recall(users.ANN, "green tea", kinds=[kind])
        ]

    def kept() -> list[int]:
        [entry] = users.indexes(memory)._entries.values()
        return [*map(id, entry.index._filtered.values())]

    await users.make_resident(memory, users.ANN)
    before = await texts("semantic")
    views = kept()
    assert before == await texts("semantic") and 1 == len(views) and views == kept()
    for kind in ("episodic", "summary"):
        await texts(kind)
    assert KEPT_VIEWS == len(kept())
    assert before == await texts("semantic")
    await memory.remember(users.ANN, ["Ann grows green tea."])
    assert "Ann grows green tea." in await texts("semantic")
