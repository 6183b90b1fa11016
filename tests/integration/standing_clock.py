"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


class StandingClock:
    """A clock for tests; it begins at NOW."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> datetime:
        """Move the clock forward; return its new time."""
        self.now += timedelta(seconds=seconds)
        return self.now
