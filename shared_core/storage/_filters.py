"""Filters on the value of an item, as SQL over jsonb with every value bound. Pure.

A filter maps fields to conditions: a plain value (equality), a mapping of operators ({"$gt": 3}),
or a mapping of fields one level deeper. All conditions must hold. $and, $or and $not combine
filters at any level. docs/reference/langgraph.md has the table.

Every clause is true or false, never null, so $not is the opposite of its operand.

OceanBase compiles a filter only for its checks and matches in Python. The checks are not a module
of their own: nearly every operator checks its operand where it writes its SQL, so a second walk
over the filter would repeat the whole grammar.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from shared_core.core.domain import JsonValue
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import clean_text
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput

_ORDER = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_JOINED = ("$and", "$or", "$not")
OPERATORS = ("$eq", "$ne", *_ORDER, "$in", "$nin", "$exists", "$contains", *_JOINED)

MAX_DEPTH = 50
MAX_CONDITIONS = 1_000
"""Maximum number of names and values in a filter; the operands of $in count as one."""

Path: TypeAlias = tuple[str, ...]


def compile_filter(conditions: Mapping[str, JsonValue]) -> tuple[str, dict[str, object]]:
    """Return SQL that is true for matching rows of memories m, and the values it binds.

    Raises InvalidInput for an unknown operator or an operand of the wrong type.
    """
    compiler = _Compiler()
    return compiler.all_of((), conditions), compiler.values


class _Compiler:
    """Turns one filter into SQL and collects the values of its placeholders."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self._depth = 0
        self._operators: dict[str, Callable[[Path, str, JsonValue], str]] = {
            "$eq": self._equals,
            "$ne": self._differs,
            **dict.fromkeys(_ORDER, self._in_order),
            "$in": self._is_one_of,
            "$nin": self._is_none_of,
            "$exists": self._exists,
            "$contains": self._contains,
        }

    def all_of(self, path: Path, conditions: object) -> str:
        """Return SQL that is true if all conditions are; true for an empty filter."""
        if not isinstance(conditions, Mapping):
            raise InvalidInput(
                f"{_place(path)} must be a mapping of fields or operators, got {shown(conditions)}"
            )
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidInput(f"a filter must be nested at most {MAX_DEPTH} levels deep")
        clauses = [self._part(path, name, operand) for name, operand in conditions.items()]
        self._depth -= 1
        return " AND ".join(clauses) or "true"

    def _part(self, path: Path, name: object, operand: JsonValue) -> str:
        if not isinstance(name, str):
            raise InvalidInput(f"a field name in {_place(path)} must be a text, got {shown(name)}")
        if name in _JOINED:
            return self._joined(path, name, operand)
        if name.startswith("$"):
            if not path or name not in self._operators:
                raise InvalidInput(
                    f"filter operator {name!r} is unknown here: write"
                    f' {{"field": {{"$operator": value}}}} with one of {", ".join(OPERATORS)};'
                    " only $and, $or and $not may stand outside a field"
                )
            return self._operators[name](path, name, operand)
        below = (*path, name)
        if isinstance(operand, Mapping) and operand:
            operators = [str(key) for key in operand if str(key).startswith("$")]
            if operators and len(operators) < len(operand):
                raise InvalidInput(
                    f"{_place(below)} mixes operators ({', '.join(operators)}) with fields:"
                    " join the two with $and"
                )
            return f"({self.all_of(below, operand)})"
        return self._equals(below, "$eq", operand)

    def _joined(self, path: Path, name: str, operand: JsonValue) -> str:
        if name == "$not":
            return f"NOT ({self.all_of(path, operand)})"
        if not _is_list(operand) or not operand:
            raise InvalidInput(
                f"{name} in {_place(path)} needs a list of at least one filter,"
                f" got {shown(operand)}"
            )
        word = f" {name[1:].upper()} "
        return f"({word.join(f'({self.all_of(path, part)})' for part in _listed(operand))})"

    def _equals(self, path: Path, name: str, operand: JsonValue) -> str:
        if is_no_json_number(operand):  # nothing that is stored equals it
            return "false"
        return f"coalesce({self._field(path)} = {self._json(path, operand)}, false)"

    def _differs(self, path: Path, name: str, operand: JsonValue) -> str:
        if is_no_json_number(operand):
            return "true"
        return f"{self._field(path)} IS DISTINCT FROM {self._json(path, operand)}"

    def _in_order(self, path: Path, name: str, operand: JsonValue) -> str:
        field, sign = self._field(path), _ORDER[name]
        if isinstance(operand, str):  # by code point, as in Python
            return (
                f"CASE WHEN jsonb_typeof({field}) = 'string' THEN ({field} #>> '{{}}')"
                f' COLLATE "C" {sign} {self._bind(clean_text(operand))}::text ELSE false END'
            )
        if isinstance(operand, bool) or not isinstance(operand, int | float):
            raise InvalidInput(
                f"{name} in {_place(path)} needs a number or a text, got {shown(operand)}"
            )
        if is_no_json_number(operand):
            holds = {"<": operand > 0, ">": operand < 0}[sign[0]]  # NaN is neither
            return f"coalesce(jsonb_typeof({field}) = 'number', false)" if holds else "false"
        return (
            f"CASE WHEN jsonb_typeof({field}) = 'number'"
            f" THEN {field} {sign} {self._json(path, operand)} ELSE false END"
        )

    def _is_one_of(self, path: Path, name: str, operand: JsonValue) -> str:
        if not _is_list(operand):
            raise InvalidInput(f"{name} in {_place(path)} needs a list, got {shown(operand)}")
        parts = [part for part in _listed(operand) if not is_no_json_number(part)]
        texts = [to_json(part, _place(path)) for part in parts]
        return f"coalesce({self._field(path)} = ANY({self._bind(texts)}::jsonb[]), false)"

    def _is_none_of(self, path: Path, name: str, operand: JsonValue) -> str:
        return f"NOT {self._is_one_of(path, name, operand)}"

    def _exists(self, path: Path, name: str, operand: JsonValue) -> str:
        if not isinstance(operand, bool):
            raise InvalidInput(
                f"$exists in {_place(path)} needs True or False, got {shown(operand)}"
            )
        return f"{self._field(path)} IS {'NOT ' if operand else ''}NULL"

    def _contains(self, path: Path, name: str, operand: JsonValue) -> str:
        field = self._field(path)
        within = "false"
        if isinstance(operand, str):
            text = self._bind(clean_text(operand))
            within = f"strpos({field} #>> '{{}}', {text}::text) > 0"
        return (
            f"CASE jsonb_typeof({field}) WHEN 'array' THEN EXISTS ("
            f"SELECT FROM jsonb_array_elements({field}) AS part WHERE part = "
            f"{self._json(path, operand)}) WHEN 'string' THEN {within} ELSE false END"
        )

    def _field(self, path: Path) -> str:
        """Return the field as jsonb, NULL if it is missing; -> by text enters only objects."""
        names = (f"{self._bind(clean_text(name))}::text" for name in path)
        return f"(m.value -> {' -> '.join(names)})"

    def _json(self, path: Path, operand: JsonValue) -> str:
        return f"{self._bind(to_json(operand, _place(path)))}::jsonb"

    def _bind(self, value: object) -> str:
        name = f"filter_{len(self.values)}"
        self.values[name] = value
        if len(self.values) > MAX_CONDITIONS:
            raise InvalidInput(f"a filter may hold at most {MAX_CONDITIONS:,} names and values")
        return f"%({name})s"


def is_no_json_number(operand: object) -> bool:
    """Tell whether an operand is infinite or NaN, which no stored value is."""
    return isinstance(operand, float) and not math.isfinite(operand)


def _place(path: Path) -> str:
    return f"the filter on {'.'.join(path)!r}" if path else "the filter"


def _is_list(operand: object) -> bool:
    return isinstance(operand, Sequence) and not isinstance(operand, str | bytes)


def _listed(operand: JsonValue) -> Sequence[JsonValue]:
    assert isinstance(operand, Sequence) and not isinstance(operand, str)
    return operand
