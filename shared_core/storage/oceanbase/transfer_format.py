"""Reads and writes rows of an export in PostgreSQL's tables, types and JSON form.

So exports of both engines are equal. A row maps columns to values as they are stored: str, int,
float, bool as 0 or 1, UUID, datetime, bytes; JSON and arrays as text; words as text with a space
before and after each. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from importlib.resources import files
from typing import Any, Final, Literal, get_args
from uuid import UUID

import numpy as np

from shared_core.core.domain import MemoryKind
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import storable
from shared_core.errors import InvalidInput
from shared_core.ports.jobs import JobStatus, JobType
from shared_core.ports.transfer import EMBEDDINGS, TABLES
from shared_core.storage._rows import MAX_TERM_BYTES

Type = Literal[
    "text", "uuid", "int", "bool", "real", "double", "moment", "json", "raw", "bytes", "texts",
    "terms", "vector",
]  # fmt: skip
"""PostgreSQL types: json is jsonb, raw is json, terms tsvector, texts text[], vector halfvec."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. default: for rows without it, as JSON text, or None."""

    name: str
    type: Type
    nullable: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a table in order, and those of its primary key."""

    columns: Mapping[str, Column]
    key: tuple[str, ...]

    @property
    def selected(self) -> str:
        """The columns as a statement names them."""
        return names(self.columns)


@dataclass(frozen=True, slots=True)
class Unique:
    """Columns that are unique among the rows that hold given values in other columns."""

    columns: tuple[str, ...]
    among: Mapping[str, str | int | None] = field(default_factory=dict)

    @property
    def condition(self) -> str:
        """The rows compared, in SQL."""
        parts = [
            f"{name} IS NULL" if value is None else f"{name} = {value!r}"
            for name, value in self.among.items()
        ]
        return " AND ".join(parts or ["TRUE"])

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return whether a stored row is one of the rows compared."""
        return all(row[name] == value for name, value in self.among.items())


def names(columns: Mapping[str, object] | tuple[str, ...]) -> str:
    """Return columns as a statement names them."""
    return ", ".join(f"`{name}`" for name in columns)


NOW: Final = "now()"
"""The default of a timestamp: when the row is written."""
_SQL_TYPES: Final[Mapping[str, Type]] = {
    "VARBINARY": "text", "VARCHAR": "text", "LONGTEXT": "text", "BINARY(16)": "uuid",
    "BINARY(32)": "bytes", "BLOB": "bytes", "INT": "int", "SMALLINT": "int", "BIGINT": "int",
    "TINYINT": "bool", "DOUBLE": "double", "DATETIME": "moment",
}  # fmt: skip
_OWN_TYPES: Final[Mapping[Type, str]] = {
    "json": "threads.state events.metadata shared_state.state memories.value memory_archive.value"
    " facts.value instructions.metadata profiles.entries runs.counts run_changes.before"
    " pipeline_log.output pipeline_log.input erasures.target erasures.counts"
    " consolidation_jobs.result consolidation_jobs.payload",
    "raw": "events.payload",
    "texts": "retractions.event_ids",
    "terms": "memories.terms",
    "real": "events.importance memories.importance facts.confidence edges.confidence",
}
"""Columns whose type on PostgreSQL is narrower than the type of their column here."""
_OWN_DEFAULTS: Final[Mapping[str, str]] = {
    "{}": "threads.state events.metadata instructions.metadata runs.counts run_changes.before"
    " pipeline_log.output pipeline_log.input consolidation_jobs.result",
    "[]": "profiles.entries",
    NOW: "profiles.began_at",
}
"""Defaults that the schema here cannot state, each with its columns."""
_TABLE: Final = re.compile(r"(?ms)^CREATE TABLE IF NOT EXISTS (\w+) \((.*?)^\)")
_COLUMN: Final = re.compile(
    r"    `?([a-z_0-9]+)`? +(BINARY\(\d+\)|[A-Z]+)(?:\(\d+\))?( NOT NULL)?(?: DEFAULT (\S+?))?,"
)
_NO_KEYS: Final = re.compile(
    r"(?m)^(?:    (?:PRIMARY|FOREIGN|UNIQUE|CHECK|KEY|INDEX|VECTOR)\b.*| *--.*|\s*)\n"
)
"""Lines of a table that state no column."""
_KEY: Final = re.compile(r"PRIMARY KEY \(([^()]+)\)")


def _shapes() -> dict[str, TableShape]:
    """Return the shapes of the exported tables, read from the schema."""
    schema = (
        files("shared_core.storage.oceanbase").joinpath("sql/0001_schema.sql").read_text("utf-8")
    )
    types = {name: kind for kind, columns in _OWN_TYPES.items() for name in columns.split()}
    defaults = {name: value for value, columns in _OWN_DEFAULTS.items() for name in columns.split()}
    shapes = {EMBEDDINGS: _EMBEDDINGS}
    for table, body in _TABLE.findall(schema):
        if table not in TABLES:
            continue
        columns = {}
        for line in _NO_KEYS.sub("", body).splitlines():
            column = _COLUMN.fullmatch(line)
            if column is None:
                raise AssertionError(f"the schema has a column of {table} that is not read: {line}")
            name, sql_type, filled, default = column.groups()
            place = f"{table}.{name}"
            kind = types.get(place, _SQL_TYPES[sql_type])
            json_default = _default(kind, default) if default else defaults.get(place)
            columns[name] = Column(name, kind, not filled, json_default)
        [key] = _KEY.findall(body)
        shapes[table] = TableShape(columns, tuple(key.replace("`", "").split(", ")))
    return shapes


def _default(kind: Type, default: str) -> str:
    """Return the default of a column in SQL as JSON text."""
    if kind == "bool":
        return "true" if default == "1" else "false"
    return default.replace("'", '"')


_EMBEDDINGS: Final = TableShape(
    {
        **{name: Column(name, "text", False, None) for name in ("tenant_id", "model")},
        "memory_id": Column("memory_id", "uuid", False, None),
        "field": Column("field", "text", False, None),
        "embedding": Column("embedding", "vector", False, None),
    },
    ("tenant_id", "model", "memory_id", "field"),
)
"""The database has one table of vectors for each number of dimensions (vectors.py)."""
SHAPES: Final[Mapping[str, TableShape]] = _shapes()
_CURRENT: Final = {"valid_until": None, "superseded_at": None}
UNIQUE: Final[Mapping[str, tuple[Unique, ...]]] = {
    "events": (Unique(("tenant_id", "thread_id", "event_id")),),
    "memories": (Unique(("tenant_id", "namespace", "key")),),
    "facts": (Unique(("tenant_id", "fact_type", "key"), _CURRENT),),
    "edges": (
        Unique(("tenant_id", "subject_key", "relation", "object_key"), _CURRENT),
        Unique(("tenant_id", "subject_key", "relation"), {"functional": 1, **_CURRENT}),
    ),
    "entity_aliases": (Unique(("tenant_id", "alias_key"), {"unmerged_at": None}),),
    "profiles": (Unique(("tenant_id", "memory_id", "version")),),
    "conversations": (Unique(("tenant_id",), {"status": "active"}),),
    "consolidation_jobs": (
        Unique(("tenant_id", "thread_id", "job_type", "performer"), {"status": "pending"}),
        Unique(("tenant_id", "thread_id"), {"status": "running"}),
    ),
}
"""The unique indexes of PostgreSQL besides the primary keys."""
_KINDS: Final = frozenset(get_args(MemoryKind))
CHOICES: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("events", "role"): frozenset({"user", "agent", "tool", "system"}),
    ("memories", "kind"): _KINDS,
    ("facts", "fact_type"): frozenset({"preference", "rule", "profile", "custom"}),
    ("profiles", "subject_kind"): frozenset({"user", "agent"}),
    ("conversations", "status"): frozenset({"active", "ending", "ended"}),
    ("consolidation_jobs", "status"): frozenset(map(str, JobStatus)),
    ("consolidation_jobs", "job_type"): frozenset(map(str, JobType)),
    ("run_changes", "change"): frozenset(
        {"closed", "retired", "sourced", "renewed", "rated"}
        | {"summary", "edge", "bounded", "moved", "revived"}
    ),
    ("pipeline_log", "status"): frozenset({"success", "warning", "error"}),
    ("retention_policies", "kind"): _KINDS,
}
"""Allowed values of columns (CHECK constraints of PostgreSQL)."""
RANGES: Final[Mapping[tuple[str, str], tuple[float, float]]] = {
    ("events", "importance"): (1, 10),
    ("memories", "importance"): (1, 10),
    ("facts", "confidence"): (0, 1),
    ("edges", "confidence"): (0, 1),
    ("memory_access", "stage"): (0, 2),
    ("memory_access", "strength"): (0, 1),
    ("retention_policies", "decay_rate"): (0, 1.7e308),
    ("retention_policies", "threshold"): (0, 1),
    ("retention_policies", "archive_threshold"): (0, 1),
    ("retention_policies", "erase_threshold"): (0, 1),
    ("retention_policies", "min_age_days"): (0, 1.7e308),
    ("retention_policies", "archive_after_days"): (0, 1.7e308),
    ("retention_policies", "erase_after_days"): (0, 1.7e308),
}
MOST_DIGITS: Final = 131_072
FEWEST_DIGITS: Final = -16_383
"""Limits of a number's digits before and after the decimal point."""
MOST_HALF: Final = 65_504.0
"""The largest absolute number in a vector."""
MOST_POSITIONS: Final = 255
"""Maximum number of positions of one word."""
DIGEST_BYTES: Final = 32
_LEXEME: Final = re.compile(r"'((?:[^'\\]|''|\\\\)*)'(?::([0-9,A-D]+))?")
_SPACES: Final = re.compile(r"[ \t\n\r]*")


# Writing.


def row_text(shape: TableShape, row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON, as row_to_json() writes it."""
    parts = (f'"{name}":{value_text(column, row[name])}' for name, column in shape.columns.items())
    return ("{" + ",".join(parts) + "}").replace("\n", " ")


def value_text(column: Column, value: Any) -> str:
    """Return a stored value as JSON text."""
    return "null" if value is None else _WRITTEN[column.type](value)


def quoted(text: str) -> str:
    """Return a text as JSON."""
    return json.dumps(text, ensure_ascii=False)


def jsonb_text(text: str) -> str:
    """Return JSON as jsonb writes it: keys by length and bytes, the last duplicate, exact numbers.

    Raises ValueError for values that jsonb refuses.
    """
    found = json.loads(text, parse_int=Decimal, parse_float=Decimal, parse_constant=_refused)
    return _jsonb(found)


def vector_text(text: str) -> str:
    """Return a vector in the server's text as a halfvec writes it."""
    halves = np.fromstring(text[1:-1], dtype="<f8", sep=",").astype("<f2").astype("<f4")
    return "[" + ",".join(real_text(number) for number in halves) + "]"


def real_text(number: float) -> str:
    """Return the shortest digits of a float of 4 bytes."""
    return _plain(np.format_float_scientific(np.float32(number), trim="-"), 6)


def double_text(number: float) -> str:
    """Return the shortest digits of a float of 8 bytes."""
    return _plain(np.format_float_scientific(np.float64(number), trim="-"), 15)


def _plain(scientific: str, most: int) -> str:
    """Return digits as PostgreSQL writes them: no exponent from -4 to below `most`."""
    digits, _, exponent = scientific.partition("e")
    power = int(exponent)
    if power < -4 or power >= most:
        return f"{digits}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return format(Decimal(f"{digits}e{power}"), "f")


def moment_text(moment: datetime) -> str:
    """Return a timestamp as ISO 8601 in UTC, without trailing zeros in its fraction."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "+00:00"


def terms_text(stored: str) -> str:
    """Return words as a tsvector writes them: sorted by bytes, with positions."""
    places: dict[str, list[str]] = {}
    room = MAX_TERM_BYTES
    for position, term in enumerate(stored[1:-1].split(" "), start=1):
        if not term:
            continue
        room -= len(term.encode()) if term not in places else 0
        if room < 0:
            break
        places.setdefault(term, []).append(str(position))
    return " ".join(
        "'" + term.replace("\\", "\\\\").replace("'", "''") + "':" + ",".join(some[:MOST_POSITIONS])
        for term, some in sorted(places.items(), key=lambda item: item[0].encode())
    )


def _jsonb(value: object) -> str:
    if isinstance(value, str):
        if not storable(value):
            raise ValueError("unsupported Unicode escape sequence: NUL or a lone surrogate")
        return quoted(value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, dict):
        keys = {key: key.encode("utf-8", "surrogatepass") for key in value}
        in_order = sorted(keys, key=lambda key: (len(keys[key]), keys[key]))
        return "{" + ", ".join(f"{_jsonb(key)}: {_jsonb(value[key])}" for key in in_order) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_jsonb, value)) + "]"
    return json.dumps(value)


def _number(number: Decimal) -> str:
    exponent = number.as_tuple().exponent
    if (
        not isinstance(exponent, int)
        or number.adjusted() >= MOST_DIGITS
        or exponent < FEWEST_DIGITS
    ):
        raise ValueError("value overflows numeric format")
    return format(number if number else number.copy_abs(), "f")


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number in JSON")


_WRITTEN: Final[Mapping[str, Callable[[Any], str]]] = {
    "text": quoted,
    "uuid": lambda value: f'"{value}"',
    "int": str,
    "bool": lambda value: "true" if value else "false",
    "real": real_text,
    "double": double_text,
    "moment": lambda value: f'"{moment_text(value)}"',
    "json": jsonb_text,
    "raw": str,
    "bytes": lambda value: f'"\\\\x{bytes(value).hex()}"',
    "texts": lambda value: "[" + ",".join(map(quoted, json.loads(value))) + "]",
    "terms": lambda value: quoted(terms_text(value)),
    "vector": lambda value: quoted(vector_text(value)),
}


# Reading.


def fields_of(line: str) -> dict[str, str]:
    """Return the values of an exported line, each as its own JSON text."""
    return dict(_members(dict(_members(line))["row"]))


def read_row(shape: TableShape, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return a row as it is stored, None for missing columns. Raises InvalidInput."""
    return {
        name: read_value(column, fields.get(name, "null")) for name, column in shape.columns.items()
    }


def read_value(column: Column, token: str) -> Any:
    """Return a value in JSON text as it is stored. Raises InvalidInput."""
    if token == "null":
        return None
    text = json.loads(token) if token.startswith('"') else token
    try:
        if not storable(text):
            raise ValueError("a NUL byte or a lone surrogate cannot be stored")
        return _READ[column.type](token if column.type in ("json", "raw", "texts") else text)
    except (ValueError, OverflowError, ArithmeticError) as error:
        raise InvalidInput(
            f"it does not fit its table: invalid input syntax for {column.name}, of type"
            f" {_TYPES[column.type]}: {text!r:.80}: {error}"
        ) from error


def _members(text: str) -> Iterable[tuple[str, str]]:
    """Yield the members of a JSON object: keys, and values as their text."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)
    place = _after_spaces(text, 0) + 1
    while text[place := _after_spaces(text, place)] != "}":
        key, place = decoder.raw_decode(text, place)
        start = _after_spaces(text, _after_spaces(text, place) + 1)
        _, end = decoder.raw_decode(text, start)
        yield key, text[start:end]
        place = _after_spaces(text, end)
        place += text[place] == ","


def _after_spaces(text: str, place: int) -> int:
    match = _SPACES.match(text, place)
    assert match is not None
    return match.end()


def _whole(text: str) -> int:
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise ValueError("it is out of range")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("it is out of range")
    return number


def _real(text: str) -> float:
    number = _finite(text)
    # Rounded to 4 bytes, as PostgreSQL would read it back.
    return float(real_text(number))


def _bool(text: str) -> int:
    if text not in ("true", "false", "t", "f"):
        raise ValueError("it is neither true nor false")
    return int(text.startswith("t"))


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("it does not begin with \\x")
    return bytes.fromhex(text[2:])


def _texts(token: str) -> str:
    found = json.loads(token)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("it is no list of texts")
    return to_json(found)


def _terms(text: str) -> str:
    """Return the words of a tsvector at their positions; unknown positions are empty."""
    places: dict[int, str] = {}
    rest = []
    end = 0
    for match in _LEXEME.finditer(text):
        if text[end : match.start()].strip():
            break
        end = match.end()
        word = match[1].replace("''", "'").replace("\\\\", "\\")
        if match[2]:
            places |= {int(place.rstrip("ABCD")): word for place in match[2].split(",")}
        else:
            rest.append(word)
    if text[end:].strip():
        raise ValueError("it is no tsvector")
    words = [places.get(place, "") for place in range(1, max(places, default=0) + 1)]
    return f" {' '.join([*words, *rest])} "


def _vector(text: str) -> str:
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError("it is no vector")
    numbers = [_finite(number) for number in text[1:-1].split(",")]
    if any(abs(number) > MOST_HALF for number in numbers):
        raise ValueError("a number of it is out of range")
    return text


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "text": str,
    "uuid": UUID,
    "int": _whole,
    "bool": _bool,
    "real": _real,
    "double": _finite,
    "moment": _moment,
    "json": jsonb_text,
    "raw": str,
    "bytes": _bytes,
    "texts": _texts,
    "terms": _terms,
    "vector": _vector,
}
_TYPES: Final[Mapping[str, str]] = {
    "text": "text", "uuid": "uuid", "int": "whole number", "bool": "boolean", "real": "number",
    "double": "number", "moment": "date/time", "json": "json", "raw": "json", "bytes": "bytea",
    "texts": "text[]", "terms": "tsvector", "vector": "vector",
}  # fmt: skip
