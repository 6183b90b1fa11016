"""A reflection by a model ends the facts that others show to be out of date, in one run."""

import json
import re
from typing import Any

import pytest
from person import Person, at
from turns import Clock, said

from shared_core import Conflict
from shared_core.models.language_model import ModelReply, ModelRequest
from tests.integration.test_models_see_what_is_held import Op, RightModel
from tests.integration.test_one_call import forgets, session, told
from tests.unit.scripted_model import fact

LINE = re.compile(r"^\[([fe]\d+)\] .*?: (.*?) \| ", re.MULTILINE)
TRAM = "The user takes the tram in York to work."
AT_YORK = [fact([1], "residence", "York"), fact([1], "relation.flatmate", "Jo"),
           fact([1], "commute", "by tram", TRAM)]  # fmt: skip


class Reviewing(RightModel):
    """Answers a reflection with what the test wrote; values name the facts."""

    review: tuple[Op, ...] = ()
    insights: tuple[Op, ...] = ()

    async def complete(self, request: ModelRequest) -> ModelReply:
        if "Today is" not in request.prompt:
            return await super().complete(request)
        self.asked.append(request)
        ids = {value: name for name, value in LINE.findall(request.prompt)}
        facts = [{**one, "id": ids[one["id"]], "because": [ids[one["because"]]]}
                 for one in self.review]  # fmt: skip
        return ModelReply(text=json.dumps({"insights": self.insights, "facts": facts}))


@pytest.fixture
async def moved(ann_with: Any) -> tuple[Person, Reviewing]:
    """Somebody who moved from York to Leeds, and the model behind it."""
    ann = ann_with(llm=(model := Reviewing(AT_YORK, [fact([1], "residence", "Leeds")])))
    for day, text in enumerate(("i live in York with Jo, by tram to work", "moved to Leeds")):
        await ann.append_events(f"t{day}", [said(f"e{day}", text, at(30 * day))], later=True)
        await ann.consolidate(f"t{day}")
    await ann.remember(["Zorro called."])
    assert (await ann.forget_about("Zorro")).done.memories  # such a run may have touched any turn
    assert ["Jo", "Leeds", "by tram"] == sorted(await ann.values())
    return ann, model


def updates(value: str, statement: str, because: str) -> Op:
    return {"op": "update", "id": value, "because": because, "value": value,
            "statement": statement}  # fmt: skip


async def test_what_hangs_on_an_old_home_ends_with_it_and_comes_back_by_undo(moved):
    ann, model = moved
    before, shared = await ann.facts(), "The user's flatmate in York was Jo."
    model.review = (
        {"op": "end", "id": "by tram", "because": "Leeds"}, updates("Jo", shared, "York"),
        {"op": "end", "id": "Leeds", "because": "Jo"},
    )  # fmt: skip
    model.insights = ({"memories": [1, 2, 3, 4, 5, 6], "text": "York and Leeds matter."},)
    report = await ann.reflect()
    assert 2 == len(report.ended) and "; user, residence: York |" in model.asked[-1].prompt
    assert {shared, "The user's residence is Leeds."} == {o.statement for o in await ann.facts()}
    found = await ann.graph.neighbourhood("user")
    assert {"Jo", "Leeds"} == {one.object for one in found.edges}
    [run] = [one for one in await ann.runs() if one.kind == "reflection"]
    refused = {"review that no newer fact shows": 1, "insight on a fact that ends": 1}
    counts = {"facts": 1, "closed": 2, "insights": 0, "refused": refused}
    assert counts.items() <= run.counts.items()
    [told] = await ann.runs(thread_id="t1")
    with pytest.raises(Conflict, match=str(report.run_id)):
        await ann.undo_run(told.run_id)
    await ann.undo_run(report.run_id)
    assert before == await ann.facts()


@pytest.mark.parametrize("thread", ["t0", "t1"])
async def test_what_still_holds_goes_with_any_turn_that_it_rests_on(moved, thread):
    ann, model = moved
    model.review = (updates("by tram", "The user lives in Leeds, no tram.", "Leeds"),)
    await ann.reflect()
    assert "The user lives in Leeds, no tram." in await ann.texts("semantic")
    await ann.forget_thread(thread)
    assert "no tram" not in str(await ann.texts("semantic"))


async def test_a_request_takes_reflections_and_lapsed_plans_along(ann_with):
    plan = fact([1], "plan", "interview at DHL", "An interview at DHL.", until="2026-03-09")
    model = Reviewing([plan, fact([1], "like", "tea")], [forgets(1, "the other company")])
    ann = ann_with(Clock(), llm=model)
    await session(ann, 0, "i applied by DHL, interview next week. i like tea")
    model.insights = ({"memories": [1, 2], "text": "The user, a tea drinker, looks at DHL."},)
    assert 1 == (await ann.reflect()).reflections_generated
    ann.clock.day, model.tells = 181, "(?:applied|looks)"
    await session(ann, 6, "the thing with the other company, strike that")
    assert [] == await told(ann, "DHL") == await ann.texts("reflection")
    assert ["tea"] == [one.value for one in await ann.facts(history=True)]
