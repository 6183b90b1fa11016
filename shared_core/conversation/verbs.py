"""The verbs of MemoryEngine for conversations: inputs, ends of sessions, their status."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from shared_core.conversation.answers import (
    CANDIDATES,
    DebuggedInput,
    EndedSession,
    ProcessedInput,
    StatusOfSession,
    debug_answer,
    ended_answer,
    status_answer,
)
from shared_core.core.domain import Scope
from shared_core.errors import InvalidInput

if TYPE_CHECKING:
    from shared_core.conversation.expiry import SessionEnds
    from shared_core.conversation.service import Conversations
    from shared_core.ingest.service import Remembering
    from shared_core.ports.jobs import ExtractionStrategy
    from shared_core.ports.storage import Clock


class ConversationVerbs:
    """Sessions that open and end by themselves; and ends of threads that a caller keeps."""

    conversations: Conversations
    session_ends: SessionEnds
    _clock: Clock
    _remembering: Remembering
    _strategy: ExtractionStrategy

    async def process_memory(
        self, input: str, user_id: str, *, app: str | None = None, event_id: str | None = None
    ) -> ProcessedInput:
        """Take in what a user says, and return what is known from before that has to do with it.

        The input joins the user's active session, which is opened if there is none; the session
        itself is not returned. app: None for the one of the settings. event_id: an id of yours; an
        input sent again with it is there once, also after its session. The answer, in order:
        "status", "resolved_query" (pronouns replaced), "memories" ([{"content", "score"}], best
        first), "relations" ([{"source", "relation", "target"}]), "metadata"
        ({"retrieval_time_ms", "has_memory"}, and "taken_in": False where event_id is that of an
        input that was forgotten or erased). Raises InvalidInput for an input or id that is none.
        """
        scope = self.conversations.scope(user_id, app)
        answer = await self.conversations.process(input, scope, event_id)
        self.session_ends.nudge()
        return answer

    async def debug_process_memory(
        self, input: str, user_id: str, *, app: str | None = None, limit: int = CANDIDATES
    ) -> DebuggedInput:
        """Return what process_memory() would answer, and why, without taking the input in.

        limit: of the hits that are shown, of the 16 at most that are looked at.
        """
        scope = self.conversations.scope(user_id, app)
        answer, session, hits = await self.conversations.debug(input, scope, limit)
        return debug_answer(input, answer, session, hits, self._clock())

    @overload
    async def end_session(self, scope: str, *, app: str | None = None) -> EndedSession: ...
    @overload
    async def end_session(self, *, user_id: str, app: str | None = None) -> EndedSession: ...
    @overload
    async def end_session(
        self, scope: Scope, thread_id: str, *, strategy: ExtractionStrategy | None = None
    ) -> bool: ...
    async def end_session(
        self,
        scope: Scope | str | None = None,
        thread_id: str | None = None,
        *,
        strategy: ExtractionStrategy | None = None,
        user_id: str | None = None,
        app: str | None = None,
    ) -> bool | EndedSession:
        """End the active session of a user id, given alone, and have it consolidated later.

        Returns at once: "status", "message", "session_info" (None if there was no session).

        Of a scope and a thread: have its unread turns worked on now, and return whether there were
        any. Nothing happens if the strategy has on_session_end=False.
        """
        if isinstance(scope, Scope) and thread_id is not None and user_id is None and app is None:
            return await self._remembering.end_session(scope, thread_id, strategy or self._strategy)
        user = scope if user_id is None else user_id
        if isinstance(user, Scope) or thread_id is not None or strategy is not None:
            is_scope = isinstance(scope, Scope) or thread_id is None
            wrong = "" if is_scope else f"scope must be a Scope(app, user), not {scope!r:.80}: "
            raise InvalidInput(
                f"{wrong}end_session takes a user id, e.g. end_session('alice', app='my-app'), or a"
                " scope and a thread id"
            )
        ended = await self.conversations.end(self.conversations.scope(user, app))
        return ended_answer(ended)

    async def get_session_status(self, user_id: str, *, app: str | None = None) -> StatusOfSession:
        """Return whether a user has an active session, and how it stands; for debugging."""
        scope = self.conversations.scope(user_id, app)
        return status_answer(await self.conversations.active(scope), self._clock())
