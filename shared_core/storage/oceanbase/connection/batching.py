"""Long lists in parts that a statement can name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

AT_ONCE = 1000
"""Values of one IN."""

T = TypeVar("T")


def pages(values: Sequence[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    """Yield values in lists of at most size; nothing of nothing."""
    return (list(values[start : start + size]) for start in range(0, len(values), size))
