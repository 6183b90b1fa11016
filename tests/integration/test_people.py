"""Who was named stays known in every thread: what is said of them corrects what was said."""

from typing import Any

import pytest
from person import Person, at, read_by, then

from shared_core import Conflict
from shared_core.core.domain import Extraction
from tests.integration.test_runs import Scripted, fact
from tests.integration.two_at_once import while_reading

EMIL = ("My son Emil is seven.", "Emil is eight.", "relation.son.age", "seven", "eight")
XIAOYU = ("我女儿叫小雨，今年五岁。", "小雨今年六岁了。", "relation.daughter.age", "五岁", "六岁")


async def tell(ann: Person, thread: str, day: int, text: str, **more: Any) -> Any:
    return await ann.say(day, text, thread=thread, author=more.get("role", "user"), **more)


async def said_of(ann: Person) -> list[tuple[str, str]]:
    return sorted((one.slot, one.value) for one in await ann.facts())


@pytest.mark.parametrize(
    ("told", "corrected", "slot", "before", "after"),
    [
        EMIL,
        ("My son Emil is seven.", "Emil turned eight yesterday.", *EMIL[2:]),
        ("My son Emil is seven.", "Emil is eight, not seven.", *EMIL[2:]),
        ("My daughter Mia lives in Leeds.", "Mia lives in York.",
         "relation.daughter.place", "Leeds", "York"),
        ("My sister Freja works at Equinor.", "Freja works at Shell now.",
         "relation.sister.employer", "Equinor", "Shell"),
        ("My sister Freja works at Equinor.", "Freja called me yesterday. She works at Shell now.",
         "relation.sister.employer", "Equinor", "Shell"),
        XIAOYU,
        ("我妹妹叫小芳，在腾讯工作。", "小芳现在在百度工作。",
         "relation.sister.employer", "腾讯", "百度"),
    ],
)  # fmt: skip
async def test_a_name_told_in_one_thread_is_known_in_the_next(
    ann, told, corrected, slot, before, after
):
    await tell(ann, "a", 0, told)
    assert [before] == await ann.values(slot)
    await tell(ann, "b", 4, corrected)
    assert [after] == await ann.values(slot)
    assert [before] == await ann.values(slot, as_of=then(1))


@pytest.mark.parametrize("gap", [2, 12])
async def test_a_name_is_known_however_many_turns_later(ann, gap):
    await tell(ann, "a", 0, EMIL[0])
    for day in range(1, gap):
        await tell(ann, "a", day, f"What about day {day}?")
    await tell(ann, "a", gap, EMIL[1])
    assert ["eight"] == await ann.values("relation.son.age")


async def test_a_name_of_two_means_nobody(ann):
    await tell(ann, "a", 0, EMIL[0])
    await tell(ann, "b", 1, "My neighbour Emil lives in Oslo.")
    before = await said_of(ann)
    await tell(ann, "c", 4, EMIL[1])
    assert before == await said_of(ann)


async def test_what_the_conversation_says_of_a_name_goes_before(ann):
    await tell(ann, "a", 0, EMIL[0])
    await ann.tell(4, "My neighbour Emil lives in Oslo.", thread="b")
    await tell(ann, "b", 5, "Emil is forty. He moved to Bergen.")
    assert ["seven"] == await ann.values("relation.son.age")
    assert ["Bergen"] == await ann.values("relation.neighbour.place")


async def test_nobody_is_known_whom_only_an_assistant_named(ann):
    await ann.tell(0, "Hello! I work at Acme.", thread="a")
    await tell(ann, "a", 1, "My son Emil is seven.", role="agent")
    await tell(ann, "b", 4, EMIL[1])
    assert [("employer", "Acme")] == await said_of(ann)


async def test_nobody_is_known_whom_a_model_took_from_an_assistant(ann):
    script = {"e0": Extraction(facts=[fact("e0", "relation.son", "Emil", functional=False)])}
    ann = read_by(ann, Scripted(script))
    await tell(ann, "a", 0, "Your son Emil is seven.", role="agent")
    await tell(ann, "b", 4, EMIL[1])
    assert [("relation.son", "Emil")] == await said_of(ann)


async def test_nobody_is_known_before_they_were_named(ann):
    """What was said before the naming, and is read after it, would seem to be said with it."""
    await tell(ann, "a", 4, EMIL[0])
    await tell(ann, "b", 0, "Emil is six.")
    assert ["seven"] == await ann.values("relation.son.age")
    assert 1 == len(await ann.facts("relation.son.age", history=True))


async def test_threads_read_out_of_order_end_in_the_same_truth(ann):
    await tell(ann, "a", 0, EMIL[0])
    await tell(ann, "c", 8, "Emil is nine.")
    await tell(ann, "b", 4, EMIL[1])
    assert ["nine"] == await ann.values("relation.son.age")
    held = await ann.facts("relation.son.age", history=True)
    assert [("eight", 4, 8), ("nine", 8, None), ("seven", 0, 4)] == sorted(
        (one.value, (one.valid_from - at(0)).days,
         one.valid_until and (one.valid_until - at(0)).days) for one in held
    )  # fmt: skip


async def test_a_merged_name_means_the_same(ann):
    await tell(ann, "a", 0, "My daughter Mia lives in Leeds.")
    await ann.graph.merge_aliases("Mia", ["Mimi", "米娅"])
    await tell(ann, "b", 4, "Mimi lives in York.")
    assert ["York"] == await ann.values("relation.daughter.place")
    await tell(ann, "c", 5, "米娅住在巴黎。")
    assert ["巴黎"] == await ann.values("relation.daughter.place")
    edges = (await ann.graph.neighbourhood("Mia")).edges
    assert ["巴黎"] == [edge.object for edge in edges if edge.relation == "lives_in"]


@pytest.mark.parametrize("story", [
    [EMIL[1], "Emil loves chess. He speaks Danish."],
    ["Emil no longer likes chess."],
])  # fmt: skip
async def test_what_rests_on_a_name_goes_with_the_turn_that_told_it(ann, story):
    await tell(ann, "a", 0, EMIL[0])
    await tell(ann, "c", 1, "I work at Acme.")
    for number, text in enumerate(story):
        await tell(ann, f"b{number}", 4 + number, text)
    await ann.forget_turns("a", ["e0"])
    assert [("employer", "Acme")] == await said_of(ann)
    own = {text.casefold() for text in story}
    named = ann.rows_with("Emil")
    derived = [row for row in named if not any(text in row.casefold() for text in own)]
    assert [] == derived


async def test_a_name_told_twice_survives_the_second_telling(ann):
    await tell(ann, "a", 0, EMIL[0])
    await tell(ann, "b", 2, "My son Emil likes chess.")
    await tell(ann, "c", 4, EMIL[1])
    await ann.forget_turns("b", ["e2"])
    assert ["eight"] == await ann.values("relation.son.age")
    await ann.forget_turns("a", ["e0"])
    assert [] == await ann.facts()


async def test_a_run_is_undone_before_the_one_that_named_whom_it_means(ann):
    naming = await tell(ann, "a", 0, EMIL[0])
    await ann.tell(4, EMIL[1], thread="b")
    before = ann.rows()
    meaning = (await ann.consolidate("b")).run_id
    again = await tell(ann, "c", 5, "Emil is eight.")
    with pytest.raises(Conflict, match=f"{again}.*{meaning}"):
        await ann.undo_run(naming)
    [eight] = await ann.facts("relation.son.age")
    assert ("e0", "e4", "e5") == eight.source_event_ids
    await ann.undo_run(again)
    [eight] = await ann.facts("relation.son.age")
    assert ("e0", "e4") == eight.source_event_ids
    await ann.forget_turns("c", ["e5"])
    await ann.undo_run(meaning)
    after = ann.rows()
    after["threads"] = [row for row in after["threads"] if "'c'" not in row]
    assert before == after
    await ann.undo_run(naming)
    assert [] == await ann.facts(history=True)


async def test_undoing_what_was_said_again_leaves_nothing_of_its_basis(ann):
    await tell(ann, "a", 0, EMIL[0])
    await tell(ann, "b", 4, EMIL[1])
    await ann.undo_run(await tell(ann, "c", 5, EMIL[1]))
    await ann.forget_turns("b", ["e4"])
    assert [] == await ann.values("relation.son.age")


async def test_what_rests_on_a_name_expires_with_it(ann_by_clock):
    ann = ann_by_clock
    await tell(ann, "a", 0, EMIL[0], expires_at=at(9))
    await tell(ann, "b", 4, EMIL[1])
    assert ["eight"] == await ann.values("relation.son.age")
    ann.clock.day = 9.1
    assert [] == await ann.facts()
    await tell(ann, "c", 10, "Emil is nine.")
    assert [] == await ann.facts()


async def test_a_namesake_who_is_told_of_meanwhile_is_minded(ann_with):
    """Between the reading of who is known and the writing, another run names a second Emil."""
    ann, other = ann_with(), ann_with()
    await tell(ann, "a", 0, EMIL[0])
    await other.tell(1, "My neighbour Emil lives in Oslo.", thread="b")

    async def late() -> None:
        if await other.values("relation.neighbour") == []:
            await other.consolidate("b")

    while_reading(ann.memory, before=late)
    await tell(ann, "c", 4, EMIL[1])
    assert ["seven"] == await ann.values("relation.son.age")


async def test_a_naming_turn_that_is_forgotten_meanwhile_is_minded(ann_with):
    ann, other = ann_with(), ann_with()
    await tell(ann, "a", 0, EMIL[0])
    while_reading(ann.memory, before=lambda: other.forget_turns("a", ["e0"]))
    await tell(ann, "c", 4, EMIL[1])
    assert [] == await ann.facts(history=True)
