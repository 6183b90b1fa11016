"""The tools of the server, and the schemas of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Annotated, Any, Final, ParamSpec, TypeAlias, TypeVar, cast

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared_core.conversation.answers import EndedSession, ProcessedInput, StatusOfSession
from shared_core.core.delimiters import OUR_TAGS
from shared_core.core.domain import GivenRole, NewMemory
from shared_core.core.ids import id_of_text
from shared_core.engine import MemoryEngine
from shared_core.errors import MemoryCoreError
from shared_core.mcp.access import ServedUsers
from shared_core.nlp.uncertainty import shown_text
from shared_core.profiles.memory import Memory
from shared_core.settings import redacted

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

MAX_MEMORIES = 100
"""Maximum number of memories that one call returns or forgets."""
IDS: Final = frozenset(("key", "agent_id", "conversation_id"))
"""Fields of answers that a later call names: they are never escaped."""

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=100_000)]
AgentId: TypeAlias = Annotated[
    str | None,
    Field(
        min_length=1, max_length=256,
        description="The agent that keeps the profile. Default: the application.",
    ),
]  # fmt: skip
UserId: TypeAlias = Annotated[
    str | None,
    Field(description="The user. Leave it out if the server or the token is for one user."),
]

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
DELETES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="forbid")

    role: GivenRole = Field(description="Role of the speaker: user, assistant, tool or system.")
    content: Text = Field(description="The message, word for word.")


class ExplainedHit(BaseModel):
    """A candidate and the parts of its score."""

    key: str
    content: str
    kind: str
    score: float
    parts: dict[str, float] = Field(description="The parts of the score.")


class Debugged(ProcessedInput):
    """The answer that process_memory would give, and its candidates. Nothing is stored."""

    query: str
    session: StatusOfSession
    candidates: list[ExplainedHit]


class RememberReply(BaseModel):
    """The answer of remember."""

    key: str = Field(description="Key of the memory, e.g. for forget.")


class ForgetReply(BaseModel):
    """The answer of forget."""

    forgotten: int = Field(
        description="Number of memories removed, memories derived from them included."
    )


class RecalledMemory(BaseModel):
    """A memory and its score."""

    key: str
    content: str
    kind: str = Field(description="episodic, semantic, summary, reflection or item")
    score: float = Field(description="Rank within this answer alone; higher is better.")
    occurred_at: datetime
    uncertain: bool = Field(description="Whether a later message may have ended this fact.")


class ExplainedMemory(RecalledMemory):
    """A memory, its score and the parts of it."""

    parts: dict[str, float] = Field(description="The parts of the score.")


class RecallReply(BaseModel):
    """The answer of recall, best first."""

    memories: list[ExplainedMemory | RecalledMemory]


class Concluded(BaseModel):
    """A conclusion about the user's mind."""

    dimension: str = Field(description="intent, emotion, cognition, social or trend")
    text: str
    confidence: float
    quotes: list[str] = Field(description="The user's words that support it.")


class UserProfile(BaseModel):
    """The answer of get_user_profile."""

    agent_id: str
    version: int = Field(description="0 while nothing is known.")
    profile: str = Field(description="Who the user is, in one paragraph.")
    events: list[str] = Field(description="What happened, oldest first.")
    findings: list[Concluded]


class UpdatedProfile(UserProfile):
    """The answer of update_user_profile."""

    changed: bool = Field(description="Whether there is a new version.")
    new_turns: int = Field(description="Number of messages that were not stored before.")
    conversation_id: str


class Related(BaseModel):
    """An edge of the knowledge graph."""

    source: str
    relation: str
    target: str
    since: datetime = Field(description="Time from which it holds.")


class UserGraph(BaseModel):
    """The answer of get_user_graph, nearest and newest first."""

    entity: str
    relations: list[Related]
    more: bool = Field(description="Whether the limit cut off more relations.")


class ToolServer(MCPServer):
    """A server that tells the model which argument is invalid and why, and nothing else of it."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Raises ToolError with a text for the model."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                faults = _faults(error.__cause__)
                raise ToolError(f"invalid arguments of {name}: {faults}") from error
            raise


def strict_tool(verb: Callable[..., Awaitable[object]], does: ToolAnnotations) -> Tool:
    """Return a method as a tool that refuses unknown arguments, in its schema and its call."""
    tool = Tool.from_function(verb, annotations=does, structured_output=True)
    loose = tool.fn_metadata.arg_model
    forbidding = {"model_config": ConfigDict(extra="forbid")}
    strict = cast("type[ArgModelBase]", type(loose.__name__, (loose,), forbidding))
    tool.fn_metadata.arg_model = strict
    tool.parameters = strict.model_json_schema(by_alias=True)
    return tool


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))}: "
        + ("there is no such argument" if one["type"] == "extra_forbidden" else one["msg"])
        for one in faults
    )


def escaped(answer: Result) -> Result:
    """Return an answer with escaped marks in every text but IDS, so that a model may read it."""
    changed: object = answer
    if isinstance(answer, str):
        changed = OUR_TAGS.escaped(answer)
    elif isinstance(answer, BaseModel):
        changed = answer.model_copy(update=escaped(dict(answer)))
    elif isinstance(answer, Mapping):
        changed = {name: one if name in IDS else escaped(one) for name, one in answer.items()}
    elif isinstance(answer, Sequence):
        changed = [*map(escaped, answer)]
    return cast("Result", changed)


def _for_a_model(
    verb: Callable[Parameters, Awaitable[Result]],
) -> Callable[Parameters, Awaitable[Result]]:
    """Wrap a method so that a model may read its answer and its memory errors."""

    @wraps(verb)
    async def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return await asyncio.to_thread(escaped, await verb(*args, **kwargs))
        except MemoryCoreError as error:
            raise ToolError(OUR_TAGS.escaped(redacted(str(error)))) from error

    return call


class MemoryTools:
    """The tools of one memory. The name and docstring of a method are those of its tool."""

    def __init__(self, memory: MemoryEngine, users: ServedUsers) -> None:
        self._memory = memory
        self._users = users

    def listed(self) -> list[tuple[Callable[..., Awaitable[object]], ToolAnnotations]]:
        """Return every tool and its effect on the memory."""
        return [
            (self.process_memory, ADDS),
            (self.end_session, ADDS),
            (self.get_session_status, READS),
            (self.debug_process_memory, READS),
            (self.remember, ADDS),
            (self.recall, READS),
            (self.forget, DELETES),
            (self.get_user_graph, READS),
            (self.get_user_profile, READS),
            (self.update_user_profile, ADDS),
        ]

    @_for_a_model
    async def process_memory(
        self,
        input: Annotated[Text, Field(description="The user's message, word for word.")],
        user_id: UserId = None,
    ) -> ProcessedInput:
        """Store a message of the user and return related memories from earlier conversations."""
        scope = self._users.scope(user_id)
        return await self._memory.process_memory(input, scope.user, app=scope.app)

    @_for_a_model
    async def end_session(self, user_id: UserId = None) -> EndedSession:
        """End the conversation with the user. It is consolidated in the background."""
        scope = self._users.scope(user_id)
        return await self._memory.end_session(user_id=scope.user, app=scope.app)

    @_for_a_model
    async def get_session_status(self, user_id: UserId = None) -> StatusOfSession:
        """Return whether the user has an open conversation, its age and its length."""
        scope = self._users.scope(user_id)
        return await self._memory.get_session_status(scope.user, app=scope.app)

    @_for_a_model
    async def debug_process_memory(
        self,
        input: Annotated[Text, Field(description="A message that the user might send.")],
        user_id: UserId = None,
        limit: Annotated[int, Field(ge=1, le=MAX_MEMORIES)] = 10,
    ) -> Debugged:
        """Show what process_memory would answer and why, without storing the message."""
        scope = self._users.scope(user_id)
        shown = await self._memory.debug_process_memory(
            input, scope.user, app=scope.app, limit=limit
        )
        return Debugged(
            status=shown["status"],
            resolved_query=shown["resolved_query"],
            memories=shown["memories"],
            relations=shown["relations"],
            metadata=shown["metadata"],
            query=input,
            session={
                "status": "success",
                "has_active_session": shown["session_info"] is not None,
                "session_info": shown["session_info"],
            },
            candidates=[
                ExplainedHit.model_validate({**hit, "content": hit["text"]})
                for hit in shown["hits"]
            ],
        )

    @_for_a_model
    async def remember(
        self,
        text: Annotated[Text, Field(description="One statement that is clear on its own.")],
        user_id: UserId = None,
        importance: Annotated[
            float, Field(ge=1, le=10, description="1 (trivial) to 10 (vital).")
        ] = 5.0,
    ) -> RememberReply:
        """Store a statement for later conversations, e.g. "Ana is allergic to nuts".

        The same statement is kept once.
        """
        memory = NewMemory(text=text, key=id_of_text(text), importance=importance)
        [key] = await self._memory.remember(self._users.scope(user_id), memory)
        return RememberReply(key=key)

    @_for_a_model
    async def recall(
        self,
        query: Annotated[Text, Field(description="A question or search words.")],
        user_id: UserId = None,
        limit: Annotated[int, Field(ge=1, le=MAX_MEMORIES)] = 10,
        explain: Annotated[bool, Field(description="Add the parts of each score.")] = False,
    ) -> RecallReply:
        """Return the memories that answer a question, best first."""
        scope = self._users.scope(user_id)
        hits = await self._memory.recall(scope, query, limit=limit)
        memories = [
            RecalledMemory(
                key=hit.memory.key,
                content=shown_text(hit.memory),
                kind=hit.memory.kind,
                score=hit.score,
                occurred_at=hit.memory.occurred_at,
                uncertain=hit.memory.doubted_at is not None,
            )
            for hit in hits
        ]
        if not explain:
            return RecallReply(memories=memories)
        return RecallReply(
            memories=[
                ExplainedMemory(**dict(one), parts=dict(hit.parts))
                for one, hit in zip(memories, hits, strict=True)
            ]
        )

    @_for_a_model
    async def forget(
        self,
        keys: Annotated[
            list[str], Field(min_length=1, max_length=MAX_MEMORIES, description="Keys from recall.")
        ],
        user_id: UserId = None,
    ) -> ForgetReply:
        """Remove memories for good, and everything derived from them alone."""
        return ForgetReply(forgotten=await self._memory.forget(self._users.scope(user_id), keys))

    @_for_a_model
    async def get_user_graph(
        self,
        user_id: UserId = None,
        entity: Annotated[
            str, Field(min_length=1, max_length=1000, description="Name of an entity, or user.")
        ] = "user",
        depth: Annotated[int, Field(ge=1, le=3, description="Maximum distance in relations.")] = 2,
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> UserGraph:
        """Return the knowledge graph around an entity: its relations to people and things."""
        scope = self._users.scope(user_id)
        around = await self._memory.graph.neighbourhood(scope, entity, depth=depth, limit=limit)
        return UserGraph(
            entity=entity,
            relations=[
                Related(
                    source=edge.subject,
                    relation=edge.relation,
                    target=edge.object,
                    since=edge.valid_from,
                )
                for edge in around.edges
            ],
            more=around.more,
        )

    @_for_a_model
    async def get_user_profile(
        self, user_id: UserId = None, agent_id: AgentId = None
    ) -> UserProfile:
        """Return who the user is in one paragraph, what happened, and what may be concluded."""
        profile = self._memory.profiles.of(self._users.scope(user_id), agent_id)
        known = await profile.current() or Memory(profile.agent_id)
        return UserProfile.model_validate(_profile(known))

    @_for_a_model
    async def update_user_profile(
        self,
        messages: Annotated[
            list[Message], Field(min_length=1, max_length=500, description="In their order.")
        ],
        user_id: UserId = None,
        agent_id: AgentId = None,
        conversation_id: Annotated[
            str | None,
            Field(
                min_length=1,
                max_length=256,
                description="Id of the conversation. Messages sent again with it are ignored.",
            ),
        ] = None,
    ) -> UpdatedProfile:
        """Store a conversation and update the profile of the user from it."""
        profile = self._memory.profiles.of(self._users.scope(user_id), agent_id)
        conversation: dict[str, Any] = {
            "messages": [one.model_dump() for one in messages],
            "conversation_id": conversation_id,
        }
        known, result = await profile.update(conversation)
        return UpdatedProfile.model_validate(
            _profile(known)
            | {
                "changed": result.changed,
                "new_turns": result.new_turns,
                "conversation_id": result.modification.thread_id,
            }
        )


def _profile(memory: Memory) -> dict[str, Any]:
    return {
        "agent_id": memory.agent_id,
        "version": memory.version,
        "profile": memory.get_profile_content(),
        "events": memory.get_event_content(),
        "findings": [
            {"dimension": one.dimension, "text": one.text, "confidence": one.confidence,
             "quotes": list(one.quotes)}
            for one in memory.mind.findings
        ],
    }  # fmt: skip
