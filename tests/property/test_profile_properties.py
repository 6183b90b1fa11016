"""Profiles: nothing is lost or made up, in any order of telling; versions keep their own."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import pytest
from dictionaries import run, tables
from hypothesis import example, given, settings, strategies as st
from long_forms import LONG

from shared_core.core.domain import MemoryId, Scope
from shared_core.core.namespaces import profile_namespace
from shared_core.errors import Conflict
from shared_core.policies.profile_versions import drop_profile, save_profile
from shared_core.policies.profiles import profile_by_id, profile_of
from shared_core.ports.items import MemoryRow
from shared_core.ports.profiles import PARAGRAPH_KEY, EntryRole, NewVersion, ProfileRun
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
def test_to_dict_comes_back(told, events, subject):
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
def test_what_holds_in_the_end_is_the_same_in_whatever_order_it_is_told(told, random):
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
def test_no_slot_holds_two_values_and_history_ends_after_it_began(told):
    profile = ProfileMemory()
    for text, minutes in told:
        profile.update_content(text, at=at(minutes))
    keys = [fact.key for one in profile.statements for fact in one.facts]
    assert len(set(keys)) == len(keys)
    assert all(one.valid_until and one.valid_until >= one.valid_from for one in profile.history)
    assert all(one.valid_until is None for one in profile.statements)


@given(st.lists(st.tuples(FREE, MINUTES), max_size=20), st.integers(1, 6))
@example([("A?𠀀", 0)], 1)
def test_events_are_the_newest_in_the_order_of_time(events, most):
    memory = EventMemory(max_events=most)
    memory.update_recent_events([(text, at(minutes)) for text, minutes in events])
    times = [one.occurred_at for one in memory.events]
    assert times == sorted(times) and len(times) <= most
    if events:
        assert times[-1] == at(max(minutes for _, minutes in events))
    assert not memory.update_recent_events(memory.events)


# --- versions: what is kept, what is shown, and what goes with the last that names it


SCOPE = Scope("app", "ana")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROFILE, PARAGRAPH = UUID(int=1), MemoryId(UUID(int=2))
few = settings(max_examples=60 if LONG else 20)
ROLES: list[EntryRole] = ["statement", "ended", "event", "mind"]


class Profile:
    """A profile of a user on dictionaries, and which memories each of its versions named."""

    def __init__(self, random: Random) -> None:
        self.random, self.now, self.found = random, NOW, tables()
        self.named: dict[int, dict[UUID, EntryRole]] = {}
        self.kept: set[int] = set()
        self.texts: dict[UUID, str] = {}
        self._ids = 100

    @property
    def newest(self) -> int:
        return max(self.kept, default=0)

    def id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)

    def version(self) -> NewVersion:
        """Return a next version: memories of its own, and some of those that are there."""
        there = {one for number in self.kept for one in self.named[number]}
        own = [self.id() for _ in range(self.random.randrange(3))]
        again = self.random.sample(sorted(there), self.random.randint(0, len(there)))
        entries = [(one, self.random.choice(ROLES)) for one in (*own, *again)]
        rows = [self.row(one, str(one)) for one in own] + [self.row(PARAGRAPH, PARAGRAPH_KEY)]
        return NewVersion(
            subject="user", agent_id="", expected=self.newest, revision=0, revises=False,
            event_limit=9, content_hash="00ff", began_at=NOW, entries=entries, rows=rows,
            sources=[], rewritten=again, required=(), covered=[one for one, _ in entries],
            keep=self.random.randint(1, 4),
        )  # fmt: skip

    def row(self, memory_id: UUID, key: str) -> MemoryRow:
        return MemoryRow(
            memory_id=MemoryId(memory_id), namespace=profile_namespace(SCOPE, "user", ""), key=key,
            kind="semantic", text=f"text {self._ids}", value={"content": f"text {self._ids}"},
            terms=[], occurred_at=NOW,
        )  # fmt: skip

    def save(self, new: NewVersion) -> None:
        """Save a version, and note what must be kept then."""
        self.now += timedelta(minutes=1)
        record = ProfileRun(run_id=self.id(), extractor="r", started_at=self.now, counts={})
        run(save_profile(SCOPE, PROFILE, record, new, None, (), self.now), self.found, self.now)
        number = new.expected + 1
        self.kept = {one for one in (*self.kept, number) if one > number - new.keep}
        self.named[number] = dict(new.entries)
        self.texts |= {row.memory_id: row.text for row in new.rows}


@few
@given(st.randoms(use_true_random=False))
def test_the_newest_versions_are_kept_with_what_they_name(random):
    profile = Profile(random)
    for _ in range(8):
        profile.save(profile.version())
        rows = profile.found["profiles"]
        assert profile.kept == {one["version"] for one in rows}
        named = {one for number in profile.kept for one in profile.named[number]}
        memories = {one["memory_id"]: one for one in profile.found["memories"]}
        assert {*named, PARAGRAPH} == memories.keys()
        shown = {one for one, role in profile.named[profile.newest].items() if role != "ended"}
        living = {one for one, row in memories.items() if row["superseded_at"] is None}
        assert {*shown, PARAGRAPH} == living
        bases = {one["basis_id"] for one in profile.found["memory_bases"]}
        assert bases == profile.named[profile.newest].keys()


@few
@given(st.randoms(use_true_random=False))
def test_every_kept_version_is_read_as_it_was_written(random):
    profile = Profile(random)
    for _ in range(6):
        profile.save(profile.version())
    for number in profile.kept:
        stored = run(profile_by_id(PROFILE, number), profile.found)
        assert stored is not None and not stored.forgotten
        assert [one.role for one in stored.entries] == [*profile.named[number].values()]
        told = [one.value["content"] for one in stored.entries]
        assert told == [profile.texts[one] for one in profile.named[number]]
    newest = run(profile_of("user", ""), profile.found)
    assert newest is not None and newest.version.version == profile.newest
    assert run(profile_by_id(PROFILE, min(profile.kept) - 1), profile.found) is None


@few
@given(st.randoms(use_true_random=False))
def test_a_version_that_is_not_the_next_one_changes_nothing(random):
    profile = Profile(random)
    for _ in range(3):
        profile.save(profile.version())
    new = profile.version()
    before = {table: list(map(repr, rows)) for table, rows in profile.found.items()}
    for late in (
        replace(new, expected=new.expected + random.choice((-1, 1))),
        replace(new, revision=1),
        replace(new, rewritten=[UUID(int=9)]),
        replace(new, required=[("t", "e")]),
    ):
        with pytest.raises(Conflict):
            profile.save(late)
        left = {table: list(map(repr, rows)) for table, rows in profile.found.items()}
        assert before == {table: rows for table, rows in left.items() if rows or table in before}


@few
@given(st.randoms(use_true_random=False))
def test_a_version_that_is_confirmed_is_revised_and_not_followed(random):
    profile = Profile(random)
    profile.save(profile.version())
    record = ProfileRun(run_id=profile.id(), extractor="r", started_at=NOW, counts={})
    new = replace(profile.version(), revises=True)
    run(save_profile(SCOPE, PROFILE, record, new, None, (), NOW), profile.found, NOW)
    [row] = profile.found["profiles"]
    assert (1, 1) == (row["version"], row["revision"])
    with pytest.raises(Conflict, match="the profile was changed meanwhile"):
        profile.save(new)
    profile.save(replace(profile.version(), revision=1))


@few
@given(st.randoms(use_true_random=False))
def test_a_profile_that_is_dropped_leaves_marks_alone(random):
    profile = Profile(random)
    profile.found["threads"] += tables(threads=[{"thread_id": "t", "last_memory_seq": 4}])[
        "threads"
    ]
    for _ in range(random.randint(1, 4)):
        profile.save(profile.version())
    newest = run(profile_of("user", ""), profile.found)
    count = run(drop_profile(SCOPE, newest.version, profile.id(), NOW), profile.found)
    assert count == len(profile.kept)
    for table in ("profiles", "memories", "memory_bases", "memory_access"):
        assert not profile.found[table], table
    [mark] = profile.found["pipeline_log"]
    assert {"to_seq": 4} == mark["input"]
