"""The records that readers yield, and the checks that readers share. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ParamSpec, Protocol, TypeAlias

from shared_core.core.domain import JsonValue, Role
from shared_core.core.namespaces import clean_text
from shared_core.core.timestamps import EARLIEST, LATEST
from shared_core.nlp.text import has_words

MAX_ID_CHARACTERS = 500
"""Maximum number of characters of an id or a name of a user; an index row holds no more."""

NO_TEXT = "without text"
NO_ID = "without an id"
NO_TIME = "without a readable time"
OTHER_BRANCHES = "messages on other branches"
UNREADABLE = "entries of an unknown form"
MAX_INTEGER = 2**63
"""A JSON number beyond it is kept as a text: neither an int nor a float is sure to hold it."""
MILLISECONDS = 100_000_000_000
"""A larger number of seconds is after the year 5000, so it counts milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """One message of a conversation. user: whom the source names, or None.

    thread, event_id: stable in every export of the source, so a second import finds them.
    """

    user: str | None
    thread: str
    event_id: str
    role: Role
    author: str
    text: str
    at: datetime
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRecord:
    """A text that the source remembers about a user. at: of its last change; None if unknown."""

    user: str | None
    key: str
    text: str
    created_at: datetime | None = None
    at: datetime | None = None
    author: str | None = None
    expires_at: datetime | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRecord:
    """A relation between two entities, and the sentence that states it.

    subject: "user" stands for the user. valid_until: None while it holds. said_at: when the source
    learned it, or None.
    """

    user: str | None
    key: str
    subject: str
    relation: str
    object: str
    text: str
    valid_from: datetime
    valid_until: datetime | None = None
    said_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """An entry of the source that is no memory. reason: a noun phrase that follows its number."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftTurn(SkippedRecord):
    """A message on a branch that the source does not show; an earlier import may have stored it."""

    user: str | None
    thread: str
    event_id: str


Record: TypeAlias = TurnRecord | StatementRecord | FactRecord | SkippedRecord
P = ParamSpec("P")


class RecordSource(Protocol):
    """An export or a store to import. name: for messages. product: "chatgpt", "mem0", ..."""

    @property
    def name(self) -> str: ...

    @property
    def product(self) -> str: ...

    def records(self, user: str | None = None) -> Iterator[Record]:
        """Yield all records from the beginning; may be called again.

        user: the name of the user who gets them. It tells which speaker is the user in a text
        such as "Ana: I moved", if the source does not.

        Raises:
            InvalidInput: the source cannot be read to its end.
        """


def readable(read: Callable[P, Record], *args: P.args, **kwargs: P.kwargs) -> Record:
    """Return the record that a reader makes of an entry, or a skipped one for odd values."""
    try:
        return read(*args, **kwargs)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return SkippedRecord(UNREADABLE)


def turn_record(
    *,
    user: str | None = None,
    thread: str,
    event_id: str,
    role: Role,
    author: str,
    text: str,
    at: datetime | None,
    metadata: Mapping[str, JsonValue],
) -> Record:
    """Return a turn, or a skipped record that tells what it lacks."""
    if not text or not event_id or at is None:
        reason = NO_TEXT if not text else NO_ID if not event_id else NO_TIME
        return SkippedRecord(f"messages {reason}")
    return TurnRecord(
        user=user, thread=thread, event_id=event_id, role=role, author=author, text=text, at=at,
        metadata=metadata,
    )  # fmt: skip


def left_turn(user: str | None, thread: str, event_id: str) -> SkippedRecord:
    """Return a message on another branch, or a skipped one without an id."""
    if not event_id:
        return SkippedRecord(OTHER_BRANCHES)
    return LeftTurn(reason=OTHER_BRANCHES, user=user, thread=thread, event_id=event_id)


def moment(value: object) -> datetime | None:
    """Return the moment of an ISO 8601 text or of seconds since 1970, or None. UTC by default."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, int | float | Decimal):
            return _of_seconds(float(value))
        if not isinstance(value, str):
            return None
        found = datetime.fromisoformat(value.strip())
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return found if EARLIEST < found.astimezone(UTC) < LATEST else None
    except (ValueError, OverflowError):
        return None


def _of_seconds(seconds: float) -> datetime | None:
    if not math.isfinite(seconds) or seconds <= 0:
        return None
    try:
        return datetime.fromtimestamp(seconds / (1000 if seconds > MILLISECONDS else 1), UTC)
    except (OverflowError, ValueError, OSError):
        return None


def text_of(value: object) -> str:
    """Return a text without NUL and surrounding blanks, or "" for any other value."""
    text = clean_text(value).strip() if isinstance(value, str) else ""
    return text if has_words(text) else ""


def name_of(value: object) -> str:
    """Return an id or a name, or "" for what can be none: blank, too long, or no text."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(Decimal(value))  # str() refuses an int of very many digits
    if not isinstance(value, str) or len(value) > MAX_ID_CHARACTERS or clean_text(value) != value:
        return ""
    return value.strip()


def entries(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list, or none for any other value."""
    if not isinstance(value, list):
        return []
    return [one for one in value if isinstance(one, dict)]


def by_time(messages: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """Return messages by the time in a field; one without a time stays after the one before it."""
    last = EARLIEST
    timed: list[tuple[datetime, Mapping[str, Any]]] = []
    for one in messages:
        last = moment(one.get(name)) or last
        timed.append((last, one))
    return [one for _, one in sorted(timed, key=lambda pair: pair[0])]


def plain(value: object) -> JsonValue:
    """Return a JSON value with floats for decimals and without NUL.

    Raises RecursionError if it is nested too deeply.
    """
    if isinstance(value, int | Decimal) and not -MAX_INTEGER < value < MAX_INTEGER:
        return str(Decimal(value))
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(name)): plain(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [plain(one) for one in value]
    return value if isinstance(value, int | float | bool) else None
