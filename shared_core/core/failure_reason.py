"""The part of an error that may be stored and logged: one line, and no text of a user."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from shared_core.errors import MemoryCoreError

log = logging.getLogger("hippocampus")

LONGEST_REASON: Final = 300
FRAMES: Final = 5
"""Number of frames of an error that a log shows."""
QUOTED: Final = 40
"""Number of characters of a cause's message that identify a shortened quotation of it."""


def log_failure(what: str, error: BaseException) -> None:
    """Log a failure as one warning with its cause. Level DEBUG adds a line with its frames."""
    log.warning("%s failed: %s", what, reason(error))
    log.debug("%s failed at %s", what, places(error))


def reason(error: BaseException) -> str:
    """Return the part of an error that may be stored and logged: no text of a user.

    An error of this project keeps its message, as one short line. Any other error (of a driver, a
    model, a caller's code) may quote its input, so only type and place remain, of the error and of
    its first cause.
    """
    name = type(error).__name__
    if not isinstance(error, MemoryCoreError):
        first, told = _first_cause(error), f"{name} {_place(error)}".strip()
        if first is error:
            return told
        return f"{told}, from {type(first).__name__} {_place(first)}".strip()
    message = _one_line(str(error))
    for cause in _causes(error, with_contexts=True):
        if not isinstance(cause, MemoryCoreError) and str(cause):
            message = _without(message, cause)
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


def message(error: BaseException) -> str:
    """Return the type and the message of an error that quotes no user, in one line."""
    return _one_line(f"{type(error).__name__}: {error}")


def places(error: BaseException) -> str:
    """Return the last frames of an error and of its first cause, innermost first, in one line."""
    told = _places(error)
    first = _first_cause(error)
    return told if first is error else f"{told}, from {type(first).__name__} at {_places(first)}"


def _places(error: BaseException) -> str:
    return " < ".join(
        f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in reversed(traceback.extract_tb(error.__traceback__)[-FRAMES:])
    )


def _first_cause(error: BaseException) -> BaseException:
    return [error, *_causes(error)][-1]


def _causes(error: BaseException, *, with_contexts: bool = False) -> Iterator[BaseException]:
    """Yield the cause of an error, the cause of that one, and so on; each once.

    "raise error from error" makes an error its own cause.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if cause is not error:
            yield cause
        seen.add(id(cause))
        cause = cause.__cause__ or (cause.__context__ if with_contexts else None)


def _place(error: BaseException) -> str:
    return f"at {_places(error).partition(' ')[0]}" if error.__traceback__ else ""
