"""Evaluates filters on the JSON value of an item in Python.

storage._filters defines filters and checks them; here they match the same values.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from shared_core.core.domain import JsonValue
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import clean_text
from shared_core.storage._filters import compile_filter, is_no_json_number

Matches: TypeAlias = Callable[[str], bool]
"""Returns whether the value of an item, as JSON text, matches a filter."""
_Test: TypeAlias = Callable[[Any], bool]
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class _Missing:
    """The value of a missing field: equal to no JSON, not even to null."""


_MISSING: Final = _Missing()


def matches(expected: Mapping[str, JsonValue]) -> Matches | None:
    """Return the test for a filter, or None if all values match.

    Raises InvalidInput for an unknown operator or an operand of the wrong type.
    """
    compile_filter(expected)
    if not expected:
        return None
    test = _all_of(expected)
    return lambda text: test(_parsed(text))


def _all_of(expected: Mapping[str, Any]) -> _Test:
    tests = [_part(name, operand) for name, operand in expected.items()]
    return lambda value: all(test(value) for test in tests)


def _part(name: str, operand: Any) -> _Test:
    if name.startswith("$"):
        return _OPERATORS[name](operand)
    field = clean_text(name)
    test = _all_of(operand) if isinstance(operand, Mapping) and operand else _equals(operand)
    return lambda value: test(value.get(field, _MISSING) if isinstance(value, dict) else _MISSING)


def _negated(make: Callable[[Any], _Test]) -> Callable[[Any], _Test]:
    def negated(operand: Any) -> _Test:
        test = make(operand)
        return lambda value: not test(value)

    return negated


def _and(operand: Any) -> _Test:
    tests = [_all_of(part) for part in operand]
    return lambda value: all(test(value) for test in tests)


def _or(operand: Any) -> _Test:
    tests = [_all_of(part) for part in operand]
    return lambda value: any(test(value) for test in tests)


def _equals(operand: Any) -> _Test:
    expected = _stored(operand)
    return lambda value: _same(value, expected)


def _is_one_of(operand: Any) -> _Test:
    expected = [_stored(part) for part in operand]
    return lambda value: any(_same(value, one) for one in expected)


def _exists(operand: Any) -> _Test:
    return lambda value: (value is not _MISSING) is operand


def _contains(operand: Any) -> _Test:
    expected = _stored(operand)

    def test(value: Any) -> bool:
        if isinstance(value, list):
            return any(_same(part, expected) for part in value)
        return isinstance(value, str) and isinstance(expected, str) and expected in value

    return test


def _in_order(name: str) -> Callable[[Any], _Test]:
    compare = _ORDER[name]

    def in_order(operand: Any) -> _Test:
        expected = _stored(operand)
        kind = _kind(expected)
        if expected != expected:  # NaN is in no order
            return lambda value: False
        return lambda value: _kind(value) is kind and compare(value, expected)

    return in_order


_OPERATORS: Final[Mapping[str, Callable[[Any], _Test]]] = {
    "$eq": _equals,
    "$ne": _negated(_equals),
    **{name: _in_order(name) for name in _ORDER},
    "$in": _is_one_of,
    "$nin": _negated(_is_one_of),
    "$exists": _exists,
    "$contains": _contains,
    "$and": _and,
    "$or": _or,
    "$not": _negated(_all_of),
}


def _same(value: Any, expected: Any) -> bool:
    """Return whether two values are the same JSON: 1 equals 1.0, and true neither."""
    if _kind(value) is not _kind(expected):
        return False
    if isinstance(value, dict):
        return value.keys() == expected.keys() and all(
            _same(inner, expected[name]) for name, inner in value.items()
        )
    if isinstance(value, list):
        return len(value) == len(expected) and all(map(_same, value, expected))
    return bool(value == expected)


def _kind(value: Any) -> type:
    return Decimal if type(value) is int else type(value)


def _parsed(text: str) -> Any:
    """Return JSON with exact numbers: a float is a Decimal."""
    return json.loads(text, parse_float=Decimal)


def _stored(operand: Any) -> Any:
    """Return an operand as if it had been stored and read; infinities and NaN stay."""
    return Decimal(operand) if is_no_json_number(operand) else _parsed(to_json(operand))
