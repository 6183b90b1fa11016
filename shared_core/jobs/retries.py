"""Back-off after a failed job, and the part of an error that may be stored and logged. Pure."""

from __future__ import annotations

import random
import traceback
from pathlib import PurePath

from tenacity import RetryCallState, Retrying, wait_exponential_jitter
from tenacity.wait import wait_base

from shared_core.errors import MemoryCoreError, ModelQuotaExceeded, StorageUnavailable

MAX_ATTEMPTS = 5
LONGEST_REASON = 300
LONGEST_PAUSE_S = 3_600.0
QUOTED = 40
"""Number of characters of a cause's message that identify a shortened quotation of it."""

POISON = wait_exponential_jitter(initial=2, max=600, jitter=1)
"""Back-off of a job that fails."""
CALLBACK_POISON = wait_exponential_jitter(initial=10, exp_base=4, max=600, jitter=5)
"""Back-off of a callback, 13 minutes in total: a caller's model may be away for a while."""
OUTAGE = wait_exponential_jitter(initial=5, max=300, jitter=5)
"""Back-off while a model's quota is used up or the database is down: no fault of the job."""


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


def reason(error: BaseException) -> str:
    """Return the part of an error that may be stored and logged: no text of a user.

    An error of this project keeps its message, as one short line. Any other error (of a driver, a
    model, a caller's code) may quote its input, so only its type and place remain.
    """
    name = type(error).__name__
    if not isinstance(error, MemoryCoreError):
        return f"{name} {_place(error)}".strip()
    message = _one_line(str(error))
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if not isinstance(cause, MemoryCoreError) and str(cause):
            message = _without(message, cause)
        cause = cause.__cause__ or cause.__context__
    if len(message) > LONGEST_REASON:
        message = f"{message[:LONGEST_REASON]}…"
    return f"{name}: {message}" if message else name


def _without(message: str, cause: BaseException) -> str:
    """Return a message with the type of a cause in place of the cause's own message.

    If the message quotes only its beginning, everything from there on is cut.
    """
    kind, words = type(cause).__name__, _one_line(str(cause))
    for quoted in (_one_line(repr(cause)), f"{kind}: {words}", words):
        message = message.replace(quoted, kind) if quoted else message
    begun = message.find(words[:QUOTED]) if len(words) > QUOTED else -1
    return message if begun < 0 else f"{message[:begun].removesuffix(f'{kind}: ')}{kind}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
