"""What the routes of the conversation layer answer, for OpenAPI."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from shared_core.http.answers import HitAnswer, IsoTime, shown


class ProcessedMemory(BaseModel):
    """A memory that has to do with the input; score: 0 to 1."""

    content: str
    score: float


class ProcessedRelation(BaseModel):
    """A relation that the knowledge graph knows."""

    source: str
    relation: str
    target: str


class ProcessMetadata(BaseModel):
    """How long it took, and whether anything was found."""

    retrieval_time_ms: int
    has_memory: bool


class ProcessAnswer(BaseModel):
    """What is known from before that has to do with the input."""

    model_config = shown(
        status="success",
        resolved_query="你喜欢吃桔子吗？",
        memories=[{"content": "我喜欢吃桔子", "score": 0.87}],
        relations=[{"source": "小朱", "relation": "喜欢", "target": "桔子"}],
        metadata={"retrieval_time_ms": 45, "has_memory": True},
    )

    status: Literal["success"]
    resolved_query: str
    memories: list[ProcessedMemory]
    relations: list[ProcessedRelation]
    metadata: ProcessMetadata


class EndedSession(BaseModel):
    """The session that ended."""

    event_count: int
    duration_seconds: int
    created_at: IsoTime
    ended_at: IsoTime


class EndAnswer(BaseModel):
    """Whether a session ended; it is consolidated afterwards."""

    model_config = shown(
        status="success",
        message="Session ending, consolidation started",
        session_info={
            "event_count": 10,
            "duration_seconds": 1500,
            "created_at": "2026-01-22T10:00:00Z",
            "ended_at": "2026-01-22T10:25:00Z",
        },
    )

    status: Literal["success"]
    message: str
    session_info: EndedSession | None


class ActiveSession(BaseModel):
    """The session as it stands."""

    event_count: int
    created_at: IsoTime
    last_active_at: IsoTime
    time_until_timeout_seconds: int


class StatusAnswer(BaseModel):
    """Whether the user has an active session, and how it stands."""

    model_config = shown(
        status="success",
        has_active_session=True,
        session_info={
            "event_count": 5,
            "created_at": "2026-01-22T10:00:00Z",
            "last_active_at": "2026-01-22T10:25:00Z",
            "time_until_timeout_seconds": 300,
        },
    )

    status: Literal["success"]
    has_active_session: bool
    session_info: ActiveSession | None


class DebugAnswer(BaseModel):
    """The session as it stands, and what the input would find, with every part of each score."""

    status: Literal["success"]
    query: str
    session_info: ActiveSession | None
    hits: list[HitAnswer]
