"""What a sentence does: it tells, asks, orders or greets."""

from pathlib import Path

import pytest
from every_case import every_case

from shared_core.nlp.dialogue_acts import DialogueAct, dialogue_act, dialogue_acts

DATA = Path(__file__).parents[2] / "benchmarks" / "data" / "acts"


@every_case(
    ("i live in rome with my sister", "statement"),
    ("remember that im allergic to nuts", "statement"), ("我住在苏州，有两个孩子", "statement"),
    ("where do i work again", "question"), ("whats my dogs name", "question"),
    ("我对啥过敏来着", "question"), ("我屋企喺邊度", "question"),
    ("where did i live before", "history"), ("我以前住哪", "history"),
    ("write me a mail to my landlord", "request"),
    ("translate this into german for me", "request"), ("帮我写个请假条", "request"),
    ("thanks mate", "social"), ("辛苦啦", "social"), ("?!", "social"), ("", "social"),
)  # fmt: skip
def test_what_a_sentence_does(sentence, act):
    assert act == dialogue_act(sentence).name


@every_case("", "a", "𓀀𓀁 ١٢٣", "词" * 5_000, "word " * 5_000, "\x00?")
def test_the_chances_of_any_text_add_up_to_1(sentence):
    act = dialogue_act(sentence)
    assert pytest.approx(1) == sum(act)
    assert all(0 <= chance <= 1 for chance in act)
    assert act.asks == act.question + act.history


def test_each_sentence_of_a_text_is_judged():
    told = dialogue_acts("I moved to Porto last week. Can you find me a dentist? Thanks!")
    assert ["statement", "request", "social"] == [act.name for act in told]
    assert [] == dialogue_acts(" ")


@every_case(("judge_en", 0.82), ("judge_zh", 0.86))
def test_sentences_of_writers_who_have_seen_nothing_are_judged_as_well_as_before(file, least):
    lines = (DATA / f"{file}.tsv").read_text("utf-8").splitlines()
    told = [line.split("\t") for line in lines]
    right = [act == dialogue_act(text).name for act, text in told]
    assert sum(right) >= least * len(right)
    assert {*DialogueAct._fields} == {act for act, _ in told}
