"""ExtractionStrategy: when what was left for later is worked on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shared_core.errors import InvalidInput

MAX_DELAY_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionStrategy:
    """When the turns of a thread are read, and when what was read is reflected on.

        open_memory(strategy=ExtractionStrategy(delay_s=60, event_count=20))

    delay_s: when the thread was quiet for so long; a newer turn moves it, up to ten times the
    delay. 0 is at once. event_count, token_threshold: at once when so many turns, or about so many
    tokens of them (a quarter of their bytes), were not read yet; None: never for that reason.
    on_session_end: at once, and before others, when the session ends. reflection_interval: a
    reflection over the user after every so many extractions, of all threads; None for none.
    Raises InvalidInput for a number that makes no sense.
    """

    delay_s: float = 0.0
    event_count: int | None = 50
    token_threshold: int | None = 8_000
    on_session_end: bool = True
    reflection_interval: int | None = 10

    def __post_init__(self) -> None:
        check_delay(self.delay_s)
        for name in ("event_count", "token_threshold", "reflection_interval"):
            count = getattr(self, name)
            whole = isinstance(count, int) and not isinstance(count, bool)
            if count is not None and (not whole or not 1 <= count < 2**31):
                raise InvalidInput(f"{name} must be a whole number from 1, or None, not {count!r}")
        if not isinstance(self.on_session_end, bool):
            raise InvalidInput(f"on_session_end must be True or False, not {self.on_session_end!r}")


def check_delay(delay_s: float) -> None:
    """Raise InvalidInput for anything but a number of seconds from 0 to a year."""
    valid = isinstance(delay_s, int | float) and math.isfinite(delay_s)
    if not valid or not 0 <= delay_s <= MAX_DELAY_S:
        raise InvalidInput(f"delay_s must be from 0 to a year of seconds, not {delay_s!r}")
