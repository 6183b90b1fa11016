"""The conversations of the demo: their format, and that their questions are honest."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from every_case import every_case
from rich.cells import cell_len

from shared_core import InvalidInput
from shared_core.cli.demo.pages import excerpt
from shared_core.cli.demo.script import Question, load_script, parse_script
from shared_core.nlp.text import language

OPENING = "# A title: with a colon\nuser: ana\nagent: helper\n"
SESSION = "## 2026-03-02 08:40 +02:00 monday\nuser: I moved. Time: 9:30\nagent: Noted.\n"
QUESTIONS = "## Questions\n- ask: Did Ana move?\n  expect: moved\n"


@every_case(
    ("", "begins with"),
    (SESSION, "begins with"),
    ("# t\nuser: a\nbot: b\n", "line 3: expected 'agent: ...'"),
    ("# t\nuser:\nagent: b\n", "line 2: expected 'user: ...'"),
    (OPENING + "## Monday, 8:40\nuser: hi\n",
     "line 4: '## Monday, 8:40' is not the head of a session"),
    (OPENING + "## 2026-03-02 08:40 monday\nuser: hi\n", "line 4: .* is not the head of a session"),
    (OPENING + SESSION + "said by nobody\n", "line 7: a turn begins with"),
    (OPENING + QUESTIONS + "- ask: And?\n", "line 7: every 'ask' needs an 'expect'"),
    (OPENING + "## Questions\nexpect: x\n- ask: y\n", "line 5: expected '- ask: ...'"),
)  # fmt: skip
def test_what_is_no_script_is_refused_with_its_line(text, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        parse_script(text)


@every_case("en", "zh")
def test_the_conversations_that_ship_are_complete_and_their_answers_are_said_in_no_question(spoken):
    script = load_script(spoken)
    turns = [turn for conversation in script.conversations for turn in conversation.turns]
    assert (5, 8) == (len(script.conversations), len(script.questions))
    assert len(turns) == len({turn.event_id for turn in turns})
    assert all(one.said_at < next_one.said_at for one, next_one in pairwise(turns))
    assert {"en", "zh"} == {language(question.ask) for question in script.questions}
    script = load_script(spoken)
    said = [turn.text for c in script.conversations for turn in c.turns if turn.speaker == "user"]
    for question in script.questions:
        assert not question.is_answered_by(question.ask), question
        assert any(question.is_answered_by(text) for text in said), question
        assert question.ask not in said


def test_a_script_is_read_whole_its_questions_in_any_case_and_a_short_text_is_its_excerpt():
    question = Question(ask="?", expect="Fridays")
    assert question.is_answered_by("No meetings on FRIDAYS.")
    assert not question.is_answered_by("No meetings on Friday.")
    assert "I moved." == excerpt("I  moved.", "elsewhere", 100)
    script = parse_script(f"{OPENING}\n{SESSION}\n{QUESTIONS}")
    assert ("A title: with a colon", "ana", "helper") == (script.title, script.user, script.agent)
    [session] = script.conversations
    assert "monday" == session.session_id
    first, second = session.turns
    assert ("user", "I moved. Time: 9:30", "monday-01") == (
        first.speaker, first.text, first.event_id,
    )  # fmt: skip
    assert ("agent", "Noted.", "monday-02") == (second.speaker, second.text, second.event_id)
    assert datetime(2026, 3, 2, 6, 40, tzinfo=UTC) == first.said_at
    assert timedelta(minutes=1) == second.said_at - first.said_at
    assert [Question(ask="Did Ana move?", expect="moved")] == script.questions


@every_case("word ", "字")
@every_case(0, 30, 200)
def test_an_excerpt_is_short_and_keeps_the_answer(before, filler):
    text = f"{filler * before}Northwind {filler * 60}"
    shown = excerpt(text, "northwind", 100)
    assert "Northwind" in shown
    assert cell_len(shown) <= 105
    assert shown.strip("…") in " ".join(text.split())
