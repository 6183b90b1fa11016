"""The words of a query that a text holds, as they were asked."""

from __future__ import annotations

from every_case import every_case
from hypothesis import given, strategies as st

from shared_core.nlp.text import search_terms
from shared_core.recall.query import query_terms
from shared_core.recall.ranking import query_words, words_held


def shown(query: str, text: str) -> tuple[str, ...]:
    return words_held(query_words(query, query_terms(query)), set(search_terms(text)))


@every_case(
    ("Where do the Dogs live?", "My dog lives here", ("Dogs", "live")),
    ("Which café, cafe?", "The CAFÉ is shut", ("café", "cafe")),
    ("tea tea TEA", "tea", ("tea",)),
    ("What is it?", "what it is", ()),
    ("她喜欢喝什么茶？", "她喜欢喝绿茶", ("她喜欢喝", "茶")),
    ("喝茶", "茶馆里喝", ("喝", "茶")),
    ("茶", "绿茶", ("茶",)),
    ("Lisa的猫叫什么", "Lisa 有一只猫", ("Lisa", "猫")),
    ("don't sail", "Bob sails", ("sail",)),
    ("Ｔea", "tea", ("Tea",)),
    ("ネコ", "ネコがいる", ("ネコ",)),
    ("🦜", "🦜", ()),
    ("", "tea", ()),
)
def test_words_are_shown_as_asked(query: str, text: str, expected: tuple[str, ...]) -> None:
    assert expected == shown(query, text)


def test_of_a_long_query_only_what_was_searched_for_is_shown() -> None:
    query = " ".join(["first", *(f"word{number}" for number in range(500))])
    assert ("word499",) == shown(query, "first word499")


@given(st.text(max_size=40))
def test_a_text_holds_every_word_of_itself_that_is_searched_for(query: str) -> None:
    words = query_words(query, query_terms(query))
    found = "".join(words_held(words, query_terms(query)))
    assert bool(found) == bool(words)
    assert () == words_held(words, ())
