"""The tables as the schema declares them, and the values of their columns in Python and SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any
from uuid import UUID

from shared_core.core.json_text import to_json
from shared_core.ports.tables import Column, tables as described
from shared_core.storage._rows import kept_terms
from shared_core.storage.oceanbase.connection.migrate import migrations

_NO_HASH = bytes(32)


class ColumnType(Enum):
    """What the values of a column are in Python."""

    TEXT = "text"
    LONG_TEXT = "long text"
    """Compares without its trailing spaces, unless it is cast to bytes."""
    UUID = "uuid"
    MOMENT = "moment"
    JSON = "json"
    LIST = "list of texts"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    BYTES = "bytes"
    HASH = "hash"
    """32 bytes; no bytes at all are stored as zeros."""

    def stored(self, value: Any) -> Any:
        """Return a value as it is bound in a statement. Raises InvalidInput for what is no JSON."""
        if value is None or self not in _STORED:
            return value
        return _STORED[self](value)

    def loaded(self, value: Any) -> Any:
        """Return a value that a statement returned."""
        return None if value is None else _LOADED[self](value)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of tenants. key and unique: columns beside the tenant.

    left_out: what an INSERT writes into a column that it does not name: a LONGTEXT has no default.
    """

    columns: Mapping[str, ColumnType]
    key: tuple[str, ...]
    unique: tuple[tuple[str, ...], ...]
    left_out: Mapping[str, str]


_EMBEDDINGS = Table(
    columns={
        **dict.fromkeys(("tenant_id", "model", "field"), ColumnType.TEXT),
        "memory_id": ColumnType.UUID,
    },
    key=("model", "memory_id", "field"),
    unique=(),
    left_out={},
)


@cache
def tables() -> Mapping[str, Table]:
    """Return the tables by name. `embeddings` stands for the tables of all dimensions."""
    script = "\n".join(one.sql for one in migrations())
    found = re.findall(r"^CREATE TABLE IF NOT EXISTS (\w+) \((.*?)^\)", script, re.M | re.S)
    return {name: _table(name, body) for name, body in found} | {"embeddings": _EMBEDDINGS}


def _table(name: str, body: str) -> Table:
    known = described()[name].columns if name in described() else {}
    columns = {
        column: _type_of(declared, known.get(column))
        for column, declared in re.findall(r"^    `?(\w+)`?\s+([A-Z]+\b(?:\(\d+\))?)", body, re.M)
        if column.islower()
    }
    key = re.search(r"^    PRIMARY KEY \((.*)\)", body, re.M)
    return Table(
        columns=columns,
        key=_listed(key[1]) if key else (),
        unique=tuple(map(_listed, re.findall(r"^    UNIQUE (?:KEY \w+ )?\((.*)\)", body, re.M))),
        left_out={
            column: default
            for column, kind in columns.items()
            if kind is ColumnType.JSON and (default := known[column].default)
        },
    )


def _listed(columns: str) -> tuple[str, ...]:
    named = (column.strip(" `") for column in columns.split(","))
    return tuple(column for column in named if column != "tenant_id")


def _type_of(declared: str, column: Column | None) -> ColumnType:
    if declared == "LONGTEXT" and column is not None:
        return _LONG.get(column.type, ColumnType.LONG_TEXT)
    return _DECLARED.get(declared) or _DECLARED[declared.partition("(")[0]]


_LONG = {"jsonb": ColumnType.JSON, "json": ColumnType.JSON, "text[]": ColumnType.LIST}
_DECLARED = {
    "VARBINARY": ColumnType.TEXT,
    "VARCHAR": ColumnType.TEXT,
    "BINARY(16)": ColumnType.UUID,
    "BINARY(32)": ColumnType.HASH,
    "BLOB": ColumnType.BYTES,
    "DATETIME": ColumnType.MOMENT,
    "TINYINT(1)": ColumnType.BOOLEAN,
    "SMALLINT": ColumnType.INTEGER,
    "INT": ColumnType.INTEGER,
    "BIGINT": ColumnType.INTEGER,
    "DOUBLE": ColumnType.NUMBER,
}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(_text(value)) if not isinstance(value, datetime) else value
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def stored_terms(words: Sequence[str]) -> str:
    """Return words as memories.terms holds them, each with a space before and after."""
    return f" {' '.join(kept_terms(words))} "


_STORED: Mapping[ColumnType, Callable[[Any], Any]] = {
    ColumnType.JSON: to_json,
    ColumnType.LIST: lambda value: to_json(list(value)),
    ColumnType.LONG_TEXT: lambda value: value if isinstance(value, str) else stored_terms(value),
    ColumnType.NUMBER: float,
    ColumnType.HASH: lambda value: value or _NO_HASH,
}
_LOADED: Mapping[ColumnType, Callable[[Any], Any]] = {
    ColumnType.TEXT: _text,
    ColumnType.LONG_TEXT: _text,
    ColumnType.UUID: lambda value: value if isinstance(value, UUID) else UUID(bytes=value),
    ColumnType.MOMENT: _moment,
    ColumnType.JSON: json.loads,
    ColumnType.LIST: json.loads,
    ColumnType.BOOLEAN: bool,
    ColumnType.INTEGER: int,
    ColumnType.NUMBER: float,
    ColumnType.BYTES: bytes,
    ColumnType.HASH: lambda value: b"" if value == _NO_HASH else bytes(value),
}
