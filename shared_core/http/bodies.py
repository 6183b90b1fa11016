"""What requests say, with bounds and examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
)

from shared_core.core.domain import ROLES, AsOf, Event, GivenRole, MemoryKind, NewMemory
from shared_core.http.patterns import NO_NUL, NOT_BLANK, NOT_BLANK_NAME
from shared_core.ports.recall import Ranking

MAX_NAME = 256
MAX_TEXT = 100_000
MAX_QUERY = 10_000

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def rfc_3339(value: object) -> datetime:
    """Return the moment that a text names. Raises ValueError for anything else, numbers too."""
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        raise ValueError("take a moment as 2024-05-01T09:30:00+02:00")
    return datetime.fromisoformat(value.upper())


def whole(value: object) -> object:
    """Return 58 for 58.0, which is a whole number in JSON; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Moment = Annotated[AwareDatetime, BeforeValidator(rfc_3339)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME), NO_NUL]
OwnerName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), NOT_BLANK_NAME]
UserId = Annotated[OwnerName, Field(description="The user of the application.", examples=["ana"])]
LEFT_OUT = ""
"""The user_id of a body that has none: its token is for one user."""
App = Annotated[
    OwnerName | None,
    Field(
        description="The application. With a token it is the token's and may be left out.",
        examples=["my_app"],
    ),
]
ThreadName = Annotated[Name, Field(description="The conversation.", examples=["monday"])]
Query = Annotated[str, Field(max_length=MAX_QUERY, description="A question, or words to look for.")]
SomeQuery = Annotated[Query, NOT_BLANK]
Text = Annotated[str, Field(max_length=MAX_TEXT), NOT_BLANK]
Limit = Annotated[int, Field(ge=1, le=100, description="So many at most."), BeforeValidator(whole)]
Importance = Annotated[float, Field(ge=1, le=10, description="1 (trivial) to 10 (vital).")]
Kinds = Annotated[
    list[MemoryKind] | None, Field(min_length=1, max_length=5, description="Only these kinds.")
]
Share = Annotated[float, Field(ge=0, le=1)]


def example(**values: JsonValue) -> ConfigDict:
    """Return the settings of a body: nothing unknown, and an example."""

    def tell(schema: dict[str, Any]) -> None:
        schema["examples"] = [values]
        user = schema["properties"].get("user_id", {})
        if user.pop("default", None) == LEFT_OUT:
            user["description"] += " With a token for one user it may be left out."
            schema["required"] = ["user_id", *schema.get("required", ())]

    return ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, json_schema_extra=tell)


class ProcessBody(BaseModel):
    """What a user says."""

    model_config = example(input="我叫小朱", user_id="user_001")

    input: Text
    user_id: UserId = LEFT_OUT
    app: App = None
    event_id: Name | None = Field(
        default=None,
        description="An id of yours: sent again with it, it is there once.",
    )


class UserBody(BaseModel):
    """A user."""

    model_config = example(user_id="user_001")

    user_id: UserId = LEFT_OUT
    app: App = None


class EraseBody(UserBody):
    """Who is erased; with a thread, that alone."""

    user_id: UserId
    thread_id: Name | None = Field(default=None, description="Only this thread, or session.")


class RememberedMemory(BaseModel):
    """Something to remember. The same key again replaces what was remembered."""

    model_config = example(text="Ana drinks green tea.", key="tea", importance=6)

    text: Text
    kind: MemoryKind = "semantic"
    key: Name | None = None
    author: Name | None = None
    importance: Importance = 5.0
    occurred_at: Moment | None = None
    expires_at: Moment | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    def to_memory(self) -> NewMemory:
        """Return it as the core knows it."""
        return NewMemory(
            text=self.text,
            kind=self.kind,
            key=self.key,
            author=self.author,
            importance=self.importance,
            occurred_at=self.occurred_at,
            expires_at=self.expires_at,
            metadata=self.metadata,
        )


def _form_of(given: object) -> str:
    return "memory" if isinstance(given, Mapping | RememberedMemory) else "text"


TextOrMemory = Annotated[
    Annotated[Text, Tag("text")] | Annotated[RememberedMemory, Tag("memory")],
    Discriminator(_form_of),
]
"""Told apart by its form, so that a fault names what was given, and nothing else."""


class RememberBody(BaseModel):
    """Texts, or memories with more than a text."""

    model_config = example(
        user_id="ana",
        memories=["Ana drinks green tea.", {"text": "Ana has two cats.", "key": "cats"}],
    )

    user_id: UserId = LEFT_OUT
    app: App = None
    memories: Annotated[list[TextOrMemory], Field(min_length=1, max_length=100)]


class TurnBody(BaseModel):
    """One turn of a conversation. event_id: of your own; the same turn twice is one."""

    model_config = example(
        event_id="1", role="user", author="ana", text="I live in Lisbon.",
        occurred_at="2026-03-01T12:00:00Z",
    )  # fmt: skip

    event_id: Name
    role: GivenRole
    author: Annotated[str, Field(max_length=MAX_NAME), NO_NUL] = ""
    text: Annotated[str, Field(max_length=MAX_TEXT)]
    occurred_at: Moment
    importance: Importance = 5.0
    expires_at: Moment | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    def to_event(self) -> Event:
        """Return it as the core knows it."""
        return Event(
            event_id=self.event_id,
            role=ROLES[self.role],
            author=self.author,
            text=self.text,
            occurred_at=self.occurred_at,
            importance=self.importance,
            expires_at=self.expires_at,
            metadata=self.metadata,
        )


class EventsBody(BaseModel):
    """Turns of a conversation. later: answer at once, and embed and consolidate them afterwards."""

    model_config = example(
        user_id="ana",
        thread_id="monday",
        events=[
            {
                "event_id": "1",
                "role": "user",
                "author": "ana",
                "text": "I live in Lisbon.",
                "occurred_at": "2026-03-01T12:00:00Z",
            }
        ],
    )

    user_id: UserId = LEFT_OUT
    app: App = None
    thread_id: ThreadName
    events: Annotated[list[TurnBody], Field(min_length=1, max_length=500)]
    later: bool = True


class AsOfBody(BaseModel):
    """A moment: valid, what held then; known, as it was believed then."""

    model_config = example(valid="2024-05-01T00:00:00Z")

    valid: Moment | None = None
    known: Moment | None = None

    def to_as_of(self) -> AsOf:
        """Return it as the core knows it."""
        return AsOf(valid=self.valid, known=self.known)


def moments(as_of: AsOfBody | None) -> AsOf | None:
    """Return the moments of a body; None for what is current."""
    return None if as_of is None else as_of.to_as_of()


class SearchBody(BaseModel):
    """A search by meaning alone."""

    model_config = example(user_id="ana", query="What does Ana drink?")

    user_id: UserId = LEFT_OUT
    app: App = None
    query: SomeQuery
    limit: Limit = 5
    kinds: Kinds = None
    as_of: AsOfBody | None = None


class RecallBody(BaseModel):
    """A question. docs/recall.md has what each option does."""

    model_config = example(user_id="ana", query="What does Ana drink?", limit=3)

    user_id: UserId = LEFT_OUT
    app: App = None
    query: SomeQuery
    limit: Limit = 10
    kinds: Kinds = None
    ranking: Ranking = "linear"
    asked_at: Moment | None = None
    as_of: AsOfBody | None = None
    min_relevance: Share = 0.0
    distinct: bool = False
    diversity: Share = 0.0


class ContextBody(BaseModel):
    """What a model should read before it answers, within a budget of tokens."""

    model_config = example(
        user_id="ana", thread_id="monday", query="What should I cook?", max_tokens=2000
    )

    user_id: UserId = LEFT_OUT
    app: App = None
    thread_id: ThreadName
    query: Query
    system_prompt: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    max_tokens: Annotated[int, Field(ge=64, le=200_000), BeforeValidator(whole)] = 8000
    instructions: Annotated[
        list[Annotated[str, Field(max_length=MAX_TEXT)]], Field(max_length=100)
    ] = Field(default_factory=list)
    profile: Annotated[str, Field(max_length=MAX_TEXT)] | None = None
    as_of: AsOfBody | None = None


class ForgetBody(BaseModel):
    """Memories by key, or by memory id."""

    model_config = example(user_id="ana", keys=["tea"])

    user_id: UserId = LEFT_OUT
    app: App = None
    keys: Annotated[list[Name], Field(min_length=1, max_length=1000)]


class ThreadJobBody(BaseModel):
    """Work on a conversation that is wanted now."""

    model_config = example(user_id="ana", thread_id="monday", job_type="full_consolidation")

    user_id: UserId = LEFT_OUT
    app: App = None
    thread_id: ThreadName
    job_type: Literal["fast_replay", "deep_reflection", "full_consolidation"]


class ReflectionBody(BaseModel):
    """A reflection on all that is remembered of a user."""

    model_config = example(user_id="ana", job_type="reflection")

    user_id: UserId = LEFT_OUT
    app: App = None
    job_type: Literal["reflection"]


JobBody = Annotated[ThreadJobBody | ReflectionBody, Field(discriminator="job_type")]
