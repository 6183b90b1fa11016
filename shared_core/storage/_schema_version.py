"""The version of the schema, the same number on every engine: an export of one fits the other."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 34
"""The number of the newest migration."""
