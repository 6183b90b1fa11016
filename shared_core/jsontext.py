"""JSON as every storage engine accepts it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from shared_core.errors import InvalidInput
from shared_core.namespaces import clean_text


def to_json(value: object, what: str = "value") -> str:
    """Return JSON text; NUL and lone surrogates in texts and keys become U+FFFD.

    Raises InvalidInput, naming what, for NaN, infinities, cycles, and anything JSON has no word
    for.
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


def check_json(value: object, what: str) -> None:
    """Raise InvalidInput, naming what, for a value that to_json would refuse."""
    to_json(value, what)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {_cleaned(key): _cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(inner) for inner in value]
    return value
