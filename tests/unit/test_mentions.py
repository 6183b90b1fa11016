"""Which entities a question may name."""

from __future__ import annotations

from shared_core.mentions import MOST_NAMES, mentioned


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
