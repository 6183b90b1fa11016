"""The rules by which what was said becomes edges of the graph."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from hypothesis import given, strategies as st

from shared_core.core.domain import FactDraft, MemoryId, TripleDraft
from shared_core.knowledge.edge_planning import plan_edges
from shared_core.ports.runs import KnownEdge, PlannedFact

START = datetime(2026, 3, 1, tzinfo=UTC)


def triple(
    place: str, day: int, *, functional: bool = True, since: int | None = None
) -> TripleDraft:
    return TripleDraft(
        subject="Mia",
        relation="lives_in" if functional else "knows",
        object=place,
        event_id=str(day),
        functional=functional,
        valid_from=None if since is None else START + timedelta(days=since),
    )


def read(drafts: list[TripleDraft]) -> list[KnownEdge]:
    """Return what is known after the turns that were read, each in a run of its own."""
    edges: dict[UUID, KnownEdge] = {}
    for draft in drafts:
        at = START + timedelta(days=int(draft.event_id))
        known = [one for one in edges.values() if one.relation == draft.relation]
        found = plan_edges([draft], known, [], {draft.event_id: at}, uuid4)
        for edge_id, until in found.closed.items():
            edges[edge_id] = replace(edges[edge_id], valid_until=until)
        for one in found.opened:
            edges[one.edge_id] = KnownEdge(
                edge_id=one.edge_id,
                subject=one.draft.subject,
                relation=one.draft.relation,
                object=one.draft.object,
                valid_from=one.valid_from,
                valid_until=one.valid_until,
            )
        for edge_id, _ in found.sources:
            edges[edge_id] = replace(edges[edge_id], stated_at=[*edges[edge_id].stated_at, at])
        assert all(one.valid_until is None or one.valid_until >= one.valid_from
                   for one in edges.values())  # fmt: skip
    return list(edges.values())


def current(edges: list[KnownEdge]) -> list[tuple[str, str]]:
    return sorted((one.relation, one.object) for one in edges if one.valid_until is None)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.booleans(), st.sampled_from([None, 0, 3, 12])),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_in_which_edges_are_read_does_not_count(
    said: list[tuple[str, bool, int | None]], order: random.Random
) -> None:
    drafts = [
        triple(place, day, functional=functional, since=since)
        for day, (place, functional, since) in enumerate(said, 1)
    ]
    as_said = current(read(drafts))
    assert 1 >= sum(relation == "lives_in" for relation, _ in as_said)
    order.shuffle(drafts)
    assert as_said == current(read(drafts))


def test_an_edge_ends_with_the_fact_of_its_turn() -> None:
    fact = PlannedFact(
        memory_id=MemoryId(uuid4()),
        draft=FactDraft(
            fact_type="profile", slot="residence", value="Leeds", statement="Mia lives in Leeds.",
            event_id="1", functional=True, confidence=1.0, pattern="test", language="en",
        ),
        key="residence",
        valid_from=START,
        valid_until=START + timedelta(days=4),
    )  # fmt: skip
    draft = triple("Leeds", 1)
    said_at = {"1": START + timedelta(days=1), "0": START}
    for turns, rests in (((), True), (("0",), False)):
        [edge] = plan_edges(
            [replace(draft, other_event_ids=turns)], [], [fact], said_at, uuid4
        ).opened
        assert (fact.valid_from, fact.valid_until) == (edge.valid_from, edge.valid_until)
        assert (fact.memory_id, rests) == (edge.fact_id, edge.memory_id is not None)


def test_an_edge_ends_with_a_fact_that_was_known() -> None:
    for days, ends in ((2, 2), (0, 1)):  # the fact may end before its edge was said
        fact = PlannedFact(
            memory_id=MemoryId(uuid4()),
            draft=FactDraft(
                fact_type="profile", slot="residence", value="Leeds", event_id="1", language="en",
                statement="Mia lives in Leeds.", functional=True, confidence=1.0, pattern="test",
            ),
            key="residence",
            valid_from=START - timedelta(days=5),
            valid_until=START + timedelta(days=days),
        )  # fmt: skip
        at = START + timedelta(days=1)
        found = plan_edges([triple("Leeds", 1)], [], [], {"1": at}, uuid4, [fact])
        [edge] = found.opened
        assert (fact.memory_id, None) == (edge.fact_id, edge.memory_id)
        assert (at, START + timedelta(days=ends)) == (edge.valid_from, edge.valid_until)
        assert [(edge.edge_id, ("1",))] == found.sources
