"""Facts that a caller states, ends and lets hold again: with what hangs on them, and their past."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from person import Person, at, then

from shared_core import AsOf, Conflict, Fact, InvalidInput, NewMemory, NotFound
from shared_core.core.domain import Extraction, FactDraft, InsightDraft, StatementDraft, TripleDraft
from shared_core.extraction.rule_based import RuleExtractor


@pytest.fixture
def ann(ann_by_clock):
    return ann_by_clock


async def fact(ann: Person, value: str) -> Fact:
    [found] = [one for one in await ann.facts(history=True) if one.value == value]
    return found


async def recalled(ann: Person, query: str, as_of: AsOf | None = None) -> str:
    hits = await ann.recall(query, kinds=["semantic"], limit=50, as_of=as_of)
    return " ".join(hit.memory.text for hit in hits)


def rows(ann: Person) -> dict[str, list[str]]:
    """Return every row of what corrections change, as text."""
    changed = ("memories", "facts", "fact_closures", "edges", "memory_sources", "threads")
    return ann.rows(*changed, without="")


@pytest.mark.parametrize("by", ["fact", "edge"])
@pytest.mark.parametrize(
    ("text", "value", "query"),
    [("I live in Rome.", "Rome", "Where does she live?"), ("我住在上海。", "上海", "她住在哪里？")],
)
async def test_a_retracted_fact_ends_and_is_restored_with_its_past(ann, text, value, query, by):
    await ann.say(1, text)
    key = (await fact(ann, value)).key
    ann.clock.day = 10
    if by == "fact":
        ended = await ann.retract(key, at=at(5))
        assert ended == await fact(ann, value)
    else:
        ended = await ann.graph.retract("user", "lives_in", value, valid_until=at(5))
    past = await fact(ann, value)
    assert (at(5), at(10)) == (past.valid_until, past.superseded_at)
    assert [] == await ann.values()
    assert value not in await recalled(ann, query)
    assert [value] == await ann.values(as_of=then(4))
    assert [] == await ann.values(as_of=then(5))
    ann.clock.day = 20
    if by == "fact":
        assert await ann.restore(key) == await fact(ann, value)
    else:
        await ann.graph.restore(ended.closed[0])
    held = await fact(ann, value)
    assert (None, None) == (held.valid_until, held.superseded_at)
    assert [value] == await ann.values()
    assert value in await recalled(ann, query)
    ann.clock.day = 30
    for known, expected in ((9, [value]), (10, []), (19, []), (20, [value])):
        as_of = then(25, known=known)
        assert expected == await ann.values(as_of=as_of), known
        assert bool(expected) == (value in await recalled(ann, query, as_of)), known
    [past] = await ann.facts(history=True, as_of=then(known=15))
    assert (at(5), at(10)) == (past.valid_until, past.superseded_at)


async def test_a_fact_is_named_in_three_ways_and_restored_with_the_end_it_had(ann):
    await ann.say(1, "I live in Rome.")
    rome = await fact(ann, "Rome")
    ann.clock.day = 9
    for name in (rome, rome.key, rome.memory_id):
        ended = await ann.retract(name, at=at(5).astimezone(timezone(timedelta(hours=2))))
        assert (at(5), UTC) == (ended.valid_until, ended.valid_until.tzinfo)
        assert rome == await ann.restore(name)
    [listed] = await ann.list_memories(kinds=["semantic"])
    assert rome.key == listed.key
    had = await ann.retract(rome, at=at(5))
    ann.clock.day = 12
    await ann.restore(rome)
    [before] = await ann.facts(history=True, as_of=then(known=11))
    assert had.valid_until == before.valid_until == at(5)
    assert at(12) == (await ann.retract(rome)).valid_until
    await ann.undo_run((await ann.runs())[0].run_id)
    await ann.undo_run((await ann.runs())[1].run_id)
    assert had == await fact(ann, "Rome")


async def test_every_end_that_was_taken_back_is_kept(ann):
    await ann.say(1, "I live in Rome.")
    key = str((await fact(ann, "Rome")).memory_id)
    for day in (10, 20, 30):
        ann.clock.day = day
        await ann.retract(key)
        ann.clock.day = day + 5
        await ann.restore(key)
    ann.clock.day = 50
    for day in range(9, 37):
        ended = any(begin <= day < begin + 5 for begin in (10, 20, 30))
        assert ([] if ended else ["Rome"]) == await ann.values(as_of=then(known=day + 0.5)), day


async def test_a_value_comes_back_after_the_one_that_took_its_place_is_retracted(ann):
    await ann.say(1, "I live in Rome.")
    await ann.say(10, "I moved to Paris.")
    rome, paris = await fact(ann, "Rome"), await fact(ann, "Paris")
    with pytest.raises(Conflict, match="Paris") as refused:
        await ann.restore(str(rome.memory_id))
    assert str(paris.memory_id) in str(refused.value)
    ann.clock.day = 20
    await ann.retract(str(paris.memory_id))
    await ann.restore(str(rome.memory_id))
    assert ["Rome"] == await ann.values()
    ann.clock.day = 30
    shown = [await ann.values(as_of=then(day)) for day in (5, 15, 25)]
    assert [["Rome"], ["Paris"], ["Rome"]] == shown


async def test_what_is_disliked_now_is_not_liked_again(ann):
    await ann.say(1, "I like jazz.")
    await ann.say(2, "I hate jazz.")
    liked = next(one for one in await ann.facts(history=True) if one.slot == "like")
    with pytest.raises(Conflict, match="jazz"):
        await ann.restore(str(liked.memory_id))
    assert ["dislike"] == [one.slot for one in await ann.facts()]


class Scripted(RuleExtractor):
    """A fake that reads one thing out of the first turn."""

    name = "fake-v1"

    async def extract(self, events: Any, context: Any) -> Extraction:
        [turn] = events
        return Extraction(
            facts=[FactDraft(
                fact_type="profile", slot="employer", value="Acme", functional=True,
                statement="Ann works at Acme.", event_id=turn.event_id, confidence=0.9,
                pattern="fake", language="en")],
            statements=[StatementDraft(text="Acme pays Ann well.", event_ids=(turn.event_id,))],
            insights=[InsightDraft(text="Ann can afford it.", event_ids=(turn.event_id,))],
            triples=[TripleDraft(subject="user", relation="works_at", object="Acme",
                                 event_id=turn.event_id, functional=True)],
        )  # fmt: skip


@pytest.mark.parametrize("by", ["fact", "edge"])
async def test_what_hangs_on_a_fact_ends_and_comes_back_with_it(ann_with, clock, by):
    ann = ann_with(clock=clock, extractor=Scripted())
    await ann.say(1, "They pay me.")
    key = (await fact(ann, "Acme")).memory_id
    before = rows(ann)
    ann.clock.day = 10
    ended = await (ann.retract(key) if by == "fact" else ann.graph.retract("user", "works_at"))
    retracted = rows(ann)
    assert [] == await ann.list_memories(kinds=["semantic"])
    assert all("'superseded_at': None" not in row for row in retracted["edges"])
    ann.clock.day = 20
    await (ann.restore(key) if by == "fact" else ann.graph.restore(ended.closed[0]))
    back = rows(ann)
    assert 1 == len(back.pop("fact_closures"))
    assert {table: found for table, found in before.items() if table in back} == back
    [restoration, retraction, _] = await ann.runs()
    kinds = ["restoration", "retraction"] if by == "fact" else ["graph", "graph"]
    assert kinds == [restoration.kind, retraction.kind]
    with pytest.raises(Conflict, match=str(restoration.run_id)):
        await ann.undo_run(retraction.run_id)
    await ann.undo_run(restoration.run_id)
    assert retracted == rows(ann)
    await ann.undo_run(retraction.run_id)
    assert before == rows(ann)


async def test_a_run_is_undone_after_what_restored_its_ends(ann):
    await ann.say(1, "I live in Rome.")
    before = rows(ann)
    await ann.say(2, "I moved to Paris.")
    ann.clock.day = 3
    await ann.retract(str((await fact(ann, "Paris")).memory_id))
    await ann.restore(str((await fact(ann, "Rome")).memory_id))
    *later, first, _ = await ann.runs()
    with pytest.raises(Conflict, match=str(later[0].run_id)):
        await ann.undo_run(first.run_id)
    for run in (*later, first):
        await ann.undo_run(run.run_id)
    assert before["facts"] == rows(ann)["facts"]
    assert [] == rows(ann)["fact_closures"]


async def test_one_of_two_that_correct_at_once_is_refused_and_both_if_it_was_forgotten(ann):
    await ann.say(1, "I live in Rome.")
    key = str((await fact(ann, "Rome")).memory_id)
    for correct in (ann.retract, ann.restore):
        done = await asyncio.gather(*(correct(key) for _ in range(4)), return_exceptions=True)
        assert 1 == sum(isinstance(one, Fact) for one in done), done
        assert 3 == sum(isinstance(one, Conflict) for one in done), done
    await ann.forget(key)
    for correct in (ann.retract, ann.restore):
        with pytest.raises(NotFound, match=key):
            await correct(key)


async def test_bad_names_and_moments_are_refused(ann):
    await ann.say(5, "I live in Rome.")
    await ann.remember(NewMemory(text="Ann hums.", key="hum"))
    rome = str((await fact(ann, "Rome")).memory_id)
    ann.clock.day = 9
    bob = ann.other("bob")
    for correct, of_bob in ((ann.retract, bob.retract), (ann.restore, bob.restore)):
        for unknown in ("no such key", "00000000-0000-7000-8000-000000000001", "", "\0", "\ud800"):
            with pytest.raises(NotFound, match="there is no memory"):
                await correct(unknown)
        with pytest.raises(NotFound):
            await of_bob(rome)
        with pytest.raises(InvalidInput, match="'hum' is a memory of kind 'semantic', not a fact"):
            await correct("hum")
        with pytest.raises(InvalidInput, match="as a UUID or a text"):
            await correct(7)  # type: ignore[arg-type]
    moments: list[tuple[Any, str]] = [
        (at(4), "forget"), (at(10), "future"), (at(6).replace(tzinfo=None), "at has no time zone"),
        (at(6).date(), "at must be a datetime"), ("2024-01-07", "at must be a datetime"),
    ]  # fmt: skip
    for moment, why in moments:
        with pytest.raises(InvalidInput, match=why):
            await ann.retract(rome, at=moment)
    with pytest.raises(Conflict, match="has not ended"):
        await ann.restore(rome)
    await ann.retract(rome, at=at(5))
    with pytest.raises(Conflict, match="has ended already"):
        await ann.retract(rome)
    assert [] == await ann.values(as_of=then(5))


@pytest.mark.parametrize("told", [("I like tea.", "I dislike tea."), ("我喜欢茶。", "我讨厌茶。")])
async def test_an_edge_is_not_restored_beside_its_opposite(ann, told):
    await ann.say(1, told[0])
    [liked] = await ann.graph.history("user")
    await ann.say(5, told[1])
    [fact] = await ann.facts()
    with pytest.raises(Conflict, match="the opposite holds now"):
        await ann.graph.restore(liked.edge_id)
    assert [fact] == await ann.facts()
    await ann.retract(str(fact.memory_id))
    assert (await ann.graph.restore(liked.edge_id)).current
    assert [liked.fact_id] == [one.memory_id for one in await ann.facts()]


async def test_one_slot_is_read_at_a_moment_beside_its_opposite(ann):
    await ann.say(1, "I live in Rome.")
    await ann.say(2, "I like tea.")
    [liked] = [one.slot for one in await ann.facts() if one.value == "tea"]
    await ann.say(5, "I dislike tea.")
    for day, expected in ((3, ["tea"]), (6, [])):
        for as_of in (then(day), then(day, known=day)):
            assert expected == await ann.values(liked, as_of=as_of), (day, as_of)
    ended = await ann.facts(liked, history=True, as_of=then(known=6))
    assert [("tea", at(5))] == [(one.value, one.valid_until) for one in ended]
    early = await ann.facts(liked, history=True, as_of=then(known=3))
    assert [("tea", None)] == [(one.value, one.valid_until) for one in early]
    ann.clock.day = 10
    [disliked] = [one for one in await ann.facts() if one.value == "tea"]
    await ann.retract(str(disliked.memory_id))
    ann.clock.day = 20
    [like] = ended
    await ann.restore(str(like.memory_id))
    for day, expected in ((3, ["tea"]), (6, []), (11, ["tea"])):
        assert expected == await ann.values(liked, as_of=then(day)), day


async def seen(ann: Person, slot: str, named: str, valid: float | None = None) -> list[list[str]]:
    """What holds of a slot: as facts, as facts as of a moment, as edges and in recall."""
    as_of = then(valid)
    now = [] if valid else [await ann.facts(slot)]
    facts = [*now, await ann.facts(slot, as_of=as_of)]
    near = await ann.graph.neighbourhood("user", depth=1, as_of=as_of if valid else None)
    hits = await ann.list_memories(kinds=["semantic"], as_of=as_of if valid else None)
    values = sorted({fact.value for fact in await ann.facts(slot, history=True)})
    return [
        *[sorted(fact.value for fact in found) for found in facts],
        sorted(edge.object for edge in near.edges if edge.relation == named),
        [one for one in values if any(one in hit.text for hit in hits)],
    ]


@pytest.mark.parametrize(("said", "old", "slot", "value", "statement"), [
    ("I work at Google.", "Google", "company", "Zenith", "User works at Zenith."),
    ("我在谷歌工作。", "谷歌", "公司", "Zenith", "用户在Zenith工作。"),
    ("I work at Google.", "Google", "employer", "华为", "用户在华为工作。"),
])  # fmt: skip
@pytest.mark.both_engines
async def test_a_stated_fact_takes_the_place_of_another(ann, said, old, slot, value, statement):
    await ann.say(1, said)
    ann.clock.day = 9
    fact = await ann.state_fact(slot, value, valid_from=at(5))
    assert ("employer", value, statement, at(5), None) == (
        fact.slot, fact.value, fact.statement, fact.valid_from, fact.valid_until)  # fmt: skip
    assert [fact] == await ann.facts("employer")
    assert [[value]] * 4 == await seen(ann, "employer", "works_at")
    assert [[old]] * 3 == await seen(ann, "employer", "works_at", valid=4)
    assert statement == (await ann.recall(value, kinds=["semantic"]))[0].memory.text
    assert fact == await ann.state_fact("employer", f" {value.lower()} ")
    [run, *_] = await ann.runs()
    assert ("statement", "caller") == (run.kind, run.extractor)
    assert {"facts": 1, "closed": 1, "edges": 1} == dict(run.counts)
    await ann.undo_run(run.run_id)
    assert [[old]] * 4 == await seen(ann, "employer", "works_at")


@pytest.mark.both_engines
async def test_what_a_user_says_meets_what_was_stated(ann):
    ann.clock.day = 9
    await ann.state_fact("employer", "Zenith", valid_from=at(2))
    await ann.say(5, "I work at Google.")  # said before it was stated
    assert [["Zenith"]] * 4 == await seen(ann, "employer", "works_at")
    await ann.say(12, "I work at Meta.")
    assert [["Meta"]] * 4 == await seen(ann, "employer", "works_at")
    old = await ann.state_fact("employer", "Acme", valid_from=at(1))
    assert (at(1), at(2)) == (old.valid_from, old.valid_until)
    assert [["Meta"]] * 4 == await seen(ann, "employer", "works_at")
    assert [["Acme"]] * 3 == await seen(ann, "employer", "works_at", valid=1.5)


@pytest.mark.both_engines
async def test_a_slot_holds_one_value_or_several(ann):
    for ann.clock.day, (slot, value) in enumerate(
        [("like", "jazz"), ("likes", "tea"), ("dislike", "jazz"), ("theme", "dark"),
         ("theme", "light"), ("戒指尺寸", "42")]
    ):  # fmt: skip
        await ann.state_fact(slot, value)
    for slot, held in (("like", "tea"), ("dislike", "jazz"), ("theme", "light")):
        assert [held] == await ann.values(slot)
    [size] = await ann.facts("戒指尺寸")
    assert ("custom", "用户的戒指尺寸是42。") == (size.fact_type, size.statement)


@pytest.mark.parametrize(("said", "subject", "slot", "value", "expected"), [
    ("My daughter Mia is funny.", "Mia", "age", "5",
     ("relation.daughter.age", "Mia is 5 years old.")),
    ("I like tea.", "sister", "residence", "Leeds",
     ("relation.sister.place", "User's sister lives in Leeds.")),
    ("我喜欢茶。", "女儿", "age", "五", ("relation.daughter.age", "用户的女儿五岁。")),
    ("I like tea.", "USER", "favourite colour", "blue",
     ("favourite.colour", "User's favourite colour is blue.")),
])  # fmt: skip
@pytest.mark.both_engines
async def test_a_fact_of_somebody_else_is_stated(ann, said, subject, slot, value, expected):
    await ann.say(1, said)
    fact = await ann.state_fact(slot, value, subject=subject)
    assert expected == (fact.slot, fact.statement)


@pytest.mark.both_engines
async def test_what_cannot_be_stated_is_refused(ann):
    refused: list[tuple[Any, Any, dict[str, Any], str]] = [
        ("employr", "x", {}, "did you mean 'employer'"),
        ("emplyoer", "x", {}, "did you mean 'employer'"),
        ("compny", "x", {}, r"did you mean 'company' \(employer\)\? .*'my.compny'"),
        ("password", "x", {}, "secret"), ("...", "x", {}, "must be a name of letters"),
        (3, "x", {}, "slot must be a string"),
        ("age", 30, {}, "value must be a text, e.g. '30', got 30"),
        ("employer", " ", {}, "value"), ("employer", "...", {}, "value must be a text of"),
        ("employer", "x", {"subject": "!"}, "subject must be a name"),
        ("employer", "x", {"valid_from": "2024"}, "valid_from must be a datetime"),
        ("employer", "x", {"valid_from": datetime(2024, 1, 1)}, "valid_from has no time zone"),  # noqa: DTZ001
    ]  # fmt: skip
    for slot, value, more, why in refused:
        with pytest.raises(InvalidInput, match=why):
            await ann.state_fact(slot, value, **more)
    assert [] == await ann.facts(history=True)
    own = await ann.state_fact("my.compny", "x")
    assert [own] == await ann.facts("my.compny")
    for name in ("game", "shoe_size"):
        assert [] == await ann.facts(name)
    with pytest.raises(InvalidInput, match="did you mean 'employer'"):
        await ann.facts("employr")


@pytest.mark.both_engines
async def test_an_edge_of_the_user_is_a_fact_as_well(ann):
    await ann.say(1, "I live in Leeds.")
    ann.clock.day = 9
    await ann.graph.merge_aliases("user", ["Ann"])
    change = await ann.graph.add("Ann", "resides in", "Porto", valid_from=at(5))
    assert [["Porto"]] * 4 == await seen(ann, "residence", "lives_in")
    assert [["Leeds"]] * 3 == await seen(ann, "residence", "lives_in", valid=4)
    [fact] = await ann.facts("residence")
    assert ("User lives in Porto.", at(5)) == (fact.statement, fact.valid_from)
    [edge] = [one for one in await ann.graph.history("user") if one.current]
    assert fact.memory_id == edge.fact_id
    await ann.retract(fact)
    assert [[]] * 4 == await seen(ann, "residence", "lives_in")
    await ann.restore(fact.memory_id)
    assert [["Porto"]] * 4 == await seen(ann, "residence", "lives_in")
    restored, retracted, added, *_ = await ann.runs()
    assert change.run_id == added.run_id
    for run in (restored, retracted, added):
        await ann.undo_run(run.run_id)
    assert [["Leeds"]] * 4 == await seen(ann, "residence", "lives_in")
    await ann.graph.add("Mia", "lives_in", "Oslo")
    await ann.graph.add("user", "works_at", "Meta", functional=False)
    assert ["Leeds"] == await ann.values()


@pytest.mark.both_engines
async def test_an_end_to_come_ends_nothing_before(ann):
    await ann.say(1, "I work at Google.")
    await ann.graph.retract("user", "works_at", valid_until=at(30))
    planned = [fact.valid_until for fact in await ann.facts()]
    assert [at(30)] == planned
    for ann.clock.day, expected in ((1.0, ["Google"]), (29.0, ["Google"]), (30.0, [])):
        assert [expected] * 4 == await seen(ann, "employer", "works_at"), ann.clock.day
        found = await ann.recall("Google", kinds=["semantic"])
        assert len(expected) == len(found), ann.clock.day
        assert expected == await ann.values(as_of=then(known=20))


MOVES: dict[str, Callable[[Person, Fact], Awaitable[Any]]] = {
    "state": lambda ann, _: ann.state_fact("employer", "Meta"),
    "say": lambda ann, _: ann.say(9, "I work at Meta."),
    "add": lambda ann, _: ann.graph.add("user", "works_at", "Meta"),
    "retract": lambda ann, fact: ann.retract(fact),
    "graph": lambda ann, _: ann.graph.retract("user", "works_at"),
    "end": lambda ann, _: ann.say(9, "I no longer work at Google."),
}


@pytest.mark.parametrize("how", MOVES)
@pytest.mark.both_engines
async def test_an_end_to_come_is_moved(ann, how):
    await ann.say(1, "I work at Google.")
    await ann.graph.retract("user", "works_at", valid_until=at(30))
    [fact] = await ann.facts()
    ann.clock.day = 9
    await MOVES[how](ann, fact)
    expected = ["Meta"] if how in ("state", "say", "add") else []
    assert [expected] * 4 == await seen(ann, "employer", "works_at")
    [old] = [one for one in await ann.facts(history=True) if one.value == "Google"]
    assert at(9) == old.valid_until
    [run, *_] = await ann.runs()
    await ann.undo_run(run.run_id)
    assert [["Google"]] * 4 == await seen(ann, "employer", "works_at")
    [back] = await ann.facts()
    assert at(30) == back.valid_until
    assert (await ann.restore(back)).valid_until is None
    assert [["Google"]] * 4 == await seen(ann, "employer", "works_at")


@pytest.mark.both_engines
async def test_a_fact_that_begins_later_ends_another_then(ann):
    await ann.state_fact("employer", "Meta", valid_from=at(30))
    held = await ann.state_fact("employer", "Google")
    assert at(30) == held.valid_until
    for ann.clock.day, expected in ((0.0, "Google"), (29.0, "Google"), (30.0, "Meta")):
        assert [[expected]] * 4 == await seen(ann, "employer", "works_at"), ann.clock.day


@pytest.mark.both_engines
async def test_a_fact_is_not_restored_beside_an_edge(ann_with, clock):
    class WithoutFacts(RuleExtractor):
        async def extract(self, events: Any, context: Any) -> Extraction:
            if "Meta" not in events[0].text:
                return await super().extract(events, context)
            edge = TripleDraft(subject="user", relation="works_at", object="Meta",
                               event_id=events[0].event_id)  # fmt: skip
            return Extraction(triples=[edge])

    ann = ann_with(clock=clock, extractor=WithoutFacts())
    await ann.say(1, "I work at Google.")
    [fact] = await ann.facts()
    ann.clock.day = 3
    await ann.retract(fact)
    await ann.say(5, "Meta it is.")
    with pytest.raises(Conflict, match=r"beside the edge \(user\) -\[works_at\]-> \(Meta\)"):
        await ann.restore(fact)
    await ann.graph.retract("user", "works_at", "Meta")
    await ann.restore(fact)
    assert [["Google"]] * 4 == await seen(ann, "employer", "works_at")


@pytest.mark.both_engines
async def test_facts_that_are_stated_at_once_follow_each_other(ann):
    async def state(number: int) -> None:
        if number % 2:
            await ann.state_fact("employer", f"Firm {number}")
        else:
            await ann.graph.add("user", "works_at", f"Firm {number}")

    await asyncio.gather(*(state(number) for number in range(8)))
    [current] = await ann.facts("employer")
    assert 8 == len(await ann.facts("employer", history=True))
    near = await ann.graph.neighbourhood("user", depth=1)
    assert [current.value] == [edge.object for edge in near.edges]


@pytest.mark.both_engines
async def test_without_a_graph_facts_are_stated_alone(ann_with, clock):
    ann = ann_with(clock=clock, graph_enabled=False)
    await ann.state_fact("employer", "Google")
    ann.clock.day = 2
    await ann.state_fact("employer", "Meta")
    assert ["Meta"] == await ann.values()
