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


@pytest.mark.parametrize(
    "message",
    [
        "please forget what I told you about peanuts",
        "I moved to Porto. Forget everything I said about Leeds.",
        "can you forget everything I said about Theo?",
        "忘掉我说过的关于花生的事",
        "请把阿泽的事忘了",
    ],
)
def test_a_request_to_forget_gets_a_promise_without_the_topic(message: str) -> None:
    answer = offline_answer([SHOWN, message])
    assert answer in ("I'll forget what I find about that.", "好，找到的相关内容我会忘掉。")
    assert answer.isascii() == message.isascii()


@pytest.mark.parametrize(
    "message", ["I forgot my keys", "don't forget the milk", "forget it", "我忘了带伞", "别忘了买菜"]
)
def test_a_message_that_only_speaks_of_forgetting_is_noted(message: str) -> None:
    assert offline_answer([SHOWN, message]) in ("Noted.", "好的，记住了。")


@pytest.mark.parametrize(
    "memory",
    [
        "please forget what I told you about peanuts",
        "忘掉我说过的关于花生的事",
        "I'll forget what I find about that.",
        "好，找到的相关内容我会忘掉。",
    ],
)
def test_a_request_to_forget_and_its_answer_are_not_quoted(memory: str) -> None:
    shown = f"<MEMORIES>\n- [2026, user] {memory}\n</MEMORIES>"
    assert "I remember nothing about that." == offline_answer([shown, "What am I allergic to?"])
