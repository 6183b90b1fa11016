"""CoreferenceResolver: what pronouns mean, in a question at once, and in a session at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from shared_core.conversation.standalone_statements import session_statements
from shared_core.core.domain import Event
from shared_core.errors import InvalidInput
from shared_core.nlp.coreference import resolve_query
from shared_core.ports.storage import Extractor


class CoreferenceResolver:
    """Replaces pronouns by what they stand for; events may be given as texts of the user.

    extractor: one with a model, that resolves the events of a session; None for the rules.
    """

    def __init__(self, extractor: Extractor | None = None) -> None:
        self._extractor = extractor

    def resolve_query(self, query: str, context_events: Sequence[Event | str]) -> str:
        """Return a query with its pronouns replaced, by rules; as it is where there is any doubt.

        context_events: what was said before it, oldest first.
        """
        if not isinstance(query, str):
            raise InvalidInput(f"query must be a text, not {type(query).__name__}")
        return resolve_query(query, as_events(context_events))

    async def resolve_events(self, events: Sequence[Event | str]) -> list[str]:
        """Return what events tell as statements that stand alone, each about one matter.

        What nothing resolves is left out, and so are questions.
        """
        turns = as_events(events)
        if not turns:
            return []
        if self._extractor is not None:
            return [one.text for one in (await self._extractor.extract(turns, [])).statements]
        return [one.text for one in await asyncio.to_thread(session_statements, turns)]


def as_events(given: Sequence[Event | str]) -> list[Event]:
    """Return events; texts become turns of the user, said now."""
    now = datetime.now(UTC)
    return [
        one
        if isinstance(one, Event)
        else Event(event_id=f"text {place}", author="user", role="user", text=one, occurred_at=now)
        for place, one in enumerate(given)
    ]
