"""What holds for every text: no exception, the same answer twice, nothing lost or too long."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import example, given, strategies as st

from shared_core.core.domain import Event
from shared_core.extraction.pattern_facts import MAX_VALUE_CHARACTERS
from shared_core.extraction.rule_reader import extract_facts
from shared_core.nlp.extractive_summary import summarise
from shared_core.nlp.text import (
    ENGLISH_STOP_WORDS,
    MAX_TERM_CHARACTERS,
    language,
    search_terms,
    sentences,
)

ANY = st.text(st.characters(exclude_categories=()))  # lone surrogates included
PHRASES = (
    "I |my |love |name is |work at |Ghent|daughter |is called |tea|, |. |? |\n|and |never |if |\"|'"
    "|“|”|我|叫|在|工作|喜欢|不|了|女儿|，|。|？|以后|别|「|」|5岁|\x00|…|- |Mr. |a.b@c.de|🙂|é"
)
PHRASE = st.sampled_from(PHRASES.split("|"))
CHAT = st.one_of(ANY, st.lists(PHRASE, max_size=30).map("".join))
WORD = st.from_regex(r"[a-z]{3,12}", fullmatch=True).filter(
    lambda word: word not in ENGLISH_STOP_WORDS
)
ROLE = st.sampled_from(["user", "agent"])


def turn(text: str, role: str = "user") -> Event:
    return Event(
        event_id="e1",
        author="u",
        role="agent" if role == "agent" else "user",
        text=text,
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@given(CHAT)
def test_sentences_join_to_the_text_without_its_spaces(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@given(CHAT)
def test_no_sentence_is_empty_or_padded(text: str) -> None:
    assert all(sentence and sentence == sentence.strip() for sentence in sentences(text))


@given(CHAT)
def test_terms_are_short_folded_words_that_a_database_can_store(text: str) -> None:
    for term in search_terms(text):
        assert 0 < len(term) <= MAX_TERM_CHARACTERS
        assert not any(character.isspace() or character == "\x00" for character in term)
        term.encode("utf-8")


@given(CHAT)
def test_every_text_helper_answers_the_same_twice(text: str) -> None:
    assert (language(text), search_terms(text)) == (language(text), search_terms(text))
    assert extract_facts(turn(text)) == extract_facts(turn(text))


@given(
    st.from_regex(r"[a-z]{3,12}", fullmatch=True).filter(
        lambda word: word not in ENGLISH_STOP_WORDS
    )
)
def test_a_word_is_found_whatever_its_case_and_surroundings(word: str) -> None:
    (term,) = search_terms(word)
    assert search_terms(f"({word.upper()}, {word.title()}!") == [term, term]


@given(CHAT)
def test_a_fact_is_complete_whatever_was_said(text: str) -> None:
    for fact in extract_facts(turn(text)):
        assert (fact.value or fact.operation == "retract") and fact.value == fact.value.strip()
        assert len(fact.value) <= MAX_VALUE_CHARACTERS
        assert 0 < fact.confidence <= 1
        assert fact.statement and "{" not in fact.slot + fact.pattern


@given(st.lists(st.tuples(ROLE, CHAT), max_size=6), st.integers(0, 240), st.lists(CHAT, max_size=2))
def test_a_summary_never_exceeds_its_limit(
    said: list[tuple[str, str]], limit: int, keys: list[str]
) -> None:
    turns = [turn(text, role) for role, text in said]
    told = summarise(turns, max_characters=limit, key_sentences=keys)
    assert len(told) <= limit
    assert told == summarise(turns, max_characters=limit, key_sentences=keys)


@example(["00`0"], 4)
@example(["a**`b 这是**重点**内容"], 40)
@given(st.lists(CHAT, max_size=6), st.integers(0, 240))
def test_a_summary_is_made_of_words_that_were_said(said: list[str], limit: int) -> None:
    told = summarise([turn(text) for text in said], max_characters=limit)
    spoken = {term for text in said for term in search_terms(text)}
    single = {term for term in search_terms(told) if len(term) > 2}
    assert single <= spoken
