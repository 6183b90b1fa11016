"""The answers of the conversation layer."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict

from shared_core.wire.examples import with_example
from shared_core.wire.memories import HitAnswer, SetAsideTopic


class ProcessedMemory(BaseModel):
    """A memory that is relevant to an input. score: 0 to 1."""

    content: str
    score: float


class ProcessedRelation(BaseModel):
    """An edge of the knowledge graph, in words."""

    source: str
    relation: str
    target: str


class ProcessMetadata(BaseModel):
    """How an answer was found. has_memory: whether it has any memory.

    taken_in: false if the input has the event_id of a forgotten one. set_aside: what went because
    the user asked to forget a topic.
    """

    retrieval_time_ms: int
    has_memory: bool
    taken_in: bool = True
    set_aside: list[SetAsideTopic] = []


class ProcessAnswer(BaseModel):
    """The memories and relations relevant to an input, best first.

    resolved_query: the input with its pronouns replaced.
    """

    model_config = with_example(
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


class EndedSessionInfo(BaseModel):
    """A conversation that ended."""

    event_count: int
    duration_seconds: int
    created_at: AwareDatetime
    ended_at: AwareDatetime


class EndedSessionAnswer(BaseModel):
    """The conversation that ended, or null if none was active. A job consolidates it afterwards."""

    model_config = with_example(
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
    session_info: EndedSessionInfo | None


class ActiveSessionInfo(BaseModel):
    """An active conversation."""

    event_count: int
    created_at: AwareDatetime
    last_active_at: AwareDatetime
    time_until_timeout_seconds: int


class SessionStatusAnswer(BaseModel):
    """Whether a user has an active conversation, and its state."""

    model_config = with_example(
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
    session_info: ActiveSessionInfo | None


class DebugAnswer(ProcessAnswer):
    """What a message would find, with the parts of each score, and the session."""

    model_config = ConfigDict(json_schema_extra=None)

    query: str
    session_info: ActiveSessionInfo | None
    hits: list[HitAnswer]
