"""Numbers in JSON text keep their type through engines that write no exponents."""

from __future__ import annotations

import json

from every_case import every_case
from hypothesis import given, strategies as st

from shared_core.core.json_text import to_json


@every_case(1e16, -1e16, 1.2345678901234567e16, 1e22, 1.5e300, 2.0**60)
def test_a_large_float_is_written_out_with_a_fraction(number: float) -> None:
    text = to_json({"n": [number]})
    assert "e" not in text and text.endswith(".0]}")
    assert repr(number) == repr(json.loads(text)["n"][0])


@given(
    st.floats(allow_nan=False, allow_infinity=False), st.text(alphabet='1e+16"\\ ,', max_size=20)
)
def test_every_value_comes_back_as_it_was(number: float, text: str) -> None:
    value = {text: [number, text, {"n": number}], "i": 10**30}
    assert repr(value) == repr(json.loads(to_json(value)))
