"""What process_memory answers is about whom the input asks of, now or in the past."""

from typing import Any

import pytest
from person import Person

from shared_core import Scope

ENGLISH = [
    "My name is Dan. I live in York.", "My mother is called Grace. She lives in Leeds.",
    "My brother is called Max. He works at Tesco.", "I work at Acme.",
]  # fmt: skip
CHINESE = [
    "我叫小李，住在北京", "我妈妈叫张兰，她住在成都", "我哥哥叫大伟，他在腾讯上班",
    "我在华为上班",
]  # fmt: skip

OF_MANY = ["我叫王小明", "我老婆叫李娜，她是老师", "我们有两个孩子", "我不吃香菜，喜欢喝茶",
           "我在腾讯上班", "我们上个月搬到了上海", "我的狗旺财昨天死了"]  # fmt: skip
MANY = ["My name is Bob.", "My wife is called Sara. She is a nurse.", "I hate coriander.",
        "I love tea.", "I work at Acme.", "We moved to Bristol last month.",
        "My dog Rex died yesterday."]  # fmt: skip


class Asked:
    """Answers questions to users, each of whom tells something once."""

    def __init__(self) -> None:
        self.told: dict[str, Scope] = {}

    async def __call__(self, ann: Person, sessions: list[list[str]], question: str) -> Any:
        """Return the answer to the one who has told this, or to Ann, who tells it now."""
        memory, key = ann.memory, repr(sessions)
        if key not in self.told:
            named = {"user_id": ann.scope.user, "app": ann.scope.app}
            for inputs in sessions:
                for text in inputs:
                    await memory.process_memory(text, **named)
                await memory.end_session(**named)
                assert await memory.flush(60)
            self.told[key] = ann.scope
        scope = self.told[key]
        return await memory.debug_process_memory(question, scope.user, app=scope.app)


@pytest.fixture(scope="module")
def answered():
    return Asked()


def contents(answer: Any) -> list[str]:
    return [one["content"] for one in answer["memories"]]


def relations(answer: Any) -> list[tuple[str, str, str]]:
    return [(one["source"], one["relation"], one["target"]) for one in answer["relations"]]


@pytest.mark.parametrize(
    ("inputs", "question", "memories", "edges"),
    [
        (ENGLISH, "Where does my mother live?", ["Grace is my mother and lives in Leeds."],
         [("Grace", "lives in", "Leeds"), ("Dan", "mother", "Grace")]),
        (ENGLISH, "Where does Grace live?", ["Grace is my mother and lives in Leeds."],
         [("Grace", "lives in", "Leeds")]),
        (ENGLISH, "Where does my brother work?", ["Max is my brother and works at Tesco."],
         [("Max", "works at", "Tesco"), ("Dan", "brother", "Max")]),
        (ENGLISH, "Where does my mother work?", ["Grace is my mother and lives in Leeds."],
         [("Dan", "mother", "Grace")]),
        (ENGLISH, "Where does my sister work?", [], []),
        (ENGLISH, "Where do I work?", ["I work at Acme."], [("Dan", "works at", "Acme")]),
        (CHINESE, "我妈妈住在哪里？", ["张兰是我的妈妈，住在成都"],
         [("张兰", "住在", "成都"), ("小李", "妈妈", "张兰")]),
        (CHINESE, "张兰住在哪里？", ["张兰是我的妈妈，住在成都"], [("张兰", "住在", "成都")]),
        (CHINESE, "我哥哥在哪里上班？", ["大伟是我的哥哥，在腾讯上班"],
         [("大伟", "工作于", "腾讯"), ("小李", "兄弟", "大伟")]),
        (CHINESE, "我妈妈在哪里上班？", ["张兰是我的妈妈，住在成都"], [("小李", "妈妈", "张兰")]),
        (CHINESE, "我妹妹在哪里上班？", [], []),
        (CHINESE, "我在哪里上班？", ["我在华为上班"], [("小李", "工作于", "华为")]),
        (OF_MANY, "我有狗吗？", ["我的狗旺财昨天死了"], None),
        (OF_MANY, "我住在哪里？", ["我们上个月搬到了上海"], None),
        (MANY, "Do I have a dog?", ["My dog Rex died yesterday."], None),
        (MANY, "Where do I live?", ["User lives in Bristol."], None),
        (MANY, "我住在哪里？", ["User lives in Bristol."], None),
    ],
)  # fmt: skip
async def test_what_is_about_others_is_left_out(ann, answered, inputs, question, memories, edges):
    """edges: None where they are not compared."""
    answer = await answered(ann, [inputs], question)
    assert contents(answer) == memories
    assert edges is None or relations(answer) == edges


@pytest.mark.parametrize(
    ("inputs", "question", "name", "not_of"),
    [
        (["I have two sons, Ben and Max. Ben is 9 and Max is 6.", "Max likes football.",
          "My daughter Ida hates fish."], "What are my sons called?", "Ben", "Ida"),
        (["我有两个儿子，大宝和小宝。大宝9岁，小宝6岁。", "我女儿朵朵讨厌鱼"],
         "我儿子叫什么？", "儿子", "朵朵"),
        (["My wife is called Sara.", "My name is Bob."], "我太太叫什么？", "Sara", "name is"),
        (["我老婆叫李娜", "我叫王小明"], "我太太叫什么？", "李娜", "用户叫"),
        (["我老婆叫李娜", "我叫王小明"], "我夫人叫什么？", "李娜", "用户叫"),
        (["My wife is called Sara.", "My name is Bob."], "What is my spouse's name?", "Sara",
         "child"),
    ],
)  # fmt: skip
async def test_a_name_is_that_of_whom_is_asked_for(ann, answered, inputs, question, name, not_of):
    answer = await answered(ann, [inputs], question)
    assert name in contents(answer)[0]
    assert not any(not_of in text for text in contents(answer))


@pytest.mark.parametrize(
    ("inputs", "question"),
    [
        (["My name is Dan.", "My mother is called Grace.", "My brother is called Max."],
         "What is my brother's name?"),
        (["我叫小李", "我妈妈叫张兰", "我哥哥叫Max"], "我哥哥叫什么名字？"),
    ],
)  # fmt: skip
async def test_the_name_of_the_user_scores_less(ann, answered, inputs, question):
    [first, *rest] = (await answered(ann, [inputs], question))["memories"]
    assert "Max" in first["content"]
    assert all(one["score"] < first["score"] for one in rest)
    assert not any("Grace" in one["content"] or "张兰" in one["content"] for one in rest)


@pytest.mark.parametrize(
    ("sessions", "question", "memory_of_then", "edge"),
    [
        ([["I'm Bob and I live in Leeds."], ["We moved to Bristol last month."]],
         "Where did I live before?", "User lives in Leeds. (past, until ",
         ("Bob", "lived in", "Leeds")),
        ([["我叫王小明，住在北京"], ["我们上个月搬到了上海"]], "我以前住在哪里？",
         "用户住在北京。（以前，至", ("王小明", "曾住在", "北京")),
        ([["我叫王小明，我在华为上班"], ["我从华为离职了，现在在腾讯上班"]], "我以前在哪里上班？",
         "用户在华为工作。（以前，至", ("王小明", "曾工作于", "华为")),
    ],
)  # fmt: skip
async def test_the_past_is_answered_with(ann, answered, sessions, question, memory_of_then, edge):
    answer = await answered(ann, sessions, question)
    assert contents(answer)[0].startswith(memory_of_then)
    assert relations(answer)[0] == edge
    scores = [one["score"] for one in answer["memories"]]
    assert scores == sorted(scores, reverse=True)


async def test_what_was_never_true_is_no_past(ann, answered):
    sessions = [["I work at Barclays."], ["I never worked at Barclays."]]
    answer = await answered(ann, sessions, "Where did I work before?")
    assert not any("past" in text for text in contents(answer))


@pytest.mark.parametrize(
    ("inputs", "question", "memory_of_it"),
    [
        (["My doctor is called Eve Hart.", "I have an appointment on Monday."],
         "When is my doctor's appointment?", "I have an appointment on Monday."),
        (["My daughter is called Mia.", "We went to Hull with Mia."],
         "Where did my daughter go?", "We went to Hull with Mia."),
        (["我女儿叫灿灿", "灿灿对花生过敏"], "我女儿对什么过敏？", "花生"),
    ],
)  # fmt: skip
async def test_what_the_user_tells_of_it_is_not_lost(ann, answered, inputs, question, memory_of_it):
    assert any(memory_of_it in text for text in contents(await answered(ann, [inputs], question)))
