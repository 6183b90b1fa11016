"""Retention policies: how fast memories fade, and what happens to those that have faded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from shared_core.core.domain import JsonValue, MemoryKind
from shared_core.core.validation import number
from shared_core.errors import InvalidInput

DECAY_RATE: Final = 0.1
THRESHOLD: Final = 0.1
MIN_AGE_DAYS: Final = 7.0

FADING: Final[tuple[MemoryKind, ...]] = ("episodic", "summary", "reflection")
"""What fades unless a policy says otherwise. Facts end when another takes their place; items are
their owner's."""

Stage: TypeAlias = Literal["kept", "demoted", "archived"]
STAGES: Final[tuple[Stage, ...]] = ("kept", "demoted", "archived")
"""In the order of their numbers in the database. What is erased is in no stage: it is gone."""


def share(value: float, what: str) -> float:
    """Return value, or raise InvalidInput, naming what, unless it is from 0 to 1."""
    return number(value, what, 0, 1)


def at_least_zero(value: float, what: str) -> float:
    """Return value, or raise InvalidInput, naming what, unless it is finite and not negative."""
    return number(value, what, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """How fast memories fade, and what becomes of those that have faded.

    decay_rate: λ, a day; 0 keeps everything as it is. threshold: below this score, 0 to 1, a memory
    is demoted, out of recall; 0 forgets nothing. min_age_days: younger memories never are.
    A demoted memory is archived, compacted without its vector, once it has been demoted for
    archive_after_days and its score is below archive_threshold; None: it is not. It is erased once
    it has been in the stage before for erase_after_days and its score is below erase_threshold;
    None, the default: never. 1 as one of these thresholds leaves it to the days. with_history: with
    a fact that is erased go the ended facts of its place.
    """

    decay_rate: float = DECAY_RATE
    threshold: float = THRESHOLD
    min_age_days: float = MIN_AGE_DAYS
    archive_threshold: float | None = 0.05
    archive_after_days: float = 30.0
    erase_threshold: float | None = None
    erase_after_days: float = 90.0
    with_history: bool = True

    def __post_init__(self) -> None:
        at_least_zero(self.decay_rate, "decay_rate")
        share(self.threshold, "threshold")
        for name in ("min_age_days", "archive_after_days", "erase_after_days"):
            at_least_zero(getattr(self, name), name)
        for name in ("archive_threshold", "erase_threshold"):
            value = getattr(self, name)
            if value is not None:
                share(value, name)
        if not isinstance(self.with_history, bool):
            raise InvalidInput(f"with_history must be True or False, not {self.with_history!r:.80}")


POLICIES: Final[Mapping[str, RetentionPolicy]] = MappingProxyType(
    {
        "default": RetentionPolicy(),
        "high-interaction": RetentionPolicy(
            decay_rate=0.15, threshold=0.15, archive_after_days=14, erase_threshold=0.05
        ),
        "low-interaction": RetentionPolicy(decay_rate=0.05, threshold=0.05, archive_after_days=90),
        "sensitive": RetentionPolicy(
            decay_rate=0.3, threshold=0.2, archive_threshold=None, erase_threshold=0.2,
            erase_after_days=7,
        ),
        "knowledge": RetentionPolicy(decay_rate=0.02, threshold=0.02, archive_threshold=None),
    }
)  # fmt: skip
"""The documented settings by use: much or little interaction, sensitive text, a knowledge base.
Decay rates and thresholds are the documented ones; what follows demotion is ours: only where little
is lost, or a short memory is the point, is anything erased."""

Rules: TypeAlias = Mapping[MemoryKind, RetentionPolicy | None]
"""The policy of each kind of memory; None for a kind that never fades."""


def default_rules(policy: RetentionPolicy) -> dict[MemoryKind, RetentionPolicy | None]:
    """Return the rules of a policy for what fades by default; facts and items do not."""
    kinds: tuple[MemoryKind, ...] = (*FADING, "semantic", "item")
    return {kind: policy if kind in FADING else None for kind in kinds}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What the initial strength of a new memory may depend on. arousal: 0 to 1, 0 if unknown."""

    kind: MemoryKind
    text: str
    importance: float
    arousal: float
    metadata: Mapping[str, JsonValue]


Strength: TypeAlias = Callable[[Traits], float | None]
"""Gives the initial strength of a new memory, 0 to 1; None for that of its importance. It is kept,
so that the database reckons with the same."""
