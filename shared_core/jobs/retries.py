"""Back-off after a failed job. Pure."""

from __future__ import annotations

import random
from datetime import datetime

from tenacity import RetryCallState, Retrying, wait_exponential_jitter
from tenacity.wait import wait_base

from shared_core.errors import MemoryCoreError, ModelQuotaExceeded, StorageUnavailable

MAX_ATTEMPTS = 5
LONGEST_PAUSE_S = 3_600.0

POISON = wait_exponential_jitter(initial=2, max=600, jitter=1)
"""Back-off of a job that fails."""
CALLBACK_POISON = wait_exponential_jitter(initial=10, exp_base=4, max=600, jitter=5)
"""Back-off of a callback, 13 minutes in total: a caller's model may be away for a while."""
OUTAGE = wait_exponential_jitter(initial=5, max=300, jitter=5)
"""Back-off while a model's quota is used up or the database is down: no fault of the job."""


class Postponed(MemoryCoreError):
    """The code of a job puts it off until a moment; the attempt does not count.

    Attributes:
        until: when the job is due again.
    """

    def __init__(self, message: str, until: datetime) -> None:
        super().__init__(message)
        self.until = until


class PerformerExited(MemoryCoreError):
    """The code of a job tried to end the process or its event loop, or was cancelled by itself."""


def wait_s(strategy: wait_base, attempt: int) -> float:
    """Return the seconds to wait after an attempt, counted from 1."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    return strategy(state)


def pause_s(error: ModelQuotaExceeded, refusals: int) -> float:
    """Return the seconds to leave a model alone after some refusals in a row.

    The model's own retry time counts, at most an hour. Jitter keeps workers from retrying together.
    """
    if error.retry_after_s is None:
        return wait_s(OUTAGE, refusals)
    pause = min(max(error.retry_after_s, 0.0), LONGEST_PAUSE_S)
    return pause * (1 + 0.1 * random.random())


def first_wait_s(error: BaseException) -> float:
    """Return the first back-off of a job that retries work which failed outside of the queue."""
    if isinstance(error, ModelQuotaExceeded):
        return pause_s(error, 1)
    return wait_s(OUTAGE if isinstance(error, StorageUnavailable) else POISON, 1)
