"""Whatever an export or a history holds: what comes again adds only the new."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from dictionaries import Tables, run, tables
from hypothesis import given, strategies as st
from turns import said

from shared_core import Event
from shared_core.errors import Conflict, InvalidInput, MemoryCoreError
from shared_core.ingest.events import known_beginning
from shared_core.policies.importing import import_rows, require_unforgotten
from shared_core.ports.transfer import RowBatch, Written
from shared_core.transfer.lines import read_rows

NOW = datetime(2026, 3, 1, tzinfo=UTC)
AT = NOW.isoformat()
THREADS = st.sampled_from("abc")
TURNS = st.lists(
    st.tuples(THREADS, st.integers(1, 5), st.booleans()), max_size=8, unique_by=lambda one: one[:2]
)
TALKS = st.lists(
    st.tuples(THREADS, st.sampled_from(["active", "ending", "ended"]), st.integers(0, 2)),
    max_size=3,
    unique_by=lambda one: one[0],
)
FACTS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from("kl"), st.booleans()),
    max_size=6,
    unique_by=lambda one: one[0],
)
TOMBSTONES = st.sets(st.tuples(THREADS, st.integers(1, 5)), max_size=3)
ERASURES = st.lists(st.one_of(st.none(), THREADS), max_size=2)
Rows = list[dict[str, Any]]


def read(table: str, rows: Rows) -> Rows:
    """Return rows as an import reads them, with all columns."""
    lines = [json.dumps({"table": table, "row": {"tenant_id": "/app/ana/", **one}}) for one in rows]
    columns = tuple(sorted({"tenant_id", *(name for one in rows for name in one)}))
    return read_rows(RowBatch(table=table, columns=columns, lines=lines, numbers=[]), NOW)


def thread(name: str, **counters: int) -> dict[str, Any]:
    return {"thread_id": name, "created_at": AT, "updated_at": AT, **counters}


def turns(some: list[tuple[str, int, bool]]) -> Rows:
    return [
        {"thread_id": name, "seq": seq, "event_id": f"e{seq}", "author": "ana", "role": "user",
         "text": "", "occurred_at": AT, "recorded_at": AT, "memory_seq": seq if kept else None}
        for name, seq, kept in some
    ]  # fmt: skip


def talks(some: list[tuple[str, str, int]]) -> Rows:
    return [
        {"thread_id": name, "status": status, "event_count": count, "created_at": AT,
         "last_active_at": AT, "ends_at": AT}
        for name, status, count in some
    ]  # fmt: skip


def facts(some: list[tuple[int, str, bool]]) -> Rows:
    return [
        {"memory_id": str(UUID(int=number)), "fact_type": "custom", "slot": key, "key": key,
         "value": "v", "functional": True, "confidence": 0.7, "extractor": "", "pattern": "",
         "valid_from": AT, "valid_until": None if is_current else AT, "recorded_at": AT}
        for number, key, is_current in some
    ]  # fmt: skip


def here(**rows: Rows) -> Tables:
    return tables(**{table: read(table, some) for table, some in rows.items()})


def imported(
    world: Tables, table: str, rows: Rows, *receipts: UUID, restore: bool = False
) -> Written | type[MemoryCoreError]:
    """Import rows and return the outcome; a refusal changes nothing."""
    before = deepcopy(world)
    if not rows:
        return Written(written=0)
    names = {str(one) for one in receipts}
    try:
        return run(import_rows(table, read(table, rows), names, restore=restore), world)
    except MemoryCoreError as error:
        assert world == before
        return type(error)


@given(TURNS, TURNS, TOMBSTONES, st.booleans())
def test_turns_come_once_and_threads_count_on(own, brought, buried, restore):
    threads = [thread(name, last_seq=2, last_memory_seq=1, consolidated_seq=1) for name in "abc"]
    marks = [{"thread_id": name, "event_id": f"e{seq}", "deleted_at": AT} for name, seq in buried]
    world = here(threads=threads, events=turns(own), tombstones=marks)
    before = deepcopy(world)
    outcome = imported(world, "events", turns(brought), restore=restore)
    is_forgotten = any((name, seq) in buried for name, seq, kept in brought if kept)
    if is_forgotten and not restore:
        assert outcome is Conflict
        with pytest.raises(Conflict, match="forgotten here"):
            run(require_unforgotten("events", read("events", turns(brought)), ()), world)
        return
    assert isinstance(outcome, Written)
    known = {one[:2] for one in own}
    assert outcome.written == len({one[:2] for one in brought} - known)
    assert world["events"][: len(own)] == before["events"]
    for old, new in zip(before["threads"], world["threads"], strict=True):
        of_thread = [one for one in brought if one[0] == new["thread_id"]]
        assert new["last_seq"] == max([2, *(seq for _, seq, _ in of_thread)])
        assert new["last_memory_seq"] == max([1, *(seq for _, seq, kept in of_thread if kept)])
        assert new["consolidated_seq"] == old["consolidated_seq"]
    left = {(one["thread_id"], one["event_id"]) for one in world["tombstones"]}
    assert not left & {(name, f"e{seq}") for name, seq, kept in brought if kept}
    after = deepcopy(world)
    again = imported(world, "events", turns(brought))
    assert (again.written if isinstance(again, Written) else again) == 0
    assert world == after


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_the_counters_of_a_thread_never_fall(own, brought, said, more):
    world = here(threads=[thread("a", last_seq=own, last_memory_seq=said, unread_bytes=own)])
    line = thread("a", last_seq=brought, last_memory_seq=more, unread_bytes=brought)
    assert Written(written=0, differ=0) != imported(world, "threads", [thread("a", version=2)])
    imported(world, "threads", [line])
    [stored] = world["threads"]
    assert stored["last_seq"] == max(own, brought)
    assert stored["last_memory_seq"] == max(said, more)
    assert stored["unread_bytes"] == (max(own, brought) if more > said else own)


@given(TALKS, TALKS, TOMBSTONES, st.booleans())
def test_one_session_at_most_is_active(own, brought, buried, restore):
    active = [one for one in own if one[1] == "active"][:1]
    own = [*active, *(one for one in own if one[1] != "active")]
    marks = [{"thread_id": name, "event_id": f"e{seq}", "deleted_at": AT} for name, seq in buried]
    world = here(conversations=talks(own), tombstones=marks)
    before = deepcopy(world["conversations"])
    outcome = imported(world, "conversations", talks(brought), restore=restore)
    gone = {name for name, _ in buried} - {one[0] for one in own}
    if not restore and gone & {one[0] for one in brought}:
        assert outcome is Conflict
        return
    stored = {one["thread_id"]: one for one in world["conversations"]}
    assert stored.keys() == {one[0] for one in [*own, *brought]}
    assert world["conversations"][: len(own)] == before
    assert sum(one["status"] == "active" for one in stored.values()) <= 1
    for name, status, count in brought:
        if name not in {one[0] for one in own} and stored[name]["status"] != status:
            assert (status, stored[name]["ended_at"]) == ("active", NOW)
            assert stored[name]["status"] == ("ending" if count else "ended")


@given(FACTS, FACTS)
def test_a_place_has_one_row(own, brought):
    current: dict[str, int] = {}
    own = [one for one in own if not one[2] or current.setdefault(one[1], one[0]) == one[0]]
    world = here(facts=facts(own))
    world["memories"] += [{"memory_id": UUID(int=number)} for number in range(6)]
    outcome = imported(world, "facts", facts(brought))
    new = [one for one in brought if one[0] not in {number for number, *_ in own}]
    wanted = [*current, *(key for _, key, is_current in new if is_current)]
    if len(set(wanted)) < len(wanted):
        assert outcome is Conflict
        return
    same = {one[0]: one for one in own}
    differ = sum(one[0] in same and same[one[0]] != one for one in brought)
    assert outcome == Written(written=len(new), differ=differ)


@given(TURNS, ERASURES, st.integers(0, 2), st.booleans())
def test_an_export_without_a_receipt_brings_nothing_of_the_erased(brought, erased, known, restore):
    receipts = [UUID(int=number) for number in range(len(erased))]
    rows = [
        {"erasure_id": str(one), "target": {"thread_id": name} if name else {}, "counts": {},
         "receipt_hash": "\\x00", "requested_at": AT, "completed_at": AT}
        for one, name in zip(receipts, erased, strict=True)
    ]  # fmt: skip
    world = here(erasures=rows, threads=[thread(name) for name in "abc"])
    unknown = erased[known:]
    outcome = imported(world, "events", turns(brought), *receipts[:known], restore=restore)
    reached = [one for one in brought if None in unknown or one[0] in unknown]
    if reached and not restore:
        assert outcome is Conflict
    else:
        assert isinstance(outcome, Written) and outcome.written == len(brought)
    assert imported(world, "erasures", rows) == Written(written=0)


@given(TURNS)
def test_a_row_comes_after_what_it_refers_to(brought):
    world = here(threads=[thread("a")])
    outcome = imported(world, "events", turns(brought))
    assert (outcome is InvalidInput) == any(name != "a" for name, *_ in brought)


def history(letters: str) -> list[Event]:
    """Each letter a turn: capitals are the agent's."""
    return [
        said(place, letter.lower(), role="agent" if letter.isupper() else "user")
        for place, letter in enumerate(letters)
    ]


def known(remembered: str, handed: str) -> str:
    """Return what of a history is taken for known."""
    return handed[: known_beginning(history(remembered), history(handed))]


# What is remembered, what is handed over, and what of it is known.
HISTORIES = {
    "one that grew": [
        ("", "aNbN", ""), ("aN", "aNbN", "aN"), ("a", "ab", "a"), ("yNyN", "yNyNyN", "yNyN")],
    "one that was trimmed": [
        ("aNbNcN", "bNcNaN", "bNcN"), ("aNbNcN", "NcNaN", "NcN"), ("aNbNyN", "Nbb", "N"),
        ("yNyNyN", "yNyN", "yN")],  # a window that moved on over the same words
    "what comes alone is new however often it was said": [
        ("aNyN", "yN", ""), ("aNNyNN", "yNN", ""), ("aNbN", "yzN", ""), ("aNNN", "yzNNN", "")],
    "turns that were forgotten or never came stay out": [
        ("aNNcN", "aNbNcNdN", "aNbNcN"), ("aNcN", "aNbNcNdN", "aNbNcN"),
        ("aN", "aNbNcN", "aN")],  # the hand-over of b failed
    "one that goes on in another way": [
        ("aNbN", "aNbM", "aNb"), ("aNbN", "aNcN", "aN"), ("aNbN", "aNbN", "aNbN")],
}  # fmt: skip


@pytest.mark.parametrize("case", HISTORIES)
def test_what_of_a_history_is_known(case):
    for remembered, handed, found in HISTORIES[case]:
        assert found == known(remembered, handed)


CONVERSATION = st.lists(st.sampled_from(["aN", "bN", "yN", "yM", "aNN", "c"]), max_size=12)


@given(talk=CONVERSATION, then=st.sampled_from(["aN", "yN", "zN", "bb"]), window=st.integers(2, 40))
def test_no_turn_that_is_new_is_taken_for_known(talk, then, window):
    before = "".join(talk)
    handed = (before + then)[-window:]
    new = then[-window:]
    found = known(before, handed)
    assert len(handed) - len(found) >= len(new)


@given(talk=CONVERSATION.filter(bool), then=st.sampled_from(["zN", "zZN"]))
def test_a_whole_history_brings_only_what_is_new(talk, then):
    before = "".join(talk)
    assert before == known(before, before + then)
