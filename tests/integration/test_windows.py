"""Windows: whatever a run counts as read or summed up was shown to the model that read it."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from turns import said

from shared_core import Event, JobType, MemoryEngine, open_memory
from shared_core.core.domain import NO_USAGE, ModelUsage
from shared_core.extraction.llm_extractor import ModelExtractor
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.models.language_model import ModelReply, ModelRequest

pytestmark = pytest.mark.both_engines

Reading = Callable[..., Awaitable[MemoryEngine]]
NOTHING = '{"facts": [], "statements": [], "insights": [], "relations": [], "feelings": []}'


@pytest.fixture(scope="module")
def module_dsn(postgres):
    """A database in which each test is a user, and no worker runs."""
    yield from postgres.lend()


@pytest.fixture
async def reading(module_dsn, scope):
    """Opens a memory with an extractor and a thread of turns that nobody has read."""
    async with AsyncExitStack() as stack:

        async def reading(extractor: Any, *turns: Event) -> MemoryEngine:
            opened = open_memory(module_dsn, extractor=extractor, worker=False)
            memory = await stack.enter_async_context(opened)
            await memory.append_events(scope, "t", turns, later=True)
            return memory

        yield reading


class Model:
    """A fake: answers by what it is asked, and keeps what it was shown to sum up."""

    name = "fake"

    def __init__(self, *answers: ModelReply, summary: str = "They talked.") -> None:
        self.answers = list(answers)
        self.summary = ModelReply(text=json.dumps({"summary": summary}))
        self.summed: list[str] = []
        self.read: list[str] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        if "summary so far" in request.prompt:
            self.summed.append(request.prompt)
            return self.summary
        self.read.append(request.prompt)
        return self.answers.pop(0) if self.answers else ModelReply(text=NOTHING)


def fact(turn: int, slot: str, value: str) -> dict[str, object]:
    return {"turns": [turn], "slot": slot, "value": value, "statement": f"{slot}: {value}."}


async def test_what_stands_behind_a_cut_off_answer_is_read_by_the_next_run(reading, scope):
    whole = json.dumps({"facts": [fact(1, "employer", "Acme"), fact(2, "residence", "Rome")]})
    rest = json.dumps({"facts": [fact(1, "residence", "Rome"), fact(2, "allergy", "penicillin")]})
    model = Model(ModelReply(text=whole[:-30], finish="length"), ModelReply(text=rest))
    talk = ("I work at Acme", "I live in Rome", "I am allergic to penicillin")
    turns = [said(n, text) for n, text in enumerate(talk)]
    memory = await reading(ModelExtractor(model, RuleExtractor()), *turns)
    assert (3, 2) == ((await memory.consolidate(scope, "t")).events, len(model.read))
    values = {one.value: one.source_event_ids for one in await memory.facts(scope)}
    assert {"Acme": ("e0",), "Rome": ("e1",), "penicillin": ("e2",)} == values


async def test_a_cut_off_answer_that_came_to_no_turn_before_is_not_asked_for_for_ever(
    reading, scope
):
    cut = json.dumps({"facts": [fact(9, "like", "tea"), fact(1, "like", "tea")]})
    model = Model(*[ModelReply(text=cut[:-30], finish="length")] * 5)
    extractor = ModelExtractor(model, RuleExtractor())
    memory = await reading(extractor, said(1, "I like tea"), said(2, "and cake"))
    assert 2 == (await memory.consolidate(scope, "t")).events
    assert 1 == len(model.read)


@pytest.mark.parametrize("text", ["I had tea, nice", "我喜歡臺灣的龜苓膏與鹽酥雞，醫師說我過敏。"])
async def test_every_turn_is_in_some_prompt_for_the_summary(reading, scope, text):
    model = Model()
    extractor = ModelExtractor(model, RuleExtractor(), max_input_tokens=600)
    numbers = range(1000, 1100)
    turns = [said(number, f"T{number}T {text}") for number in numbers]
    memory = await reading(extractor, *turns, said(2000, "T2000T " + "word " * 900))
    await memory.consolidate(scope, "t")
    assert {*map(str, numbers), "2000"} == set(re.findall(r"T(\d+)T", "".join(model.summed)))
    assert len(model.summed) == len(model.read)


class Telling(RuleExtractor):
    """A fake: a summary names the turns it was made of."""

    def __init__(self, *, window_tokens: int, reread_turns: int) -> None:
        super().__init__()
        self.window_tokens = window_tokens
        self.reread_turns = reread_turns

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        return " ".join([*previous.split(), *(one.event_id for one in events)]), NO_USAGE


@pytest.mark.parametrize("reread", [0, 3])
async def test_a_summary_written_anew_tells_of_the_whole_thread(reading, scope, reread):
    extractor = Telling(window_tokens=200, reread_turns=reread)
    turns = [said(number, f"I was in town number {number} that day.") for number in range(1, 41)]
    memory = await reading(extractor, *turns)
    await memory.consolidate(scope, "t")
    await memory.forget_turns(scope, "t", ["e40"])
    assert [] == await memory.list_memories(scope, kinds=["summary"])
    report = await memory.consolidate(scope, "t", job_type=JobType.FAST_REPLAY)
    told = [one.event_id for one in turns[:-1]]
    assert told == list(dict.fromkeys(report.summary.split()))
    [summary] = await memory.list_memories(scope, kinds=["summary"])
    assert set(told) == set(summary.source_event_ids)
    assert None is (await memory.consolidate(scope, "t")).run_id


async def test_a_refused_summary_costs_no_extraction(reading, scope):
    model = Model(ModelReply(text=json.dumps({"facts": [fact(1, "employer", "Acme")]})))
    model.summary = ModelReply(text="", finish="refused")
    extractor = ModelExtractor(model, RuleExtractor())
    told = ("Acme pays my wages these days.", "The tram is late.", "Thanks!")
    memory = await reading(extractor, *map(said, (1, 2, 3), told))
    report = await memory.consolidate(scope, "t")
    assert (1, " ".join(told[:2])) == (len(model.read), report.summary)
    assert ["Acme"] == [one.value for one in await memory.facts(scope)]
    [run] = await memory.runs(scope)
    assert ("llm-v2/extract.v2/fake", True) == (run.extractor, run.counts["summed_by_rules"])
    assert "instead_of" not in run.counts
