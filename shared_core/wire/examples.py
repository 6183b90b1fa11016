"""Examples of answers for OpenAPI."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict


def with_example(**values: Any) -> ConfigDict:
    """Return the settings of an answer that has an example."""
    return ConfigDict(json_schema_extra={"examples": [values]})
