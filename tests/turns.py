"""Turns of a conversation, and a clock that a test moves."""

from datetime import UTC, datetime, timedelta
from typing import Any

from shared_core import Event

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
"""When a clock of a test begins, and the minute of turn 0."""


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: datetime = START) -> None:
        self.start = self.now = now

    def __call__(self) -> datetime:
        return self.now

    @property
    def day(self) -> float:
        """The days since the clock was made."""
        return (self.now - self.start) / timedelta(days=1)

    @day.setter
    def day(self, days: float) -> None:
        self.now = self.start + timedelta(days=days)

    def forward(self, seconds: float = 0, **delta: float) -> datetime:
        """Move the clock forward, by arguments of timedelta; return its new time."""
        self.now += timedelta(seconds=seconds, **delta)
        return self.now


def said(key: int | str, text: str, at: datetime | None = None, **more: Any) -> Event:
    """Return a turn of the user, or of whom `author` and `role` name.

    key: its id; or its number n, which makes the id "e<n>" and the moment n minutes after START.
    """
    if isinstance(key, int):
        key, at = f"e{key}", at or START + timedelta(minutes=key)
    given = {"author": "user", "role": "user", "occurred_at": at or START, **more}
    return Event(event_id=key, text=text, **given)
