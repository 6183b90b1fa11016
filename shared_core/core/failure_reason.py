"""The part of an error that may be stored and logged: one line, and no text of a user."""

from __future__ import annotations

import logging
import traceback
from pathlib import PurePath
from typing import Final

from shared_core.errors import MemoryCoreError

log = logging.getLogger("hippocampus")

LONGEST_REASON: Final = 300
QUOTED: Final = 40
"""Number of characters of a cause's message that identify a shortened quotation of it."""


def log_failure(what: str, error: BaseException) -> None:
    """Log a failure as one warning with its cause; its traceback is logged at level DEBUG."""
    log.warning("%s failed: %s", what, reason(error))
    log.debug("%s failed", what, exc_info=error)


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
