"""Windows: whatever a run counts as read or summed up was shown to the model that read it."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from turns import said

from shared_core import Event, JobType, MemoryEngine, Scope, open_memory
from shared_core.core.domain import NO_USAGE, ModelUsage
from shared_core.extraction.llm_extractor import ModelExtractor
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.models.language_model import ModelReply, ModelRequest

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")
Reading = Callable[..., Awaitable[MemoryEngine]]


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
    """A fake: gives its answers in order, then a summary alone, and keeps what it was shown."""

    name = "fake"

    def __init__(self, *answers: ModelReply) -> None:
        self.answers = list(answers)
        self.read: list[str] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.read.append(request.prompt)
        nothing = {"facts": [], "summary": f"They talked {len(self.read)} times."}
        return self.answers.pop(0) if self.answers else ModelReply(text=json.dumps(nothing))


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
async def test_every_turn_is_in_some_prompt_and_each_continues_the_summary(reading, scope, text):
    model = Model()
    extractor = ModelExtractor(model, RuleExtractor(), max_input_tokens=600, reads_all=True)
    numbers = range(1000, 1100)
    turns = [said(number, f"T{number}T {text}") for number in numbers]
    memory = await reading(extractor, *turns, said(2000, "T2000T " + "word " * 900))
    report = await memory.consolidate(scope, "t")
    turns_of = [one.rsplit("<turns>", 1)[1] for one in model.read]
    assert {*map(str, numbers), "2000"} == set(re.findall(r"T(\d+)T", "".join(turns_of)))
    assert report.usage.calls == len(model.read)
    assert f"They talked {len(model.read)} times." == report.summary
    assert "<previous>\nThey talked 1 times.\n" in model.read[1]


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


async def test_an_answer_without_a_summary_is_summed_up_by_rules(reading, scope):
    model = Model(ModelReply(text=json.dumps({"facts": [fact(1, "employer", "Acme")]})))
    extractor = ModelExtractor(model, RuleExtractor())
    told = ("Acme pays my wages these days.", "The tram is late.", "Thanks!")
    memory = await reading(extractor, *map(said, (1, 2, 3), told))
    report = await memory.consolidate(scope, "t")
    assert (1, " ".join(told[:2])) == (len(model.read), report.summary)
    assert ["Acme"] == [one.value for one in await memory.facts(scope)]
    [run] = await memory.runs(scope)
    assert ("llm-v3/extract.v3/fake", True) == (run.extractor, run.counts["summed_by_rules"])
    assert "instead_of" not in run.counts


@pytest.mark.parametrize(("told", "is_shown"), [("The cast is off!", True), ("So dry.", False)])
async def test_a_model_is_shown_the_fact_that_a_turn_ends_in_other_words(dsn, told, is_shown):
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.1] if re.search("leg|cast", text) else [0.1, 1.0] for text in texts]

    model = Model()
    extractor = ModelExtractor(model, RuleExtractor())
    async with open_memory(dsn, extractor=extractor, embedder=embed, worker=False) as memory:
        await memory.state_fact(ANN, "injury", "broke a leg")
        for number in range(60):
            await memory.state_fact(ANN, f"topic {number * 1111:06}", "word " * 40)
        await memory.append_events(ANN, "t", [said(1, told)])
        await memory.consolidate(ANN, "t")
    assert is_shown == ("broke a leg" in model.read[0])
    assert 20 < model.read[0].count("topic") < 60
