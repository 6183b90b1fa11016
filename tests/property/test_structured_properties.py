from __future__ import annotations

import json
import math

from hypothesis import given, strategies as st

from shared_core.extraction.llm_schema import EXTRACTION
from shared_core.models.json_repair import Unreadable, clamped, read_items, read_object

KEYS = tuple(EXTRACTION)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
answers = st.fixed_dictionaries(
    {"facts": st.lists(st.fixed_dictionaries({"turns": values, "value": st.text()}), max_size=5)}
)


@given(st.text() | values.map(json.dumps))
def test_any_answer_is_read_or_refused(text: str) -> None:
    try:
        reading = read_object(text, KEYS)
    except Unreadable:
        return
    for name, model in EXTRACTION.items():
        read_items(reading.value.get(name), model, 10)


@given(answers, st.text(alphabet=st.characters(exclude_characters="{[\"'"), max_size=30))
def test_what_json_can_say_is_read_as_json_says_it(answer: dict[str, object], prose: str) -> None:
    text = json.dumps(answer, allow_nan=True)
    reading = read_object(f"{prose}{text}{prose}", ["facts"])
    plain = json.loads(text, parse_constant=lambda word: None if word == "NaN" else float(word))
    assert json.dumps(reading.value) == json.dumps(plain)
    assert not reading.truncated


@given(answers, st.data())
def test_a_cut_answer_gives_a_beginning_of_the_whole(
    answer: dict[str, list[object]], data: st.DataObject
) -> None:
    text = json.dumps(answer, allow_nan=False) if _finite(answer) else json.dumps({"facts": []})
    whole = json.loads(text)["facts"]
    cut = data.draw(st.integers(0, len(text)))
    try:
        kept = read_object(text[:cut], ["facts"]).value["facts"]
    except Unreadable:
        return
    assert kept == whole[: len(kept)]  # type: ignore[arg-type]


@given(values, st.floats(-5, 0), st.floats(1, 5))
def test_numbers_are_always_in_range(given_value: object, low: float, high: float) -> None:
    number = clamped(given_value, low, high, low)
    assert low <= number <= high
    assert math.isfinite(number)


def _finite(answer: object) -> bool:
    try:
        json.dumps(answer, allow_nan=False)
    except ValueError:
        return False
    return True
