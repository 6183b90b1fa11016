"""Shortens a text to whole sentences that fit, and marks that it did. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from shared_core.nlp.text import HAN, KANA, sentences

MARK: Final = " […]"
"""Stands at the end of a text that was cut."""

CHARACTERS_A_TOKEN: Final = 16
"""Of a long text so many characters for each token of room are looked at."""

_WORD_ENDS: Final = re.compile(rf"(?<=\S)(?=\s)|(?<=[{HAN}{KANA}])")


def cut_to_fit(text: str, room: int, cost: Callable[[str], int]) -> str:
    """Return the first sentences of a text with MARK behind them, or "" if nothing fits.

    cost: of a text as it would be shown, which must be at most room. Where not even one sentence
    fits, the beginning of the first is cut between two words. Never returns the whole text.
    """
    looked_at = text[: CHARACTERS_A_TOKEN * max(room, 0)]
    for ends in (
        _sentence_ends(looked_at),
        [one.start() for one in _WORD_ENDS.finditer(looked_at)],
    ):
        within = [end for end in ends if 0 < end < len(text)]
        # The more is shown, the more it costs, but for a few tokens where a word was cut.
        found = bisect_right(within, room, key=lambda end: cost(text[:end].rstrip() + MARK))
        for end in within[:found][::-1]:
            shown = text[:end].rstrip() + MARK
            if cost(shown) <= room:
                return shown
    return ""


def _sentence_ends(text: str) -> Sequence[int]:
    """Return where each sentence ends but the last, which may go on behind what is looked at."""
    ends, start = [], 0
    for sentence in sentences(text)[:-1]:
        start = text.index(sentence, start) + len(sentence)
        ends.append(start)
    return ends
