"""A name and a number are read whole or not at all, by rules and by the trained reader."""

from fractions import Fraction

import pytest
from every_case import every_case
from turns import said

from shared_core.extraction.rule_reader import read_turn
from shared_core.nlp.discourse import DiscourseState
from shared_core.nlp.numerals import amount
from shared_core.nlp.whole_values import whole_count, whole_span

NAMES = {
    "My name is Jan van 't Hof.": "Jan van 't Hof",
    "hi, my name is Lucia dell'Aversana": "Lucia dell'Aversana",
    "I'm Youssef el-Sayed from Cairo.": "Youssef el-Sayed",
    "call me Abd al-Rahman please": "Abd al-Rahman",
    "My name is Zoë-Marie von und zu Berg and I live in Bonn.": "Zoë-Marie von und zu Berg",
    "I am Maria dos Santos, hello": "Maria dos Santos",
    "my name is maria da silva": "Maria da Silva",
    "My name's José Ortega y Gasset.": "José Ortega y Gasset",
    "Seán Ó Briain here": "Seán Ó Briain",
    "My husband's name is Pieter-Jan van den Broek.": "Pieter-Jan van den Broek",
    "my wife, Ngozi Okonjo-Iweala, is an economist": "Ngozi Okonjo-Iweala",
    "My son is called Tomás Mac an tSaoir.": "Tomás Mac an tSaoir",
    "My daughter is called J. R. Smith.": "J. R. Smith",
    "My dog is called Lord Byron": "Lord Byron", "在吗 我叫陈默 深圳这边做测试的": "陈默",
    "我叫陈默在深圳做测试": "陈默", "我叫李在明": "李在明", "我叫李明叫我小李就好": "李明",
    "我叫张伟我老婆在上海": "张伟", "请称呼我司徒婉清博士": "司徒婉清",
    "我女儿叫司马明月": "司马明月", "儿子大名尉迟云骁，上小班": "尉迟云骁",
    "我叫阿依古丽·买买提江，系统里点打不进去": "阿依古丽·买买提江",
    "我老婆叫古丽娜尔·阿不都": "古丽娜尔·阿不都", "我叫努尔兰 哈布都拉": "努尔兰 哈布都拉",
    "我叫 Nguyen Thi Minh Khai": "Nguyen Thi Minh Khai",
}  # fmt: skip
NUMBERS = {
    "My son is two and a half.": "two and a half", "I am forty-one.": "forty-one",
    "My dad is seventy-something.": "seventy-something", "I'm just over fifty.": "just over fifty",
    "i'm 30ish": "30ish", "My six-and-a-half-year-old daughter loves slime.": "six-and-a-half",
    "I weigh about 70 kg.": "about 70 kg",
    "My salary is fifty-two and a half thousand pounds.": "fifty-two and a half thousand pounds",
    "our rent is twelve hundred dollars a month": "twelve hundred dollars a month",
    "We have half a dozen chickens.": "half a dozen chickens", "我今年八十有二": "八十有二",
    "我三十有五了": "三十有五", "我年薪三十来万": "三十来万", "我月薪三点五万": "三点五万",
    "我工资两千八": "两千八", "我房租三千五一个月": "三千五", "我女儿七岁零三个月": "七岁零三个月",
    "女儿六岁零十个月，认字三百来个": "六岁零十个月", "我妈六十好几的人了": "六十好几",
    "我身高一米七八点五": "一米七八点五", "我体重一百六十斤出头": "一百六十斤出头",
}  # fmt: skip
NOTHING = [
    "my daughter is almost five", "My nephew is going on nine.", "I'm pushing sixty",
    "my twins are 18 months old", "I'm 40-50", "我儿子还有两个月就五岁了", "我爸差两岁满七十",
    "我儿子不到三岁", "我年近半百", "我叫老王和老李一起去", "我叫同事来接我", "我叫车去机场",
]  # fmt: skip
AMOUNTS = [
    ("en", "two and a half", "5/2"), ("en", "3½", "7/2"), ("en", "half a dozen", 6),
    ("en", "a score and ten", 30), ("en", "fifty-two and a half thousand", 52500),
    ("en", "a hundred and one", 101), ("en", "85k", 85000), ("en", "1,250.50", "2501/2"),
    ("en", "three and three quarters", "15/4"), ("en", "a million and a half", 1_500_000),
    ("en", "two three", None), ("en", "one third", "1/3"), ("en", "two quarters", None),
    ("zh", "八十有二", 82), ("zh", "三十来万", 300000), ("zh", "一万二", 12000),
    ("zh", "一百一", 110), ("zh", "一万亿", 10**12), ("zh", "一万零二", 10002),
    ("zh", "三点五万", 35000), ("zh", "八千六百五", 8650),
    ("zh", "廿七", 27), ("zh", "二三十万", 200000), ("zh", "1万2", 12000), ("zh", "五一十", None),
]  # fmt: skip


def values(text):
    read = read_turn(said(0, text), DiscourseState(), reader=True)
    return [fact.value for fact in read.facts if not fact.slot.endswith("note")]


@pytest.mark.parametrize(("text", "whole"), [*NAMES.items(), *NUMBERS.items()])
def test_a_name_and_a_number_are_read_whole(text, whole):
    found = values(text)
    assert whole in found
    assert not [one for one in found if one != whole and one in whole]


@pytest.mark.parametrize("text", NOTHING)
def test_what_cannot_be_bounded_or_is_not_reached_is_no_value(text):
    assert values(text) == []


@pytest.mark.parametrize(("lang", "text", "value"), AMOUNTS)
def test_a_number_in_words_amounts_to_what_it_says(lang, text, value):
    assert amount(text, lang) == (None if value is None else Fraction(value))


@every_case(
    ("whole_name", "en", "I met Ana Maria Lopez", "Maria", "Ana Maria Lopez"),
    ("whole_name", "en", "Call Ana Lopez", "Ana", "Ana Lopez"),
    ("whole_name", "zh", "我爱欧阳修远。", "修远", "修远"),
    ("number", "en", "in twenty-five days", "five", 25), ("number", "zh", "十五天", "五", 15),
    ("number", "en", "in two and a half weeks", "two", None), ("number", "en", "2-3", "2", None),
)  # fmt: skip
def test_a_part_grows_to_the_whole(kind, lang, text, part, whole):
    span = text.index(part), text.index(part) + len(part)
    start, end = whole_span(kind, text, *span, lang)
    found = whole_count(text, *span, lang) if kind == "number" else text[start:end]
    assert whole == found


async def test_a_raise_told_in_another_spelling_takes_the_place_of_the_salary(shared_memory, scope):
    for n, text in enumerate(["我月薪一万二", "我现在月薪15000"]):
        await shared_memory.append_events(scope, "t", [said(n, text)])
        await shared_memory.consolidate(scope, "t")
    assert [one.value for one in await shared_memory.facts(scope)] == ["15000"]
