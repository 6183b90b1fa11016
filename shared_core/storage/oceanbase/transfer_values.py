"""Values of rows as PostgreSQL writes and reads them in JSON: exports of both engines are equal.

A row is here a mapping of column to value as it is stored: str, int, float, bool as 0 or 1, UUID,
datetime, bytes; JSON and arrays as text; words as text with a space before and after each. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import numpy as np

from shared_core.core.json_text import to_json
from shared_core.core.namespaces import storable
from shared_core.errors import InvalidInput
from shared_core.storage._rows import MAX_TERM_BYTES
from shared_core.storage.oceanbase.transfer_shapes import Column, Shape

MOST_DIGITS: Final = 131_072
FEWEST_DIGITS: Final = -16_383
"""Digits of a number before and after its point."""
MOST_HALF: Final = 65_504.0
"""The largest number that a vector holds."""
MOST_POSITIONS: Final = 255
"""Of one word."""
DIGEST_BYTES: Final = 32

_LEXEME: Final = re.compile(r"'((?:[^'\\]|''|\\\\)*)'(?::([0-9,A-D]+))?")
_SPACES: Final = re.compile(r"[ \t\n\r]*")


# What is written.


def row_text(shape: Shape, row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON, as row_to_json() has it."""
    parts = (f'"{name}":{value_text(column, row[name])}' for name, column in shape.columns.items())
    return ("{" + ",".join(parts) + "}").replace("\n", " ")


def value_text(column: Column, value: Any) -> str:
    """Return a stored value as JSON text."""
    return "null" if value is None else _WRITTEN[column.type](value)


def quoted(text: str) -> str:
    """Return a text as JSON."""
    return json.dumps(text, ensure_ascii=False)


def jsonb_text(text: str) -> str:
    """Return JSON as jsonb has it: keys by length and bytes, the last of two, exact numbers.

    Raises ValueError for what jsonb does not hold.
    """
    found = json.loads(text, parse_int=Decimal, parse_float=Decimal, parse_constant=_refused)
    parts: list[str] = []
    _write_jsonb(found, parts)
    return "".join(parts)


def vector_text(text: str) -> str:
    """Return a vector, as the server tells it, as a halfvec has it."""
    halves = np.fromstring(text[1:-1], dtype="<f8", sep=",").astype("<f2").astype("<f4")
    return "[" + ",".join(real_text(number) for number in halves) + "]"


def real_text(number: float) -> str:
    """Return the shortest digits that are the same number of 4 bytes."""
    return _plain(np.format_float_scientific(np.float32(number), trim="-"), 6)


def double_text(number: float) -> str:
    """Return the shortest digits that are the same number of 8 bytes."""
    return _plain(np.format_float_scientific(np.float64(number), trim="-"), 15)


def _plain(scientific: str, most: int) -> str:
    """Return digits as PostgreSQL has them: without an exponent from -4 to below most."""
    digits, _, exponent = scientific.partition("e")
    power = int(exponent)
    if power < -4 or power >= most:
        return f"{digits}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return format(Decimal(f"{digits}e{power}"), "f")


def moment_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 in UTC, its fraction without zeros at the end."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "+00:00"


def terms_text(stored: str) -> str:
    """Return words as a tsvector has them: sorted by their bytes, with their positions."""
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


def _write_jsonb(value: object, parts: list[str]) -> None:
    if isinstance(value, str):
        if not storable(value):
            raise ValueError("unsupported Unicode escape sequence: NUL or a lone surrogate")
        parts.append(quoted(value))
    elif isinstance(value, Decimal):
        parts.append(_number(value))
    elif isinstance(value, dict):
        parts.append("{")
        keys = sorted(
            value,
            key=lambda key: (
                len(key.encode("utf-8", "surrogatepass")),
                key.encode("utf-8", "surrogatepass"),
            ),
        )
        for place, key in enumerate(keys):
            parts.append(", " if place else "")
            _write_jsonb(key, parts)
            parts.append(": ")
            _write_jsonb(value[key], parts)
        parts.append("}")
    elif isinstance(value, list):
        parts.append("[")
        for place, inner in enumerate(value):
            parts.append(", " if place else "")
            _write_jsonb(inner, parts)
        parts.append("]")
    else:
        parts.append(json.dumps(value))


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


# What is read.


def fields_of(line: str) -> dict[str, str]:
    """Return the values of the row on a line of an export, each as its own JSON text."""
    return dict(_members(dict(_members(line))["row"]))


def read_row(shape: Shape, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return what a line says, as it is stored, None for what it does not name.

    Raises InvalidInput for what does not fit.
    """
    return {
        name: read_value(column, fields.get(name, "null")) for name, column in shape.columns.items()
    }


def read_value(column: Column, token: str) -> Any:
    """Return a value, given as JSON text, as it is stored. Raises InvalidInput."""
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
    """Return the members of an object as it is written: keys, and values as text."""
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
    # As a number of 4 bytes: what is read back is what PostgreSQL reads back.
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
    """Return words, each at its place; a place whose word is not known is empty."""
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
