"""The shapes of a language model's answers, and their JSON Schemas. Pure.

Extra keys are ignored, numbers are clamped, and turn numbers are read in any spelling. Only an
element that cannot be repaired is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from shared_core.core.domain import InsightCategory, JsonValue
from shared_core.core.namespaces import clean_text
from shared_core.models.json_repair import clamped

MAX_VALUE_CHARACTERS: Final = 160
MAX_TEXT_CHARACTERS: Final = 600
MAX_TURNS: Final = 50
IMPORTANCE: Final = 5.0
CONFIDENCE: Final = 0.9
"""Confidence of what a model answers."""
OWNERS: Final = frozenset(
    ("user_id", "userid", "owner", "owner_id", "app", "app_name", "scope", "namespace", "tenant")
)
"""Keys a model may not use: the owner of a memory comes from its thread, never from an answer."""
Operation = Literal["add", "update", "end", "deny", "doubt", "keep", "forget", "event"]
OPERATIONS: Final[Mapping[Operation, Sequence[object]]] = {
    "add": ("add", "assert", "new", "", None),
    "update": ("update", "replace", "change", "correct"),
    "end": ("end", "retract", "remove", "delete"),
    "deny": ("deny", "not"),
    "doubt": ("doubt",),
    "keep": ("keep", "confirm"),
    "forget": ("forget", "erase"),
    "event": ("event", "statement"),
}
"""The operations of an answer, each with the words that models write for it."""
FACT_ID: Final = re.compile(r"\[?f?(\d{1,6})\]?", re.IGNORECASE)
SCHEMA_WORDS: Final = ("type", "properties", "required", "items", "enum", "description")


def _one_line(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return " ".join(clean_text(value).split()) if isinstance(value, str) else value


def numbers_of(value: object) -> list[int]:
    """Return the numbers in a list of a model's answer, in any spelling; each once."""
    given = value if isinstance(value, list) else [value]
    found: list[int] = []
    for one in given[:MAX_TURNS]:
        if isinstance(one, str) and (match := re.search(r"\d{1,9}", one)):
            found.append(int(match[0]))
        elif isinstance(one, int | float) and not isinstance(one, bool) and 0 < one < 1e9:
            found.append(int(one))
    return list(dict.fromkeys(found))


def _range(low: float, high: float, default: float) -> BeforeValidator:
    return BeforeValidator(lambda value: clamped(value, low, high, default))


def _one_of(words: Sequence[str], default: str) -> BeforeValidator:
    def chosen(value: object) -> str:
        word = value.strip().lower() if isinstance(value, str) else ""
        return word if word in words else default

    return BeforeValidator(chosen)


def _operation(value: object) -> object:
    """Return the operation that a word means; an unknown word stays, and is refused."""
    word = value.strip().lower() if isinstance(value, str) else value
    return next((name for name, words in OPERATIONS.items() if word in words), word)


def _fact_id(value: object) -> object:
    """Return "f3" for "f3", "[F3]" or 3, and "" for nothing."""
    text = str(_one_line(value) or "")
    match = FACT_ID.fullmatch(text)
    return f"f{int(match[1])}" if match else text


def _row_ids(value: object) -> list[str]:
    """Return the ids in a list, or in a text with commas: "f3" for "[F3]" or 3."""
    given = value if isinstance(value, list) else str(value or "").split(",")
    return [*dict.fromkeys(filter(None, (_row_id(one) for one in given[:MAX_TURNS])))]


def _row_id(value: object) -> str:
    text = str(_one_line(value) or "").strip("[] ").lower()
    return f"f{text}" if text.isdigit() else text


def _truth(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() in ("true", "yes"))


Turns = Annotated[list[int], BeforeValidator(numbers_of), Field(min_length=1)]
Value = Annotated[str, BeforeValidator(_one_line), Field(max_length=MAX_VALUE_CHARACTERS)]
Text = Annotated[
    str, BeforeValidator(_one_line), Field(min_length=1, max_length=MAX_TEXT_CHARACTERS)
]
OptionalText = Annotated[str, BeforeValidator(_one_line), Field(max_length=MAX_TEXT_CHARACTERS)]
Importance = Annotated[float, _range(1.0, 10.0, IMPORTANCE)]
Share = Annotated[float, _range(0.0, 1.0, CONFIDENCE)]
Category = Annotated[InsightCategory, _one_of(("insight", "pattern", "summary"), "insight")]


class Element(BaseModel):
    """One element of a list in a model's answer."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    @model_validator(mode="before")
    @classmethod
    def names_no_owner(cls, given: Any) -> Any:
        """Refuse an element that names an owner."""
        if isinstance(given, Mapping):
            named = OWNERS.intersection(str(key).lower() for key in given)
            if named:
                raise ValueError(f"has {min(named)!r}, which is not for a model to say")
        return given


class FactOperation(Element):
    """What turns do to a fact, or an event; the prompt "extract" explains each field.

    id: a shown fact, or "". A new fact needs a slot and a statement, an event a statement, any
    other operation an id or a slot. A request to forget needs a topic (value), an id or turns (of).
    """

    op: Annotated[Operation, BeforeValidator(_operation)] = "add"
    id: Annotated[str, BeforeValidator(_fact_id)] = ""
    turns: Turns
    subject: Value = "user"
    slot: Value = ""
    value: Value = ""
    statement: OptionalText = ""
    where: Value = ""
    single: Annotated[bool, BeforeValidator(_truth)] = False
    since: Value = ""
    until: Value = ""
    of: Annotated[list[int], BeforeValidator(numbers_of)] = []

    @model_validator(mode="after")
    def names_a_fact(self) -> Self:
        """Refuse an operation that says of no fact what it does to it."""
        if self.op == "add" and not (self.slot and self.statement):
            raise ValueError("adds a fact without a slot or a statement")
        if self.op == "event":
            if not self.statement:
                raise ValueError("tells an event without a statement")
        elif not (self.id or self.slot or (self.op == "forget" and (self.value or self.of))):
            raise ValueError("names no fact")
        return self


class ReflectionItem(Element):
    """A conclusion from memories."""

    memories: Turns
    category: Category = "insight"
    text: Text
    importance: Importance = IMPORTANCE


class ReviewItem(Element):
    """What became of a held fact, as others show; the prompt "reflect" explains each field."""

    op: Annotated[Literal["end", "update"], BeforeValidator(_operation)] = "end"
    id: Annotated[str, BeforeValidator(_row_id)]
    because: Annotated[list[str], BeforeValidator(_row_ids)] = []
    until: Value = ""
    value: Value = ""
    statement: OptionalText = ""


EXTRACTION: Final[Mapping[str, type[Element]]] = {"facts": FactOperation}
REFLECTION: Final[Mapping[str, type[Element]]] = {"facts": ReviewItem, "insights": ReflectionItem}


CHOICE_SCHEMA: Final[Mapping[str, JsonValue]] = {
    "title": "Choice",
    "type": "object",
    "properties": {"memories": {"type": "array", "items": {"type": "integer"}}},
    "required": ["memories"],
}


def lists_schema(
    title: str, lists: Mapping[str, type[Element]], texts: Sequence[str] = ()
) -> Mapping[str, JsonValue]:
    """Return the JSON Schema of an object with these lists, and texts beside them.

    Only what every element needs is required: the first list, the texts, and the fields without a
    default. It has types, names and choices only: limits break some providers and few others
    enforce them.
    """
    properties: dict[str, JsonValue] = {
        name: {"type": "array", "items": _plain(model.model_json_schema())}
        for name, model in lists.items()
    }
    properties |= {name: {"type": "string"} for name in texts}
    required: list[JsonValue] = [*list(lists)[:1], *texts]
    return {"title": title, "type": "object", "properties": properties, "required": required}


def _plain(schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    kept: dict[str, JsonValue] = {name: schema[name] for name in SCHEMA_WORDS if name in schema}
    kept.pop("description", None)
    if "properties" in schema:
        properties: Mapping[str, Any] = schema["properties"]
        kept["properties"] = {name: _plain(inner) for name, inner in properties.items()}
    if isinstance(schema.get("items"), Mapping):
        kept["items"] = _plain(schema["items"])
    return kept
