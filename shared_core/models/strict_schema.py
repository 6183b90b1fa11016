"""JSON Schemas in the form of OpenAI's strict mode. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from shared_core.core.domain import JsonValue


def strict_schema(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a schema in which each object requires all of its properties, and allows no others.

    A property that was optional may be null instead.
    """
    strict: dict[str, JsonValue] = dict(schema)
    if isinstance(items := schema.get("items"), Mapping):
        strict["items"] = strict_schema(items)
    if isinstance(properties := schema.get("properties"), Mapping):
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        strict["properties"] = {
            name: strict_schema(inner) if name in needed else _nullable(strict_schema(inner))
            for name, inner in properties.items()
            if isinstance(inner, Mapping)
        }
        strict |= {"required": list(properties), "additionalProperties": False}
    return strict


def _nullable(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    nullable = {**schema, "type": [schema.get("type"), "null"]}
    if isinstance(words := schema.get("enum"), list):
        nullable["enum"] = [*words, None]
    return nullable
