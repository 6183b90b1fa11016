"""What an import asks of the store it reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceItem:
    """An item as LangGraph's PostgresStore keeps it.

    prefix: its labels, joined by dots. value_json: the text of its value, not parsed yet.
    vectors: by field; None where only the field was asked for.
    """

    prefix: str
    key: str
    value_json: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    ttl_minutes: int | None
    vectors: Mapping[str, Sequence[float] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTally:
    """How many items a source holds, expired ones included, and how many of them have vectors."""

    items: int
    expired: int
    embedded: int
    dimensions: int | None


class ItemSource(Protocol):
    """A store that is only read."""

    async def tally(self) -> SourceTally: ...

    def pages(self, limit: int, *, vectors: bool) -> AsyncIterator[Sequence[SourceItem]]:
        """Yield all items in a stable order, at most limit at a time."""
        ...
