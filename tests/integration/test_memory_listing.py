"""Who has memories, which memories fit a filter, and how many there are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared_core import (
    Event,
    InvalidInput,
    MemoryEngine,
    NewMemory,
    Scope,
    UserSummary,
    open_memory,
)
from shared_core.recall import listing

pytestmark = pytest.mark.both_engines

ANN, BOB = Scope("app", "ann"), Scope("app", "bob")
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
NAIVE = NOON.replace(tzinfo=None)
TEXTS = [
    "I sail in 50% of my holidays.",
    "My ÖRTLICHER club is Café_Blau.",
    "我住在上海，喜欢喝茶。",
    "The car was sold.",
]


def said(number: int, text: str) -> Event:
    moment = NOON - timedelta(days=number)
    return Event(event_id=f"e{number}", author="ann", role="user", text=text, occurred_at=moment)


@pytest.fixture
async def memory(dsn: str) -> AsyncIterator[MemoryEngine]:
    async with open_memory(dsn, worker=False, clock=lambda: NOON) as engine:
        for number, text in enumerate(TEXTS):
            await engine.append_events(ANN, f"t{number % 2}", [said(number, text)])
        yield engine


async def texts(memory: MemoryEngine, **filters: Any) -> list[str]:
    """Return the texts of the listed memories, which must be as many as are counted."""
    found = await memory.list_memories(ANN, **filters)
    assert len(found) == await memory.count_memories(ANN, **filters)
    return [one.text for one in found]


@pytest.mark.parametrize(
    ("part", "numbers"),
    [
        ("SAIL", [0]),
        ("50%", [0]),
        ("%", [0]),
        ("_", [1]),
        ("\\", []),
        ("örtlicher", [1]),
        ("CAFÉ", [1]),
        ("cafe", []),
        ("上海", [2]),
        ("住在上海，喜", [2]),
        (" ", [0, 1, 3]),
        ("", [0, 1, 2, 3]),
        ("plane", []),
    ],
)
async def test_a_part_of_the_text_is_found_in_any_case_and_without_wildcards(
    memory: MemoryEngine, part: str, numbers: list[int]
) -> None:
    assert [TEXTS[number] for number in numbers] == await texts(memory, contains=part)


async def test_a_thread_has_what_was_drawn_from_its_turns(memory: MemoryEngine) -> None:
    await memory.append_events(ANN, "t2", [said(9, "I live in Porto."), said(8, "Bye.")])
    await memory.consolidate(ANN, "t2")
    of_thread = await memory.list_memories(ANN, thread_id="t2")
    assert {"episodic", "semantic", "summary"} == {one.kind for one in of_thread}
    assert {"t2"} == {one.thread_id for one in of_thread}
    assert ["User lives in Porto."] == await texts(memory, thread_id="t2", kinds=["semantic"])
    assert [TEXTS[1], TEXTS[3]] == await texts(memory, thread_id="t1")
    assert [] == await texts(memory, thread_id="t1", contains="sail")
    assert [] == await texts(memory, thread_id="t%")


async def test_a_period_ends_before_its_end(memory: MemoryEngine) -> None:
    begin, end = NOON - timedelta(days=2), NOON
    assert TEXTS[1:3] == await texts(memory, begin=begin, end=end)
    assert TEXTS[:3] == await texts(memory, begin=begin)
    assert TEXTS[3:] == await texts(memory, end=begin)


async def test_pages_have_one_order(memory: MemoryEngine) -> None:
    pages = [await memory.list_memories(ANN, contains=" ", limit=1, offset=n) for n in range(4)]
    assert [TEXTS[0], TEXTS[1], TEXTS[3]] == [one.text for page in pages for one in page]


async def test_memories_are_counted_by_period(memory: MemoryEngine) -> None:
    await memory.remember(ANN, NewMemory(text="Ann rows.", occurred_at=NOON))
    days = [NOON - timedelta(days=number) for number in (3, 2, 1)]
    assert 5 == await memory.count_memories(ANN)
    assert [1, 1, 3] == list(await memory.count_memories(ANN, days))
    assert [1, 1, 2] == list(await memory.count_memories(ANN, days, kinds=["episodic"]))
    assert [1, 0, 1] == list(await memory.count_memories(ANN, days, thread_id="t1"))
    assert [0] == list(await memory.count_memories(BOB, [NOON]))
    assert [] == list(await memory.count_memories(ANN, []))


async def test_users_come_by_application_and_name_in_pages(memory: MemoryEngine) -> None:
    others = [BOB, Scope("app", "a/b%"), Scope("app.2", "ann"), Scope("zoo", "李雷")]
    for number, scope in enumerate(others):
        moment = NOON + timedelta(days=number)
        await memory.remember(scope, NewMemory(text="I sail.", occurred_at=moment))
    found = await memory.users()
    assert {ANN, *others} == {one.scope for one in found}
    assert UserSummary(ANN, 4, NOON) in found
    assert UserSummary(others[2], 1, NOON + timedelta(days=2)) in found
    pages: list[UserSummary] = []
    after = None
    while page := await memory.users(limit=2, after=after):
        pages += page
        after = page[-1].scope
    assert found == pages
    assert ["a/b%", "ann", "bob"] == [one.scope.user for one in await memory.users("app")]
    assert ["bob"] == [one.scope.user for one in await memory.users("app", after=ANN)]
    assert [] == await memory.users("ap") == await memory.users("app", after=Scope("zoo", "x"))


async def test_a_user_is_found_by_a_part_of_the_name(
    memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "WALKED", 2)
    named = [Scope("app", name) for name in ("Jo/Ann", "25%", "李雷", "zoe")]
    for scope in named:
        await memory.remember(scope, "I sail.")

    async def found(part: str, **options: Any) -> list[str]:
        return [one.scope.user for one in await memory.users(contains=part, **options)]

    assert ["Jo/Ann", "ann"] == await found("ANN")
    assert ["Jo/Ann"] == await found("ann", limit=1)
    assert ["ann"] == await found("ann", limit=1, after=named[0])
    assert ["Jo/Ann"] == await found("/") and ["25%"] == await found("%")
    assert ["李雷"] == await found("雷") and [] == await found("2F")


async def test_users_are_found_among_named_ones(memory: MemoryEngine) -> None:
    for scope in (BOB, Scope("app", "cleo"), Scope("zoo", "bob")):
        await memory.remember(scope, "I sail.")

    async def found(**options: Any) -> list[str]:
        return [one.scope.user for one in await memory.users("app", **options)]

    assert ["ann", "cleo"] == await found(among=["cleo", "nobody", "ann"])
    assert ["cleo"] == await found(among=["cleo", "ann"], after=BOB)
    assert ["ann"] == await found(among=["cleo", "ann"], limit=1)
    assert ["cleo"] == await found(among=["cleo", "ann"], contains="L") and [] == await found(
        among=[]
    )
    with pytest.raises(InvalidInput, match="app"):
        await memory.users(among=["ann"])


async def test_a_user_without_memories_is_no_user_of_them(memory: MemoryEngine) -> None:
    from langgraph_store import PgHippocampusStore

    store = PgHippocampusStore(engine=memory)
    await store.aput(("docs", "shelf"), "a", {"text": "not a memory"})
    await store.aput(("docs",), "b", {"text": "no user at all"})
    await memory.remember(BOB, NewMemory(text="gone", expires_at=NOON + timedelta(seconds=1)))
    assert [ANN, BOB] == [one.scope for one in await memory.users(limit=2)]
    await memory.forget_scope(BOB)
    assert [ANN] == [one.scope for one in await memory.users()]


async def test_a_user_is_listed_while_no_memory_can_be_recalled(memory: MemoryEngine) -> None:
    await memory.remember(BOB, "Theo sails.")
    await memory.forget_about(BOB, "Theo")
    assert UserSummary(BOB, 0, NOON) in await memory.users("app")


@pytest.mark.parametrize(
    "options",
    [
        {"thread_id": ""}, {"thread_id": 7}, {"contains": None}, {"contains": "\x00"},
        {"begin": NAIVE}, {"end": "yesterday"}, {"begin": NOON, "end": NOON},
        {"kinds": "episodic"},
    ],
)  # fmt: skip
async def test_filters_that_mean_nothing_are_refused(
    memory: MemoryEngine, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))[:4]):
        await memory.list_memories(ANN, **options)
    with pytest.raises(InvalidInput, match=next(iter(options))[:4]):
        await memory.count_memories(ANN, **options)


async def test_bounds_and_pages_that_mean_nothing_are_refused(memory: MemoryEngine) -> None:
    wrong: list[Any] = [[NOON, NOON], [NAIVE], NOON, "2026", [NOON] * 10_001]
    for bounds in wrong:
        with pytest.raises(InvalidInput, match="bounds"):
            await memory.count_memories(ANN, bounds)
    pages: list[Any] = [{"limit": 0}, {"limit": 1001}, {"after": "ann"}, {"contains": 7}]
    for options in [*pages, {"app": ""}]:
        with pytest.raises(InvalidInput):
            await memory.users(**options)
