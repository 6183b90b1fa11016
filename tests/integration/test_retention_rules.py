"""What memories go by: the moment of each stage, what was restored, policies, whose clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from turns import START, said

from langgraph_store import PgHippocampusStore
from shared_core import InvalidInput, NewMemory, RetentionPolicy, open_memory
from shared_core.core import timestamps as moments_module
from shared_core.core.decay import forget_at, initial_strength
from shared_core.core.domain import MemoryId, MemoryKind
from shared_core.core.retention_policy import FADING, POLICIES, Traits
from shared_core.ports.retention import Accesses, NewAccesses
from tests.integration.retention_world import (
    ALL,
    ANN,
    BOB,
    FACTS,
    kept,
    opened_world,
    world,
    world_of_module,
)
from tests.integration.test_one_clock import Fast

__all__ = ["world", "world_of_module"]
DAY = timedelta(days=1)
ARCHIVED_EARLY = RetentionPolicy(
    min_age_days=1, threshold=1, archive_threshold=1, archive_after_days=1
)


def fades_at(last_used_at: datetime, **more: Any) -> datetime | None:
    return forget_at(initial=0.7, last_used_at=last_used_at, **more)


async def test_a_turn_knows_when_it_fades_by_the_default_policy_where_none_is_stored(world):
    await world.say("I sail.")
    await world.say("I ski.", importance=10)
    for text, importance in (("I sail.", 5), ("I ski.", 10)):
        initial = initial_strength(importance)
        found = await world.kept(text)
        assert forget_at(initial=initial, last_used_at=START) == found.forget_at
        assert ("kept", initial, 0, START) == (
            found.stage, found.strength, found.access_count, found.used_at,
        )  # fmt: skip
    default = POLICIES["default"]
    rules = {kind: default if kind in FADING else None for kind in get_args(MemoryKind)}
    for scope in (ANN, None):
        assert rules == await world.retention.policy(scope)
    assert [] == world.ask("TABLE retention_policies")


async def test_reading_puts_it_off_with_the_same_batch(world):
    await world.say("I sail.")
    for reads in (1, 2, 3):
        world.go(1)
        before = await world.kept("I sail.")
        await world.memory.recall(ANN, "sail")
        await world.memory.flush()
        found = await world.kept("I sail.")
        assert found.forget_at and before.forget_at and found.forget_at > before.forget_at
        assert found.forget_at == fades_at(world.now, created_at=START, accesses=reads)


async def test_what_is_outright_does_not_fade_and_a_summary_written_again_begins_anew(world):
    summary = NewMemory(text="About Ann.", kind="summary", key="k")
    await world.memory.remember(ANN, ["Ann sails.", summary])
    assert (await world.kept("Ann sails.")).forget_at is None
    first = await world.kept("About Ann.")
    world.go(10)
    await world.memory.remember(ANN, NewMemory(text="Of Ann.", kind="summary", key="k"))
    again = await world.kept("Of Ann.")
    assert (first.memory_id, START) == (again.memory_id, again.created_at)
    assert again.forget_at == fades_at(world.now, created_at=START)


async def test_a_strength_of_ones_own_is_stored(dsn):
    def strength(traits: Traits) -> float | None:
        return {"episodic": 0.3, "summary": 1.0}.get(traits.kind)

    async with opened_world(dsn, strength=strength) as world:
        await world.say("I sail.")
        await world.memory.remember(ANN, NewMemory(text="About Ann.", kind="summary"))
        await world.memory.remember(ANN, NewMemory(text="Ann sails.", kind="reflection"))
        for text, initial in (("I sail.", 0.3), ("About Ann.", 1.0), ("Ann sails.", 0.7)):
            found = await world.kept(text)
            assert initial == found.strength
            assert forget_at(initial=initial, last_used_at=START) == found.forget_at
    async with opened_world(dsn, strength=lambda traits: 1.5) as world:
        with pytest.raises(InvalidInput, match="strength must return a number from 0 to 1"):
            await world.say("I ski.")


async def test_arousal_and_importance_that_a_run_finds_out_count(world):
    await world.read("I am so furious, my boss fired me today and I hate him!!!")
    [turn] = await world.memory.list_memories(ANN, kinds=["episodic"])
    found = await kept(world.memory, turn.memory_id)
    assert found.arousal > 0
    found_out = {"initial": found.strength, "arousal": found.arousal}
    assert found.forget_at == forget_at(last_used_at=START, **found_out)


async def test_counters_and_clocks_that_are_off_do_no_harm(world):
    await world.say("I sail.")
    memory_id = MemoryId((await world.kept("I sail.")).memory_id)
    future, past = START + 3650 * DAY, START - 3650 * DAY
    for number, moment in ((10**9, past), (2 * 10**9, future), (10**9, START)):
        read = NewAccesses(ANN, memory_id, Accesses(number, moment))
        await world.memory._storage.accesses.add_accesses([read])
    found = await world.kept("I sail.")
    assert (2**31 - 1, future) == (found.access_count, found.used_at)
    assert found.forget_at == fades_at(future, created_at=START, accesses=2**31 - 1)


@pytest.mark.parametrize("place", ["all", "app", "user", "another app", "another user"])
async def test_a_user_writes_and_reads_by_the_nearest_policy(world, place):
    slow = POLICIES["knowledge"]
    places = {
        "all": {}, "app": {"app": "app"}, "another app": {"app": "ap"},
        "user": {"scope": ANN}, "another user": {"scope": BOB},
    }  # fmt: skip
    await world.retention.set_policy(slow, **places[place])  # type: ignore[arg-type]
    policy = POLICIES["default"] if place.startswith("another") else slow
    await world.say("I sail.")
    for reads in (0, 1):
        found = await world.kept("I sail.")
        assert found.forget_at == fades_at(START, accesses=reads, policy=policy)
        await world.memory.recall(ANN, "sail")
        await world.memory.flush()


async def test_what_a_run_replaced_stays_for_its_undo(world):
    await world.say("I play chess.", "Thanks!")
    for text in ("I live in Leeds.", "I moved to Rome."):
        await world.read(text)
    rows = world.ask(
        "SELECT m.kind, m.superseded_at IS NULL, a.forget_at IS NOT NULL FROM memories m LEFT JOIN"
        " memory_access a USING (tenant_id, memory_id) WHERE m.kind IN ('summary', 'episodic')"
    )
    assert {("episodic", True, True), ("summary", True, True), ("summary", False, False)} == {*rows}


async def test_a_weak_memory_stays_for_the_minimum_age_once_it_is_restored(dsn):
    async with opened_world(dsn, strength=lambda traits: 0.03) as world:
        await world.say("a weak note")
        assert [{"demoted": 1}] == await world.fade(8)
        [faded] = await world.retention.list_faded(ANN)
        assert 1 == await world.retention.revive(ANN, faded.key)
        world.go(6.9)
        await world.memory.accesses.record_now(ANN, [faded.memory_id])
        assert {} == await world.run()
        curve = await world.retention.curve(ANN, faded.key)
        assert (world.now + timedelta(days=0.1), "demoted") == curve.stages[0]
        world.go(0.2)
        [told] = (await world.retention.forget_faded(dry_run=True)).listed
        assert "kept" not in told.why
        assert {"demoted": 1} == await world.run()


async def test_a_fact_that_holds_again_fades_again(world):
    await world.retention.set_policy({"semantic": FACTS})
    acme = await world.memory.state_fact(ANN, "employer", "Acme")
    world.go(0.5)
    initech = await world.memory.state_fact(ANN, "employer", "Initech")
    assert [{}] == await world.fade(0.7)
    assert [(None,)] == world.ask("SELECT forget_at FROM memory_access ORDER BY memory_id LIMIT 1")
    [last, *_] = await world.memory.runs(ANN)
    await world.memory.undo_run(ANN, last.run_id)
    assert initech.value not in [one.value for one in await world.memory.facts(ANN)]
    assert {"demoted": 1} == await world.run()
    assert acme.memory_id == (await world.retention.list_faded(ANN))[0].memory_id


async def test_a_fact_that_is_restored_fades_again(world):
    await world.retention.set_policy({"semantic": FACTS})
    await world.memory.retract(ANN, await world.memory.state_fact(ANN, "employer", "Acme"))
    assert [{}] == await world.fade(2)
    [ended] = await world.memory.facts(ANN, history=True)
    await world.memory.restore(ANN, ended)
    assert {"demoted": 1} == await world.run()


async def test_an_edge_that_is_restored_lets_its_fact_fade_again(world):
    await world.retention.set_policy({"semantic": FACTS})
    await world.memory.graph.add(ANN, "user", "works_at", "Acme")
    [edge] = await world.memory.graph.history(ANN, "user")
    await world.memory.graph.retract(ANN, "user", "works_at", "Acme")
    assert [{}] == await world.fade(2)
    await world.memory.graph.restore(ANN, edge.edge_id)
    assert {"demoted": 1} == await world.run()


async def test_an_item_that_is_restored_is_found_by_its_fields(world):
    await world.retention.set_policy({"item": ARCHIVED_EARLY})
    store = PgHippocampusStore(engine=world.memory, index={"fields": ["title", "body"]})  # type: ignore[typeddict-item]
    value = {"title": "bees on the roof", "body": "quarterly tax report"}
    await store.aput(("app", "ann"), "k", value)
    await store.aput(("app", "ann"), "plain", {"title": "nothing of it"}, index=False)
    columns = "SELECT key, value, terms, term_count FROM memories ORDER BY key"
    vectors = "SELECT memory_id, field, embedding::text FROM embeddings ORDER BY 1, 2"
    before, embedded = world.ask(columns), world.ask(vectors)
    assert ["body", "title"] == [row[1] for row in embedded]
    for fate in ("demoted", "archived"):
        assert [{fate: 2}] == await world.fade(2)
        assert [] == await store.asearch(("app", "ann"), query="tax")
    ids = [str(row[0]) for row in world.ask("SELECT memory_id FROM memories")]
    assert 2 == await world.retention.revive(ANN, ids)
    assert (before, embedded) == (world.ask(columns), world.ask(vectors))
    found = await store.asearch(("app", "ann"), query="tax report")
    assert [("k", value)] == [(item.key, item.value) for item in found[:1]]


async def test_an_item_archived_before_it_kept_its_words_is_embedded_anew(world):
    await world.retention.set_policy({"item": ARCHIVED_EARLY})
    store = PgHippocampusStore(engine=world.memory)
    await store.aput(("app", "ann"), "k", {"content": "a quarterly tax report"})
    before = world.ask("SELECT terms, term_count FROM memories")
    await world.fade(2, 2)
    with world.other() as other:
        other.execute("UPDATE memory_archive SET keeps_words = false; DELETE FROM embeddings")
        other.execute("UPDATE memories SET terms = '', term_count = 0")
        other.commit()
    [(memory_id,)] = world.ask("SELECT memory_id FROM memories")
    assert 1 == await world.retention.revive(ANN, memory_id)
    assert before == world.ask("SELECT terms, term_count FROM memories")
    assert [("text",)] == world.ask("SELECT field FROM embeddings")


async def test_a_policy_of_some_kinds_leaves_the_others_to_the_nearest_above(world):
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


async def test_a_dry_run_of_cleanup_deletes_nothing_that_expired(world):
    await world.say("I sail.", expires_at=world.now + timedelta(hours=1))
    world.go(100)
    assert () == tuple((await world.memory.cleanup(ANN, dry_run=True)).forgotten)
    assert [(1, 1)] == world.ask("SELECT count(*), (SELECT count(*) FROM events) FROM memories")
    assert [] == [*(await world.memory.cleanup(ANN)).forgotten]
    assert [(0, 0)] == world.ask("SELECT count(*), (SELECT count(*) FROM events) FROM memories")


async def test_cleanup_of_several_pages_erases_all_that_is_weak(world, monkeypatch):
    monkeypatch.setattr("shared_core.retention.cleanup.BATCH", 2)
    await world.say(*(f"I sail {number} boats." for number in range(5)))
    world.go(100)
    await world.say("I ski.")
    report = await world.memory.cleanup(ANN)
    assert 5 == len(report.forgotten) and {"I ski."} == await world.listed()


async def test_statistics_tell_every_stage_that_comes_within_some_days(world):
    await world.retention.set_policy("sensitive")
    await world.say("I sail.")
    [one] = await world.memory.list_memories(ANN)
    curve = await world.retention.curve(ANN, one.key)
    assert ["demoted", "erased"] == [fate for _, fate in curve.stages]
    days = [(at - world.now) / timedelta(days=1) for at, _ in curve.stages]
    stats = await world.retention.stats(ANN, days=[days[0], days[1] - 0.01, days[1], 60])
    demoted, erased = ({"demoted": 1, "archived": 0, "erased": number} for number in (0, 1))
    assert [demoted, demoted, erased, erased] == list(stats.ahead.values())
    await world.retention.set_policy(ALL)
    stats = await world.retention.stats(ANN, days=[20, 25, 30])
    met = [tuple(fates.values()) for fates in stats.ahead.values()]
    assert [(1, 0, 0), (1, 1, 0), (1, 1, 1)] == met
    for days_on, expected in ((20, [(0, 1, 0), (0, 1, 1)]), (6, [(0, 0, 1), (0, 0, 1)])):
        await world.fade(days_on)
        ahead = (await world.retention.stats(ANN, days=[5.5, 11])).ahead
        assert expected == [tuple(fates.values()) for fates in ahead.values()]


async def test_what_never_fades_is_of_no_low_value(world):
    await world.say("I sail.")
    await world.memory.remember(ANN, NewMemory(text="Ann is allergic to nuts.", key="k"))
    world.go(200)
    stats = await world.retention.stats(ANN)
    assert (1, 0, 1, 1) == (stats.high, stats.medium, stats.low, stats.total.fades)
    assert pytest.approx(0.7) == (await world.retention.curve(ANN, "k")).score


@pytest.mark.parametrize("round_trip_s", [0, 9])
async def test_a_machine_whose_clock_is_wrong_forgets_nothing(dsn, monkeypatch, round_trip_s):
    """Also where each answer of the database takes seconds."""
    seconds = count(0, round_trip_s)
    async with open_memory(dsn, worker=False) as memory:
        await memory.append_events(ANN, "t", [said("a", "I sail.", datetime.now(UTC))])
        assert 0 == (await memory.retention.forget_faded()).total
        monkeypatch.setattr(moments_module, "datetime", Fast)
        slow = SimpleNamespace(monotonic=lambda: time.monotonic() + next(seconds))
        monkeypatch.setattr(moments_module, "time", slow)
        for call in (memory.retention.forget_faded, partial(memory.cleanup, ANN)):
            await call()
        assert 1 == len(await memory.list_memories(ANN))
    async with open_memory(dsn, worker=False, clock=lambda: Fast.now(UTC)) as memory:
        assert 1 == (await memory.retention.forget_faded()).total
