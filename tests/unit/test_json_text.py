"""JSON text: errors say where in a value the fault stands, and numbers keep their type."""

import json
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pytest
from every_case import every_case
from hypothesis import given, strategies as st

from shared_core import InvalidInput
from shared_core.core.json_text import fault_path, to_json

CYCLE: list[Any] = [1]
CYCLE.append({"again": CYCLE})
DEEP: Any = reduce(lambda inner, _: [inner], range(3_490), 0)

FAULTS: dict[str, tuple[Any, str]] = {
    "NaN": ({"a": [1, 2, float("nan")]}, 'value["a"][2]'),
    "infinite": ({"a": {"b.c": (1, float("-inf"))}}, 'value["a"]["b.c"][1]'),
    "date": ({"ok": [], "时间": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}, 'value["时间"]["at"]'),
    "set": ({"tags": {"x"}}, 'value["tags"]'), "key": ({"a": {(1, 2): "b"}}, 'value["a"]'),
    "cycle": ({"a": CYCLE}, 'value["a"][1]["again"]'), "the value itself": (b"bytes", "value"),
}  # fmt: skip


@every_case(*FAULTS.values())
def test_the_path_of_the_first_fault_is_named(value, path):
    assert path == fault_path(value)
    with pytest.raises(InvalidInput) as refused:
        to_json(value, "the value of 'k'")
    assert f"the value of 'k' cannot be stored as JSON at {path}: " in str(refused.value)


@every_case(None, {}, {"a": [True, 1, 1.5, "x", None, {"b": ()}]}, [[0]] * 3, DEEP)
def test_what_json_can_say_has_no_fault(value):
    assert fault_path(value) is None


def test_what_is_nested_too_deeply_is_said_to_be():
    with pytest.raises(InvalidInput, match="nested over 500 levels deep") as refused:
        to_json({"a": DEEP}, "the value of 'k'")
    assert "recursion" not in str(refused.value) and "8601" not in str(refused.value)


@every_case(1e16, -1e16, 1.2345678901234567e16, 1e22, 1.5e300, 2.0**60)
def test_a_large_float_is_written_out_with_a_fraction(number):
    text = to_json({"n": [number]})
    assert "e" not in text and text.endswith(".0]}")
    assert repr(number) == repr(json.loads(text)["n"][0])


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.text(alphabet='1e+16"\\ ,', max_size=20)
)
def test_every_value_comes_back_as_it_was(number, text):
    value = {text: [number, text, {"n": number}], "i": 10**30}
    assert repr(value) == repr(json.loads(to_json(value)))
