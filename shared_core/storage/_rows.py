"""Between rows and nouns: tuples into values, words into a tsvector. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from shared_core.core.domain import AsOf, Event, Memory, MemoryId, ThreadId
from shared_core.core.namespaces import from_path
from shared_core.ports.items import Item

MAX_TERMS = 16_000
MAX_TERM_BYTES = 800_000
"""What full-text search covers of one memory: a tsvector holds 16,383 positions and 1 MB in all."""


def to_tsvector(terms: Sequence[str]) -> str:
    """Return words as a tsvector literal with their positions."""
    positions: dict[str, list[str]] = {}
    room = MAX_TERM_BYTES
    for position, term in enumerate(terms[:MAX_TERMS], start=1):
        room -= len(term.encode()) if term not in positions else 0
        if room < 0:
            break
        positions.setdefault(term, []).append(str(position))
    return " ".join(
        f"{quoted_term(term)}:{','.join(places[:255])}" for term, places in positions.items()
    )


def quoted_term(term: str) -> str:
    """Return one word as the quoted lexeme of a tsvector or tsquery literal."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def any_term(terms: Sequence[str]) -> str:
    """Return a tsquery literal that holds where at least one of the words is."""
    return " | ".join(quoted_term(term) for term in dict.fromkeys(terms))


def memory_from_row(row: Sequence[Any]) -> Memory:
    """Return the memory in the first 15 columns, in the order of {memory_columns}."""
    return Memory(
        memory_id=MemoryId(row[0]),
        namespace=from_path(row[1]),
        key=row[2],
        kind=row[3],
        text=row[4],
        value=json.loads(row[5]),
        author=row[6],
        importance=row[7],
        occurred_at=utc(row[8]),
        created_at=utc(row[9]),
        updated_at=utc(row[10]),
        expires_at=row[11] and utc(row[11]),
        superseded_at=row[12] and utc(row[12]),
        thread_id=row[13] and ThreadId(row[13]),
        source_event_ids=tuple(row[14] or ()),
    )


MEMORY_COLUMNS = 15


def as_known(memory: Memory, as_of: AsOf | None) -> Memory:
    """Return a memory without a retirement that was not known yet."""
    retired, known = memory.superseded_at, as_of.known if as_of else None
    return replace(memory, superseded_at=None) if retired and known and retired > known else memory


def moments(as_of: AsOf | None) -> dict[str, object]:
    """Return the parameters %(valid)s and %(known)s."""
    return {"valid": as_of.valid if as_of else None, "known": as_of.known if as_of else None}


def item_from_row(row: Sequence[Any]) -> Item:
    """Return the item in the columns of {item_columns}, and a similarity after them if any."""
    return Item(
        namespace=from_path(row[0]),
        key=row[1],
        value=row[2],
        created_at=utc(row[3]),
        updated_at=utc(row[4]),
        has_ttl=row[5] is not None,
        similarity=row[6] if len(row) > 6 else None,
        score=row[6] if len(row) > 6 else None,
    )


def utc(moment: datetime) -> datetime:
    """Return the same moment in UTC; the driver speaks the time zone of the session."""
    return moment.astimezone(UTC)


def event_from_row(row: Sequence[Any]) -> Event:
    """Return the event in the columns of {event_columns} after the number."""
    event_id, author, role, text, occurred_at, metadata, importance, expires_at = row
    return Event(
        event_id=event_id,
        author=author,
        role=role,
        text=text,
        occurred_at=utc(occurred_at),
        metadata=metadata,
        importance=importance,
        expires_at=expires_at and utc(expires_at),
    )
