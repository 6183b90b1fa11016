"""What requests about profiles say, and what answers hold."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from shared_core.core.domain import GivenRole
from shared_core.http import bodies
from shared_core.http.answers import IsoTime, shown
from shared_core.http.patterns import NO_NUL

MAX_VERSION = 2**31 - 1
MOST_MESSAGES = 500

Version = Annotated[int, Field(ge=1, le=MAX_VERSION)]
AgentId = Annotated[
    bodies.Name | None,
    Field(description="Who knows the user, or whose profile it is; the application if left out."),
]
Subject = Annotated[
    Literal["user", "agent"], Field(description="Of whom it tells: the user, or the agent itself.")
]
Language = Annotated[
    Literal["en", "zh"] | None, Field(description="Of the headings; that of the texts if left out.")
]


class MessageBody(BaseModel):
    """One message. Without an id of yours it is known by its conversation, place and words."""

    model_config = bodies.example(role="user", content="I live in Lisbon.")

    role: GivenRole
    content: bodies.Text
    author: bodies.Name | None = None
    timestamp: bodies.Moment | None = None
    message_id: bodies.Name | None = None
    message_type: Annotated[str, Field(min_length=1, max_length=50), NO_NUL] = "text"
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class ProfileUpdateBody(BaseModel):
    """A conversation. With an id of its own, sent again it changes nothing."""

    model_config = bodies.example(
        user_id="ana",
        conversation_id="monday",
        messages=[
            {"role": "user", "content": "I live in Leeds. I want to learn Rust."},
            {"role": "assistant", "content": "What brings you here?"},
        ],
    )

    user_id: bodies.UserId = bodies.LEFT_OUT
    app: bodies.App = None
    agent_id: AgentId = None
    subject: Subject = "user"
    conversation_id: bodies.ThreadName | None = None
    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=MOST_MESSAGES)]

    def conversation(self) -> dict[str, Any]:
        """Return the conversation as the core takes it."""
        return {
            "conversation_id": self.conversation_id,
            "messages": [one.model_dump() for one in self.messages],
        }


class ProfileRollbackBody(BaseModel):
    """The version that a new one shall say the same as."""

    model_config = bodies.example(user_id="ana", version=1)

    user_id: bodies.UserId = bodies.LEFT_OUT
    app: bodies.App = None
    agent_id: AgentId = None
    subject: Subject = "user"
    version: Annotated[Version, BeforeValidator(bodies.whole)]


class FindingAnswer(BaseModel):
    """What may be concluded of a mind, and what it rests on."""

    dimension: Literal["intent", "emotion", "cognition", "social", "trend"]
    label: str
    text: str
    confidence: float
    quotes: list[str]


class ProfileAnswer(BaseModel):
    """A profile: who somebody is, what happened, what may be concluded, and how it is related."""

    model_config = shown(
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
    created_at: IsoTime
    updated_at: IsoTime
    content_hash: str
    profile: str
    events: list[str]
    findings: list[FindingAnswer]
    relations: list[dict[str, Any]]
    prompt: str


class ProfileUpdated(BaseModel):
    """The profile after a conversation, and what each stage did, in counts."""

    model_config = ConfigDict(extra="allow")

    changed: bool
    previous_version: int
    run_id: str
    conversation_id: str
    new_turns: int
    profile: ProfileAnswer


class ProfileVersionAnswer(BaseModel):
    """A version. revision: how often it was told again by other turns."""

    version: int
    revision: int
    content_hash: str
    run_id: str | None
    created_at: IsoTime


class ProfileVersions(BaseModel):
    """The versions that are kept, newest first."""

    versions: list[ProfileVersionAnswer]


class ProfileDiffAnswer(BaseModel):
    """What changed from one version to another."""

    model_config = shown(
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
