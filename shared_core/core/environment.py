"""The environment variables that the packages read, and what to say of others with their prefix."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from shared_core.errors import InvalidInput

PREFIX: Final = "HIPPOCAMPUS_"
OF_THE_TESTS: Final = f"{PREFIX}TEST_"
"""Begins the names that only the tests of this project read."""
ADDRESS: Final = f"{PREFIX}URI"
_SETTINGS: Final = (
    "URI", "HOME", "SCHEMA", "APP", "PRIVACY", "LLM", "LLM_TIMEOUT_S", "LLM_CONCURRENCY",
    "LLM_RETRIES", "LLM_MAX_TOKENS", "GRAPH", "PROFILES", "CLEANUP_HOURS", "FORGET_REQUESTS",
    "SESSION_TIMEOUT", "SESSION_MAX_DURATION", "SESSION_MAX_EVENTS", "SESSION_CHECK_INTERVAL",
    "COREFERENCE_CONTEXT_SIZE", "MEMORY_STRATEGIES", "ANN_THRESHOLD", "RESIDENT_MB", "PREPARE",
    "POOL_SIZE", "EMBEDDER", "INDEX_FIELDS", "SEARCH", "DEFAULT_TTL_MINUTES",
    "SWEEP_INTERVAL_MINUTES", "LANG", "HINTS", "TIMEZONE",
)  # fmt: skip
VARIABLES: Final = frozenset(f"{PREFIX}{name}" for name in _SETTINGS)
"""The variables of docs/reference/settings.md that have the prefix."""
_LIKE_AN_ADDRESS: Final = re.compile(r"[a-z+]{2,20}://|(?:^|\s)(?:host|dbname|service)\s?=", re.I)
_warned: set[str] = set()

log = logging.getLogger("hippocampus")


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
    data would go to another database than the one that was meant.
    """
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
