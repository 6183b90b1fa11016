"""Reads the environment variables of the packages, and says what others with their prefix mean."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from shared_core.core.model_limits import limits_in
from shared_core.core.model_names import BUNDLED_NAMES, GOOGLE, NAMED
from shared_core.core.namespaces import check_label
from shared_core.core.shown import shown
from shared_core.core.validation import schema_name, zone_of
from shared_core.errors import InvalidInput

_Reader: TypeAlias = Callable[[str, str], Any]

PREFIX: Final = "HIPPOCAMPUS_"
OF_THE_TESTS: Final = f"{PREFIX}TEST_"
"""Begins the names that only the tests of this project read."""
ADDRESS: Final = f"{PREFIX}URI"
MOST_CLEANUP_HOURS: Final = 87_600
"""Ten years."""
MOST_CONNECTIONS: Final = 10_000
MOST_MINUTES: Final = 366 * 24 * 60 * 100
"""A hundred years."""
_LOCALE: Final = re.compile(
    r"(?:en|zh)(?![a-z0-9]).*|(?:C|POSIX)(?:\.[\w-]+)?"
    r"|[a-z]{2,3}(?=[_.@-])(?:[_-][a-z0-9]+)*(?:\.[\w-]+)?(?:@\w+)?",
    re.I,
)
"""A known language, or any locale: LANGUAGE_TERRITORY.CODESET@MODIFIER with one of the last three.

A language alone is chosen by hand: one that has no texts here is a mistake.
"""
_OF_PROVIDER: Final = r"[\w.-]+:\S.*"
_LLM: Final = re.compile(rf"(?!langchain:)(?:{'|'.join(NAMED)}):\S.*|langchain:{_OF_PROVIDER}")
_NO_PROVIDER: Final = "|".join((*BUNDLED_NAMES, *NAMED))
_EMBEDDER: Final = re.compile(
    rf"\A(?:{'|'.join(BUNDLED_NAMES)}|(?!(?:{_NO_PROVIDER}):){_OF_PROVIDER})"
)


def _text(text: str, name: str) -> str:  # of the form of the others
    return text


def switched(text: str, name: str) -> bool:
    """Return whether a text is "on". Raises InvalidInput, naming it, for all but "on" and "off"."""
    word: str = _one_of("on", "off")(text.lower(), name)
    return word == "on"


def _one_of(*known: str) -> _Reader:
    def read(text: str, name: str) -> str:
        if text not in known:
            listed = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
            raise InvalidInput(f"{name} must be {listed}, got {shown(text)}")
        return text

    return read


def _matching(form: re.Pattern[str], what: str) -> _Reader:
    def read(text: str, name: str) -> str:
        if not form.fullmatch(text):
            raise InvalidInput(f"{name} must be {what}, got {shown(text)}")
        return text

    return read


def _number(
    what: str, kind: type[int] | type[float], most: float, *, low: str = "above 0", off: str = ""
) -> _Reader:
    """Return the reader of a number above or from 0; it reads the word of off as 0."""

    def read(text: str, name: str) -> float:
        if off and text.lower() == off:
            return 0
        try:
            found = kind(text)
        except ValueError:
            found = -1
        if not 0 <= found <= most or (found == 0 and low == "above 0"):
            also = f", or {off!r}" if off else ""
            raise InvalidInput(
                f"{name} must be a number of {what} {low} and up to {most:,}{also}, got"
                f" {shown(text)}"
            )
        return found

    return read


_READERS: Final[Mapping[str, _Reader]] = {
    "URI": _text,
    "HOME": _text,
    "SCHEMA": schema_name,
    "APP": check_label,
    "PRIVACY": _one_of("default", "strict", "off"),
    "TIMEZONE": zone_of,
    "LLM": _matching(_LLM, "'adk:MODEL' or 'langchain:PROVIDER:MODEL'"),
    "GRAPH": switched,
    "PROFILES": switched,
    "FORGET_REQUESTS": switched,
    "PREPARE": switched,
    "HINTS": switched,
    "CLEANUP_HOURS": _number("hours", float, MOST_CLEANUP_HOURS, off="off"),
    "ANN_THRESHOLD": _number("vectors", int, 2**31, off="off"),
    "RESIDENT_MB": _number("megabytes", int, 2**31, low="from 0", off="off"),
    "POOL_SIZE": _number("connections", int, MOST_CONNECTIONS),
    "EMBEDDER": _matching(_EMBEDDER, f"'e5', 'use', '{GOOGLE}MODEL' or 'PROVIDER:MODEL'"),
    "INDEX_FIELDS": _text,
    "SEARCH": _one_of("vector", "hybrid", "text"),
    "DEFAULT_TTL_MINUTES": _number("minutes", float, MOST_MINUTES),
    "SWEEP_INTERVAL_MINUTES": _number("minutes", float, MOST_MINUTES),
    "LANG": _matching(_LOCALE, "'en' or 'zh', or a locale such as 'C' or 'de_DE.UTF-8'"),
}
"""What reads the value of each setting. Each gets the text and the name that errors show."""
_READ_BY_GROUP: Final = (
    "LLM_TIMEOUT_S", "LLM_CONCURRENCY", "LLM_RETRIES", "LLM_MAX_TOKENS", "SESSION_TIMEOUT",
    "SESSION_MAX_DURATION", "SESSION_MAX_EVENTS", "SESSION_CHECK_INTERVAL",
    "COREFERENCE_CONTEXT_SIZE", "MEMORY_STRATEGIES",
)  # fmt: skip
"""Settings that are the fields of ModelLimits and ConversationSettings, which check them."""
VARIABLES: Final = frozenset(f"{PREFIX}{name}" for name in (*_READERS, *_READ_BY_GROUP))
"""The variables of docs/reference/settings.md that have the prefix."""
_LIKE_AN_ADDRESS: Final = re.compile(r"[a-z+]{2,20}://|(?:^|\s)(?:host|dbname|service)\s?=", re.I)
_warned: set[str] = set()

log = logging.getLogger("hippocampus")


def setting(name: str, default: Any = None, *, environment: Mapping[str, str] = os.environ) -> Any:
    """Return the value of a variable as its reader returns it, or default if it is blank.

    Raises InvalidInput, naming the variable, what is allowed and what it holds.
    """
    text = environment.get(name, "").strip()
    return _READERS[name.removeprefix(PREFIX)](text, name) if text else default


def unknown_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a sentence about each variable with our prefix that nothing reads, by its name."""
    return {
        name: _sentence(name, text)
        for name, text in sorted(environment.items())
        if name.startswith(PREFIX) and name not in VARIABLES and not name.startswith(OF_THE_TESTS)
    }


def check_variables(environment: Mapping[str, str], *, address_is_given: bool) -> None:
    """Warn once in a process of each variable with our prefix that nothing reads.

    Raises InvalidInput for one that holds an address, unless the memory's address is given: the
    data would go to another database than the one that was meant. Raises it also for a setting
    with a wrong value, even where an argument wins or the caller reads others.
    """
    for known in _READERS:
        setting(f"{PREFIX}{known}", environment=environment)
    limits_in(environment)
    for name, sentence in unknown_variables(environment).items():
        if _LIKE_AN_ADDRESS.search(environment[name]) and not address_is_given:
            raise InvalidInput(f"{sentence}, or unset {name} to use the embedded PostgreSQL")
        if name not in _warned:
            _warned.add(name)
            log.warning("%s", sentence)


def _sentence(name: str, text: str) -> str:
    known = {one.removeprefix(PREFIX): one for one in VARIABLES}
    near = get_close_matches(name.removeprefix(PREFIX).upper(), known, n=1)
    if _LIKE_AN_ADDRESS.search(text):
        return f"{name} is no setting: the address of the memory is {ADDRESS}. Rename it"
    if near:
        return f"{name} is no setting and has no effect: did you mean {known[near[0]]}?"
    return f"{name} is no setting and has no effect: docs/reference/settings.md lists all settings"
