"""A scripted right model sees what is held, and says by id what turns do to it.

Each day of a conversation is a thread of its own, so only the held facts tell the model of before.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from person import Person, at
from turns import said

from shared_core.models.language_model import ModelReply, ModelRequest
from tests.unit.scripted_model import fact

pytestmark = pytest.mark.both_engines

SHOWN = re.compile(r"^\[(f\d+)\] (\(doubtful\) )?([^,]+), ([^:]+): (.*?) \| ", re.MULTILINE)

Op = dict[str, Any]


def add(slot: str, value: str, statement: str = "", **more: Any) -> Op:
    return fact([1], slot, value, statement, op="add", **more)


def does(name: str, of: str, **more: Any) -> Op:
    return {"op": name, "of": of, **more}


class RightModel:
    """Answers one day after another; "of" of an operation names a held fact by its value."""

    name, relations = "right", list[Op]()

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
        answer = {"facts": facts, "summary": self.summary, "relations": self.relations}
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
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_what_is_held_follows_what_people_say(ann_with, name):
    days, expected = CONVERSATIONS[name]
    model = RightModel(*days.values())
    ann = ann_with(llm=model)
    assert expected == await played(ann, *days)
    if name == "doubt":
        assert "[f1] (doubtful) user, employer" in model.asked[2].prompt
        assert [None] == [getattr(one, "doubted_at", "?") for one in await ann.facts()]
    assert {"llm-v3/extract.v3/right"} == {one.extractor for one in await ann.facts(history=True)}
    assert {} == model.shown[0]
    if name == "custom slot":  # a run by ids is undone, and the fact holds again
        await ann.undo_run((await ann.runs())[0].run_id)
        facts = sorted(await ann.facts(), key=lambda fact: fact.slot)
        assert ["broke my leg", "43"] == [one.value for one in facts]


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
