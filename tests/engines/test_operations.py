"""Every operation and condition on both engines, and the types of their values."""

from datetime import UTC, datetime, timedelta
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
    write,
)

from shared_core import Conflict
from shared_core.core.domain import MemoryId
from shared_core.ports.items import MemoryRow, VectorRows
from shared_core.ports.operations import (
    Aggregate,
    Delete,
    Insert,
    Join,
    Member,
    Select,
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

# Types


async def test_values_come_back_in_their_python_type(storage):
    given = memory(
        1, value={"a": [1, 2.5, None, "ü"], "b": {}}, importance=7, text="it's\\ %s 中😀"
    )
    await write(storage, Insert("memories", MEMORY, [given]))
    columns = [name for name in MEMORY if name != "terms"]
    [row] = await rows_of(storage, "memories", *columns)
    assert list(row) == [
        value for name, value in zip(MEMORY, given, strict=True) if name in columns
    ]
    kinds = dict(zip(columns, map(type, row), strict=True))
    assert kinds["memory_id"] is UUID
    assert kinds["importance"] is float
    assert (
        row[columns.index("occurred_at")].tzinfo is UTC
        or not row[columns.index("occurred_at")].utcoffset()
    )


async def test_moments_of_other_zones_come_back_in_utc(storage):
    there = datetime.fromisoformat("2026-03-01T20:00:00.000001+08:00")
    await write(storage, Insert("memories", MEMORY, [memory(1, occurred_at=there)]))
    [(moment,)] = await rows_of(storage, "memories", "occurred_at")
    assert moment == there
    assert moment.utcoffset() == timedelta()


async def test_words_are_stored_as_a_written_memory_stores_them(storage):
    words = ["told", "Rome's", "茶", "told"]
    row = MemoryRow(
        memory_id=MemoryId(number(1)), namespace=("app", "ana", "facts"), key="k00001", kind="item",
        text="", value={}, terms=words, occurred_at=NOW,
    )  # fmt: skip
    await write(
        storage, Verb("put_items", ([row],)), Insert("memories", MEMORY, [memory(2, terms=words)])
    )
    [(first,), (second,)] = await rows_of(storage, "memories", "terms")
    assert first == second
    assert "told" in first


async def test_lists_booleans_and_bytes(storage):
    token = ("token_id", "secret_hash", "label", "users", "created_at")
    rows = [
        ("a", bytes(range(32)), "", ['quote"s', "back\\slash", "{},", ""], NOW),
        ("b", bytes(32), "b", [], NOW),
        ("c", b"'" * 32, "c", None, NOW),
    ]
    await write(storage, Insert("api_tokens", token, rows))
    assert await rows_of(storage, "api_tokens", *token, order=("token_id",)) == rows
    policy = (
        "kind", "fades", "decay_rate", "threshold", "min_age_days", "archive_after_days",
        "erase_after_days", "with_history", "updated_at",
    )  # fmt: skip
    row = ("item", False, 0.1, 1, 7, 30.5, 1e9, True, NOW)
    await write(storage, Insert("retention_policies", policy, [row]))
    [found] = await rows_of(storage, "retention_policies", *policy)
    assert found == row
    assert [type(value) for value in found[1:4]] == [bool, float, float]


async def test_an_import_mark_of_no_item_is_empty(storage):
    rows = [(b"", NOW, None), (b"\1" * 32, NOW, NOW)]
    names = ("address_hash", "updated_at", "deleted_at")
    await write(storage, Insert("import_marks", names, rows))
    assert sorted(await rows_of(storage, "import_marks", *names)) == rows
    found = await rows_of(storage, "import_marks", *names, where=(equal("address_hash", b""),))
    assert found == rows[:1]


async def test_a_payload_may_be_missing(storage):
    event = (
        "thread_id", "seq", "event_id", "author", "role", "text", "occurred_at", "recorded_at",
        "payload",
    )  # fmt: skip
    rows = [
        ("t", place, str(place), "ana", "user", "", NOW, NOW, payload)
        for place, payload in enumerate([None, {"b": 1, "a": [None]}])
    ]
    await write(storage, thread("t"), Insert("events", event, rows))
    assert await rows_of(storage, "events", "payload", "metadata", order=("seq",)) == [
        (None, {}),
        ({"b": 1, "a": [None]}, {}),
    ]
    assert await rows_of(storage, "events", "seq", where=(is_null("payload"),)) == [(0,)]
    assert await rows_of(storage, "events", "seq", where=(is_not_null("payload"),)) == [(1,)]


# Conditions


CONDITIONS = [
    (equal("memory_id", number(2)), [2]),
    (equal("text", "text 2"), [2]),
    (equal("text", "text 2 "), []),
    (equal("thread_id", "t"), [3]),
    (compare("memory_id", "<>", number(2)), [1, 3, 4, 5]),
    (compare("thread_id", "<>", "x"), [3]),
    (compare("occurred_at", "<", NOW + timedelta(seconds=2)), [1]),
    (compare("occurred_at", "<=", NOW + timedelta(seconds=2)), [1, 2]),
    (compare("key", ">", "k00004"), [5]),
    (compare("memory_id", ">=", number(4)), [4, 5]),
    (one_of("memory_id", [number(9), number(1), number(1), number(4)]), [1, 4]),
    (one_of("text", ["text 5", "text 1 "]), [5]),
    (one_of("key", []), []),
    (one_of_rows(("namespace", "key"), [("/facts/", "k00001"), ("/x/", "k00002")]), [1]),
    (one_of_rows(("memory_id", "text"), [(number(5), "text 5"), (number(4), "")]), [5]),
    (one_of_rows(("memory_id", "key"), []), []),
    (after(("occurred_at", "memory_id"), (NOW + timedelta(seconds=3), number(3))), [4, 5]),
    (after(("occurred_at", "memory_id"), (NOW + timedelta(seconds=3), number(2))), [3, 4, 5]),
    (after(("namespace", "key"), ("/facts/", "k00004")), [5]),
    (is_null("thread_id"), [1, 2, 4, 5]),
    (is_not_null("thread_id"), [3]),
    (begins_with("key", "k0000"), [1, 2, 3, 4, 5]),
    (begins_with("key", "k00005"), [5]),
    (begins_with("key", "K"), []),
    (begins_with("text", "text"), [1, 2, 3, 4, 5]),
    (begins_with("thread_id", ""), [3]),
    (open_after("superseded_at", NOW), [1, 2, 3, 4, 5]),
    (open_after("superseded_at", NOW + timedelta(seconds=1)), [1, 2, 4, 5]),
]


async def test_every_condition(five):
    for condition, found in CONDITIONS:
        assert await places(five, condition) == found, condition


async def test_a_prefix_is_taken_letter_by_letter(storage):
    keys = ["a%b", "a%", "axb", "a_", "a\\", "A%b", "中文", "中", "a" * 3, "a😀", "a😁"]
    rows = [memory(place, key=key) for place, key in enumerate(keys, 1)]
    await write(storage, Insert("memories", MEMORY, rows))
    for prefix in ("a%", "a_", "a\\", "中", "aa", "a😀", "a", "'"):
        expected = [at for at, key in enumerate(keys, 1) if key.startswith(prefix)]
        assert await places(storage, begins_with("key", prefix)) == expected


async def test_conditions_hold_together(five):
    where = (one_of("memory_id", [number(1), number(3)]), is_not_null("thread_id"))
    assert await places(five, *where) == [3]
    assert await places(five, *where, equal("kind", "semantic")) == []


# Reads


async def test_order_and_limit(five):
    assert await places(five, order=("-key",), limit=2) == [5, 4]
    assert await places(five, order=("namespace", "occurred_at"), limit=3) == [1, 2, 3]
    assert await places(five, order=("key",), limit=0) == []
    keys = ["b", "Z", "é", "a", "茶"]
    rows = [memory(place, key=key) for place, key in enumerate(keys, 6)]
    await write(five, Insert("memories", MEMORY, rows))
    found = await rows_of(five, "memories", "key", order=("key",))
    assert [key for (key,) in found if len(key) == 1] == sorted(keys)


async def test_equal_rows_once(storage):
    rows = [memory(place, text=text) for place, text in enumerate(["a", "a", "a ", "b"], 1)]
    await write(storage, Insert("memories", MEMORY, rows))
    found = await rows_of(storage, "memories", "text", is_distinct=True)
    assert sorted(found) == [("a",), ("a ",), ("b",)]


async def test_several_reads_at_once(five):
    count = Select("memories", (Aggregate("count"),))
    one = Select("memories", ("key",), (equal("memory_id", number(3)),))
    assert await five.read(ANA, [count, one, one]) == [[(5,)], [("k00003",)], [("k00003",)]]
    assert await five.read(ANA, []) == []


async def test_joins_by_key(five):
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
    columns = ("event_id", "m.key", "a.access_count", "m.value")
    found = await rows_of(five, "memory_sources", *columns, joins=joins, order=("m.key",))
    assert found == [
        ("e1", "k00001", 7, {"content": "text 1"}),
        ("e2", "k00002", None, {"content": "text 2"}),
    ]
    unread = await rows_of(
        five,
        "memory_sources",
        "event_id",
        joins=joins,
        where=(is_null("a.memory_id"), equal("thread_id", "t"), begins_with("m.key", "k")),
    )
    assert unread == [("e2",)]
    counted = (Aggregate("count"), Aggregate("max", "a.access_count"))
    assert await rows_of(five, "memory_sources", *counted, joins=joins) == [(2, 7)]
    assert (
        await rows_of(
            five, "memory_sources", "m.key", joins=joins, where=(equal("m.key", "k00009"),)
        )
        == []
    )


async def test_aggregates(storage):
    rows = [
        memory(1, text="aé中", thread_id="t"),
        memory(2, text="", thread_id="t", term_count=4),
        memory(3, text="xy", term_count=2),
    ]
    await write(storage, Insert("memories", MEMORY, rows))
    columns = (
        Aggregate("count"),
        Aggregate("sum", "term_count"),
        Aggregate("bytes", "text"),
        Aggregate("max", "occurred_at"),
        Aggregate("min", "key"),
    )
    [whole] = await rows_of(storage, "memories", *columns)
    assert whole == (3, 6, 8, NOW + timedelta(seconds=3), "k00001")
    assert [type(value) for value in whole[:3]] == [int, int, int]
    grouped = await rows_of(storage, "memories", "thread_id", *columns)
    assert sorted(grouped, key=repr) == sorted(
        [
            ("t", 2, 4, 6, NOW + timedelta(seconds=2), "k00001"),
            (None, 1, 2, 2, NOW + timedelta(seconds=3), "k00003"),
        ],
        key=repr,
    )
    nobody = (equal("memory_id", number(9)),)
    assert await rows_of(storage, "memories", *columns, where=nobody) == [(0, 0, 0, None, None)]
    assert await rows_of(storage, "memories", "key", *columns, where=nobody) == []
    of_none = (one_of("memory_id", []),)
    assert await rows_of(storage, "memories", *columns, where=of_none) == [(0, 0, 0, None, None)]


async def test_vectors_of_memories(new_storage):
    await write(new_storage, memories(*range(1, 6)))
    count = Select("embeddings", (Aggregate("count"),))
    assert await new_storage.read(ANA, [count]) == [[(0,)]]
    await new_storage.use_model("small", 3)
    keys = ["k00001", "k00004", "nowhere"]
    vectors = VectorRows(
        model="small",
        addresses=[(("app", "ana", "facts"), key) for key in keys],
        fields=["text"] * 3,
        vectors=np.ones((3, 3), dtype=np.float32),
    )
    for _ in range(2):  # those that are there stay
        await write(new_storage, Verb("add_vectors", (vectors,)))
    where = (one_of("memory_id", [number(1), number(2)]), equal("model", "small"))
    found = await new_storage.read(
        ANA, [count, Select("embeddings", ("memory_id", "field"), where)]
    )
    assert found == [[(2,)], [(number(1), "text")]]


async def test_a_member_of_a_json_column(storage):
    deep: object = "bottom"
    for _ in range(150):
        deep = {"d": deep}
    values = [{"a": {"b": [1, "ü"]}}, {"a": {"b": None}}, {"a": "text"}, {"a": {"b": deep}}, []]
    rows = [memory(place, value=value) for place, value in enumerate(values, 1)]
    await write(storage, Insert("memories", MEMORY, rows))
    found = await rows_of(
        storage, "memories", Member("value", ("a", "b")), "key", order=("memory_id",)
    )
    members = [[1, "ü"], None, None, deep, None]
    assert found == [(one, f"k{place:05}") for place, one in enumerate(members, 1)]


async def test_rows_above(storage):
    state = ("state", "updated_at")
    for tenant in (ANA, BEN, "/app/", "/other/", ALONE):
        await write(storage, Insert("shared_state", state, [({"of": tenant}, NOW)]), tenant=tenant)
    found = await rows_of(storage, "shared_state", "tenant_id", "state", above=True)
    assert sorted(found) == [("/app/", {"of": "/app/"}), (ANA, {"of": ANA})]
    assert await rows_of(storage, "shared_state", "tenant_id") == [(ANA,)]


async def test_long_lists(storage):
    await write(storage, memories(*range(1, MANY + 1)))
    everyone = one_of("memory_id", [number(place) for place in range(MANY, 0, -1)])
    pairs = one_of_rows(
        ("namespace", "key"), [("/facts/", f"k{place:05}") for place in range(1, MANY + 1)]
    )
    assert await places(storage, everyone) == list(range(1, MANY + 1))
    assert await places(storage, everyone, pairs) == list(range(1, MANY + 1))
    assert await places(storage, everyone, order=("-occurred_at",), limit=3) == [
        MANY,
        MANY - 1,
        MANY - 2,
    ]
    first = await rows_of(
        storage, "memories", "key", where=(everyone,), order=("memory_id",), limit=2
    )
    assert first == [("k00001",), ("k00002",)]
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
    found = await rows_of(storage, "memories", "memory_id", *columns)
    assert sorted(found) == each
    renamed = Update(
        "memories", {"kind": "semantic"}, (one_of("memory_id", numbers),), ("memory_id", "kind")
    )
    assert sorted(await returned(storage, renamed)) == [(one, "semantic") for one in numbers]
    gone = Delete("memories", (one_of("memory_id", numbers[1:]),))
    await write(storage, gone)
    assert await places(storage) == [1]


# Writes


async def test_a_key_that_exists_is_a_conflict(five):
    with pytest.raises(Conflict):
        await write(five, Delete("memories", (equal("memory_id", number(1)),)), memories(7, 2))
    assert await places(five) == [1, 2, 3, 4, 5]


async def test_an_existing_row_is_kept_or_updated(five):
    rows = [memory(2, text="new", importance=9), memory(7, text="seven")]
    await write(five, Insert("memories", MEMORY, rows, exists="keep"))
    assert await rows_of(five, "memories", "text", where=(equal("memory_id", number(2)),)) == [
        ("text 2",)
    ]
    await write(five, Insert("memories", MEMORY, rows, exists="update", update=("text",)))
    found = await rows_of(
        five, "memories", "text", "importance", where=(equal("memory_id", number(2)),)
    )
    assert found == [("new", 5)]
    assert await places(five) == [1, 2, 3, 4, 5, 7]


async def test_a_second_unique_key_is_no_row_to_update(five):
    other = memory(8, key="k00002", text="another memory at this address")
    with pytest.raises(Conflict):
        await write(five, Insert("memories", MEMORY, [other], exists="update", update=("text",)))
    assert await rows_of(five, "memories", "text", where=(equal("key", "k00002"),)) == [("text 2",)]


async def test_the_only_row_of_a_tenant(storage):
    for number_of in (3, 4):
        counted = Insert(
            "extraction_counts", ("extractions",), [(number_of,)], "update", ("extractions",)
        )
        await write(storage, counted)
    assert await rows_of(storage, "extraction_counts", "extractions") == [(4,)]
    changed = Update("extraction_counts", {"extractions": 5}, (), ("extractions",))
    assert await returned(storage, changed) == [(5,)]
    assert await returned(storage, Delete("extraction_counts", (), ("extractions",))) == [(5,)]
    assert await returned(storage, changed) == []


async def test_no_rows_to_write(five):
    await write(
        five,
        Insert("memories", MEMORY, []),
        UpdateEach("memories", ("memory_id",), ("text",), []),
        Update("memories", {"text": ""}, (one_of("memory_id", []),)),
        Delete("memories", (one_of("memory_id", []),)),
    )
    assert await rows_of(five, "memories", Aggregate("count"), Aggregate("bytes", "text")) == [
        (5, 30)
    ]


async def test_update_returns_the_rows_as_they_are_now(five):
    values = {
        "value": {"new": True}, "importance": 8, "superseded_at": NOW, "thread_id": None,
        "key": "moved",
    }  # fmt: skip
    columns = ("memory_id", "text", "value", "importance", "superseded_at", "thread_id", "key")
    changed = Update("memories", values, (equal("thread_id", "t"),), columns)
    expected = [(number(3), "text 3", {"new": True}, 8.0, NOW, None, "moved")]
    assert await returned(five, changed) == expected
    assert await rows_of(five, "memories", *columns, where=(equal("key", "moved"),)) == expected
    assert await returned(five, changed) == []
    assert await returned(five, Update("memories", {"text": "all"}, ())) == []
    assert await rows_of(five, "memories", "text", is_distinct=True) == [("all",)]


async def test_each_row_gets_its_own_values(five):
    rows = [
        (number(1), None, 9, {"a": 1}, "one"),
        (number(2), NOW, 1, {}, None),
        (number(9), NOW, 1, {}, "nobody"),
    ]
    columns = ("superseded_at", "importance", "value", "author")
    await write(five, UpdateEach("memories", ("memory_id",), columns, rows))
    found = await rows_of(five, "memories", "memory_id", *columns, order=("key",), limit=3)
    assert found == [
        *rows[:2],
        (number(3), NOW + timedelta(seconds=1), 5, {"content": "text 3"}, None),
    ]


async def test_rows_are_named_by_several_columns(storage):
    version = ("instruction_key", "version", "content", "created_at")
    rows = [(key, at, f"{key}{at}", NOW) for key in "ab" for at in (1, 2)]
    await write(storage, Insert("instructions", version, rows))
    each = [("a", 2, "x", {"m": 1}), ("b", 1, "y", {})]
    await write(
        storage,
        UpdateEach("instructions", ("instruction_key", "version"), ("content", "metadata"), each),
    )
    ordered = {"order": ("instruction_key", "-version")}
    found = await rows_of(storage, "instructions", "content", "metadata", **ordered)
    assert found == [("x", {"m": 1}), ("a1", {}), ("b2", {}), ("y", {})]
    named = one_of_rows(("instruction_key", "version"), [("a", 1), ("b", 2), ("c", 1)])
    gone = await returned(storage, Delete("instructions", (named,), ("content",)))
    assert sorted(gone) == [("a1",), ("b2",)]
    assert len(await rows_of(storage, "instructions", "version")) == 2


async def test_what_hangs_on_a_memory_goes_with_it(five):
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
