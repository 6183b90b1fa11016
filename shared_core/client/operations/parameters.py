"""The parts of requests, as typed dicts.

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NotRequired, TypedDict

from shared_core.core.domain import GivenRole, JsonValue, MemoryKind


class RememberedMemoryParam(TypedDict):
    """A memory to store. It replaces the memory with the same key."""

    text: str
    kind: NotRequired[MemoryKind]
    key: NotRequired[str | None]
    author: NotRequired[str | None]
    importance: NotRequired[float]
    occurred_at: NotRequired[datetime | str | None]
    expires_at: NotRequired[datetime | str | None]
    metadata: NotRequired[Mapping[str, JsonValue]]


class TurnParam(TypedDict):
    """One turn of a conversation. event_id is your own id; a turn sent twice is stored once."""

    event_id: str
    role: GivenRole
    author: NotRequired[str]
    text: str
    occurred_at: datetime | str
    importance: NotRequired[float]
    expires_at: NotRequired[datetime | str | None]
    metadata: NotRequired[Mapping[str, JsonValue]]


class AsOfParam(TypedDict):
    """A moment: valid is when it was true, known is when the memory believed it."""

    valid: NotRequired[datetime | str | None]
    known: NotRequired[datetime | str | None]


class PolicyParam(TypedDict):
    """How fast memories fade, and what happens to faded ones (docs/explanation/forgetting.md)."""

    decay_rate: NotRequired[float]
    threshold: NotRequired[float]
    min_age_days: NotRequired[float]
    archive_threshold: NotRequired[float | None]
    archive_after_days: NotRequired[float]
    erase_threshold: NotRequired[float | None]
    erase_after_days: NotRequired[float]
    with_history: NotRequired[bool]


class MessageParam(TypedDict):
    """One message. Without your own id it is known by its conversation, position and text."""

    role: GivenRole
    content: str
    author: NotRequired[str | None]
    timestamp: NotRequired[datetime | str | None]
    message_id: NotRequired[str | None]
    message_type: NotRequired[str]
    metadata: NotRequired[Mapping[str, JsonValue]]
