"""A filter finds the same whether PostgreSQL looks at the values, or Python at their text."""

from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from long_forms import LONG
from test_filters import documents, filters, names

from shared_core.core.json_text import to_json
from shared_core.storage._filters import compile_filter
from shared_core.storage.oceanbase.filters import matches

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
    fits = matches(wanted)
    here = [place for place, text in enumerate(told, 1) if fits is None or fits(text)]
    assert here == seen(server_connection, told, wanted)
