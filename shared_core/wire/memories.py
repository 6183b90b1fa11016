"""The answers about memories, their recall and their erasure."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, Field

from shared_core.core.domain import MemoryKind
from shared_core.core.retention_policy import Stage
from shared_core.wire.examples import with_example
from shared_core.wire.facts import CitedTurnAnswer, FactAnswer
from shared_core.wire.graph import EdgeAnswer

Score = Annotated[float, Field(description="Rank within this answer alone; higher is better.")]


class Keys(BaseModel):
    """The keys of the stored memories, in order."""

    model_config = with_example(keys=["0193f6f2-c4d8-7e0f-9a7d-5e0c4b1a2f3e", "cats"])

    keys: list[str]


class SetAsideTopic(BaseModel):
    """What was set aside about a topic, at the request of the user; it is erased at `until`."""

    topic: str
    memories: int
    facts: int
    edges: int
    run_id: str | None
    until: str | None


class NewEvents(BaseModel):
    """The ids of the turns that were not stored before.

    edited: the ids of turns that were stored with other words, which these replace. set_aside: what
    went because a turn of the user asked to forget a topic; `run_id` undoes it.
    """

    model_config = with_example(new=["1"], edited=[], set_aside=[])

    new: list[str]
    edited: list[str] = []
    set_aside: list[SetAsideTopic] = []


class MemoryAnswer(BaseModel):
    """A memory. doubted_at: since when it is a doubtful fact, which a turn may have ended."""

    memory_id: str
    key: str
    kind: MemoryKind
    text: str
    author: str | None
    importance: float
    occurred_at: AwareDatetime
    doubted_at: AwareDatetime | None
    thread_id: str | None
    source_event_ids: list[str]


class HitAnswer(MemoryAnswer):
    """A memory that answers a question. parts: of its score, only where `explain` asks for them."""

    valid_from: AwareDatetime | None
    score: Score
    matched: list[str]
    parts: dict[str, float] = {}


class Memories(BaseModel):
    """A page of memories, newest first."""

    memories: list[MemoryAnswer]


class MemoryCount(BaseModel):
    """The number of memories."""

    model_config = with_example(count=120)

    count: int


class Hits(BaseModel):
    """Hits, best first."""

    hits: list[HitAnswer]


class RecallAnswer(Hits):
    """Hits, best first, and the edges of the entities that the question names.

    degraded: the embedder was down, so the hits match by words alone.
    """

    edges: list[EdgeAnswer]
    degraded: bool


class TimeBucketAnswer(BaseModel):
    """A part of a period, and its number of memories."""

    begin: AwareDatetime
    end: AwareDatetime
    count: int


class Timeline(BaseModel):
    """The memories of a period, with scores if there was a query. buckets: of the whole period."""

    begin: AwareDatetime | None
    end: AwareDatetime | None
    memories: list[HitAnswer | MemoryAnswer]
    buckets: list[TimeBucketAnswer]


class MemoryDetailAnswer(MemoryAnswer):
    """A memory with its provenance, its retention, and what was derived from it.

    fact: null unless it states a fact. score: its retention score, 0 to 1. bases: the memories that
    a reflection was drawn from.
    """

    created_at: AwareDatetime
    updated_at: AwareDatetime
    expires_at: AwareDatetime | None
    superseded_at: AwareDatetime | None
    is_current: bool
    value: dict[str, Any]
    turns: list[CitedTurnAnswer]
    fact: FactAnswer | None
    models: list[str]
    stage: Stage
    is_pinned: bool
    score: float
    leaves_stage_at: AwareDatetime | None
    access_count: int
    last_accessed_at: AwareDatetime | None
    bases: list[MemoryAnswer]
    derived: list[MemoryAnswer]


class Forgotten(BaseModel):
    """The number of memories removed."""

    model_config = with_example(forgotten=2)

    forgotten: int


class Receipt(BaseModel):
    """The receipt of an erasure, without any erased text.

    counts: erased rows by table, except for "tombstones" (rows written so that erased data does not
    come back) and "api_tokens" (tokens that named the user).
    """

    erasure_id: str
    app: str
    user_id: str
    thread_id: str | None
    counts: dict[str, int]
    requested_at: AwareDatetime
    completed_at: AwareDatetime
    receipt_hash: str


class ListedReceipt(Receipt):
    """A receipt. is_intact: whether its hash matches its other fields."""

    is_intact: bool


class Receipts(BaseModel):
    """The receipts of erasures, newest first."""

    receipts: list[ListedReceipt]


class Erased(Receipt):
    """The receipt of an erasure. erased: the number of memories."""

    model_config = with_example(
        erased=120,
        erasure_id="0193f6f2-c4d8-7e0f-9a7d-5e0c4b1a2f3e",
        app="my_app",
        user_id="ana",
        thread_id=None,
        counts={"memories": 120, "events": 80, "tombstones": 80},
        requested_at="2026-01-22T10:00:00+00:00",
        completed_at="2026-01-22T10:00:00+00:00",
        receipt_hash="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    )

    erased: int
