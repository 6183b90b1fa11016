"""Memories, and recalled ones to rank, with a default for each field that a test does not name."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from shared_core.core.domain import JsonValue, Memory, MemoryId, MemoryKind, Role
from shared_core.ports.recall import Candidate, Candidates, Corpus, Recalled

MARCH = datetime(2026, 3, 1, tzinfo=UTC)


def memory(number: int, text: str, at: datetime = MARCH, **more: Any) -> Memory:
    """Return a memory of ann; number: its id and its key."""
    given: dict[str, Any] = {
        "memory_id": MemoryId(UUID(int=number)), "namespace": ("app", "ann", "memories"),
        "key": str(number), "kind": "episodic", "text": text, "value": {}, "author": None,
        "importance": 5.0, "occurred_at": at, "created_at": at, "updated_at": at,
    }  # fmt: skip
    return Memory(**given | more)


@dataclass(frozen=True, kw_only=True)
class Said:
    """A memory, how near it is to the query and which words of the query it holds.

    day: when it was said, a day of March, or a part of one.
    """

    key: str = ""
    similarity: float | None = 0.3
    holds: Sequence[int] = ()
    text: str = "a statement."
    kind: MemoryKind = "episodic"
    author: str | None = None
    role: Role | None = None
    opens: bool = True
    length: int = 8
    day: float = 1
    importance: float = 5.0
    value: dict[str, JsonValue] | None = None
    ended: float = 0.0


def recalled(*said: Said, terms: int = 4) -> Recalled:
    """Return memories as a storage recalls them for a query of so many words."""
    return Recalled(
        candidates=Candidates.of([_candidate(number, one) for number, one in enumerate(said)]),
        corpus=Corpus.of(
            similarity=[one.similarity for one in said], length=[one.length for one in said],
            opens=[one.opens for one in said],
            holders=[number for number, one in enumerate(said) for _ in one.holds],
            words=[word for one in said for word in one.holds], terms=terms,
        ),
    )  # fmt: skip


def _candidate(number: int, one: Said) -> Candidate:
    moment = MARCH + timedelta(days=one.day - 1)
    stored = memory(
        number + 1, one.text, moment, key=one.key, kind=one.kind, value=one.value or {},
        author=one.author, importance=one.importance,
    )  # fmt: skip
    return Candidate(
        memory_id=stored.memory_id, kind=one.kind, text=one.text, author=one.author,
        occurred_at=moment, number=number, memory=lambda: stored, role=one.role, ended=one.ended,
    )  # fmt: skip
