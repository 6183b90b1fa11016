"""What a failed try of a job means: how long to wait, and what may be told of it. Pure."""

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
"""So many characters of a cause tell that its words are quoted, shortened."""

POISON = wait_exponential_jitter(initial=2, max=600, jitter=1)
"""Between two tries of a job that fails."""
CALLBACK_POISON = wait_exponential_jitter(initial=10, exp_base=4, max=600, jitter=5)
"""Between two tries of a callback, 13 minutes in all: a caller's model may be away for a while."""
OUTAGE = wait_exponential_jitter(initial=5, max=300, jitter=5)
"""While a model takes no more, or the database cannot be reached: no fault of the job."""


class PerformerExited(MemoryCoreError):
    """The code that does a job tried to end the process, or its event loop."""


def wait_s(strategy: wait_base, attempt: int) -> float:
    """Return how long to wait after the attempt-th failure, the first is 1."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    return strategy(state)


def pause_s(error: ModelQuotaExceeded, refusals: int) -> float:
    """Return how long to ask a model for nothing, after so many refusals in a row.

    As long as it said, an hour at most, and a little longer, so that not all ask at once.
    """
    if error.retry_after_s is None:
        return wait_s(OUTAGE, refusals)
    asked = min(max(error.retry_after_s, 0.0), LONGEST_PAUSE_S)
    return asked * (1 + 0.1 * random.random())


def first_wait_s(error: BaseException) -> float:
    """Return how long a job waits that takes over what failed once outside of the queue."""
    if isinstance(error, ModelQuotaExceeded):
        return pause_s(error, 1)
    return wait_s(OUTAGE if isinstance(error, StorageUnavailable) else POISON, 1)


def reason(error: BaseException) -> str:
    """Return what may be stored and logged of an error: nothing that anyone said.

    What this project says itself is kept, one short line of it; of what others raise, drivers,
    models and callers' code, only the type and where: their messages may quote their input.
    """
    name = type(error).__name__
    if not isinstance(error, MemoryCoreError):
        return f"{name} {_place(error)}".strip()
    told = _one_line(str(error))
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if not isinstance(cause, MemoryCoreError) and str(cause):
            told = _without(told, cause)
        cause = cause.__cause__ or cause.__context__
    if len(told) > LONGEST_REASON:
        told = f"{told[:LONGEST_REASON]}…"
    return f"{name}: {told}" if told else name


def _without(told: str, cause: BaseException) -> str:
    """Return what we say of an error with the type of its cause instead of the cause's words.

    Where only their beginning is quoted, all from there on goes.
    """
    kind, words = type(cause).__name__, _one_line(str(cause))
    for said in (_one_line(repr(cause)), f"{kind}: {words}", words):
        told = told.replace(said, kind) if said else told
    begun = told.find(words[:QUOTED]) if len(words) > QUOTED else -1
    return told if begun < 0 else f"{told[:begun].removesuffix(f'{kind}: ')}{kind}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
