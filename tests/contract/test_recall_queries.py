"""Queries as people type them: too short, too long, of nothing, of syntax, in another language."""

import pytest
from long_forms import LONG

from shared_core import InvalidInput, Scope

pytestmark = pytest.mark.both_engines

TEA, DOG, CHINESE = "Ann drinks green tea.", "The dog is called Rex.", "她喜欢喝绿茶。"


@pytest.fixture
async def recall(shared_memory, scope):
    """Recalls what a user of the shared memory was told."""
    await shared_memory.remember(scope, [TEA, DOG, CHINESE, "C++ costs 5 €", "x"])
    return lambda query, **options: shared_memory.recall(scope, query, **options)


@pytest.fixture
def search(shared_memory, scope):
    return lambda query: shared_memory.search(scope, query)


@pytest.mark.parametrize("query", ["", " ", "🦜", "👍🏽", "?!", "。", "--", "\u200b", "\x00"])
async def test_a_query_without_a_letter_or_digit_finds_nothing(recall, search, query):
    assert [] == await recall(query) == await search(query)


@pytest.mark.parametrize(
    ("query", "first"), [("x", "x"), ("5", "C++ costs 5 €"), ("茶", CHINESE), ("X", "x")]
)
async def test_one_character_finds_by_its_word(recall, query, first):
    hits = await recall(query, ranking="bm25")
    assert first == hits[0].memory.text and (query,) == hits[0].matched
    assert first in [hit.memory.text for hit in await recall(query)]


@pytest.mark.parametrize("query", ["what is it of the and", "的了吗", "Who are you?"])
async def test_a_query_of_stop_words_alone_finds_by_meaning(recall, query):
    hits = await recall(query)
    assert 5 == len(hits)
    assert all(hit.matched == () and hit.parts["coverage"] == 0 for hit in hits)


async def test_of_a_long_query_the_last_words_count_and_of_another_language_meaning(recall, search):
    filler = " ".join(f"word{number}" for number in range(10_000 if LONG else 1_500))
    last = await recall(f"Rex {filler} green tea", ranking="bm25")
    assert (TEA, ("green", "tea")) == (last[0].memory.text, last[0].matched)
    assert all("Rex" not in hit.matched for hit in last)
    assert await recall(filler * 2) and await search(filler)
    assert CHINESE == (await search("绿茶"))[0].memory.text
    scores = {hit.memory.text: hit.score for hit in await search("她喝绿茶")}
    assert scores[TEA] > scores[DOG]


@pytest.mark.parametrize(
    "query",
    ["tea & ! | <-> :* ( 'a'':1A", "tea' OR '1'='1", "tea; DROP TABLE memories; --", "tea\\",
     '"green tea" -coffee +tea field:tea tea~ tea^2 (tea', "%tea% _tea_ %s {tea} $1",
     "tea\x00tea", "tea \ud800"],
)  # fmt: skip
async def test_search_syntax_is_text(recall, search, query):
    hits = await recall(query, ranking="bm25")
    assert TEA == hits[0].memory.text and "tea" in hits[0].matched
    assert await search(query) and 5 == len(await recall(query))


@pytest.mark.parametrize("query", [None, 5, b"tea", ["tea"]])
async def test_what_is_no_text_is_refused(recall, search, query):
    for ask in (recall, search):
        with pytest.raises(InvalidInput, match="query must be a text, got"):
            await ask(query)


@pytest.mark.parametrize("scope", [Scope("", "ann"), Scope("app", "a\x00"), Scope("app", None)])
async def test_a_scope_that_cannot_be_is_refused(shared_memory, scope):
    for ask in (shared_memory.recall, shared_memory.search):
        with pytest.raises(InvalidInput, match=r"app_name|user_id"):
            await ask(scope, "tea")
