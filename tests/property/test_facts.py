"""The rules by which what was said becomes what is known: facts, and edges of the graph."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise, permutations
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import assume, given, settings, strategies as st
from long_forms import LONG

from shared_core.core.domain import USER, FactDraft, MemoryId, TripleDraft
from shared_core.knowledge import fact_planning as planning
from shared_core.knowledge.edge_planning import plan_edges
from shared_core.nlp.text import normalised
from shared_core.ports.runs import KnownEdge, KnownFact, PlannedFact, Retraction

START = datetime(2026, 3, 1, tzinfo=UTC)


def on(day: float) -> datetime:
    return START + timedelta(days=day)


def draft(
    slot: str, value: str, day: int = 1, *, since: float | None = None, **more: Any
) -> FactDraft:
    given: dict[str, Any] = {
        "fact_type": "profile", "slot": slot, "value": value, "statement": f"User {slot} {value}.",
        "event_id": str(day), "functional": False, "confidence": 0.9, "pattern": "test",
        "language": "en", "valid_from": None if since is None else on(since),
    }  # fmt: skip
    return FactDraft(**given | more)


def job(value: str, day: int = 1, **more: Any) -> FactDraft:
    return draft("employer", value, day, functional=True, **more)


def days_of(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - START).days


def plan(drafts: list[FactDraft], known: list[KnownFact] | None = None) -> planning.FactPlan:
    said_at = {one.event_id: on(int(one.event_id)) for one in drafts}
    return planning.plan_facts(drafts, known or [], said_at, lambda: MemoryId(uuid4()))


def known(
    slot: str, value: str, day: int = 0, *, functional: bool = True, subject: str = USER
) -> KnownFact:
    key = planning.fact_key(draft(slot, value, functional=functional, subject=subject))
    return KnownFact(
        memory_id=MemoryId(uuid4()), fact_type="profile", key=key, value=value, valid_from=on(day)
    )


def test_the_same_value_again_changes_nothing_and_an_end_is_moot_beside_the_next_value():
    google = known("employer", "Google")
    found = plan([job(" google. ", 3)], [google])
    assert ([], {}) == (found.opened, found.closed)
    assert [(google.memory_id, ("3",))] == found.seen_again
    assert ["dislike", "like", "not_like"] == planning.slots_to_read([draft("like", "Jazz")])
    not_age = "relation.daughter.not_age"
    assert ["relation.daughter", AGE, not_age] == planning.slots_to_read([draft(AGE, "six")])
    left, joined = job("Stripe", operation="retract"), job("Figma")
    unlike = draft("like", "coffee", operation="retract")
    assert [joined, unlike] == planning.without_moot([left, joined, unlike])
    assert [joined, left] == planning.without_moot([joined, left])


AGE = "relation.daughter.age"
GOOGLE, JAZZ = known("employer", "Google", 1), known("dislike", "jazz", functional=False)
DRINKS = [known("like", drink, functional=False) for drink in ("tea", "coffee")]
DAUGHTERS = [known("relation.daughter", name, functional=False) for name in ("Mia", "Ann")]
MIA_IS_FIVE = known(AGE, "five", subject="Mia")

# What was said, what was known, which values end on which day, and what is opened: key, from, until
PLANS: dict[str, tuple[list[FactDraft], list[KnownFact], dict[str, int], list[Any]]] = {
    "a new value of a functional slot ends the old one": (
        [job("Meta", 3)], [GOOGLE], {"Google": 3}, [("employer", 3, None)]
    ),
    "values of an open slot live side by side": (
        [draft("language", "German"), draft("language", "French")],
        [], {}, [("language:german", 1, None), ("language:french", 1, None)],
    ),
    "a value said before the current one becomes history": (
        [job("Google", 2)], [known("employer", "Meta", 5)], {}, [("employer", 2, 5)]
    ),
    "two changes in one run leave one current value and its history": (
        [job(name, day) for day, name in enumerate("ABC", 1)],
        [], {}, [("employer", 1, 2), ("employer", 2, 3), ("employer", 3, None)],
    ),
    "a retraction ends the value it names and no other": (
        [draft("like", "Coffee", operation="retract")], DRINKS, {"coffee": 1}, []
    ),
    "a retraction without a value ends the whole slot": (
        [draft("like", "", operation="retract")], DRINKS, {"tea": 1, "coffee": 1}, []
    ),
    "to like something now is to dislike it no more": (
        [draft("like", "Jazz")], [JAZZ], {"jazz": 1}, [("like:jazz", 1, None)]
    ),
    "a liking said before the dislike that holds is history": (
        [draft("like", "coffee")], [known("dislike", "coffee", 5, functional=False)],
        {}, [("like:coffee", 1, 5)],
    ),
    "a fact of another slot is never ended": (
        [job("Northwind")], [known("residence", "Leeds"), known("name", "Maya")],
        {}, [("employer", 1, None)],
    ),
    "a fact about another person is not ended": (
        [draft(AGE, "eight", functional=True, subject="Ann")], [MIA_IS_FIVE],
        {}, [(f"{AGE}@ann", 1, None)],
    ),
    "a fact about the same person is ended": (
        [draft(AGE, "six", functional=True, subject="Mia")], [MIA_IS_FIVE],
        {"five": 1}, [(f"{AGE}@mia", 1, None)],
    ),
    "what is told of my daughter is told of the only one known": (
        [draft(AGE, "six", functional=True)], [DAUGHTERS[0], MIA_IS_FIVE],
        {"five": 1}, [(f"{AGE}@mia", 1, None)],
    ),
    "what is told of my daughter is told of neither of two": (
        [draft(AGE, "six", functional=True)], [*DAUGHTERS, MIA_IS_FIVE], {}, [(AGE, 1, None)]
    ),
    "the opposite taste of one person ends only theirs": (
        [draft("relation.son.like", "jazz", subject="Leo")],
        [known("relation.son.dislike", "Jazz", functional=False, subject="Leo"), JAZZ],
        {"Jazz": 1}, [("relation.son.like@leo:jazz", 1, None)],
    ),
    "a fact begins when it is said to have begun, and what it replaces ends then": (
        [job("Meta", 9, since=4)], [GOOGLE], {"Google": 4}, [("employer", 4, None)]
    ),
    "the newer statement holds even if it tells of an earlier time": (
        [job("Meta", 9, since=4)], [known("employer", "Google", 6)],
        {"Google": 9}, [("employer", 9, None)],
    ),
    "a fact never begins after it was said": (
        [job("Meta", 2, since=8)], [], {}, [("employer", 2, None)]
    ),
    "a retraction ends a fact when it is said to have ended": (
        [job("Google", 9, operation="retract", since=4)], [GOOGLE], {"Google": 4}, []
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANS)
def test_what_is_said_opens_and_ends_facts(case):
    drafts, held, ends, opens = PLANS[case]
    found = plan(drafts, held)
    values = {fact.memory_id: fact.value for fact in held}
    assert ends == {values[one]: days_of(until) for one, until in found.closed.items()}
    assert opens == [
        (fact.key, days_of(fact.valid_from), days_of(fact.valid_until)) for fact in found.opened
    ]


SLOTS = st.sampled_from(["employer", "like", "dislike"])
SINCE = st.sampled_from([None, 0, 3, 12])


@given(
    st.lists(
        st.tuples(SLOTS, st.sampled_from(["a", "b", "c", ""]), st.integers(0, 9),
                  st.sampled_from(["assert", "assert", "retract"]), SINCE)
    )
)  # fmt: skip
def test_at_most_one_value_per_key_is_ever_current(said):
    drafts = [
        draft(slot, value or "x", day, functional=slot == "employer", operation=what, since=since)
        for slot, value, day, what, since in said
    ]
    found = plan(drafts)
    current = [fact.key for fact in found.opened if fact.valid_until is None]
    assert len(current) == len(set(current))
    assert all(map(ends_after_it_begins, found.opened))
    liked = {key.split(":")[1] for key in current if key.startswith("like:")}
    disliked = {key.split(":")[1] for key in current if key.startswith("dislike:")}
    assert not liked & disliked


@given(st.text())
def test_normalising_twice_is_normalising_once(value):
    once = normalised(value)
    assert once == normalised(once)


def test_what_is_told_of_a_name_is_told_of_the_one_relation_so_called():
    told = [
        draft("relation.daughter", "灿灿"),
        draft("relation.daughter.age", "五岁", 2, functional=True, subject="灿灿"),
        draft("about.灿灿.age", "6", 3, functional=True, subject="灿灿"),
    ]
    ages = [fact for fact in plan(told).opened if fact.draft.slot.endswith("age")]
    assert [(fact.key, fact.valid_until is None) for fact in ages] == [
        ("relation.daughter.age@灿灿", False),
        ("relation.daughter.age@灿灿", True),
    ]
    about = draft("about.mia.age", "6", 3, functional=True, subject="Mia")
    before = [
        known("relation.daughter", "Mia", functional=False),
        known("relation.daughter.age", "5", subject="Mia"),
    ]
    assert {"relation.daughter", "relation.daughter.age"} <= set(planning.slots_to_read([about]))
    done = plan([about], before)
    assert [fact.key for fact in done.opened] == ["relation.daughter.age@mia"]
    assert list(done.closed) == [before[1].memory_id]
    age = draft("relation.daughter.age", "6", 3, functional=True, subject="Mia")
    before = [known("about.mia.age", "5", subject="Mia")]
    assert "about.mia.age" in planning.slots_to_read([age])
    assert list(plan([age], before).closed) == [before[0].memory_id]
    told = [draft("relation.daughter", "Mia"), draft("relation.dog", "Mia"),
        draft("about.mia.age", "6", 3, functional=True, subject="Mia")]  # fmt: skip
    assert plan(told).opened[-1].key == "about.mia.age@mia"


class Read:
    """What is known after the turns that were read, each in a run of its own.

    Runs come after all was said, so a store hands over every fact of a slot: each end became known
    after whatever is read.
    """

    def __init__(self) -> None:
        self.facts: dict[MemoryId, KnownFact] = {}
        self.retractions: list[Retraction] = []

    def turn(self, one: FactDraft) -> None:
        at = on(int(one.event_id))
        slots = planning.slots_to_read([one])
        known = [fact for fact in self.facts.values() if fact.key.split(":")[0] in slots]
        retracted = [end for end in self.retractions if end.slot in slots and end.said_at > at]
        found = planning.plan_facts(
            [one], known, {one.event_id: at}, lambda: MemoryId(uuid4()), retracted
        )
        for memory_id, until in found.closed.items():
            assert self.facts[memory_id].valid_until is None
            self.facts[memory_id] = replace(self.facts[memory_id], valid_until=until)
        for memory_id, until in found.moved.items():
            assert self.facts[memory_id].valid_until > until
            self.facts[memory_id] = replace(self.facts[memory_id], valid_until=until)
        for memory_id, _ in found.seen_again:
            fact = self.facts[memory_id]
            self.facts[memory_id] = replace(fact, stated_at=[*fact.stated_at, at])
        for opened in found.opened:
            self.facts[opened.memory_id] = KnownFact(
                memory_id=opened.memory_id, fact_type=opened.draft.fact_type, key=opened.key,
                value=opened.draft.value, valid_from=opened.valid_from,
                valid_until=opened.valid_until, stated_at=[at],
            )  # fmt: skip
        self.retractions += [end for end, _ in found.retracted]

    def current(self) -> list[tuple[str, str]]:
        return sorted(
            (fact.key, fact.value) for fact in self.facts.values() if fact.valid_until is None
        )


def ends_after_it_begins(one: KnownFact | KnownEdge | PlannedFact) -> bool:
    return one.valid_until is None or one.valid_until >= one.valid_from


def read(drafts: list[FactDraft]) -> Read:
    so_far = Read()
    for one in drafts:
        so_far.turn(one)
        assert all(map(ends_after_it_begins, so_far.facts.values()))
    return so_far


OPERATIONS = st.sampled_from(["assert", "assert", "retract", "retract all"])
TURNS = st.lists(st.tuples(SLOTS, st.sampled_from(["a", "b"]), OPERATIONS, SINCE), max_size=7)


def turns_of(said: list[tuple[str, str, str, int | None]]) -> list[FactDraft]:
    """Return drafts, one a day. An end of all values is never as of the moment of a turn.

    Such an end counts before the turn in one order of reading and after it in another, if the fact
    is stated again before the end is told.
    """
    return [
        draft(slot, "" if operation == "retract all" else value, day,
              functional=slot == "employer", operation=operation.split()[0],
              since=since + 0.5 if since and operation == "retract all" else since)
        for day, (slot, value, operation, since) in enumerate(said, 1)
    ]  # fmt: skip


@settings(max_examples=400 if LONG else 150)
@given(TURNS, st.randoms(use_true_random=False))
def test_the_order_in_which_turns_are_read_does_not_count(said, order):
    drafts = turns_of(said)
    as_said = read(drafts).current()
    order.shuffle(drafts)
    assert as_said == read(drafts).current()


def test_what_is_read_late_is_history_ends_where_the_next_began_and_leaves_what_was_said_since():
    said = [("like", "assert", 12), ("dislike", "assert", 0), ("dislike", "retract", 1)]
    liked, disliked, no_more = turns_of([(slot, "b", *rest) for slot, *rest in said])
    assert [] == read([liked, disliked, no_more]).current()
    assert [] == read([no_more, disliked, liked]).current()
    told, left = job("Acme"), job("Acme", 5, operation="retract")
    assert [("Acme", 1, 5)] == days(read([left, told]))
    to_come = replace(left, valid_from=on(9))
    assert [("Acme", 1, 5)] == days(read([to_come, told]))
    since = replace(left, valid_from=on(3))
    assert [("Acme", 1, 3)] == days(read([since, told]))
    assert [("Bosch", 1, None)] == days(read([left, replace(told, value="Bosch")]))
    leeds, york = (draft("home", city, day, functional=True) for day, city in ((1, "L"), (3, "Y")))
    away = draft("home", "Y", 5, functional=True, operation="retract")
    assert [("L", 1, 3), ("Y", 3, 5)] == days(read([york, away, leeds]))
    told = [draft("like", "tea", day) for day in (1, 5)]
    stopped = draft("like", "tea", 3, operation="retract")
    assert [("tea", 1, None)] == days(read([*told, stopped]))
    assert [("tea", 1, 3), ("tea", 5, None)] == days(read([told[1], stopped, told[0]]))
    first, again = (draft("dislike", "tea", day) for day in (2, 6))
    liked, no_more = draft("like", "tea", 3), draft("dislike", "", 7, operation="retract")
    assert [] == read([first, no_more, liked, again]).current()


def days(so_far: Read) -> list[tuple[str, int, int | None]]:
    return sorted(
        (fact.value, days_of(fact.valid_from), days_of(fact.valid_until))
        for fact in so_far.facts.values()
    )


STEP = st.tuples(st.sampled_from(["told", "told", "past", "ended", "denied", "left"]),
                 st.integers(1, 6), st.integers(0, 4))  # fmt: skip


@settings(max_examples=400 if LONG else 60)
@given(st.lists(STEP, min_size=2, max_size=5))
def test_history_is_the_same_whatever_the_order_of_telling(steps):
    """Of distinct homes, told as they began or as past, and ends and denials of them."""
    assume(not {"past", "denied"} <= {one[0] for one in steps})
    told: list[FactDraft] = []
    for day, (what, back, which) in zip(range(7, 40, 7), steps, strict=False):
        more, homes = {}, [one.value for one in told if one.operation == "assert"]
        if what == "past":
            more = {"since": day - back - 4, "valid_until": on(day - back)}
        elif what != "told" and homes:
            since = day - back if what == "ended" else None
            more = {"operation": "retract", "denies": what == "denied", "since": since}
        named = homes[which % len(homes)] if what != "left" and homes else ""
        value = named if "operation" in more else f"town {day}"
        told.append(draft("residence", value, day, functional=True, **more))
    as_told = [one for one in days(read(told)) if one[1] != one[2]]
    for order in permutations(told):
        assert as_told == [one for one in days(read([*order])) if one[1] != one[2]]
    if not any(one.valid_until for one in told):
        spans = sorted(one[1:] for one in as_told)
        assert all(one[1] and one[1] <= other[0] for one, other in pairwise(spans))


# --- edges


def triple(
    place: str, day: int, *, functional: bool = True, since: int | None = None
) -> TripleDraft:
    return TripleDraft(
        subject="Mia", relation="lives_in" if functional else "knows", object=place,
        event_id=str(day), functional=functional, valid_from=None if since is None else on(since),
    )  # fmt: skip


def edges_of(drafts: list[TripleDraft]) -> list[KnownEdge]:
    """Return what is known after the turns that were read, each in a run of its own."""
    edges: dict[UUID, KnownEdge] = {}
    for draft in drafts:
        at = on(int(draft.event_id))
        known = [one for one in edges.values() if one.relation == draft.relation]
        found = plan_edges([draft], known, [], {draft.event_id: at}, uuid4)
        for edge_id, until in found.closed.items():
            edges[edge_id] = replace(edges[edge_id], valid_until=until)
        for one in found.opened:
            edges[one.edge_id] = KnownEdge(
                edge_id=one.edge_id, subject=one.draft.subject, relation=one.draft.relation,
                object=one.draft.object, valid_from=one.valid_from, valid_until=one.valid_until,
            )  # fmt: skip
        for edge_id, _ in found.sources:
            edges[edge_id] = replace(edges[edge_id], stated_at=[*edges[edge_id].stated_at, at])
        assert all(map(ends_after_it_begins, edges.values()))
    return list(edges.values())


def holding(edges: list[KnownEdge]) -> list[tuple[str, str]]:
    return sorted((one.relation, one.object) for one in edges if one.valid_until is None)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), SINCE), max_size=8),
    st.randoms(use_true_random=False),
)
def test_the_order_in_which_edges_are_read_does_not_count(said, order):
    drafts = [
        triple(place, day, functional=functional, since=since)
        for day, (place, functional, since) in enumerate(said, 1)
    ]
    as_said = holding(edges_of(drafts))
    assert 1 >= sum(relation == "lives_in" for relation, _ in as_said)
    order.shuffle(drafts)
    assert as_said == holding(edges_of(drafts))


def residence(begins: int, ends: int) -> PlannedFact:
    return PlannedFact(
        memory_id=MemoryId(uuid4()), draft=draft("residence", "Leeds", functional=True),
        key="residence", valid_from=on(begins), valid_until=on(ends),
    )  # fmt: skip


def test_an_edge_ends_with_the_fact_of_its_turn_also_with_one_that_was_known():
    fact, said_at = residence(0, 4), {"1": on(1), "0": START}
    for turns, rests in (((), True), (("0",), False)):
        lives = replace(triple("Leeds", 1), other_event_ids=turns)
        [edge] = plan_edges([lives], [], [fact], said_at, uuid4).opened
        assert (fact.valid_from, fact.valid_until) == (edge.valid_from, edge.valid_until)
        assert (fact.memory_id, rests) == (edge.fact_id, edge.memory_id is not None)
    for days, ends in ((2, 2), (0, 1)):  # the fact may end before its edge was said
        fact = residence(-5, days)
        found = plan_edges([triple("Leeds", 1)], [], [], {"1": on(1)}, uuid4, [fact])
        [edge] = found.opened
        assert (fact.memory_id, None) == (edge.fact_id, edge.memory_id)
        assert (on(1), on(ends)) == (edge.valid_from, edge.valid_until)
        assert [(edge.edge_id, ("1",))] == found.sources
