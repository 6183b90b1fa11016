"""What a process knows of its language model: whether it answers, and when to ask it again."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final

from shared_core.core.failure_reason import reason
from shared_core.core.telemetry import model_call_failed
from shared_core.errors import ModelKeyRefused, ModelOutputInvalid, ModelUnavailable
from shared_core.ports.storage import Clock

log = logging.getLogger("hippocampus")

ASK_AGAIN_S: Final = 60.0
"""Seconds after a failure until queued work that waits for the model asks it again; twice as many
after each further failure."""
LONGEST_WAIT_S: Final = 600.0
"""Maximum of these seconds, but for a refused key: that is mended at any moment."""


class ModelState:
    """Whether the model of a memory answers.

    Args:
        name: the extractor with the model.
        clock: of the memory.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._error: ModelUnavailable | None = None
        self._ask_at: datetime | None = None
        self._wait_s = ASK_AGAIN_S
        self.unusable = 0
        """Number of answers that could not be used."""

    @property
    def failing_until(self) -> datetime | None:
        """When to ask the model again that failed last time; None if it may be asked now."""
        return self._ask_at if self._ask_at and self._clock() < self._ask_at else None

    @property
    def refused_until(self) -> datetime | None:
        """The same, if it failed because its key is refused."""
        return self.failing_until if isinstance(self._error, ModelKeyRefused) else None

    def failed(self, error: ModelUnavailable) -> datetime:
        """Note a failure; return when to ask again. The first refusal of a key is logged."""
        if isinstance(error, ModelOutputInvalid):
            self.unusable += 1
            model_call_failed(self._name, error)
        if isinstance(error, ModelKeyRefused) and not isinstance(self._error, ModelKeyRefused):
            log.error(
                "the key of the language model is refused: turns are stored and wait unread until"
                " the key is mended, and the model is asked again every %g s: %s",
                ASK_AGAIN_S, reason(error),
            )  # fmt: skip
        if self.failing_until is None:  # else it is another call of the same failure
            is_first = self._error is None or isinstance(error, ModelKeyRefused)
            self._wait_s = ASK_AGAIN_S if is_first else min(2 * self._wait_s, LONGEST_WAIT_S)
            self._ask_at = self._clock() + timedelta(seconds=self._wait_s)
        self._error = error
        assert self._ask_at is not None
        return self._ask_at

    def answered(self) -> None:
        """Note an answer."""
        if self._error is not None:
            log.info("the language model of %s answers again", self._name)
        self._error = self._ask_at = None
