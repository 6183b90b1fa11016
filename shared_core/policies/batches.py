"""Reads operations by name in one batch, so that parts of a policy can share a message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from shared_core.ports.operations import Policy, Row, Select

Reads: TypeAlias = dict[str, Select]
"""Operations to read by name."""
Found: TypeAlias = Mapping[str, Sequence[Row]]
"""Rows by the name of their operation; none for one that was not read."""


def read(reads: Reads) -> Policy[Found]:
    """Read operations in one batch, and return the rows of each by its name."""
    found: defaultdict[str, Sequence[Row]] = defaultdict(list)
    if reads:
        found.update(zip(reads, (yield list(reads.values())), strict=True))
    return found
