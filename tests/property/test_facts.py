"""The rules by which what was said becomes what is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from shared_core.domain import FactDraft, MemoryId
from shared_core.facts import FactPlan, fact_key, normalised, plan_facts, slots_to_read
from shared_core.run_ports import KnownFact

START = datetime(2026, 3, 1, tzinfo=UTC)


def draft(
    slot: str, value: str, day: int = 1, *, functional: bool = False, operation: str = "assert"
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
    )


def plan(drafts: list[FactDraft], known: list[KnownFact] | None = None) -> FactPlan:
    said_at = {one.event_id: START + timedelta(days=int(one.event_id)) for one in drafts}
    return plan_facts(drafts, known or [], said_at, lambda: MemoryId(uuid4()))


def known(slot: str, value: str, day: int = 0, *, functional: bool = True) -> KnownFact:
    key = fact_key(draft(slot, value, functional=functional))
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
    assert [(google.memory_id, "3")] == found.seen_again


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


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["employer", "like", "dislike"]),
            st.sampled_from(["a", "b", "c", ""]),
            st.integers(0, 9),
            st.sampled_from(["assert", "assert", "retract"]),
        )
    )
)
def test_at_most_one_value_per_key_is_ever_current(
    said: list[tuple[str, str, int, str]],
) -> None:
    drafts = [
        draft(slot, value or "x", day, functional=slot == "employer", operation=operation)
        for slot, value, day, operation in said
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
