"""What tools answer, with the schema that clients are told."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field


class Known(BaseModel):
    """A memory that has to do with an input."""

    content: str
    score: float = Field(description="How much it has to do with the input, 0 to 1.")


class Relation(BaseModel):
    """A relation of the knowledge graph that has to do with an input."""

    source: str
    relation: str
    target: str


class Metadata(BaseModel):
    """About an answer."""

    retrieval_time_ms: int
    has_memory: bool


class Processed(BaseModel):
    """What process_memory() answers."""

    status: str
    resolved_query: str = Field(description="The input with its pronouns replaced.")
    memories: list[Known] = Field(description="What is known from before, best first.")
    relations: list[Relation]
    metadata: Metadata


class EndedSession(BaseModel):
    """The session that ended."""

    event_count: int
    duration_seconds: int
    created_at: str
    ended_at: str


class SessionEnd(BaseModel):
    """What end_session() answers. session_info is null if no session was active."""

    status: str
    message: str
    session_info: EndedSession | None


class ActiveSession(BaseModel):
    """The active session."""

    event_count: int
    created_at: str
    last_active_at: str
    time_until_timeout_seconds: int


class SessionStatus(BaseModel):
    """What get_session_status() answers."""

    status: str
    has_active_session: bool
    session_info: ActiveSession | None


class Part(BaseModel):
    """A candidate and why it has its place."""

    key: str
    content: str
    kind: str
    score: float
    parts: dict[str, float] = Field(description="What its score is made of.")


class Debugged(BaseModel):
    """What debug_process_memory() answers: nothing is remembered."""

    query: str
    session: SessionStatus
    candidates: list[Part]


class Remembered(BaseModel):
    """What remember() answers."""

    key: str = Field(description="Names the memory, e.g. for forget.")


class Forgotten(BaseModel):
    """What forget() answers."""

    forgotten: int = Field(description="How many memories went, with what was drawn from them.")


class Found(BaseModel):
    """A memory and how well it answers."""

    key: str
    content: str
    kind: str = Field(description="episodic, semantic, summary, reflection or item")
    score: float = Field(description="Of this answer alone; higher is better.")
    occurred_at: datetime


class Recalled(BaseModel):
    """What recall() answers, best first."""

    memories: list[Found]


class Concluded(BaseModel):
    """What may be concluded of a mind."""

    dimension: str = Field(description="intent, emotion, cognition, social or trend")
    text: str
    confidence: float
    quotes: list[str] = Field(description="What it rests on, word for word.")


class UserProfile(BaseModel):
    """What get_user_profile() answers."""

    agent_id: str
    version: int = Field(description="0 while nothing is known.")
    profile: str = Field(description="Who the user is, in one paragraph.")
    events: list[str] = Field(description="What happened, oldest first.")
    findings: list[Concluded]


class UpdatedProfile(UserProfile):
    """What update_user_profile() answers."""

    changed: bool = Field(description="Whether there is a new version.")
    new_turns: int = Field(description="How many messages were not remembered before.")
    conversation_id: str


class Related(BaseModel):
    """An edge of the knowledge graph."""

    source: str
    relation: str
    target: str
    since: datetime = Field(description="Since when it holds.")


class UserGraph(BaseModel):
    """What get_user_graph() answers, nearest and newest first."""

    entity: str
    relations: list[Related]
    more: bool = Field(description="Whether there are more than were asked for.")
