"""Which texts ask something: Chinese ones without a question mark, and those that only ask."""

from __future__ import annotations

from every_case import every_case

from shared_core.nlp.relation_phrases import is_question, only_asks


@every_case(
    "我吃不吃香菜", "我该不该跳槽", "我喜不喜欢猫", "我喜欢不喜欢加班", "我吃没吃过药",
    "你还记不记得我生日", "体检医生咋说的", "我上次咋回的老家", "这事咋整", "我打算啥时候领证",
    "我什么时候去体检", "我生日几号", "我几点下班", "妈妈生日是几月几号", "我星期几有课",
    "我女儿上几年级", "我家住几楼", "我哪天搬家", "我在这家公司多久了", "我鞋穿多大码",
    "我女儿几岁", "我怎么去公司", "我老婆叫什么", "谁是我老板", "你知道谁吃素", "谁知道我住哪",
    "我是不是对花生过敏", "你能不能告诉我",
)  # fmt: skip
def test_it_asks(question: str) -> None:
    assert is_question(question)


@every_case(
    "家人们谁懂啊 我被裁了", "谁懂啊", "谁知道呢", "谁知道呢。", "谁说不是呢", "怎么又下雨了",
    "咋又加班", "我怎么这么倒霉", "怎么可能", "怎么说呢", "我怎么都睡不着", "怎么劝也不听",
    "我不怎么吃辣", "最近没怎么睡", "好什么好", "看什么看", "没什么", "他动不动就发火",
    "我时不时去游泳", "爱去不去", "累得我不要不要的", "不是不是", "不不不", "没没没", "去不去都行",
    "信不信由你", "几点都行", "我什么时候也去一趟", "等啥时候有空再说", "我下个月十几号出差",
    "我十几岁就出来打工", "我有几点建议", "注意以下几点", "昨天来了好几号人", "没多久就辞职了",
    "多久都等", "他咋咋呼呼的", "我吃素", "周末我和小美去爬山", "我女儿喜欢画画",
)  # fmt: skip
def test_it_tells_or_complains(statement: str) -> None:
    assert not is_question(statement)


@every_case(
    "where do i live?", "Where do I live", "hey, where do i live?", "ok, what's my name?!",
    "我住哪里？", "对了，我住哪里", "那，我吃不吃香菜",
)  # fmt: skip
def test_a_single_question_only_asks(text: str) -> None:
    assert only_asks(text)


@every_case(
    "I moved to York, where is the gym?", "I live in York.", "I'm vegan. What can I eat?",
    "where do I live? I moved to York", "我搬家了，我住哪里？", "我吃素。能吃什么？", "我住在成都",
    "york\nwhere is it?",
)  # fmt: skip
def test_a_text_that_tells_something_does_more_than_ask(text: str) -> None:
    assert not only_asks(text)
