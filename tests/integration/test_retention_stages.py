"""What has faded leaves recall, is compacted, and is erased: a stage a time, as policies say.

What is demoted is out of recall and listings, and comes back when it is written again.
"""

import asyncio
from uuid import uuid4

import pytest
from person import Person

import shared_core as core
from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core.core.retention_policy import POLICIES
from tests.integration.retention_world import ALL, ANN, BOB, opened_world, world, world_of_module

__all__ = ["world", "world_of_module"]
EVE = core.Scope("other", "eve")


async def test_a_memory_goes_through_its_stages_and_nothing_early(world):
    await world.retention.set_policy(ALL)
    await world.say("I sail.")
    assert [{}, {"demoted": 1}] == await world.fade(19.4, 0.1)
    assert {} == await world.run()
    assert (set(), {"I sail.": "demoted"}) == (await world.listed(), await world.faded())
    assert [] == await world.memory.recall(ANN, "sail")
    assert [{}, {"archived": 1}] == await world.fade(4.9, 0.1)
    assert {"I sail.": "archived"} == await world.faded()
    assert [("", {}, 0)] == world.ask("SELECT text, value, term_count FROM memories")
    assert [(0,)] == world.ask("SELECT count(*) FROM embeddings")
    assert [{"erased": 1}] == await world.fade(5)
    assert {} == await world.faded()
    for table in ("memories", "memory_access", "memory_archive", "memory_sources", "events"):
        assert [(0,)] == world.ask(f"SELECT count(*) FROM {table}"), table
    await world.say("I sail.")
    assert set() == await world.listed()


async def test_one_run_moves_each_memory_once_as_a_dry_run_says(world):
    at_once = {"archive_after_days": 0, "erase_after_days": 0}
    policy = core.RetentionPolicy(archive_threshold=1, erase_threshold=1, **at_once)
    await world.retention.set_policy(policy)
    await world.say(*(f"I sail {number} boats." for number in range(5)))
    world.go(100)
    for fate in ("demoted", "archived", "erased"):
        before = world.ask("SELECT ctid, xmin FROM memory_access ORDER BY 1")
        told = await world.retention.forget_faded(ANN, dry_run=True, limit=2)
        assert (5, 2, {fate}) == (told.total, len(told.listed), {one.fate for one in told.listed})
        assert "score" in told.listed[0].why and "0 reads" in told.listed[0].why
        assert before == world.ask("SELECT ctid, xmin FROM memory_access ORDER BY 1")
        report = await world.retention.forget_faded(ANN)
        assert told.counts == {name: dict(kinds) for name, kinds in report.counts.items()}
        world.go(0.001)
    assert {} == await world.run()


async def test_what_is_restored_is_as_it_was_and_begins_anew(world):
    await world.retention.set_policy(ALL)
    await world.say("I sail on Sundays.", "我每天早上喝绿茶。")
    columns = "SELECT text, value, terms, term_count FROM memories ORDER BY memory_id"
    before = world.ask(columns)
    for days, stage in ((20, "demoted"), (6, "archived")):
        world.go(days)
        await world.run()
        kept = await world.retention.list_faded(ANN)
        assert {stage} == {one.stage for one in kept}
        assert 2 == await world.retention.revive(ANN, [one.key for one in kept])
        assert 0 == await world.retention.revive(ANN, [one.key for one in kept])
        assert before == world.ask(columns)
        assert [(2,)] == world.ask("SELECT count(*) FROM embeddings")
        assert [(0,)] == world.ask("SELECT count(*) FROM memory_archive")
        found = await world.memory.search(ANN, "sailing")
        assert "I sail on Sundays." in [hit.memory.text for hit in found]
        assert [{}] == await world.fade(19.4)
        if stage == "demoted":
            await world.fade(20)


async def test_what_is_pinned_stays_and_comes_back(world):
    await world.retention.set_policy(ALL)
    await world.say("I sail.", "I ski.", "I row.")
    keys = {one.text: one.key for one in await world.memory.list_memories(ANN)}
    assert 1 == await world.retention.pin(ANN, keys["I sail."])
    assert [{"demoted": 2}] == await world.fade(20)
    assert 1 == await world.retention.pin(ANN, keys["I ski."])
    assert {"I sail.", "I ski."} == await world.listed()
    world.go(1000)
    await world.memory.recall(ANN, "sail")  # reading it does not unpin it
    await world.memory.flush()
    await world.retention.set_policy("sensitive", ANN)
    world.go(1000)
    await world.run()
    assert {"I sail.", "I ski."} == await world.listed()
    at_once = await world.memory.cleanup(ANN, core.RetentionPolicy(threshold=1))
    assert {"I row."} >= {one.text for one in at_once.forgotten}
    assert {"I sail.", "I ski."} == await world.listed()
    assert 2 == await world.retention.unpin(ANN, list(keys.values()))
    assert 0 == await world.retention.unpin(ANN, list(keys.values()))
    world.go(1000)
    assert 2 == (await world.run())["demoted"]
    assert 0 == await world.retention.pin(ANN, ["no such key"])


async def test_kinds_that_never_fade_and_policies_of_a_user_an_app_and_all(world):
    for scope in (ANN, BOB, EVE):
        await world.say("I sail.", scope=scope)
        await world.memory.remember(scope, core.NewMemory(text="About sails.", kind="summary"))
    await world.retention.set_policy("knowledge", app="app")
    assert 2 == await world.retention.set_policy("sensitive", BOB, never=["summary"])
    assert [{"demoted": 3}] == await world.fade(20)
    assert {"I sail.", "About sails."} == await world.listed(ANN)
    assert {"About sails."} == await world.listed(BOB)
    assert set() == await world.listed(EVE)
    assert 0.02 == (await world.retention.policy(ANN))["episodic"].decay_rate  # type: ignore[union-attr]
    assert (await world.retention.policy(BOB))["summary"] is None
    assert POLICIES["default"] == (await world.retention.policy())["episodic"]
    await world.retention.set_policy(None, BOB)
    assert POLICIES["knowledge"] == (await world.retention.policy(BOB))["summary"]


async def test_a_new_policy_holds_for_what_is_there(world):
    await world.say("I sail.")
    assert [{}] == await world.fade(10)
    assert 1 == await world.retention.set_policy("sensitive", app="app")
    assert 0 == await world.retention.set_policy("sensitive", app="app")
    assert {"demoted": 1} == await world.run()


async def test_a_policy_that_was_changed_by_hand_is_looked_at_before_anything_goes(world):
    await world.retention.set_policy("default")
    await world.say("I sail.")
    with world.other() as superuser:
        superuser.execute("UPDATE retention_policies SET decay_rate = 0.05")
        superuser.commit()
    world.go(20)
    report = await world.retention.forget_faded()
    assert (0, 1) == (report.total, report.retimed)
    assert 0 == (await world.retention.forget_faded()).retimed


async def test_a_summary_leaves_its_facts_and_an_erased_turn_too(world):
    await world.retention.set_policy(ALL)
    await world.read("I live in Leeds.")
    await world.fade(30, 30, 30)
    [fact] = await world.memory.facts(ANN)
    assert ({fact.statement}, {}) == (await world.listed(), await world.faded())
    assert "Leeds" in fact.statement
    assert 1 <= await world.memory.forget_thread(ANN, "t")  # it still reaches the fact
    assert [] == await world.memory.facts(ANN)


async def test_an_erased_turn_leaves_the_summary_that_quotes_it_until_that_is_written_anew(world):
    await world.retention.set_policy({"episodic": ALL, "summary": None})
    await world.say("I play chess.", "Thanks!")
    await world.read("I keep bees on the roof.")
    await world.fade(40, 40, 40)
    summary = await world.memory.thread_summary(ANN, "t")
    assert summary and "bees" in summary.text
    assert "I sold the hives." == (await world.read("I sold the hives.")).summary
    await world.memory.forget(ANN, summary.key)
    await world.say("The canal froze.")
    assert "Ghent" in (anew := (await world.read("I moved to Ghent.")).summary)
    assert "bees" not in anew


async def test_statistics_count_kinds_stages_and_scores_of_whom_they_are_asked_for(world):
    await world.say("I sail.")
    world.go(20)
    await world.run()
    await world.say("I row.", thread="now")
    await world.memory.remember(ANN, core.NewMemory(text="Ann is tall.", key="f", importance=10))
    await world.retention.pin(ANN, "f")
    await world.say("I ski.", scope=BOB)
    await world.say("I swim.", scope=EVE)
    of_ann = await world.retention.stats(ANN, days=[30, 5])
    assert {"episodic", "semantic"} == set(of_ann.kinds)
    turns, facts = of_ann.kinds["episodic"], of_ann.kinds["semantic"]
    assert (2, 2, 0) == (turns.count, turns.fades, turns.pinned)
    assert (1, 0, 1) == (facts.count, facts.fades, facts.pinned)
    assert {"kept": 1, "demoted": 1, "archived": 0} == dict(turns.stages)
    assert {0: 1, 7: 1} == {n: count for n, count in enumerate(turns.buckets) if count}
    assert [0] * 9 + [1] == list(facts.buckets)
    assert (world.now, [30, 5]) == (of_ann.as_of, list(of_ann.ahead))
    assert 1 == of_ann.ahead[30]["demoted"] and 0 == of_ann.ahead[5]["demoted"]
    for scope, app, count in ((ANN, None, 3), (None, "app", 4), (None, None, 5)):
        assert count == (await world.retention.stats(scope, app=app)).total.count
    assert 3 == of_ann.to_dict()["count"]
    nobody = await world.retention.stats(core.Scope("app", "nobody"))
    assert (0, None) == (nobody.total.count, nobody.total.average_score)


@pytest.mark.parametrize("with_history", [True, False])
async def test_facts_fade_if_they_are_told_to_and_take_their_history(world, with_history):
    erased = {"archive_threshold": None, "erase_threshold": 1, "erase_after_days": 1}
    policy = core.RetentionPolicy(with_history=with_history, **erased)
    await world.retention.set_policy({"semantic": policy, "episodic": None, "summary": None})
    await world.read("I live in Leeds.")
    world.go(1)
    await world.read("I moved to Rome.")
    assert 2 == len(await world.memory.facts(ANN, history=True))
    world.go(30)
    assert 1 == (await world.run())["demoted"]
    assert [] == await world.memory.facts(ANN)
    world.go(2)
    assert 1 == (await world.run())["erased"]
    [(left,)] = world.ask("SELECT count(*) FROM facts")
    assert left == (0 if with_history else 1)


async def test_runs_of_one_user_leave_the_others(world):
    for scope in (ANN, BOB):
        await world.say("I sail.", scope=scope)
    world.go(20)
    assert {"demoted": 1} == await world.run(ANN)
    assert (set(), {"I sail."}) == (await world.listed(ANN), await world.listed(BOB))
    assert 1 == (await world.retention.forget_faded(app="app")).of("demoted")


async def test_many_runs_at_once_move_each_memory_once(world):
    await world.say(*(f"I sail {number} boats." for number in range(60)))
    world.go(20)
    async with core.open_memory(world.dsn, clock=lambda: world.now, worker=False) as other:
        runs = [memory.retention.forget_faded() for memory in (world.memory, other) * 3]
        reports = await asyncio.gather(*runs)
    await world.run()
    assert [(60, 1, 1)] == world.ask("SELECT count(*), min(stage), max(stage) FROM memory_access")
    assert sum(report.total for report in reports) <= 60


async def test_what_somebody_works_on_is_left_for_the_next_run(world):
    await world.say("I sail.", "I ski.")
    world.go(20)
    with world.other() as busy:
        busy.execute("SELECT FROM memories WHERE text = 'I ski.' FOR UPDATE")
        assert {"demoted": 1} == await asyncio.wait_for(world.run(), 30)
        assert {"I ski."} == await world.listed()
    assert [{"demoted": 1}] == await world.fade(0.001)


async def test_an_archived_summary_is_made_anew_and_its_archive_goes(world):
    await world.retention.set_policy(ALL)
    await world.say("I live in Leeds.", "I love tea.")
    await world.memory.consolidate(ANN, "t")
    await world.fade(30, 30)
    report = await world.read("I sail on Sundays.")
    assert "Leeds" in report.summary
    summaries = await world.memory.list_memories(ANN, kinds=["summary"])
    assert [report.summary] == [one.text for one in summaries]
    assert [("episodic",)] == world.ask(
        "SELECT DISTINCT m.kind FROM memory_archive JOIN memories m USING (tenant_id, memory_id)"
    )
    assert report.run_id
    await world.memory.undo_run(ANN, report.run_id)
    assert [] == [one.text for one in await world.memory.list_memories(ANN, kinds=["summary"])]


async def test_erasing_a_user_erases_archive_and_policy_and_what_cannot_be_one_is_refused(world):
    await world.retention.set_policy(ALL, ANN)
    await world.say("I sail.")
    await world.fade(20, 20)
    assert [(1,)] == world.ask("SELECT count(*) FROM memory_archive")
    assert 1 == await world.memory.forget_scope(ANN)
    assert [(0,)] == world.ask("SELECT count(*) FROM memory_archive")
    assert [(0,)] == world.ask("SELECT count(*) FROM retention_policies WHERE tenant_id <> '/'")
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
        with pytest.raises(core.InvalidInput, match=told):
            await attempt


async def test_a_cleanup_takes_the_name_of_a_policy(shared_memory, scope):
    memory = shared_memory
    named = await memory.cleanup(scope, "sensitive", dry_run=True)
    assert named == await memory.cleanup(scope, POLICIES["sensitive"], dry_run=True)
    for wrong in ("gentle", 5):
        with pytest.raises(core.InvalidInput, match="gentle|int"):
            await memory.cleanup(scope, wrong)  # type: ignore[arg-type]


def demote(ann: Person, text: str) -> None:
    update = "UPDATE hippocampus.memories SET demoted_at = now()"
    ann.sql(f"{update} WHERE tenant_id = %(tenant)s AND text = %(text)s", text=text)


async def test_no_way_of_finding_finds_what_is_demoted(ann):
    await ann.remember(["green tea", "black tea"])
    demote(ann, "green tea")
    assert ["black tea"] == [hit.memory.text for hit in await ann.recall("green tea")]
    assert ["black tea"] == [hit.memory.text for hit in await ann.search("green tea")]
    [black] = await ann.list_memories()
    then = await ann.list_memories(as_of=core.AsOf(known=black.created_at))
    assert ["black tea"] == [black.text] == [one.text for one in then]


async def test_what_is_written_again_is_found_again(ann):
    await ann.remember(core.NewMemory(text="green tea", key="k"))
    demote(ann, "green tea")
    await ann.remember(core.NewMemory(text="green tea, daily", key="k"))
    assert ["green tea, daily"] == [hit.memory.text for hit in await ann.recall("tea")]


def test_a_store_lists_and_searches_without_it_and_gets_it_by_name(ann):
    place = memories_namespace(ann.scope.app, ann.scope.user)
    store = PgHippocampusStore(engine=ann.memory)
    store.put(place, "k", {"text": "green tea"})
    demote(ann, "green tea")
    assert [] == store.search(place) == store.search(place, query="tea")
    found = store.get(place, "k")
    assert found is not None
    assert {"text": "green tea"} == found.value


@pytest.mark.both_engines
async def test_a_manager_keeps_what_is_read_and_cleans_up_the_rest(dsn):
    async with opened_world(dsn) as world:
        for scope in (ANN, BOB):
            await world.say("I sail.", "I ski.", scope=scope)
        memory, keeper = world.memory, core.MemoryRetentionManager(world.memory, ANN)
        assert {"high": 2, "medium": 0, "low": 0} == await keeper.get_retention_distribution()
        world.go(10)
        assert {"high": 0, "medium": 0, "low": 2} == await keeper.get_retention_distribution()
        [sail] = [one for one in await memory.list_memories(ANN) if one.text == "I sail."]
        await keeper.record_access(sail.memory_id)
        await keeper.record_batch_access([str(sail.memory_id), uuid4()])
        assert 2 == (await memory.accesses(ANN, [sail.memory_id]))[sail.memory_id].access_count
        world.go(10)
        planned = await keeper.cleanup_low_value_memories(dry_run=True)
        assert (2, 1) == (planned.total_memories, planned.cleaned_count)
        assert 0 == (await keeper.cleanup_low_value_memories(threshold=0)).cleaned_count
        assert 0 == (await keeper.cleanup_low_value_memories(min_age_days=21)).cleaned_count
        done = await keeper.cleanup_low_value_memories()
        assert done == core.MemoryStats(
            total_memories=1, high_value_count=0, medium_value_count=1, low_value_count=0,
            avg_retention_score=pytest.approx(0.54, abs=0.01), cleaned_count=1,
        )  # fmt: skip
        assert 2 == len(await memory.list_memories(BOB))
        with pytest.raises(core.InvalidInput, match="memory_ids must be UUIDs"):
            await keeper.record_access("sail")
