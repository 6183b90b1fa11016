"""Classify the failures of models: an exceeded quota, or an unavailable model. Pure.

Providers are recognised by the contents of their errors, so none has to be imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from shared_core.errors import ModelKeyRefused, ModelQuotaExceeded, ModelUnavailable

TOO_MANY_REQUESTS: Final = 429
QUOTA_NAMES: Final = re.compile(r"rate_?limit|resource_?exhausted|too_?many_?requests|quota", re.I)
STATUS_ATTRIBUTES: Final = ("status_code", "http_status", "code", "status")
KEY_REFUSED: Final = ("401", "403", "UNAUTHENTICATED", "PERMISSION_DENIED")
KEY_REFUSALS: Final = re.compile(
    r"\bapi[ _-]?key (?:was )?(?:not (?:valid|found|provided)|invalid|expired|missing)"
    r"|API_KEY_INVALID"
    r"|\b(?:no|invalid|incorrect|missing|expired) (?:\w+ )?(?:api[ _-]?key|credentials)"
    r"|\bdefault credentials were not found",
    re.IGNORECASE,
)
KEY_VARIABLES: Final = "e.g. GOOGLE_API_KEY or GEMINI_API_KEY for Gemini, OPENAI_API_KEY for OpenAI"
SCHEMA_REFUSED: Final = re.compile(
    r"response_?format|response_?schema|response_?(?:json_?|mime_?)|json[_ ]?schema|json[_ ]mode"
    r"|output_?(?:config|format)|structured[_ ]output|tool_?choice|\btools?\b",
    re.IGNORECASE,
)
"""Names of the parameters that carry a schema, in errors of providers that do not take them."""
REFUSALS_OF_REQUESTS: Final = frozenset(("400", "404", "415", "422", "501"))
MAX_SHOWN_CHARACTERS: Final = 300
MAX_CAUSES: Final = 5
DELAY: Final = re.compile(
    r"retry[-_ ]?(?:after|delay|in)[\"':= ]*(\d+(?:\.\d+)?)\s*(ms|s\b|sec)?", re.IGNORECASE
)


def model_failure(model: str, error: BaseException) -> ModelUnavailable:
    """Return the core's error for an exception that a model raised."""
    shown = shortened_message(f"{type(error).__name__}: {error}")
    causes = _causes(error)
    for cause in causes:
        if _is_quota(cause):
            return ModelQuotaExceeded(
                f"language model {model!r} exceeded its quota: {shown}",
                retry_after_s=retry_after_s(cause),
            )
    status = next((code for cause in causes for code in _codes(cause) if code.isdecimal()), "")
    status_text = f"status {status}, " if status else ""
    if any(_refuses_key(cause) for cause in causes):
        return _key_refused(model, f"{status_text}no valid key", shown)
    return ModelUnavailable(f"language model {model!r} failed: {status_text}{shown}")


def coded_failure(model: str, code: str, message: str) -> ModelUnavailable:
    """Return the core's error for a model that answered with an error code."""
    shown = shortened_message(f"{code}: {message}")
    if code == str(TOO_MANY_REQUESTS) or QUOTA_NAMES.search(code):
        return ModelQuotaExceeded(
            f"language model {model!r} exceeded its quota: {shown}",
            retry_after_s=_delay_in(message),
        )
    if code in KEY_REFUSED:
        return _key_refused(model, "no valid key", shown)
    return ModelUnavailable(f"language model {model!r} failed: {shown}")


def _key_refused(model: str, what: str, shown: str) -> ModelKeyRefused:
    return ModelKeyRefused(
        f"language model {model!r} failed: {what}, set the variable its client reads,"
        f" {KEY_VARIABLES}: {shown}"
    )


def refuses_schema(error: BaseException) -> bool:
    """Return whether a provider refused a request because of the schema of its answer."""
    codes = [code for cause in _causes(error) for code in _codes(cause) if code.isdecimal()]
    refused = not codes or any(code in REFUSALS_OF_REQUESTS for code in codes)
    return refused and bool(SCHEMA_REFUSED.search(str(error)))


def retry_after_s(error: BaseException) -> float | None:
    """Return the seconds to wait before a retry, if the error or its response says so."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if isinstance(headers, Mapping) or hasattr(headers, "get"):
        header: Any = headers.get("retry-after")  # type: ignore[union-attr]
        try:
            return max(0.0, float(header))
        except (TypeError, ValueError):
            pass  # absent or a date: use the message
    return _delay_in(str(error))


def shortened_message(text: str) -> str:
    """Return one line of at most MAX_SHOWN_CHARACTERS: errors quote prompts, which quote users."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN_CHARACTERS else f"{line[:MAX_SHOWN_CHARACTERS]}…"


def _delay_in(text: str) -> float | None:
    found = DELAY.search(text)
    if found is None:
        return None
    return float(found[1]) / (1000 if (found[2] or "").lower() == "ms" else 1)


def _causes(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, outermost first."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < MAX_CAUSES:
        causes.append(cause)
        cause = cause.__cause__
    return causes


def _codes(error: BaseException) -> list[str]:
    """Return the status codes in an error, numbers and words."""
    statuses = [getattr(error, name, None) for name in STATUS_ATTRIBUTES]
    statuses.append(getattr(getattr(error, "response", None), "status_code", None))
    codes = [getattr(code, "value", code) for code in statuses]
    return [str(code) for code in codes if isinstance(code, int | str)]


def _is_quota(error: BaseException) -> bool:
    codes = _codes(error)
    if str(TOO_MANY_REQUESTS) in codes:
        return True
    return any(QUOTA_NAMES.search(word) for word in (type(error).__name__, *codes))


def _refuses_key(error: BaseException) -> bool:
    codes = _codes(error)
    if any(code in KEY_REFUSED for code in codes):
        return True
    return bool(KEY_REFUSALS.search(str(error)))
