"""The Google ADK side of the demo: sessions go in, `search_memory` answers."""

from __future__ import annotations

from collections.abc import Sequence

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

from adk_memory import OpenMemoryService
from shared_core.cli.demo.script import Script, ScriptedSession, ScriptedTurn


def to_session(app: str, script: Script, conversation: ScriptedSession) -> Session:
    """Return a conversation as the session an ADK runner would have left behind."""
    return Session(
        id=conversation.session_id,
        app_name=app,
        user_id=script.user,
        events=[_to_event(turn, script.agent) for turn in conversation.turns],
    )


async def learn(service: OpenMemoryService, app: str, script: Script) -> None:
    """Add every session of the script to the memory, in order."""
    for conversation in script.conversations:
        await service.add_session_to_memory(to_session(app, script, conversation))


async def ask(service: OpenMemoryService, app: str, script: Script) -> list[Sequence[str]]:
    """Return for each question the ids of what search_memory found, best first."""
    found: list[Sequence[str]] = []
    for question in script.questions:
        answer = await service.search_memory(app_name=app, user_id=script.user, query=question.ask)
        found.append([memory.id or "" for memory in answer.memories])
    return found


def _to_event(turn: ScriptedTurn, agent: str) -> Event:
    by_user = turn.speaker == "user"
    return Event(
        id=turn.event_id,
        author="user" if by_user else agent,
        invocation_id=turn.event_id,
        timestamp=turn.said_at.timestamp(),
        content=types.Content(
            role="user" if by_user else "model", parts=[types.Part(text=turn.text)]
        ),
    )
