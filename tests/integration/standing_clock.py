"""A clock of the storage that stands still until a test moves it."""

from datetime import UTC, datetime

from turns import Clock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


class StandingClock(Clock):
    """A clock for tests; it begins at NOW."""

    def __init__(self) -> None:
        super().__init__(NOW)
