"""Settings of conversations, with defaults from the environment."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Final

from shared_core.core.environment import PREFIX
from shared_core.core.namespaces import check_label
from shared_core.errors import InvalidInput
from shared_core.ports.conversations import SessionRules

DEFAULT_APP: Final = "default"
CHECK_INTERVAL_S: Final = 60.0
MOST_SECONDS: Final = 366 * 86_400
MOST_EVENTS: Final = 100_000
MOST_CONTEXT: Final = 20
VARIABLES: Final = {
    "timeout_s": "SESSION_TIMEOUT",
    "max_duration_s": "SESSION_MAX_DURATION",
    "max_events": "SESSION_MAX_EVENTS",
    "check_interval_s": "SESSION_CHECK_INTERVAL",
    "context_size": "COREFERENCE_CONTEXT_SIZE",
    "strategies": "MEMORY_STRATEGIES",
    "app": "APP",
}
"""The environment variable of each setting. The same name with the prefix HIPPOCAMPUS_ wins; APP is
read only with the prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSettings:
    """When a conversation ends, and which strategies read it then.

    Args:
        app: The application of callers that name none.
        timeout_s: Seconds without an input after which a conversation ends.
        max_duration_s: Seconds after its first input when a conversation ends.
        max_events: Number of inputs with which a conversation ends.
        check_interval_s: Seconds between two searches for conversations that are over.
        context_size: Number of earlier inputs that resolve the pronouns of one, at most 20.
        strategies: Names or MemoryStrategy objects, in the order they run.

    Raises:
        InvalidInput: A value is out of range.
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
                    f"{name} must be seconds above 0 and at most {MOST_SECONDS:,} (a year), got"
                    f" {seconds!r}"
                )
        for name, least, most in (
            ("max_events", 1, MOST_EVENTS),
            ("context_size", 0, MOST_CONTEXT),
        ):
            count = getattr(self, name)
            if not _is_number(count) or int(count) != count or not least <= count <= most:
                raise InvalidInput(
                    f"{name} must be a whole number between {least} and {most:,}, got {count!r}"
                )
        if isinstance(self.strategies, str) or not isinstance(self.strategies, Sequence):
            raise InvalidInput(
                "strategies must be a list, e.g. ['privacy_filter', 'graph_extraction'], got"
                f" {self.strategies!r}"
            )

    @property
    def rules(self) -> SessionRules:
        """The limits that end a conversation, for the storage."""
        return SessionRules(
            timeout=timedelta(seconds=self.timeout_s),
            max_duration=timedelta(seconds=self.max_duration_s),
            max_events=self.max_events,
        )


def load_conversation_settings(*, without_prefix: bool = True) -> ConversationSettings:
    """Return the settings of the environment. An InvalidInput names the faulty variable.

    without_prefix: whether names without our prefix count, which another program may use as well.
    """
    given: dict[str, object] = {}
    for field in fields(ConversationSettings):
        variable = VARIABLES[field.name]
        prefixed = f"{PREFIX}{variable}"
        plain = without_prefix and field.name != "app"
        names = [prefixed, variable] if plain else [prefixed]
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
        reason = error if isinstance(error, InvalidInput) else "it must be a whole number"
        raise InvalidInput(f"{variable}={text!r} is not valid: {reason}") from error
    return number


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
