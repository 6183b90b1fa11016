"""Queries as people type them: too short, too long, of nothing, of syntax, in another language."""

from __future__ import annotations

import pytest

from shared_core import InvalidInput, MemoryEngine, Scope

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")
TEA, DOG, CHINESE = "Ann drinks green tea.", "The dog is called Rex.", "她喜欢喝绿茶。"


@pytest.fixture
async def filled(memory: MemoryEngine) -> MemoryEngine:
    await memory.remember(ANN, [TEA, DOG, CHINESE, "C++ costs 5 €", "x"])
    return memory


async def found(memory: MemoryEngine, query: str) -> list[str]:
    return [hit.memory.text for hit in await memory.recall(ANN, query)]


@pytest.mark.parametrize("query", ["", " ", "🦜", "👍🏽", "?!", "。", "--", "\u200b", "\x00"])
async def test_a_query_without_a_letter_or_digit_finds_nothing(
    filled: MemoryEngine, query: str
) -> None:
    assert [] == await found(filled, query)
    assert [] == await filled.search(ANN, query)


@pytest.mark.parametrize(
    ("query", "first"), [("x", "x"), ("5", "C++ costs 5 €"), ("茶", CHINESE), ("X", "x")]
)
async def test_one_character_finds_by_its_word(
    filled: MemoryEngine, query: str, first: str
) -> None:
    hits = await filled.recall(ANN, query, ranking="bm25")
    assert first == hits[0].memory.text and (query,) == hits[0].matched
    assert first in await found(filled, query)


@pytest.mark.parametrize("query", ["what is it of the and", "的了吗", "Who are you?"])
async def test_a_query_of_stop_words_alone_finds_by_meaning(
    filled: MemoryEngine, query: str
) -> None:
    hits = await filled.recall(ANN, query)
    assert 5 == len(hits)
    assert all(hit.matched == () and hit.parts["coverage"] == 0 for hit in hits)


async def test_of_a_query_of_10_000_words_the_last_ones_count(filled: MemoryEngine) -> None:
    filler = " ".join(f"word{number}" for number in range(10_000))
    last = await filled.recall(ANN, f"Rex {filler} green tea", ranking="bm25")
    assert (TEA, ("green", "tea")) == (last[0].memory.text, last[0].matched)
    assert all("Rex" not in hit.matched for hit in last)
    assert await filled.recall(ANN, filler * 2) and await filled.search(ANN, filler)


@pytest.mark.parametrize(
    "query",
    [
        "tea & ! | <-> :* ( 'a'':1A",
        "tea' OR '1'='1",
        "tea; DROP TABLE memories; --",
        "tea\\",
        '"green tea" -coffee +tea field:tea tea~ tea^2 (tea',
        "%tea% _tea_ %s {tea} $1",
        "tea\x00tea",
        "tea \ud800",
    ],
)
async def test_search_syntax_is_text(filled: MemoryEngine, query: str) -> None:
    hits = await filled.recall(ANN, query, ranking="bm25")
    assert TEA == hits[0].memory.text and "tea" in hits[0].matched
    assert await filled.search(ANN, query) and 5 == len(await found(filled, query))


async def test_another_language_finds_by_meaning(filled: MemoryEngine) -> None:
    [nearest, *_] = await filled.search(ANN, "绿茶")
    assert CHINESE == nearest.memory.text
    [other] = [hit for hit in await filled.search(ANN, "她喝绿茶") if hit.memory.text == TEA]
    [dog] = [hit for hit in await filled.search(ANN, "她喝绿茶") if hit.memory.text == DOG]
    assert other.score > dog.score


@pytest.mark.parametrize("query", [None, 5, b"tea", ["tea"]])
async def test_what_is_no_text_is_refused(filled: MemoryEngine, query: object) -> None:
    for ask in (filled.recall, filled.search):
        with pytest.raises(InvalidInput, match="query must be a text, got"):
            await ask(ANN, query)  # type: ignore[operator]


@pytest.mark.parametrize(
    "scope",
    [Scope("", "ann"), Scope("app", "a\x00"), Scope("app", None)],  # type: ignore[arg-type]
)
async def test_a_scope_that_cannot_be_is_refused(memory: MemoryEngine, scope: Scope) -> None:
    for ask in (memory.recall, memory.search):
        with pytest.raises(InvalidInput, match=r"app_name|user_id"):
            await ask(scope, "tea")
