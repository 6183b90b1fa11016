"""Three stories of how people talk to an assistant, from first words to what is known of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from every_case import every_case

from shared_core.core.domain import Event, FactDraft
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.nlp.relation_schema import triples_of

START = datetime(2026, 5, 4, 9, tzinfo=UTC)


def drafts(*texts: str) -> list[FactDraft]:
    events = [
        Event(event_id=f"e{place}", author="ana", role="user", text=text,
              occurred_at=START + timedelta(minutes=place))
        for place, text in enumerate(texts)
    ]  # fmt: skip
    return RuleExtractor().read(events).facts


def told(*texts: str) -> list[tuple[str, str, str]]:
    return [(one.operation, one.slot, one.value) for one in drafts(*texts)]


def test_a_student_is_known_by_age_taste_and_character() -> None:
    found = told("我是一名18岁的男学生，喜欢玩RPG游戏，比较内向，对科技和编程很感兴趣")
    assert found == [
        ("assert", "age", "18岁"), ("assert", "job", "男学生"), ("assert", "like", "玩RPG游戏"),
        ("assert", "trait", "内向"), ("assert", "like", "科技"), ("assert", "like", "编程"),
    ]  # fmt: skip


def test_who_moves_for_an_internship_lives_in_the_city() -> None:
    assert [("assert", "residence", "上海")] == told("我上个月搬到上海实习")


@every_case("我不再喜欢游戏了", "我不再喜欢游戏")
def test_a_taste_that_is_over_ends(text: str) -> None:
    assert [("retract", "like", "游戏")] == told(text)


def test_a_skill_is_an_edge_of_the_graph() -> None:
    [edge] = triples_of(drafts("我会 Python"))
    assert ("user", "has_skill", "Python") == (edge.subject, edge.relation, edge.object)


@every_case(
    ["hi im tom", "my daughter's called Mia", "shes 5"],
    ["Hi, I'm Tom.", "My daughter is called Mia.", "She is 5."],
    ["tom here", "my daughter's called mia and shes 5"],
    ["im tom, my daughter is called mia", "mia is 5"],
)
def test_a_father_and_his_daughter_are_known_however_he_types(texts: list[str]) -> None:
    found = {(one.slot, one.value, one.subject) for one in drafts(*texts)}
    assert found == {
        ("name", "Tom", "user"), ("relation.daughter", "Mia", "user"),
        ("relation.daughter.age", "5", "Mia"),
    }  # fmt: skip
