"""Of whom or what a question asks, and what then has to do with it."""

from __future__ import annotations

from every_case import every_case

from shared_core.nlp.question_subject import asks_about_world, shares_words, states_user_name


@every_case(
    "What is the capital of France?", "Who wrote Hamlet?", "How tall is Mount Everest?",
    "whats the capital of France", "whos the king of Norway", "What is the boiling point of water?",
    "中国的首都是哪里？", "水的沸点是多少？", "珠穆朗玛峰有多高？", "上海有多少人口？",
    "《红楼梦》是谁写的？",
)  # fmt: skip
def test_a_question_that_names_something_else_is_about_the_world(question: str) -> None:
    assert asks_about_world(question)


@every_case(
    "Where do I live?", "What is my daughter's name?", "Do you like mangoes?", "我住在哪里？",
    "住在哪里？", "生日是哪天？", "周末有什么安排？", "What is the date of the meeting?",
    "女儿的学校在哪里？", "你喜欢吃桔子吗？", "I love the capital of France.", "北京是中国的首都",
)  # fmt: skip
def test_one_that_may_ask_of_the_user_is_not(question: str) -> None:
    assert not asks_about_world(question)


@every_case(
    ("我住在深圳", "中国的首都是哪里？", False),
    ("我在中国银行工作", "中国的首都是哪里？", True),
    ("I live in Leeds.", "What is the capital of France?", False),
    ("I went to France.", "What is the capital of France?", True),
)
def test_a_memory_has_to_do_with_what_it_names(text: str, question: str, shares: bool) -> None:
    assert shares is shares_words(text, question)


@every_case(
    ("User's name is Anna.", True), ("My name is Anna.", True), ("我叫小朱", True),
    ("用户的名字叫小朱。", True), ("Anna has a daughter called Mia.", False),
    ("User's daughter is called Mia.", False), ("我女儿叫灿灿", False),
)  # fmt: skip
def test_the_name_of_the_user_is_told_from_that_of_others(text: str, own: bool) -> None:
    assert own is states_user_name(text)
