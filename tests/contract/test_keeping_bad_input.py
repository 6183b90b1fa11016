"""What means nothing to the verbs of keeping and of time: refused by name, nothing done."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from adk_memory import OpenMemoryService
from shared_core import (
    Event,
    InvalidInput,
    MemoryEngine,
    NewMemory,
    RetentionPolicy,
    Scope,
    open_memory,
)
from shared_core.errors import NotFound

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")
NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
NAN, INF = math.nan, math.inf


@pytest.fixture
async def memory(dsn: str) -> AsyncIterator[MemoryEngine]:
    async with open_memory(dsn, worker=False, clock=lambda: NOW) as engine:
        await engine.remember(ANN, NewMemory(text="Ann sails.", key="k", kind="summary"))
        yield engine


Call = Callable[[MemoryEngine], Any]
KEYED: list[Callable[[MemoryEngine, Any], Any]] = [
    lambda m, keys: m.retention.pin(ANN, keys),
    lambda m, keys: m.retention.unpin(ANN, keys),
    lambda m, keys: m.retention.revive(ANN, keys),
    lambda m, keys: m.forget(ANN, keys),
    lambda m, keys: m.retention.unknown_keys(ANN, keys),
]
CALLS: list[tuple[Call, str]] = [
    *[
        (lambda m, verb=verb, keys=keys: verb(m, keys), "keys must be a key or memory id")
        for verb in KEYED
        for keys in (None, 7, b"k", {"k": 1}, ["k", None])
    ],
    (lambda m: m.retention.curve(ANN, None), "key must be a key or memory id, got None"),  # type: ignore[arg-type]
    (lambda m: m.retention.curve(ANN, "k", days_ahead="7"), "days_ahead must be a number"),  # type: ignore[arg-type]
    (lambda m: m.retention.curve(ANN, "k", days_ahead=NAN), "days_ahead must be between"),
    (lambda m: m.retention.curve(ANN, "k", points=2.5), "points must be between"),  # type: ignore[arg-type]
    (lambda m: m.retention.stats(days="7"), r"days must be a list, e.g. \[7, 30\], got '7'"),
    (lambda m: m.retention.stats(days=7), "days must be a list"),  # type: ignore[arg-type]
    *[
        (lambda m, one=one: m.retention.stats(days=[1, one]), "days must be")
        for one in (True, "7", None, -1, NAN, INF, 1e9)
    ],
    (lambda m: m.retention.list_faded(ANN, stages="demoted"), "stages must be a list"),  # type: ignore[arg-type]
    (lambda m: m.retention.list_faded(ANN, kinds=7), "kinds must be a list"),  # type: ignore[arg-type]
    (lambda m: m.retention.list_faded(ANN, limit="x"), "limit must be between"),  # type: ignore[arg-type]
    (lambda m: m.retention.list_faded(ANN, offset=None), "offset must be between"),  # type: ignore[arg-type]
    (lambda m: m.retention.forget_faded(limit="x"), "limit must be between"),  # type: ignore[arg-type]
    (lambda m: m.retention.forget_faded(limit=True, dry_run=True), "limit must be between"),
    (lambda m: m.retention.forget_faded(app=7), "app must be a string"),  # type: ignore[arg-type]
    (lambda m: m.accesses.record_now(ANN, None), "memory_ids must be a list"),  # type: ignore[arg-type]
    (lambda m: m.accesses.record_now(ANN, "k"), "memory_ids must be UUIDs"),
    (lambda m: m.accesses(ANN, 7), "memory_ids must be a list"),  # type: ignore[arg-type]
    (lambda m: m.forget_turns(ANN, "t", None), "event_ids must be"),  # type: ignore[arg-type]
    (lambda m: m.forget_turns(ANN, None, ["e"]), "thread_id must be a text"),  # type: ignore[arg-type]
    (lambda m: m.forget_thread(ANN, 7), "thread_id must be a text"),  # type: ignore[arg-type]
    (lambda m: m.slice(ANN, zone="Mars/Olympus"), "zone must be a time zone.*'Mars/Olympus'"),
    *[
        (lambda m, zone=zone: m.slice(ANN, bucket="day", zone=zone), "zone must be a time zone")
        for zone in ("", "Europe", "/etc/passwd", "../UTC", 8, "\x00")
    ],
    (lambda m: m.slice(ANN, asked_at="now"), "asked_at must be a datetime"),  # type: ignore[arg-type]
    (lambda m: m.slice(ANN, asked_at=0), "asked_at must be a datetime"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("call", "wrong"), CALLS)
async def test_an_argument_that_means_nothing_is_named(
    memory: MemoryEngine, call: Call, wrong: str
) -> None:
    with pytest.raises(InvalidInput, match=wrong):
        await call(memory)
    assert ["k"] == [one.key for one in await memory.list_memories(ANN)]


NO_SCOPES: list[Any] = [None, "app/ann", ("app", "ann"), Scope("app", None)]  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", NO_SCOPES, ids=repr)
async def test_what_is_no_scope_is_named_by_every_verb(memory: MemoryEngine, scope: Any) -> None:
    calls: list[Call] = [
        lambda m: m.retention.pin(scope, "k"),
        lambda m: m.retention.unpin(scope, "k"),
        lambda m: m.retention.revive(scope, "k"),
        lambda m: m.forget(scope, "k"),
        lambda m: m.forget_turns(scope, "t", ["e"]),
        lambda m: m.forget_thread(scope, "t"),
        lambda m: m.forget_scope(scope),
        lambda m: m.retention.curve(scope, "k"),
        lambda m: m.cleanup(scope),
        lambda m: m.retention.list_faded(scope),
        lambda m: m.list_memories(scope),
        lambda m: m.accesses.record_now(scope, []),
        lambda m: m.accesses(scope, []),
        lambda m: m.slice(scope),
        lambda m: m.thread_summary(scope, "t"),
        lambda m: m.context_window(scope, "t", "q"),
        lambda m: m.recall(scope, "q"),
        lambda m: m.remember(scope, "tea"),
        lambda m: m.consolidate(scope, "t"),
        lambda m: m.reflect(scope),
        lambda m: m.runs(scope),
        lambda m: m.append_events(scope, "t", []),
    ]
    if scope is not None:
        calls += [lambda m: m.retention.stats(scope), lambda m: m.retention.forget_faded(scope)]
    if not isinstance(scope, Scope):
        calls.append(lambda m: m.end_session(scope, "t"))  # of impossible ids there is no session
    wrong = r"scope must be a Scope\(app, user\)"
    if isinstance(scope, Scope):
        wrong = r"user_id must be a string, got NoneType: None \(Scope.user\)"
    for call in calls:
        with pytest.raises(InvalidInput, match=wrong):
            await call(memory)


@pytest.mark.parametrize("value", ["x", None, True, NAN, INF, -INF, -1, [0.1]], ids=repr)
@pytest.mark.parametrize(
    "field",
    ["decay_rate", "threshold", "min_age_days", "archive_threshold", "archive_after_days",
     "erase_threshold", "erase_after_days", "with_history"],
)  # fmt: skip
async def test_a_field_of_a_policy_that_means_nothing_is_named(field: str, value: Any) -> None:
    given: dict[str, Any] = {field: value}
    if (value is None and field in ("archive_threshold", "erase_threshold")) or (
        value is True and field == "with_history"
    ):
        assert RetentionPolicy(**given)
    else:
        with pytest.raises(InvalidInput, match=f"^{field} must be"):
            RetentionPolicy(**given)


@pytest.mark.parametrize("options", [{"threshold": "x"}, {"min_age_days": None}, {"threshold": 2}])
async def test_a_cleanup_of_adk_names_what_means_nothing(
    memory: MemoryEngine, options: dict[str, Any]
) -> None:
    service = OpenMemoryService(engine=memory)
    with pytest.raises(InvalidInput, match=f"^{next(iter(options))} must be"):
        await service.cleanup_memories(app_name="app", user_id="ann", **options)


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (NOW.replace(tzinfo=None), "a_clock returned has no time zone"),
        (NOW.timestamp(), "a_clock returned must be a datetime with a time zone"),
        (None, "a_clock returned must be a datetime"),
    ],
)
async def test_a_clock_that_tells_no_moment_is_named(dsn: str, answer: Any, wrong: str) -> None:
    def a_clock() -> Any:
        return answer

    async with open_memory(dsn, worker=False, clock=a_clock) as memory:
        for call in (
            lambda: memory.remember(ANN, "tea"),
            lambda: memory.recall(ANN, "tea"),
            lambda: memory.slice(ANN, "yesterday"),
            lambda: memory.retention.forget_faded(),
            lambda: memory.retention.stats(),
        ):
            with pytest.raises(InvalidInput, match=wrong):
                await call()
    with pytest.raises(InvalidInput, match="clock must be a function"):
        open_memory(dsn, clock=NOW)  # type: ignore[arg-type]


def strange(answer: Any) -> Callable[[Any], Any]:
    def my_strength(traits: Any) -> Any:
        if "sail" not in traits.text:
            return 0.5
        if isinstance(answer, Exception):
            raise answer
        return answer

    return my_strength


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    "answer", [NAN, INF, -0.1, 1.1, "high", True, [1], KeyError("mood")], ids=repr
)
async def test_a_strength_that_means_nothing_is_named_and_nothing_is_half_written(
    dsn: str, answer: Any, later: bool
) -> None:
    turns = [
        Event(event_id=f"e{n}", author="ann", role="user", text=text, occurred_at=NOW)
        for n, text in enumerate(["I bake.", "I sail.", "I knit."])
    ]
    async with open_memory(dsn, worker=False, strength=strange(answer)) as memory:
        with pytest.raises(
            InvalidInput, match="my_strength given as strength (must|raised)"
        ) as told:
            await memory.append_events(ANN, "t", turns, later=later)
        if isinstance(answer, KeyError):
            assert told.value.__cause__ is answer and "'I sail.'" in str(told.value)
        with pytest.raises(InvalidInput, match="my_strength given as strength"):
            await memory.remember(ANN, ["I bake bread.", "We sail."])
        assert [] == [*await memory.list_memories(ANN)]
        assert not (await memory.slice(ANN)).memories
    async with open_memory(dsn, worker=False, strength=lambda traits: 1) as memory:
        assert {"e0", "e1", "e2"} == await memory.append_events(ANN, "t", turns)
        assert 3 == len(await memory.list_memories(ANN))
    with pytest.raises(InvalidInput, match="strength must be a function"):
        open_memory(dsn, strength=0.5)  # type: ignore[arg-type]


async def test_keys_may_be_ids_and_unknown_ones_are_passed_over_and_told(
    memory: MemoryEngine,
) -> None:
    [held] = await memory.list_memories(ANN)
    strange_id = uuid4()
    names: list[str | UUID] = ["k", held.memory_id, "no", str(held.memory_id).upper(), strange_id]
    assert ["no", str(strange_id)] == await memory.retention.unknown_keys(ANN, names)
    assert ["k"] == await memory.retention.unknown_keys(Scope("app", "bob"), "k")
    assert [] == await memory.retention.unknown_keys(ANN, [])
    assert 0 == await memory.retention.pin(ANN, ["no", strange_id])
    assert (
        1
        == await memory.retention.pin(ANN, names)
        == await memory.retention.unpin(ANN, held.memory_id)
    )
    assert 0 == await memory.retention.unpin(ANN, "k") == await memory.retention.revive(ANN, names)
    assert "k" == (await memory.retention.curve(ANN, held.memory_id)).kept.key
    with pytest.raises(NotFound, match="'no'"):
        await memory.retention.curve(ANN, "no")
    assert 1 == await memory.forget(ANN, names)
    assert ["k"] == await memory.retention.unknown_keys(ANN, ["k"])


async def test_a_dry_run_says_how_many_it_does_not_list(dsn: str, tmp_path: Path) -> None:
    then = NOW - timedelta(days=40)
    async with open_memory(dsn, worker=False, clock=lambda: then) as memory:
        for user in ("ann", "bob"):
            told = [NewMemory(text=f"{n}", kind="summary") for n in range(3)]
            await memory.remember(Scope("app", user), told)
    async with open_memory(dsn, worker=False, clock=lambda: NOW) as memory:
        plan = await memory.retention.forget_faded(dry_run=True, limit=2)
        assert (6, 2, 4) == (plan.total, len(plan.listed), plan.not_listed)
        assert 0 == (await memory.retention.forget_faded(dry_run=True)).not_listed
        assert 3 == (await memory.retention.forget_faded(ANN, dry_run=True, limit=0)).not_listed
        ahead = (await memory.retention.stats(days=[30, 0, 30.0])).ahead
        assert {30.0: 6, 0.0: 6} == {days: fates["demoted"] for days, fates in ahead.items()}
        done = await memory.retention.forget_faded()
        assert (6, 0) == (done.total, done.not_listed)


async def test_a_zone_is_of_the_words_and_of_the_days(dsn: str) -> None:
    turns = [
        Event(event_id=f"{hour}", author="ann", role="user", text=f"At {hour}.",
              occurred_at=datetime(2026, 11, 17, hour, tzinfo=UTC))
        for hour in (1, 15, 17)
    ]  # fmt: skip
    async with open_memory(dsn, worker=False, clock=lambda: NOW) as memory:
        await memory.append_events(ANN, "t", turns)
        assert 3 == len((await memory.slice(ANN, "last Tuesday")).memories)
        there = await memory.slice(ANN, "last Tuesday", zone="Asia/Shanghai", bucket="day")
        assert ["At 15.", "At 1."] == [one.text for one in there.memories]
        assert there.begin is not None and "2026-11-17T00:00:00+08:00" == there.begin.isoformat()
        assert [2] == [one.count for one in there.buckets]
        assert timedelta(hours=8) == there.buckets[0].begin.utcoffset()
        days = await memory.slice(
            ANN, begin=turns[0].occurred_at, bucket="day", zone="Asia/Shanghai"
        )
        assert [2, 1] == [one.count for one in days.buckets]
        assert days.begin == turns[0].occurred_at and 9 == days.begin.hour
