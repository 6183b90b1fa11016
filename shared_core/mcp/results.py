"""What tools answer, with the schema that clients are told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel, Field

from shared_core.conversation.answers import ProcessedInput, StatusOfSession
from shared_core.core.domain import JsonValue


class ExplainedHit(BaseModel):
    """A candidate and why it has its place."""

    key: str
    content: str
    kind: str
    score: float
    parts: dict[str, float] = Field(description="What its score is made of.")


class Debugged(ProcessedInput):
    """What process_memory() would answer, and what it looked at: nothing is remembered."""

    query: str
    session: StatusOfSession
    candidates: list[ExplainedHit]


def part_of(hit: Mapping[str, JsonValue]) -> ExplainedHit:
    """Return a hit, as Hit.to_dict() returns it, as a candidate."""
    return ExplainedHit.model_validate({**hit, "content": hit["text"]})


class RememberReply(BaseModel):
    """What remember() answers."""

    key: str = Field(description="Names the memory, e.g. for forget.")


class ForgetReply(BaseModel):
    """What forget() answers."""

    forgotten: int = Field(description="How many memories went, with what was drawn from them.")


class RecalledMemory(BaseModel):
    """A memory and how well it answers."""

    key: str
    content: str
    kind: str = Field(description="episodic, semantic, summary, reflection or item")
    score: float = Field(description="Of this answer alone; higher is better.")
    occurred_at: datetime


class RecallReply(BaseModel):
    """What recall() answers, best first."""

    memories: list[RecalledMemory]


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
