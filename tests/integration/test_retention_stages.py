"""What has faded leaves recall, is compacted, and is erased: a stage a time, as policies say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from shared_core import InvalidInput, MemoryEngine, NewMemory, RetentionPolicy, Scope, open_memory
from shared_core.core.retention_policy import POLICIES
from tests.integration import retention_world
from tests.integration.retention_world import ALL, ANN, BOB

EVE = Scope("other", "eve")


class World(retention_world.World):
    """The same, for several users."""

    async def say(self, scope: Scope, *texts: str, thread: str = "t") -> None:
        await super().say(*texts, thread=thread, scope=scope)


@pytest.fixture
async def world(dsn: str) -> AsyncIterator[World]:
    async with open_memory(dsn, clock=lambda: found.now, worker=False) as memory:
        found = World(memory, dsn)
        yield found


async def test_a_memory_goes_through_its_stages_and_nothing_early(world: World) -> None:
    await world.memory.retention.set_policy(ALL)
    await world.say(ANN, "I sail.")
    world.go(19.4)
    assert {} == await world.run()
    world.go(0.1)
    assert {"demoted": 1} == await world.run()
    assert {} == await world.run()
    assert (set(), {"I sail.": "demoted"}) == (await world.listed(), await world.faded())
    assert [] == await world.memory.recall(ANN, "sail")
    world.go(4.9)
    assert {} == await world.run()
    world.go(0.1)
    assert {"archived": 1} == await world.run()
    assert {"I sail.": "archived"} == await world.faded()
    assert [("", {}, 0)] == world.ask("SELECT text, value, term_count FROM memories")
    assert [(0,)] == world.ask("SELECT count(*) FROM embeddings")
    world.go(5)
    assert {"erased": 1} == await world.run()
    assert {} == await world.faded()
    for table in ("memories", "memory_access", "memory_archive", "memory_sources", "events"):
        assert [(0,)] == world.ask(f"SELECT count(*) FROM {table}"), table
    await world.say(ANN, "I sail.")
    assert set() == await world.listed()


async def test_one_run_moves_each_memory_once_as_a_dry_run_says(world: World) -> None:
    policy = RetentionPolicy(
        archive_threshold=1, archive_after_days=0, erase_threshold=1, erase_after_days=0
    )
    await world.memory.retention.set_policy(policy)
    await world.say(ANN, *(f"I sail {number} boats." for number in range(5)))
    world.go(100)
    for fate in ("demoted", "archived", "erased"):
        before = world.ask("SELECT ctid, xmin FROM memory_access ORDER BY 1")
        told = await world.memory.retention.forget_faded(ANN, dry_run=True, limit=2)
        assert (5, 2, {fate}) == (told.total, len(told.listed), {one.fate for one in told.listed})
        assert "score" in told.listed[0].why and "0 reads" in told.listed[0].why
        assert before == world.ask("SELECT ctid, xmin FROM memory_access ORDER BY 1")
        report = await world.memory.retention.forget_faded(ANN)
        assert told.counts == {name: dict(kinds) for name, kinds in report.counts.items()}
        world.go(0.001)
    assert {} == await world.run()


async def test_what_is_restored_is_as_it_was_and_begins_anew(world: World) -> None:
    await world.memory.retention.set_policy(ALL)
    await world.say(ANN, "I sail on Sundays.", "我每天早上喝绿茶。")
    before = world.ask("SELECT text, value, terms, term_count FROM memories ORDER BY memory_id")
    for days, stage in ((20, "demoted"), (6, "archived")):
        world.go(days)
        await world.run()
        kept = await world.memory.retention.list_faded(ANN)
        assert {stage} == {one.stage for one in kept}
        assert 2 == await world.memory.retention.revive(ANN, [one.key for one in kept])
        assert 0 == await world.memory.retention.revive(ANN, [one.key for one in kept])
        assert before == world.ask(
            "SELECT text, value, terms, term_count FROM memories ORDER BY memory_id"
        )
        assert [(2, 0)] == world.ask(
            "SELECT count(*), (SELECT count(*) FROM memory_archive) FROM embeddings"
        )
        assert "I sail on Sundays." in [
            hit.memory.text for hit in await world.memory.search(ANN, "sailing")
        ]
        world.go(19.4)
        assert {} == await world.run()
        if stage == "demoted":
            world.go(20)
            await world.run()


async def test_what_is_pinned_stays_and_comes_back(world: World) -> None:
    await world.memory.retention.set_policy(ALL)
    await world.say(ANN, "I sail.", "I ski.", "I row.")
    keys = {one.text: one.key for one in await world.memory.list_memories(ANN)}
    assert 1 == await world.memory.retention.pin(ANN, keys["I sail."])
    world.go(20)
    assert {"demoted": 2} == await world.run()
    assert 1 == await world.memory.retention.pin(ANN, keys["I ski."])
    assert {"I sail.", "I ski."} == await world.listed()
    world.go(1000)
    await world.memory.recall(ANN, "sail")  # reading it does not unpin it
    await world.memory.flush()
    await world.memory.retention.set_policy("sensitive", ANN)
    world.go(1000)
    await world.run()
    assert {"I sail.", "I ski."} == await world.listed()
    at_once = await world.memory.cleanup(ANN, RetentionPolicy(threshold=1))
    assert {"I row."} >= {one.text for one in at_once.forgotten}
    assert {"I sail.", "I ski."} == await world.listed()
    assert 2 == await world.memory.retention.unpin(ANN, list(keys.values()))
    assert 0 == await world.memory.retention.unpin(ANN, list(keys.values()))
    world.go(1000)
    assert 2 == (await world.run())["demoted"]
    assert 0 == await world.memory.retention.pin(ANN, ["no such key"])


async def test_kinds_that_never_fade_and_policies_of_a_user_an_app_and_all(world: World) -> None:
    for scope in (ANN, BOB, EVE):
        await world.say(scope, "I sail.")
        await world.memory.remember(scope, NewMemory(text="About sails.", kind="summary"))
    await world.memory.retention.set_policy("knowledge", app="app")
    changed = await world.memory.retention.set_policy("sensitive", BOB, never=["summary"])
    assert 2 == changed
    world.go(20)
    assert {"demoted": 3} == await world.run()
    assert {"I sail.", "About sails."} == await world.listed(ANN)
    assert {"About sails."} == await world.listed(BOB)
    assert set() == await world.listed(EVE)
    assert 0.02 == (await world.memory.retention.policy(ANN))["episodic"].decay_rate  # type: ignore[union-attr]
    assert (await world.memory.retention.policy(BOB))["summary"] is None
    assert POLICIES["default"] == (await world.memory.retention.policy())["episodic"]
    await world.memory.retention.set_policy(None, BOB)
    rules = await world.memory.retention.policy(BOB)
    assert POLICIES["knowledge"] == rules["summary"]


async def test_a_new_policy_holds_for_what_is_there(world: World) -> None:
    await world.say(ANN, "I sail.")
    world.go(10)
    assert {} == await world.run()
    assert 1 == await world.memory.retention.set_policy("sensitive", app="app")
    assert 0 == await world.memory.retention.set_policy("sensitive", app="app")
    assert {"demoted": 1} == await world.run()


async def test_a_policy_that_was_changed_by_hand_is_looked_at_before_anything_goes(
    world: World,
) -> None:
    await world.memory.retention.set_policy("default")
    await world.say(ANN, "I sail.")
    with psycopg.connect(world.dsn) as superuser:
        superuser.execute("UPDATE hippocampus.retention_policies SET decay_rate = 0.05")
    world.go(20)
    report = await world.memory.retention.forget_faded()
    assert (0, 1) == (report.total, report.retimed)
    assert 0 == (await world.memory.retention.forget_faded()).retimed


async def test_a_summary_leaves_its_facts_and_an_erased_turn_too(world: World) -> None:
    await world.memory.retention.set_policy(ALL)
    await world.say(ANN, "I live in Leeds.")
    await world.memory.consolidate(ANN, "t")
    for _ in range(3):
        world.go(30)
        await world.run()
    [fact] = await world.memory.facts(ANN)
    assert ({fact.statement}, {}) == (await world.listed(), await world.faded())
    assert "Leeds" in fact.statement
    assert 1 <= await world.memory.forget_thread(ANN, "t")  # it still reaches the fact
    assert [] == await world.memory.facts(ANN)


async def test_an_erased_turn_leaves_the_summary_that_quotes_it_until_that_is_written_anew(
    world: World,
) -> None:
    await world.memory.retention.set_policy({"episodic": ALL, "summary": None})
    await world.say(ANN, "I keep bees on the roof.")
    await world.memory.consolidate(ANN, "t")
    for _ in range(3):
        world.go(40)
        await world.run()
    summary = await world.memory.thread_summary(ANN, "t")
    assert summary and "bees" in summary.text
    await world.memory.forget(ANN, summary.key)
    await world.say(ANN, "I moved to Ghent.")
    assert "Ghent" in (anew := (await world.memory.consolidate(ANN, "t")).summary)
    assert "bees" not in anew


async def test_statistics_count_kinds_stages_and_scores_of_whom_they_are_asked_for(
    world: World,
) -> None:
    await world.say(ANN, "I sail.")
    world.go(20)
    await world.run()
    await world.say(ANN, "I row.", thread="now")
    await world.memory.remember(ANN, NewMemory(text="Ann is tall.", key="f", importance=10))
    await world.memory.retention.pin(ANN, "f")
    await world.say(BOB, "I ski.")
    await world.say(EVE, "I swim.")
    of_ann = await world.memory.retention.stats(ANN, days=[30, 5])
    assert {"episodic", "semantic"} == set(of_ann.kinds)
    turns, facts = of_ann.kinds["episodic"], of_ann.kinds["semantic"]
    assert (2, 2, 0) == (turns.count, turns.fades, turns.pinned)
    assert (1, 0, 1) == (facts.count, facts.fades, facts.pinned)
    assert {"kept": 1, "demoted": 1, "archived": 0} == dict(turns.stages)
    assert {0: 1, 7: 1} == {n: count for n, count in enumerate(turns.buckets) if count}
    assert [0] * 9 + [1] == list(facts.buckets)
    assert (world.now, [30, 5]) == (of_ann.as_of, list(of_ann.ahead))
    assert 1 == of_ann.ahead[30]["demoted"] and 0 == of_ann.ahead[5]["demoted"]
    assert [3, 4, 5] == [
        (await world.memory.retention.stats(scope, app=app)).total.count
        for scope, app in ((ANN, None), (None, "app"), (None, None))
    ]
    assert 3 == of_ann.to_dict()["count"]
    nobody = await world.memory.retention.stats(Scope("app", "nobody"))
    assert (0, None) == (nobody.total.count, nobody.total.average_score)


@pytest.mark.parametrize("with_history", [True, False])
async def test_facts_fade_if_they_are_told_to_and_take_their_history(
    world: World, with_history: bool
) -> None:
    policy = RetentionPolicy(
        archive_threshold=None, erase_threshold=1, erase_after_days=1, with_history=with_history
    )
    await world.memory.retention.set_policy({"semantic": policy, "episodic": None, "summary": None})
    await world.say(ANN, "I live in Leeds.")
    await world.memory.consolidate(ANN, "t")
    world.go(1)
    await world.say(ANN, "I moved to Rome.")
    await world.memory.consolidate(ANN, "t")
    assert 2 == len(await world.memory.facts(ANN, history=True))
    world.go(30)
    assert 1 == (await world.run())["demoted"]
    assert [] == await world.memory.facts(ANN)
    world.go(2)
    assert 1 == (await world.run())["erased"]
    [(left,)] = world.ask("SELECT count(*) FROM facts")
    assert left == (0 if with_history else 1)


async def test_runs_of_one_user_leave_the_others(world: World) -> None:
    for scope in (ANN, BOB):
        await world.say(scope, "I sail.")
    world.go(20)
    assert {"demoted": 1} == await world.run(ANN)
    assert (set(), {"I sail."}) == (await world.listed(ANN), await world.listed(BOB))
    report = await world.memory.retention.forget_faded(app="app")
    assert 1 == report.of("demoted")


async def test_many_runs_at_once_move_each_memory_once(world: World, dsn: str) -> None:
    await world.say(ANN, *(f"I sail {number} boats." for number in range(60)))
    world.go(20)
    async with open_memory(dsn, clock=lambda: world.now, worker=False) as other:
        reports = await asyncio.gather(
            *(memory.retention.forget_faded() for memory in (world.memory, other) * 3)
        )
    await world.run()
    with psycopg.connect(dsn) as superuser:
        [row] = superuser.execute(
            "SELECT count(*), min(stage), max(stage) FROM hippocampus.memory_access"
        ).fetchall()
    assert (60, 1, 1) == row
    assert sum(report.total for report in reports) <= 60


async def test_what_somebody_works_on_is_left_for_the_next_run(world: World) -> None:
    await world.say(ANN, "I sail.", "I ski.")
    world.go(20)
    with psycopg.connect(world.dsn) as busy:
        busy.execute("SELECT FROM hippocampus.memories WHERE text = 'I ski.' FOR UPDATE")
        assert {"demoted": 1} == await asyncio.wait_for(world.run(), 30)
        assert {"I ski."} == await world.listed()
    world.go(0.001)
    assert {"demoted": 1} == await world.run()


async def test_an_archived_summary_is_made_anew_and_its_archive_goes(world: World) -> None:
    await world.memory.retention.set_policy(ALL)
    await world.say(ANN, "I live in Leeds.", "I love tea.")
    await world.memory.consolidate(ANN, "t")
    for _ in range(2):
        world.go(30)
        await world.run()
    await world.say(ANN, "I sail on Sundays.")
    report = await world.memory.consolidate(ANN, "t")
    assert "Leeds" in report.summary
    summaries = await world.memory.list_memories(ANN, kinds=["summary"])
    assert [report.summary] == [one.text for one in summaries]
    assert [("episodic",)] == world.ask(
        "SELECT DISTINCT m.kind FROM memory_archive JOIN memories m USING (tenant_id, memory_id)"
    )
    assert report.run_id
    await world.memory.undo_run(ANN, report.run_id)
    assert [] == [one.text for one in await world.memory.list_memories(ANN, kinds=["summary"])]


async def test_erasing_a_user_erases_archive_and_policy(world: World) -> None:
    await world.memory.retention.set_policy(ALL, ANN)
    await world.say(ANN, "I sail.")
    for _ in range(2):
        world.go(20)
        await world.run()
    assert [(1,)] == world.ask("SELECT count(*) FROM memory_archive")
    assert 1 == await world.memory.forget_scope(ANN)
    assert [(0,)] == world.ask("SELECT count(*) FROM memory_archive")
    assert [(0,)] == world.ask("SELECT count(*) FROM retention_policies WHERE tenant_id <> '/'")


async def test_what_cannot_be_a_policy_is_refused(world: World) -> None:
    memory = world.memory
    for attempt, told in (
        (memory.retention.set_policy("forgetful"), "'forgetful' is not known: take default"),
        (memory.retention.set_policy("default", ANN, app="app"), "a scope or an app, not both"),
        (memory.retention.set_policy("default", never=["facts"]), "kind 'facts' is not known"),  # type: ignore[list-item]
        (memory.retention.set_policy({"semantic": 3}), "must be a RetentionPolicy or None"),  # type: ignore[dict-item]
        (memory.retention.set_policy(3), "got int"),  # type: ignore[arg-type]
        (memory.retention.set_policy(None, never=["item"]), "give a policy"),
        (memory.retention.list_faded(ANN, stages=["erased"]), "stage 'erased' is not known"),  # type: ignore[list-item]
        (memory.retention.list_faded(ANN, limit=-1), "limit must be"),
        (memory.retention.forget_faded(limit=-1), "limit must be"),
        (memory.retention.policy(app=""), "app must not be empty"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=told):
            await attempt


async def test_a_cleanup_takes_the_name_of_a_policy(memory: MemoryEngine) -> None:
    named = await memory.cleanup(ANN, "sensitive", dry_run=True)
    assert named == await memory.cleanup(ANN, POLICIES["sensitive"], dry_run=True)
    for wrong in ("gentle", 5):
        with pytest.raises(InvalidInput, match="gentle|int"):
            await memory.cleanup(ANN, wrong)  # type: ignore[arg-type]
