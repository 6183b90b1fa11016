"""Rows of an export: the tables as PostgreSQL has them, and values as it writes them in JSON.

So exports of both engines are equal. A row maps columns to values as they are stored: str, int,
float, bool as 0 or 1, UUID, datetime, bytes; JSON and arrays as text; words as text with a space
before and after each. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal, cast, get_args
from uuid import UUID

import numpy as np

from shared_core.core.domain import MemoryKind
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import storable
from shared_core.errors import InvalidInput
from shared_core.ports.jobs import JobStatus, JobType
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
    """Columns that are unique among the rows that meet a condition.

    condition: in SQL. holds: the same for a stored row.
    """

    columns: tuple[str, ...]
    condition: str = "TRUE"
    holds: Callable[[Mapping[str, Any]], bool] = lambda row: True


def names(columns: Mapping[str, object] | tuple[str, ...]) -> str:
    """Return columns as a statement names them."""
    return ", ".join(f"`{name}`" for name in columns)


def _shape(key: str, columns: str) -> TableShape:
    """Return a shape. Columns are NAME:TYPE, "?" after it if nullable, "=DEFAULT" at the end."""
    found = {}
    for part in columns.split():
        head, _, default = part.partition("=")
        name, _, kind = head.partition(":")
        nullable = kind.endswith("?")
        found[name] = Column(name, cast("Type", kind.rstrip("?")), nullable, default or None)
    return TableShape(found, tuple(key.split()))


NOW: Final = "now()"
"""The default of a timestamp: when the row is written."""
SHAPES: Final[Mapping[str, TableShape]] = {
    "threads": _shape(
        "tenant_id thread_id",
        "tenant_id:text thread_id:text state:json={} version:int=1 last_seq:int=0"
        " consolidated_seq:int=0 created_at:moment updated_at:moment last_memory_seq:int=0"
        " session_started_at:moment? session_updated_at:moment? last_event_id:text?"
        " unread_bytes:int=0 summarised_seq:int=0",
    ),
    "conversations": _shape(
        "tenant_id thread_id",
        'tenant_id:text thread_id:text status:text="active" event_count:int=0 created_at:moment'
        " last_active_at:moment ends_at:moment ended_at:moment?",
    ),
    "events": _shape(
        "tenant_id thread_id seq",
        "tenant_id:text thread_id:text seq:int event_id:text author:text role:text text:text"
        " metadata:json={} occurred_at:moment recorded_at:moment memory_seq:int?"
        " importance:real=5 expires_at:moment? payload:raw?",
    ),
    "tombstones": _shape(
        "tenant_id thread_id event_id",
        "tenant_id:text thread_id:text event_id:text deleted_at:moment",
    ),
    "shared_state": _shape("tenant_id", "tenant_id:text state:json updated_at:moment"),
    "memories": _shape(
        "tenant_id memory_id",
        "tenant_id:text memory_id:uuid namespace:text key:text kind:text text:text value:json"
        " terms:terms term_count:int author:text? importance:real=5 thread_id:text? run_id:uuid?"
        " occurred_at:moment created_at:moment updated_at:moment expires_at:moment? ttl_s:double?"
        " superseded_at:moment? words_key:uuid? demoted_at:moment? role:text?",
    ),
    "memory_sources": _shape(
        "tenant_id memory_id basis thread_id event_id",
        "tenant_id:text memory_id:uuid thread_id:text event_id:text basis:int=0",
    ),
    "memory_bases": _shape(
        "tenant_id memory_id basis_id", "tenant_id:text memory_id:uuid basis_id:uuid"
    ),
    "memory_access": _shape(
        "tenant_id memory_id",
        "tenant_id:text memory_id:uuid access_count:int=0 last_accessed_at:moment?"
        " forget_at:moment? stage:int=0 staged_at:moment? pinned_at:moment? strength:double?",
    ),
    "memory_archive": _shape(
        "tenant_id memory_id",
        "tenant_id:text memory_id:uuid text:text value:json is_shown:bool words_key:uuid?"
        " archived_at:moment keeps_words:bool=false",
    ),
    "facts": _shape(
        "tenant_id memory_id",
        "tenant_id:text memory_id:uuid fact_type:text slot:text key:text value:json"
        " functional:bool confidence:real extractor:text pattern:text valid_from:moment"
        " valid_until:moment? recorded_at:moment superseded_at:moment?",
    ),
    "fact_closures": _shape(
        "tenant_id memory_id run_id",
        "tenant_id:text memory_id:uuid closed_at:moment restored_at:moment valid_until:moment"
        " run_id:uuid",
    ),
    "edges": _shape(
        "tenant_id edge_id",
        "tenant_id:text edge_id:uuid memory_id:uuid? subject:text relation:text object:text"
        " functional:bool=false confidence:real=1 valid_from:moment valid_until:moment?"
        ' recorded_at:moment superseded_at:moment? subject_key:text="" object_key:text=""'
        " run_id:uuid? fact_id:uuid?",
    ),
    "edge_sources": _shape(
        "tenant_id edge_id basis thread_id event_id",
        "tenant_id:text edge_id:uuid basis:int=0 thread_id:text event_id:text",
    ),
    "entity_aliases": _shape(
        "tenant_id alias_id",
        "tenant_id:text alias_id:uuid alias_key:text alias:text entity_key:text entity:text"
        " merged_at:moment unmerged_at:moment?",
    ),
    "instructions": _shape(
        "tenant_id instruction_key version",
        "tenant_id:text instruction_key:text version:int content:text metadata:json={}"
        " created_at:moment",
    ),
    "profiles": _shape(
        "tenant_id subject_kind subject_id version",
        "tenant_id:text subject_kind:text subject_id:text version:int content_hash:bytes"
        " run_id:uuid? created_at:moment memory_id:uuid entries:json=[] event_limit:int=50"
        f" began_at:moment={NOW} revision:int=0",
    ),
    "runs": _shape(
        "tenant_id run_id",
        "tenant_id:text run_id:uuid kind:text thread_id:text? extractor:text from_seq:int?"
        " to_seq:int? counts:json={} started_at:moment finished_at:moment undone_at:moment?"
        " summed_from_seq:int? summed_to_seq:int? number:int=0",
    ),
    "run_changes": _shape(
        "tenant_id run_id change target event_id",
        'tenant_id:text run_id:uuid change:text target:uuid event_id:text="" before:json={}',
    ),
    "retractions": _shape(
        "tenant_id retraction_id",
        "tenant_id:text retraction_id:uuid run_id:uuid fact_type:text slot:text subject_key:text"
        " value:text said_at:moment valid_until:moment? thread_id:text event_ids:texts",
    ),
    "pipeline_log": _shape(
        "tenant_id run_id step",
        "tenant_id:text run_id:uuid step:int stage:text output:json={} error:text?"
        ' started_at:moment duration_s:double status:text="success" input:json={}'
        " memory_id:uuid? thread_id:text?",
    ),
    "extraction_counts": _shape("tenant_id", "tenant_id:text extractions:int"),
    "erasures": _shape(
        "tenant_id erasure_id",
        "tenant_id:text erasure_id:uuid target:json counts:json receipt_hash:bytes"
        " requested_at:moment completed_at:moment",
    ),
    "import_marks": _shape(
        "tenant_id address_hash",
        "tenant_id:text address_hash:bytes updated_at:moment deleted_at:moment?",
    ),
    "retention_policies": _shape(
        "tenant_id kind",
        "tenant_id:text kind:text fades:bool decay_rate:double threshold:double"
        " min_age_days:double archive_threshold:double? archive_after_days:double"
        " erase_threshold:double? erase_after_days:double with_history:bool updated_at:moment",
    ),
    "embeddings": _shape(
        "tenant_id model memory_id field",
        "tenant_id:text model:text memory_id:uuid field:text embedding:vector",
    ),
    "consolidation_jobs": _shape(
        "tenant_id job_id",
        'tenant_id:text job_id:uuid thread_id:text? job_type:text status:text="pending"'
        " priority:int=0 attempts:int=0 run_after:moment worker_id:text? lease_until:moment?"
        " result:json={} error:text? created_at:moment started_at:moment? completed_at:moment?"
        " payload:json? performer:text?",
    ),
}
_CURRENT = "valid_until IS NULL AND superseded_at IS NULL"


def _is_current(row: Mapping[str, Any]) -> bool:
    return row["valid_until"] is None and row["superseded_at"] is None


UNIQUE: Final[Mapping[str, tuple[Unique, ...]]] = {
    "events": (Unique(("tenant_id", "thread_id", "event_id")),),
    "memories": (Unique(("tenant_id", "namespace", "key")),),
    "facts": (Unique(("tenant_id", "fact_type", "key"), _CURRENT, _is_current),),
    "edges": (
        Unique(("tenant_id", "subject_key", "relation", "object_key"), _CURRENT, _is_current),
        Unique(
            ("tenant_id", "subject_key", "relation"),
            f"functional = 1 AND {_CURRENT}",
            lambda row: bool(row["functional"]) and _is_current(row),
        ),
    ),
    "entity_aliases": (
        Unique(
            ("tenant_id", "alias_key"),
            "unmerged_at IS NULL",
            lambda row: row["unmerged_at"] is None,
        ),
    ),
    "profiles": (Unique(("tenant_id", "memory_id", "version")),),
    "conversations": (
        Unique(("tenant_id",), "status = 'active'", lambda row: row["status"] == "active"),
    ),
    "consolidation_jobs": (
        Unique(
            ("tenant_id", "thread_id", "job_type", "performer"),
            "status = 'pending'",
            lambda row: row["status"] == "pending",
        ),
        Unique(
            ("tenant_id", "thread_id"), "status = 'running'", lambda row: row["status"] == "running"
        ),
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
        {"closed", "retired", "sourced", "renewed", "rated", "summary", "edge", "bounded", "moved"}
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
"""Limits of a number's digits before and after the point."""
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
    said = json.loads(token) if token.startswith('"') else token
    try:
        if not storable(said):
            raise ValueError("a NUL byte or a lone surrogate cannot be stored")
        return _READ[column.type](token if column.type in ("json", "raw", "texts") else said)
    except (ValueError, OverflowError, ArithmeticError) as error:
        raise InvalidInput(
            f"it does not fit its table: invalid input syntax for {column.name}, of type"
            f" {_TYPES[column.type]}: {said!r:.80}: {error}"
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
