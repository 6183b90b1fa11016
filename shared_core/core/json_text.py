"""Writes JSON that every storage engine accepts, and finds what is no JSON in a value. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from shared_core.core.namespaces import clean_text, storable
from shared_core.errors import InvalidInput

_STRING_OR_LARGE = re.compile(
    r'"(?:[^"\\]|\\.)*+"|(?<![0-9.])(-?)([0-9]++)(?:\.([0-9]++))?e\+([0-9]+)'
)
"""A string, or a number from 1e16 on as Python writes it: sign, digits, fraction and exponent."""

_Step = tuple[str, object]


def fault_path(value: object) -> str | None:
    """Return the path of the first part that JSON cannot express, e.g. 'value["a"][2]', or None.

    Such a part is of no JSON type, is NaN or infinite, has an invalid key, or contains itself.
    """
    above: list[tuple[str, object, Iterator[_Step]]] = []
    step: _Step | None = ("value", value)
    while step is not None:
        label, part = step
        if _is_fault(part) or any(part is holder for _, holder, _ in above):
            return "".join(name for name, _, _ in above) + label
        if isinstance(part, dict | list | tuple):
            above.append((label, part, _parts(part)))
        step = None
        while above and (step := next(above[-1][2], None)) is None:
            above.pop()
    return None


def _parts(holder: dict[object, object] | list[object] | tuple[object, ...]) -> Iterator[_Step]:
    if isinstance(holder, dict):
        for key, inner in holder.items():
            name = json.dumps(key, ensure_ascii=False) if isinstance(key, str) else repr(key)
            yield f"[{name}]", inner
    else:
        for place, inner in enumerate(holder):
            yield f"[{place}]", inner


def _is_fault(part: object) -> bool:
    if isinstance(part, float):
        return not math.isfinite(part)
    if isinstance(part, dict):
        return any(not isinstance(key, str | int | float | None) for key in part)
    return not isinstance(part, str | int | list | tuple | None)


MAX_DEPTH = 500
"""Maximum nesting; the limit of deeper values depends on the version of Python."""


class JsonText(str):
    """A JSON value as its text, which to_json() returns as it is, long numbers included."""

    __slots__ = ()


def to_json(value: object, what: str = "value") -> str:
    """Return JSON text; NUL and lone surrogates in texts and keys become U+FFFD.

    Raises InvalidInput, naming the place within what, for NaN, infinities, cycles, keys that are no
    texts, and values of no JSON type.
    """
    if isinstance(value, JsonText):
        return str(value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except RecursionError as error:
        raise InvalidInput(_too_deep(what)) from error
    except (TypeError, ValueError) as error:
        place = fault_path(value)
        raise InvalidInput(
            f"{what} cannot be stored as JSON{f' at {place}' if place else ''}: {error}; keep to"
            " str, int, float, bool, None, list and dict, and write dates as ISO 8601 text"
        ) from error
    if _checked_holders(value, what) > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise InvalidInput(_too_deep(what))
    if "\\u0000" in text or not storable(text):
        text = json.dumps(cleaned(value), ensure_ascii=False, allow_nan=False)
    # One character is found in a twentieth of the time of two.
    return _STRING_OR_LARGE.sub(_written_out, text) if "+" in text and "e+" in text else text


def _written_out(found: re.Match[str]) -> str:
    """Return a large float without exponent and with a fraction.

    PostgreSQL writes 1e+16 as 10000000000000000, which would be read as an int.
    """
    if found[4] is None:
        return found[0]
    sign, whole, fraction, exponent = found[1], found[2], found[3] or "", int(found[4])
    return f"{sign}{whole}{fraction.ljust(exponent, '0')}.0"


def check_json(value: object, what: str) -> None:
    """Raise InvalidInput, naming what, if to_json() would."""
    to_json(value, what)


def _too_deep(what: str) -> str:
    return f"{what} cannot be stored as JSON: nested over {MAX_DEPTH} levels deep"


def _checked_holders(value: object, what: str) -> int:
    """Return the number of objects and lists in a value.

    Raises InvalidInput for keys that are no texts: json would merge 1 and "1".
    """
    holders, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        holders += isinstance(part, dict | list | tuple)
        if isinstance(part, dict):
            for key in part:
                if not isinstance(key, str):
                    raise InvalidInput(
                        f"{what} cannot be stored as JSON: the key {key!r} is a"
                        f" {type(key).__name__}; write keys as texts"
                    )
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
    return holders


def _depth(value: object) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        part, level = waiting.pop()
        deepest = max(deepest, level)
        if isinstance(part, Mapping):
            waiting += [(inner, level + 1) for inner in part.values()]
        elif isinstance(part, list | tuple):
            waiting += [(inner, level + 1) for inner in part]
    return deepest


def cleaned(value: object) -> object:
    """Return a value with U+FFFD for every NUL and lone surrogate in its texts and keys."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(inner) for inner in value]
    return value
