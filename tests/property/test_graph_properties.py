"""Walks, paths and time in the graph, against the plainest way to find the same."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeAlias
from uuid import UUID, uuid5

import psycopg
import pytest
from hypothesis import example, given, settings, strategies as st
from long_forms import LONG

from shared_core import AsOf, MemoryEngine, Scope, open_memory, run_sync
from shared_core.core.namespaces import scope_path
from shared_core.knowledge.graph import plan_addition
from shared_core.nlp.text import normalised
from shared_core.ports.graph import Operation, Spell

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = 50
NAMES = ["Mia", "MIA", "ｍｉａ", "Tom", "张伟", "張偉", "user", "Zoë", "Zoe"]
SPACE = UUID(int=7)
numbers = count()
Filling: TypeAlias = tuple[MemoryEngine, psycopg.Connection[Any]]


def day(number: float) -> datetime:
    return START + timedelta(days=number)


@dataclass(frozen=True)
class Row:
    """An edge as it is stored; its relation is its name. closed: when, and told when."""

    subject: str
    object: str
    begins: int
    recorded: int
    closed: tuple[int, int] | None

    def holds(self, valid: float, known: float | None) -> bool:
        if known is not None and self.recorded > known:
            return False
        ended = self.closed is not None and (known is None or self.closed[1] <= known)
        return self.begins <= valid and not (ended and self.closed and self.closed[0] <= valid)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    begins, recorded = draw(st.integers(0, 60)), draw(st.integers(0, 50))
    closed = draw(st.none() | st.tuples(st.integers(0, 20), st.integers(0, 20)))
    return Row(
        draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES)), begins, recorded,
        closed and (begins + closed[0], recorded + closed[1]),
    )  # fmt: skip


graphs = st.lists(rows(), max_size=14)
moments = st.none() | st.integers(-1, 70).map(lambda number: number + 0.5)
merges = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=3)


@pytest.fixture(scope="module")
def memory(postgres):
    """A memory of day NOW, and a connection that writes edges past it."""
    for dsn in postgres.lend():
        engine = open_memory(dsn, clock=lambda: day(NOW), worker=False)
        run_sync(engine.open())
        with psycopg.connect(dsn, autocommit=True) as superuser:
            yield engine, superuser
        run_sync(engine.close())


def filled(memory: Filling, graph: list[Row]) -> tuple[MemoryEngine, Scope]:
    engine, superuser = memory
    scope = Scope("graphs", str(next(numbers)))
    superuser.cursor().executemany(
        "INSERT INTO hippocampus.edges (tenant_id, edge_id, subject, relation, object,"
        " subject_key, object_key, valid_from, valid_until, recorded_at, superseded_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            (scope_path(scope), edge_id(place), row.subject, str(place), row.object,
             normalised(row.subject), normalised(row.object), day(row.begins),
             row.closed and day(row.closed[0]), day(row.recorded),
             row.closed and day(row.closed[1]))
            for place, row in enumerate(graph)
        ],
    )  # fmt: skip
    return engine, scope


def edge_id(place: int) -> UUID:
    return uuid5(SPACE, str(place))


def merged(
    engine: MemoryEngine, scope: Scope, pairs: list[tuple[str, str]], known: float | None
) -> dict[str, str]:
    """Merge names; return the root of each as it was known at a moment."""
    roots = {normalised(name): normalised(name) for name in NAMES}
    for name, alias in pairs:
        run_sync(engine.graph.merge_aliases(scope, name, [alias]))
        new, old = roots[normalised(name)], roots[normalised(alias)]
        roots = {key: new if root == old else root for key, root in roots.items()}
    return roots if known is None or known >= NOW else {key: key for key in roots}


def joined(
    graph: list[Row], roots: dict[str, str], valid: float, known: float | None
) -> list[tuple[int, str, str]]:
    """Return edges that hold with the entities they join, the newest first."""
    rows = sorted(enumerate(graph), key=lambda one: (-one[1].begins, edge_id(one[0])))
    return [
        (place, roots[normalised(row.subject)], roots[normalised(row.object)])
        for place, row in rows
        if row.holds(valid, known)
    ]


def as_of(valid: float | None, known: float | None) -> AsOf:
    valid_at, known_at = (None if one is None else day(one) for one in (valid, known))
    return AsOf(valid=valid_at, known=known_at)


unhurried = settings(max_examples=60 if LONG else 20)


@unhurried
@given(graphs, merges, moments, moments, st.integers(1, 3), st.integers(1, 6))
@example([Row("Mia", "Tom", 0, 0, (5, 20))], [], 10.5, 15.5, 3, 6)  # not known to have ended
@example([Row("Mia", "Tom", 0, 0, (5, 20))], [], 10.5, 25.5, 3, 6)
@example([Row("Mia", "Tom", 55, 0, None), Row("Tom", "Zoe", 0, 30, None)], [], None, 25.5, 3, 6)
@example([Row("张伟", "Tom", 0, 0, None)], [("Mia", "张伟")], None, 25.5, 3, 6)  # not known as one
@example([Row("Mia", "mia", 0, 0, None), Row("Tom", "MIA", 1, 1, None)], [], None, None, 3, 6)
@example(
    [Row("Mia", "Tom", 0, 0, None), Row("Tom", "张伟", 1, 1, None), Row("张伟", "Mia", 2, 2, None)],
    [("Mia", "張偉")], None, None, 3, 2,
)  # fmt: skip
def test_a_neighbourhood_is_what_a_search_finds(memory, graph, pairs, valid, known, depth, limit):
    engine, scope = filled(memory, graph)
    roots = merged(engine, scope, pairs, known)
    edges = joined(graph, roots, NOW if valid is None else valid, known)
    reached, hops = {roots["mia"]: 0}, dict[int, int]()
    for step in range(1, depth + 1):
        near = {root for root, far in reached.items() if far == step - 1}
        for place, subject, other in edges:
            if near & {subject, other}:
                hops.setdefault(place, step)
                reached = {subject: step, other: step} | reached
    expected = sorted(hops, key=lambda place: (hops[place], -graph[place].begins, edge_id(place)))
    for most in (limit, 500):
        asked = {"depth": depth, "limit": most, "as_of": as_of(valid, known)}
        found = run_sync(engine.graph.neighbourhood(scope, "mia", **asked))
        assert [(str(place), hops[place]) for place in expected[:most]] == [
            (one.relation, one.hops) for one in found.edges
        ]
        assert all(one.current for one in found.edges)
        assert (len(expected) > most) == found.more
    assert sorted(reached.values() if hops else []) == list(found.entities.values())


@unhurried
@given(graphs, merges, moments, moments, st.integers(1, 4))
def test_paths_are_all_simple_paths_shortest_first(memory, graph, pairs, valid, known, max_hops):
    engine, scope = filled(memory, graph)
    roots = merged(engine, scope, pairs, known)
    edges = joined(graph, roots, NOW if valid is None else valid, known)

    def ways(met: list[str], taken: list[int]) -> Iterator[list[int]]:
        if met[-1] == roots["zoe"]:
            yield taken
            return
        for place, subject, other in edges if len(taken) < max_hops else ():
            for here, there in {(subject, other), (other, subject)}:
                if here == met[-1] and there not in met:
                    yield from ways([*met, there], [*taken, place])

    expected = list(ways([roots["mia"]], [])) if roots["mia"] != roots["zoe"] else []
    asked = {"max_hops": max_hops, "limit": 100, "as_of": as_of(valid, known)}
    found = run_sync(engine.graph.paths(scope, "MIA", "Zoe", **asked))
    taken = [[int(edge.relation) for edge in path.edges] for path in found]
    assert [len(one) for one in taken] == sorted(map(len, expected))[:100]
    assert all(one in expected for one in taken)
    assert len(taken) == len({tuple(one) for one in taken})
    assert all(len({*path.entities}) == len(path.edges) + 1 for path in found)


@unhurried
@given(graphs, merges, moments)
def test_a_history_is_all_that_was_known_of_an_entity(memory, graph, pairs, known):
    engine, scope = filled(memory, graph)
    roots = merged(engine, scope, pairs, known)
    own = {key for key, root in roots.items() if root == roots["tom"]}
    expected = [
        (str(place), row.holds(NOW, known))
        for place, row in sorted(
            enumerate(graph), key=lambda one: (one[1].begins, one[1].recorded, edge_id(one[0]))
        )
        if own & {normalised(row.subject), normalised(row.object)}
        and (known is None or row.recorded <= known)
    ]
    found = run_sync(engine.graph.history(scope, "TOM", as_of=as_of(None, known)))
    assert expected == [(one.relation, one.current) for one in found]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=8), st.booleans())
def test_what_is_added_holds_until_what_begins_later(added, functional):
    spells: list[Spell] = []
    told: dict[int, set[str]] = {}
    for number, (value, begins) in enumerate(added):
        plan = plan_addition(spells, value, day(begins), functional=functional)
        held = {one.value for one in spells if holds(one, begins)}
        replaced = functional and held - {value}
        assert plan.operation == (
            Operation.NOOP if value in held else Operation.UPDATE if replaced else Operation.ADD
        )
        ends = dict([*plan.ends.close, *plan.ends.move])
        spells = [
            Spell(edge_id=one.edge_id, value=one.value, valid_from=one.valid_from,
                  valid_until=ends.get(one.edge_id, one.valid_until), fact_id=None)
            for one in spells
        ]  # fmt: skip
        if plan.operation is not Operation.NOOP:
            spells.append(Spell(edge_id=edge_id(number), value=value, valid_from=day(begins),
                                valid_until=plan.valid_until, fact_id=None))  # fmt: skip
            told.setdefault(begins, set())
            told[begins] = {value} if functional else told[begins] | {value}
    for at in range(12):
        now = [one.value for one in spells if holds(one, at)]
        assert len(now) == len(set(now))
        before = [values for begins, values in told.items() if begins <= at]
        if functional:
            latest = max((begins for begins in told if begins <= at), default=None)
            assert set(now) == (set() if latest is None else told[latest])
        else:
            assert set(now) == set().union(*before)
    assert functional is False or 1 >= sum(one.valid_until is None for one in spells)


def holds(spell: Spell, at: int) -> bool:
    return spell.valid_from <= day(at) < (spell.valid_until or day(1000))
