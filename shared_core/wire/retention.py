"""The answers about retention."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel

from shared_core.core.domain import MemoryKind
from shared_core.core.retention_policy import Fate, Stage
from shared_core.wire.examples import with_example


class KeptAnswer(BaseModel):
    """A memory and its stage. leaves_stage_at: null for never."""

    memory_id: str
    key: str
    kind: MemoryKind
    text: str
    stage: Stage
    staged_at: AwareDatetime | None
    is_pinned: bool
    importance: float
    access_count: int
    last_accessed_at: AwareDatetime | None
    created_at: AwareDatetime
    leaves_stage_at: AwareDatetime | None


class FadedMemories(BaseModel):
    """A page of faded memories, latest first."""

    memories: list[KeptAnswer]


class ChangedMemories(BaseModel):
    """The number of memories changed, and the keys that match no memory."""

    model_config = with_example(changed=1, unknown=[])

    changed: int
    unknown: list[str]


class KindStatsAnswer(BaseModel):
    """Statistics of a kind of memory. buckets: number of memories by tenth of the score."""

    count: int
    fades: int
    pinned: int
    stages: dict[Stage, int]
    buckets: list[int]
    average_score: float | None


class RetentionStatsAnswer(KindStatsAnswer):
    """Retention statistics of all kinds and of each kind.

    high, medium, low: number of memories that score 0.7 or more, 0.3 or more, less. ahead: by
    number of days, how many memories meet each fate if nobody reads them.
    """

    as_of: AwareDatetime
    high: int
    medium: int
    low: int
    kinds: dict[MemoryKind, KindStatsAnswer]
    ahead: dict[str, dict[Fate, int]]


class PolicyAnswer(BaseModel):
    """How a kind of memory fades."""

    decay_rate: float
    threshold: float
    min_age_days: float
    archive_threshold: float | None
    archive_after_days: float
    erase_threshold: float | None
    erase_after_days: float
    with_history: bool


class RetentionPolicies(BaseModel):
    """The policy of each kind of memory; null for a kind that never fades."""

    policy: dict[MemoryKind, PolicyAnswer | None]


class RetentionPolicySet(RetentionPolicies):
    """The policy that holds now. retimed: number of memories with a new time to fade."""

    retimed: int
