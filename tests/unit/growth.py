"""Measures how processor time grows with the input, independently of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

PARTS = 4
"""How many times as long the long input is as the short one."""
NOISE_S = 1.0
"""What a loaded machine may add to either measure."""


def grows_in_line(work: Callable[[str], object], text: str) -> bool:
    """Return whether work on a text takes in line with its length, not with its square."""
    short = text[: len(text) // PARTS]
    work(short)  # loads what later calls reuse
    short_s, long_s = _cost_s(work, short), _cost_s(work, text)
    return long_s < 0.75 * PARTS**2 * short_s + NOISE_S


def _cost_s(work: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    work(text)
    return time.process_time() - started
