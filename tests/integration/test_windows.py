"""Windows: whatever a run counts as read or summed up was shown to the model that read it."""

import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from turns import said

from shared_core import Event, JobType, MemoryEngine, Scope, open_memory
from shared_core.core.domain import NO_USAGE, ModelUsage
from shared_core.extraction.rule_based import RuleExtractor
from tests.unit.scripted_model import cut, fact, reading as read_by

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")


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


NOTHING = [{"facts": [], "summary": f"They talked {n} times."} for n in range(1, 200)]


async def test_what_stands_behind_a_cut_off_answer_is_read_by_the_next_run(reading, scope):
    rest = [fact([1], "residence", "Rome"), fact([2], "allergy", "penicillin")]
    first = cut(30, fact([1], "employer", "Acme"), fact([2], "residence", "Rome"))
    extractor, model = read_by(first, {"facts": rest}, *NOTHING)
    talk = ("I work at Acme", "I live in Rome", "I am allergic to penicillin")
    memory = await reading(extractor, *map(said, range(3), talk))
    assert (3, 2) == ((await memory.consolidate(scope, "t")).events, len(model.asked))
    values = {one.value: one.source_event_ids for one in await memory.facts(scope)}
    assert {"Acme": ("e0",), "Rome": ("e1",), "penicillin": ("e2",)} == values


async def test_a_cut_off_answer_that_came_to_no_turn_before_is_asked_for_once(reading, scope):
    extractor, model = read_by(*[cut(30, fact([9], "like", "tea"), fact([1], "like", "tea"))] * 5)
    memory = await reading(extractor, said(1, "I like tea"), said(2, "and cake"))
    assert (2, 1) == ((await memory.consolidate(scope, "t")).events, len(model.asked))


@pytest.mark.parametrize("text", ["I had tea, nice", "我喜歡臺灣的龜苓膏與鹽酥雞，醫師說我過敏。"])
async def test_every_turn_is_in_some_prompt_and_each_continues_the_summary(reading, scope, text):
    extractor, model = read_by(*NOTHING, max_input_tokens=600, reads_all=True)
    numbers = range(1000, 1100)
    turns = [said(number, f"Turn {number}: {text}") for number in numbers]
    memory = await reading(extractor, *turns, said(2000, "Turn 2000: " + "said " * 900))
    report = await memory.consolidate(scope, "t")
    turns_of = [one.prompt.rsplit("<turns>", 1)[1] for one in model.asked]
    assert {*map(str, numbers), "2000"} == set(re.findall(r"Turn (\d+):", "".join(turns_of)))
    assert report.usage.calls == len(model.asked)
    assert f"They talked {len(model.asked)} times." == report.summary
    assert "<previous>\nThey talked 1 times.\n" in model.asked[1].prompt


class Telling(RuleExtractor):
    """A fake: a summary names the turns it was made of."""

    window_tokens = 200

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        return " ".join([*previous.split(), *(one.event_id for one in events)]), NO_USAGE


@pytest.mark.parametrize("reread", [0, 3])
async def test_a_summary_written_anew_tells_of_the_whole_thread(reading, scope, reread):
    extractor = Telling()
    extractor.reread_turns = reread
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
    extractor, model = read_by({"facts": [fact([1], "employer", "Acme")]})
    told = ("Acme pays my wages these days.", "The tram is late.", "Thanks!")
    memory = await reading(extractor, *map(said, (1, 2, 3), told))
    report = await memory.consolidate(scope, "t")
    assert (1, " ".join(told[:2])) == (len(model.asked), report.summary)
    assert ["Acme"] == [one.value for one in await memory.facts(scope)]
    [run] = await memory.runs(scope)
    assert ("llm-v3/extract.v4/scripted", True) == (run.extractor, run.counts["summed_by_rules"])
    assert "instead_of" not in run.counts


@pytest.mark.parametrize(("told", "is_shown"), [("The cast is off!", True), ("So dry.", False)])
async def test_a_model_is_shown_the_fact_that_a_turn_ends_in_other_words(dsn, told, is_shown):
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.1] if re.search("leg|cast", text) else [0.1, 1.0] for text in texts]

    extractor, model = read_by(*NOTHING)
    async with open_memory(dsn, extractor=extractor, embedder=embed, worker=False) as memory:
        await memory.state_fact(ANN, "injury", "broke a leg")
        for number in range(60):
            await memory.state_fact(ANN, f"topic {number * 1111:06}", "word " * 40)
        await memory.append_events(ANN, "t", [said(1, told)])
        await memory.consolidate(ANN, "t")
    prompt = model.asked[0].prompt
    assert is_shown == ("broke a leg" in prompt) and 20 < prompt.count("topic") < 60
