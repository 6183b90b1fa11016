"""What people type, as the patterns read it, what is quoted of it, and three whole stories."""

from collections.abc import Sequence
from datetime import UTC, datetime

from every_case import every_case
from turns import said

from shared_core.core.domain import FactDraft
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.nlp.relation_schema import triples_of
from shared_core.nlp.rules import read_rule_file
from shared_core.nlp.text import language
from shared_core.nlp.typed_text import as_meant, as_read, load_english_typing, typed_names


@every_case(
    ("im vegetarian btw so no chicken recipes pls",
     "i'm vegetarian so no chicken recipes please"),
    ("moved to leeds w/ my gf", "I moved to Leeds with my girlfriend"),
    ("vegetarian btw", "I'm vegetarian"),
    ("born and raised in New Orleans 💜💛💚", "I was born and raised in New Orleans"),
    ("my son's allergic to nuts", "my son is allergic to nuts"), ("hi im tom", "hi i'm Tom"),
    ("my daughter's called mia", "my daughter is called Mia"), ("celiac here", "I'm celiac here"),
    ("joined monzo as an analyst", "I joined Monzo as an analyst"),
    ("i live in new york", "i live in New York"), ("im 34m", "i'm 34 years old"),
    ("i moved to york", "i moved to York"), ("we moved to paris", "we moved to Paris"),
    ("i dont live in leeds anymore, im in york now",
     "i don't live in Leeds anymore, I live in York now"),
    ("上个月刚搬到成都，求推荐", "我上个月刚搬到成都，求推荐"),
    ("我住喺香港，鍾意飲奶茶", "我住在香港，喜欢喝奶茶"), ("我男票是德国人", "我男朋友是德国人"),
    ("我对ｎｕｔｓ过敏", "我对nuts过敏"),
)  # fmt: skip
def test_typed_text_is_read_as_it_is_meant(typed, read):
    assert read == as_read(typed, language(typed)).text


@every_case(
    "Never push directly to main.", "write to deepa.r@mailbox.example", "Play some jazz.",
    "vegetarian recipes please", "vegan options?", "love it", "learning rate is 3e-4",
    "don't worry about it", "const im = { name: 'Tom' };", "see https://im.example/dont",
    "i talked to sydney and jordan", "a letter from charlotte", "we moved to split the bill",
    "I don't live in Leeds anymore, I'm in Sales.", "I no longer live in Leeds, I'm in trouble.",
    "I don't live in Leeds anymore, I'm in York for the week.",
    "She doesn't live in Leeds anymore, I'm in York.", "the IM client and the US team",
    "she moved to Leeds", "training data is old", "我对花生过敏。", "搬家清单来一份", "住院了",
    "喜欢吗",
)  # fmt: skip
def test_what_is_plain_or_no_statement_stays_as_it_is(typed):
    assert typed == as_read(typed, language(typed)).text


@every_case(
    ("whats my wifes name", "what's my wife's name"),
    ("whens our little dogs birthday", "when's our little dog's birthday"),
    ("whos ur boss", "who's your boss"), ("where do I live?", "where do I live?"),
    ("my dogs are called Rex and Bo", "my dogs are called Rex and Bo"),
    ("how many sisters names rhyme", "how many sisters names rhyme"),
    ("what does wheres() return {}", "what does wheres() return {}"),
    ("我老婆叫什么", "我老婆叫什么"),
)  # fmt: skip
def test_words_of_a_question_are_read_as_they_are_meant(typed, meant):
    assert meant == as_meant(typed)


def test_one_listed_place_alone_is_a_common_first_name():
    listed = {one.lower() for one in read_rule_file("en.toml")["words"]["city_or_country"]}
    rules = load_english_typing()
    assert {"santiago"} == listed & rules.first_names


def test_a_sentence_beside_somebody_else_gets_no_subject():
    assert "moved to Leeds" == as_read("moved to leeds", "en", alone=False).text
    assert "喜欢喝茶" == as_read("喜欢喝茶", "zh", alone=False).text


def test_a_known_name_gets_its_capital_or_its_traditional_characters():
    names = typed_names(["Effie", "阿澤", "Bo"])
    assert "Effie is here" == as_read("effie is here", "en", names).text
    assert "bo is here" == as_read("bo is here", "en", names).text
    assert "阿澤今年五岁" == as_read("阿澤今年五歲", "zh", names).text


@every_case(
    ("i luv thai food bc its hot", "love thai food", "luv thai food"),
    ("moved to leeds", "Leeds", "Leeds"), ("im alergic to penicilin", "penicilin", "penicilin"),
    ("我住喺香港，鍾意飲奶茶", "喝奶茶", "飲奶茶"), ("我養了一隻貓", "一只猫", "一隻貓"),
)  # fmt: skip
def test_a_value_is_quoted_as_it_was_typed(typed, value, quoted):
    assert quoted == as_read(typed, language(typed)).quoted(value)


def facts(*texts: str) -> Sequence[FactDraft]:
    return RuleExtractor().read([said(n, text) for n, text in enumerate(texts)]).facts


def test_a_fact_quotes_the_turn_and_a_person_keeps_the_characters_of_the_name():
    [fact] = facts("我對海鮮過敏")
    assert ("海鮮", "用户对海鮮过敏。") == (fact.value, fact.statement)
    found = facts("我兒子叫阿澤", "阿澤今年五歲")
    assert {("阿澤", "user"), ("五歲", "阿澤")} == {(one.value, one.subject) for one in found}


def test_what_is_left_out_may_be_somebody_who_was_mentioned():
    assert [] == [one for one in facts("my brother called", "moved to leeds") if one.value]
    assert ["Leeds"] == [one.value for one in facts("so tired", "moved to leeds last week")]


def test_a_plan_lapses_after_its_date_and_needs_one():
    [plan] = facts("we're flying to Lisbon on 3 May")
    assert datetime(2026, 5, 4, tzinfo=UTC) == plan.valid_until
    assert [] == facts("we're flying to Lisbon")
    assert [] == facts("we flew to Lisbon on 3 February")


def test_the_table_of_characters_has_each_traditional_one_once():
    pairs = read_rule_file("traditional.toml")["pairs"].strip()
    old, new = pairs[::2], pairs[1::2]
    assert len(old) == len(new) == len(set(old)) > 2_000
    assert set(old).isdisjoint(new)


def told(*texts: str) -> list[tuple[str, str, str]]:
    return [(one.operation, one.slot, one.value) for one in facts(*texts)]


def test_a_student_is_known_by_age_taste_and_character_and_an_internship_is_a_move():
    found = told("我是一名18岁的男学生，喜欢玩RPG游戏，比较内向，对科技和编程很感兴趣")
    assert found == [
        ("assert", "age", "18岁"), ("assert", "job", "男学生"), ("assert", "like", "玩RPG游戏"),
        ("assert", "trait", "内向"), ("assert", "like", "科技"), ("assert", "like", "编程"),
    ]  # fmt: skip
    assert [("assert", "residence", "上海")] == told("我上个月搬到上海实习")


@every_case("我不再喜欢游戏了", "我不再喜欢游戏")
def test_a_taste_that_is_over_ends(text):
    assert [("retract", "like", "游戏")] == told(text)


def test_a_skill_is_an_edge_of_the_graph():
    [edge] = triples_of(facts("我会 Python"))
    assert ("user", "has_skill", "Python") == (edge.subject, edge.relation, edge.object)


@every_case(
    ["hi im tom", "my daughter's called Mia", "shes 5"],
    ["Hi, I'm Tom.", "My daughter is called Mia.", "She is 5."],
    ["tom here", "my daughter's called mia and shes 5"],
    ["im tom, my daughter is called mia", "mia is 5"],
)
def test_a_father_and_his_daughter_are_known_however_he_types(texts):
    found = {(one.slot, one.value, one.subject) for one in facts(*texts)}
    assert found == {
        ("name", "Tom", "user"), ("relation.daughter", "Mia", "user"),
        ("relation.daughter.age", "5", "Mia"),
    }  # fmt: skip
