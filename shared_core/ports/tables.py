"""The tables of the schema: columns, types, keys, defaults, and what their rows must fulfil.

Read from the migrations of PostgreSQL, so that no second list can drift from them. The schema of
OceanBase has the same tables and columns, in types of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final

SCHEMA_VERSION: Final = 1
"""The number of the newest migration, also of exported rows."""
NOW: Final = "now()"
"""The default of a timestamp: when the row is written."""
_TABLE: Final = re.compile(r"(?ms)^CREATE TABLE (\w+) \((.*?)^\)")
_COLUMN: Final = re.compile(r"(?m)^    ([a-z]\w*)\s+(double precision|\w+(?:\[\])?)(.*)$")
_DEFAULT: Final = re.compile(r" DEFAULT ('[^']*'|[\w()]+)")
_KEY: Final = re.compile(r"PRIMARY KEY \(([^()]*)\)")
_CHOICE: Final = re.compile(r"CHECK \((\w+) IN \(([^()]*)\)\)")
_BOUNDS: Final = re.compile(r"CHECK \((\w+) (?:BETWEEN (\d+) AND (\d+)|(>=?) 0\b.*?)\)")
_UNIQUE: Final = re.compile(r"(?m)^    UNIQUE \(tenant_id(?:, )?([^()]*)\)")
_UNIQUE_INDEX: Final = re.compile(
    r"CREATE UNIQUE INDEX \w+\s+ON (\w+) \(tenant_id(?:, )?([^()]*)\)([^;]*);"
)
_PARENT: Final = re.compile(
    r"FOREIGN KEY \(tenant_id, ([^()]*)\) REFERENCES (\w+) \(tenant_id, ([^()]*)\)"
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column. type: as PostgreSQL names it. default: as JSON text or NOW; None without one."""

    name: str
    type: str
    is_nullable: bool
    default: str | None
    choices: frozenset[str] | None = None
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class Unique:
    """Columns that are unique in a tenant among the rows with given values in other columns."""

    columns: tuple[str, ...]
    among: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row is one of the rows compared."""
        return all(row[name] == value for name, value in self.among.items())


@dataclass(frozen=True, slots=True)
class Parent:
    """A table whose row must exist, and the columns that name it, here and there."""

    table: str
    columns: tuple[str, ...]
    theirs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table. key: the primary key; unique: besides it. All without tenant_id, save columns."""

    columns: Mapping[str, Column]
    key: tuple[str, ...]
    unique: tuple[Unique, ...]
    parents: tuple[Parent, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns without tenant_id."""
        return tuple(name for name in self.columns if name != "tenant_id")


def migrations() -> str:
    """Return the text of the migrations of PostgreSQL, in order."""
    folder = files("shared_core.storage.postgres") / "sql" / "migrations"
    found = sorted(folder.iterdir(), key=lambda file: file.name)
    return "\n".join(file.read_text("utf-8") for file in found)


@cache
def tables() -> Mapping[str, TableShape]:
    """Return the tables by name."""
    schema = migrations()
    indexes: dict[str, list[Unique]] = {}
    for table, columns, rest in _UNIQUE_INDEX.findall(schema):
        indexes.setdefault(table, []).append(Unique(_listed(columns), _among(rest)))
    return {name: _table(body, indexes.get(name, [])) for name, body in _TABLE.findall(schema)}


def _table(body: str, indexes: Sequence[Unique]) -> TableShape:
    key = _KEY.search(body)
    of_table = [Unique(_listed(columns)) for columns in _UNIQUE.findall(body)]
    return TableShape(
        columns={column.name: column for column in _columns(body)},
        key=tuple(name for name in _listed(key[1]) if name != "tenant_id") if key else (),
        unique=(*of_table, *indexes),
        parents=tuple(
            Parent(table, _listed(own), _listed(theirs))
            for own, table, theirs in _PARENT.findall(body)
        ),
    )


def _columns(body: str) -> Iterator[Column]:
    choices = {
        name: frozenset(re.findall(r"'(\w+)'", some)) for name, some in _CHOICE.findall(body)
    }
    bounds = {name: _range(*rest) for name, *rest in _BOUNDS.findall(body)}
    for name, kind, rest in _COLUMN.findall(body):
        default = _DEFAULT.search(rest)
        yield Column(
            name,
            kind,
            "NOT NULL" not in rest and "PRIMARY KEY" not in rest,
            _as_json(kind, default[1]) if default else None,
            choices.get(name),
            *bounds.get(name, ()),
        )


def _as_json(kind: str, default: str) -> str:
    return default.strip("'") if kind == "jsonb" else default.replace("'", '"')


def _range(low: str, high: str, comparison: str) -> tuple[float, float]:
    if low:
        return float(low), float(high)
    return (0.0 if comparison == ">=" else math.nextafter(0, 1)), math.inf


def _among(rest: str) -> dict[str, Any]:
    """Return the values that the condition of a partial index asks for."""
    _, _, condition = rest.partition("WHERE ")
    values: dict[str, Any] = {}
    for part in filter(None, " ".join(condition.split()).split(" AND ")):
        name, _, value = part.partition(" ")
        values[name] = True if not value else None if value == "IS NULL" else value[3:-1]
    return values


def _listed(columns: str) -> tuple[str, ...]:
    return tuple(filter(None, columns.split(", ")))
