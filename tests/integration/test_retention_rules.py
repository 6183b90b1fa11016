"""What restored, reopened and indexed memories go by, of which kinds a policy is, whose clock."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest

from langgraph_store import PgHippocampusStore
from shared_core import Event, NewMemory, RetentionPolicy, open_memory
from shared_core.core import timestamps as moments_module
from shared_core.core.retention_policy import POLICIES
from tests.integration.retention_world import ALL, ANN, BOB, FACTS, World, opened_world


@pytest.fixture
async def world(dsn: str) -> AsyncIterator[World]:
    async with opened_world(dsn) as found:
        yield found


async def test_a_weak_memory_stays_for_the_minimum_age_once_it_is_restored(dsn: str) -> None:
    async with opened_world(dsn, strength=lambda traits: 0.03) as world:
        await world.say("a weak note")
        world.go(8)
        assert {"demoted": 1} == await world.run()
        [faded] = await world.memory.retention.list_faded(ANN)
        assert 1 == await world.memory.retention.revive(ANN, faded.key)
        world.go(6.9)
        await world.memory.accesses.record_now(ANN, [faded.memory_id])
        assert {} == await world.run()
        curve = await world.memory.retention.curve(ANN, faded.key)
        assert (world.now + timedelta(days=0.1), "demoted") == curve.stages[0]
        world.go(0.2)
        [told] = (await world.memory.retention.forget_faded(dry_run=True)).listed
        assert "kept" not in told.why
        assert {"demoted": 1} == await world.run()


async def test_a_fact_that_holds_again_fades_again(world: World) -> None:
    await world.memory.retention.set_policy({"semantic": FACTS})
    acme = await world.memory.state_fact(ANN, "employer", "Acme")
    world.go(0.5)
    initech = await world.memory.state_fact(ANN, "employer", "Initech")
    world.go(0.7)
    assert {} == await world.run()
    assert [(None,)] == world.ask("SELECT forget_at FROM memory_access ORDER BY memory_id LIMIT 1")
    [last, *_] = await world.memory.runs(ANN)
    await world.memory.undo_run(ANN, last.run_id)
    assert initech.value not in [one.value for one in await world.memory.facts(ANN)]
    assert {"demoted": 1} == await world.run()
    assert acme.memory_id == (await world.memory.retention.list_faded(ANN))[0].memory_id


async def test_a_fact_that_is_restored_fades_again(world: World) -> None:
    await world.memory.retention.set_policy({"semantic": FACTS})
    fact = await world.memory.state_fact(ANN, "employer", "Acme")
    await world.memory.retract(ANN, fact)
    world.go(2)
    assert {} == await world.run()
    [ended] = await world.memory.facts(ANN, history=True)
    await world.memory.restore(ANN, ended)
    assert {"demoted": 1} == await world.run()


async def test_an_edge_that_is_restored_lets_its_fact_fade_again(dsn: str) -> None:
    async with opened_world(dsn) as world:
        await world.memory.retention.set_policy({"semantic": FACTS})
        await world.memory.graph.add(ANN, "user", "works_at", "Acme")
        [edge] = await world.memory.graph.history(ANN, "user")
        await world.memory.graph.retract(ANN, "user", "works_at", "Acme")
        world.go(2)
        assert {} == await world.run()
        await world.memory.graph.restore(ANN, edge.edge_id)
        assert {"demoted": 1} == await world.run()


async def test_an_item_that_is_restored_is_found_by_its_fields(world: World) -> None:
    policy = RetentionPolicy(min_age_days=1, threshold=1, archive_threshold=1, archive_after_days=1)
    await world.memory.retention.set_policy({"item": policy})
    store = PgHippocampusStore(engine=world.memory, index={"fields": ["title", "body"]})  # type: ignore[typeddict-item]
    value = {"title": "bees on the roof", "body": "quarterly tax report"}
    await store.aput(("app", "ann"), "k", value)
    await store.aput(("app", "ann"), "plain", {"title": "nothing of it"}, index=False)
    columns = "SELECT key, value, terms, term_count FROM memories ORDER BY key"
    vectors = "SELECT memory_id, field, embedding::text FROM embeddings ORDER BY 1, 2"
    before, embedded = world.ask(columns), world.ask(vectors)
    assert ["body", "title"] == [row[1] for row in embedded]
    for fate in ("demoted", "archived"):
        world.go(2)
        assert {fate: 2} == await world.run()
        assert [] == await store.asearch(("app", "ann"), query="tax")
    ids = [str(row[0]) for row in world.ask("SELECT memory_id FROM memories")]
    assert 2 == await world.memory.retention.revive(ANN, ids)
    assert (before, embedded) == (world.ask(columns), world.ask(vectors))
    found = await store.asearch(("app", "ann"), query="tax report")
    assert [("k", value)] == [(item.key, item.value) for item in found[:1]]


async def test_an_item_archived_before_it_kept_its_words_is_embedded_anew(world: World) -> None:
    policy = RetentionPolicy(min_age_days=1, threshold=1, archive_threshold=1, archive_after_days=1)
    await world.memory.retention.set_policy({"item": policy})
    store = PgHippocampusStore(engine=world.memory)
    await store.aput(("app", "ann"), "k", {"content": "a quarterly tax report"})
    before = world.ask("SELECT terms, term_count FROM memories")
    for _ in range(2):
        world.go(2)
        await world.run()
    with world.other() as other:
        other.execute("UPDATE memory_archive SET keeps_words = false; DELETE FROM embeddings")
        other.execute("UPDATE memories SET terms = '', term_count = 0")
        other.commit()
    [(memory_id,)] = world.ask("SELECT memory_id FROM memories")
    assert 1 == await world.memory.retention.revive(ANN, memory_id)
    assert before == world.ask("SELECT terms, term_count FROM memories")
    assert [("text",)] == world.ask("SELECT field FROM embeddings")


async def test_a_policy_of_some_kinds_leaves_the_others_to_the_nearest_above(world: World) -> None:
    memory = world.memory
    await memory.retention.set_policy({"item": ALL}, BOB)
    await memory.retention.set_policy("sensitive", app="app")
    assert POLICIES["sensitive"] == (await memory.retention.policy(BOB))["episodic"]
    assert ALL == (await memory.retention.policy(BOB))["item"]
    await memory.retention.set_policy({"summary": None}, BOB)
    found = await memory.retention.policy(BOB)
    assert (ALL, None) == (found["item"], found["summary"])
    await memory.retention.set_policy("knowledge", BOB)
    await memory.retention.set_policy({"semantic": ALL, "item": None}, app="app")
    found = await memory.retention.policy(BOB)
    assert (POLICIES["knowledge"], ALL, None) == (
        found["episodic"], found["semantic"], found["item"],
    )  # fmt: skip
    assert POLICIES["sensitive"] == (await memory.retention.policy(ANN))["episodic"]


async def test_a_dry_run_of_cleanup_deletes_nothing_that_expired(world: World) -> None:
    soon = world.now + timedelta(hours=1)
    await world.memory.append_events(
        ANN, "t",
        [Event(event_id="a", author="user", role="user", text="I sail.", occurred_at=world.now,
               expires_at=soon)],
    )  # fmt: skip
    world.go(100)
    assert () == tuple((await world.memory.cleanup(ANN, dry_run=True)).forgotten)
    assert [(1, 1)] == world.ask("SELECT count(*), (SELECT count(*) FROM events) FROM memories")
    assert [] == [*(await world.memory.cleanup(ANN)).forgotten]
    assert [(0, 0)] == world.ask("SELECT count(*), (SELECT count(*) FROM events) FROM memories")


async def test_cleanup_of_several_pages_erases_all_that_is_weak(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared_core.retention.cleanup.BATCH", 2)
    await world.say(*(f"I sail {number} boats." for number in range(5)))
    world.go(100)
    await world.say("I ski.")
    report = await world.memory.cleanup(ANN)
    assert 5 == len(report.forgotten) and {"I ski."} == await world.listed()


async def test_statistics_tell_every_stage_that_comes_within_some_days(world: World) -> None:
    await world.memory.retention.set_policy("sensitive")
    await world.say("I sail.")
    [one] = await world.memory.list_memories(ANN)
    curve = await world.memory.retention.curve(ANN, one.key)
    assert ["demoted", "erased"] == [fate for _, fate in curve.stages]
    days = [(at - world.now) / timedelta(days=1) for at, _ in curve.stages]
    stats = await world.memory.retention.stats(ANN, days=[days[0], days[1] - 0.01, days[1], 60])
    demoted, erased = ({"demoted": 1, "archived": 0, "erased": number} for number in (0, 1))
    assert [demoted, demoted, erased, erased] == list(stats.ahead.values())
    await world.memory.retention.set_policy(ALL)
    stats = await world.memory.retention.stats(ANN, days=[20, 25, 30])
    met = [tuple(fates.values()) for fates in stats.ahead.values()]
    assert [(1, 0, 0), (1, 1, 0), (1, 1, 1)] == met
    for days_on, expected in ((20, [(0, 1, 0), (0, 1, 1)]), (6, [(0, 0, 1), (0, 0, 1)])):
        world.go(days_on)
        await world.run()
        ahead = (await world.memory.retention.stats(ANN, days=[5.5, 11])).ahead
        assert expected == [tuple(fates.values()) for fates in ahead.values()]


async def test_what_never_fades_is_of_no_low_value(world: World) -> None:
    await world.say("I sail.")
    await world.memory.remember(ANN, NewMemory(text="Ann is allergic to nuts.", key="k"))
    world.go(200)
    stats = await world.memory.retention.stats(ANN)
    assert (1, 0, 1, 1) == (stats.high, stats.medium, stats.low, stats.total.fades)
    assert pytest.approx(0.7) == (await world.memory.retention.curve(ANN, "k")).score


class Fast(datetime):
    """The time of day of a machine whose clock is 400 days ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Fast:
        ahead = datetime.now(tz) + timedelta(days=400)
        return cls.combine(ahead.date(), ahead.timetz())


@pytest.mark.parametrize("round_trip_s", [0, 9])
async def test_a_machine_whose_clock_is_wrong_forgets_nothing(
    dsn: str, monkeypatch: pytest.MonkeyPatch, round_trip_s: int
) -> None:
    """Also where each answer of the database takes seconds."""
    seconds = count(0, round_trip_s)
    async with open_memory(dsn, worker=False) as memory:
        await memory.append_events(
            ANN, "t",
            [Event(event_id="a", author="user", role="user", text="I sail.",
                   occurred_at=datetime.now(UTC))],
        )  # fmt: skip
        assert 0 == (await memory.retention.forget_faded()).total
        monkeypatch.setattr(moments_module, "datetime", Fast)
        slow = SimpleNamespace(monotonic=lambda: time.monotonic() + next(seconds))
        monkeypatch.setattr(moments_module, "time", slow)
        for call in (memory.retention.forget_faded, partial(memory.cleanup, ANN)):
            await call()
        assert 1 == len(await memory.list_memories(ANN))
    async with open_memory(dsn, worker=False, clock=lambda: Fast.now(UTC)) as memory:
        assert 1 == (await memory.retention.forget_faded()).total
