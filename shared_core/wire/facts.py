"""The answers about facts and runs."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, BaseModel

from shared_core.core.domain import FactType


class CitedTurnAnswer(BaseModel):
    """A turn that explains a fact. text: null if it was forgotten."""

    thread_id: str
    event_id: str
    text: str | None
    author: str | None
    said_at: AwareDatetime | None


class FactReasonAnswer(BaseModel):
    """What states, doubts or ends a fact. fact_key: the fact that took its place."""

    turns: list[CitedTurnAnswer]
    extractor: str
    pattern: str
    run_id: str | None
    fact_key: str | None


class FactReasonsAnswer(BaseModel):
    """Why a fact is held."""

    stated: FactReasonAnswer
    doubted: FactReasonAnswer | None
    ended: FactReasonAnswer | None


class FactAnswer(BaseModel):
    """A fact. is_doubtful: a turn may have ended it. why: only if asked for."""

    key: str
    slot: str
    value: str
    statement: str
    fact_type: FactType
    confidence: float
    extractor: str
    pattern: str
    valid_from: AwareDatetime
    valid_until: AwareDatetime | None
    recorded_at: AwareDatetime | None
    superseded_at: AwareDatetime | None
    doubted_at: AwareDatetime | None
    is_doubtful: bool
    thread_id: str | None
    source_event_ids: list[str]
    why: FactReasonsAnswer | None = None


class ListedFacts(BaseModel):
    """The facts of a user, current ones first."""

    facts: list[FactAnswer]


class RunAnswer(BaseModel):
    """A run. counts: its changes and its model usage. undone_at: null unless it was undone."""

    run_id: str
    kind: str
    thread_id: str | None
    extractor: str
    counts: dict[str, Any]
    started_at: AwareDatetime
    finished_at: AwareDatetime
    undone_at: AwareDatetime | None


class ListedRuns(BaseModel):
    """Runs, newest first."""

    runs: list[RunAnswer]


class Undone(BaseModel):
    """The run is undone."""

    undone: str
