"""Which entities a question may name."""

from __future__ import annotations

from shared_core.nlp.question_subject import MOST_NAMES, mentioned


def test_runs_of_words_are_names_and_i_is_the_user() -> None:
    assert mentioned("Where does Mia Chen live?")[:3] == [
        "where does mia chen", "does mia chen live", "where does mia"
    ]  # fmt: skip
    assert "mia chen" in mentioned("Where does Mia Chen live?")
    assert "user" not in mentioned("Where does Mia live?")
    assert mentioned("Where do I work?")[0] == "user"


def test_chinese_names_stand_in_a_row_without_spaces() -> None:
    found = mentioned("灿灿住在哪里？")
    assert {"灿灿", "灿灿住在哪里"} <= set(found)
    assert mentioned("我在哪里工作")[0] == "user"


def test_long_questions_are_bounded_and_empty_ones_name_nobody() -> None:
    assert len(mentioned("word " * 10_000)) <= MOST_NAMES
    assert len(mentioned("很" * 10_000 + "长")) <= MOST_NAMES
    assert mentioned("?! 🙂") == []


def test_whose_it_is_is_named() -> None:
    assert {"mia", "mia's", "mia's home"} <= set(mentioned("Where is Mia's home?"))
    assert "mia chen" in mentioned("Is it Mia Chen’s?")


def test_of_a_long_question_the_likely_names_are_looked_up() -> None:
    filler = " ".join(f"word{number}" for number in range(100))
    assert {"user", "mia", "tom", "york"} <= set(mentioned(f"Has Mia {filler} me and Tom in York?"))
    chinese = "我上周跟你说过我们公司的小明最近打算搬到北京去工作因为他女朋友李小红在那边找到新职位"
    assert {"user", "小明", "北京", "李小红"} <= set(mentioned(chinese))
