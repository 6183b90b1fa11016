"""A turn with other words replaces the old one, by a run that can be undone."""

from datetime import timedelta

import pytest

from tests.turns import START, said

pytestmark = pytest.mark.both_engines
PARIS, GHENT = said("1", "I live in Paris."), "I moved to Ghent."
BROTHER, NO_MORE = "My brother moved to Ghent.", "I no longer live in Paris."


def second(text, role="user"):
    return said("2", text, START + timedelta(days=9), role=role, author=role)


ROME = said("3", "I moved to Rome.", START + timedelta(days=30))
AGAIN = said("3", "I live in Ghent, near the station.", START + timedelta(days=30))


@pytest.mark.parametrize(
    ("turns", "before", "after"),
    [
        ([PARIS, second(GHENT), second(BROTHER)], {"Ghent"}, {"Paris"}),
        ([PARIS, second(GHENT), ROME, second(BROTHER)], {"Rome"}, {"Rome"}),
        ([PARIS, second(GHENT), second(BROTHER), second(GHENT)], {"Paris"}, {"Ghent"}),
        ([PARIS, second(NO_MORE), second("I no longer eat meat.")], set(), {"Paris"}),
        ([PARIS, second(GHENT), AGAIN, second(BROTHER)], {"Ghent"}, {"Ghent"}),
        ([PARIS, second("ok"), second(GHENT)], {"Paris"}, {"Ghent"}),
        ([PARIS, second("Noted.", "agent"), second("Nice town!", "agent")], {"Paris"}, {"Paris"}),
        ([PARIS, second("Be brief.", "system"), second("Be kind.", "system")], {"Paris"},
         {"Paris"}),
        ([PARIS, second("My pin is 2290."), second(GHENT)], {"Paris"}, {"Ghent"}),
    ],
)  # fmt: skip
async def test_an_edit_replaces_a_turn_and_what_rests_on_it(
    shared_memory, scope, turns, before, after
):
    memory, thread = shared_memory, "t"

    async def state():
        kept = await memory.thread_turns(scope, thread)
        told = {(one.slot, one.value) for one in await memory.facts(scope, history=True)}
        return [(one.event_id, one.text, one.occurred_at) for one in kept], told

    async def homes():
        return {one.value for one in await memory.facts(scope, "residence")}

    for turn in turns[:-1]:
        await memory.append_events(scope, thread, [turn])
        await memory.consolidate(scope, thread)
    assert await homes() == before
    was = await state()
    for again in (False, True):  # a retry changes nothing
        done = await memory.append_events(scope, thread, [turns[-1]])
        assert (set(done), done.edited) == (set(), frozenset() if again else {"2"})
        await memory.consolidate(scope, thread)
    assert await homes() == after
    now = await memory.thread_turns(scope, thread)
    assert [one.event_id for one in now] == sorted({one.event_id for one in turns})
    assert [(one.text, one.occurred_at) for one in now if one.event_id == "2"] == [
        (turns[-1].text, START + timedelta(days=9))
    ]
    live = [one for one in await memory.runs(scope, thread_id=thread) if one.undone_at is None]
    for run in live[: [one.kind for one in live].index("edit") + 1]:
        await memory.undo_run(scope, run.run_id)
    assert await state() == was


async def test_a_left_turn_goes_and_may_come_back(shared_memory, scope):
    memory, turns = shared_memory, [PARIS, second(GHENT)]
    await memory.append_events(scope, "t", turns)
    assert await memory.leave_turns(scope, "t", ["2", "unknown"]) == {"2"}
    assert [one.event_id for one in await memory.thread_turns(scope, "t")] == ["1"]
    assert await memory.append_events(scope, "t", turns) == {"2"}
    await memory.append_events(scope, "t", [second(BROTHER)])
    assert await memory.forget_turns(scope, "t", ["2"]) == 3  # with both versions
    assert [one.kind for one in await memory.runs(scope)] == ["edit", "edit"]
    assert await memory.append_events(scope, "t", [second(GHENT)]) == set()  # stays forgotten
