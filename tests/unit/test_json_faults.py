"""Errors about values say where in them the fault stands."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pytest
from every_case import every_case

from shared_core import InvalidInput
from shared_core.core.json_text import fault_path, to_json

CYCLE: list[Any] = [1]
CYCLE.append({"again": CYCLE})
DEEP: Any = reduce(lambda inner, _: [inner], range(3_490), 0)

FAULTS: dict[str, tuple[Any, str]] = {
    "NaN": ({"a": [1, 2, float("nan")]}, 'value["a"][2]'),
    "infinite": ({"a": {"b.c": (1, float("-inf"))}}, 'value["a"]["b.c"][1]'),
    "date": ({"ok": [], "时间": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}, 'value["时间"]["at"]'),
    "set": ({"tags": {"x"}}, 'value["tags"]'),
    "key": ({"a": {(1, 2): "b"}}, 'value["a"]'),
    "cycle": ({"a": CYCLE}, 'value["a"][1]["again"]'),
    "the value itself": (b"bytes", "value"),
}


@every_case(*FAULTS.values())
def test_the_path_of_the_first_fault_is_named(value: Any, path: str) -> None:
    assert path == fault_path(value)
    with pytest.raises(InvalidInput) as refused:
        to_json(value, "the value of 'k'")
    assert f"the value of 'k' cannot be stored as JSON at {path}: " in str(refused.value)


@every_case(None, {}, {"a": [True, 1, 1.5, "x", None, {"b": ()}]}, [[0]] * 3, DEEP)
def test_what_json_can_say_has_no_fault(value: Any) -> None:
    assert fault_path(value) is None


def test_what_is_nested_too_deeply_is_said_to_be() -> None:
    with pytest.raises(InvalidInput, match="nested over 500 levels deep") as refused:
        to_json({"a": DEEP}, "the value of 'k'")
    assert "recursion" not in str(refused.value) and "8601" not in str(refused.value)
