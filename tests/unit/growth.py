"""Measures how processor time grows with the input, whatever the machine and its load."""

import math
import time
from collections.abc import Callable

PARTS = 8
"""How many times as long the long input is as the short one."""
MOST = 2.5
"""Maximum ratio of one long input to PARTS short ones: in line it is 1, quadratic it is PARTS."""
TRIES = 4


def grows_in_line(work: Callable[[str], object], text: str) -> bool:
    """Return whether work on a text takes in line with its length, not with its square.

    Load only lengthens a measure. So both measures are about as long, of this thread alone, the
    shortest of several counts, and a text that seems slow is measured again.
    """
    short = text[: len(text) // PARTS]
    work(short)  # loads what later calls reuse
    short_s = long_s = math.inf
    for _ in range(TRIES):
        short_s = min(short_s, _cost_s(work, short, PARTS))
        long_s = min(long_s, _cost_s(work, text, 1))
        if long_s < MOST * short_s:
            return True
    return False


def _cost_s(work: Callable[[str], object], text: str, times: int) -> float:
    started = time.thread_time()
    for _ in range(times):
        work(text)
    return time.thread_time() - started
