"""engine.forget_about, and requests such as "Forget what I said about Theo" in a user's turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from shared_core.core.domain import Event, ForgetDraft, JsonValue, Scope, ThreadId
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import PROFILE, memories_namespace, rest_of, scope_path
from shared_core.core.shown import shown
from shared_core.core.telemetry import FORGOTTEN, measured
from shared_core.errors import InvalidInput
from shared_core.extraction.forget_requests import (
    ForgetRequest,
    forget_requests,
    is_about,
    may_ask,
    names_of_topic,
    topic_request,
)
from shared_core.lifecycle import Handle
from shared_core.nlp.text import normalised
from shared_core.policies.run_reads import held_facts
from shared_core.policies.setting_aside import (
    KEPT_FOR,
    NOTHING_NAMED,
    NamedBeside,
    SetAside,
    set_aside,
)
from shared_core.privacy.sanitizing import LONG_TEXTS

log = logging.getLogger("hippocampus")

MAX_BY_MODEL: Final = 200
"""Maximum number of memories that one request found by a model sets aside."""
MAX_PEOPLE: Final = 500
"""Maximum number of facts that are searched for the names of "my brother"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """A request of the user that was carried out. topic: in the words of the user."""

    topic: str
    done: SetAside

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object; the time in ISO 8601."""
        done = self.done
        return {
            "topic": self.topic,
            "memories": done.memories,
            "facts": done.facts,
            "edges": done.edges,
            "run_id": str(done.run_id) if done.run_id else None,
            "until": done.until.isoformat() if done.until else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Requests and the turn that asks, if any.

    text: of that turn, which goes as well if it says nothing else. at: its time, None for now.
    later: the texts of turns stored with it that were said after it, which stay. named: what goes
    beside the topic.
    """

    requests: Sequence[ForgetRequest]
    text: str = ""
    at: datetime | None = None
    later: Collection[str] = ()
    named: NamedBeside = NOTHING_NAMED


class NewTurns(set[str]):
    """The ids of turns that were new.

    set_aside: what went at the request of one of them. edited: the ids of turns that were known
    with other words.
    """

    def __init__(
        self,
        event_ids: Iterable[str],
        set_aside: Sequence[CarriedOut] = (),
        edited: Iterable[str] = (),
    ) -> None:
        super().__init__(event_ids)
        self.set_aside = tuple(set_aside)
        self.edited = frozenset(edited)


async def _requests(text: str) -> Sequence[ForgetRequest]:
    """Return the requests in a text, read beside the event loop."""
    if len(text) < LONG_TEXTS and not may_ask(text):
        return ()
    return await asyncio.to_thread(forget_requests, text)


class ForgetRequests:
    """Carries out requests of users to forget a topic. is_on: whether turns may ask for it."""

    def __init__(self, handle: Handle, *, is_on: bool) -> None:
        self._handle = handle
        self._is_on = is_on

    async def in_turns(self, scope: Scope, turns: Sequence[Event]) -> list[CarriedOut]:
        """Carry out the requests in turns of the user, in order; those of others are ignored.

        What later turns say of a topic stays.
        """
        done: list[CarriedOut] = []
        for place, turn in enumerate(turns if self._is_on else ()):
            requests = await _requests(turn.text) if turn.role == "user" else ()
            later = {one.text for one in turns[place + 1 :]} - {one.text for one in turns[:place]}
            for request in requests:
                asked = _Asked(requests=[request], text=turn.text, at=turn.occurred_at, later=later)
                done.append(await self._carry_out(scope, asked))
        return done

    async def in_text(self, scope: Scope, text: str) -> list[CarriedOut]:
        """Carry out the requests in a text that the user says now."""
        requests = await _requests(text) if self._is_on else ()
        return [await self._carry_out(scope, _Asked(requests=[one], text=text)) for one in requests]

    async def about(self, scope: Scope, topic: str) -> CarriedOut:
        """Set aside what is about a topic.

        Raises:
            InvalidInput: for a topic without a word.
        """
        scope_path(scope)
        request = topic_request(topic) if isinstance(topic, str) else None
        if request is None:
            raise InvalidInput(f"topic must name something, e.g. 'Theo', got {shown(topic)}")
        return await self._carry_out(scope, _Asked(requests=[request]))

    @property
    def by_model(self) -> Callable[[Scope, ThreadId, ForgetDraft, datetime], Awaitable[int | None]]:
        """Carries out a request that a model found in a turn of a thread, said at a moment.

        It returns the number of memories that were set aside, None for more than MAX_BY_MODEL.
        """

        async def carry_out(
            scope: Scope, thread_id: ThreadId, draft: ForgetDraft, at: datetime
        ) -> int | None:
            named = NamedBeside(
                turns=frozenset((thread_id, one) for one in draft.event_ids),
                asking=frozenset({(thread_id, draft.event_id)}),
                memories=frozenset(draft.memory_ids),
            )
            requests = [one for topic in draft.topics if (one := topic_request(topic))]
            asked = _Asked(requests=requests, at=at, named=named)
            done = (await self._carry_out(scope, asked, MAX_BY_MODEL)).done
            return None if done.is_too_much else done.memories

        return carry_out

    @measured("forget_about", FORGOTTEN, lambda one: one.done.memories)
    async def _carry_out(self, scope: Scope, asked: _Asked, most: int | None = None) -> CarriedOut:
        storage = await self._handle.storage()
        tenant, now = scope_path(scope), self._handle.clock()
        held = await storage.query(tenant, partial(held_facts, MAX_PEOPLE, now))
        names = {one: names_of_topic(one, held) for one in asked.requests}

        def goes(text: str) -> bool:
            if text == asked.text:
                return all(one.is_whole for one in asked.requests)
            is_later = text in asked.later
            return not is_later and any(is_about(one, text, names[one]) for one in asked.requests)

        called = {one.topic for one in asked.requests}.union(*names.values())
        done = await storage.transact(
            tenant,
            partial(
                set_aside,
                uuid7(),
                [rest_of(memories_namespace(scope)), rest_of((scope.app, scope.user, PROFILE))],
                goes,
                {*map(normalised, called)},
                asked.at or now,
                now,
                now + KEPT_FOR,
                asked.named,
                most,
            ),
        )
        if done.run_id is not None:
            log.info("%d memories about a topic were set aside until %s", done.memories, done.until)
        return CarriedOut(topic=", ".join(one.topic for one in asked.requests), done=done)
