"""Requests of users to forget a topic: what goes, what stays, and how it comes back."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from person import Person, at
from turns import said

from shared_core import Conflict, Event, InvalidInput
from shared_core.core.domain import Extraction
from shared_core.extraction.forget_requests import EVERYTHING, NOTHING_FOUND
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.policies import setting_aside
from shared_core.retention.forget_requests import NewTurns

pytestmark = pytest.mark.both_engines

BAKER, LEEDS = "My brother Theo is a baker.", "I live in Leeds."
FORGET = "Forget what I said about Theo"


class Talk:
    """A user who talks, a turn a minute."""

    def __init__(self, ann: Person) -> None:
        self.ann = ann
        self.said = 0

    async def say(self, text: str, thread: str = "t", role: str = "user") -> NewTurns:
        self.said += 1
        return await self.ann.append_events(thread, [said(self.said, text, author=role, role=role)])

    async def learn(self, *texts: str) -> None:
        """Say texts, and have them read."""
        for text in texts:
            await self.say(text)
        await self.ann.consolidate("t")

    async def told(self, query: str) -> str:
        """Return everything that memory tells of a query, in every way."""
        hits = await self.ann.recall(query, limit=50)
        listed = await self.ann.list_memories(limit=100)
        facts = await self.ann.facts()
        walked = await self.ann.graph.neighbourhood("user")
        windows = [await self.ann.context_window(one, query) for one in ("other", "t")]
        return "\n".join([
            *(hit.memory.text for hit in hits), *(one.text for one in listed),
            *(one.statement for one in facts), *(edge.object for edge in walked.edges),
            *(one.prompt.replace(query, "") for one in windows),
        ])  # fmt: skip

    async def keeps(self, query: str, kept: str, gone: str) -> None:
        """Assert that memory tells one word of a query, and not another."""
        told = await self.told(query)
        assert gone not in told
        assert kept in told


@pytest.fixture
def talk(ann):
    return Talk(ann)


async def test_what_is_about_a_person_leaves_recall_at_once(talk, monkeypatch):
    monkeypatch.setattr(setting_aside, "PAGE", 2)  # it is read in several pages
    await talk.learn(BAKER, LEEDS, "Theo came round on Sunday.")
    assert "Theo" in await talk.told("What do you know about Theo?")
    [gone] = (await talk.say(FORGET)).set_aside
    assert gone.topic == "Theo"
    assert gone.done.memories >= 4 and gone.done.facts >= 1
    await talk.keeps("What do you know about Theo?", "Leeds", gone="Theo")
    await talk.learn("I love tea.")
    assert "Theo" not in await talk.told("Who is Theo?")


@pytest.mark.parametrize("question", ["Where did I live before?", "我以前住在哪里？"])
async def test_what_had_ended_is_told_to_no_question_about_the_past(talk, question):
    memory, scope = talk.ann.memory, talk.ann.scope
    for year, town in ((2019, "Leeds"), (2022, "York"), (2024, "Bath")):
        began = datetime(year, 5, 1, tzinfo=UTC)
        await memory.state_fact(scope, "residence", town, valid_from=began)

    async def told() -> tuple[list[str], str]:
        past = await memory.facts.asked_of_the_past(scope, question)
        answer = await memory.process_memory(question, scope.user, app=scope.app)
        return [fact.value for fact in past], str(answer)

    past, answer = await told()
    assert ["York", "Leeds"] == past and "Leeds" in answer
    gone = await memory.forget_about(scope, "Leeds")
    past, answer = await told()
    assert ["York"] == past and "Leeds" not in answer and "York" in answer
    await memory.undo_run(scope, str(gone.done.run_id))
    assert ["York", "Leeds"] == (await told())[0]


async def test_a_topic_goes_in_each_form_of_its_word(talk):
    await talk.learn("I used to smoke but I quit.", "I am a social worker and I live in Leeds.")
    [gone] = (await talk.say("please forget what I told you about smoking")).set_aside
    assert gone.done.memories >= 1
    await talk.keeps("What did I give up?", "Leeds", gone="smok")
    [kept] = (await talk.say("please forget what I told you about work")).set_aside
    assert kept.done.facts == 0
    assert "worker" in await talk.told("What is my job?")


@pytest.mark.parametrize("request_, kept, gone", [
    ("forget everything about marek", "Ikea", "Gdansk"),
    ("please forget my job and what I said about marek", "York", "Ikea"),
    ("please forget my address", "Gdansk", "York"),
    ("forget what I just said", "ikea", "i live in york"),
])  # fmt: skip
async def test_what_rests_on_a_topic_goes_in_one_run_and_comes_back(talk, request_, kept, gone):
    await talk.learn("my brother is called marek", "my brother lives in gdansk", "i work at ikea")
    await talk.say("Noted, you live in York.", role="agent")
    await talk.learn("i live in york")
    before = await talk.told("What do you know?")
    [done] = (await talk.say(request_)).set_aside
    await talk.keeps("What do you know?", kept, gone)
    await talk.ann.consolidate("t")
    assert gone not in [one.value for one in await talk.ann.facts()]
    await talk.ann.undo_run(done.done.run_id)
    assert gone in before and gone in await talk.told("What do you know?")


async def test_a_model_is_told_before_it_answers_whether_anything_will_go(talk):
    await talk.learn(BAKER)
    notice = talk.ann.memory.forget_requests.notice
    assert "holds 4 entries" in await notice(talk.ann.scope, FORGET)
    assert await notice(talk.ann.scope, "Forget what I said about Kim") == NOTHING_FOUND
    assert await notice(talk.ann.scope, LEEDS) == ""
    [vain] = (await talk.say("Forget what I said about Kim")).set_aside
    assert (vain.done.run_id, vain.done.memories) == (None, 0)
    assert "Kim" in await talk.told("Who is Kim?")


async def test_a_request_of_any_length_is_carried_out_and_asks_no_reranker(ann_with):
    asked: list[str] = []
    talk = Talk(ann_with(reranker=lambda query, texts: asked.append(query) or [0.0] * len(texts)))
    await talk.learn(BAKER, LEEDS)
    for text in (f"{FORGET}.", f"{FORGET}. {'Anyway, it rains. ' * 1_000}"):
        assert "holds" in await talk.ann.memory.forget_requests.notice(talk.ann.scope, text)
    assert [] == asked
    [gone] = (await talk.say(f"{FORGET}. {'Anyway, it rains. ' * 1_000}")).set_aside
    assert gone.done.memories >= 3 and [] == asked


async def test_a_turn_that_the_judge_takes_goes_with_its_facts_and_no_courtesy_does(talk):
    await talk.say("我最近在吃舍曲林 医生开的")
    await talk.say("Noted.", role="agent")
    await talk.say("舍曲林要按医生说的吃。", role="agent")
    await talk.learn("我住在武汉光谷")
    assert (
        await talk.ann.memory.forget_requests.notice(talk.ann.scope, "我说过的全部忘掉")
        == EVERYTHING
    )
    [gone] = (await talk.say("吃药那事你别记着了")).set_aside
    assert (gone.done.facts, [one.value for one in await talk.ann.facts()]) == (1, ["武汉光谷"])
    assert "Noted." in [one.text for one in await talk.ann.list_memories(limit=100)]
    assert "舍曲林" not in await talk.told("我吃什么药？")


async def test_undoing_the_run_brings_all_back(talk):
    await talk.learn(BAKER)
    before = [one.statement for one in await talk.ann.facts()]
    [gone] = (await talk.say("forget everything about theo please")).set_aside
    assert await talk.ann.facts() == []
    [run, *_] = await talk.ann.runs()
    assert (run.run_id, run.kind) == (gone.done.run_id, "forget")
    assert "Theo" not in str(run.counts)
    await talk.ann.undo_run(run.run_id)
    assert [one.statement for one in await talk.ann.facts()] == before
    assert "Theo" in await talk.told("Who is Theo?")


async def test_it_is_erased_after_thirty_days(ann_by_clock):
    ann = ann_by_clock
    talk, owned = Talk(ann), (ann.scope.app, ann.scope.user)
    await talk.learn(BAKER, LEEDS)
    await talk.say("Forget what I said about Theo.")
    ann.clock.day = 29
    assert await ann.memory.sweep_expired(owned) == 0
    ann.clock.day = 31
    assert await ann.memory.sweep_expired(owned) >= 2
    exported = "".join([line async for line in ann.export()])
    assert "Theo" not in exported
    assert "Leeds" in exported


async def test_turns_that_no_run_has_read_draw_no_facts(talk):
    await talk.learn(BAKER, LEEDS, FORGET)
    assert "Theo" not in await talk.told("Who is Theo?")
    assert [one.slot for one in await talk.ann.facts()] == ["residence"]


async def test_what_is_said_after_a_request_stays(talk):
    texts = (BAKER, FORGET, "I have a new friend called Theo.")
    events = [said(str(place), text) for place, text in enumerate(texts)]
    new = await talk.ann.append_events("t", events)
    assert [one.done.memories for one in new.set_aside] == [2]
    await talk.ann.consolidate("t")
    assert [one.slot for one in await talk.ann.facts()] == ["relation.friend"]


@pytest.mark.parametrize("is_edited", [False, True])
async def test_a_topic_is_set_aside_once(talk, is_edited):
    await talk.learn(BAKER)
    if is_edited:  # the edit has set all aside, and undoing it must not bring it back
        assert (await talk.ann.append_events("t", [said(1, LEEDS)])).edited
    gone = (await talk.ann.forget_about("Theo")).done
    assert gone.run_id is not None and gone.memories >= 2
    again = await talk.ann.forget_about("Theo")
    assert (again.done.run_id, again.done.memories) == (None, 0)
    if is_edited:
        [_, edit, *_] = await talk.ann.runs()
        with pytest.raises(Conflict, match=str(gone.run_id)):
            await talk.ann.undo_run(edit.run_id)
        assert "Theo" not in await talk.told("Who is Theo?")
        await talk.ann.undo_run(gone.run_id)
        await talk.ann.undo_run(edit.run_id)
        assert "Theo is a baker" in await talk.told("Who is Theo?")


async def test_what_two_requests_set_aside_comes_back_when_both_are_undone(talk):
    await talk.say("My brother Theo plays chess.")
    await talk.say("I met a chess club in Leeds.")
    theo = await talk.ann.forget_about("Theo")
    chess = await talk.ann.forget_about("chess")
    with pytest.raises(Conflict, match=str(chess.done.run_id)):
        await talk.ann.undo_run(theo.done.run_id)
    assert "chess" not in await talk.told("Who plays chess?")
    await talk.ann.undo_run(chess.done.run_id)
    await talk.ann.undo_run(theo.done.run_id)
    assert "Theo plays chess" in await talk.told("Who plays chess?")


async def test_an_old_request_leaves_what_was_said_later_and_a_topic_may_be_said_again(talk):
    await talk.learn(BAKER)
    new = await talk.ann.append_events("older", [said("old", FORGET, at(-1))])
    assert [(one.done.facts, one.done.edges) for one in new.set_aside] == [(0, 0)]
    assert "Theo is a baker" in await talk.told("Who is Theo?")
    await talk.learn(FORGET, BAKER)
    slots = [one.slot for one in await talk.ann.facts()]
    assert slots == ["relation.brother", "relation.brother.job"]


async def test_what_was_brought_back_is_read_by_the_next_run(talk):
    await talk.say(BAKER)
    [gone] = (await talk.say(FORGET)).set_aside
    await talk.ann.undo_run(gone.done.run_id)
    await talk.ann.consolidate("t")
    assert "relation.brother" in [one.slot for one in await talk.ann.facts()]


async def test_a_run_writes_nothing_that_was_set_aside_while_it_read(ann_with):
    class Interrupted(RuleExtractor):
        async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
            found = await super().extract(events, context)
            await ann.forget_about("Theo")
            return found

    ann = ann_with(extractor=Interrupted())
    talk = Talk(ann)
    await talk.learn(BAKER, LEEDS)
    await talk.keeps("Who is Theo, and where do I live?", "Leeds", gone="Theo")


async def test_an_option_switches_it_off(ann_with):
    talk = Talk(ann := ann_with(forget_requests=False))
    await talk.say(BAKER)
    assert (await talk.say(FORGET)).set_aside == ()
    assert "baker" in await talk.told("Who is Theo?")
    assert (await ann.forget_about("Theo")).done.memories == 2
    assert "Theo" not in await talk.told("Who is Theo?")


async def test_a_request_of_another_or_for_a_topic_nobody_spoke_of_changes_nothing(talk):
    await talk.say(BAKER)
    assert (await talk.say(FORGET, role="agent")).set_aside == ()
    assert "Theo is a baker" in await talk.told("Who is Theo?")
    assert (await talk.ann.forget_about("Kim")).done.run_id is None
    assert await talk.ann.runs() == []
    with pytest.raises(InvalidInput, match="topic must name something"):
        await talk.ann.forget_about("it")


async def test_process_memory_says_what_went_and_keeps_it_out(ann):
    user, app = ann.scope.user, ann.scope.app
    texts = (BAKER, "forget what i said about theo", LEEDS)
    answers = [await ann.memory.process_memory(text, user, app=app) for text in texts]
    assert ["theo"] == [gone["topic"] for gone in answers[1]["metadata"]["set_aside"]]
    await ann.memory.end_session(user_id=user, app=app)
    assert await ann.memory.flush()
    await Talk(ann).keeps("Who is Theo, and where do I live?", "Leeds", gone="Theo")
