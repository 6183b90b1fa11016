"""Tells whether the value of a slot is a whole name or a whole number. Pure.

The grammars are rules/names.toml and rules/numbers.toml. Rules and the trained reader ask here, so
that none keeps a part of a name or of a number.
"""

from __future__ import annotations

import re
from typing import Final

from shared_core.nlp.numerals import amount
from shared_core.nlp.rules import load_fragment
from shared_core.nlp.slots import is_name_slot
from shared_core.nlp.text import Language

NUMBERED: Final = frozenset(
    ["age", "weight", "height", "size", "rent", "salary", "parent_of", "pet_kind"]
)
"""Slots whose values are numbers, or begin with one."""
OLDEST: Final = 120
BEFORE: Final = 40
"""Maximum characters before a value that show whether it was cut."""
SENTENCE: Final = re.compile(r"[^.!?\s]\s*$")
"""A text after which no sentence begins."""
NO_YEARS: Final = re.compile(r"\d|\b(?:months?|weeks?|days?)\b|^个?[月周星天]", re.IGNORECASE)
"""What stands after the number of an age that is a range, or counts no years."""
CLAUSE_MARK: Final = re.compile(r"[,，;；。！？]|[.!?](?=\s|$)")


def is_whole(slot: str, text: str, start: int, end: int, lang: Language) -> bool:
    """Tell whether the value of a slot is no part of a longer name or number.

    A number must be understood, and an age reached: "almost five" and 还有两个月就五岁 are not.
    """
    if slot in ("name", "surname") or is_name_slot(slot):
        return not _is_part("name", text, start, end, lang)
    name = slot.rpartition(".")[2]
    if name not in NUMBERED:
        return True
    number = load_fragment("number", lang).search(text, start, end)
    if number is None:
        return True
    ends_in_unit = number.end() < end
    if _is_part("unit" if ends_in_unit else "number", text, start, end, lang):
        return False
    value = amount(number[0], lang)
    if value is None:
        return False
    return name != "age" or (
        0 < value <= OLDEST
        and not NO_YEARS.search(text[number.end() : end])
        and not _is_coming(text, start, end, lang)
    )


def whole_span(kind: str, text: str, start: int, end: int, lang: Language) -> tuple[int, int]:
    """Return where the whole around a part of a name or number begins and ends.

    kind: "whole_name", "whole_age" or "number". An English name also grows to the front, except
    over the first word of a sentence; a Chinese one does not.
    """
    for found in load_fragment(kind, lang).finditer(text, max(start - BEFORE, 0)):
        if found.start() >= end:
            break
        if found.end() > start:
            grows = kind != "whole_name" or (
                lang == "en" and SENTENCE.search(text[: found.start()])
            )
            start = min(start, found.start()) if grows else start
            end = max(end, found.end())
    return start, end


def whole_count(text: str, start: int, end: int, lang: Language) -> int | None:
    """Return how many the number around a place is; None for a fraction, and for a part."""
    start, end = whole_span("number", text, start, end, lang)
    value = amount(text[start:end], lang)
    if value is None or value.denominator > 1 or _is_part("number", text, start, end, lang):
        return None
    return int(value)


def _is_part(kind: str, text: str, start: int, end: int, lang: Language) -> bool:
    """Tell whether a name, a number or its unit goes on before or after a place in a text."""
    goes_on = load_fragment(f"{kind}_goes_on", lang)
    begins = load_fragment("name_begins" if kind == "name" else "number_begins", lang)
    return bool(goes_on.match(text, end) or begins.search(text[max(start - BEFORE, 0) : start]))


def _is_coming(text: str, start: int, end: int, lang: Language) -> bool:
    """Tell whether words in the clause around an age say that it is not reached."""
    coming = load_fragment("coming", lang)
    begin = max((one.end() for one in CLAUSE_MARK.finditer(text, 0, start)), default=0)
    stop = CLAUSE_MARK.search(text, end)
    return bool(coming.search(text[begin : stop.start() if stop else len(text)]))
