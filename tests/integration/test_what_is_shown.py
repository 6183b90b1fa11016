"""What a model is shown of a memory on a real engine, with the doubts that a later turn raises."""

import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from pages import ROOT

from adk_memory.events import to_turn_entry
from adk_memory.recall_block import recall_block
from shared_core import Event, NewMemory, open_memory
from shared_core.context import composed, shown_kind, shown_memory
from shared_core.core.delimiters import line
from shared_core.nlp import count_tokens
from shared_core.nlp.uncertainty import MARKS


async def lines(ann, question):
    return [
        one.text
        for one in composed(question, [*map(shown_memory, await ann.recall(question))]).shown
    ]


async def test_a_turn_that_a_later_one_overtakes_is_marked(ann_by_clock):
    """A note of the older one, so that no fact of work ends."""
    question, before = "我在哪儿上班？", "我以前在哪儿上班？"
    await ann_by_clock.say(0, "我在面包店上夜班", thread="1")
    assert ["我在面包店上夜班"] == await lines(ann_by_clock, question)
    told, fact = "自从去了邮局上班，终于能睡觉了", "用户在邮局工作。"
    await ann_by_clock.say(40, told, thread="2")
    ann_by_clock.clock.day = 200
    older = "我在面包店上夜班"
    assert [fact, told, f"{older}{MARKS['zh']}"] == await lines(ann_by_clock, question)
    assert {told, older} == {*await lines(ann_by_clock, before)} - {fact}


async def test_a_fact_that_holds_is_not_marked(ann_by_clock):
    await ann_by_clock.say(0, "I play the cello.", thread="1")
    await ann_by_clock.say(40, "my cello needs new strings", thread="2")
    ann_by_clock.clock.day = 200
    shown = await lines(ann_by_clock, "What do I play?")
    assert ["User plays the cello.", "my cello needs new strings"] == shown


async def test_what_hardly_answers_is_left_out_beyond_the_first_lines(ann_by_clock):
    words = ["I take the tram to the office", "the tram is late again", "a new tram line opens",
             "my sister painted a boat", "the tap drips", "blue paint is sold out"]  # fmt: skip
    for day, text in enumerate(words):
        await ann_by_clock.say(day, text, thread=str(day))
    shown = await lines(ann_by_clock, "How do I get to the office?")
    assert 3 <= len(shown) < len(words) and "I take the tram to the office" == shown[0]
    # The chances are those of questions about the present; for others, nothing is marked either.
    assert {*words} == {*await lines(ann_by_clock, "Plan my way to the office")}
    assert {*words} == {*await lines(ann_by_clock, "How did I use to get to the office?")}


async def test_a_note_that_quotes_a_turn_gives_way_to_it(ann_by_clock):
    """Its turn may be marked, and a note would stand as a fact that holds."""
    turn, question = "got my permanent residence today", "Do I have a permanent residence?"
    await ann_by_clock.say(0, turn, thread="1")
    hits = await ann_by_clock.recall(question)
    [note] = [hit for hit in hits if turn in hit.memory.text and hit.memory.kind == "semantic"]
    assert "statement" == shown_kind(note.memory)
    shown = await lines(ann_by_clock, question)
    assert turn in shown and note.memory.text not in shown


async def test_a_window_tells_each_matter_once_and_says_what_it_left_out(ann_by_clock):
    await ann_by_clock.say(0, "I live in Porto.", "Where is the tram?", thread="1")
    await ann_by_clock.say(10, "I moved to Rome.", thread="2")
    ann_by_clock.clock.day = 20
    memory, scope = ann_by_clock.memory, ann_by_clock.scope
    window = await memory.context_window(scope, "3", "Where do I live?")
    assert ["User lives in Rome."] == [item.text for item in window.section("facts")]
    assert () == window.section("memories")
    reasons = {one.item.text: one.reason for one in window.dropped}
    assert ("has ended", "told by other items", "only asks, agrees or repeats") == tuple(
        reasons[text] for text in ("I live in Porto.", "I moved to Rome.", "Where is the tram?")
    )
    assert all(one.item.ref[0] in "fm" for one in window.dropped)


async def test_a_turn_that_a_window_shows_is_left_out_as_its_duplicate(ann_by_clock):
    await ann_by_clock.say(0, "Where is the tram?", "I live in Porto.", thread="1")
    memory, scope = ann_by_clock.memory, ann_by_clock.scope
    window = await memory.context_window(scope, "1", "Where do I live?")
    shown = {item.text: item.ref for item in window.section("history")}
    reasons = {one.item.text: one.reason for one in window.dropped}
    assert f"duplicate of {shown['Where is the tram?']}" == reasons["Where is the tram?"]


async def test_turns_as_adk_gives_them_are_shown(ann_by_clock):
    """Their times are local and have no offset."""
    await ann_by_clock.say(0, "I live in Porto, near the old tram depot.", thread="1")
    scope = ann_by_clock.scope
    hits = await ann_by_clock.recall("Where do I live?", kinds=["episodic"])
    entries = [to_turn_entry(hit.memory, scope, parts=hit.parts) for hit in hits]
    now = hits[0].memory.occurred_at + timedelta(days=1)
    block = recall_block(entries, frozenset(), 500, question="Where do I live?", now=now)
    assert block and "near the old tram depot." in block


async def test_metadata_of_a_caller_make_no_statement(ann_by_clock):
    words = {"statement": True}
    note = NewMemory(text="My bank statement says 300 euros.", metadata=words)
    await ann_by_clock.memory.remember(ann_by_clock.scope, [note])
    [hit] = await ann_by_clock.recall("What does my bank statement say?")
    assert "semantic" == shown_kind(hit.memory)


TALK = [
    (0, "user", "my son Max, 11, plays football at SV Nord"),
    (0, "agent", "Football, how nice!"),
    (0, "user", "what could I cook for him before training?"),
    (40, "user", "Max has given up football, it's judo now. training on tuesdays and fridays"),
    (40, "agent", "Judo, great choice."), (41, "user", "thanks!"),
    (120, "user", "we moved to Leeds last week"),
    (150, "user", "Max wants a pizza for his birthday"),
]  # fmt: skip


async def test_the_page_shows_what_is_shown(dsn, scope):
    """docs/explanation/what-a-model-sees.md."""
    begun = datetime(2026, 3, 2, 18, 20, 33, 264_387, tzinfo=UTC)
    question, days = "Which sport does Max do?", defaultdict(list)
    for number, (day, role, text) in enumerate(TALK):
        author = "user" if role == "user" else "helper"
        at = begun + timedelta(days=day, seconds=40 * number)
        days[day].append(Event(event_id=str(number), author=author, role=role, text=text,
                               occurred_at=at))  # fmt: skip
    now = begun + timedelta(days=200)
    async with open_memory(dsn, embedder="e5", worker=False) as memory:
        for day, turns in days.items():
            await memory.append_events(scope, str(day), turns)
            await memory.consolidate(scope, str(day))
        hits = await memory.recall(scope, question, asked_at=now)
    before = [
        line(f"{hit.memory.occurred_at.isoformat()}, {hit.memory.author or 'user'}",
             hit.memory.text)
        for hit in hits
    ]  # fmt: skip
    found = [shown_memory(hit, now) for hit in hits]
    shown = [line(one.about, one.text) for one in composed(question, found).shown]
    page = (ROOT / "docs/explanation/what-a-model-sees.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert ["".join(before), "".join(shown)] == blocks
    assert [str(count_tokens(block)) for block in blocks] == re.findall(r"(\d+) tokens", page)
