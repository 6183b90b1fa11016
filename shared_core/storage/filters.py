"""Filters on the value of an item, as SQL over jsonb with every value bound. Pure.

A filter maps fields to what they must be: a plain value (equality), a mapping of operators
({"$gt": 3}), or a mapping without operators, which goes one level deeper. All parts must hold.
Numbers compare as numbers, texts as texts; an order comparison across types never holds. A missing
field equals nothing, not even null; "$ne" holds for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shared_core.domain import JsonValue
from shared_core.errors import InvalidInput
from shared_core.jsontext import to_json
from shared_core.namespaces import clean_text

_ORDER = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
OPERATORS = ("$eq", "$ne", *_ORDER)


def compile_filter(wanted: Mapping[str, JsonValue]) -> tuple[str, dict[str, object]]:
    """Return SQL that holds for matching rows of memories m, and the values it binds.

    Raises InvalidInput for an operator that is not known.
    """
    clauses: list[str] = []
    values: dict[str, object] = {}
    for path, operator, operand in _conditions((), wanted):
        number = len(clauses)
        values[f"path_{number}"] = [clean_text(name) for name in path]
        values[f"operand_{number}"] = to_json(operand, f"the filter on {'.'.join(path)!r}")
        field = f"m.value #> %(path_{number})s::text[]"
        operand_sql = f"%(operand_{number})s::jsonb"
        if operator == "$eq":
            clauses.append(f"{field} = {operand_sql}")
        elif operator == "$ne":
            clauses.append(f"({field}) IS DISTINCT FROM {operand_sql}")
        else:
            clauses.append(
                f"CASE WHEN jsonb_typeof({field}) = jsonb_typeof({operand_sql})"
                f" THEN ({field}) {_ORDER[operator]} {operand_sql} ELSE false END"
            )
    return " AND ".join(clauses) or "true", values


def _conditions(
    path: tuple[str, ...], wanted: Mapping[str, JsonValue]
) -> Iterator[tuple[tuple[str, ...], str, JsonValue]]:
    for name, operand in wanted.items():
        if name.startswith("$"):
            if not path or name not in OPERATORS:
                known = ", ".join(OPERATORS)
                raise InvalidInput(
                    f"filter operator {name!r} is not known here: write"
                    f' {{"field": {{"$operator": value}}}} with one of {known}'
                )
            yield path, name, operand
        elif isinstance(operand, Mapping) and operand:
            yield from _conditions((*path, name), operand)
        else:
            yield (*path, name), "$eq", operand
