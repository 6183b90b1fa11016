"""The graph on a real database: facts are edges, and what changes one changes both."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import psycopg
import pytest

from shared_core import (
    AsOf,
    CapabilityMissing,
    Conflict,
    Event,
    InvalidInput,
    MemoryEngine,
    NotFound,
    Scope,
    open_memory,
)
from shared_core.core.domain import Extraction, TripleDraft
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.ports.graph import Operation

ANN = Scope("app", "ann")
BOB = Scope("app", "bob")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
ENGLISH = ("I work at Google.", "I work at Meta.", "I no longer work at Meta.", "Google", "Meta")
CHINESE = ("我在谷歌工作。", "我在华为工作。", "我不在华为工作了。", "谷歌", "华为")


def said(number: int, text: str, **more: Any) -> Event:
    moment = START + timedelta(days=number)
    return Event(
        event_id=f"e{number}", author="ann", role="user", text=text, occurred_at=moment, **more
    )


async def tell(memory: MemoryEngine, *events: Event) -> Any:
    await memory.append_events(ANN, "t", events)
    return (await memory.consolidate(ANN, "t")).run_id


async def employers(memory: MemoryEngine) -> tuple[list[str], list[str]]:
    """The current employers of the user, as facts and as edges: always the same."""
    facts = [fact.value for fact in await memory.facts(ANN, "employer")]
    around = await memory.graph.neighbourhood(ANN, "user", depth=1)
    return facts, [one.object for one in around.edges if one.relation == "works_at"]


@pytest.mark.parametrize("spoken", [ENGLISH, CHINESE])
async def test_a_fact_and_its_edge_live_and_end_together(
    memory: MemoryEngine, spoken: tuple[str, ...]
) -> None:
    first, second, over, one, other = spoken
    await tell(memory, said(1, first))
    assert ([one], [one]) == await employers(memory)
    changed = await tell(memory, said(2, second))
    assert ([other], [other]) == await employers(memory)
    [old, new] = await memory.graph.history(ANN, "user")
    assert [(one, False, ("e1",)), (other, True, ("e2",))] == [
        (edge.object, edge.current, edge.source_event_ids) for edge in (old, new)
    ]
    assert (old.valid_until, old.fact_id) == (
        START + timedelta(days=2),
        (await memory.facts(ANN, "employer", history=True))[-1].memory_id,
    )
    await memory.undo_run(ANN, changed)
    assert ([one], [one]) == await employers(memory)
    await memory.consolidate(ANN, "t")
    ended = await tell(memory, said(3, over))
    assert ([], []) == await employers(memory)
    await memory.undo_run(ANN, ended)
    assert ([other], [other]) == await employers(memory)
    await memory.forget_turns(ANN, "t", ["e2"])
    assert ([], []) == await employers(memory)
    assert [one] == [edge.object for edge in await memory.graph.history(ANN, "user")]


async def test_a_fact_of_any_extractor_is_an_edge(dsn: str) -> None:
    class WithoutEdges(RuleExtractor):
        async def extract(self, events: Any, context: Any) -> Extraction:
            found = await super().extract(events, context)
            return Extraction(
                facts=found.facts,
                triples=[TripleDraft(subject="User", relation="resides in", object="Oslo",
                                     event_id="e1")],
            )  # fmt: skip

    async with open_memory(dsn, extractor=WithoutEdges()) as memory:
        await tell(memory, said(1, "I work at Google."))
        await tell(memory, said(2, "I live in Leeds."))
        assert (["Google"], ["Google"]) == await employers(memory)
        # Whatever a model calls it, there is one home at a time.
        homes = [one for one in await memory.graph.history(ANN, "user")
                 if one.relation == "lives_in"]  # fmt: skip
        assert [("Oslo", False, True), ("Leeds", True, True)] == [
            (one.object, one.current, one.functional) for one in homes
        ]


async def test_what_a_caller_ends_ends_as_a_fact_and_can_be_restored(memory: MemoryEngine) -> None:
    await tell(memory, said(1, "I work at Google."))
    change = await memory.graph.retract(ANN, "USER", "works at", "google")
    assert (Operation.UPDATE, 1) == (change.operation, len(change.closed))
    assert ([], []) == await employers(memory)
    assert [] == await memory.recall(ANN, "Google", kinds=["semantic"])
    again = await memory.graph.retract(ANN, "user", "works_at")
    assert (Operation.NOOP, None) == (again.operation, again.run_id)
    edge = await memory.graph.restore(ANN, change.closed[0])
    assert edge.current and edge.superseded_at is None
    assert (["Google"], ["Google"]) == await employers(memory)
    assert 1 == len(await memory.recall(ANN, "Google", kinds=["semantic"]))
    with pytest.raises(Conflict, match="has not ended"):
        await memory.graph.restore(ANN, edge.edge_id)
    restored, retracted, _ = await memory.runs(ANN)
    assert {"graph"} == {restored.kind, retracted.kind}
    with pytest.raises(Conflict, match="undo them first"):
        await memory.undo_run(ANN, retracted.run_id)
    await memory.undo_run(ANN, restored.run_id)
    assert ([], []) == await employers(memory)
    await memory.undo_run(ANN, retracted.run_id)
    assert (["Google"], ["Google"]) == await employers(memory)


async def test_an_edge_is_added_known_or_replaced(memory: MemoryEngine) -> None:
    await tell(memory, said(1, "I work at Google."))
    add = memory.graph.add
    assert Operation.NOOP == (await add(ANN, "User", "works_at", "GOOGLE ")).operation
    change = await add(ANN, "user", "works_at", "Meta")
    assert Operation.UPDATE == change.operation
    assert (["Meta"], ["Meta"]) == await employers(memory)
    for skill in ("Python", "SQL"):
        assert Operation.ADD == (await add(ANN, "user", "has_skill", skill)).operation
    with pytest.raises(Conflict, match="another edge has taken its place"):
        await memory.graph.restore(ANN, change.closed[0])
    assert change.run_id
    await memory.undo_run(ANN, change.run_id)
    assert (["Google"], ["Google"]) == await employers(memory)


async def test_what_made_an_edge_end_is_not_undone_before_it(memory: MemoryEngine) -> None:
    later = await memory.graph.add(
        ANN, "user", "works_at", "Meta", valid_from=datetime.now(UTC) + timedelta(days=30)
    )
    until_then = await memory.graph.add(ANN, "user", "works_at", "Google")
    assert later.run_id and until_then.run_id
    with pytest.raises(Conflict, match=f"undo them first.*{until_then.run_id}"):
        await memory.undo_run(ANN, later.run_id)
    await memory.undo_run(ANN, until_then.run_id)
    await memory.undo_run(ANN, later.run_id)
    assert [] == await memory.graph.history(ANN, "user")


async def test_a_read_sees_the_world_and_the_belief_of_its_moment(dsn: str) -> None:
    now = [START]
    async with open_memory(dsn, clock=lambda: now[0]) as memory:
        await memory.graph.add(ANN, "user", "works_at", "Google", valid_from=START)
        now[0] += timedelta(days=10)
        told = START + timedelta(days=5)
        await memory.graph.add(ANN, "user", "works_at", "Meta", valid_from=told)
        ahead = START + timedelta(days=30)
        await memory.graph.add(ANN, "user", "works_at", "Acme", valid_from=ahead)

        async def employer(valid: float | None = None, known: float | None = None) -> list[str]:
            as_of = AsOf(
                valid=None if valid is None else START + timedelta(days=valid),
                known=None if known is None else START + timedelta(days=known),
            )
            found = await memory.graph.neighbourhood(ANN, "user", as_of=as_of)
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
        moved = await memory.graph.retract(ANN, "user", "works_at", "Meta")
        assert [] == await employer()
        await memory.undo_run(ANN, str(moved.run_id))
        assert ["Meta"] == await employer()
        assert ["Acme"] == await employer(valid=31)


async def test_facts_of_a_slot_are_read_exactly(dsn: str) -> None:
    now = [START]
    async with open_memory(dsn, clock=lambda: now[0]) as memory:
        for number, text in enumerate(("I speak Thai.", "I live in Leeds.", "I live in York."), 1):
            now[0] = START + timedelta(days=number)
            await tell(memory, said(number, text))
        assert ["York"] == [one.value for one in await memory.facts(ANN, "city")]
        assert ["York"] == [one.value for one in await memory.facts(ANN, "居住地")]
        history = await memory.facts(ANN, "residence", history=True)
        assert ["York", "Leeds"] == [one.value for one in history]
        assert ["Thai"] == [one.value for one in await memory.facts(ANN, "language")]
        assert [] == await memory.facts(ANN, "shoe size")
        then = START + timedelta(days=2, hours=1)
        for as_of in (AsOf(valid=then), AsOf(known=then), AsOf(valid=then, known=then)):
            found = await memory.facts(ANN, "residence", as_of=as_of)
            assert ["Leeds"] == [one.value for one in found]
        both = await memory.facts(ANN, as_of=AsOf(known=then))
        assert {"Thai", "Leeds"} == {one.value for one in both}


async def test_names_of_one_entity_are_read_as_one(memory: MemoryEngine) -> None:
    graph = memory.graph
    for subject, relation, other in (
        ("Mia", "likes", "art"), ("Mia Chen", "lives_in", "Leeds"), ("米娅", "likes", "茶"),
        ("Tom", "knows", "MIA"), ("Dr. Chen", "works_at", "Acme"),
    ):  # fmt: skip
        await graph.add(ANN, subject, relation, other)
    assert 1 == await graph.merge_aliases(ANN, "Mia Chen", ["Dr. Chen"])
    assert 3 == await graph.merge_aliases(ANN, "Mia", ["mia chen", "米娅", "MIA"])
    assert 0 == await graph.merge_aliases(ANN, "Mia", ["米娅"])
    for name in ("ｍｉａ", "Mia Chen", "米娅", "dr. chen"):
        found = await graph.neighbourhood(ANN, name, depth=1)
        assert {"Mia", "art", "Leeds", "茶", "Tom", "Acme"} == set(found.entities)
    assert "米娅" in {one.subject for one in await graph.history(ANN, "mia")}
    [path] = await graph.paths(ANN, "Tom", "Leeds")
    assert ["Tom", "Mia", "Leeds"] == list(path.entities)
    [mia] = await graph.entities(ANN, matching="chen")
    assert ("Mia", {"Mia Chen", "Dr. Chen", "米娅"}, 5) == (mia.name, {*mia.aliases}, mia.degree)
    assert Operation.NOOP == (await graph.add(ANN, "米娅", "lives_in", "leeds")).operation
    assert Operation.UPDATE == (await graph.add(ANN, "米娅", "lives_in", "York")).operation
    assert 1 == await graph.unmerge_aliases(ANN, "Mia", ["Dr. Chen"])
    assert ["Acme"] == [one.object for one in (await graph.neighbourhood(ANN, "Dr. Chen")).edges]
    assert 1 == await graph.unmerge_aliases(ANN, "米娅", ["Mia"])
    around = (await graph.neighbourhood(ANN, "米娅", depth=1)).entities
    assert {"Mia Chen", "York", "茶"} == set(around)
    assert 2 == len((await graph.neighbourhood(ANN, "Mia", depth=1)).edges)
    assert 1 == await graph.unmerge_aliases(ANN, "米娅")
    await memory.forget_scope(ANN)
    assert [] == await graph.entities(ANN)
    assert 1 == await graph.merge_aliases(ANN, "Mia", ["Mia Chen"])


async def test_a_merge_of_names_is_a_run(memory: MemoryEngine) -> None:
    graph = memory.graph
    await graph.add(ANN, "Lars", "lives_in", "Oslo")
    await graph.add(ANN, "Jonas", "lives_in", "Bern")

    async def homes(name: str) -> set[str]:
        return {one.object for one in (await graph.neighbourhood(ANN, name, depth=1)).edges}

    await graph.merge_aliases(ANN, "Lars", ["拉斯"])
    await graph.merge_aliases(ANN, "Jonas", ["拉斯"])
    for name in ("Lars", "Jonas", "拉斯"):
        assert {"Oslo", "Bern"} == await homes(name)
    last, first, *_ = await memory.runs(ANN)
    assert ("graph", "caller", {"merged": 2, "parted": 1}) == (
        last.kind, last.extractor, dict(last.counts))  # fmt: skip
    with pytest.raises(Conflict, match=f"undo them first.*{last.run_id}"):
        await memory.undo_run(ANN, first.run_id)
    await memory.undo_run(ANN, last.run_id)
    assert ({"Bern"}, {"Oslo"}, {"Oslo"}) == (
        await homes("Jonas"), await homes("Lars"), await homes("拉斯"))  # fmt: skip
    await graph.unmerge_aliases(ANN, "Lars", ["拉斯"])
    assert set() == await homes("拉斯")
    await memory.undo_run(ANN, (await memory.runs(ANN))[0].run_id)
    assert {"Oslo"} == await homes("拉斯")
    await memory.undo_run(ANN, first.run_id)
    assert set() == await homes("拉斯")


async def test_accents_tell_names_apart_and_matching_finds_both(memory: MemoryEngine) -> None:
    names = ("Müller", "Muller", "MÜLLER", "Mu\u0308ller")
    for number, name in enumerate(names):
        await memory.graph.add(ANN, name, "knows", f"friend {number}")
    assert 3 == len((await memory.graph.neighbourhood(ANN, "müller", depth=1)).edges)
    assert 1 == len((await memory.graph.neighbourhood(ANN, "muller", depth=1)).edges)
    found = await memory.graph.entities(ANN, matching="muller")
    assert [3, 1] == [one.degree for one in found]
    assert 1 == await memory.graph.merge_aliases(ANN, "Müller", ["Muller"])
    [one] = await memory.graph.entities(ANN, matching="muller")
    assert ("Müller", ("Muller",), 4) == (one.name, one.aliases, one.degree)


async def test_a_functional_relation_has_one_current_object_in_the_database(
    memory: MemoryEngine, dsn: str
) -> None:
    await memory.graph.add(ANN, "user", "drives", "Volvo", functional=True)
    with psycopg.connect(dsn) as superuser, pytest.raises(psycopg.errors.UniqueViolation):
        superuser.execute(
            "INSERT INTO hippocampus.edges (tenant_id, edge_id, subject, relation, object,"
            " subject_key, object_key, functional, valid_from, recorded_at)"
            " VALUES ('/app/ann/', gen_random_uuid(), 'user', 'drives', 'Fiat', 'user', 'fiat',"
            " true, now(), now())"
        )
    cities = [f"City {number}" for number in range(8)]
    await asyncio.gather(*[memory.graph.add(ANN, "user", "lives_in", city) for city in cities])
    current = [one for one in await memory.graph.history(ANN, "user")
               if one.relation == "lives_in" and one.current]  # fmt: skip
    assert 1 == len(current)


async def test_relations_are_declared_by_a_caller(dsn: str) -> None:
    async with open_memory(dsn, relations={"drives": "one", "speaks": "one"}) as memory:
        for car in ("Volvo", "Fiat"):
            await memory.graph.add(ANN, "user", "drives", car)
        await tell(memory, said(1, "I speak Thai."), said(2, "I speak Dutch."))
        found = await memory.graph.neighbourhood(ANN, "user")
        assert {"Fiat", "Dutch"} == {one.object for one in found.edges}
    with pytest.raises(InvalidInput, match="'drives' must be declared 'one'"):
        open_memory(dsn, relations={"drives": "two"})  # type: ignore[dict-item]


async def test_without_a_graph_all_else_is_as_before(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_GRAPH", "off")
    async with open_memory(dsn) as memory:
        report_id = await tell(memory, said(1, "I work at Google."))
        assert report_id and ["Google"] == [one.value for one in await memory.facts(ANN)]
        with pytest.raises(CapabilityMissing, match="graph_enabled=True"):
            await memory.graph.neighbourhood(ANN, "user")
    async with open_memory(dsn, graph_enabled=True) as memory:
        assert [] == (await memory.graph.neighbourhood(ANN, "user")).edges
        await tell(memory, said(2, "I work at Meta."))
        assert (["Meta"], ["Meta"]) == await employers(memory)
    monkeypatch.setenv("HIPPOCAMPUS_GRAPH", "maybe")
    with pytest.raises(InvalidInput, match="HIPPOCAMPUS_GRAPH must be 'on' or 'off'"):
        open_memory(dsn)


async def test_an_edge_expires_with_its_turn(dsn: str) -> None:
    now = [START + timedelta(days=1)]
    async with open_memory(dsn, clock=lambda: now[0]) as memory:
        expires = START + timedelta(days=3)
        await tell(memory, said(1, "I work at Google.", expires_at=expires))
        assert (["Google"], ["Google"]) == await employers(memory)
        now[0] = expires
        assert ([], []) == await employers(memory)
        assert [] == await memory.graph.history(ANN, "google")
        assert [] == await memory.graph.entities(ANN)


async def test_nobody_reads_the_graph_of_another(memory: MemoryEngine) -> None:
    change = await memory.graph.add(ANN, "user", "knows", "Tom")
    await memory.graph.merge_aliases(ANN, "Tom", ["Thomas"])
    assert change.edge_id
    assert {} == (await memory.graph.neighbourhood(BOB, "Tom")).entities
    assert [] == await memory.graph.history(BOB, "Tom")
    assert [] == await memory.graph.entities(BOB)
    assert 0 == await memory.graph.unmerge_aliases(BOB, "Tom")
    with pytest.raises(NotFound, match="there is no edge"):
        await memory.graph.restore(BOB, change.edge_id)


async def test_what_is_not_known_is_empty_and_what_cannot_be_is_refused(
    memory: MemoryEngine,
) -> None:
    graph = memory.graph
    await graph.add(ANN, "user", "knows", "user")
    for name in ("nobody", "?!", "'; DROP TABLE edges; --", "🦊", "x" * 10_000):
        found = await graph.neighbourhood(ANN, name)
        assert ({}, [], False) == (found.entities, found.edges, found.more)
        assert [] == await graph.paths(ANN, "user", name)
        assert [] == await graph.history(ANN, name)
    assert {"user": 0} == (await graph.neighbourhood(ANN, "user", depth=3)).entities
    assert [] == await graph.paths(ANN, "user", "User")
    naive: Any = datetime(2026, 1, 1)  # noqa: DTZ001
    text, number = cast("Any", "no"), cast("Any", 5)
    beyond = datetime.max.replace(tzinfo=timezone(-timedelta(hours=5)))
    for call, told in (
        (lambda: graph.neighbourhood(ANN, "a", depth=0), "depth must be between 1 and 3, a whole"),
        (lambda: graph.neighbourhood(ANN, "a", depth=99), "depth must be"),
        (lambda: graph.neighbourhood(ANN, "a", limit=0), "limit must be"),
        (lambda: graph.neighbourhood(ANN, ""), "must not be empty"),
        (lambda: graph.neighbourhood(ANN, "a\x00b"), "NUL"),
        (lambda: graph.paths(ANN, "a", "b", max_hops=5), "max_hops must be"),
        (lambda: graph.paths(ANN, "a", "b", limit=10_000), "limit must be"),
        (lambda: graph.add(ANN, "?!", "knows", "b"), "subject must be a name"),
        (lambda: graph.add(ANN, "a", "?", "b"), "relation must have a letter"),
        (lambda: graph.add(ANN, "a", "knows", "b" * 500), "object must be a name"),
        (lambda: graph.add(ANN, "a", "knows", "b", valid_from=naive), "has no time zone"),
        (lambda: graph.add(ANN, "a", "knows", "b", confidence=2), "confidence"),
        (lambda: graph.add(ANN, "a", "knows", "b", confidence=text), "confidence .* got 'no'"),
        (lambda: graph.add(ANN, "a", "knows", "b", functional=text), "functional .* got 'no'"),
        (lambda: graph.retract(ANN, "a", "knows", valid_until=text), "valid_until must be a"),
        (lambda: memory.facts(ANN, number), "slot must be a text"),
        (lambda: graph.restore(ANN, "edge"), "edge_id must be a UUID"),
        (lambda: graph.history(ANN, "a", as_of=naive), "as_of must be AsOf"),
        (lambda: graph.entities(ANN, as_of=AsOf(known=beyond)), "as_of.known is out of range"),
        (lambda: graph.merge_aliases(ANN, "a", "b"), "aliases must be a list"),
    ):
        with pytest.raises(InvalidInput, match=told):
            await call()  # type: ignore[no-untyped-call]
    with pytest.raises(
        InvalidInput, match=r"AsOf\(valid=...\) must be a datetime with a time zone"
    ):
        AsOf(valid=naive)
