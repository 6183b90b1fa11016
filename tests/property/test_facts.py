"""The rules by which what was said becomes what is known."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from hypothesis import given, settings, strategies as st

from shared_core.core.domain import USER, FactDraft, MemoryId
from shared_core.knowledge.fact_planning import (
    FactPlan,
    fact_key,
    plan_facts,
    slots_to_read,
    without_moot,
)
from shared_core.nlp.text import normalised
from shared_core.ports.runs import KnownFact, Retraction

START = datetime(2026, 3, 1, tzinfo=UTC)


def draft(
    slot: str,
    value: str,
    day: int = 1,
    *,
    functional: bool = False,
    operation: str = "assert",
    subject: str = USER,
    since: float | None = None,
) -> FactDraft:
    return FactDraft(
        fact_type="profile",
        slot=slot,
        value=value,
        statement=f"User {slot} {value}.",
        event_id=str(day),
        functional=functional,
        confidence=0.9,
        pattern="test",
        language="en",
        operation=operation,  # type: ignore[arg-type]
        subject=subject,
        valid_from=None if since is None else START + timedelta(days=since),
    )


def plan(drafts: list[FactDraft], known: list[KnownFact] | None = None) -> FactPlan:
    said_at = {one.event_id: START + timedelta(days=int(one.event_id)) for one in drafts}
    return plan_facts(drafts, known or [], said_at, lambda: MemoryId(uuid4()))


def known(
    slot: str, value: str, day: int = 0, *, functional: bool = True, subject: str = USER
) -> KnownFact:
    key = fact_key(draft(slot, value, functional=functional, subject=subject))
    return KnownFact(
        memory_id=MemoryId(uuid4()),
        fact_type="profile",
        key=key,
        value=value,
        valid_from=START + timedelta(days=day),
    )


def test_a_new_value_of_a_functional_slot_ends_the_old_one() -> None:
    google = known("employer", "Google")
    found = plan([draft("employer", "Meta", 3, functional=True)], [google])
    assert {google.memory_id: START + timedelta(days=3)} == found.closed
    assert ["Meta"] == [fact.draft.value for fact in found.opened]


def test_the_same_value_again_is_noted_and_changes_nothing() -> None:
    google = known("employer", "Google")
    found = plan([draft("employer", " google. ", 3, functional=True)], [google])
    assert ([], {}) == (found.opened, found.closed)
    assert [(google.memory_id, ("3",))] == found.seen_again


def test_values_of_an_open_slot_live_side_by_side() -> None:
    found = plan([draft("language", "German"), draft("language", "French")])
    assert [None, None] == [fact.valid_until for fact in found.opened]


def test_a_value_said_before_the_current_one_becomes_history() -> None:
    meta = known("employer", "Meta", day=5)
    [fact] = plan([draft("employer", "Google", 2, functional=True)], [meta]).opened
    assert meta.valid_from == fact.valid_until


def test_two_changes_in_one_run_leave_one_current_value_and_its_history() -> None:
    found = plan([draft("home", city, day, functional=True) for day, city in enumerate("ABC", 1)])
    assert [("A", 2), ("B", 3), ("C", None)] == [
        (fact.draft.value, fact.valid_until and (fact.valid_until - START).days)
        for fact in found.opened
    ]


def test_a_retraction_ends_the_value_it_names_and_no_other() -> None:
    tea, coffee = (known("like", drink, functional=False) for drink in ("tea", "coffee"))
    found = plan([draft("like", "Coffee", operation="retract")], [tea, coffee])
    assert [coffee.memory_id] == list(found.closed)


def test_a_retraction_without_a_value_ends_the_whole_slot() -> None:
    tea, coffee = (known("like", drink, functional=False) for drink in ("tea", "coffee"))
    found = plan([draft("like", "", operation="retract")], [tea, coffee])
    assert {tea.memory_id, coffee.memory_id} == set(found.closed)


def test_to_like_something_now_is_to_dislike_it_no_more() -> None:
    hated = known("dislike", "jazz", functional=False)
    found = plan([draft("like", "Jazz")], [hated])
    assert [hated.memory_id] == list(found.closed)
    assert ["dislike", "like"] == slots_to_read([draft("like", "Jazz")])


def test_a_liking_said_before_the_dislike_that_holds_is_history() -> None:
    hated = known("dislike", "coffee", day=5, functional=False)
    found = plan([draft("like", "coffee", 1)], [hated])
    assert {} == found.closed
    assert [hated.valid_from] == [fact.valid_until for fact in found.opened]


def test_a_fact_of_another_slot_is_never_ended() -> None:
    others = [known("residence", "Leeds"), known("name", "Maya")]
    assert {} == plan([draft("employer", "Northwind", functional=True)], others).closed


AGE = "relation.daughter.age"


def test_only_a_fact_about_the_same_person_is_ended() -> None:
    mia = known(AGE, "five", subject="Mia")
    assert {} == plan([draft(AGE, "eight", functional=True, subject="Ann")], [mia]).closed
    found = plan([draft(AGE, "six", functional=True, subject="Mia")], [mia])
    assert [mia.memory_id] == list(found.closed)


def test_what_is_told_of_my_daughter_is_told_of_the_only_one_known() -> None:
    mia = known("relation.daughter", "Mia", functional=False)
    young = known(AGE, "five", subject="Mia")
    found = plan([draft(AGE, "six", functional=True)], [mia, young])
    assert [young.memory_id] == list(found.closed)
    assert [f"{AGE}@mia"] == [fact.key for fact in found.opened]


def test_what_is_told_of_my_daughter_is_told_of_neither_of_two() -> None:
    sisters = [known("relation.daughter", name, functional=False) for name in ("Mia", "Ann")]
    young = known(AGE, "five", subject="Mia")
    found = plan([draft(AGE, "six", functional=True)], [*sisters, young])
    assert {} == found.closed
    assert [AGE] == [fact.key for fact in found.opened]


def test_the_names_of_a_relation_are_read_with_what_is_told_of_it() -> None:
    assert [AGE, "relation.daughter"][::-1] == slots_to_read([draft(AGE, "six")])


def test_the_opposite_taste_of_one_person_ends_only_theirs() -> None:
    hers, mine = (
        known("relation.son.dislike", "jazz", functional=False, subject="Leo"),
        known("dislike", "jazz", functional=False),
    )
    found = plan([draft("relation.son.like", "jazz", subject="Leo")], [hers, mine])
    assert [hers.memory_id] == list(found.closed)


def test_a_fact_begins_when_it_is_said_to_have_begun() -> None:
    [fact] = plan([draft("employer", "Meta", 9, functional=True, since=4)]).opened
    assert START + timedelta(days=4) == fact.valid_from


def test_what_it_replaces_ends_when_the_new_one_began() -> None:
    google = known("employer", "Google", day=1)
    found = plan([draft("employer", "Meta", 9, functional=True, since=4)], [google])
    assert {google.memory_id: START + timedelta(days=4)} == found.closed


def test_the_newer_statement_holds_even_if_it_tells_of_an_earlier_time() -> None:
    google = known("employer", "Google", day=6)
    found = plan([draft("employer", "Meta", 9, functional=True, since=4)], [google])
    assert {google.memory_id: START + timedelta(days=9)} == found.closed
    assert [None] == [fact.valid_until for fact in found.opened]


def test_a_fact_never_begins_after_it_was_said() -> None:
    [fact] = plan([draft("employer", "Meta", 2, functional=True, since=8)]).opened
    assert START + timedelta(days=2) == fact.valid_from


def test_a_retraction_ends_a_fact_when_it_is_said_to_have_ended() -> None:
    google = known("employer", "Google", day=1)
    leaving = draft("employer", "Google", 9, functional=True, operation="retract", since=4)
    assert {google.memory_id: START + timedelta(days=4)} == plan([leaving], [google]).closed


def test_an_end_is_moot_where_the_same_turn_gives_the_next_value() -> None:
    left = draft("employer", "Stripe", functional=True, operation="retract")
    joined = draft("employer", "Figma", functional=True)
    unlike = draft("like", "coffee", operation="retract")
    assert [joined, unlike] == without_moot([left, joined, unlike])
    assert [joined, left] == without_moot([joined, left])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["employer", "like", "dislike"]),
            st.sampled_from(["a", "b", "c", ""]),
            st.integers(0, 9),
            st.sampled_from(["assert", "assert", "retract"]),
            st.sampled_from([None, 0, 3, 12]),
        )
    )
)
def test_at_most_one_value_per_key_is_ever_current(
    said: list[tuple[str, str, int, str, int | None]],
) -> None:
    drafts = [
        draft(
            slot, value or "x", day, functional=slot == "employer", operation=operation, since=since
        )
        for slot, value, day, operation, since in said
    ]
    found = plan(drafts)
    current = [fact.key for fact in found.opened if fact.valid_until is None]
    assert len(current) == len(set(current))
    assert all(
        fact.valid_until is None or fact.valid_until >= fact.valid_from for fact in found.opened
    )
    liked = {key.split(":")[1] for key in current if key.startswith("like:")}
    disliked = {key.split(":")[1] for key in current if key.startswith("dislike:")}
    assert not liked & disliked


@given(st.text())
def test_normalising_twice_is_normalising_once(value: str) -> None:
    once = normalised(value)
    assert once == normalised(once)


def test_an_age_told_of_a_name_is_the_age_of_the_relation_so_called() -> None:
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


def test_an_age_told_of_a_known_relation_ends_the_one_that_is_known() -> None:
    about = draft("about.mia.age", "6", 3, functional=True, subject="Mia")
    before = [
        known("relation.daughter", "Mia", functional=False),
        known("relation.daughter.age", "5", subject="Mia"),
    ]
    assert {"relation.daughter", "relation.daughter.age"} <= set(slots_to_read([about]))
    done = plan([about], before)
    assert [fact.key for fact in done.opened] == ["relation.daughter.age@mia"]
    assert list(done.closed) == [before[1].memory_id]


def test_what_was_told_of_a_name_ends_when_the_relation_is_told() -> None:
    age = draft("relation.daughter.age", "6", 3, functional=True, subject="Mia")
    before = [known("about.mia.age", "5", subject="Mia")]
    assert "about.mia.age" in slots_to_read([age])
    assert list(plan([age], before).closed) == [before[0].memory_id]


def test_two_relations_of_one_name_keep_what_is_told_of_the_name_apart() -> None:
    told = [
        draft("relation.daughter", "Mia"),
        draft("relation.dog", "Mia"),
        draft("about.mia.age", "6", 3, functional=True, subject="Mia"),
    ]
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
        at = START + timedelta(days=int(one.event_id))
        slots = slots_to_read([one])
        known = [fact for fact in self.facts.values() if fact.key.split(":")[0] in slots]
        retracted = [end for end in self.retractions if end.slot in slots and end.said_at > at]
        found = plan_facts([one], known, {one.event_id: at}, lambda: MemoryId(uuid4()), retracted)
        for memory_id, until in found.closed.items():
            assert self.facts[memory_id].valid_until is None
            self.facts[memory_id] = replace(self.facts[memory_id], valid_until=until)
        for memory_id, _ in found.seen_again:
            fact = self.facts[memory_id]
            self.facts[memory_id] = replace(fact, stated_at=[*fact.stated_at, at])
        for opened in found.opened:
            self.facts[opened.memory_id] = KnownFact(
                memory_id=opened.memory_id,
                fact_type=opened.draft.fact_type,
                key=opened.key,
                value=opened.draft.value,
                valid_from=opened.valid_from,
                valid_until=opened.valid_until,
                stated_at=[at],
            )
        self.retractions += [end for end, _ in found.retracted]

    def current(self) -> list[tuple[str, str]]:
        return sorted(
            (fact.key, fact.value) for fact in self.facts.values() if fact.valid_until is None
        )


def read(drafts: list[FactDraft]) -> Read:
    so_far = Read()
    for one in drafts:
        so_far.turn(one)
        assert all(
            fact.valid_until is None or fact.valid_until >= fact.valid_from
            for fact in so_far.facts.values()
        )
    return so_far


TURNS = st.lists(
    st.tuples(
        st.sampled_from(["employer", "like", "dislike"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["assert", "assert", "retract", "retract all"]),
        st.sampled_from([None, 0, 3, 12]),
    ),
    max_size=7,
)


def turns_of(said: list[tuple[str, str, str, int | None]]) -> list[FactDraft]:
    """Return drafts, one a day. An end of all values is never as of the moment of a turn.

    Such an end counts before the turn in one order of reading and after it in another, if the fact
    is stated again before the end is told.
    """
    return [
        draft(
            slot,
            "" if operation == "retract all" else value,
            day,
            functional=slot == "employer",
            operation=operation.split()[0],
            since=since + 0.5 if since and operation == "retract all" else since,
        )
        for day, (slot, value, operation, since) in enumerate(said, 1)
    ]


@settings(max_examples=400)
@given(TURNS, st.randoms(use_true_random=False))
def test_the_order_in_which_turns_are_read_does_not_count(
    said: list[tuple[str, str, str, int | None]], order: random.Random
) -> None:
    drafts = turns_of(said)
    as_said = read(drafts).current()
    order.shuffle(drafts)
    assert as_said == read(drafts).current()


def test_what_ended_before_a_turn_and_was_said_after_it_still_speaks_against_it() -> None:
    said = [
        ("like", "b", "assert", 12),
        ("dislike", "b", "assert", 0),
        ("dislike", "b", "retract", 1),
    ]
    liked, disliked, no_more = turns_of(said)
    assert [] == read([liked, disliked, no_more]).current()
    assert [] == read([no_more, disliked, liked]).current()


def days(so_far: Read) -> list[tuple[str, int, int | None]]:
    return sorted(
        (fact.value, (fact.valid_from - START).days,
         None if fact.valid_until is None else (fact.valid_until - START).days)
        for fact in so_far.facts.values()
    )  # fmt: skip


def test_what_is_read_late_and_was_retracted_since_is_history() -> None:
    told = draft("employer", "Acme", 1, functional=True)
    left = draft("employer", "Acme", 5, functional=True, operation="retract")
    assert [("Acme", 1, 5)] == days(read([left, told]))
    to_come = replace(left, valid_from=START + timedelta(days=9))
    assert [("Acme", 1, 5)] == days(read([to_come, told]))
    since = replace(left, valid_from=START + timedelta(days=3))
    assert [("Acme", 1, 3)] == days(read([since, told]))
    assert [("Bosch", 1, None)] == days(read([left, replace(told, value="Bosch")]))


def test_what_is_read_late_ends_where_the_next_value_began() -> None:
    leeds, york = (draft("home", city, day, functional=True) for day, city in ((1, "L"), (3, "Y")))
    away = draft("home", "Y", 5, functional=True, operation="retract")
    assert [("L", 1, 3), ("Y", 3, 5)] == days(read([york, away, leeds]))


def test_a_retraction_read_late_leaves_what_was_said_since() -> None:
    told = [draft("like", "tea", day) for day in (1, 5)]
    stopped = draft("like", "tea", 3, operation="retract")
    assert [("tea", 1, None)] == days(read([*told, stopped]))
    assert [("tea", 1, 3), ("tea", 5, None)] == days(read([told[1], stopped, told[0]]))


def test_what_was_said_again_between_ends_what_it_speaks_against() -> None:
    first, again = (draft("dislike", "tea", day) for day in (2, 6))
    liked, no_more = draft("like", "tea", 3), draft("dislike", "", 7, operation="retract")
    assert [] == read([first, no_more, liked, again]).current()
