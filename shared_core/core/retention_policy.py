"""Retention policies: how fast memories fade, and what happens to faded ones. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from shared_core.core.domain import JsonValue, MemoryKind
from shared_core.core.shown import shown
from shared_core.core.validation import number
from shared_core.errors import InvalidInput

DECAY_RATE: Final = 0.1
THRESHOLD: Final = 0.1
MIN_AGE_DAYS: Final = 7.0

FADING: Final[tuple[MemoryKind, ...]] = ("episodic", "summary", "reflection")
"""Kinds that fade by default. Facts are superseded instead, and items belong to their owner."""

Fate: TypeAlias = Literal["demoted", "archived", "erased"]
FATES: Final[tuple[Fate, ...]] = ("demoted", "archived", "erased")
Stage: TypeAlias = Literal["kept", "demoted", "archived"]
STAGES: Final[tuple[Stage, ...]] = ("kept", "demoted", "archived")
"""In the order of their numbers in the database. Erased memories have no stage."""


def share(value: float, what: str) -> float:
    """Return value if it is between 0 and 1, else raise InvalidInput, naming what."""
    return number(value, what, 0, 1)


def at_least_zero(value: float, what: str) -> float:
    """Return value if it is finite and not negative, else raise InvalidInput, naming what."""
    return number(value, what, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """How fast memories fade, and what happens to faded ones.

    Attributes:
        decay_rate: λ per day; 0 stops decay.
        threshold: a memory whose score (0 to 1) falls below it is demoted out of recall; 0 demotes
            nothing.
        min_age_days: younger memories are never demoted.
        archive_threshold: a demoted memory with a lower score is archived: compacted, without its
            vector. None never archives; 1 leaves only the days.
        archive_after_days: days in its stage before a demoted memory is archived.
        erase_threshold: a memory with a lower score is erased. None, the default, never erases;
            1 leaves only the days.
        erase_after_days: days in its stage before a memory is erased.
        with_history: erasing a fact also erases the ended facts of the same slot.
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
            raise InvalidInput(
                f"with_history must be True or False, got {shown(self.with_history)}"
            )


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
"""Presets by use. Decay rates and thresholds are the documented ones. The stages after demotion are
a choice: a preset erases only where little is lost or a short memory is intended."""

Rules: TypeAlias = Mapping[MemoryKind, RetentionPolicy | None]
"""The policy of each kind of memory; None for a kind that never fades."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Inputs of the initial strength of a new memory. arousal: 0 to 1, 0 if unknown."""

    kind: MemoryKind
    text: str
    importance: float
    arousal: float
    metadata: Mapping[str, JsonValue]


Strength: TypeAlias = Callable[[Traits], float | None]
"""Returns the initial strength of a new memory, 0 to 1, or None to derive it from its importance.
The value is stored, so that the database uses the same one."""
