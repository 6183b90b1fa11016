"""The mark of a doubtful fact in the value of its memory: `metadata.doubted_at`. Pure.

The mark holds the moment of the latest turn that doubts the fact, in ISO 8601, and nothing else.
The turn and the rule are in a row of retractions, which goes with the turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

DOUBTED_AT = "doubted_at"
"""The metadata key of the mark."""


def doubted_at(value: Any) -> datetime | None:
    """Return since when a fact is doubtful by the value of its memory, or None."""
    metadata: Any = value.get("metadata") if isinstance(value, Mapping) else None
    is_fact = isinstance(metadata, Mapping) and "slot" in metadata
    text = metadata.get(DOUBTED_AT) if is_fact else None
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:  # a caller's own metadata
        return None
    return at if at.tzinfo else None


def marked(value: Any, at: datetime | None) -> Any:
    """Return the value of a memory with the mark of this moment, or with None without a mark."""
    if not isinstance(value, Mapping):
        return value
    metadata = value.get("metadata")
    others = dict(metadata) if isinstance(metadata, Mapping) else {}
    if at is None and DOUBTED_AT not in others:
        return value
    others.pop(DOUBTED_AT, None)
    if at is not None:
        others[DOUBTED_AT] = at.isoformat()
    return {**value, "metadata": others}
