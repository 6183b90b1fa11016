"""Search a long text with a regular expression in several calls, so that other threads run.

One call of `re` holds the interpreter until it returns: 50 to 150 ms for 99,000 characters, in
which no other request of a server goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

STEP: Final = 8_192
"""Number of characters at which one call lets a match begin."""
REACH: Final = 6_144
"""Maximum number of characters, from its first on, that decide about a match."""

_ENDLESS: Final = re.compile(r"(?<!\\)\\s([*+])")


def within_reach(expression: str) -> str:
    """Return an expression in which white space repeats at most 99 times."""
    return _ENDLESS.sub(lambda found: rf"\s{{{'*+'.index(found[1])},99}}", expression)


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield what pattern.finditer(text) yields.

    The pattern matches no empty text and decides within REACH; a test reads that from its parts.
    """
    start = 0
    while start + STEP + REACH < len(text):
        found = pattern.search(text, start, start + STEP + REACH)
        if found is None or found.start() >= start + STEP:
            start += STEP
        else:
            yield found
            start = found.end()
    yield from pattern.finditer(text, start)


def occurs(pattern: re.Pattern[str], text: str) -> bool:
    """Tell whether pattern.search(text) finds something."""
    return any(True for _ in matches(pattern, text))


def replaced(pattern: re.Pattern[str], by: str, text: str) -> str:
    """Return a text with `by` in the place of each match."""
    kept, end = [], 0
    for found in matches(pattern, text):
        kept += [text[end : found.start()], by]
        end = found.end()
    return "".join([*kept, text[end:]])
