"""Profiles: to_dict comes back, order of telling does not matter, nothing is lost or made up."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import example, given, strategies as st

from shared_core.profiles.memory import EventMemory, Memory, ProfileMemory

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TOLD = st.sampled_from(
    ["User lives in Leeds.", "User lives in Lisbon.", "User likes jazz.", "User dislikes jazz.",
     "User is 34 years old.", "User is 35 years old.", "User works at Acme and likes tea.",
     "用户住在北京。", "用户住在上海，喜欢茶。", "用户叫小明。", "User hums.",
     "User's name is Ann."]
)  # fmt: skip
FREE = st.text(min_size=1, max_size=40).filter(lambda text: text.split())
MINUTES = st.integers(0, 60 * 24 * 30)


def at(minutes: int) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


@given(
    st.lists(st.tuples(TOLD | FREE, MINUTES), max_size=8),
    st.lists(st.tuples(FREE, MINUTES), max_size=8),
    st.sampled_from(["user", "agent"]),
)
def test_to_dict_comes_back(
    told: list[tuple[str, int]], events: list[tuple[str, int]], subject: str
) -> None:
    memory = Memory("bot", subject="agent" if subject == "agent" else "user", max_events=5)
    for text, minutes in told:
        memory.update_profile(text, at=at(minutes))
    memory.update_events([(text, at(minutes)) for text, minutes in events])
    again = Memory.from_dict(json.loads(json.dumps(memory.to_dict())))
    assert again == memory
    assert again.to_prompt() == memory.to_prompt()
    assert again.content_hash() == memory.content_hash()
    memory.update_profile("User lives in Porto.", at=at(10**6))
    assert again != memory


@given(st.lists(st.tuples(TOLD, MINUTES), max_size=6, unique_by=lambda one: one[1]), st.randoms())
def test_what_holds_in_the_end_is_the_same_in_whatever_order_it_is_told(
    told: list[tuple[str, int]], random: object
) -> None:
    shuffled = told.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = ProfileMemory(), ProfileMemory()
    for profile, some in ((one, sorted(told, key=lambda said: said[1])), (other, shuffled)):
        for text, minutes in some:
            profile.update_content(text, at=at(minutes))
    assert current(one) == current(other)


def current(profile: ProfileMemory) -> set[tuple[str, str]]:
    return {(fact.key, fact.value) for one in profile.statements for fact in one.facts}


@given(st.lists(st.tuples(TOLD | FREE, MINUTES), max_size=8))
def test_no_slot_holds_two_values_and_history_ends_after_it_began(
    told: list[tuple[str, int]],
) -> None:
    profile = ProfileMemory()
    for text, minutes in told:
        profile.update_content(text, at=at(minutes))
    keys = [fact.key for one in profile.statements for fact in one.facts]
    assert len(set(keys)) == len(keys)
    assert all(one.valid_until and one.valid_until >= one.valid_from for one in profile.history)
    assert all(one.valid_until is None for one in profile.statements)


@given(st.lists(st.tuples(FREE, MINUTES), max_size=20), st.integers(1, 6))
@example([("A?𠀀", 0)], 1)
def test_events_are_the_newest_in_the_order_of_time(
    events: list[tuple[str, int]], most: int
) -> None:
    memory = EventMemory(max_events=most)
    memory.update_recent_events([(text, at(minutes)) for text, minutes in events])
    times = [one.occurred_at for one in memory.events]
    assert times == sorted(times) and len(times) <= most
    if events:
        assert times[-1] == at(max(minutes for _, minutes in events))
    assert not memory.update_recent_events(memory.events)
