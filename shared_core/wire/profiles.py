"""The answers about profiles."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel

from shared_core.wire.examples import with_example


class FindingAnswer(BaseModel):
    """A conclusion about a mind, and the quotes that support it."""

    dimension: Literal["intent", "emotion", "cognition", "social", "trend"]
    label: str
    text: str
    confidence: float
    quotes: list[str]


class ProfileRelationAnswer(BaseModel):
    """A relation from one entry of a profile to another."""

    kind: Literal["replaces", "tells_of", "concluded_from", "follows"]
    source_id: str
    target_id: str
    confidence: float


class ProfileAnswer(BaseModel):
    """A profile: who a person is, what happened, what may be concluded, and relations."""

    model_config = with_example(
        memory_id="01a203be-a115-7f64-a609-b16e78749acf",
        agent_id="my_app",
        subject="user",
        version=1,
        created_at="2026-03-02T09:00:00+00:00",
        updated_at="2026-03-02T09:00:00+00:00",
        content_hash="9f2c",
        profile="User lives in Leeds.",
        events=['On 2026-03-02 the user said: "I live in Leeds. I want to learn Rust."'],
        findings=[
            {
                "dimension": "intent",
                "label": "goal",
                "text": 'goal: "I want to learn Rust."',
                "confidence": 0.6,
                "quotes": ["I want to learn Rust."],
            }
        ],
        relations=[],
        prompt="## User profile\nUser lives in Leeds.",
    )

    memory_id: str
    agent_id: str
    subject: Literal["user", "agent"]
    version: int
    created_at: AwareDatetime
    updated_at: AwareDatetime
    content_hash: str
    profile: str
    events: list[str]
    findings: list[FindingAnswer]
    relations: list[ProfileRelationAnswer]
    prompt: str


class ProfileStageAnswer(BaseModel):
    """A stage of an update. input, output: its counts."""

    stage: str
    status: Literal["success", "warning", "error"]
    input: dict[str, Any]
    output: dict[str, Any]
    duration_ms: float


class ProfileUpdated(BaseModel):
    """The profile after a conversation, and the counts of each stage."""

    changed: bool
    previous_version: int
    run_id: str
    conversation_id: str
    new_turns: int
    stages: list[ProfileStageAnswer]
    profile: ProfileAnswer


class ProfileVersionAnswer(BaseModel):
    """A version. revision: how often other turns repeated its content."""

    version: int
    revision: int
    content_hash: str
    run_id: str | None
    created_at: AwareDatetime


class ProfileVersions(BaseModel):
    """The stored versions, newest first."""

    versions: list[ProfileVersionAnswer]


class ProfileDiffAnswer(BaseModel):
    """The changes from one version to another."""

    model_config = with_example(
        from_version=1,
        to_version=2,
        added=["User lives in Lisbon."],
        removed=["User lives in Leeds."],
        added_events=[],
        removed_events=[],
        added_findings=[],
        removed_findings=[],
    )

    from_version: int
    to_version: int
    added: list[str]
    removed: list[str]
    added_events: list[str]
    removed_events: list[str]
    added_findings: list[str]
    removed_findings: list[str]
