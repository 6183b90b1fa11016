"""Which facts a question asks for."""

from __future__ import annotations

import pytest

from shared_core.nlp.asked_slots import asked_slots

KNOWN = (
    "employer", "job", "work_city", "residence", "name", "age", "birthday", "allergy", "like",
    "activity", "instrument", "medication", "car", "rent", "rule", "favourite.band",
    "favourite.colour", "relation.sister", "relation.sister.age", "relation.wife.birthday",
    "relation.mother.place", "relation.daughter.age", "relation.son.school", "relation.dog",
    "about.mia.age", "shoe_size",
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "slots"),
    [
        ("Where do I work now?", {"employer", "work_city"}),
        ("who am i working for these days", {"employer"}),
        ("What is my job?", {"employer", "job"}),
        ("my job?", set()),
        ("what do I do for a living", {"job"}),
        ("Which city is my home these days?", {"residence"}),
        ("where does the user live", {"residence"}),
        ("what's the user's birthday", {"birthday"}),
        ("What's my name?", {"name"}),
        ("What food could make me ill?", {"allergy"}),
        ("which instrument do I play", {"instrument"}),
        ("What is my favourite band?", {"favourite.band"}),
        ("What's my favorite color", {"favourite.colour"}),
        ("How long should your answers be?", set()),
        ("how should you phrase answers to me", {"rule"}),
        ("What is my sister called?", {"relation.sister"}),
        ("what's my sister's name", {"relation.sister"}),
        ("How old is my little girl?", {"relation.daughter.age"}),
        ("how old are my kids", {"relation.daughter.age"}),
        ("When is my wife's birthday?", {"relation.wife.birthday"}),
        ("Where does my mother live?", {"relation.mother.place"}),
        ("Name of our dog?", {"relation.dog"}),
        ("我现在在哪家公司工作？", {"employer"}),
        ("我的工作是什么", {"employer", "job", "work_city"}),
        ("我如今家在什么地方？", {"residence"}),
        ("我現在住在哪一區的什麼房子", {"residence"}),
        ("用户住在哪里", {"residence"}),
        ("我业余在练什么乐器？", {"activity", "instrument"}),
        ("哪种水果我碰不得？", {"allergy"}),
        ("我姐姐多大", {"relation.sister.age"}),
        ("我老婆的生日是哪天", {"relation.wife.birthday"}),
        ("我儿子读哪所学校", {"relation.son.school"}),
        ("我而家揸咩車？", {"car"}),
    ],
)
def test_a_question_asks_for_facts(question: str, slots: set[str]) -> None:
    assert slots == asked_slots(question, KNOWN)


@pytest.mark.parametrize(
    "text",
    [
        "I love my job.", "Where is the station?", "What is the capital of France?", "",
        "What does my sister think of my job?", "我姐姐喜欢我的工作吗", "中国的首都是哪里",
        "what did i end up in instead of playing on the wing", "Where does Anna live?",
        "what does the dog think of where we live", "Where do I work out at weekends?",
        "我哋賣得最好嗰盒花叫咩名", "x" * 5_000, "where do i work " * 100,
    ],
)  # fmt: skip
def test_other_texts_ask_for_no_fact(text: str) -> None:
    assert set() == asked_slots(text, KNOWN)


def test_slots_that_are_unknown_here_are_not_asked_for() -> None:
    assert set() == asked_slots("Where do I work?", ["residence", "", "relation"])
