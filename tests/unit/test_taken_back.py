"""What a statement ends besides the value before it: a city left behind, and what never was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from every_case import every_case

from shared_core.core.domain import Event, MemoryId
from shared_core.core.ids import uuid7
from shared_core.extraction.rule_reader import extract_facts
from shared_core.knowledge.fact_planning import FactPlan, plan_facts

NOON = datetime(2026, 5, 13, 12, tzinfo=UTC)


def planned(*texts: str) -> FactPlan:
    """Return what is known after turns, one a minute."""
    events = [
        Event(
            event_id=str(place),
            author="user",
            role="user",
            text=text,
            occurred_at=NOON + timedelta(minutes=place),
        )
        for place, text in enumerate(texts)
    ]
    drafts = [draft for event in events for draft in extract_facts(event)]
    said_at = {event.event_id: event.occurred_at for event in events}
    return plan_facts(drafts, [], said_at, lambda: MemoryId(uuid7()))


def current(*texts: str) -> dict[str, str]:
    return {
        one.draft.slot: one.draft.value for one in planned(*texts).opened if one.valid_until is None
    }


@every_case(
    (["我住在北京", "我在北京工作", "我搬到上海了"], {"residence": "上海"}),
    (["我在北京工作", "我搬到上海了"], {"residence": "上海"}),
    (["I work in Leeds.", "I moved to Oslo."], {"residence": "Oslo"}),
    (["I live in Leeds.", "I work in Leeds.", "I live in Oslo."], {"residence": "Oslo"}),
    # The city one comes to, and that of who went to work in another one anyway.
    (["我住在天津", "我在北京工作", "我搬到北京了"],
     {"residence": "北京", "work_city": "北京"}),
    (["I live in Luton.", "I work in London.", "I moved to Reading."],
     {"residence": "Reading", "work_city": "London"}),
    # Names of places, not parts of names.
    (["I live in York.", "I work in New York.", "I moved to Boston."],
     {"residence": "Boston", "work_city": "New York"}),
    (["I live in London, England.", "I work in London.", "I moved to Boston."],
     {"residence": "Boston"}),
    # Where one lives tells of no move.
    (["我在北京工作", "我住在廊坊"], {"residence": "廊坊", "work_city": "北京"}),
    (["我住在北京", "我在北京工作", "我搬到上海了", "我在上海工作"],
     {"residence": "上海", "work_city": "上海"}),
)  # fmt: skip
def test_a_move_ends_the_city_one_lived_and_worked_in(
    said: list[str], holds: dict[str, str]
) -> None:
    assert holds == current(*said)


@every_case(
    ["I work at Barclays.", "I never worked at Barclays."], ["我在华为工作", "我从来没在华为上过班"]
)
def test_what_never_was_held_at_no_moment(said: list[str]) -> None:
    [employer] = planned(*said).opened
    assert employer.valid_from == employer.valid_until


def test_what_is_over_held_until_then() -> None:
    [employer] = planned("I work at Barclays.", "I no longer work at Barclays.").opened
    assert NOON == employer.valid_from
    assert NOON + timedelta(minutes=1) == employer.valid_until


def test_another_employer_stays() -> None:
    assert {"employer": "Siemens"} == current("I work at Siemens.", "I never worked at Barclays.")


@every_case(["我是18岁男学生", "我今年19岁"], ["我是18岁男学生", "我19岁了"])
def test_a_student_grows_older(said: list[str]) -> None:
    assert {"age": "19岁", "job": "男学生"} == current(*said)
