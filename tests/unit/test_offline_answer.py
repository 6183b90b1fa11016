"""What the stand-ins for a language model answer."""

from __future__ import annotations

import pytest

from shared_core.models.offline_answer import offline_answer

SHOWN = "<MEMORIES>\n- where is my cat\n- I remember: rain\n- Ana lives in Porto.\n</MEMORIES>"


@pytest.mark.parametrize(
    "message",
    ["Where do I live?", "where do i live", "whats my wifes name", "so, where?", "我住哪"],
)
def test_a_question_gets_the_first_memory_that_tells_something(message: str) -> None:
    assert offline_answer([SHOWN, message]).endswith("Ana lives in Porto.")


@pytest.mark.parametrize(
    "message",
    [
        "I moved to Porto.",
        "my wifes name is Ana",
        "what a day, I quit my job",
        "你知道吗，我搬家了",
    ],
)
def test_any_other_message_is_noted(message: str) -> None:
    assert offline_answer([SHOWN, message]) in ("Noted.", "好的，记住了。")


def test_a_question_without_memories_says_so() -> None:
    assert "I remember nothing about that." == offline_answer(["where do i live"])
    assert "这件事我不记得。" == offline_answer(["我住哪"])
