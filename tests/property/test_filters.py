"""Filters find what plain Python finds, whether PostgreSQL looks at the values or Python."""

from collections.abc import Mapping
from decimal import Decimal
from itertools import count
from typing import Any

import psycopg
import pytest
from every_case import every_case
from hypothesis import HealthCheck, example, given, settings, strategies as st
from langgraph.store.base import PutOp
from long_forms import LONG

from langgraph_store import PgHippocampusStore
from shared_core import InvalidInput
from shared_core.core.json_text import to_json
from shared_core.storage._filters import compile_filter
from shared_core.storage.oceanbase import filters as in_python

MISSING = object()


@pytest.fixture(scope="module")
def store(postgres):
    """One store for all examples, each of which has a namespace of its own."""
    for dsn in postgres.lend():
        with PgHippocampusStore(dsn, pool_size=2) as store:
            yield store


def kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    return "object" if isinstance(value, Mapping) else "list"


def same(left: Any, right: Any) -> bool:
    if left is MISSING or kind(left) != kind(right):
        return False
    if kind(left) == "number":
        return Decimal(repr(left)) == Decimal(repr(right))
    if kind(left) == "list":
        return len(left) == len(right) and all(map(same, left, right))
    if kind(left) == "object":
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def ordered(value: Any, operator: str, operand: Any) -> bool:
    if value is MISSING or kind(value) != kind(operand):
        return False
    if kind(value) == "number":
        value, operand = Decimal(repr(value)), Decimal(repr(operand))
    holds = {"$gt": value > operand, "$gte": value >= operand,
             "$lt": value < operand, "$lte": value <= operand}  # fmt: skip
    return bool(holds[operator])


def contains(value: Any, operand: Any) -> bool:
    if isinstance(value, list):
        return any(same(part, operand) for part in value)
    return isinstance(value, str) and isinstance(operand, str) and operand in value


def one(value: Any, name: str, operand: Any) -> bool:
    if name in ("$gt", "$gte", "$lt", "$lte"):
        return ordered(value, name, operand)
    return {
        "$eq": lambda: same(value, operand),
        "$ne": lambda: not same(value, operand),
        "$in": lambda: any(same(value, part) for part in operand),
        "$nin": lambda: not any(same(value, part) for part in operand),
        "$exists": lambda: (value is not MISSING) is operand,
        "$contains": lambda: contains(value, operand),
        "$and": lambda: all(matches(value, part) for part in operand),
        "$or": lambda: any(matches(value, part) for part in operand),
        "$not": lambda: not matches(value, operand),
    }[name]()


def matches(value: Any, wanted: Mapping[str, Any]) -> bool:
    for name, operand in wanted.items():
        if name.startswith("$"):
            held = one(value, name, operand)
        else:
            field = value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
            deeper = isinstance(operand, Mapping) and operand
            held = matches(field, operand) if deeper else same(field, operand)
        if not held:
            return False
    return True


names = st.sampled_from(["a", "b", "a.b", "0", "é", "'; DROP", "%s", "a/b"])
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, -2.5, 1e300, 10**30]),
    st.sampled_from(["", "a", "b", "ab", "B", "é", "1", "ä", "%", "true", "null"]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
comparable = st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from(["", "a", "b", "B", "é"])
simple = st.one_of(
    st.fixed_dictionaries({}, optional={
        "$eq": values, "$ne": values, "$gt": comparable, "$gte": comparable, "$lt": comparable,
        "$lte": comparable, "$in": st.lists(values, max_size=3),
        "$nin": st.lists(values, max_size=3), "$exists": st.booleans(), "$contains": scalars,
    }),
)  # fmt: skip
nothing_of_it = st.dictionaries(names, simple.filter(bool) | scalars, min_size=1, max_size=2)


def joined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({"$and": several}), st.fixed_dictionaries({"$or": several}),
        st.fixed_dictionaries({"$not": inner}),
        st.fixed_dictionaries({"$not": inner, "$or": several}),
        st.dictionaries(names, inner, min_size=1, max_size=2),
    )  # fmt: skip


filters = st.recursive(nothing_of_it, joined, max_leaves=5)
documents = st.lists(st.dictionaries(names, values, max_size=4), min_size=1, max_size=8)
spaces = count()


@settings(max_examples=250 if LONG else 80)
@given(held=documents, wanted=filters)
def test_a_filter_finds_what_its_rules_say(store, held, wanted):
    here = ("filters", str(next(spaces)))
    store.batch([PutOp(here, str(n), value, index=False) for n, value in enumerate(held)])
    expected = {str(n) for n, value in enumerate(held) if matches(value, wanted)}
    assert expected == {item.key for item in store.search(here, filter=wanted, limit=100)}


@settings(max_examples=60 if LONG else 20)
@given(held=documents, wanted=filters)
def test_not_finds_all_the_others(store, held, wanted):
    here = ("filters", str(next(spaces)))
    store.batch([PutOp(here, str(n), value, index=False) for n, value in enumerate(held)])
    found = [
        {item.key for item in store.search(here, filter=each, limit=100)}
        for each in (wanted, {"$not": wanted})
    ]
    assert not found[0] & found[1] and len(found[0] | found[1]) == len(held)


WRONG: dict[str, Any] = {
    "$regex": {"n": {"$regex": "x"}}, "$eq": {"$eq": 1}, "$gt": {"n": {"$gt": None}},
    "$gte": {"n": {"$gte": True}}, "$lt": {"n": {"$lt": [1]}},
    "$lte": {"a": {"b": {"$lte": {"c": 1}}}}, "$in": {"n": {"$in": "abc"}},
    "$nin": {"n": {"$nin": 1}}, "$exists": {"n": {"$exists": 1}}, "$and": {"$and": []},
    "$or": {"n": {"$or": {"$gt": 1}}}, "'n'": {"n": {"$not": 1}},
    "mixes": {"n": {"$gt": 1, "m": 2}}, "mapping": {"$and": [3]}, "7": {7: 1}, "deep": {"$not": {}},
    "1,000": {"$or": [{"n": n} for n in range(2000)]}, "JSON": {"n": {"$in": [b"bytes"]}},
}  # fmt: skip
for _ in range(100):
    WRONG["deep"] = {"$not": WRONG["deep"]}


@every_case(*WRONG)
def test_a_filter_that_makes_no_sense_is_named(word, store):
    with pytest.raises(InvalidInput, match=word.replace("$", r"\$")):
        store.search(("filters",), filter=WRONG[word])


def test_a_filter_that_is_no_mapping_is_an_error(store):
    with pytest.raises(InvalidInput, match="mapping"):
        store.search(("filters",), filter=[("n", 1)])  # type: ignore[arg-type]


SEEN = "SELECT m.place FROM unnest(%(values)s::jsonb[]) WITH ORDINALITY AS m(value, place) WHERE "

numbers = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -0.0, 1, 1.0, 2**53, float(2**53), 2**53 + 1, 1e22, 10**22, 0.1, 1e-400]),
)  # fmt: skip
texts = st.one_of(st.text(max_size=3), st.sampled_from(["a", "A", "a ", "ａ", "á", "a\u0301", "1",
    "1.0", "true", "\x00", "\ud800", "🍵"]))  # fmt: skip
parts = st.one_of(st.none(), st.booleans(), numbers, texts)
odd_values = st.recursive(
    parts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=3,
)
odd_documents = st.lists(
    st.fixed_dictionaries({}, optional={"a": odd_values, "b": odd_values}), min_size=1, max_size=6
)
odd_filters = st.dictionaries(
    names,
    st.fixed_dictionaries({}, optional={
        "$eq": odd_values, "$ne": odd_values, "$gt": numbers | texts, "$gte": numbers | texts,
        "$lt": numbers | texts, "$lte": numbers | texts, "$in": st.lists(odd_values, max_size=3),
        "$nin": st.lists(odd_values, max_size=3), "$contains": odd_values,
    }).filter(bool),
    min_size=1,
    max_size=2,
)  # fmt: skip


@pytest.fixture
def server_connection(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def seen(
    connection: psycopg.Connection[Any], texts_of: list[str], wanted: dict[str, Any]
) -> list[int]:
    """Return the places of the values that PostgreSQL finds."""
    sql, values = compile_filter(wanted)
    found = connection.execute(
        f"{SEEN}{sql} ORDER BY m.place".encode(), values | {"values": texts_of}
    )
    return [row[0] for row in found]


@settings(max_examples=400 if LONG else 80, suppress_health_check=list(HealthCheck), deadline=None)
@given(held=documents | odd_documents, wanted=filters | odd_filters)
@example(held=[{"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"a": None}, {}], wanted={"a": 1})
@example(held=[{"a": {"\x00": 1}}], wanted={"a": {"\x00": 1}})
def test_both_engines_find_the_same(server_connection, held, wanted):
    told = [to_json(value) for value in held]
    fits = in_python.matches(wanted)
    here = [place for place, text in enumerate(told, 1) if fits is None or fits(text)]
    assert here == seen(server_connection, told, wanted)
