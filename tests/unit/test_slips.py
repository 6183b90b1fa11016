"""A word that is taken back: what it was said of holds of the right one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from every_case import every_case

from shared_core.core.domain import Event, Extraction
from shared_core.extraction.rule_based import RuleExtractor

START = datetime(2026, 5, 13, tzinfo=UTC)


def turns(*texts: str) -> list[Event]:
    return [
        Event(event_id=str(number), author="user", role="user", text=text,
              occurred_at=START + timedelta(minutes=number))
        for number, text in enumerate(texts)
    ]  # fmt: skip


def told(found: Extraction) -> list[tuple[str, str, str]]:
    return [(fact.operation, fact.slot, fact.value) for fact in found.facts]


@every_case(
    *[("I work at Acme.", text, "employer", "Apex") for text in (
        "No, I meant Apex, not Acme.", "Sorry, it's Apex, not Acme!", "Not Acme but Apex.",
        "I meant Apex not Acme", "Oops: I mean Apex, not Acme.")],
    *[("我在海风出版社工作。", text, "employer", "松果科技") for text in (
        "不对，我是说松果科技，不是海风出版社。", "不是海风出版社，是松果科技。",
        "我说错了，应该是松果科技，不是海风出版社", "我是说松果科技而不是海风出版社")],
    ("My sister Freja works at Equinor.", "No, I meant Shell, not Equinor.",
     "relation.sister.employer", "Shell"),
)  # fmt: skip
def test_the_right_word_takes_the_place_of_the_wrong_one(
    before: str, text: str, slot: str, right: str
) -> None:
    first, second = turns(before, text)
    for found in (RuleExtractor().read([first, second]), RuleExtractor().read([second], [first])):
        fact = found.facts[-1]
        assert ("assert", slot, right) == told(found)[-1]
        assert ("1", ("0",)) == (fact.event_id, fact.other_event_ids)
        assert right in fact.statement


def test_of_several_values_the_wrong_one_ends() -> None:
    found = RuleExtractor().read(turns("I love tea. I love jazz.", "I meant coffee, not tea."))
    assert [
        ("assert", "like", "tea"), ("assert", "like", "jazz"),
        ("retract", "like", "tea"), ("assert", "like", "coffee"),
    ] == told(found)  # fmt: skip


@every_case(
    ("I love tea.", "It's coffee, not tea."),
    ("I work at Acme.", "I meant it, not really."),
    ("I work at Acme.", "Is it Apex, not Acme?"),
    ("I work at Acme.", "No, I meant Apex, not Bosch."),
    ("I work at Acme.", "No, I meant Apex, not Acme. Just kidding!"),
    ("I work at Acme.", "She said it's Apex, not Acme."),
    ("My son is called Emil.", "No, I meant Emilio, not Emil."),
    ("Never call me at night.", "I meant day, not night."),
    ("我喜欢喝茶。", "这是咖啡，不是茶。"),
    ("我在海风出版社工作。", "是松果科技，不是海风出版社吗？"),
)
def test_what_takes_nothing_back_changes_nothing(before: str, text: str) -> None:
    assert {"0"} == {fact.event_id for fact in RuleExtractor().read(turns(before, text)).facts}
