"""Read the JSON in a language model's answer, even with prose around it or truncated. Pure.

Models add fences and prose, extra commas and NaN, answer twice, or stop when their tokens are used
up. Only certain content is read: of a truncated answer every complete element. The library
json-repair is no replacement: it completes truncated values, hides the truncation, and takes
quadratic time on hostile answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from shared_core.core.domain import JsonValue

Item = TypeVar("Item", bound=BaseModel)

MAX_CHARACTERS: Final = 400_000
"""Longer answers are cut here and count as truncated."""
MAX_DEPTH: Final = 40
MAX_OBJECTS: Final = 50
"""Maximum number of objects searched for the requested one."""
MAX_REREAD_CHARACTERS: Final = 2_000
"""Maximum length of a broken-off object that is searched for inner objects."""

THINKING: Final = re.compile(r"\s*<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.I)
BLANK: Final = re.compile(r"[\s\ufeff]*")
WORD: Final = re.compile(r"[^\s,:\[\]{}\"']+")
STRING: Final = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"' + r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'", re.DOTALL
)
WORDS: Final[Mapping[str, JsonValue]] = {
    "true": True,
    "false": False,
    "null": None,
    "none": None,
    "nan": None,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
    "inf": math.inf,
    "-inf": -math.inf,
}
PERCENT: Final = re.compile(r"\s*([-+]?\d+(?:[.,]\d+)?)\s*(%)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedJson:
    """A JSON object. truncated: it, or something in it, was cut off."""

    value: Mapping[str, JsonValue]
    truncated: bool = False


class Unreadable(ValueError):
    """The answer has no object of the requested kind; the message says what it has."""


def read_object(text: str, keys: Collection[str]) -> ParsedJson:
    """Return the object with most of the keys; on a tie the first.

    A bare list of objects counts as the value of the first key. Raises Unreadable.
    """
    best: ParsedJson | None = None
    most = 0
    thought = THINKING.match(text[:MAX_CHARACTERS])
    answer = text[thought.end() if thought else 0 : MAX_CHARACTERS]
    for found in _values(answer):
        value = found.value
        known = sum(1 for key in keys if value.get(key) not in (None, [], ""))
        known = 2 * known + sum(key in value for key in keys)
        if known > most:
            best, most = found, known
    if best is None:
        bare = _bare_list(answer)
        if bare is None:
            raise Unreadable(_kind(answer, keys))
        best = ParsedJson(value={next(iter(keys)): bare[0]}, truncated=bare[1])
    if len(text) > MAX_CHARACTERS:
        return ParsedJson(value=best.value, truncated=True)
    return best


def read_items(value: object, model: type[Item], limit: int) -> tuple[list[Item], list[str]]:
    """Return the elements of a list that fit the model, and the errors of the others.

    An optional field that is null counts as absent: in OpenAI's strict mode no field may be.
    """
    given = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    items: list[Item] = []
    wrong = [] if isinstance(value, list | dict) or not value else ["no list"]
    optional = {name for name, field in model.model_fields.items() if not field.is_required()}
    for place, element in enumerate(given[:limit]):
        try:
            if isinstance(element, dict):
                element = {
                    name: one
                    for name, one in element.items()
                    if one is not None or name not in optional
                }
            items.append(model.model_validate(element))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            wrong.append(f"element {place}: {where} {first['msg']}".strip())
    return items, wrong


def clamped(value: object, low: float, high: float, default: float) -> float:
    """Return a number between low and high from any spelling: 0.9, "0.9", "90%", NaN."""
    if isinstance(value, str) and (found := PERCENT.match(value)):
        value = float(found[1].replace(",", ".")) / (100 if found[2] else 1)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    return default if math.isnan(number) else min(max(number, low), high)


def _values(text: str) -> Iterator[ParsedJson]:
    """Yield the top-level objects of a text, and the objects directly inside them."""
    place = seen = 0
    while seen < MAX_OBJECTS and (start := text.find("{", place)) >= 0:
        seen += 1
        parser = _Parser(text, start)
        value = parser.read()
        place = parser.place
        if parser.cut and place - start < MAX_REREAD_CHARACTERS:
            place = start + 1
        if isinstance(value, dict) and value:
            yield ParsedJson(value=value, truncated=parser.cut)
            yield from (
                ParsedJson(value=inner, truncated=parser.cut)
                for inner in value.values()
                if isinstance(inner, dict)
            )


def _bare_list(text: str) -> tuple[list[JsonValue], bool] | None:
    start = text.find("[")
    if start < 0:
        return None
    parser = _Parser(text, start)
    value = parser.read()
    if isinstance(value, list) and any(isinstance(element, dict) for element in value):
        return value, parser.cut
    return None


def _kind(text: str, keys: Collection[str]) -> str:
    named = ", ".join(keys)
    if "{" not in text:
        return f"no JSON object; asked for one with {named}"
    return f"no JSON object with any of {named}"


class _Cut(Exception):
    """The text ends, or is malformed, inside the current value."""


class _Parser:
    """A recursive-descent parser that keeps the complete elements of a truncated value."""

    def __init__(self, text: str, place: int) -> None:
        self.text = text
        self.place = place
        self.cut = False

    def read(self) -> JsonValue:
        """Return the value at `place`, as far as it is complete."""
        try:
            return self._value(0)
        except _Cut:
            self.cut = True
            return None

    def _value(self, depth: int) -> JsonValue:
        if depth > MAX_DEPTH:
            raise _Cut
        character = self._next()
        if character == "{":
            return self._object(depth)
        if character == "[":
            return self._array(depth)
        if character in "\"'":
            return self._string()
        return self._word()

    def _object(self, depth: int) -> dict[str, JsonValue]:
        self.place += 1
        found: dict[str, JsonValue] = {}
        try:
            while (character := self._next()) != "}":
                if character == ",":
                    self.place += 1
                    continue
                key = self._string() if character in "\"'" else str(self._word())
                if self._next() != ":":
                    raise _Cut
                self.place += 1
                found[key] = self._value(depth + 1)
                if self.cut:
                    return found
            self.place += 1
        except _Cut:
            if depth > 0:  # drop an incomplete element
                raise
            self.cut = True
        return found

    def _array(self, depth: int) -> list[JsonValue]:
        self.place += 1
        found: list[JsonValue] = []
        try:
            while (character := self._next()) != "]":
                if character == ",":
                    self.place += 1
                    continue
                if character == "}":  # a missing closing bracket
                    return found
                found.append(self._value(depth + 1))
                if self.cut:
                    return found
            self.place += 1
        except _Cut:
            if depth > 1:
                raise
            self.cut = True
        return found

    def _string(self) -> str:
        match = STRING.match(self.text, self.place)
        if match is None:
            self.place = len(self.text)
            raise _Cut
        self.place = match.end()
        try:
            return str(json.loads(match[0], strict=False))
        except ValueError:
            return match[0][1:-1].replace('\\"', '"')

    def _word(self) -> JsonValue:
        match = WORD.match(self.text, self.place)
        if match is None:
            raise _Cut
        word = match[0]
        self.place = match.end()
        if word.lower() in WORDS:
            return WORDS[word.lower()]
        if self.place == len(self.text):  # "12" may be a truncated 125
            raise _Cut
        try:
            return float(word) if not word.lstrip("+-").isdigit() else int(word[:400])
        except ValueError:
            return word

    def _next(self) -> str:
        """Skip blanks and return the next character without consuming it."""
        self.place = BLANK.match(self.text, self.place).end()  # type: ignore[union-attr] # matches ""
        if self.place >= len(self.text):
            raise _Cut
        return self.text[self.place]
