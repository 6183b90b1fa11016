"""Every operation and condition on both engines, the types of their values, and policies: what they
see, what they commit, and for whom they wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from operation_rows import (
    ALONE,
    ANA,
    BEN,
    MANY,
    MEMORY,
    NOW,
    memories,
    memory,
    number,
    places,
    returned,
    rows_of,
    thread,
    until,
    write,
)
from turns import said

from shared_core import Conflict, Scope
from shared_core.core.domain import MemoryId, ThreadId
from shared_core.policies.conversations import end_conversation
from shared_core.ports.conversations import Session, SessionRules, SessionStatus
from shared_core.ports.events import EventRow
from shared_core.ports.items import MemoryRow, VectorRows
from shared_core.ports.jobs import JobType, NewJob
from shared_core.ports.operations import (
    Aggregate,
    Delete,
    Insert,
    Join,
    Last,
    Member,
    Operation,
    Policy,
    Row,
    Select,
    TenantBusy,
    Update,
    UpdateEach,
    Verb,
    after,
    begins_with,
    compare,
    equal,
    is_not_null,
    is_null,
    one_of,
    one_of_rows,
    open_after,
)
from shared_core.ports.storage import Storage

# Types


async def test_values_come_back_in_their_python_type(storage):
    there = datetime.fromisoformat("2026-03-01T20:00:00.000001+08:00")
    given = memory(
        1, value={"a": [1, 2.5, None, "ü"], "b": {}}, importance=7.0, text="it's\\ %s 中😀",
        occurred_at=there,
    )  # fmt: skip
    await write(storage, Insert("memories", MEMORY, [given]))
    expected = {name: one for name, one in zip(MEMORY, given, strict=True) if name != "terms"}
    [row] = await rows_of(storage, "memories", *expected)
    assert list(row) == list(expected.values())
    assert [*map(type, row)] == [*map(type, expected.values())]
    assert dict(zip(expected, row, strict=True))["occurred_at"].utcoffset() == timedelta()


async def test_words_are_stored_as_a_written_memory_stores_them(storage):
    words = ["told", "Rome's", "茶", "told"]
    row = MemoryRow(
        memory_id=MemoryId(number(1)), namespace=("app", "ana", "facts"), key="k00001", kind="item",
        text="", value={}, terms=words, occurred_at=NOW,
    )  # fmt: skip
    beside = Insert("memories", MEMORY, [memory(2, terms=words)])
    await write(storage, Verb("put_items", ([row],)), beside)
    [(first,), (second,)] = await rows_of(storage, "memories", "terms")
    assert first == second
    assert "told" in first


TOKEN = ("token_id", "secret_hash", "label", "users", "created_at")
MARK = ("address_hash", "updated_at", "deleted_at")
POLICY = (
    "kind", "fades", "decay_rate", "threshold", "min_age_days", "archive_after_days",
    "erase_after_days", "with_history", "updated_at",
)  # fmt: skip
OF_ALL_TYPES: list[tuple[str, tuple[str, ...], list[tuple[object, ...]]]] = [
    ("api_tokens", TOKEN, [("a", bytes(range(32)), "", ['quote"s', "back\\slash", "{},", ""], NOW),
                           ("b", bytes(32), "b", [], NOW), ("c", b"'" * 32, "c", None, NOW)]),
    ("retention_policies", POLICY, [("item", False, 0.1, 1.0, 7.0, 30.5, 1e9, True, NOW)]),
    ("import_marks", MARK, [(b"", NOW, None), (b"\1" * 32, NOW, NOW)]),  # of no item, too
]  # fmt: skip


async def test_rows_of_lists_bytes_and_payloads_are_named_by_their_columns_or_tenant(storage):
    for table, names, rows in OF_ALL_TYPES:
        await write(storage, Insert(table, names, rows))
        found = await rows_of(storage, table, *names, order=names[:1])
        assert found == rows
        assert [*map(type, found[0])] == [*map(type, rows[0])]
        first = (equal(names[0], rows[0][0]),)
        assert await rows_of(storage, table, *names, where=first) == rows[:1]
    event = ("thread_id", "seq", "event_id", "author", "role", "text", "occurred_at",
             "recorded_at", "payload")  # fmt: skip
    there = {"b": 1, "a": [None]}
    rows = [("t", at, str(at), "ana", "user", "", NOW, NOW, (None, there)[at]) for at in (0, 1)]
    await write(storage, thread("t"), Insert("events", event, rows))
    found = await rows_of(storage, "events", "payload", "metadata", order=("seq",))
    assert found == [(None, {}), (there, {})]
    assert await rows_of(storage, "events", "seq", where=(is_null("payload"),)) == [(0,)]
    assert await rows_of(storage, "events", "seq", where=(is_not_null("payload"),)) == [(1,)]
    version = ("instruction_key", "version", "content", "created_at")
    rows = [(key, at, f"{key}{at}", NOW) for key in "ab" for at in (1, 2)]
    await write(storage, Insert("instructions", version, rows))
    key, content = version[:2], ("content", "metadata")
    each = [("a", 2, "x", {"m": 1}), ("b", 1, "y", {})]
    await write(storage, UpdateEach("instructions", key, content, each))
    found = await rows_of(storage, "instructions", *content, order=("instruction_key", "-version"))
    assert found == [("x", {"m": 1}), ("a1", {}), ("b2", {}), ("y", {})]
    named = one_of_rows(key, [("a", 1), ("b", 2), ("c", 1)])
    gone = await returned(storage, Delete("instructions", (named,), ("content",)))
    assert sorted(gone) == [("a1",), ("b2",)]
    assert len(await rows_of(storage, "instructions", "version")) == 2
    table, column = "extraction_counts", ("extractions",)
    for number_of in (3, 4):
        await write(storage, Insert(table, column, [(number_of,)], "update", column))
    assert await rows_of(storage, table, *column) == [(4,)]
    changed = Update(table, {"extractions": 5}, (), column)
    assert await returned(storage, changed) == [(5,)]
    assert await returned(storage, Delete(table, (), column)) == [(5,)]
    assert await returned(storage, changed) == []
    state = ("state", "updated_at")
    for tenant in (ANA, BEN, "/app/", "/other/", ALONE):
        await write(storage, Insert("shared_state", state, [({"of": tenant}, NOW)]), tenant=tenant)
    found = await rows_of(storage, "shared_state", "tenant_id", "state", above=True)
    assert sorted(found) == [("/app/", {"of": "/app/"}), (ANA, {"of": ANA})]
    assert await rows_of(storage, "shared_state", "tenant_id") == [(ANA,)]


# Conditions

CONDITIONS = [
    (equal("memory_id", number(2)), [2]), (equal("text", "text 2"), [2]),
    (equal("text", "text 2 "), []), (equal("thread_id", "t"), [3]),
    (compare("memory_id", "<>", number(2)), [1, 3, 4, 5]),
    (compare("thread_id", "<>", "x"), [3]),
    (compare("occurred_at", "<", NOW + timedelta(seconds=2)), [1]),
    (compare("occurred_at", "<=", NOW + timedelta(seconds=2)), [1, 2]),
    (compare("key", ">", "k00004"), [5]), (compare("memory_id", ">=", number(4)), [4, 5]),
    (one_of("memory_id", [number(9), number(1), number(1), number(4)]), [1, 4]),
    (one_of("text", ["text 5", "text 1 "]), [5]), (one_of("key", []), []),
    (one_of_rows(("namespace", "key"), [("/facts/", "k00001"), ("/x/", "k00002")]), [1]),
    (one_of_rows(("memory_id", "text"), [(number(5), "text 5"), (number(4), "")]), [5]),
    (one_of_rows(("memory_id", "key"), []), []),
    (after(("occurred_at", "memory_id"), (NOW + timedelta(seconds=3), number(3))), [4, 5]),
    (after(("occurred_at", "memory_id"), (NOW + timedelta(seconds=3), number(2))), [3, 4, 5]),
    (after(("namespace", "key"), ("/facts/", "k00004")), [5]),
    (is_null("thread_id"), [1, 2, 4, 5]), (is_not_null("thread_id"), [3]),
    (begins_with("key", "k0000"), [1, 2, 3, 4, 5]), (begins_with("key", "k00005"), [5]),
    (begins_with("key", "K"), []), (begins_with("text", "text"), [1, 2, 3, 4, 5]),
    (begins_with("thread_id", ""), [3]), (open_after("superseded_at", NOW), [1, 2, 3, 4, 5]),
    (open_after("superseded_at", NOW + timedelta(seconds=1)), [1, 2, 4, 5]),
]  # fmt: skip


async def test_conditions_joins_order_and_limit_are_those_of_python(five):
    for condition, found in CONDITIONS:
        assert await places(five, condition) == found, condition
    where = (one_of("memory_id", [number(1), number(3)]), is_not_null("thread_id"))
    assert await places(five, *where) == [3]
    assert await places(five, *where, equal("kind", "semantic")) == []
    source = ("memory_id", "basis", "thread_id", "event_id")
    access = ("memory_id", "access_count", "pinned_at")
    await write(
        five,
        Insert("memory_sources", source, [(number(1), 0, "t", "e1"), (number(2), 1, "t", "e2")]),
        Insert("memory_access", access, [(number(1), 7, None)]),
    )
    await write(five, Insert("memory_access", access, [(number(2), 9, NOW)]), tenant=BEN)
    joins = (
        Join("memories", "m", (("memory_id", "memory_id"),)),
        Join("memory_access", "a", (("m.memory_id", "memory_id"),), is_left=True),
    )
    read = partial(rows_of, five, "memory_sources", joins=joins)
    assert await read("event_id", "m.key", "a.access_count", "m.value", order=("m.key",)) == [
        ("e1", "k00001", 7, {"content": "text 1"}),
        ("e2", "k00002", None, {"content": "text 2"}),
    ]
    where = (is_null("a.memory_id"), equal("thread_id", "t"), begins_with("m.key", "k"))
    assert await read("event_id", where=where) == [("e2",)]
    assert await read("event_id", where=(equal("m.key", "k00009"),)) == []
    assert await read(Aggregate("count"), Aggregate("max", "a.access_count")) == [(2, 7)]
    count = Select("memories", (Aggregate("count"),))
    one = Select("memories", ("key",), (equal("memory_id", number(3)),))
    assert await five.read(ANA, [count, one, one]) == [[(5,)], [("k00003",)], [("k00003",)]]
    assert await five.read(ANA, []) == []
    assert await places(five, order=("-key",), limit=2) == [5, 4]
    assert await places(five, order=("namespace", "occurred_at"), limit=3) == [1, 2, 3]
    assert await places(five, order=("key",), limit=0) == []
    keys = ["b", "Z", "é", "a", "茶"]
    rows = [memory(place, key=key) for place, key in enumerate(keys, 6)]
    await write(five, Insert("memories", MEMORY, rows))
    found = await rows_of(five, "memories", "key", order=("key",))
    assert [key for (key,) in found if len(key) == 1] == sorted(keys)


async def test_a_prefix_is_taken_letter_by_letter(storage):
    keys = ["a%b", "a%", "axb", "a_", "a\\", "A%b", "中文", "中", "a" * 3, "a😀", "a😁"]
    rows = [memory(place, key=key) for place, key in enumerate(keys, 1)]
    await write(storage, Insert("memories", MEMORY, rows))
    for prefix in ("a%", "a_", "a\\", "中", "aa", "a😀", "a", "'"):
        expected = [at for at, key in enumerate(keys, 1) if key.startswith(prefix)]
        assert await places(storage, begins_with("key", prefix)) == expected


# Reads


async def test_equal_rows_once(storage):
    rows = [memory(place, text=text) for place, text in enumerate(["a", "a", "a ", "b"], 1)]
    await write(storage, Insert("memories", MEMORY, rows))
    found = await rows_of(storage, "memories", "text", is_distinct=True)
    assert sorted(found) == [("a",), ("a ",), ("b",)]


async def test_aggregates(storage):
    rows = [memory(1, text="aé中", thread_id="t"),
            memory(2, text="", thread_id="t", term_count=4),
            memory(3, text="xy", term_count=2)]  # fmt: skip
    await write(storage, Insert("memories", MEMORY, rows))
    columns = (
        Aggregate("count"), Aggregate("sum", "term_count"), Aggregate("bytes", "text"),
        Aggregate("max", "occurred_at"), Aggregate("min", "key"),
    )  # fmt: skip
    [whole] = await rows_of(storage, "memories", *columns)
    assert whole == (3, 6, 8, NOW + timedelta(seconds=3), "k00001")
    assert [type(value) for value in whole[:3]] == [int, int, int]
    assert sorted(await rows_of(storage, "memories", "thread_id", *columns), key=repr) == [
        ("t", 2, 4, 6, NOW + timedelta(seconds=2), "k00001"),
        (None, 1, 2, 2, NOW + timedelta(seconds=3), "k00003"),
    ]
    nobody = (equal("memory_id", number(9)),)
    assert await rows_of(storage, "memories", "key", *columns, where=nobody) == []
    for where in (nobody, (one_of("memory_id", []),)):
        assert await rows_of(storage, "memories", *columns, where=where) == [(0, 0, 0, None, None)]


async def test_a_member_of_a_json_column(storage):
    deep: object = "bottom"
    for _ in range(150):
        deep = {"d": deep}
    values = [{"a": {"b": [1, "ü"]}}, {"a": {"b": None}}, {"a": "text"}, {"a": {"b": deep}}, []]
    rows = [memory(place, value=value) for place, value in enumerate(values, 1)]
    await write(storage, Insert("memories", MEMORY, rows))
    member, members = Member("value", ("a", "b")), [[1, "ü"], None, None, deep, None]
    found = await rows_of(storage, "memories", member, "key", order=("memory_id",))
    assert found == [(one, f"k{place:05}") for place, one in enumerate(members, 1)]


async def test_long_lists(storage):
    await write(storage, memories(*range(1, MANY + 1)))
    everyone = one_of("memory_id", [number(place) for place in range(MANY, 0, -1)])
    addresses = [("/facts/", f"k{place:05}") for place in range(1, MANY + 1)]
    pairs = one_of_rows(("namespace", "key"), addresses)
    assert await places(storage, everyone) == list(range(1, MANY + 1))
    assert await places(storage, everyone, pairs) == list(range(1, MANY + 1))
    newest = await places(storage, everyone, order=("-occurred_at",), limit=3)
    assert newest == [MANY, MANY - 1, MANY - 2]
    assert await places(storage, everyone, order=("memory_id",), limit=2) == [1, 2]
    kinds = await rows_of(storage, "memories", "kind", where=(everyone,), is_distinct=True)
    assert kinds == [("item",)]
    counted = (
        "kind", Aggregate("count"), Aggregate("max", "key"), Aggregate("min", "occurred_at"),
        Aggregate("bytes", "text"),
    )  # fmt: skip
    sizes = sum(len(f"text {place}") for place in range(1, MANY + 1))
    [row] = await rows_of(storage, "memories", *counted, where=(everyone,), order=("kind",))
    assert row == ("item", MANY, f"k{MANY:05}", NOW + timedelta(seconds=1), sizes)


async def test_long_writes(storage):
    numbers = [number(place) for place in range(1, MANY + 1)]
    await write(storage, memories(*range(1, MANY + 1)))
    each = [(one, f"new {one.int}", {"n": one.int}, NOW) for one in numbers]
    columns = ("text", "value", "superseded_at")
    await write(storage, UpdateEach("memories", ("memory_id",), columns, each))
    assert sorted(await rows_of(storage, "memories", "memory_id", *columns)) == each
    every = (one_of("memory_id", numbers),)
    renamed = Update("memories", {"kind": "semantic"}, every, ("memory_id", "kind"))
    assert sorted(await returned(storage, renamed)) == [(one, "semantic") for one in numbers]
    await write(storage, Delete("memories", (one_of("memory_id", numbers[1:]),)))
    assert await places(storage) == [1]


# Writes


async def test_a_key_that_exists_is_a_conflict_or_its_row_is_kept_or_updated(five):
    with pytest.raises(Conflict):
        await write(five, Delete("memories", (equal("memory_id", number(1)),)), memories(7, 2))
    assert await places(five) == [1, 2, 3, 4, 5]
    rows = [memory(2, text="new", importance=9), memory(7, text="seven")]
    at_two = equal("key", "k00002")
    for exists, expected in (("keep", ("text 2", 5)), ("update", ("new", 5))):
        update = ("text",) if exists == "update" else ()
        await write(five, Insert("memories", MEMORY, rows, exists, update))
        assert await rows_of(five, "memories", "text", "importance", where=(at_two,)) == [expected]
    assert await places(five) == [1, 2, 3, 4, 5, 7]
    other = memory(8, key="k00002", text="another memory at this address")
    with pytest.raises(Conflict):  # a second unique key is no row to update
        await write(five, Insert("memories", MEMORY, [other], exists="update", update=("text",)))
    assert await rows_of(five, "memories", "text", where=(at_two,)) == [("new",)]


async def test_no_rows_to_write_and_an_update_that_returns_the_rows_as_they_are_now(five):
    await write(
        five,
        Insert("memories", MEMORY, []),
        UpdateEach("memories", ("memory_id",), ("text",), []),
        Update("memories", {"text": ""}, (one_of("memory_id", []),)),
        Delete("memories", (one_of("memory_id", []),)),
    )
    counts = (Aggregate("count"), Aggregate("bytes", "text"))
    assert await rows_of(five, "memories", *counts) == [(5, 30)]
    values = {"value": {"new": True}, "importance": 8, "superseded_at": NOW, "thread_id": None,
              "key": "moved"}  # fmt: skip
    columns = ("memory_id", "text", "value", "importance", "superseded_at", "thread_id", "key")
    changed = Update("memories", values, (equal("thread_id", "t"),), columns)
    expected = [(number(3), "text 3", {"new": True}, 8.0, NOW, None, "moved")]
    assert await returned(five, changed) == expected
    assert await rows_of(five, "memories", *columns, where=(equal("key", "moved"),)) == expected
    assert await returned(five, changed) == []
    assert await returned(five, Update("memories", {"text": "all"}, ())) == []
    assert await rows_of(five, "memories", "text", is_distinct=True) == [("all",)]


async def test_each_row_gets_its_own_values_and_what_hangs_on_a_memory_goes_with_it(five):
    rows = [(number(1), None, 9, {"a": 1}, "one"), (number(2), NOW, 1, {}, None),
            (number(9), NOW, 1, {}, "nobody")]  # fmt: skip
    columns = ("superseded_at", "importance", "value", "author")
    await write(five, UpdateEach("memories", ("memory_id",), columns, rows))
    found = await rows_of(five, "memories", "memory_id", *columns, order=("key",), limit=3)
    third = (number(3), NOW + timedelta(seconds=1), 5, {"content": "text 3"}, None)
    assert found == [*rows[:2], third]
    both = (number(1), number(3))
    source = ("memory_id", "thread_id", "event_id")
    await write(
        five,
        Insert("memory_sources", source, [(one, "t", "e") for one in both]),
        Insert("memory_access", ("memory_id",), [(one,) for one in both]),
        Insert("memory_bases", ("memory_id", "basis_id"), [(both[0], both[1])]),
    )
    gone = await returned(five, Delete("memories", (equal("thread_id", "t"),), ("key", "value")))
    assert gone == [("k00003", {"content": "text 3"})]
    assert await rows_of(five, "memory_access", "memory_id") == [(number(1),)]
    await write(five, Delete("memories", (one_of("memory_id", both),)))
    assert await places(five) == [2, 4, 5]
    for table in ("memory_sources", "memory_access", "memory_bases"):
        assert await rows_of(five, table, "memory_id") == []
    assert await rows_of(five, "memories", Aggregate("count"), tenant=BEN) == [(5,)]
    await write(five, Delete("memories", ()))
    assert await places(five) == []


# Transactions


def last(*operations: Operation, returns: object = None) -> Callable[[], Policy[Any]]:
    """Return a policy of one batch."""

    def policy() -> Policy[Any]:
        yield Last(operations)
        return returns

    return policy


class Paused:
    """A policy that waits after its first batch until it is let go."""

    def __init__(self, policy: Callable[[], Policy[Any]]) -> None:
        self._policy, self._loop = policy, asyncio.get_running_loop()
        self.is_held, self.goes_on = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def during(self, call: Callable[..., Awaitable[Any]]) -> AsyncIterator[Any]:
        """Yield a call of Ana with it, which goes on after what is done meanwhile."""
        task = asyncio.ensure_future(call(ANA, self))
        await self.is_held.wait()
        try:
            yield task
        finally:
            self.goes_on.set()

    def __call__(self) -> Policy[Any]:
        policy = self._policy()
        rows = yield next(policy)
        self._loop.call_soon_threadsafe(self.is_held.set)
        yield from until(self.goes_on)
        try:
            while True:
                rows = yield policy.send(rows)
        except StopIteration as end:
            return end.value


def counted(place: int) -> Callable[[], Policy[int]]:
    """Return a policy that counts the memories, and writes one."""

    def policy() -> Policy[int]:
        [[(count,)]] = yield [Select("memories", (Aggregate("count"),))]
        yield Last([memories(place)])
        return int(count)

    return policy


async def test_a_tenant_reads_and_writes_its_own_rows(five):
    at_two = (equal("memory_id", number(2)),)
    await write(
        five,
        Update("memories", {"text": "changed"}, ()),
        UpdateEach("memories", ("memory_id",), ("importance",), [(number(1), 10)]),
        Insert("memories", MEMORY, [memory(3, text="over")], "update", ("text",)),
        Delete("memories", at_two),
        tenant=BEN,
    )
    assert await places(five) == [1, 2, 3, 4, 5]
    assert await rows_of(five, "memories", "text", where=at_two) == [("text 2",)]
    found = await rows_of(five, "memories", "text", "importance", tenant=ANA, order=("key",))
    assert found == [(f"text {place}", 5) for place in range(1, 6)]
    assert await rows_of(five, "memories", "key", tenant=ALONE) == []


async def test_later_batches_see_earlier_ones(storage):
    def policy() -> Policy[tuple[int, int]]:
        [_, [(before,)]] = yield [memories(1), Select("memories", (Aggregate("count"),))]
        [[(found,)]] = yield [Select("memories", (Aggregate("count"),), (equal("key", "k00001"),))]
        yield Last([memories(2)])
        return before, found

    assert await storage.transact(ANA, policy) == (1, 1)
    assert await places(storage) == [1, 2]


async def test_a_policy_without_a_last_batch_writes_nothing(five):
    """And after the last batch no rows are sent."""
    closed = []

    def ends_with_rows() -> Policy[object]:
        return (yield Last([Select("memories", ("key",))]))

    def changes_its_mind() -> Policy[str]:
        yield [memories(7), thread("t")]
        return "changed its mind"

    def does_nothing() -> Policy[int]:
        return 7
        yield []

    def raises() -> Policy[None]:
        try:
            yield [memories(7)]
            raise LookupError("half-way")
        finally:
            closed.append(True)

    assert await five.transact(ANA, ends_with_rows) == []
    assert await five.transact(ANA, changes_its_mind) == "changed its mind"
    assert await five.transact(ANA, does_nothing) == await five.query(ANA, does_nothing) == 7
    with pytest.raises(LookupError, match="half-way"):
        await five.transact(ANA, raises)
    assert closed == [True]
    assert await places(five) == [1, 2, 3, 4, 5]
    assert await rows_of(five, "threads", "thread_id") == []


async def test_a_query_reads_one_moment(storage):
    def twice() -> Policy[list[object]]:
        [first] = yield [Select("memories", (Aggregate("count"),))]
        [second] = yield [Select("memories", (Aggregate("count"),))]
        return [first, second]

    async with Paused(twice).during(storage.query) as reading:
        await write(storage, memories(1))
    assert await reading == [[(0,)], [(0,)]]
    assert await places(storage) == [1]


async def test_writers_of_a_tenant_wait_for_each_other(storage):
    await write(storage, Insert("extraction_counts", ("extractions",), [(0,)]))

    def policy() -> Policy[None]:
        [[(count,)]] = yield [Select("extraction_counts", ("extractions",))]
        yield Last([Update("extraction_counts", {"extractions": count + 1}, ())])

    await asyncio.gather(*(storage.transact(ANA, policy) for _ in range(20)))
    assert await rows_of(storage, "extraction_counts", "extractions") == [(20,)]


async def test_a_busy_tenant_is_skipped(storage):
    policy = last(memories(2), returns="done")
    assert await storage.transact(BEN, policy, lock="skip") == "done"  # a tenant never seen before
    async with Paused(counted(1)).during(storage.transact) as holder:
        with pytest.raises(TenantBusy):
            await storage.transact(ANA, policy, lock="skip")
        with pytest.raises(TenantBusy):
            await storage.transact_all({ANA: policy, "/app/di/": policy}, lock="skip")
        assert await storage.transact("/app/cy/", policy, lock="skip") == "done"
        several = {"/app/di/": policy, "/app/el/": policy}  # tenants never seen before
        assert await storage.transact_all(several, lock="skip") == dict.fromkeys(several, "done")
        assert await storage.transact(ANA, policy, lock="none") == "done"
    assert await holder == 0
    assert await places(storage) == [1, 2]
    assert await storage.transact(BEN, last(memories(3)), lock="skip") is None


async def test_rows_that_others_hold_are_left_out(five):
    first = Select("memories", ("key",), (equal("memory_id", number(1)),), lock="update")
    skipping = Select("memories", ("memory_id",), lock="skip", order=("key",), limit=2)

    def locking() -> Policy[list[Row]]:
        [rows] = yield [first]
        yield Last([])
        return rows

    async with Paused(locking).during(five.transact) as holding:
        assert await returned(five, skipping, lock="none") == [(number(2),), (number(3),)]
    assert await holding == [("k00001",)]
    assert await returned(five, skipping, lock="none") == [(number(1),), (number(2),)]


async def test_policies_of_several_tenants_are_one_transaction(storage):
    def nothing_to_do() -> Policy[int]:
        yield [Select("memories", ("key",))]
        yield [Select("memories", ("key",))]
        return -1

    several = {BEN: counted(1), ANA: counted(2), "/app/cy/": nothing_to_do}
    assert await storage.transact_all(several) == {BEN: 0, ANA: 0, "/app/cy/": -1}
    assert await places(storage) == [2]
    with pytest.raises(Conflict):
        await storage.transact_all({ANA: counted(3), BEN: counted(1)})
    assert await places(storage) == [2]
    assert await storage.transact_all({}) == {}


async def test_a_policy_runs_again_after_a_deadlock(five):
    """Two policies without locks take two rows in opposite order, each after the other's first."""
    started = 0
    takes = [0, 0]

    def crossing(which: int) -> Any:
        mine, other = number(1 + which), number(2 - which)

        def policy() -> Policy[None]:
            nonlocal started
            started += 1
            yield [Update("memories", {"text": f"by {which}"}, (equal("memory_id", mine),))]
            takes[which] += 1
            while not all(takes):
                yield [Select("threads", ("thread_id",))]
            yield Last([Update("memories", {"author": "x"}, (equal("memory_id", other),))])

        return policy

    await asyncio.gather(*(five.transact(ANA, crossing(which), lock="none") for which in (0, 1)))
    assert started > 2
    found = await rows_of(five, "memories", "text", "author", order=("key",), limit=2)
    assert found == [("by 0", "x"), ("by 1", "x")]


# Verbs


async def vectors_at(storage: Storage) -> list[int]:
    """Return the numbers of the memories that have a vector of model "m"."""
    where = (one_of("memory_id", [number(place) for place in range(1, 6)]), equal("model", "m"))
    found = await rows_of(storage, "embeddings", "memory_id", "field", where=where)
    assert {field for _, field in found} <= {"text"}
    otherwise = await storage.reembedding.embedded_otherwise("another model", None, 100)
    assert {one.memory_id for one in otherwise} == {memory_id for memory_id, _ in found}
    return sorted(memory_id.int for memory_id, _ in found)


async def test_vectors_go_with_their_memories(new_storage):
    def added(*keys: str) -> Verb:
        rows = VectorRows(
            addresses=[(("app", "ana", "facts"), key) for key in keys], fields=["text"] * len(keys),
            vectors=np.ones((len(keys), 3), dtype=np.float32), model="m",
        )  # fmt: skip
        return Verb("add_vectors", (rows,))

    await write(new_storage, memories(*range(1, 6)))
    assert await rows_of(new_storage, "embeddings", Aggregate("count")) == [(0,)]
    await new_storage.use_model("m", 3)
    for _ in range(2):  # those that are there stay
        await write(new_storage, added("k00001", "k00004", "nowhere"), Verb("add_vectors", (None,)))
    assert await vectors_at(new_storage) == [1, 4]
    moved = Update("embeddings", {"memory_id": number(2)}, (equal("memory_id", number(1)),))
    await write(new_storage, moved)
    assert await vectors_at(new_storage) == [2, 4]
    await write(new_storage, Delete("embeddings", (one_of("memory_id", [number(2), number(3)]),)))
    assert await vectors_at(new_storage) == [4]
    await write(new_storage, Delete("memories", (equal("memory_id", number(4)),)))
    assert await rows_of(new_storage, "embeddings", Aggregate("count")) == [(0,)]
    assert await places(new_storage) == [1, 2, 3, 5]


async def test_a_policy_yields_verbs(storage):
    turns = [
        EventRow(event=said(str(place), f"turn {place}", NOW), memory_id=number(place),
                 logged=False, value={}, terms=["turn"])
        for place in (1, 2)
    ]  # fmt: skip
    job = NewJob(job_id=number(9), job_type=JobType.FAST_REPLAY, run_after=NOW)

    def policy() -> Policy[tuple[Sequence[Row], Sequence[Row]]]:
        [first] = yield [Verb("append_turns", ("t", turns[:1]))]
        [second] = yield [Verb("append_turns", ("t", turns))]
        yield Last([Verb("enqueue", ("t", job))])
        return first, second

    assert await storage.transact(ANA, policy) == ([("1",)], [("2",)])
    assert await places(storage) == [1, 2]
    found = await rows_of(storage, "consolidation_jobs", "job_id", "status", "result", "attempts")
    assert found == [(number(9), "pending", {}, 0)]


# A turn that comes in while a session ends is in one session, and both count right

SESSIONS = Scope("app", "ana")
RULES = SessionRules(timeout=timedelta(hours=1), max_duration=timedelta(days=1), max_events=9)
JOB = NewJob(job_id=UUID(int=1), job_type=JobType.DEEP_REFLECTION, run_after=NOW)


async def hear(storage: Storage, place: int) -> Session:
    new_id = ThreadId(f"conversation:{place}")
    given = (SESSIONS, new_id, said(place, f"turn {place}", NOW), RULES, 0, [])
    heard = await storage.conversations.hear_turn(*given, once=False)
    assert heard.stored
    return heard.session


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_turn_that_comes_while_a_session_ends_is_in_the_next_one(storage, turns):
    for place in range(turns):
        await hear(storage, place)
    ending = Paused(partial(end_conversation, SESSIONS, JOB, RULES, NOW, if_over=False))
    async with ending.during(storage.transact) as ends:
        hearing = asyncio.create_task(hear(storage, 7))
        await asyncio.sleep(0)
    ended, active = await ends, await hearing
    assert (ended is not None) == bool(turns)
    found = await rows_of(storage, "conversations", "thread_id", "status", "event_count")
    assert (active.session_id, SessionStatus.ACTIVE, 1) in found
    assert len(found) == turns + 1
    events = await rows_of(storage, "events", "thread_id", "event_id")
    assert (active.session_id, "e7") in events
    assert len(events) == turns + 1
