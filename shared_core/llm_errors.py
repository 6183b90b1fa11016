"""What the failure of a model means: to wait for a quota, or that it is away. Pure.

Providers are told apart by what their errors say of themselves, so that none has to be imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from shared_core.errors import ModelQuotaExceeded, ModelUnavailable

TOO_MANY_REQUESTS: Final = 429
QUOTA_NAMES: Final = re.compile(r"rate_?limit|resource_?exhausted|too_?many_?requests|quota", re.I)
STATUS_ATTRIBUTES: Final = ("status_code", "http_status", "code", "status")
MAX_SHOWN_CHARACTERS: Final = 300
MAX_CAUSES: Final = 5
DELAY: Final = re.compile(
    r"retry[-_ ]?(?:after|delay|in)[\"':= ]*(\d+(?:\.\d+)?)\s*(ms|s\b|sec)?", re.IGNORECASE
)


def model_failure(model: str, error: BaseException) -> ModelUnavailable:
    """Return the error that a call of the core raises when a model raised this one."""
    shown = shortened_message(f"{type(error).__name__}: {error}")
    for cause in _causes(error):
        if _is_quota(cause):
            return ModelQuotaExceeded(
                f"language model {model!r} takes no more for now: {shown}",
                retry_after_s=retry_after_s(cause),
            )
    return ModelUnavailable(f"language model {model!r} failed: {shown}")


def coded_failure(model: str, code: str, message: str) -> ModelUnavailable:
    """Return the error for a model that answered with an error code instead of raising."""
    shown = shortened_message(f"{code}: {message}")
    if code == str(TOO_MANY_REQUESTS) or QUOTA_NAMES.search(code):
        return ModelQuotaExceeded(
            f"language model {model!r} takes no more for now: {shown}",
            retry_after_s=_said_delay(message),
        )
    return ModelUnavailable(f"language model {model!r} failed: {shown}")


def retry_after_s(error: BaseException) -> float | None:
    """Return how many seconds to wait, if the error or its response says so."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if isinstance(headers, Mapping) or hasattr(headers, "get"):
        given: Any = headers.get("retry-after")  # type: ignore[union-attr]
        try:
            return max(0.0, float(given))
        except (TypeError, ValueError):
            pass  # none, or a date: then what the message says
    return _said_delay(str(error))


def shortened_message(text: str) -> str:
    """Return one line of at most MAX_SHOWN_CHARACTERS: errors quote prompts, and prompts users."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else f"{line[:MAX_SHOWN_CHARACTERS]}…"


def _said_delay(text: str) -> float | None:
    found = DELAY.search(text)
    if found is None:
        return None
    return float(found[1]) / (1000 if (found[2] or "").lower() == "ms" else 1)


def _causes(error: BaseException) -> list[BaseException]:
    """Return the error and what it was raised from, outermost first."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < MAX_CAUSES:
        causes.append(cause)
        cause = cause.__cause__
    return causes


def _is_quota(error: BaseException) -> bool:
    said = [getattr(error, name, None) for name in STATUS_ATTRIBUTES]
    said.append(getattr(getattr(error, "response", None), "status_code", None))
    codes = [getattr(code, "value", code) for code in said]
    if any(str(code) == str(TOO_MANY_REQUESTS) for code in codes if code is not None):
        return True
    words = [type(error).__name__, *(code for code in codes if isinstance(code, str))]
    return any(QUOTA_NAMES.search(word) for word in words)
