"""Values of columns as JSON text, as PostgreSQL writes and reads them, on every engine.

So exports of both engines are equal. Types are named as PostgreSQL names them. A value has the
Python type that operations give it (shared_core.ports.operations), with three exceptions: JSON is
JsonText, words are a list when read and the text of a tsvector when written, and a vector is an
array when read and its text when written. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from shared_core.core.json_text import JsonText
from shared_core.core.namespaces import storable
from shared_core.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float32]

MOST_DIGITS: Final = 131_072
FEWEST_DIGITS: Final = -16_383
"""Limits of a number's digits before and after the decimal point."""
MOST_HALF: Final = 65_504.0
"""The largest absolute number in a vector."""
LONGEST_VECTOR: Final = 16_000
"""Maximum numbers of a vector, in both engines."""
MOST_REAL: Final = 3.4028234663852886e38
"""The largest float of 4 bytes."""
MOST_POSITION: Final = 16_383
"""The largest position of a word in a tsvector; PostgreSQL counts later words there, too."""
MOST_INTEGER_DIGITS: Final = 4_300
"""Maximum number of digits that Python reads as an integer."""
_LEXEME: Final = re.compile(r"'((?:[^'\\]|''|\\\\)*+)'(?::([0-9,A-D]+))?")
_TSVECTOR: Final = re.compile(rf"\s*(?:{_LEXEME.pattern}\s*)*+")
_UNUSUAL: Final = re.compile(r"\\u|\d[eE]|-0")
"""Escapes to check, and numbers that jsonb spells otherwise; also in texts, which does no harm."""
_HEAD: Final = re.compile(r'\{"table": "\w+", "row": ')
_SPACES: Final = re.compile(r"[ \t\n\r]*")


# Writing.


def row_text(row: Iterable[tuple[str, str, Any]]) -> str:
    """Return a row, (name, type, value) of each column, as row_to_json() writes it, on one line."""
    parts = (f'"{name}":{value_text(kind, value)}' for name, kind, value in row)
    return ("{" + ",".join(parts) + "}").replace("\n", " ")


def value_text(kind: str, value: Any) -> str:
    """Return a value of a type as JSON text."""
    return "null" if value is None else _WRITTEN[kind](value)


def jsonb_text(text: str) -> str:
    """Return JSON as jsonb writes it: keys by length and bytes, the last duplicate, exact numbers.

    Raises ValueError for values that jsonb refuses.
    """
    found = json.loads(text, parse_int=Decimal, parse_float=Decimal, parse_constant=_refused)
    return _jsonb(found)


def vector_text(text: str) -> str:
    """Return a vector in the server's text as a halfvec writes it."""
    import numpy as np

    halves = np.fromstring(text[1:-1], dtype="<f8", sep=",").astype("<f2").astype("<f4")
    return "[" + ",".join(map(_single_text, halves)) + "]"


def real_text(number: float) -> str:
    """Return the shortest digits of a float of 4 bytes."""
    if number.is_integer() and 0 < abs(number) < 1e6:
        return str(int(number))
    import numpy as np

    return _single_text(np.float32(number))


def _single_text(number: Any) -> str:
    from numpy import format_float_scientific

    return _plain(format_float_scientific(number, trim="-"), 6)


def double_text(number: float) -> str:
    """Return the shortest digits of a float of 8 bytes."""
    import numpy as np

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
    "smallint": str,
    "integer": str,
    "bigint": str,
    "boolean": lambda value: "true" if value else "false",
    "real": real_text,
    "double precision": double_text,
    "timestamptz": lambda value: f'"{moment_text(value)}"',
    "jsonb": jsonb_text,
    "json": str,
    "bytea": lambda value: f'"\\\\x{bytes(value).hex()}"',
    "text[]": lambda value: "[" + ",".join(map(quoted, value)) + "]",
    "tsvector": quoted,
    "halfvec": lambda value: quoted(vector_text(value)),
}


# Reading.

_ENDS: Final = json.JSONDecoder(parse_int=str, parse_float=str)
"""Finds where a value ends; numbers of any length stay texts."""


def fields_of(line: str) -> dict[str, str]:
    """Return the values of an exported line, each as its own JSON text."""
    head = _HEAD.match(line)
    if head:
        fields, end = _members(line, head.end())
        if (
            line[end:].strip() == "}"
        ):  # else a second "row" may follow, which is the one that counts
            return fields
    fields, _ = _members(line, 0)
    return _members(fields["row"], 0)[0]


def read_value(name: str, kind: str, token: str) -> Any:
    """Return a value of a column in JSON text. Raises InvalidInput."""
    if token == "null":
        return None
    text = _unquoted(token) if token.startswith('"') else token
    try:
        if not storable(text):
            raise ValueError("a NUL byte or a lone surrogate cannot be stored")
        return _READ[kind](token if kind in ("jsonb", "json", "text[]") else text)
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise InvalidInput(
            f"it does not fit its table: invalid input syntax for {name}, of type"
            f" {_CALLED.get(kind, kind)}: {text!r:.80}: {error}"
        ) from error


def _members(text: str, place: int) -> tuple[dict[str, str], int]:
    """Return the members of the JSON object at a place, values as their text, and where it ends."""
    found: dict[str, str] = {}
    place = _after_spaces(text, place) + 1
    while text[place := _after_spaces(text, place)] != "}":
        key, place = _ENDS.raw_decode(text, place)
        start = _after_spaces(text, _after_spaces(text, place) + 1)
        _, end = _ENDS.raw_decode(text, start)
        found[key] = text[start:end]
        place = _after_spaces(text, end)
        place += text[place] == ","
    return found, place + 1


def _unquoted(token: str) -> str:
    """Return the text of a JSON string; most have no escapes."""
    text: str = json.loads(token) if "\\" in token else token[1:-1]
    return text


def _after_spaces(text: str, place: int) -> int:
    if text[place : place + 1] > " ":
        return place
    match = _SPACES.match(text, place)
    assert match is not None
    return match.end()


def _whole(text: str, bits: int) -> int:
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError("it is out of range")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("it is out of range")
    return number


def _real(text: str) -> float:
    number = _finite(text)
    if abs(number) > MOST_REAL:
        raise ValueError("it is out of range")
    # Rounded to 4 bytes, as PostgreSQL would read it back.
    return float(real_text(number))


def _bool(text: str) -> bool:
    if text not in ("true", "false", "t", "f"):
        raise ValueError("it is neither true nor false")
    return text.startswith("t")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("it does not begin with \\x")
    return bytes.fromhex(text[2:])


def _texts(token: str) -> list[str]:
    found = json.loads(token)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError("it is no list of texts")
    if not all(map(storable, found)):
        raise ValueError("a NUL byte or a lone surrogate cannot be stored")
    return found


def _terms(text: str) -> list[str]:
    """Return the words of a tsvector at their positions; unknown positions are empty."""
    if not _TSVECTOR.fullmatch(text):
        raise ValueError("it is no tsvector")
    places: dict[int, str] = {}
    rest = []
    for word, positions in _LEXEME.findall(text):
        if "'" in word or "\\" in word:
            word = word.replace("''", "'").replace("\\\\", "\\")
        for position in positions.split(",") if positions else ():
            places[min(int(position.rstrip("ABCD")), MOST_POSITION)] = word
        if not positions:
            rest.append(word)
    words = [places.get(place, "") for place in range(1, max(places, default=0) + 1)]
    return [*words, *rest]


def _document(token: str) -> JsonText:
    if len(token) < MOST_DIGITS and not _UNUSUAL.search(token):
        return _json(token)
    return _json(jsonb_text(token))


def _json(token: str) -> JsonText:
    if len(token) > MOST_INTEGER_DIGITS:
        json.loads(token)  # raises ValueError for an integer that could be stored, but not read
    return JsonText(token)


def _vector(text: str) -> Matrix:
    import numpy as np

    if not text.startswith("["):
        raise ValueError("it is no vector")
    with np.errstate(over="ignore"):
        numbers = np.asarray(json.loads(text), dtype=np.float32)
    if numbers.ndim != 1 or not (np.abs(numbers) <= MOST_HALF).all():
        raise ValueError("it is no vector, or a number of it is out of range")
    if len(numbers) > LONGEST_VECTOR:
        raise ValueError(f"it has {len(numbers):,} numbers, more than the {LONGEST_VECTOR:,} of any"
                         " stored vector")  # fmt: skip
    return numbers


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "text": str,
    "uuid": UUID,
    "smallint": partial(_whole, bits=16),
    "integer": partial(_whole, bits=32),
    "bigint": partial(_whole, bits=64),
    "boolean": _bool,
    "real": _real,
    "double precision": _finite,
    "timestamptz": _moment,
    "jsonb": _document,
    "json": _json,
    "bytea": _bytes,
    "text[]": _texts,
    "tsvector": _terms,
    "halfvec": _vector,
}
_CALLED: Final = {"timestamptz": "date/time", "real": "number", "double precision": "number"}
"""Types whose names say little to a reader."""
