"""What a put writes: its row, and the texts to embed for it, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from shared_core.core.domain import JsonValue, MemoryId
from shared_core.core.ids import uuid7
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import check_label, clean_text, instructions_scope, shows_profile
from shared_core.errors import InvalidInput
from shared_core.ingest.events import TEXT_FIELD
from shared_core.nlp.text import has_words, search_terms
from shared_core.ports.item_operations import WriteItem
from shared_core.ports.items import ItemAddress, MemoryRow

MAX_TTL_S = 100 * 366 * 86_400.0
"""The longest time to live, 100 years; who wants more means for ever, and leaves it out."""

CONTENT_FIELDS = ("content", "text", "memory")
"""Where a value says in words what it is about; the first that holds text is the memory's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A row to write and the texts to embed for it, by field. size: characters of its value.

    The row does not say when it expires: its time to live begins when it is written.
    """

    address: ItemAddress
    row: MemoryRow
    texts: Mapping[str, str]
    size: int

    def written_at(self, now: datetime) -> MemoryRow:
        """Return the row as it is written at a moment."""
        if self.row.ttl_s is None:
            return self.row
        return replace(self.row, expires_at=now + timedelta(seconds=self.row.ttl_s))


Drafts: TypeAlias = "dict[int, Draft | None]"
"""What the writes of a batch write, by place; None deletes."""


def draft(op: WriteItem, now: datetime) -> Draft:
    """Return what a write with a value writes. Raises InvalidInput, naming the key."""
    namespace, key = op.address
    check_label(key, f"the key of an item in {namespace}")
    if shows_profile(namespace):
        raise InvalidInput(
            f"{namespace} shows a profile, and {key!r} cannot be put there: update it with"
            " engine.profiles.repository(scope), or put the item in another namespace; deleting one"
            " takes it out of the profile"
        )
    if not isinstance(op.value, Mapping):
        raise InvalidInput(f"the value of {key!r} must be a dict, not {type(op.value).__name__}")
    _check_ttl(op)
    size = len(to_json(op.value, f"the value of {key!r} in {namespace}"))
    text = text_of(op.value)
    texts = {TEXT_FIELD: text} if op.texts is None else op.texts
    texts = {name: words for name, words in texts.items() if has_words(words)}
    words = "\n".join(dict.fromkeys(texts.values())) if op.words is None else op.words
    row = MemoryRow(
        memory_id=MemoryId(uuid7()),
        namespace=namespace,
        key=key,
        kind="item",
        text=text,
        value=op.value,
        terms=search_terms(words),
        occurred_at=now,
        ttl_s=op.ttl_s,
    )
    return Draft(address=op.address, row=row, texts=texts, size=size)


def _check_ttl(op: WriteItem) -> None:
    ttl_s: object = op.ttl_s
    namespace, key = op.address
    if ttl_s is None:
        return
    if instructions_scope(namespace):
        raise InvalidInput(
            f"the instruction {key!r} in {namespace} cannot have a time to live, its versions are"
            " kept until it is deleted: put it without one, or in another namespace"
        )
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float) or not 0 < ttl_s <= MAX_TTL_S:
        raise InvalidInput(
            f"the time to live of {key!r} must be above 0 and at most 100 years, not"
            f" {_in_minutes(ttl_s)}"
        )


def _in_minutes(ttl_s: object) -> str:
    """Return a time to live in minutes, as who put the item most likely gave it."""
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float):
        return f"{ttl_s!r}"
    return f"{ttl_s / 60:g} minutes ({ttl_s:g} s)"


def text_of(value: Mapping[str, JsonValue]) -> str:
    """Return what a value says in words: its content, text or memory field, else its own texts."""
    for name in CONTENT_FIELDS:
        words = value.get(name)
        if isinstance(words, str) and words.strip():
            return clean_text(words)
    return clean_text("\n".join(_lines(value)))


def _lines(value: Mapping[str, JsonValue]) -> list[str]:
    """Return "path: text" for everything a value says, in order; a list's entries share a path."""
    lines: list[str] = []
    waiting: list[tuple[str, JsonValue]] = [("", value)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, Mapping):
            below = [(f"{path}.{key}" if path else str(key), inner) for key, inner in part.items()]
            waiting += reversed(below)
        elif isinstance(part, Sequence) and not isinstance(part, str):
            waiting += [(path, inner) for inner in reversed(part)]
        elif part is not None and has_words(str(part)):
            lines.append(f"{path}: {part!s}")
    return lines
