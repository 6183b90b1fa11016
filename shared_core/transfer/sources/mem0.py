"""Reads memories of mem0: what get_all() returns, and the rows of its vector store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from shared_core.core.domain import JsonValue
from shared_core.transfer.sources.json_file import JsonFile
from shared_core.transfer.sources.records import (
    NO_ID,
    NO_TEXT,
    UNREADABLE,
    Record,
    SkippedRecord,
    StatementRecord,
    moment,
    name_of,
    plain,
    readable,
    text_of,
)

TEXTS = ("memory", "data")
"""Fields with the text: of get_all(), and of a row of the store."""
OWN = frozenset({
    *TEXTS, "id", "hash", "created_at", "updated_at", "user_id", "actor_id", "metadata", "score",
    "expiration_date", "text_lemmatized",
})  # fmt: skip
"""Fields of mem0 that are no metadata of the caller, or that have a place of their own."""


def fits(kind: str, fields: Sequence[str]) -> bool:
    """Tell whether a document holds memories of mem0."""
    if kind == "array":
        return "id" in fields and ("memory" in fields or {"data", "hash"} <= set(fields))
    return "results" in fields


def read(file: JsonFile, _user: str | None = None) -> Iterator[Record]:
    """Yield the memories in the answer of get_all(), or in an array of them."""
    kind, _ = file.outline()
    for entry in file.items("item" if kind == "array" else "results.item"):
        yield readable(memory_record, entry)


def memory_record(entry: object, now: datetime | None = None) -> Record:
    """Return the record of a memory of mem0. now: the time that decides whether it expired."""
    if not isinstance(entry, Mapping):
        return SkippedRecord(UNREADABLE)
    text = next((text for name in TEXTS if (text := text_of(entry.get(name)))), "")
    name = name_of(entry.get("id"))
    if not text or not name:
        return SkippedRecord(f"memories {NO_TEXT if not text else NO_ID}")
    last_day = moment(entry.get("expiration_date"))
    expires_at = last_day and last_day + timedelta(days=1)
    if expires_at is not None and expires_at <= (now or datetime.now(UTC)):
        return SkippedRecord("expired memories")
    created_at = moment(entry.get("created_at"))
    return StatementRecord(
        user=name_of(entry.get("user_id")) or None,
        key=f"mem0/{name}",
        text=text,
        created_at=created_at,
        at=moment(entry.get("updated_at")) or created_at,
        author=name_of(entry.get("actor_id")) or None,
        expires_at=expires_at,
        metadata=_metadata(entry),
    )


def _metadata(entry: Mapping[str, Any]) -> dict[str, JsonValue]:
    own = {name: value for name, value in entry.items() if name not in OWN and value is not None}
    given = entry.get("metadata")
    found = {**own, **(given if isinstance(given, Mapping) else {})}
    return {"imported_from": "mem0", **{str(name): plain(value) for name, value in found.items()}}


class EntrySource(Protocol):
    """A store of mem0. name: for messages."""

    @property
    def name(self) -> str: ...

    def entries(self) -> Iterator[object]:
        """Yield all memories."""


@dataclass(frozen=True, slots=True)
class Mem0Store:
    """The memories in a store of mem0."""

    store: EntrySource
    product: str = "mem0"

    @property
    def name(self) -> str:
        """The name of the store."""
        return self.store.name

    def records(self, user: str | None = None) -> Iterator[Record]:
        """Yield a record for each memory. user: of no use, a memory names nobody who speaks."""
        return (readable(memory_record, entry) for entry in self.store.entries())
