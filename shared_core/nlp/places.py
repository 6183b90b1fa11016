"""Whether two places are one, by their names. Pure."""

from __future__ import annotations

import re
from typing import Final

from shared_core.nlp.text import HAN_CHARACTER

_PART: Final = re.compile(r"^(?:(?:the|central|downtown|greater|inner) )+| city$")


def same_place(one: str, other: str) -> bool:
    """Tell whether two normalised values name one city.

    北京 and 北京市, "london" and "camden, london", but not "york" and "new york".
    """
    if HAN_CHARACTER.search(one) or HAN_CHARACTER.search(other):
        return bool(one and other) and (one in other or other in one)
    names, others = _names(one), _names(other)
    return bool(names and others) and (names <= others or others <= names)


def _names(place: str) -> set[str]:
    parts = (_PART.sub("", part.strip()) for part in place.split(","))
    return {part for part in parts if part}
