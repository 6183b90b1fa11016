"""Forgetting beside others who write, restore, pin, undo and set policies loses nothing."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from shared_core import Conflict, NewMemory
from shared_core.knowledge import reviving
from shared_core.retention import cleanup as cleanups, pages
from tests.integration.retention_world import ALL, ANN, BOB, FACTS, World, world, world_of_module

__all__ = ["world", "world_of_module"]


async def demoted(world: World, text: str = "I sail on Sundays.") -> str:
    """Say something, and let it be demoted; it may be archived from now on."""
    await world.retention.set_policy(ALL)
    await world.say(text)
    assert [{"demoted": 1}] == await world.fade(20)
    world.go(6)
    return (await world.retention.list_faded(ANN))[0].key


async def test_a_new_text_is_not_replaced_by_the_one_archived_meanwhile(world):
    await world.retention.set_policy({"semantic": ALL})
    await world.memory.remember(ANN, NewMemory(text="The old address is in Oslo.", key="addr"))
    await world.fade(20)
    world.go(6)
    with world.other() as other:
        assert [("semantic", "archived", 1)] == world.forgets(other)
        new = NewMemory(text="The new address is in Bergen.", key="addr")
        await world.meeting(other, world.memory.remember(ANN, new))
    assert [] == world.ask("SELECT FROM memory_archive")
    assert [(0, None)] == world.ask("SELECT stage, staged_at FROM memory_access")
    await world.fade(60, 6)
    assert {"The new address is in Bergen.": "archived"} == await world.faded()
    await world.retention.revive(ANN, "addr")
    assert {"The new address is in Bergen."} == await world.listed()


async def test_an_archived_text_that_was_left_behind_is_not_kept(world):
    await demoted(world, "The new address is in Bergen.")
    with world.other() as other:
        other.execute(
            "INSERT INTO memory_archive"
            " SELECT tenant_id, memory_id, 'Oslo', '{}', true, NULL, now() FROM memories"
        )
        other.commit()
    assert {"archived": 1} == await world.run()
    assert {"The new address is in Bergen.": "archived"} == await world.faded()


async def test_what_is_archived_while_it_is_restored_comes_back_whole(world):
    key = await demoted(world)
    before = world.ask("SELECT text, value, terms, term_count FROM memories")
    with world.other() as other:
        assert [("episodic", "archived", 1)] == world.forgets(other)
        assert 1 == await world.meeting(other, world.retention.revive(ANN, key))
    assert before == world.ask("SELECT text, value, terms, term_count FROM memories")
    assert [] == world.ask("SELECT FROM memory_archive")
    assert [(1,)] == world.ask("SELECT count(*) FROM embeddings")


@pytest.mark.parametrize("stage", ["demoted", "archived"])
async def test_what_moved_on_since_it_was_looked_at_is_looked_at_again(world, monkeypatch, stage):
    key = await demoted(world)
    look, then = reviving.read_faded, []

    async def looks(storage: Any, scope: Any, ids: Sequence[UUID]) -> Any:
        found = await look(storage, scope, ids)
        if not then:
            then.append(1)
            if stage == "demoted":
                assert {"archived": 1} == await world.run()
            else:
                assert [{"erased": 1}] == await world.fade(6)
        return found

    if stage == "archived":
        await world.run()
    monkeypatch.setattr(reviving, "read_faded", looks)
    gone = stage == "archived"
    assert (0 if gone else 1) == await world.retention.revive(ANN, key)
    assert (set() if gone else {"I sail on Sundays."}) == await world.listed()


async def test_a_memory_that_never_rests_is_a_conflict(world, monkeypatch):
    key = await demoted(world)

    async def stale(storage: Any, scope: Any, ids: Sequence[UUID]) -> Any:
        return [] if not ids else [*found]

    ids = [row[0] for row in world.ask("SELECT memory_id FROM memories")]
    found = await reviving.read_faded(world.memory._storage, ANN, ids)
    await world.run()
    monkeypatch.setattr(reviving, "read_faded", stale)
    with pytest.raises(Conflict, match="a memory was moved on meanwhile"):
        await world.retention.revive(ANN, key)
    assert {"I sail on Sundays.": "archived"} == await world.faded()


async def test_a_pin_that_waits_for_a_run_brings_back_what_the_run_demoted(world):
    await world.retention.set_policy(ALL)
    await world.say("I sail.")
    [one] = await world.memory.list_memories(ANN)
    world.go(20)
    with world.other() as other:
        assert [("episodic", "demoted", 1)] == world.forgets(other)
        assert 1 == await world.meeting(other, world.retention.pin(ANN, one.key))
    assert {"I sail."} == await world.listed()
    assert [{}] == await world.fade(400)


async def test_cleanup_at_once_spares_what_was_pinned_before_it_was_judged(world, monkeypatch):
    await world.say("I sail.", "I ski.")
    keys = {one.text: one.key for one in await world.memory.list_memories(ANN)}
    world.go(100)
    found = pages.weak_below

    async def pinned(*given: Any) -> Any:
        weak = await found(*given)
        assert 1 == await world.retention.pin(ANN, keys["I sail."])
        return weak

    monkeypatch.setattr(pages, "weak_below", pinned)
    assert ["I ski."] == [one.text for one in (await world.memory.cleanup(ANN)).forgotten]
    assert {"I sail."} == await world.listed()


async def test_erasing_in_sql_waits_for_no_pin_and_erases_none(world):
    await world.say("I sail.", "I ski.")
    world.go(100)
    call = "SELECT cleanup_low_value_memories(0.1, 7, p_as_of => %s)"
    with world.other() as pinning, world.other() as erasing:
        pinning.execute(
            "SELECT FROM memories WHERE text = 'I sail.' FOR KEY SHARE;"
            "UPDATE memory_access a SET pinned_at = now() FROM memories m"
            " WHERE m.memory_id = a.memory_id AND m.text = 'I sail.'"
        )
        assert (1,) == erasing.execute(call, [world.now]).fetchone()
        erasing.commit()
        pinning.commit()
        assert (0,) == erasing.execute(call, [world.now]).fetchone()
    assert {"I sail."} == await world.listed()


async def test_pinned_history_stays_when_its_fact_is_erased(world):
    await world.retention.set_policy({"semantic": FACTS})
    for city in ("Oslo", "Bergen", "Rome"):
        await world.memory.state_fact(ANN, "residence", city)
        world.go(0.1)
    ended = [one for one in await world.memory.facts(ANN, history=True) if one.valid_until]
    assert {"Oslo", "Bergen"} == {one.value for one in ended}
    [oslo] = [one for one in ended if one.value == "Oslo"]
    assert 1 == await world.retention.pin(ANN, oslo.key)
    await world.fade(2)
    world.go(2)
    told = await world.retention.forget_faded(dry_run=True)
    assert (1, {"semantic": 1}) == (told.of("erased"), told.along)
    report = await world.retention.forget_faded()
    assert (told.counts, told.along) == (
        {fate: dict(kinds) for fate, kinds in report.counts.items()}, report.along,
    )  # fmt: skip
    assert ["Oslo"] == [one.value for one in await world.memory.facts(ANN, history=True)]


async def test_pinned_summaries_that_were_replaced_stay(world):
    await world.retention.set_policy({"summary": FACTS, "episodic": None})
    await world.say("I play chess.", "Thanks!")
    for text in ("I keep bees in Oslo.", "Carla moved to Lisbon.", "I painted the fence."):
        await world.read(text)
    replaced = "SELECT memory_id FROM memories WHERE superseded_at IS NOT NULL AND kind = 'summary'"
    rows = world.ask(replaced)
    assert 2 == len(rows)
    assert 1 == await world.retention.pin(ANN, rows[0][0])
    for fate in ("demoted", "erased"):
        assert [{fate: 1}] == await world.fade(2)
    assert rows[:1] == world.ask(replaced)


async def test_history_that_somebody_pins_right_now_is_left_alone(world):
    await world.retention.set_policy({"semantic": FACTS})
    for city in ("Oslo", "Bergen"):
        await world.memory.state_fact(ANN, "residence", city)
    for days in (2, 2):
        world.go(days)
        with world.other() as other:
            other.execute("SELECT FROM memories WHERE superseded_at IS NOT NULL FOR KEY SHARE")
            await world.run()
    assert ["Oslo"] == [one.value for one in await world.memory.facts(ANN, history=True)]


async def test_undoing_a_run_takes_what_was_archived_of_it_along(world):
    await world.retention.set_policy({"summary": ALL, "episodic": None})
    await world.say("I play chess.", "Thanks!")
    first = (await world.read("I keep bees on the roof in Oslo.")).summary
    world.go(1)
    run = await world.read("My sister Carla moved to Lisbon and works at a bakery there.")
    assert "Carla" in run.summary and run.run_id
    for days, fate in ((20, "demoted"), (6, "archived")):
        assert [{fate: 1}] == await world.fade(days)
    await world.memory.undo_run(ANN, run.run_id)
    assert {} == await world.faded()
    summaries = await world.memory.list_memories(ANN, kinds=["summary"])
    assert [first] == [one.text for one in summaries]
    assert 0 == await world.retention.revive(ANN, summaries[0].key)
    assert [(0, True)] == world.ask(
        "SELECT stage, a.forget_at IS NOT NULL FROM memory_access a JOIN memories m"
        " USING (memory_id) WHERE kind = 'summary' AND m.superseded_at IS NULL"
    )


async def test_undoing_waits_for_who_archives(world):
    await world.retention.set_policy({"summary": ALL, "episodic": None})
    await world.say("I play chess.", "Thanks!")
    first = (await world.read("I keep bees on the roof in Oslo.")).summary
    run = await world.read("My sister Carla moved to Lisbon and works at a bakery there.")
    await world.fade(20)
    world.go(6)
    assert run.run_id
    with world.other() as other:
        assert [("summary", "archived", 1)] == world.forgets(other)
        await world.meeting(other, world.memory.undo_run(ANN, run.run_id))
    assert [] == world.ask("SELECT FROM memory_archive")
    assert [first] == [one.text for one in await world.memory.list_memories(ANN, kinds=["summary"])]


async def test_a_write_under_way_goes_by_the_policy_that_was_set_meanwhile(world):
    await world.retention.set_policy({"episodic": None})
    await world.say("first")
    with world.other() as other:
        other.execute("SELECT FROM threads FOR UPDATE")
        waiting = asyncio.ensure_future(world.say("second"))
        await world.until(lambda: world.waits("%"))
        policy = asyncio.ensure_future(world.retention.set_policy("sensitive"))
        await world.until(lambda: policy.done() or world.waits("advisory"))
        other.commit()
        await asyncio.gather(waiting, policy)
    assert [{"demoted": 2}] == await world.fade(365)


@pytest.mark.parametrize("place", ["all", "app", "user"])
async def test_a_policy_waits_for_those_it_concerns_alone(world, place):
    given: dict[str, Any] = {"all": {}, "app": {"app": "app"}, "user": {"scope": BOB}}[place]
    with world.other() as other:
        other.execute(
            "SELECT pg_advisory_xact_lock_shared(hashtextextended(path, 1))"
            " FROM unnest(ARRAY['/', '/app/', '/app/ann/']) AS path"
        )
        policy = world.retention.set_policy("sensitive", **given)
        if place == "user":
            await policy
        else:
            await world.meeting(other, policy)


async def test_telling_of_a_policy_that_was_cut_short_is_ended_by_the_next_run(world, monkeypatch):
    await world.retention.set_policy({"episodic": None})
    await world.say("one", "two", "three")
    monkeypatch.setattr(cleanups, "RETIMED_AT_ONCE", 1)
    tell, told = pages.retime_page, []

    async def dies(storage: Any, path: str, limit: int) -> Any:
        if len(told) == 2:
            raise ConnectionError("the process dies")
        told.append(path)
        return await tell(storage, path, limit)

    monkeypatch.setattr(pages, "retime_page", dies)
    with pytest.raises(ConnectionError):
        await world.retention.set_policy("sensitive")
    monkeypatch.undo()
    assert [(2,)] == world.ask("SELECT count(forget_at) FROM memory_access")
    assert [{"demoted": 3}] == await world.fade(365)
    assert [] == world.ask("SELECT FROM retimings")


async def test_sql_alone_finishes_telling_of_a_policy(world):
    await world.retention.set_policy({"episodic": None})
    await world.say("one")
    await world.memory._storage.retention.set_retention_rules("/", {"episodic": ALL})
    world.go(365)
    with world.other() as other:
        call = "SELECT cleanup_low_value_memories(p_as_of => %s)"
        assert (1,) == other.execute(call, [world.now]).fetchone()


async def test_policies_set_at_the_same_time_are_set_one_after_another(world):
    names = ("sensitive", "knowledge", "default", "low-interaction")
    await asyncio.gather(*(world.retention.set_policy(name, app="app") for name in names * 3))
    found = (await world.retention.policy(ANN))["episodic"]
    of_app = await world.retention.policy(app="app")
    assert {found} == {of_app[kind] for kind in ("episodic", "summary", "reflection")}


async def test_many_who_do_all_of_it_at_once_leave_every_memory_whole(world):
    await world.retention.set_policy(ALL)
    for thread in ("a", "b"):
        texts = [f"I sail {number} boats, {thread}." for number in range(60)]
        await world.say(*texts, thread=thread)
    for _ in range(3):
        world.go(30)
        ids = [str(row[0]) for row in world.ask("SELECT memory_id FROM memories")]
        retention, accesses = world.retention, world.memory.accesses
        await asyncio.gather(
            retention.forget_faded(), retention.forget_faded(),
            accesses.record_now(ANN, ids[:50]), retention.revive(ANN, ids[:40]),
            retention.pin(ANN, ids[20:30]), retention.set_policy(ALL, app="app"),
        )  # fmt: skip
        wrong = world.ask(
            "SELECT stage, m.demoted_at, m.text, x.text FROM memories m JOIN memory_access a"
            " USING (memory_id) LEFT JOIN memory_archive x USING (memory_id)"
            " WHERE (stage > 0) <> (m.demoted_at IS NOT NULL) OR (stage = 2) <> (m.text = '')"
            " OR (stage = 2) <> (x.text IS NOT NULL) OR stage > 0 AND pinned_at IS NOT NULL"
        )
        assert [] == wrong


async def test_a_run_goes_on_where_somebody_works_on_the_first_it_meets(world):
    await world.say("I sail.")
    world.go(0.1)
    await world.say("I ski.", scope=BOB)
    world.go(60)
    with world.other() as other:
        other.execute("SELECT FROM memories WHERE text = 'I sail.' FOR UPDATE")
        storage = world.memory._storage
        report = await cleanups.forget_faded(storage, lambda: world.now, None, None, batch=1)
    assert 1 == report.total
    assert ({"I sail."}, set()) == (await world.listed(), await world.listed(BOB))
