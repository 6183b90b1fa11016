"""JSON Schemas in the form of OpenAI's strict mode. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared_core.core.domain import JsonValue

MAY_BE_EMPTY: Final = ("string", "array", "boolean")
"""Types with a value that says nothing: "", [] or false."""


def strict_schema(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a schema in which each object requires all of its properties, and allows no others.

    A property that was optional may be empty instead. Numbers and enums may be null.
    """
    strict: dict[str, JsonValue] = dict(schema)
    if isinstance(items := schema.get("items"), Mapping):
        strict["items"] = strict_schema(items)
    if isinstance(properties := schema.get("properties"), Mapping):
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        strict["properties"] = {
            name: strict_schema(inner) if name in needed else _optional(strict_schema(inner))
            for name, inner in properties.items()
            if isinstance(inner, Mapping)
        }
        strict |= {"required": list(properties), "additionalProperties": False}
    return strict


def _optional(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    words = schema.get("enum")
    if words is None and schema.get("type") in MAY_BE_EMPTY:
        return schema
    nullable = {**schema, "type": [schema.get("type"), "null"]}
    if isinstance(words, list):
        nullable["enum"] = [*words, None]
    return nullable
