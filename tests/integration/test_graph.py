"""The graph: facts are edges, what changes one changes both, and recall brings edges along."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import psycopg
import pytest
from person import Person, at, then

from shared_core import AsOf, CapabilityMissing, Conflict, InvalidInput, NotFound
from shared_core.core.domain import Extraction, TripleDraft
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.ports.graph import Operation

ENGLISH = ("I work at Google.", "I work at Meta.", "I no longer work at Meta.", "Google", "Meta")
CHINESE = ("我在谷歌工作。", "我在华为工作。", "我不在华为工作了。", "谷歌", "华为")


async def employers(ann: Person) -> tuple[list[str], list[str]]:
    """The current employers of the user, as facts and as edges: always the same."""
    facts = [fact.value for fact in await ann.facts("employer")]
    around = await ann.graph.neighbourhood("user", depth=1)
    return facts, [one.object for one in around.edges if one.relation == "works_at"]


@pytest.mark.parametrize("spoken", [ENGLISH, CHINESE])
async def test_a_fact_and_its_edge_live_and_end_together(ann, spoken):
    first, second, over, one, other = spoken
    await ann.say(1, first)
    assert ([one], [one]) == await employers(ann)
    changed = await ann.say(2, second)
    assert ([other], [other]) == await employers(ann)
    [old, new] = await ann.graph.history("user")
    assert (one, False, ("e1",)) == (old.object, old.current, old.source_event_ids)
    assert (other, True, ("e2",)) == (new.object, new.current, new.source_event_ids)
    past = (await ann.facts("employer", history=True))[-1]
    assert (old.valid_until, old.fact_id) == (at(2), past.memory_id)
    await ann.undo_run(changed)
    assert ([one], [one]) == await employers(ann)
    await ann.consolidate("t")
    ended = await ann.say(3, over)
    assert ([], []) == await employers(ann)
    await ann.undo_run(ended)
    assert ([other], [other]) == await employers(ann)
    await ann.forget_turns("t", ["e2"])
    assert ([], []) == await employers(ann)
    assert [one] == [edge.object for edge in await ann.graph.history("user")]


async def test_a_fact_of_any_extractor_is_an_edge(ann_with):
    class WithoutEdges(RuleExtractor):
        async def extract(self, events: Any, context: Any) -> Extraction:
            found = await super().extract(events, context)
            return Extraction(
                facts=found.facts,
                triples=[TripleDraft(subject="User", relation="resides in", object="Oslo",
                                     event_id="e1")],
            )  # fmt: skip

    ann = ann_with(extractor=WithoutEdges())
    await ann.say(1, "I work at Google.")
    await ann.say(2, "I live in Leeds.")
    assert (["Google"], ["Google"]) == await employers(ann)
    # Whatever a model calls it, there is one home at a time.
    homes = [one for one in await ann.graph.history("user") if one.relation == "lives_in"]
    assert [("Oslo", False, True), ("Leeds", True, True)] == [
        (one.object, one.current, one.functional) for one in homes
    ]


async def test_what_a_caller_ends_ends_as_a_fact_and_can_be_restored(ann):
    await ann.say(1, "I work at Google.")
    change = await ann.graph.retract("USER", "works at", "google")
    assert (Operation.UPDATE, 1) == (change.operation, len(change.closed))
    assert ([], []) == await employers(ann)
    assert [] == await ann.recall("Google", kinds=["semantic"])
    again = await ann.graph.retract("user", "works_at")
    assert (Operation.NOOP, None) == (again.operation, again.run_id)
    edge = await ann.graph.restore(change.closed[0])
    assert edge.current and edge.superseded_at is None
    assert (["Google"], ["Google"]) == await employers(ann)
    assert 1 == len(await ann.recall("Google", kinds=["semantic"]))
    with pytest.raises(Conflict, match="has not ended"):
        await ann.graph.restore(edge.edge_id)
    restored, retracted, _ = await ann.runs()
    assert {"graph"} == {restored.kind, retracted.kind}
    with pytest.raises(Conflict, match="undo them first"):
        await ann.undo_run(retracted.run_id)
    await ann.undo_run(restored.run_id)
    assert ([], []) == await employers(ann)
    await ann.undo_run(retracted.run_id)
    assert (["Google"], ["Google"]) == await employers(ann)


async def test_an_edge_is_added_known_or_replaced(ann):
    await ann.say(1, "I work at Google.")
    add = ann.graph.add
    assert Operation.NOOP == (await add("User", "works_at", "GOOGLE ")).operation
    change = await add("user", "works_at", "Meta")
    assert Operation.UPDATE == change.operation
    assert (["Meta"], ["Meta"]) == await employers(ann)
    for skill in ("Python", "SQL"):
        assert Operation.ADD == (await add("user", "has_skill", skill)).operation
    with pytest.raises(Conflict, match="another edge has taken its place"):
        await ann.graph.restore(change.closed[0])
    await ann.undo_run(change.run_id)
    assert (["Google"], ["Google"]) == await employers(ann)


async def test_what_made_an_edge_end_is_not_undone_before_it(ann):
    soon = datetime.now(UTC) + timedelta(days=30)
    later = await ann.graph.add("user", "works_at", "Meta", valid_from=soon)
    until_then = await ann.graph.add("user", "works_at", "Google")
    with pytest.raises(Conflict, match=f"undo them first.*{until_then.run_id}"):
        await ann.undo_run(later.run_id)
    await ann.undo_run(until_then.run_id)
    await ann.undo_run(later.run_id)
    assert [] == await ann.graph.history("user")


async def test_a_read_sees_the_world_and_the_belief_of_its_moment(ann_by_clock):
    ann = ann_by_clock
    await ann.graph.add("user", "works_at", "Google", valid_from=at(0))
    ann.clock.day = 10
    await ann.graph.add("user", "works_at", "Meta", valid_from=at(5))
    await ann.graph.add("user", "works_at", "Acme", valid_from=at(30))

    async def employer(valid: float | None = None, known: float | None = None) -> list[str]:
        found = await ann.graph.neighbourhood("user", as_of=then(valid, known))
        return [one.object for one in found.edges]

    assert ["Meta"] == await employer()
    assert ["Acme"] == await employer(valid=31)
    assert ["Google"] == await employer(valid=4)
    assert ["Google"] == await employer(known=9)
    assert ["Google"] == await employer(valid=6, known=9)
    assert ["Acme"] == await employer(valid=31, known=10)
    assert [] == await employer(valid=-1)
    assert [] == await employer(known=-1)
    # An end that is known and has not come yet moves, and moves back.
    moved = await ann.graph.retract("user", "works_at", "Meta")
    assert [] == await employer()
    await ann.undo_run(str(moved.run_id))
    assert ["Meta"] == await employer()
    assert ["Acme"] == await employer(valid=31)


async def test_recall_brings_edges_as_of_its_moment(ann_by_clock):
    ann = ann_by_clock
    await ann.graph.add("Mia", "lives_in", "Leeds")
    ann.clock.day = 10
    await ann.graph.add("Mia", "lives_in", "York", valid_from=at(5))
    for as_of, home in (
        (None, "York"), (AsOf(), "York"), (then(valid=4), "Leeds"), (then(valid=6), "York"),
        (then(known=9), "Leeds"),
    ):  # fmt: skip
        [edge] = (await ann.recall("Where does Mia live?", as_of=as_of)).graph_results
        assert ("Mia", "lives_in", home) == (edge.subject, edge.relation, edge.object), as_of


async def test_facts_of_a_slot_are_read_exactly(ann_by_clock):
    ann = ann_by_clock
    for day, text in enumerate(("I speak Thai.", "I live in Leeds.", "I live in York."), 1):
        await ann.say(day, text)
    assert ["York"] == await ann.values("city")
    assert ["York"] == await ann.values("居住地")
    history = await ann.facts("residence", history=True)
    assert ["York", "Leeds"] == [one.value for one in history]
    assert ["Thai"] == await ann.values("language")
    assert [] == await ann.facts("shoe size")
    for as_of in (then(2.1), then(known=2.1), then(2.1, known=2.1)):
        assert ["Leeds"] == await ann.values("residence", as_of=as_of)
    both = await ann.facts(as_of=then(known=2.1))
    assert {"Thai", "Leeds"} == {one.value for one in both}


async def test_names_of_one_entity_are_read_as_one(ann):
    graph = ann.graph
    for subject, relation, other in (
        ("Mia", "likes", "art"), ("Mia Chen", "lives_in", "Leeds"), ("米娅", "likes", "茶"),
        ("Tom", "knows", "MIA"), ("Dr. Chen", "works_at", "Acme"),
    ):  # fmt: skip
        await graph.add(subject, relation, other)
    assert 1 == await graph.merge_aliases("Mia Chen", ["Dr. Chen"])
    assert 3 == await graph.merge_aliases("Mia", ["mia chen", "米娅", "MIA"])
    assert 0 == await graph.merge_aliases("Mia", ["米娅"])
    for name in ("ｍｉａ", "Mia Chen", "米娅", "dr. chen"):
        found = await graph.neighbourhood(name, depth=1)
        assert {"Mia", "art", "Leeds", "茶", "Tom", "Acme"} == set(found.entities)
    assert "米娅" in {one.subject for one in await graph.history("mia")}
    [path] = await graph.paths("Tom", "Leeds")
    assert ["Tom", "Mia", "Leeds"] == list(path.entities)
    [mia] = await graph.entities(matching="chen")
    assert ("Mia", {"Mia Chen", "Dr. Chen", "米娅"}, 5) == (mia.name, {*mia.aliases}, mia.degree)
    assert Operation.NOOP == (await graph.add("米娅", "lives_in", "leeds")).operation
    assert Operation.UPDATE == (await graph.add("米娅", "lives_in", "York")).operation
    assert 1 == await graph.unmerge_aliases("Mia", ["Dr. Chen"])
    assert ["Acme"] == [one.object for one in (await graph.neighbourhood("Dr. Chen")).edges]
    assert 1 == await graph.unmerge_aliases("米娅", ["Mia"])
    assert {"Mia Chen", "York", "茶"} == {*(await graph.neighbourhood("米娅", depth=1)).entities}
    assert 2 == len((await graph.neighbourhood("Mia", depth=1)).edges)
    assert 1 == await graph.unmerge_aliases("米娅")
    await ann.forget_scope()
    assert [] == await graph.entities()
    assert 1 == await graph.merge_aliases("Mia", ["Mia Chen"])


async def test_a_merge_of_names_is_a_run(ann):
    graph = ann.graph
    await graph.add("Lars", "lives_in", "Oslo")
    await graph.add("Jonas", "lives_in", "Bern")

    async def homes(name: str) -> set[str]:
        return {one.object for one in (await graph.neighbourhood(name, depth=1)).edges}

    await graph.merge_aliases("Lars", ["拉斯"])
    await graph.merge_aliases("Jonas", ["拉斯"])
    for name in ("Lars", "Jonas", "拉斯"):
        assert {"Oslo", "Bern"} == await homes(name)
    last, first, *_ = await ann.runs()
    assert ("graph", "caller", {"merged": 2, "parted": 1}) == (
        last.kind, last.extractor, dict(last.counts))  # fmt: skip
    with pytest.raises(Conflict, match=f"undo them first.*{last.run_id}"):
        await ann.undo_run(first.run_id)
    await ann.undo_run(last.run_id)
    assert ({"Bern"}, {"Oslo"}, {"Oslo"}) == (
        await homes("Jonas"), await homes("Lars"), await homes("拉斯"))  # fmt: skip
    await graph.unmerge_aliases("Lars", ["拉斯"])
    assert set() == await homes("拉斯")
    await ann.undo_run((await ann.runs())[0].run_id)
    assert {"Oslo"} == await homes("拉斯")
    await ann.undo_run(first.run_id)
    assert set() == await homes("拉斯")


async def test_accents_tell_names_apart_and_matching_finds_both(ann):
    for number, name in enumerate(("Müller", "Muller", "MÜLLER", "Mu\u0308ller")):
        await ann.graph.add(name, "knows", f"friend {number}")
    assert 3 == len((await ann.graph.neighbourhood("müller", depth=1)).edges)
    assert 1 == len((await ann.graph.neighbourhood("muller", depth=1)).edges)
    found = await ann.graph.entities(matching="muller")
    assert [3, 1] == [one.degree for one in found]
    assert 1 == await ann.graph.merge_aliases("Müller", ["Muller"])
    [one] = await ann.graph.entities(matching="muller")
    assert ("Müller", ("Muller",), 4) == (one.name, one.aliases, one.degree)


async def test_a_functional_relation_has_one_current_object_in_the_database(ann):
    await ann.graph.add("user", "drives", "Volvo", functional=True)
    with pytest.raises(psycopg.errors.UniqueViolation):
        ann.sql(
            "INSERT INTO hippocampus.edges (tenant_id, edge_id, subject, relation, object,"
            " subject_key, object_key, functional, valid_from, recorded_at)"
            " VALUES (%(tenant)s, gen_random_uuid(), 'user', 'drives', 'Fiat', 'user', 'fiat',"
            " true, now(), now())"
        )
    cities = [f"City {number}" for number in range(8)]
    await asyncio.gather(*[ann.graph.add("user", "lives_in", city) for city in cities])
    current = [one for one in await ann.graph.history("user")
               if one.relation == "lives_in" and one.current]  # fmt: skip
    assert 1 == len(current)


async def test_relations_are_declared_by_a_caller(ann_with):
    ann = ann_with(relations={"drives": "one", "speaks": "one"})
    for car in ("Volvo", "Fiat"):
        await ann.graph.add("user", "drives", car)
    await ann.say(1, "I speak Thai.", "I speak Dutch.")
    found = await ann.graph.neighbourhood("user")
    assert {"Fiat", "Dutch"} == {one.object for one in found.edges}
    with pytest.raises(InvalidInput, match="'drives' must be declared 'one'"):
        ann_with(relations={"drives": "two"})


async def test_without_a_graph_all_else_is_as_before(ann_with, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_GRAPH", "off")
    ann = ann_with()
    report_id = await ann.say(1, "I work at Google.")
    assert report_id and ["Google"] == await ann.values()
    with pytest.raises(CapabilityMissing, match="graph_enabled=True"):
        await ann.graph.neighbourhood("user")
    ann = ann_with(graph_enabled=True)
    assert [] == (await ann.graph.neighbourhood("user")).edges
    await ann.say(2, "I work at Meta.")
    assert (["Meta"], ["Meta"]) == await employers(ann)


async def test_an_edge_expires_with_its_turn(ann_by_clock):
    ann = ann_by_clock
    await ann.say(1, "I work at Google.", expires_at=at(3))
    assert (["Google"], ["Google"]) == await employers(ann)
    ann.clock.day = 3
    assert ([], []) == await employers(ann)
    assert [] == await ann.graph.history("google")
    assert [] == await ann.graph.entities()


async def test_nobody_reads_the_graph_of_another(ann):
    change = await ann.graph.add("user", "knows", "Tom")
    await ann.graph.merge_aliases("Tom", ["Thomas"])
    bob = ann.other("bob")
    assert {} == (await bob.graph.neighbourhood("Tom")).entities
    assert [] == await bob.graph.history("Tom")
    assert [] == await bob.graph.entities()
    assert 0 == await bob.graph.unmerge_aliases("Tom")
    with pytest.raises(NotFound, match="there is no edge"):
        await bob.graph.restore(change.edge_id)


async def test_what_is_not_known_is_empty_and_what_cannot_be_is_refused(ann):
    graph = ann.graph
    await graph.add("user", "knows", "user")
    for name in ("nobody", "?!", "'; DROP TABLE edges; --", "🦊", "x" * 10_000):
        found = await graph.neighbourhood(name)
        assert ({}, [], False) == (found.entities, found.edges, found.more)
        assert [] == await graph.paths("user", name)
        assert [] == await graph.history(name)
    assert {"user": 0} == (await graph.neighbourhood("user", depth=3)).entities
    assert [] == await graph.paths("user", "User")
    naive: Any = datetime(2026, 1, 1)  # noqa: DTZ001
    text, number = cast("Any", "no"), cast("Any", 5)
    beyond = datetime.max.replace(tzinfo=timezone(-timedelta(hours=5)))
    for call, told in (
        (lambda: graph.neighbourhood("a", depth=0), "depth must be between 1 and 3, a whole"),
        (lambda: graph.neighbourhood("a", depth=99), "depth must be"),
        (lambda: graph.neighbourhood("a", limit=0), "limit must be"),
        (lambda: graph.neighbourhood(""), "must not be empty"),
        (lambda: graph.neighbourhood("a\x00b"), "NUL"),
        (lambda: graph.paths("a", "b", max_hops=5), "max_hops must be"),
        (lambda: graph.paths("a", "b", limit=10_000), "limit must be"),
        (lambda: graph.add("?!", "knows", "b"), "subject must be a name"),
        (lambda: graph.add("a", "?", "b"), "relation must have a letter"),
        (lambda: graph.add("a", "knows", "b" * 500), "object must be a name"),
        (lambda: graph.add("a", "knows", "b", valid_from=naive), "has no time zone"),
        (lambda: graph.add("a", "knows", "b", confidence=2), "confidence"),
        (lambda: graph.add("a", "knows", "b", confidence=text), "confidence .* got 'no'"),
        (lambda: graph.add("a", "knows", "b", functional=text), "functional .* got 'no'"),
        (lambda: graph.retract("a", "knows", valid_until=text), "valid_until must be a"),
        (lambda: ann.facts(number), "slot must be a text"),
        (lambda: graph.restore("edge"), "edge_id must be a UUID"),
        (lambda: graph.history("a", as_of=naive), "as_of must be AsOf"),
        (lambda: graph.entities(as_of=AsOf(known=beyond)), "as_of.known is out of range"),
        (lambda: graph.merge_aliases("a", "b"), "aliases must be a list"),
    ):
        with pytest.raises(InvalidInput, match=told):
            await call()  # type: ignore[no-untyped-call]
    told = r"AsOf\(valid=...\) must be a datetime with a time zone"
    with pytest.raises(InvalidInput, match=told):
        AsOf(valid=naive)


@pytest.mark.both_engines
async def test_a_functional_relation_has_one_object_at_every_moment(ann_by_clock):
    ann = ann_by_clock
    graph = ann.graph
    google = await graph.add("user", "works_at", "Google")
    await graph.add("user", "speaks", "English")
    ann.clock.day = 4
    await graph.add("user", "works_at", "Meta")
    await graph.add("user", "speaks", "中文")
    ann.clock.day = 6
    await graph.retract("user", "works_at")
    await graph.restore(google.edge_id)
    ann.clock.day = 9
    for as_of, expected in (
        (then(3), "Google"), (then(5), "Meta"), (then(known=5), "Meta"),
        (then(5, known=5), "Meta"), (then(3, known=5), "Google"), (then(7), "Google"),
        (AsOf(), "Google"), (None, "Google"),
    ):  # fmt: skip
        near = (await graph.neighbourhood("user", as_of=as_of)).edges
        held = [one for one in await graph.history("user", as_of=as_of) if one.current]
        asked = (await ann.recall("Where do I work?", as_of=as_of)).graph_results
        for edges in (near, held, asked):
            work = [edge.object for edge in edges if edge.relation == "works_at"]
            assert [expected] == work, as_of
    assert {"English", "中文"} <= (await graph.neighbourhood("user", as_of=then(5))).entities.keys()


def triples(edges: Any) -> set[tuple[str, str, str]]:
    return {(edge.subject, edge.relation, edge.object) for edge in edges}


@pytest.mark.both_engines
async def test_recall_brings_the_edges_of_what_is_named(ann):
    await ann.say(0, "I work at Acme.", "My daughter is called Mia.")
    await ann.graph.add("Mia", "plays", "oboe")
    await ann.graph.merge_aliases("Mia", ["米娅"])
    found = await ann.recall("Where do I work?")
    assert found.graph_results[0].object == "Acme"
    for question in ("What does Mia play?", "What is Mia's instrument?", "米娅会什么乐器？"):
        found = await ann.recall(question)
        assert ("Mia", "plays", "oboe") in triples(found.graph_results)
        assert all("Mia" in (edge.subject, edge.object) for edge in found.graph_results)
    assert (await ann.recall("Is Bob tall?")).graph_results == ()


@pytest.mark.both_engines
async def test_without_the_graph_recall_brings_no_edges(ann_with):
    ann = ann_with(graph_enabled=False)
    await ann.say(0, "I work at Acme.")
    found = await ann.recall("Where do I work?")
    assert found and found.graph_results == ()
