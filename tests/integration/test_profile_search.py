"""MemorySearcher: conversations and profiles, filtered, weighed, without repeats."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from every_case import every_case
from turns import said

from shared_core import InvalidInput, open_memory, run_sync
from shared_core.nlp.keywords_and_topics import text_features, topics
from shared_core.profiles.memory import Memory
from shared_core.profiles.search import Filters, MemorySearcher

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
THREADS = {
    "rust": (40, "I am learning to program in Rust at the university.", 5.0),
    "trip": (3, "The hotel in Rome was wonderful, I was so happy there.", 5.0),
    "boss": (2, "My boss made me angry at work today.", 9.0),
    "兔子": (1, "我今天去医院看医生，很难过。", 5.0),
}


@pytest.fixture(scope="module")
def memory(postgres):
    """A memory with the bundled model of English, whose clock stands; each test is a user in it."""
    for dsn in postgres.lend():
        memory = open_memory(dsn, embedder="use", clock=lambda: NOW, worker=False)
        yield memory
        run_sync(memory.close())


@pytest.fixture
async def searcher(memory, scope):
    for thread_id, (days, text, importance) in THREADS.items():
        turn = said("1", text, NOW - timedelta(days=days), importance=importance)
        await memory.append_events(scope, thread_id, [turn])
    kept = Memory("bot")
    kept.update_profile("User studies computer science. User likes hiking.", at=NOW)
    kept.update_events(["User visited the botanical garden."], at=NOW - timedelta(days=5))
    await memory.profiles.repository(scope).save_memory(kept)
    return memory.profiles.searcher(scope)


async def threads(searcher: MemorySearcher, query: str, *args: Any, **options: Any) -> list[str]:
    found = await searcher.search_conversations(query, *args, **options)
    return [one.conversation_id for one in found]


async def test_conversations_are_found_by_what_was_said_by_filters_by_type_and_by_weights(searcher):
    assert "rust" == (await threads(searcher, "programming languages"))[0]
    assert ["兔子"] == await threads(searcher, "看医生", 1)
    [found] = await searcher.search_conversations("hotel in Rome", 1)
    assert THREADS["trip"][1] == found.hits[0].text
    week = (NOW - timedelta(days=7), NOW)
    for time in (week, "last 7 days"):
        assert {"trip", "boss", "兔子"} == {*await threads(searcher, "what happened", 10, time)}
    assert "rust" not in await threads(searcher, "Rust", 10, "last 7 days")
    assert ["rust"] == await threads(searcher, "what", 10, (None, NOW - timedelta(days=30)))
    assert {"trip"} == {*await threads(searcher, "hotel in Rome", 10, None, 0.5)}
    everything = "what did I say"
    for filters, found in (
        (Filters(keywords=["hotel"]), {"trip"}), (Filters(topics=["旅行"]), {"trip"}),
        (Filters(sentiment=(0.3, 1)), {"trip"}), (Filters(topics=["work"]), {"boss"}),
        (Filters(topics=["health"]), {"兔子"}), (Filters(sentiment=(-1, -0.1)), {"boss", "兔子"}),
    ):  # fmt: skip
        assert found == {*await threads(searcher, everything, filters=filters)}
    found = await searcher.search_memories("plants and flowers", ["event"])
    assert [("User visited the botanical garden.", "event")] == [
        (one.text, one.memory_type) for one in found
    ]
    found = await searcher.search_memories("outdoors", ["profile"], 1)
    assert [("User likes hiking.", "profile")] == [(one.text, one.memory_type) for one in found]
    assert 3 == len(await searcher.search_memories("user"))
    one = await searcher.hybrid_search("hotel", {"semantic": 1, "time": 2})
    other = await searcher.hybrid_search("hotel", {"semantic": 10, "time": 20})
    expected = [(hit.text, pytest.approx(hit.score, abs=1e-6)) for hit in one]
    assert expected == [(hit.text, hit.score) for hit in other]
    assert ["work", "family"] == topics("My daughter visits me at the office.")
    assert ["study", "technology"] == topics("我在大学学习编程。")
    about = text_features("I hate my job, my job makes me sad.")
    assert about.sentiment is not None and about.sentiment < 0
    assert "job" == about.keywords[0]
    assert None is text_features("The train leaves at nine.").sentiment


@every_case(
    ({"semantic": 1}, "trip"), ({"keyword": 1}, "rust"), ({"time": 1}, None),
    ({"importance": 1}, "boss"), ({"topic": 1}, "trip"),
)  # fmt: skip
async def test_weights_decide_what_counts(weights, best, searcher):
    query = "university" if "keyword" in weights else "a vacation flight"
    [first, *_] = await searcher.hybrid_search(query, weights)
    assert best == first.memory.thread_id
    [name] = weights
    assert math.isclose(first.score, first.parts[name])
    assert {"semantic", "keyword", "time", "importance", "topic", "sentiment"} == {*first.parts}


async def test_the_same_words_come_once_and_diversity_brings_others(memory, scope, searcher):
    await memory.remember(scope, ["User likes hiking.", "user likes  hiking"])
    found = await searcher.hybrid_search("hiking", limit=20)
    assert 1 == sum("hiking" in one.text.lower() for one in found)
    await memory.remember(scope, [f"The hotel in Rome had {n} stars and a pool." for n in range(5)])
    plain = await searcher.hybrid_search("hotel in Rome", limit=3, diversity=0)
    mixed = await searcher.hybrid_search("hotel in Rome", limit=3, diversity=0.9)
    stars = [sum("stars" in one.text for one in found) for found in (plain, mixed)]
    assert stars[1] < stars[0]


@every_case(
    (lambda s: s.hybrid_search("x", {"semantic": -1}), "semantic' must be a finite number"),
    (lambda s: s.hybrid_search("x", {"semantic": math.nan}), "weight of 'semantic'"),
    (lambda s: s.hybrid_search("x", {"semantic": 0, "time": 0}), "all weights are 0"),
    (lambda s: s.hybrid_search("x", {}), "all weights are 0"),
    (lambda s: s.hybrid_search("x", {"luck": 1}), "weight 'luck' is not known: take one of"),
    (lambda s: s.hybrid_search("x", diversity=2), "diversity must be between 0 and 1"),
    (lambda s: s.hybrid_search("x", limit=0), "limit must be between 1"),
    (lambda s: s.hybrid_search(None), "query must be a text"),
    (lambda s: s.search_conversations("x", 1, (NOW, NOW - timedelta(days=1))), "before it beg"),
    (lambda s: s.search_conversations("x", 1, (datetime(2026, 1, 1), None)), "no time zone"),  # noqa: DTZ001
    (lambda s: s.search_conversations("x", 1, 7), "time_range must be words"),
    (lambda s: s.search_conversations("x", 1, None, 1.5), "similarity_threshold must be"),
    (lambda s: s.search_memories("x", ["mood"]), "memory type 'mood' is not known"),
    (lambda s: s.search_memories("x", "profile"), "memory_types must be a list"),
    (lambda s: s.search_memories("x", None, 10**9), "limit must be between 1"),
)  # fmt: skip
async def test_bad_searches_are_named(call, message, memory, scope):
    with pytest.raises(InvalidInput, match=message):
        await call(memory.profiles.searcher(scope))


@every_case(
    ({"topics": ["astrology"]}, "topic 'astrology' is not known: take one of"),
    ({"topics": "work"}, "topics must be a list"),
    ({"keywords": "work"}, "keywords must be a list"),
    ({"sentiment": (1, -1)}, "from -1 to 1"),
    ({"sentiment": 1}, r"sentiment must be \(least, most\)"),
)
def test_bad_filters_are_named(options, message):
    with pytest.raises(InvalidInput, match=message):
        Filters(**options)
