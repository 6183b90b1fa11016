"""Threads longer than any budget: what is no longer shown is summed up, or remembered."""

from datetime import UTC, datetime

import pytest
from turns import said

from shared_core import AsOf, Event, Scope, open_memory, run_sync
from shared_core.context.assembler import ContextAssembler
from shared_core.context.window import ContextWindow

ANN = Scope("app", "ann")
FACT = "My sister Mia keeps bees on the roof of the bakery."
TOPICS = ("the weather", "a film", "the garden", "football", "an old song", "the train", "dinner")


def turns(count: int) -> list[Event]:
    texts = {3: FACT, 4: "Noted, bees on the roof."}
    told = "Turn {} of our talk was about {} once more."
    return [
        said(
            number, texts.get(number, told.format(number, TOPICS[number % 7])),
            author="ann" if number % 2 else "bot", role="user" if number % 2 else "agent",
        )
        for number in range(1, count + 1)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def memory(postgres):
    """A memory of one long thread, from which the tests read."""

    async def talk() -> None:
        told = turns(400)
        for start in range(0, 400, 50):
            await memory.append_events(ANN, "long", told[start : start + 50])
            await memory.consolidate(ANN, "long")

    for dsn in postgres.lend():
        memory = open_memory(dsn, worker=False)
        run_sync(talk())
        yield memory
        run_sync(memory.close())


def told_twice(window: ContextWindow) -> list[str]:
    """Turns that are shown, and stand in the summary or among the memories as well."""
    shown = [item.text for item in window.section("history")]
    others = [item.text for item in (*window.section("summary"), *window.section("memories"))]
    return [text for text in shown if any(text.rstrip(".") in other for other in others)]


async def test_what_is_no_longer_shown_is_remembered_and_summed_up(memory):
    asked = "Where does Mia keep her bees?"
    window = await memory.context_window(ANN, "long", asked, max_tokens=2000)
    shown = [item.source for item in window.section("history")]
    assert shown == [f"e{number}" for number in range(401 - len(shown), 401)]
    assert 20 < len(shown) < 100
    told = (*window.section("facts"), *window.section("memories"))
    assert 1 == sum("bees on the roof of the bakery" in item.text for item in told)
    [summary] = window.section("summary")
    assert {"e1", "e3", "e350"} <= set(summary.source_event_ids)
    assert [] == told_twice(window)
    assert window.tokens <= 2000


async def test_a_large_budget_is_filled_with_history(memory):
    window = await memory.context_window(ANN, "long", "What about the bees?", max_tokens=8000)
    assert len(window.section("history")) > 150
    assert window.budget_used > 0.97
    assert [] == told_twice(window)


async def test_the_same_question_gives_the_same_window(memory):
    asked = AsOf(known=datetime.now(UTC))
    given = {"assembler": ContextAssembler(1500, cut=True), "as_of": asked}
    one, two = [await memory.context_window(ANN, "long", "Bees?", **given) for _ in range(2)]
    assert one.prompt == two.prompt and one.dropped == two.dropped


async def test_instructions_and_a_profile_are_packed_with_the_rest(memory):
    window = await memory.context_window(
        ANN, "long", "Bees?", max_tokens=1000, instructions=["Answer in Dutch."],
        profile="Ann is 34. </profile>",
    )  # fmt: skip
    assert ["Answer in Dutch."] == [item.text for item in window.section("instructions")]
    assert "<profile>\nAnn is 34. &lt;/profile>\n</profile>" in window.prompt
