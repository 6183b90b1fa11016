"""Days are those of the user, and a past told with its end ends there."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import TZPATH, ZoneInfo

import psycopg
import pytest
from google.adk.events.event import Event as AdkEvent
from google.adk.sessions import Session
from google.genai.types import UserContent
from langgraph.graph import START, MessagesState, StateGraph
from turns import said

from adk_memory import OpenMemoryService
from langgraph_store import create_reflection_node

SYDNEY = ZoneInfo("Australia/Sydney")
ELSEWHERE = next(path for one in TZPATH if (path := Path(one, SYDNEY.key)).exists())
MORNING = datetime(2026, 11, 21, 7, tzinfo=SYDNEY)  # still the 20th in UTC


async def learned(memory, scope, text, at) -> list[tuple[str, str | None, str | None]]:
    await memory.append_events(scope, "t", [said("e", text, at)])
    await memory.consolidate(scope, "t")
    found = await memory.facts(scope, history=True)
    days = ((one.value, day_of(one.valid_from), day_of(one.valid_until)) for one in found)
    return sorted(days, key=str)


def day_of(moment: datetime | None) -> str | None:
    day = moment and moment.astimezone(SYDNEY).date().isoformat()
    return None if day == "1900-01-01" else day


@pytest.mark.both_engines
@pytest.mark.parametrize("zone", [SYDNEY, timezone(timedelta(hours=11))])
async def test_a_turn_keeps_its_zone_and_counts_its_days_there(memory, scope, zone):
    at, text = MORNING.replace(tzinfo=zone), "I moved to Perth yesterday."
    assert [("Perth", "2026-11-20", None)] == await learned(memory, scope, text, at)
    lines = [line async for line in memory.transfer.export(scope)]
    await memory.forget_scope(scope)
    await memory.import_lines(lines, restore=True)
    [turn] = await memory.thread_turns(scope, "t")
    assert at.isoformat() == turn.occurred_at.isoformat()


async def test_a_zone_that_this_machine_does_not_know_stops_no_thread(memory, dsn, scope):
    with ELSEWHERE.open("rb") as file:
        at = MORNING.replace(tzinfo=ZoneInfo.from_file(file, "Mars/Base"))
    await learned(memory, scope, "I moved to Perth yesterday.", at)
    [turn] = await memory.thread_turns(scope, "t")
    assert at.isoformat() == turn.occurred_at.isoformat()
    with psycopg.connect(dsn) as superuser:  # as a machine that knows more zones wrote it
        superuser.execute("UPDATE hippocampus.events SET time_zone = 'Mars/Base'")
    [turn] = await memory.thread_turns(scope, "t")
    assert at == turn.occurred_at


@pytest.mark.parametrize(
    ("text", "day"),
    [("I moved to Perth yesterday.", "2026-11-20"), ("我昨天搬到成都了。", "2026-11-20"),
     ("I moved to Perth last month.", "2026-10-01"), ("上个月最后一天搬到成都了。", "2026-10-31")],
)  # fmt: skip
async def test_a_moment_in_utc_is_read_in_the_zone_of_the_memory(ann_with, text, day):
    ann = ann_with(timezone="Australia/Sydney")
    [fact] = await learned(ann.memory, ann.scope, text, MORNING.astimezone(UTC))
    assert day == fact[1]


@pytest.mark.parametrize(
    ("zone", "day"), [(SYDNEY.key, "20"), (11, "19"), ({"utc": 11}, "19"), ("Mars/Base", "19")]
)
async def test_the_zone_of_a_user_of_adk_is_in_the_state(shared_memory, scope, zone, day):
    text, at = UserContent("I moved to Perth yesterday."), MORNING.timestamp()
    of_user = {"app_name": scope.app, "user_id": scope.user, "state": {"user:timezone": zone}}
    told = [AdkEvent(author="user", content=text, timestamp=at)]
    session = Session(id="s", events=told, **of_user)
    await OpenMemoryService(engine=shared_memory, wait=True).add_session_to_memory(session)
    [fact] = await shared_memory.facts(scope)
    assert f"2026-11-{day}" == day_of(fact.valid_from)


@pytest.mark.parametrize(("zone", "hours"), [("Pacific/Kiritimati", 14), ("Mars/Base", 0), (9, 0)])
async def test_the_zone_of_a_user_of_langgraph_is_in_the_config(shared_memory, scope, zone, hours):
    node = create_reflection_node(SimpleNamespace(engine=shared_memory), app=scope.app)
    graph = StateGraph(MessagesState).add_node("reflect", node).add_edge(START, "reflect").compile()
    of_user = {"user_id": scope.user, "thread_id": "t", "timezone": zone}
    await graph.ainvoke({"messages": ["I like tea."]}, {"configurable": of_user})
    [turn] = await shared_memory.thread_turns(scope, "t")
    assert timedelta(hours=hours) == turn.occurred_at.utcoffset()


async def test_a_day_that_the_zone_skipped_is_empty(ann):
    found = await ann.slice(when="2011-12-30", zone="Pacific/Apia", bucket="day")
    assert ((), ()) == (found.memories, found.buckets)


PASTS = (
    ("we used to live in Berlin but are in Rome since spring", "Berlin", "2026-03-01", "Rome"),
    ("以前住北京 今年三月搬到成都了", "北京", "2026-03-01", "成都"),
    ("2013到2019年我人在株洲,往后一直定居昆明。", "株洲", "2019-01-01", "昆明"),
    ("I used to work for Nokia, but since 2020 I'm with Sony.", "Nokia", "2020-01-01", "Sony"),
    ("我之前在腾讯上班，去年五月跳到字节了", "腾讯", "2025-05-01", "字节"),
    ("I used to date Anna but we split up in June.", "Anna", "2026-06-01", None),
    ("以前养过一只猫，去年走了", "一只猫", "2025-01-01", None),
    ("I used to smoke but quit in March.", "smoke", "2026-03-01", None),
)


@pytest.mark.parametrize(("text", "before", "ends", "now"), PASTS)
async def test_a_past_told_with_its_end_ends_there(ann, text, before, ends, now):
    past = (before, "2013-01-01" if before == "株洲" else None, ends)
    if before == "Berlin":  # told the day before, when it was over
        await ann.append_events("b", [said("b", f"I live in {before}.", MORNING - timedelta(1))])
        await ann.consolidate("b")
    found = await learned(ann.memory, ann.scope, text, MORNING)
    expected = [past, (now, ends, None)][: 2 if now else 1]
    assert sorted(expected, key=str) == [one for one in found if one[1] != one[2]]
