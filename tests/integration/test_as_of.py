"""What held when, as it was known when: every read, as of moments on both time lines."""

from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from itertools import permutations

import pytest
from commands import run
from every_case import every_case
from person import Person, at, then
from turns import said

from shared_core import AsOf, InvalidInput, NewMemory, run_sync

NAIVE = datetime(2024, 5, 1)  # noqa: DTZ001 # the fault that is tested
ENGLISH = ("I live in Rome.", "I moved to Paris.", "I like tea.", "Where does she live?")
CHINESE = ("我住在上海。", "我搬到北京了。", "我喜欢喝茶。", "她住在哪里？")


@pytest.fixture
def ann(ann_by_clock):
    return ann_by_clock


async def learn(ann: Person, rome: str, paris: str, tea: str, _: str) -> None:
    """Two homes, said on days 10 and 40, learned on days 20 and 60; tea on day 61."""
    for said_on, learned_on, text in ((10, 20, rome), (40, 60, paris), (61, 61, tea)):
        ann.clock.day = learned_on
        await ann.say(said_on, text, thread=f"of day {said_on}")
    ann.clock.day = 100


async def homes(ann: Person, as_of: AsOf | None) -> list[object]:
    return await ann.values("residence", as_of=as_of)


async def recalled(ann: Person, question: str, as_of: AsOf | None) -> set[str]:
    hits = await ann.recall(question, as_of=as_of, limit=50)
    return {hit.memory.text for hit in hits if hit.memory.kind == "semantic"}


@pytest.mark.parametrize(
    ("texts", "first", "second"), [(ENGLISH, "Rome", "Paris"), (CHINESE, "上海", "北京")]
)
async def test_a_home_is_the_one_of_its_time_as_it_was_known_then(ann, texts, first, second):
    await learn(ann, *texts)
    for valid, known, expected in (
        (None, None, [second]), (9, None, []), (10, None, [first]), (39, None, [first]),
        (40, None, [second]), (200, None, [second]), (None, 19, []), (None, 20, [first]),
        (50, 59, [first]),  # by day 50 it had ended, but that was not known on day 59
        (50, 60, [second]), (5, 60, []),
    ):  # fmt: skip
        as_of = then(valid, known)
        assert expected == await homes(ann, as_of), as_of
        shown = await recalled(ann, texts[3], as_of)
        listed = await ann.list_memories(kinds=["semantic"], as_of=as_of)
        near = await ann.search(texts[3], kinds=["semantic"], as_of=as_of)
        for name in (first, second):
            assert (name in expected) == any(name in text for text in shown), (as_of, shown)
            assert (name in expected) == any(name in one.text for one in listed), as_of
            assert (name in expected) == any(name in hit.memory.text for hit in near), as_of
    assert await recalled(ann, texts[3], None) == await recalled(ann, texts[3], AsOf())


@pytest.mark.parametrize("order", [*permutations([("Bonn", 10), ("Graz", 30), ("Basel", 20)])])
@pytest.mark.parametrize("by_turns", [False, True])
async def test_history_and_every_moment_tell_one_story_in_any_order(ann, order, by_turns):
    for learned_on, (city, begins) in enumerate(order, 50):
        ann.clock.day = learned_on
        if by_turns:
            await ann.say(begins, f"I live in {city}.", thread=city)
        else:
            await ann.state_fact("residence", city, valid_from=at(begins))

    shown = [await ann.facts(history=True), [] if by_turns else await ann.graph.history("user")]
    for found in filter(None, shown):
        ended = sorted((one.valid_from, one.valid_until) for one in found if one.valid_until)
        assert [(at(10), at(20)), (at(20), at(30))] == ended
    for day, home in ((9, []), (10, ["Bonn"]), (20, ["Basel"]), (29, ["Basel"]), (30, ["Graz"])):
        assert home == await homes(ann, then(day)), day
    believed = ["Bonn" if order[2][0] == "Basel" else "Basel"]
    assert believed == await homes(ann, then(25, 51))
    await ann.undo_run((await ann.runs())[0].run_id)
    assert believed == await homes(ann, then(25))


async def test_turns_and_ends_are_those_that_were_said_and_stored_by_then(ann):
    await learn(ann, *ENGLISH)

    async def turns(as_of: AsOf) -> int:
        listed = await ann.list_memories(kinds=["episodic"], as_of=as_of)
        hits = await ann.recall("Where is Rome, Paris, tea?", kinds=["episodic"], as_of=as_of)
        assert {one.memory_id for one in listed} == {hit.memory.memory_id for hit in hits}
        return len(listed)

    assert [0, 1, 1, 2, 3] == [await turns(then(day)) for day in (9, 10, 39, 60, 61)]
    assert [0, 1, 1, 2, 3] == [await turns(then(known=day)) for day in (19, 20, 59, 60, 61)]
    [before] = await ann.facts(as_of=then(known=59))
    assert (None, None, at(20)) == (before.valid_until, before.superseded_at, before.recorded_at)
    past = {one.value: one for one in await ann.facts(history=True, as_of=AsOf())}
    assert (at(40), at(60)) == (past["Rome"].valid_until, past["Rome"].superseded_at)
    listed = await ann.list_memories(kinds=["semantic"], as_of=then(known=59))
    assert [None] == [one.superseded_at for one in listed]


async def test_the_summary_is_the_version_that_stood_then(ann):
    rome = (1, "I live in Rome.", "Thanks!", "I play chess.")
    for day, *told in (rome, (2, "I like green tea."), (3, "I work at Acme.")):
        await ann.say(day, *told)
    ann.clock.day = 9
    texts = []
    for day in (1, 2, 3):
        [summary] = await ann.list_memories(kinds=["summary"], as_of=then(known=day + 0.5))
        window = await ann.context_window("t", "What of Rome?", as_of=then(known=day + 0.5))
        assert summary.text in window.prompt
        texts.append(summary.text)
    assert 3 == len(set(texts))
    assert "Rome" in texts[0] and "tea" not in texts[0]
    [current] = await ann.list_memories(kinds=["summary"])
    assert texts[2] == current.text


async def test_a_context_is_as_of_a_moment(ann):
    await ann.say(1, "I live in Rome.")
    ann.clock.day = 5
    await ann.say(4, "I moved to Paris.")
    ann.clock.day = 9
    for as_of in (then(2), then(known=2), then(3, known=4.5)):
        window = await ann.context_window("t", "Where does she live?", as_of=as_of)
        assert "Rome" in window.prompt, as_of
        assert "Paris" not in window.prompt, as_of
    ended = await ann.context_window("x", "Where does she live?", as_of=then(2))
    assert f"until {at(4):%Y-%m-%d}" in ended.prompt  # when it ended, not when that was read
    assert "Paris" in (await ann.context_window("t", "Where does she live?")).prompt


async def test_a_fact_of_the_future_is_not_current(ann):
    ann.clock.day = 1
    await ann.append_events("t", [said("e30", "I live in Rome.", at(30))])
    await ann.consolidate("t")
    assert [] == await homes(ann, None)
    assert [] == await homes(ann, AsOf())
    assert set() == await recalled(ann, ENGLISH[3], None)
    assert ["Rome"] == await homes(ann, then(31))
    assert 1 == len(await ann.list_memories(kinds=["episodic"]))
    ann.clock.day = 31
    assert ["Rome"] == await homes(ann, None)
    assert 1 == len(await recalled(ann, ENGLISH[3], None))


async def test_what_was_forgotten_or_has_expired_is_gone_at_every_moment(ann):
    await learn(ann, *ENGLISH)
    await ann.say(99, "I work at Acme.", expires_at=at(101))
    assert "Acme" in await ann.values(as_of=AsOf())
    await ann.say(100, "I work at Bosch now.", expires_at=at(101))
    assert {"Acme", "Bosch"} <= {one.value for one in await ann.facts(history=True)}
    await ann.forget_turns("of day 10", ["e10"])
    ann.clock.day = 102
    for day in range(5, 103, 6):
        for as_of in (then(day), then(known=day), then(day, known=day)):
            found = [one.text for one in await ann.list_memories(limit=99, as_of=as_of)]
            found += [one.statement for one in await ann.facts(history=True, as_of=as_of)]
            assert not [text for text in found if "Rome" in text or "Acme" in text], as_of


async def test_a_memory_that_was_written_over_is_shown_since_it_was(ann):
    for day, text in ((1, "The code name is Falcon."), (5, "The code name is Osprey.")):
        ann.clock.day = day
        await ann.remember(NewMemory(text=text, key="k", occurred_at=at(0)))
    ann.clock.day = 9
    shown = [[one.text for one in await ann.list_memories(as_of=then(known=day))] for day in (3, 5)]
    assert [[], ["The code name is Osprey."]] == shown


async def test_moments_of_any_zone_are_the_same_moment_and_so_are_the_ends_of_time(ann):
    await learn(ann, *ENGLISH)
    for hours in (-11, 0, 14):
        zone = timezone(timedelta(hours=hours))
        edge = at(40).astimezone(zone)
        assert ["Paris"] == await homes(ann, AsOf(valid=edge))
        assert ["Rome"] == await homes(ann, AsOf(valid=edge - timedelta(microseconds=1)))
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert [] == await homes(ann, AsOf(valid=first))
    assert [] == await homes(ann, AsOf(known=first))
    assert ["Paris"] == await homes(ann, AsOf(valid=last, known=last))


@every_case(
    datetime(2024, 5, 1, tzinfo=UTC),
    AsOf(valid=datetime.max.replace(tzinfo=timezone(-timedelta(hours=5)))),
    AsOf(known=datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))),
)  # type: ignore[arg-type] # fmt: skip
async def test_moments_that_are_none_are_refused_by_name(as_of, ann):
    for reading in (
        ann.facts(as_of=as_of), ann.list_memories(as_of=as_of), ann.recall("tea", as_of=as_of),
        ann.recall("", as_of=as_of), ann.search("", as_of=as_of),
        ann.context_window("t", "tea", as_of=as_of),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="as_of"):
            await reading


@pytest.mark.parametrize("moment", [NAIVE, date(2024, 5, 1), "2024-05-01"], ids=str)
@pytest.mark.parametrize("line", ["valid", "known"])
def test_what_is_no_moment_with_a_time_zone_is_refused_by_name(line, moment):
    with pytest.raises(InvalidInput, match=rf"AsOf\({line}="):
        AsOf(**{line: moment})


async def test_of_two_values_of_one_time_the_one_that_began_last_holds(ann):
    """As threads read in any order leave them."""
    await learn(ann, *ENGLISH)
    ann.sql(
        "UPDATE hippocampus.facts SET valid_until = %(at)s"
        " WHERE tenant_id = %(tenant)s AND value = '\"Rome\"'", at=at(50),
    )  # fmt: skip
    shown = [await homes(ann, then(day)) for day in (39, 40, 49, 50)]
    assert [["Rome"], ["Paris"], ["Paris"], ["Paris"]] == shown


def test_the_command_recalls_as_of_dates(ann):
    run_sync(learn(ann, *ENGLISH))
    asked = ("recall", ann.scope.app, ann.scope.user, ENGLISH[3], "--uri", ann.dsn)
    recall = partial(run, *asked)
    assert "Paris" in recall().stdout
    valid = recall("--as-of", "2026-03-31")  # day 30
    assert "Rome" in valid.stdout and "Paris" not in valid.stdout
    known = recall("--known", "2026-04-20T17:00+08:00")  # day 50
    assert "Rome" in known.stdout and "Paris" not in known.stdout
    for option in ("--as-of", "--known"):
        refused = recall(option, "soon")
        assert 2 == refused.exit_code
        assert option in refused.stderr and "'soon'" in refused.stderr
