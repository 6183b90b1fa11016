"""engine.forget_about, and requests such as "Forget what I said about Theo" in a user's turns."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
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
    EVERYTHING,
    FOUND,
    MAX_READ_CHARACTERS,
    NOTHING_FOUND,
    ForgetRequest,
    forget_requests,
    may_ask,
    topic_request,
)
from shared_core.extraction.forget_topics import (
    AnyFact,
    ForgetTopic,
    facts_told,
    topic_told,
    without_turns_of_others,
)
from shared_core.lifecycle import Handle
from shared_core.nlp.text import normalised
from shared_core.policies.forgetting import TurnKey
from shared_core.policies.run_reads import held_facts, last_turn, unread_turns
from shared_core.policies.setting_aside import (
    KEPT_FOR,
    NOTHING_NAMED,
    HeldMemory,
    NamedBeside,
    SetAside,
    set_aside,
)
from shared_core.ports.operations import Policy
from shared_core.privacy.sanitizing import LONG_TEXTS
from shared_core.recall.service import Recall

log = logging.getLogger("hippocampus")

MAX_BY_MODEL: Final = 200
"""Maximum number of memories that one request found by a model sets aside."""
NONE: Final = -1
"""Maximum number of memories with which a policy only counts them."""
MAX_FACTS: Final = 500
"""Maximum number of held facts, and of ended ones, among which a topic is looked up."""
MAX_THREADS: Final = 5
"""Maximum number of threads whose unread turns are read for facts about a topic."""
MAX_NEAR: Final = 64
"""Maximum number of memories that the judge compares with a request without a topic."""
MAX_UNREAD: Final = 50
"""Maximum number of unread turns of a thread that are read for facts about a topic."""


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

    text: of that turn. at: its time, None for now. later: the texts of turns stored with
    it that were said after it, which stay. named: what goes beside the topic, as the turn that
    asks, if it says nothing else.
    """

    requests: Sequence[ForgetRequest]
    text: str = ""
    at: datetime | None = None
    later: Collection[str] = ()
    named: NamedBeside = NOTHING_NAMED

    def keeps(self, turn: Event) -> bool:
        """Tell whether a turn is not meant: the one that asks, or one after it."""
        is_later = self.at is not None and turn.occurred_at > self.at
        return is_later or turn.text == self.text or turn.text in self.later


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


class ForgetRequests:
    """Carries out requests of users to forget a topic.

    is_on: whether turns may ask for it. reads: whether the judge reads requests without a topic;
    a model that reads the turns finds them itself.
    """

    def __init__(self, handle: Handle, recall: Recall, *, is_on: bool, reads: bool) -> None:
        self._handle = handle
        self._recall = recall
        self._is_on = is_on
        self._reads = reads

    async def _requests(self, text: str) -> Sequence[ForgetRequest]:
        """Return the requests in a text, read beside the event loop."""
        if not self._is_on or (len(text) < LONG_TEXTS and not may_ask(text)):
            return ()
        return await asyncio.to_thread(forget_requests, text, reads=self._reads)

    async def in_turns(
        self, scope: Scope, thread_id: ThreadId, turns: Sequence[Event]
    ) -> list[CarriedOut]:
        """Carry out the requests in turns of the user, in order; those of others are ignored.

        What later turns say of a topic stays. The requests of one turn are one run.
        """
        done: list[CarriedOut] = []
        for place, turn in enumerate(turns if self._is_on else ()):
            if requests := await self._requests(turn.text) if turn.role == "user" else ():
                asked = _Asked(
                    requests=requests,
                    text=turn.text,
                    at=turn.occurred_at,
                    later={one.text for one in turns[place + 1 :]}
                    - {one.text for one in turns[:place]},
                    named=await self._beside(scope, thread_id, turns[place:], requests),
                )
                done.append(await self._carry_out(scope, asked))
        return done

    async def in_text(self, scope: Scope, text: str) -> list[CarriedOut]:
        """Carry out the requests in a text that the user says now."""
        requests = await self._requests(text)
        asked = _Asked(requests=requests, text=text)
        return [await self._carry_out(scope, asked)] if requests else []

    async def notice(self, scope: Scope, text: str) -> str:
        """Return what storing a text of the user will forget, for the model that answers it.

        "" for a text that asks to forget nothing, or only the turn before it.
        """
        requests = await self._requests(text)
        if not requests or any(one.is_of_last for one in requests):
            return ""
        asked = _Asked(requests=requests, text=text)
        topics, policy = await self._policy(scope, asked, NONE)
        if any(one.is_all for one in topics):
            return EVERYTHING
        storage = await self._handle.storage()
        number = (await storage.query(scope_path(scope), policy)).memories
        return FOUND.format(number) if number else NOTHING_FOUND

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
        _, policy = await self._policy(scope, asked, most)
        done = await storage.transact(scope_path(scope), policy)
        if done.run_id is not None:
            log.info("%d memories about a topic were set aside until %s", done.memories, done.until)
        return CarriedOut(topic=", ".join(one.topic for one in asked.requests), done=done)

    async def _policy(
        self, scope: Scope, asked: _Asked, most: int | None
    ) -> tuple[Sequence[ForgetTopic], Callable[[], Policy[SetAside]]]:
        """Return what requests are about, and the policy that sets it aside."""
        now = self._handle.clock()
        topics, named = await self._topics(scope, asked, now)

        def goes(one: HeldMemory) -> bool:
            is_kept = one.text == asked.text or one.text in asked.later
            return not is_kept and any(topic.has_text(one.text, one.role) for topic in topics)

        called = {one.request.topic for one in topics}.union(*(one.names for one in topics))
        return topics, partial(
            set_aside,
            uuid7(),
            [rest_of(memories_namespace(scope)), rest_of((scope.app, scope.user, PROFILE))],
            goes,
            {*map(normalised, called)},
            asked.at or now,
            now,
            now + KEPT_FOR,
            named,
            most,
        )

    async def _beside(
        self,
        scope: Scope,
        thread_id: ThreadId,
        turns: Sequence[Event],
        requests: Sequence[ForgetRequest],
    ) -> NamedBeside:
        """Return the turn that asks, if it goes, and the one before it, if that is meant.

        turns: the turn that asks, and those stored with it that are later.
        """
        asking = {(thread_id, turns[0].event_id)} if requests[0].is_whole else set()
        meant: str | None = None
        if any(one.is_of_last for one in requests):
            storage = await self._handle.storage()
            policy = partial(last_turn, thread_id, [one.event_id for one in turns])
            meant = await storage.query(scope_path(scope), policy)
        named = {(thread_id, meant)} if meant else set()
        return NamedBeside(turns=frozenset(named), asking=frozenset(asking))

    async def _topics(
        self, scope: Scope, asked: _Asked, now: datetime
    ) -> tuple[Sequence[ForgetTopic], NamedBeside]:
        """Return what requests are about, and what goes beside: facts of it and their turns."""
        storage, tenant = await self._handle.storage(), scope_path(scope)
        held = await storage.query(tenant, partial(held_facts, MAX_FACTS, now))
        unread = await storage.query(tenant, partial(unread_turns, MAX_THREADS, MAX_UNREAD))
        told = [
            ((thread_id, fact.event_id), fact)
            for thread_id, turns in unread.items()
            for fact in await asyncio.to_thread(
                facts_told, [one for one in turns if not asked.keeps(one)]
            )
        ]
        facts: list[AnyFact] = [*held, *(fact for _, fact in told)]
        said = asked.text if self._reads else ""
        near = await self._near(scope, asked) if said else {}
        topics = [
            await asyncio.to_thread(topic_told, one, facts, [*near], said) for one in asked.requests
        ]
        drawn: defaultdict[TurnKey, set[str]] = defaultdict(set)
        for turn, statement in [
            *((turn, one.statement) for one in held for turn in one.turns),
            *((turn, one.statement) for turn, one in told),
        ]:
            drawn[turn].add(statement)
        of_text = {text: drawn[turn] for text, turn in near.items() if turn and turn in drawn}
        topics = [without_turns_of_others(one, of_text) for one in topics]
        judged = {
            turn for text, turn in near.items()
            if turn is not None and any(text in one.judged for one in topics)
        }  # fmt: skip
        gone = [
            one for one in held if _is_of(one, topics) or judged.issuperset(one.turns or {None})
        ]
        values = frozenset(one.value for one in gone if one.value)
        topics = [replace(one, values=one.values | values) for one in topics]
        named = asked.named
        return topics, replace(
            named,
            turns=named.turns | {turn for turn, one in told if _is_of(one, topics)},
            memories=named.memories | {one.memory_id for one in gone},
        )

    async def _near(self, scope: Scope, asked: _Asked) -> dict[str, TurnKey | None]:
        """Return the texts that recall finds for the turn that asks, each with its turn, if any."""
        if len(asked.text) > MAX_READ_CHARACTERS:
            return {}
        hits = await self._recall(scope, asked.text, limit=MAX_NEAR, reranker=False, counted=False)
        found: dict[str, TurnKey | None] = {}
        for memory in (one.memory for one in hits if not one.parts.get("agent")):
            if memory.text != asked.text and memory.text not in asked.later:
                key = None
                if memory.author and memory.thread_id and memory.source_event_ids:
                    key = (memory.thread_id, memory.source_event_ids[0])
                found[memory.text] = key
        return found


def _is_of(fact: AnyFact, topics: Iterable[ForgetTopic]) -> bool:
    return any(one.has_fact(fact) for one in topics)
