"""Between rows and nouns: JSON that PostgreSQL accepts, and tuples into values. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from shared_core.domain import JsonValue, Memory, MemoryId, ThreadId
from shared_core.errors import InvalidInput
from shared_core.namespaces import clean_text, from_path
from shared_core.ports import Item


def to_json(value: object, what: str = "value") -> str:
    """Return JSON text that jsonb accepts; NUL and lone surrogates become U+FFFD.

    Raises InvalidInput, naming what, for NaN, infinities and anything JSON has no word for.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{what} cannot be stored as JSON: {error}; keep to str, int, float, bool, None, list"
            " and dict, and write dates as ISO 8601 text"
        ) from error
    if "\\u0000" in text or not _encodable(text):
        text = json.dumps(_cleaned(value), ensure_ascii=False, allow_nan=False)
    return text


MAX_TERMS = 16_000
"""Words of one memory that full-text search covers: a tsvector holds 1 MB and 16,383 positions."""


def to_tsvector(terms: Sequence[str]) -> str:
    """Return words as a tsvector literal with their positions."""
    positions: dict[str, list[str]] = {}
    for position, term in enumerate(terms[:MAX_TERMS], start=1):
        positions.setdefault(term, []).append(str(position))
    return " ".join(
        f"{quoted_term(term)}:{','.join(places[:255])}" for term, places in positions.items()
    )


def quoted_term(term: str) -> str:
    """Return one word as the quoted lexeme of a tsvector or tsquery literal."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def memory_from_row(row: Sequence[Any]) -> Memory:
    """Return the memory in the first 15 columns, in the order of {memory_columns}."""
    return Memory(
        memory_id=MemoryId(row[0]),
        namespace=from_path(row[1]),
        key=row[2],
        kind=row[3],
        text=row[4],
        value=row[5],
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
    )


def utc(moment: datetime) -> datetime:
    """Return the same moment in UTC; the driver speaks the time zone of the session."""
    return moment.astimezone(UTC)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cleaned(value: object) -> JsonValue | object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {_cleaned(key): _cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(inner) for inner in value]
    return value
