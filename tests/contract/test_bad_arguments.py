"""Arguments that mean nothing, of any type: an error names each of them, and nothing is done."""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from every_case import every_case
from turns import said

from adk_memory import OpenMemoryService, PgSessionService
from benchmarks.fuzz_calls import Caller, raw_place
from benchmarks.odd_values import deep
from langgraph_store import PgHippocampusStore
from shared_core import MemoryEngine, NewMemory, RetentionPolicy, Scope, open_memory, run_sync
from shared_core.core import shown
from shared_core.errors import InvalidInput, NotFound

pytestmark = pytest.mark.both_engines

ANN = Scope(f"app {uuid4().hex[:12]}", "ann")
"""A user of the shared memory with the one memory "k"."""
NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
NAN, INF = math.nan, math.inf
DEEP, LONG = deep(5_000), 10**5_000
LAST_DAY = datetime.max.replace(tzinfo=UTC)
SAID = said("e1", "I like tea.")

Call = Callable[[MemoryEngine], Any]


@pytest.fixture(scope="module")
def memory(shared_memory):
    """The shared memory, with a memory of Ann."""
    run_sync(shared_memory.remember(ANN, NewMemory(text="Ann sails.", key="k", kind="summary")))
    return shared_memory


KEYED: list[Callable[[MemoryEngine, Any], Any]] = [
    lambda m, keys: m.retention.pin(ANN, keys), lambda m, keys: m.retention.unpin(ANN, keys),
    lambda m, keys: m.retention.revive(ANN, keys), lambda m, keys: m.forget(ANN, keys),
    lambda m, keys: m.retention.unknown_keys(ANN, keys),
]  # fmt: skip
CALLS: list[tuple[Call, str]] = [
    *[(lambda m, verb=verb, keys=keys: verb(m, keys), "keys must be a key or memory id")
      for verb in KEYED for keys in (None, 7, b"k", {"k": 1}, ["k", None])],
    (lambda m: m.retention.curve(ANN, None), "key must be a key or memory id, got None"),
    (lambda m: m.retention.curve(ANN, "k", days_ahead="7"), "days_ahead must be a number"),
    (lambda m: m.retention.curve(ANN, "k", days_ahead=NAN), "days_ahead must be between"),
    (lambda m: m.retention.curve(ANN, "k", points=2.5), "points must be between"),
    (lambda m: m.retention.stats(days="7"), r"days must be a list, e.g. \[7, 30\], got '7'"),
    (lambda m: m.retention.stats(days=7), "days must be a list"),
    *[(lambda m, one=one: m.retention.stats(days=[1, one]), "days must be")
      for one in (True, "7", None, -1, NAN, INF, 1e9)],
    (lambda m: m.retention.list_faded(ANN, stages="demoted"), "stages must be a list"),
    (lambda m: m.retention.list_faded(ANN, kinds=7), "kinds must be a list"),
    (lambda m: m.retention.list_faded(ANN, limit="x"), "limit must be between"),
    (lambda m: m.retention.list_faded(ANN, offset=None), "offset must be between"),
    (lambda m: m.retention.forget_faded(limit="x"), "limit must be between"),
    (lambda m: m.retention.forget_faded(limit=True, dry_run=True), "limit must be between"),
    (lambda m: m.retention.forget_faded(app=7), "app must be a string"),
    (lambda m: m.accesses.record_now(ANN, None), "memory_ids must be a list"),
    (lambda m: m.accesses.record_now(ANN, "k"), "memory_ids must be UUIDs"),
    (lambda m: m.accesses(ANN, 7), "memory_ids must be a list"),
    (lambda m: m.forget_turns(ANN, "t", None), "event_ids must be"),
    (lambda m: m.forget_turns(ANN, None, ["e"]), "thread_id must be a text"),
    (lambda m: m.forget_thread(ANN, 7), "thread_id must be a text"),
    (lambda m: m.slice(ANN, zone="Mars/Olympus"), "zone must be a time zone.*'Mars/Olympus'"),
    *[(lambda m, zone=zone: m.slice(ANN, bucket="day", zone=zone), "zone must be a time zone")
      for zone in ("", "Europe", "/etc/passwd", "../UTC", 8, "\x00")],
    (lambda m: m.slice(ANN, asked_at="now"), "asked_at must be a datetime"),
    (lambda m: m.slice(ANN, asked_at=0), "asked_at must be a datetime"),
    (lambda m: m.forget(ANN, DEEP), "keys"), (lambda m: m.consolidate(ANN, DEEP), "thread_id"),
    (lambda m: m.recall(DEEP, "tea"), "scope"),
    (lambda m: m.recall(ANN, "tea", limit=LONG), "limit"),
    (lambda m: m.graph.restore(ANN, DEEP), "edge_id"),
    (lambda m: m.jobs.request(ANN, "t", delay_s=LONG), "delay_s"),
    (lambda m: m.jobs.request(ANN, "t", DEEP), "job_type"),
    (lambda m: m.append_events(ANN, "t", [], strategy=1), "strategy"),
    (lambda m: m.end_session(ANN, "t", strategy="x"), "strategy"),
    (lambda m: m.append_events(ANN, "t", 5), "events"),
    (lambda m: m.remember(ANN, {1}), "memories"),
    (lambda m: m.remember(ANN, NewMemory(text="a", author={})), "author"),
    (lambda m: m.remember(ANN, NewMemory(text="a", metadata=DEEP)), "metadata"),
    (lambda m: m.context_window(ANN, "t", "q", assembler=1), "assembler"),
    (lambda m: m.sweep_expired(7), "prefix"), (lambda m: m.sweep_expired((), limit="1"), "limit"),
    (lambda m: anext(m.export(datetime.now(UTC))), "scope"),
    (lambda m: m.import_lines(7), "source"), (lambda m: m.import_lines([[]]), "text"),
    (lambda m: m.runs(ANN, thread_id="a\x00b"), "thread_id"),
    (lambda m: m.jobs.retry([1]), "job_ids"), (lambda m: m.jobs.list(job_id=3.0), "job_id"),
    (lambda m: m.jobs.list(statuses=["x"]), "status"),
    (lambda m: m.jobs.ask(ANN, "t", DEEP), "payload"),
    (lambda m: m.tokens.create("app", users=int), "users"),
    (lambda m: m.instructions.history(ANN, "k", limit=()), "limit"),
    (lambda m: m.graph.merge_aliases(ANN, "a", 7), "aliases"),
    (lambda m: m.retention.forget_faded(progress=1), "progress"),
    (lambda m: m.profiles.shown(ANN, as_of="now"), "as_of"),
    (lambda m: m.slice(ANN, "yesterday", query=5), "query"),
    (lambda m: m.slice(ANN, "tomorrow", asked_at=LAST_DAY, zone="Asia/Tokyo"), "out of range"),
]  # fmt: skip


@every_case(*CALLS)
async def test_an_argument_that_means_nothing_is_named(call, wrong, memory):
    with pytest.raises(InvalidInput, match=wrong):
        await call(memory)
    assert ["k"] == [one.key for one in await memory.list_memories(ANN)]


NO_SCOPES: list[Any] = [(None,), ("app/ann",), (("app", "ann"),), (Scope("app", None),)]


@every_case(*NO_SCOPES)
async def test_what_is_no_scope_is_named_by_every_verb(scope, memory):
    m, keeping = memory, memory.retention
    calls: list[tuple[Callable[..., Any], Sequence[Any]]] = [
        (keeping.pin, ["k"]), (keeping.unpin, ["k"]), (keeping.revive, ["k"]), (m.forget, ["k"]),
        (m.forget_turns, ["t", ["e"]]), (m.forget_thread, ["t"]), (m.forget_scope, []),
        (keeping.curve, ["k"]), (m.cleanup, []), (keeping.list_faded, []), (m.list_memories, []),
        (m.accesses.record_now, [[]]), (m.accesses, [[]]), (m.slice, []), (m.thread_summary, ["t"]),
        (m.context_window, ["t", "q"]), (m.recall, ["q"]), (m.remember, ["tea"]),
        (m.consolidate, ["t"]), (m.reflect, []), (m.runs, []), (m.append_events, ["t", []]),
    ]  # fmt: skip
    if scope is not None:
        calls += [(keeping.stats, []), (keeping.forget_faded, [])]
    if not isinstance(scope, Scope):
        calls.append((m.end_session, ["t"]))  # of impossible ids there is no session
    wrong = r"scope must be a Scope\(app, user\)"
    if isinstance(scope, Scope):
        wrong = r"user_id must be a string, got NoneType: None \(Scope.user\)"
    for verb, more in calls:
        with pytest.raises(InvalidInput, match=wrong):
            await verb(scope, *more)


@every_case(
    "decay_rate", "threshold", "min_age_days", "archive_threshold", "archive_after_days",
    "erase_threshold", "erase_after_days", "with_history"
)  # fmt: skip
def test_a_field_of_a_policy_that_means_nothing_is_named(field):
    for value in ("x", None, True, NAN, INF, -INF, -1, [0.1]):
        given: dict[str, Any] = {field: value}
        if (value is None and field in ("archive_threshold", "erase_threshold")) or (
            value is True and field == "with_history"
        ):
            assert RetentionPolicy(**given)
        else:
            with pytest.raises(InvalidInput, match=f"^{field} must be"):
                RetentionPolicy(**given)


@every_case({"threshold": "x"}, {"min_age_days": None}, {"threshold": 2})
async def test_a_cleanup_of_adk_names_what_means_nothing(options, memory):
    service = OpenMemoryService(engine=memory)
    with pytest.raises(InvalidInput, match=f"^{next(iter(options))} must be"):
        await service.cleanup_memories(app_name=ANN.app, user_id="ann", **options)


@every_case(
    (NOW.replace(tzinfo=None), "has no time zone"), (None, "must be a datetime"),
    (NOW.timestamp(), "must be a datetime with a time zone")
)  # fmt: skip
async def test_a_clock_that_tells_no_moment_is_named(answer, wrong, shared_dsn):
    def a_clock() -> Any:
        return answer

    async with open_memory(shared_dsn, worker=False, clock=a_clock) as memory:
        for verb, given in (
            (memory.remember, (ANN, "tea")), (memory.recall, (ANN, "tea")),
            (memory.slice, (ANN, "yesterday")), (memory.retention.forget_faded, ()),
            (memory.retention.stats, ()),
        ):  # fmt: skip
            with pytest.raises(InvalidInput, match=f"a_clock returned {wrong}"):
                await verb(*given)
    with pytest.raises(InvalidInput, match="clock must be a function"):
        open_memory(shared_dsn, clock=NOW)


def strange(answer: Any) -> Callable[[Any], Any]:
    def my_strength(traits: Any) -> Any:
        if "sail" not in traits.text:
            return 0.5
        if isinstance(answer, Exception):
            raise answer
        return answer

    return my_strength


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("answer", [NAN, INF, -0.1, 1.1, "high", True, [1], KeyError("mood")])
async def test_a_strength_that_means_nothing_is_named_not_written(shared_dsn, scope, answer, later):
    turns = [said(n, text) for n, text in enumerate(["I bake.", "I sail.", "I knit."])]
    async with open_memory(shared_dsn, worker=False, strength=strange(answer)) as memory:
        named = "my_strength given as strength"
        with pytest.raises(InvalidInput, match=f"{named} (must|raised)") as told:
            await memory.append_events(scope, "t", turns, later=later)
        if isinstance(answer, KeyError):
            assert told.value.__cause__ is answer and "'I sail.'" in str(told.value)
        with pytest.raises(InvalidInput, match=named):
            await memory.remember(scope, ["I bake bread.", "We sail."])
        assert [] == [*await memory.list_memories(scope)]
        assert not (await memory.slice(scope)).memories


async def test_turns_come_with_a_strength_that_means_something(shared_dsn, scope):
    turns = [said(n, text) for n, text in enumerate(["I bake.", "I sail.", "I knit."])]
    async with open_memory(shared_dsn, worker=False, strength=lambda traits: 1) as memory:
        assert {"e0", "e1", "e2"} == await memory.append_events(scope, "t", turns)
        assert 3 == len(await memory.list_memories(scope, kinds=["episodic"]))
    with pytest.raises(InvalidInput, match="strength must be a function"):
        open_memory(shared_dsn, strength=0.5)


OF_A_STORE: dict[str, tuple[Callable[[Any], Awaitable[object]], str]] = {
    "labels": (lambda store: store.aget(7, "k"), "namespace"),
    "no labels": (lambda store: store.adelete(None, "k"), "namespace"),
    "a mapping": (lambda store: store.aput({"a": 1}, "k", {}), "namespace"),
    "a deep label": (lambda store: store.aget((DEEP,), "k"), "namespace"),
    "a deep key": (lambda store: store.aget(("a",), DEEP), "key"),
    "a long key": (lambda store: store.aget(("a",), LONG), "key"),
    "operations": (lambda store: store.abatch(7), "ops"),
    "a lifetime": (lambda store: store.aput(("a",), "k", {}, ttl=LONG), "time to live"),
    "a filter": (lambda store: store.asearch(("a",), filter={"$and": [LONG]}), "filter"),
    "an index": (lambda store: store.aput(("a",), "k", {}, index={"a": [None]}), "index"),
    "a prefix": (lambda store: store.alist_namespaces(prefix=7), "prefix"),
}


@every_case(*OF_A_STORE.values())
async def test_an_argument_of_a_store_is_named(call, word, memory):
    with pytest.raises(ValueError, match=word):
        await call(PgHippocampusStore(engine=memory))


async def test_an_argument_of_adk_is_named(memory):
    sessions, service = PgSessionService(engine=memory), OpenMemoryService(engine=memory)
    names = {"app_name": ANN.app, "user_id": "ana"}
    with pytest.raises(TypeError, match="session_id"):
        await sessions.get_session(**names, session_id=[])
    with pytest.raises(TypeError, match="config"):
        await sessions.get_session(**names, session_id="s", config="x")
    with pytest.raises(TypeError, match="Session"):
        await sessions.append_event(7, 8)
    with pytest.raises(TypeError, match="events"):
        await service.add_events_to_memory(**names, events=["x"])  # type: ignore[list-item]
    session = await sessions.create_session(**names, state={"deep": DEEP})
    assert "too deep" in str(session.state["deep"])


def test_a_value_that_cannot_be_written_is_shown_by_its_type_and_an_inner_error_told_apart():
    assert shown(DEEP) == "(dict, too deep or too long to show)"
    assert shown(LONG) == "(int, too deep or too long to show)"
    assert shown("x" * 100) == "'" + "x" * 79
    with pytest.raises(AttributeError) as inside:
        _ = Scope("a", "b").nothing  # type: ignore[attr-defined]
    assert raw_place(inside.value)
    assert raw_place(InvalidInput("limit must be a number")) is None
    assert raw_place(InvalidInput(" "))


async def test_random_calls_raise_no_internal_error(dsn):
    async with open_memory(dsn) as memory:
        caller = Caller(memory, seed=1)
        for number in range(300):
            await caller.call(number)
    assert caller.outcomes.raw == {}
    assert caller.outcomes.counts["returned"] > 50 < caller.outcomes.counts["InvalidInput"]


@every_case(
    ({"text": None}, "text of event 'e1' must be a text, got None"),
    ({"text": b"x"}, "text of event 'e1' must be a text, got b'x'"),
    ({"author": 5}, "author of event 'e1' must be a text, got 5"),
    ({"metadata": None}, "metadata of event 'e1' must be a mapping, .* got None"),
    ({"metadata": [("a", 1)]}, "metadata of event 'e1' must be a mapping"),
    ({"event_id": ""}, "event_id must not be empty"),
    ({"occurred_at": datetime(2026, 3, 2)}, "occurred_at of event 'e1' has no time zone"),  # noqa: DTZ001
    ({"importance": NAN}, "importance must be between 1 and 10, got nan"),
)
async def test_an_event_says_what_is_wrong_with_it(changed, message, memory, scope):
    with pytest.raises(InvalidInput, match=message):
        await memory.append_events(scope, "s", [SAID, replace(SAID, **changed)])
    assert [] == await memory.list_memories(scope)


@every_case(None, "x", 5, ["a"], [("a", 1)])
async def test_metadata_of_a_memory_must_be_a_mapping(metadata, memory, scope):
    with pytest.raises(InvalidInput, match="metadata of a memory must be a mapping"):
        await memory.remember(scope, NewMemory(text="I like tea.", metadata=metadata))
    assert [] == await memory.list_memories(scope)


@pytest.mark.parametrize("number", [1e16, -1e22, 1.5e300, 2.5, 10**30, 10**16])
async def test_a_number_comes_back_with_its_type(memory, scope, number):
    await memory.remember(scope, NewMemory(text="I like tea.", metadata={"n": [number]}))
    [found] = await memory.list_memories(scope)
    assert repr({"n": [number]}) == repr(found.value["metadata"])


async def test_what_is_no_event_is_shown(memory):
    given: Any = {"text": "I like tea."}
    with pytest.raises(InvalidInput, match="events must be Event objects, got {'text'"):
        await memory.append_events(ANN, "s", [given])


@every_case("", None, 5, "a\0b", "a\ud800")
async def test_a_thread_that_cannot_be_is_named(thread, memory):
    with pytest.raises(InvalidInput, match="^thread_id "):
        await memory.append_events(ANN, thread, [SAID])
    with pytest.raises(InvalidInput, match="^thread_id "):
        await memory.consolidate(ANN, thread)


async def test_keys_may_be_ids_and_unknown_ones_are_passed_over_and_told(memory, scope):
    await memory.remember(scope, NewMemory(text="Ann sails.", key="k"))
    [held] = await memory.list_memories(scope)
    keys, strange_id = memory.retention, uuid4()
    names: list[str | UUID] = ["k", held.memory_id, "no", str(held.memory_id).upper(), strange_id]
    assert ["no", str(strange_id)] == await keys.unknown_keys(scope, names)
    assert ["k"] == await keys.unknown_keys(Scope(scope.app, "bob"), "k")
    assert [] == await keys.unknown_keys(scope, [])
    assert 0 == await keys.pin(scope, ["no", strange_id])
    assert 1 == await keys.pin(scope, names) == await keys.unpin(scope, held.memory_id)
    assert 0 == await keys.unpin(scope, "k") == await keys.revive(scope, names)
    assert "k" == (await keys.curve(scope, held.memory_id)).kept.key
    with pytest.raises(NotFound, match="'no'"):
        await keys.curve(scope, "no")
    assert 1 == await memory.forget(scope, names)
    assert ["k"] == await keys.unknown_keys(scope, ["k"])
    await memory.remember(scope, [NewMemory(text=key, key=key) for key in ("tea", "milk", "rum")])
    ids = {one.key: one.memory_id for one in await memory.list_memories(scope)}
    assert 2 == await memory.forget(scope, [ids["rum"], uuid4(), str(ids["tea"])])
    assert ["milk"] == [one.key for one in await memory.list_memories(scope)]


async def test_a_dry_run_says_how_many_it_does_not_list(clocked, clock):
    keeping = clocked.retention
    for scope in (Scope("app", "ann"), Scope("app", "bob")):
        await clocked.remember(scope, [NewMemory(text=f"{n}", kind="summary") for n in range(3)])
    clock.day = 40
    plan = await keeping.forget_faded(dry_run=True, limit=2)
    assert (6, 2, 4) == (plan.total, len(plan.listed), plan.not_listed)
    assert 0 == (await keeping.forget_faded(dry_run=True)).not_listed
    assert 3 == (await keeping.forget_faded(scope, dry_run=True, limit=0)).not_listed
    ahead = (await keeping.stats(days=[30, 0, 30.0])).ahead
    assert {30.0: 6, 0.0: 6} == {days: fates["demoted"] for days, fates in ahead.items()}
    done = await keeping.forget_faded()
    assert (6, 0) == (done.total, done.not_listed)


async def test_a_zone_is_of_the_words_and_of_the_days(clocked, clock):
    clock.now = datetime(2026, 11, 18, 12, tzinfo=UTC)
    day = datetime(2026, 11, 17, tzinfo=UTC)
    turns = [said(f"{h}", f"At {h}.", day + timedelta(hours=h)) for h in (1, 15, 17)]
    await clocked.append_events(ANN, "t", turns)
    assert 3 == len((await clocked.slice(ANN, "last Tuesday")).memories)
    there = await clocked.slice(ANN, "last Tuesday", zone="Asia/Shanghai", bucket="day")
    assert ["At 15.", "At 1."] == [one.text for one in there.memories]
    assert there.begin is not None and "2026-11-17T00:00:00+08:00" == there.begin.isoformat()
    assert [2] == [one.count for one in there.buckets]
    assert timedelta(hours=8) == there.buckets[0].begin.utcoffset()
    begin = turns[0].occurred_at
    days = await clocked.slice(ANN, begin=begin, bucket="day", zone="Asia/Shanghai")
    assert [2, 1] == [one.count for one in days.buckets]
    assert days.begin == begin and 9 == days.begin.hour
