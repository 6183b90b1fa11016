"""The tools: verbs of the memory under the names and with the results that clients see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeAlias, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from shared_core.conversation.answers import EndedSession, ProcessedInput, StatusOfSession
from shared_core.core.domain import GivenRole, NewMemory
from shared_core.engine import MemoryEngine
from shared_core.errors import MemoryCoreError
from shared_core.mcp.results import (
    Debugged,
    ForgetReply,
    RecalledMemory,
    RecallReply,
    Related,
    RememberReply,
    UpdatedProfile,
    UserGraph,
    UserProfile,
    part_of,
)
from shared_core.mcp.whom import Whom
from shared_core.profiles.memory import Memory
from shared_core.settings import redacted

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

MOST = 100

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=100_000)]


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="forbid")

    role: GivenRole = Field(description="Who said it: user, assistant, tool or system.")
    content: Text = Field(description="What was said, word by word.")


AgentId: TypeAlias = Annotated[
    str | None,
    Field(
        min_length=1, max_length=256,
        description="The agent that knows the user; the application if left out.",
    ),
]  # fmt: skip
UserId: TypeAlias = Annotated[
    str | None,
    Field(description="Whose memory. Leave it out where the server is for one user."),
]

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
DELETES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


def told(
    verb: Callable[Parameters, Awaitable[Result]],
) -> Callable[Parameters, Awaitable[Result]]:
    """Return verb with the errors of the memory as errors that the model may read."""

    @wraps(verb)
    async def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return await verb(*args, **kwargs)
        except MemoryCoreError as error:
            raise ToolError(redacted(str(error))) from error

    return call


class MemoryTools:
    """The tools on one memory. Each is a method of its name, with its docstring for the model."""

    def __init__(self, memory: MemoryEngine, whom: Whom) -> None:
        self._memory = memory
        self._whom = whom

    def listed(self) -> list[tuple[Callable[..., Awaitable[object]], ToolAnnotations]]:
        """Return every tool and what it does to the memory."""
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

    @told
    async def process_memory(
        self,
        input: Annotated[Text, Field(description="What the user says, word by word.")],
        user_id: UserId = None,
    ) -> ProcessedInput:
        """Remember a message of the user, and return what is known from before that concerns it."""
        scope = self._whom.scope(user_id)
        return await self._memory.process_memory(input, scope.user, app=scope.app)

    @told
    async def end_session(self, user_id: UserId = None) -> EndedSession:
        """End the conversation with the user; what was said is worked on in the background."""
        scope = self._whom.scope(user_id)
        return await self._memory.end_session(user_id=scope.user, app=scope.app)

    @told
    async def get_session_status(self, user_id: UserId = None) -> StatusOfSession:
        """Return whether a conversation with the user is open, and how it stands."""
        scope = self._whom.scope(user_id)
        return await self._memory.get_session_status(scope.user, app=scope.app)

    @told
    async def debug_process_memory(
        self,
        input: Annotated[Text, Field(description="What the user might say.")],
        user_id: UserId = None,
        limit: Annotated[int, Field(ge=1, le=MOST)] = 10,
    ) -> Debugged:
        """Show what process_memory would answer and why, without remembering the input."""
        scope = self._whom.scope(user_id)
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
            candidates=[part_of(hit) for hit in shown["hits"]],
        )

    @told
    async def remember(
        self,
        text: Annotated[Text, Field(description="One statement that stands alone.")],
        user_id: UserId = None,
        importance: Annotated[
            float, Field(ge=1, le=10, description="1 (trivial) to 10 (vital).")
        ] = 5.0,
    ) -> RememberReply:
        """Remember a statement for later conversations, e.g. "Ana is allergic to nuts"."""
        memory = NewMemory(text=text, importance=importance)
        [key] = await self._memory.remember(self._whom.scope(user_id), memory)
        return RememberReply(key=key)

    @told
    async def recall(
        self,
        query: Annotated[Text, Field(description="A question, or words to look for.")],
        user_id: UserId = None,
        limit: Annotated[int, Field(ge=1, le=MOST)] = 10,
    ) -> RecallReply:
        """Return what is remembered about a question, best first."""
        scope = self._whom.scope(user_id)
        hits = await self._memory.recall(scope, query, limit=limit)
        return RecallReply(
            memories=[
                RecalledMemory(
                    key=hit.memory.key,
                    content=hit.memory.text,
                    kind=hit.memory.kind,
                    score=hit.score,
                    occurred_at=hit.memory.occurred_at,
                )
                for hit in hits
            ]
        )

    @told
    async def forget(
        self,
        keys: Annotated[
            list[str], Field(min_length=1, max_length=MOST, description="Keys as recall returns.")
        ],
        user_id: UserId = None,
    ) -> ForgetReply:
        """Forget memories for good, with what was drawn from them alone."""
        return ForgetReply(forgotten=await self._memory.forget(self._whom.scope(user_id), keys))

    @told
    async def get_user_graph(
        self,
        user_id: UserId = None,
        entity: Annotated[
            str, Field(min_length=1, max_length=1000, description="A name, or the user.")
        ] = "user",
        depth: Annotated[int, Field(ge=1, le=3, description="So many relations away.")] = 2,
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> UserGraph:
        """Return the knowledge graph around a name: who and what it has to do with."""
        scope = self._whom.scope(user_id)
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

    @told
    async def get_user_profile(
        self, user_id: UserId = None, agent_id: AgentId = None
    ) -> UserProfile:
        """Return who the user is, in one paragraph, what happened, and what may be concluded."""
        desk = self._memory.profiles.desk(self._whom.scope(user_id), agent_id)
        known = await desk.current() or Memory(desk.agent_id)
        return UserProfile.model_validate(_profile(known))

    @told
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
                description="Its own id: sent again with it, what is known changes nothing.",
            ),
        ] = None,
    ) -> UpdatedProfile:
        """Remember a conversation and update the profile of the user from it."""
        desk = self._memory.profiles.desk(self._whom.scope(user_id), agent_id)
        said: dict[str, Any] = {"messages": [one.model_dump() for one in messages]}
        known, result = await desk.update(said | {"conversation_id": conversation_id})
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
