"""The bodies and parameters of requests, with their limits and examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    JsonValue,
    Tag,
)
from pydantic_core import CoreSchema, core_schema
from starlette.convertors import Convertor, register_url_convertor

from shared_core.core.domain import ROLES, AsOf, Event, GivenRole, MemoryKind, NewMemory
from shared_core.core.retention_policy import DECAY_RATE, MIN_AGE_DAYS, THRESHOLD, RetentionPolicy
from shared_core.knowledge.facts import MAX_VALUE_CHARACTERS
from shared_core.ports.recall import Ranking

MAX_NAME = 256
MAX_TEXT = 100_000
MAX_QUERY = 10_000
"""Maximum lengths of names, texts and queries, in characters."""
MAX_VERSION = 2**31 - 1
MAX_DAYS = 36_500
PolicyName = Literal["default", "high-interaction", "low-interaction", "sensitive", "knowledge"]
MAX_MESSAGES = 500

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def rfc_3339(value: object) -> datetime:
    """Return the moment in an RFC 3339 text. Raises ValueError for anything else, numbers too."""
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        raise ValueError("must be a moment such as 2024-05-01T09:30:00+02:00")
    return datetime.fromisoformat(value.upper())


def whole(value: object) -> object:
    """Return 58 for 58.0, which is a whole number in JSON; anything else unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A pattern that a text must match, and the error for a text that does not."""

    pattern: str
    fault: str

    def check(self, text: str) -> str:
        """Return the text. Raises ValueError if it does not match."""
        if not re.search(self.pattern, text):
            raise ValueError(self.fault)
        return text

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern}


NO_NUL: Final = TextPattern(r"^[^\x00]*$", "must not contain NUL: PostgreSQL cannot store it")
_SHOWN: Final = r"[^\s\x00\x1c-\x1f\x85]"
"""A character that is not blank. Python's \\s holds what is named here; that of JSON Schema does
not."""
NOT_BLANK: Final = TextPattern(_SHOWN, "must not be empty or blank")
NOT_BLANK_NAME: Final = TextPattern(
    rf"^[^\x00]*{_SHOWN}[^\x00]*$", "must not be blank or contain NUL"
)

Moment = Annotated[AwareDatetime, BeforeValidator(rfc_3339)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME), NO_NUL]
OwnerName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), NOT_BLANK_NAME]
UserId = Annotated[OwnerName, Field(description="The user of the application.", examples=["ana"])]


class IdConvertor(Convertor[str]):
    """Reads the rest of a path as an id, exactly: also slashes and line feeds.

    Starlette's "path" stops at a line feed, and drops one at the end: another user's id.
    """

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """Return the id."""
        return value

    def to_string(self, value: str) -> str:
        """Return the part of the path."""
        return value


register_url_convertor("id", IdConvertor())
JobId = Annotated[UUID, Field(description="The id of the job.")]
LEFT_OUT = ""
"""The user_id of a body without one: its token is for one user."""
App = Annotated[
    OwnerName | None,
    Field(
        description="The application. Default: the application of the token.", examples=["my_app"]
    ),
]
ThreadName = Annotated[Name, Field(description="The thread.", examples=["monday"])]
Query = Annotated[str, Field(max_length=MAX_QUERY, description="A question or search words.")]
SomeQuery = Annotated[Query, NOT_BLANK]
Text = Annotated[str, Field(max_length=MAX_TEXT), NOT_BLANK]
Limit = Annotated[
    int, Field(ge=1, le=100, description="Maximum number of results."), BeforeValidator(whole)
]
MAX_LIMIT: Final = 1000
LongLimit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="Maximum number of results.")]
Importance = Annotated[float, Field(ge=1, le=10, description="1 (trivial) to 10 (vital).")]
Kinds = Annotated[
    list[MemoryKind] | None, Field(min_length=1, max_length=5, description="Only these kinds.")
]
Share = Annotated[float, Field(ge=0, le=1)]
MemoryKey = Annotated[Name, Field(description="The key or the id of a memory.")]
FactKey = Annotated[Name, Field(description="The key of the fact.")]


def example(**values: JsonValue) -> ConfigDict:
    """Return the settings of a body: it refuses unknown fields and has an example."""

    def extend(schema: dict[str, Any]) -> None:
        schema["examples"] = [values]
        user = schema["properties"].get("user_id", {})
        if user.pop("default", None) == LEFT_OUT:
            user["description"] += " Optional with a token for one user."
            schema["required"] = ["user_id", *schema.get("required", ())]

    return ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, json_schema_extra=extend)


Kind = Annotated[MemoryKind | None, Field(description="Only this kind.")]
OnlyThread = Annotated[Name | None, Field(description="Only this thread.")]
Part = Annotated[
    str,
    Field(max_length=MAX_QUERY, description="A part of the text, in upper or lower case."),
    NO_NUL,
]
Begin = Annotated[Moment | None, Field(description="Not before this moment.")]
End = Annotated[Moment | None, Field(description="Before this moment.")]
Offset = Annotated[int, Field(ge=0, le=100_000, description="Number of results to pass over.")]
AskedAt = Annotated[
    Moment | None,
    Field(description='The moment that words like "yesterday" count from. Default: now.'),
]
TimeWords = Annotated[
    Name | None,
    Field(description="Words for a time, or a moment with a zone.", examples=["last Tuesday"]),
]
OptionalUserId = Annotated[
    OwnerName | None, Field(description="Default: all users of the application.")
]


class ProcessBody(BaseModel):
    """A message of a user."""

    model_config = example(input="我叫小朱", user_id="user_001")

    input: Annotated[Text, Field(description="What the user says.")]
    user_id: UserId = LEFT_OUT
    app: App = None
    event_id: Name | None = Field(
        default=None,
        description="Your id of the message. A message sent twice with it is stored once.",
    )


class UserBody(BaseModel):
    """A user."""

    model_config = example(user_id="user_001")

    user_id: UserId = LEFT_OUT
    app: App = None


class EraseBody(UserBody):
    """The user to erase, or one thread of the user."""

    user_id: UserId
    thread_id: Name | None = Field(default=None, description="Only this thread or session.")


class RememberedMemory(BaseModel):
    """A memory to store. It replaces the memory with the same key."""

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
        """Return the memory as a value of the core."""
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
"""A tag by form, so that an error names the given form alone."""


class RememberBody(BaseModel):
    """Memories to store: texts, or objects with more than a text."""

    model_config = example(
        user_id="ana",
        memories=["Ana drinks green tea.", {"text": "Ana has two cats.", "key": "cats"}],
    )

    user_id: UserId = LEFT_OUT
    app: App = None
    memories: Annotated[
        list[TextOrMemory],
        Field(min_length=1, max_length=100, description="Texts, or objects with a text."),
    ]


class TurnBody(BaseModel):
    """One turn of a conversation. event_id is your own id; a turn sent twice is stored once."""

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
        """Return the turn as a value of the core."""
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
    """Turns of a conversation."""

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
    events: Annotated[
        list[TurnBody], Field(min_length=1, max_length=500, description="The turns, oldest first.")
    ]
    later: Annotated[
        bool, Field(description="Answer at once, and embed and consolidate the turns afterwards.")
    ] = True


class AsOfBody(BaseModel):
    """A moment: valid is when it was true, known is when the memory believed it."""

    model_config = example(valid="2024-05-01T00:00:00Z")

    valid: Moment | None = None
    known: Moment | None = None

    def to_as_of(self) -> AsOf:
        """Return the moments as a value of the core."""
        return AsOf(valid=self.valid, known=self.known)


AsOfMoment = Annotated[
    AsOfBody | None, Field(description="Answer as of this moment. Default: now.")
]


def moments(as_of: AsOfBody | None) -> AsOf | None:
    """Return the moments of a body, or None for the present."""
    return None if as_of is None else as_of.to_as_of()


Explain = Annotated[bool, Field(description="Add the parts of each score.")]


class SearchBody(BaseModel):
    """A search by meaning alone."""

    model_config = example(user_id="ana", query="What does Ana drink?")

    user_id: UserId = LEFT_OUT
    app: App = None
    query: SomeQuery
    limit: Limit = 5
    kinds: Kinds = None
    as_of: AsOfMoment = None


class RecallBody(BaseModel):
    """A question. docs/explanation/recall.md explains the options."""

    model_config = example(user_id="ana", query="What does Ana drink?", limit=3)

    user_id: UserId = LEFT_OUT
    app: App = None
    query: SomeQuery
    limit: Limit = 10
    kinds: Kinds = None
    ranking: Annotated[Ranking, Field(description="How scores are made.")] = "linear"
    asked_at: AskedAt = None
    as_of: AsOfMoment = None
    min_relevance: Annotated[Share, Field(description="Leave out less relevant hits.")] = 0.0
    distinct: Annotated[
        bool, Field(description="Leave out hits that repeat a better one word by word.")
    ] = False
    diversity: Annotated[
        Share, Field(description="How much it counts against a hit that it is like a better one.")
    ] = 0.0
    explain: Explain = False


class ContextBody(BaseModel):
    """A request for the prompt that a model reads before it answers, within a token budget."""

    model_config = example(
        user_id="ana", thread_id="monday", query="What should I cook?", max_tokens=2000
    )

    user_id: UserId = LEFT_OUT
    app: App = None
    thread_id: ThreadName
    query: Query
    system_prompt: Annotated[
        str, Field(max_length=MAX_TEXT, description="The first part of the prompt.")
    ] = ""
    max_tokens: Annotated[
        int,
        Field(ge=64, le=200_000, description="Maximum tokens of the prompt."),
        BeforeValidator(whole),
    ] = 8000
    instructions: Annotated[
        list[Annotated[str, Field(max_length=MAX_TEXT)]],
        Field(max_length=100, description="Rules for the model, packed with the rest."),
    ] = Field(default_factory=list)
    profile: Annotated[
        Annotated[str, Field(max_length=MAX_TEXT)] | None,
        Field(description='A text instead of the stored profiles; "" for none.'),
    ] = None
    as_of: AsOfMoment = None
    explain: Explain = False


class KeysBody(BaseModel):
    """Keys or ids of memories."""

    model_config = example(user_id="ana", keys=["tea"])

    user_id: UserId = LEFT_OUT
    app: App = None
    keys: Annotated[
        list[Name],
        Field(min_length=1, max_length=1000, description="The keys or the ids of memories."),
    ]


class StateBody(BaseModel):
    """A fact to state."""

    model_config = example(user_id="ana", slot="employer", value="Acme")

    user_id: UserId = LEFT_OUT
    app: App = None
    slot: Annotated[Name, Field(description="What the fact is about, e.g. employer.")]
    value: Annotated[
        str,
        Field(min_length=1, max_length=MAX_VALUE_CHARACTERS, description="Its value, e.g. Acme."),
        NO_NUL,
    ]
    subject: Annotated[
        Name | None, Field(description="Who the fact is about. Default: the user.")
    ] = None
    valid_from: Annotated[
        Moment | None, Field(description="Since when it holds. Default: now.")
    ] = None


class RetractBody(BaseModel):
    """A fact to end, by its key."""

    model_config = example(user_id="ana", key="0193f6f2-c4d8-7e0f-9a7d-5e0c4b1a2f3e")

    user_id: UserId = LEFT_OUT
    app: App = None
    key: FactKey
    at: Annotated[Moment | None, Field(description="When it ended. Default: now.")] = None


class RestoreBody(BaseModel):
    """A fact whose end is undone, by its key."""

    model_config = example(user_id="ana", key="0193f6f2-c4d8-7e0f-9a7d-5e0c4b1a2f3e")

    user_id: UserId = LEFT_OUT
    app: App = None
    key: FactKey


class UndoBody(BaseModel):
    """A run to undo."""

    model_config = example(user_id="ana", run_id="0193f6f2-c4d8-7e0f-9a7d-5e0c4b1a2f3e")

    user_id: UserId = LEFT_OUT
    app: App = None
    run_id: Annotated[UUID, Field(strict=False, description="The id of the run.")]


Days = Annotated[float, Field(ge=0, le=MAX_DAYS)]


class PolicyBody(BaseModel):
    """How fast memories fade, and what happens to faded ones (docs/explanation/forgetting.md)."""

    model_config = example(threshold=0.2, erase_threshold=0.05, erase_after_days=30)

    decay_rate: Annotated[float, Field(ge=0, le=100)] = DECAY_RATE
    threshold: Share = THRESHOLD
    min_age_days: Days = MIN_AGE_DAYS
    archive_threshold: Share | None = 0.05
    archive_after_days: Days = 30.0
    erase_threshold: Share | None = None
    erase_after_days: Days = 90.0
    with_history: bool = True


def _form_of_policy(given: object) -> str:
    return "policy" if isinstance(given, Mapping | PolicyBody) else "name"


NameOrPolicy = Annotated[
    Annotated[PolicyName, Tag("name")] | Annotated[PolicyBody, Tag("policy")],
    Discriminator(_form_of_policy),
]


class RetentionPolicyBody(BaseModel):
    """A retention policy for a user, or without user_id for the application."""

    model_config = example(user_id="ana", policy="knowledge", never=["summary"])

    user_id: OptionalUserId = None
    app: App = None
    policy: Annotated[
        NameOrPolicy | None,
        Field(
            description="A name or an object; null for the policy of the application, or of all."
        ),
    ]
    never: Annotated[
        list[MemoryKind], Field(max_length=5, description="Kinds that never fade.")
    ] = Field(default_factory=list)

    def rule(self) -> str | RetentionPolicy | None:
        """Return the policy as a value of the core."""
        if isinstance(self.policy, PolicyBody):
            return RetentionPolicy(**self.policy.model_dump())
        return self.policy


JOB_TYPE: Final = Field(
    description="fast_replay summarises a thread, deep_reflection extracts its facts,"
    " full_consolidation does both; reflection needs no thread."
)


class ThreadJobBody(BaseModel):
    """A job on a thread, to run as soon as possible."""

    model_config = example(user_id="ana", thread_id="monday", job_type="full_consolidation")

    user_id: UserId = LEFT_OUT
    app: App = None
    thread_id: ThreadName
    job_type: Annotated[Literal["fast_replay", "deep_reflection", "full_consolidation"], JOB_TYPE]


class ReflectionBody(BaseModel):
    """A reflection on all memories of a user."""

    model_config = example(user_id="ana", job_type="reflection")

    user_id: UserId = LEFT_OUT
    app: App = None
    job_type: Annotated[Literal["reflection"], JOB_TYPE]


JobBody = Annotated[ThreadJobBody | ReflectionBody, Field(discriminator="job_type")]


Version = Annotated[int, Field(ge=1, le=MAX_VERSION)]
AgentId = Annotated[
    Name | None, Field(description="The agent that keeps the profile. Default: the application.")
]
Subject = Annotated[
    Literal["user", "agent"],
    Field(description="Who the profile is about: the user, or the agent itself."),
]
Language = Annotated[
    Literal["en", "zh"] | None,
    Field(description="Language of the headings. Default: the language of the texts."),
]


class MessageBody(BaseModel):
    """One message. Without your own id it is known by its conversation, position and text."""

    model_config = example(role="user", content="I live in Lisbon.")

    role: GivenRole
    content: Text
    author: Name | None = None
    timestamp: Moment | None = None
    message_id: Name | None = None
    message_type: Annotated[str, Field(min_length=1, max_length=50), NO_NUL] = "text"
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class ProfileUpdateBody(BaseModel):
    """A conversation. Sent again with its own id, it changes nothing."""

    model_config = example(
        user_id="ana",
        conversation_id="monday",
        messages=[
            {"role": "user", "content": "I live in Leeds. I want to learn Rust."},
            {"role": "assistant", "content": "What brings you here?"},
        ],
    )

    user_id: UserId = LEFT_OUT
    app: App = None
    agent_id: AgentId = None
    subject: Subject = "user"
    conversation_id: Annotated[
        ThreadName | None, Field(description="Your id of the conversation. Default: a new one.")
    ] = None
    messages: Annotated[
        list[MessageBody],
        Field(min_length=1, max_length=MAX_MESSAGES, description="The messages, oldest first."),
    ]

    def conversation(self) -> dict[str, Any]:
        """Return the conversation as a value of the core."""
        return {
            "conversation_id": self.conversation_id,
            "messages": [one.model_dump() for one in self.messages],
        }


class ProfileRollbackBody(BaseModel):
    """The version to store again as a new version."""

    model_config = example(user_id="ana", version=1)

    user_id: UserId = LEFT_OUT
    app: App = None
    agent_id: AgentId = None
    subject: Subject = "user"
    version: Annotated[
        Version, Field(description="The version to store again."), BeforeValidator(whole)
    ]
