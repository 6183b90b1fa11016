"""A scripted right model sees what is held, and says by id what turns do to it.

Each day of a conversation is a thread of its own, so only the held facts tell the model of before.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from person import Person, at
from turns import Clock, said

from shared_core.models.language_model import ModelReply, ModelRequest
from tests.unit.scripted_model import fact

pytestmark = pytest.mark.both_engines

SHOWN = re.compile(r"^\[(f\d+)\] (\([^)]*\) )*([^,]+), ([^:]+): (.*?) \| ", re.MULTILINE)

Op = dict[str, Any]


def add(slot: str, value: str, statement: str = "", **more: Any) -> Op:
    return fact([1], slot, value, statement, op="add", **more)


def does(name: str, of: str, **more: Any) -> Op:
    return {"op": name, "of": of, **more}


class RightModel:
    """Answers one day after another; "of" of an operation names a held fact by its value."""

    name = "right"

    def __init__(self, *days: list[Op], summary: str = "They talked.") -> None:
        self.days, self.summary = list(days), summary
        self.tells: str | None = "\0"  # what memories have that it chooses to forget; None: prose
        self.shown: list[Mapping[str, str]] = []
        self.asked: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        if "<request>" in request.prompt:
            self.asked.append(request)
            chosen = re.findall(rf"^\[(\d+)\].*{self.tells}", request.prompt, re.MULTILINE)
            text = json.dumps({"memories": chosen}) if self.tells else "I cannot say."
            return ModelReply(text=text)
        found = request.prompt.partition("<facts>")[2].partition("</facts>")[0]
        ids = {one[5]: one[1] for one in SHOWN.finditer(found)}
        operations = self.days[len(self.shown)]
        self.shown.append(ids)
        self.asked.append(request)
        facts = []
        for one in operations:
            place = {"id": ids[one["of"]]} if isinstance(one.get("of"), str) else {}
            facts.append({"turns": [1], **one, **place})
        answer = {"facts": facts, "summary": self.summary}
        return ModelReply(text=json.dumps(answer, ensure_ascii=False))


async def played(ann: Person, *texts: str, first: int = 0) -> list[str]:
    """Append and consolidate a text a day; return the facts that hold as "slot=value"."""
    for number, text in enumerate(texts, first):
        turn = said(f"e{number}", text, at(30 * number))
        await ann.append_events(f"day{number}", [turn], later=True)
        assert (await ann.consolidate(f"day{number}")).usage.calls <= 1
    return sorted(f"{one.slot}={one.value}" for one in await ann.facts())


AT_ACME = [add("employer", "Acme")]
CONVERSATIONS: dict[str, tuple[dict[str, list[Op]], list[str]]] = {
    "divorce": ({
        "my husband tom and i live in Leeds, wedding day was May 2": [
            add("relation.husband", "tom", "The user's husband is called Tom."),
            add("residence", "Leeds", "The user lives in Leeds."),
            add("wedding_day", "May 2", "They married on May 2.", single=True)],
        "we signed the papers, it's over. moved out to York": [
            does("end", "tom"), does("end", "May 2"), does("update", "Leeds", value="York")],
    }, ["residence=York"]),
    "离婚": ({
        "我老公叫大伟，我们住在洛阳": [add("relation.husband", "大伟", "用户的老公叫大伟。"),
                         add("residence", "洛阳", "用户住在洛阳。")],
        "手续办完了，以后各过各的。我搬到珠海了": [
            does("end", "大伟"), does("update", "洛阳", value="珠海")],
    }, ["residence=珠海"]),
    "correction": ({
        "my boss greg is 34": [add("relation.boss", "greg", "The user's boss is called Greg."),
                               add("age", "34", "Greg is 34.", subject="greg")],
        "sorry, 33": [does("update", "34", value="33")],
    }, ["relation.boss.age=33", "relation.boss=greg"]),
    "custom slot": ({
        "broke my leg skiing, shoe size 43 btw": [
            add("injury", "broke my leg", "The user broke a leg."),
            add("shoe_size", "43", "The user wears 43.", single=True)],
        "cast is off! and my feet grew, 44 now": [
            does("end", "broke my leg"), add("shoe_size", "44", "The user wears 44.")],
    }, ["shoe_size=44"]),
    "doubt": ({
        "I work at Acme": AT_ACME, "thinking of handing in my notice": [does("doubt", "Acme")],
        "decided to stay after all": [does("keep", "Acme")],
    }, ["employer=Acme"]),
    "pet": ({
        "our cat Pixel is 15": [add("relation.cat", "Pixel", "The user's cat is called Pixel."),
                                add("age", "15", "Pixel is 15.", subject="Pixel")],
        "she passed away last night": [does("end", "Pixel")],
        "we adopted a kitten, his name is Bagel": [
            add("relation.cat", "Bagel", "The user's cat is called Bagel.")],
    }, ["relation.cat=Bagel"]),
    "friends become a couple": ({
        "met Wen, she's a nurse from Kent. jo my roommate bakes": [
            add("relation.friend", "Wen", "The user has met Wen."),
            add("job", "nurse", "Wen is a nurse.", subject="Wen"),
            add("origin", "Kent", "Wen is from Kent.", subject="Wen"),
            add("relation.roommate", "jo", "The user's roommate is jo."),
            add("activity", "bakes", "jo bakes.", subject="jo")],
        "wen and i are together now! and moved out of jo's": [
            does("end", "Wen"), does("end", "jo"),
            add("relation.girlfriend", "Wen", "Wen is the user's girlfriend.")],
        "wen runs the ward now": [add("job", "runs the ward", "Wen runs it.", subject="Wen")],
    }, ["relation.friend.origin=Kent", "relation.girlfriend.job=runs the ward",
        "relation.girlfriend=Wen", "relation.roommate.activity=bakes"]),
}  # fmt: skip


async def test_a_held_fact_is_told_in_new_words(ann_with):
    rides, stays = "The user's dog Biscuit rides along.", "The user's dog Biscuit stays at home."
    model = RightModel(
        [add("relation.dog", "Biscuit", rides), add("age", "3", "Three.", subject="Biscuit")],
        [does("update", "Biscuit", value="Biscuit", statement=stays)],
    )  # fmt: skip
    ann = ann_with(llm=model)
    await played(ann, "my dog Biscuit, he is 3, rides along", "Biscuit stays home now")
    assert {stays, "Three."} == {one.statement for one in await ann.facts()}
    assert rides in {one.statement for one in await ann.facts(history=True)}
    edges = (await ann.graph.neighbourhood("user")).edges
    assert ("Biscuit", at(30), None) in [(o.object, o.valid_from, o.valid_until) for o in edges]


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_what_is_held_follows_what_people_say(ann_with, name):
    days, expected = CONVERSATIONS[name]
    model = RightModel(*days.values())
    ann = ann_with(llm=model)
    assert expected == await played(ann, *days)
    if name == "doubt":
        assert "[f1] (doubtful) user, employer" in model.asked[2].prompt
        assert [None] == [getattr(one, "doubted_at", "?") for one in await ann.facts()]
    assert {"llm-v3/extract.v4/right"} == {one.extractor for one in await ann.facts(history=True)}
    assert {} == model.shown[0]
    if name == "custom slot":  # a run by ids is undone, and the fact holds again
        await ann.undo_run((await ann.runs())[0].run_id)
        facts = sorted(await ann.facts(), key=lambda fact: fact.slot)
        assert ["broke my leg", "43"] == [one.value for one in facts]


ERIE, BATH = "residence=Erie", "residence=Bath"
FORETOLD = [add("plan", "moving to Bath", "A move to Bath on May 1.", until="2026-05-01"),
            add("residence", "Bath", "The user lives in Bath.", since="2026-05-01")]  # fmt: skip
LATER: dict[str, tuple[str, list[Op], dict[int, list[str]]]] = {
    "comes true": ("", [], {51: ["plan=moving to Bath", ERIE], 70: [BATH], 150: [BATH]}),
    "falls through": ("the house in bath fell through", [
        does("end", "moving to Bath"), does("end", "Bath")], {51: [ERIE], 70: [ERIE]}),
    "is put off": ("bath is june 10 now", [
        does("update", "moving to Bath", value="moving to Bath", until="2026-06-10"),
        does("update", "Bath", value="Bath", since="2026-06-10"),
    ], {51: ["plan=moving to Bath", ERIE], 70: ["plan=moving to Bath", ERIE], 110: [BATH]}),
    "comes sooner": ("in bath already", [
        does("end", "moving to Bath"), add("residence", "Bath", "They live in Bath."),
    ], {51: [BATH], 70: [BATH]}),
    "old one kept": ("still in Erie", [does("keep", "Erie")], {
        51: ["plan=moving to Bath", ERIE], 70: [BATH]}),
    "another first": ("in kent till then", [does("update", "Erie", value="kent")], {
        51: ["plan=moving to Bath", "residence=kent"], 70: [BATH]}),
    "is elsewhere": ("it's york, not bath", [
        does("end", "moving to Bath"), does("update", "Bath", value="york"),
    ], {51: [ERIE], 70: ["residence=york"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", LATER)
async def test_what_is_foretold_holds_from_its_day_on(ann_with, name):
    text, operations, expected = LATER[name]
    ann = ann_with(Clock(), llm=RightModel([add("residence", "Erie")], FORETOLD, operations, []))
    for day, words in {0: "I live in Erie", 30: "moving to Bath on May 1", 50: text}.items():
        if words:
            await ann.say(day, words, thread=f"day {day}")
    held = {}
    for day in expected:
        ann.clock.day = day
        held[day] = sorted(f"{one.slot}={one.value}" for one in await ann.facts())
        around = (await ann.graph.neighbourhood("user")).edges
        homes = [f"residence={one.object}" for one in around if one.relation == "lives_in"]
        assert homes == held[day][-1:], day
    assert expected == held
    if name == "falls through":  # what goes on rests on the turn that told it first
        assert [ERIE] == await played(ann, "and bath said no again", first=3)
        await ann.forget_thread("day 0")
        assert [] == await ann.facts()
    elif name == "comes true":
        done = (await ann.forget_about("Bath")).done
        assert ([], 1, 1) == (await ann.facts(), done.facts, done.edges)


@pytest.mark.parametrize(("then", "ends"), [
    ({"op": "end", "slot": "residence", "value": "Bath"}, [ERIE, ERIE]),
    (add("residence", "Bath", since="2026-06-10"), [ERIE, BATH])])  # fmt: skip
async def test_what_is_foretold_and_taken_back_in_one_session(ann_with, then, ends):
    told = [FORETOLD[1], then | {"turns": [2]}]
    ann = ann_with(Clock(), llm=RightModel([add("residence", "Erie")], told))
    await ann.say(0, "I live in Erie", thread="a")
    await ann.say(30, "moving to Bath on May 1", "Bath: not then", thread="b")
    for ann.clock.day, home in zip((70, 110), ends, strict=True):
        [edge] = (await ann.graph.neighbourhood("user")).edges
        assert [home, home] == [f"residence={one}" for one in (edge.object, *await ann.values())]


async def test_what_never_came_is_taken_back_after_its_day(ann_with):
    denied = [does("deny", "Bath", value="Bath", statement="They never moved to Bath.")]
    ann = ann_with(Clock(), llm=RightModel([add("residence", "Erie")], FORETOLD, denied))
    for day, words in {0: "I live in Erie", 30: "moving to Bath on May 1", 80: "no bath"}.items():
        await ann.say(day, words, thread=f"day {day}")
    [erie] = [one for one in await ann.facts("residence", history=True) if not one.valid_until]
    assert ("Erie", True) == (erie.value, at(61) > erie.valid_from > at(60))


@pytest.mark.parametrize(("then", "times"), [
    (does("end", "Acme", until="2026-07-01"), 5), (does("keep", "Acme"), 6)])  # fmt: skip
async def test_an_end_to_come_is_moved_or_taken_back(ann_with, then, times):
    model = RightModel(AT_ACME, [does("end", "Acme", until="2026-05-01")], [then])
    ann, held = ann_with(Clock(), llm=model), []
    told = {0: "I work at Acme", 30: "leaving Acme May 1", 40: "not in May"}
    for day, words in told.items():
        await ann.say(day, words, thread=f"day {day}")
        held += await ann.values("employer")
    for ann.clock.day in (70, 121, 200):
        held += await ann.values("employer")
    assert ["Acme"] * times == held


async def test_a_value_may_stand_in_what_is_held_and_rests_on_it(ann_with):
    plan = add("plan", "interview at Sandyford Payroll", "An interview at Sandyford Payroll.")
    got = [does("end", "interview at Sandyford Payroll"), add("employer", "Sandyford Payroll")]
    ann = ann_with(llm=RightModel([plan], got))
    texts = ("interview at Sandyford Payroll on Friday", "i got it, started on Monday!")
    assert ["employer=Sandyford Payroll"] == await played(ann, *texts)
    await ann.forget_thread("day0")
    assert [] == await ann.facts()


async def test_a_confirmation_that_says_no_value_keeps_no_fact_alive(ann_with):
    kept = [does("keep", "Acme")]
    ann = ann_with(llm=RightModel(AT_ACME, kept, kept))
    await played(ann, "I work at Acme", "yep, still there", "Acme, like I said")
    [fact] = await ann.facts()
    assert ("e0", "e2") == fact.source_event_ids


async def test_facts_of_another_user_are_not_shown(ann_with):
    model = RightModel(AT_ACME, [])
    ann = ann_with(llm=model)
    await played(ann, "I work at Acme")
    await played(ann.other("bob"), "hello")
    assert "Acme" not in model.asked[1].prompt


async def test_rows_that_rules_and_models_formed_are_shown_alike(ann_with):
    assert ["employer=Acme"] == await played(ann_with(), "I work at Acme.")
    model = RightModel([does("end", "Acme")])
    assert [] == await played(ann_with(llm=model), "that place let me go", first=1)
    assert ["Acme"] == [*model.shown[0]]
