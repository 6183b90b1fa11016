"""How sessions of conversations are kept; read from the environment where nothing is given."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Final

from shared_core.core.namespaces import check_label
from shared_core.errors import InvalidInput
from shared_core.ports.conversations import SessionRules

DEFAULT_APP: Final = "default"
CHECK_INTERVAL_S: Final = 60.0
MOST_SECONDS: Final = 366 * 86_400
MOST_EVENTS: Final = 100_000
MOST_CONTEXT: Final = 20
STRATEGY_TRIGGER: Final = "on_session_end"
VARIABLES: Final = {
    "timeout_s": "SESSION_TIMEOUT",
    "max_duration_s": "SESSION_MAX_DURATION",
    "max_events": "SESSION_MAX_EVENTS",
    "check_interval_s": "SESSION_CHECK_INTERVAL",
    "context_size": "COREFERENCE_CONTEXT_SIZE",
    "strategies": "MEMORY_STRATEGIES",
    "app": "APP",
}
"""The environment variable of each setting, also with HIPPOCAMPUS_ before it, which then counts;
that of the application only so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSettings:
    """When a session ends, and what is made of it.

    app: the application of who names none. timeout_s: over when idle for so long; max_duration_s:
    when so old; max_events: with so many inputs. check_interval_s: how often sessions that are
    over are looked for. context_size: so many inputs before one tell what its pronouns mean, at
    most 20. strategies: names, or MemoryStrategy objects, in the order in which they are asked.
    Raises InvalidInput for a value that makes no sense.
    """

    app: str = DEFAULT_APP
    timeout_s: float = 30 * 60
    max_duration_s: float = 24 * 60 * 60
    max_events: int = 100
    check_interval_s: float = CHECK_INTERVAL_S
    context_size: int = 5
    strategies: Sequence[object] = ("privacy_filter", "graph_extraction")

    def __post_init__(self) -> None:
        check_label(self.app, "app")
        for name in ("timeout_s", "max_duration_s", "check_interval_s"):
            seconds = getattr(self, name)
            if not _is_number(seconds) or not 0 < seconds <= MOST_SECONDS:
                raise InvalidInput(
                    f"{name} must be a number of seconds above 0, at most a year, not {seconds!r}"
                )
        for name, least, most in (
            ("max_events", 1, MOST_EVENTS),
            ("context_size", 0, MOST_CONTEXT),
        ):
            count = getattr(self, name)
            if not _is_number(count) or int(count) != count or not least <= count <= most:
                raise InvalidInput(
                    f"{name} must be a whole number from {least} to {most:,}, not {count!r}"
                )
        if isinstance(self.strategies, str) or not isinstance(self.strategies, Sequence):
            raise InvalidInput(
                "strategies must be a list, e.g. ['privacy_filter', 'graph_extraction'], not"
                f" {self.strategies!r}"
            )

    @property
    def rules(self) -> SessionRules:
        """When a session is over, for the storage."""
        return SessionRules(
            timeout=timedelta(seconds=self.timeout_s),
            max_duration=timedelta(seconds=self.max_duration_s),
            max_events=self.max_events,
        )


def load_conversation_settings() -> ConversationSettings:
    """Return the settings of the environment. Raises InvalidInput that names the variable."""
    given: dict[str, object] = {}
    for field in fields(ConversationSettings):
        variable = VARIABLES[field.name]
        prefixed = f"HIPPOCAMPUS_{variable}"
        names = [prefixed] if field.name == "app" else [prefixed, variable]
        found = next((name for name in names if os.environ.get(name, "").strip()), None)
        if found:
            given[field.name] = _value(field.name, found, os.environ[found].strip())
    return ConversationSettings(**given)  # type: ignore[arg-type] # each was checked by name


def _value(name: str, variable: str, text: str) -> object:
    if name == "strategies":
        return () if text == "none" else tuple(filter(None, map(str.strip, text.split(","))))
    if name == "app":
        return check_label(text, variable)
    try:
        number = int(text)
        ConversationSettings(**{name: number})  # type: ignore[arg-type]
    except (ValueError, InvalidInput) as error:
        told = error if isinstance(error, InvalidInput) else "it must be a whole number"
        raise InvalidInput(f"{variable}={text!r} cannot be used: {told}") from error
    return number


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
