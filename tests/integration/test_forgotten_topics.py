"""Requests of users to forget a topic: what goes, what stays, and how it comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared_core import Conflict, Event, InvalidInput, MemoryEngine, Scope, open_memory
from shared_core.core.domain import Extraction
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.retention.forget_requests import NewTurns

pytestmark = pytest.mark.both_engines

ANA = Scope("app", "ana")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


class Talk:
    """A user who talks, and the clock."""

    def __init__(self, memory: MemoryEngine) -> None:
        self.memory = memory
        self.now = START
        self.said = 0

    async def say(self, text: str, thread: str = "t", role: str = "user") -> NewTurns:
        self.now += timedelta(minutes=1)
        self.said += 1
        turn: dict[str, Any] = {"author": role, "role": role}
        event = Event(event_id=f"e{self.said}", text=text, occurred_at=self.now, **turn)
        return await self.memory.append_events(ANA, thread, [event])

    async def told(self, query: str) -> str:
        """Return everything that memory tells of a query, in every way."""
        hits = await self.memory.recall(ANA, query, limit=50)
        listed = await self.memory.list_memories(ANA, limit=100)
        facts = await self.memory.facts(ANA)
        walked = await self.memory.graph.neighbourhood(ANA, "user")
        context = await self.memory.context_window(ANA, "other", query)
        return "\n".join([
            *(hit.memory.text for hit in hits), *(one.text for one in listed),
            *(one.statement for one in facts), *(edge.object for edge in walked.edges),
            context.prompt.replace(query, ""),
        ])  # fmt: skip


@pytest.fixture
async def talk(dsn: str) -> AsyncIterator[Talk]:
    async with open_memory(dsn, worker=False) as memory:
        yield Talk(memory)


async def test_what_is_about_a_person_leaves_recall_at_once(talk: Talk) -> None:
    for text in ("My brother Theo is a baker.", "I live in Leeds.", "Theo came round on Sunday."):
        await talk.say(text)
    await talk.memory.consolidate(ANA, "t")
    assert "Theo" in await talk.told("What do you know about Theo?")
    new = await talk.say("Forget what I said about Theo")
    [gone] = new.set_aside
    assert gone.topic == "Theo"
    assert gone.done.memories >= 4 and gone.done.facts >= 1
    told = await talk.told("What do you know about Theo?")
    assert "Theo" not in told
    assert "Leeds" in told
    await talk.say("I love tea.")
    await talk.memory.consolidate(ANA, "t")
    assert "Theo" not in await talk.told("Who is Theo?")


async def test_the_name_of_a_relative_is_known(talk: Talk) -> None:
    await talk.say("我弟弟叫阿泽。")
    await talk.say("我住在苏州。")
    await talk.say("阿泽下周来看我。")
    await talk.memory.consolidate(ANA, "t")
    [gone] = (await talk.say("把我弟弟的事忘了吧")).set_aside
    assert gone.topic == "我弟弟"
    told = await talk.told("阿泽是谁？")
    assert "阿泽" not in told
    assert "苏州" in told


async def test_a_topic_goes_in_each_form_of_its_word(talk: Talk) -> None:
    await talk.say("I used to smoke but I quit.")
    await talk.say("I am a social worker and I live in Leeds.")
    await talk.memory.consolidate(ANA, "t")
    [gone] = (await talk.say("please forget what I told you about smoking")).set_aside
    assert gone.done.memories >= 1
    told = await talk.told("What did I give up?")
    assert "smok" not in told
    assert "Leeds" in told
    [kept] = (await talk.say("please forget what I told you about work")).set_aside
    assert kept.done.facts == 0
    assert "worker" in await talk.told("What is my job?")


async def test_undoing_the_run_brings_all_back(talk: Talk) -> None:
    await talk.say("My brother Theo is a baker.")
    await talk.memory.consolidate(ANA, "t")
    before = [one.statement for one in await talk.memory.facts(ANA)]
    [gone] = (await talk.say("forget everything about theo please")).set_aside
    assert await talk.memory.facts(ANA) == []
    [run, *_] = await talk.memory.runs(ANA)
    assert (run.run_id, run.kind) == (gone.done.run_id, "forget")
    assert "Theo" not in str(run.counts)
    await talk.memory.undo_run(ANA, run.run_id)
    assert [one.statement for one in await talk.memory.facts(ANA)] == before
    assert "Theo" in await talk.told("Who is Theo?")


async def test_it_is_erased_after_thirty_days(dsn: str) -> None:
    now = [START]
    async with open_memory(dsn, worker=False, clock=lambda: now[0]) as memory:
        talk = Talk(memory)
        await talk.say("My brother Theo is a baker.")
        await talk.say("I live in Leeds.")
        await memory.consolidate(ANA, "t")
        await talk.say("Forget what I said about Theo.")
        now[0] += timedelta(days=29)
        assert await memory.sweep_expired(("app", "ana")) == 0
        now[0] += timedelta(days=2)
        assert await memory.sweep_expired(("app", "ana")) >= 2
        exported = [line async for line in memory.export(ANA)]
        assert "Theo" not in "".join(exported)
        assert "Leeds" in "".join(exported)


async def test_turns_that_no_run_has_read_draw_no_facts(talk: Talk) -> None:
    await talk.say("My brother Theo is a baker.")
    await talk.say("I live in Leeds.")
    await talk.say("Forget what I said about Theo")
    await talk.memory.consolidate(ANA, "t")
    assert "Theo" not in await talk.told("Who is Theo?")
    assert [one.slot for one in await talk.memory.facts(ANA)] == ["residence"]


async def test_what_is_said_after_a_request_stays(talk: Talk) -> None:
    texts = ("My brother Theo is a baker.", "Forget what I said about Theo",
             "I have a new friend called Theo.")  # fmt: skip
    events = [
        Event(event_id=str(place), author="user", role="user", text=text, occurred_at=START)
        for place, text in enumerate(texts)
    ]
    new = await talk.memory.append_events(ANA, "t", events)
    assert [one.done.memories for one in new.set_aside] == [2]
    await talk.memory.consolidate(ANA, "t")
    assert [one.slot for one in await talk.memory.facts(ANA)] == ["relation.friend"]


async def test_a_topic_is_set_aside_once(talk: Talk) -> None:
    await talk.say("My brother Theo is a baker.")
    await talk.memory.consolidate(ANA, "t")
    assert (await talk.memory.forget_about(ANA, "Theo")).done.run_id is not None
    again = await talk.memory.forget_about(ANA, "Theo")
    assert (again.done.run_id, again.done.memories) == (None, 0)


async def test_what_two_requests_set_aside_comes_back_when_both_are_undone(talk: Talk) -> None:
    await talk.say("My brother Theo plays chess.")
    await talk.say("I met a chess club in Leeds.")
    theo = await talk.memory.forget_about(ANA, "Theo")
    chess = await talk.memory.forget_about(ANA, "chess")
    assert theo.done.run_id is not None
    assert chess.done.run_id is not None
    with pytest.raises(Conflict, match=str(chess.done.run_id)):
        await talk.memory.undo_run(ANA, theo.done.run_id)
    assert "chess" not in await talk.told("Who plays chess?")
    await talk.memory.undo_run(ANA, chess.done.run_id)
    await talk.memory.undo_run(ANA, theo.done.run_id)
    assert "Theo plays chess" in await talk.told("Who plays chess?")


async def test_what_was_forgotten_may_be_said_again(talk: Talk) -> None:
    await talk.say("My brother Theo is a baker.")
    await talk.memory.consolidate(ANA, "t")
    await talk.say("Forget what I said about Theo")
    await talk.say("My brother Theo is a baker.")
    await talk.memory.consolidate(ANA, "t")
    slots = [one.slot for one in await talk.memory.facts(ANA)]
    assert slots == ["relation.brother", "relation.brother.job"]


async def test_an_old_request_leaves_what_was_said_later(talk: Talk) -> None:
    await talk.say("My brother Theo is a baker.")
    await talk.memory.consolidate(ANA, "t")
    asking = Event(
        event_id="old", author="user", role="user", text="Forget what I said about Theo",
        occurred_at=START - timedelta(days=1),
    )  # fmt: skip
    new = await talk.memory.append_events(ANA, "older", [asking])
    assert [(one.done.facts, one.done.edges) for one in new.set_aside] == [(0, 0)]
    assert "Theo is a baker" in await talk.told("Who is Theo?")


async def test_what_was_brought_back_is_read_by_the_next_run(talk: Talk) -> None:
    await talk.say("My brother Theo is a baker.")
    [gone] = (await talk.say("Forget what I said about Theo")).set_aside
    assert gone.done.run_id is not None
    await talk.memory.undo_run(ANA, gone.done.run_id)
    await talk.memory.consolidate(ANA, "t")
    assert "relation.brother" in [one.slot for one in await talk.memory.facts(ANA)]


async def test_a_run_writes_nothing_that_was_set_aside_while_it_read(dsn: str) -> None:
    class Interrupted(RuleExtractor):
        async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
            found = await super().extract(events, context)
            await memory.forget_about(ANA, "Theo")
            return found

    async with open_memory(dsn, worker=False, extractor=Interrupted()) as memory:
        talk = Talk(memory)
        await talk.say("My brother Theo is a baker.")
        await talk.say("I live in Leeds.")
        await memory.consolidate(ANA, "t")
        told = await talk.told("Who is Theo, and where do I live?")
        assert "Theo" not in told
        assert "Leeds" in told


async def test_only_the_user_may_ask(talk: Talk) -> None:
    await talk.say("My brother Theo is a baker.")
    new = await talk.say("Forget what I said about Theo", role="agent")
    assert new.set_aside == ()
    assert "Theo is a baker" in await talk.told("Who is Theo?")


async def test_an_option_switches_it_off(dsn: str) -> None:
    async with open_memory(dsn, worker=False, forget_requests=False) as memory:
        talk = Talk(memory)
        await talk.say("My brother Theo is a baker.")
        assert (await talk.say("Forget what I said about Theo")).set_aside == ()
        assert "baker" in await talk.told("Who is Theo?")
        gone = await memory.forget_about(ANA, "Theo")
        assert gone.done.memories == 2
        assert "Theo" not in await talk.told("Who is Theo?")


async def test_a_topic_nobody_spoke_of_changes_nothing(talk: Talk) -> None:
    await talk.say("I live in Leeds.")
    gone = await talk.memory.forget_about(ANA, "Theo")
    assert gone.done.run_id is None
    assert await talk.memory.runs(ANA) == []
    with pytest.raises(InvalidInput, match="topic must name something"):
        await talk.memory.forget_about(ANA, "it")


async def test_process_memory_says_what_went_and_keeps_it_out(dsn: str) -> None:
    async with open_memory(dsn) as memory:
        await memory.process_memory("My brother Theo is a baker.", "ana", app="app")
        answer = await memory.process_memory("forget what i said about theo", "ana", app="app")
        [gone] = answer["metadata"]["set_aside"]
        assert gone["topic"] == "theo"
        await memory.process_memory("I live in Leeds.", "ana", app="app")
        await memory.end_session(user_id="ana", app="app")
        assert await memory.flush()
        told = await Talk(memory).told("Who is Theo, and where do I live?")
        assert "Theo" not in told
        assert "Leeds" in told
