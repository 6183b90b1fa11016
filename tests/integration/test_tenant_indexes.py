"""Searching large tenants by an approximate index: as good as reading all, and never wrong."""

from __future__ import annotations

import pytest
from langgraph.store.base import PutOp
from postgres_admin import execute, rows
from psycopg.conninfo import make_conninfo

from langgraph_store import OceanBaseHippocampusStore, PgHippocampusStore
from tests.integration.large_tenants import (
    BIG,
    DIMS,
    Asked,
    asked,
    both,
    build,
    built,
    embed,
    fill,
    index_names,
    keys,
    large,
    recall,
    store_at,
    threshold,
)

__all__ = ["asked", "built", "large", "threshold"]


def test_an_index_finds_what_reading_all_finds(built: str, asked: Asked) -> None:
    with both(built) as (store, exact):
        assert recall(store, exact) >= 0.99
        assert all(asked.by_index) and len(asked.by_index) == 20


def test_scores_and_order_are_those_of_the_exact_search(dsn: str, asked: Asked) -> None:
    with both(dsn) as (store, exact):
        fill(store)
        store.batch([PutOp(BIG, f"twin {n}", {"text": "note 7"}) for n in range(5)])
        build(dsn)
        found = store.search(BIG, query="note 7", limit=12)
        right = exact.search(BIG, query="note 7", limit=12)
        assert asked.by_index == [True]
        assert [(item.key, item.score) for item in right] == [
            (item.key, item.score) for item in found
        ]
        assert {"7", *(f"twin {n}" for n in range(5))} == {item.key for item in found[:6]}


def test_filters_and_namespaces_below_the_tenant_fill_the_page(dsn: str, asked: Asked) -> None:
    deep = (*BIG, "notes", "work")
    with both(dsn) as (store, exact):
        fill(store)
        fill(store, deep, count=500, start=5_000)
        build(dsn)
        assert recall(store, exact, filter={"even": True}) >= 0.99
        assert recall(store, exact, prefix=deep) >= 0.99
        assert recall(store, exact, prefix=(*BIG, "notes"), filter={"even": False}) >= 0.99
        assert all(asked.by_index) and len(asked.by_index) == 60


def test_what_a_filter_leaves_few_of_is_found_whole(dsn: str, asked: Asked) -> None:
    with both(dsn) as (store, exact):
        fill(store)
        store.batch([PutOp(BIG, f"rare {n}", {"text": f"rare {n}", "rare": n}) for n in range(4)])
        fill(store, (*BIG, "small"), count=20, start=8_000)
        build(dsn)
        rare = {"filter": {"rare": {"$gte": 0}}}
        found = store.search(BIG, query="note", limit=10, **rare)
        assert {f"rare {n}" for n in range(4)} == {item.key for item in found}
        below = store.search((*BIG, "small"), query="note", limit=50)
        assert keys(exact.search((*BIG, "small"), query="note", limit=50)) == keys(below)
        assert len(below) == 20
        assert [False, False] == asked.by_index


def test_pages_follow_one_another_and_deep_ones_are_exact(built: str, asked: Asked) -> None:
    with both(built) as (store, exact):
        pages = [store.search(BIG, query="pages", limit=20, offset=n) for n in range(0, 160, 20)]
        right = keys(exact.search(BIG, query="pages", limit=160))
        found = [key for page in pages for key in keys(page)]
        assert len(found) == len(set(found)) == 160
        assert len(set(found) & set(right)) >= 158
        assert [True] * 5 + [False] * 3 == asked.by_index


def test_what_is_written_after_the_build_is_found_at_once(built: str, asked: Asked) -> None:
    with both(built) as (store, exact):
        fill(store, count=100, start=20_000)  # younger than the index
        store.batch([PutOp(BIG, f"{n}", {"text": f"another {n}"}) for n in range(0, 900, 3)])
        for number in range(1, 900, 9):
            store.delete(BIG, f"{number}")
        assert recall(store, exact) >= 0.99
        for text, key in (("another 333", "333"), ("note 20042", "20042")):
            assert key == store.search(BIG, query=text, limit=1)[0].key
        assert "1" not in {item.key for item in store.search(BIG, query="note 1", limit=10)}
        assert all(asked.by_index)


def test_the_expired_and_the_dead_are_never_shown(built: str, asked: Asked) -> None:
    with both(built) as (store, exact):
        store.ttl_config = exact.ttl_config = {"omit_expired": True}
        nearest = [item.key for item in store.search(BIG, query="who", limit=40)]
        expire = "UPDATE hippocampus.memories SET expires_at = now() - interval '1 hour'"
        assert 20 == len(rows(built, f"{expire} WHERE key = ANY(%s) RETURNING key", [nearest[::2]]))
        found = [item.key for item in store.search(BIG, query="who", limit=15)]
        assert nearest[1:30:2] == found
        assert found == [item.key for item in exact.search(BIG, query="who", limit=15)]
        assert [True, True] == asked.by_index


def test_a_memory_with_several_vectors_comes_once_by_its_nearest(dsn: str, asked: Asked) -> None:
    fields = ("title", "body")
    with both(dsn, fields=fields) as (store, exact):
        puts = [
            PutOp(BIG, f"{n}", {"title": f"title {n}", "body": f"body {n % 400}"})
            for n in range(800)
        ]
        store.batch(puts[:400])
        store.batch(puts[400:])
        assert ["build"] == build(dsn)
        assert recall(store, exact) >= 0.99
        found = store.search(BIG, query="body 7", limit=3)
        assert {"7", "407"} == {item.key for item in found[:2]}
        assert found[0].score == pytest.approx(1, abs=1e-3)
        assert all(asked.by_index)


def test_another_tenant_is_never_seen(dsn: str, asked: Asked) -> None:
    other = ("shop", "big2")
    with both(dsn) as (store, _):
        fill(store)
        fill(store, other, count=500)  # the same texts
        fill(store, ("shop", "small"), count=20)
        assert ["build", "build"] == build(dsn)
        for tenant, by_index in ((BIG, True), (other, True), (("shop", "small"), False)):
            found = store.search(tenant, query="note 3", limit=15)
            assert {tenant} == {item.namespace for item in found} and len(found) == 15
            assert by_index == asked.by_index[-1]
        everywhere = store.search(("shop",), query="note 3", limit=3)
        assert {"3"} == {item.key for item in everywhere}


@pytest.mark.parametrize(
    "label", ["o'neil", 'a"b', "100%s %(x)s", "back\\slash", "陈 {tenant}", "$1"]
)
def test_a_tenant_may_have_any_name(dsn: str, asked: Asked, label: str) -> None:
    namespace = (label, f"{label}; --")
    with both(dsn) as (store, exact):
        fill(store, namespace, count=400)
        assert ["build"] == build(dsn)
        right = exact.search(namespace, query="note 3", limit=10)
        assert keys(right) == keys(store.search(namespace, query="note 3", limit=10))
        assert [True] == asked.by_index


def test_an_index_that_vanishes_is_not_missed(built: str, asked: Asked) -> None:
    with both(built) as (store, exact):
        store.search(BIG, query="before", limit=5)
        [name] = index_names(built)
        execute(built, f"DROP INDEX hippocampus.{name}")
        assert 1.0 == recall(store, exact)
        assert all(asked.by_index)


def test_what_cannot_be_used_is_not_used(built: str, asked: Asked) -> None:
    with both(built) as (store, _):
        [name] = index_names(built)
        invalid = "UPDATE pg_index SET indisvalid = false"
        execute(built, f"{invalid} WHERE indexrelid = 'hippocampus.{name}'::regclass")
        store.search(BIG, query="note 3", limit=10)
        assert ["build"] == build(built)
        assert [False] == asked.by_index and name not in index_names(built)


def test_a_session_that_only_reads_uses_what_is_there(built: str, asked: Asked) -> None:
    with store_at(make_conninfo(built, options="-c default_transaction_read_only=on")) as reader:
        assert "3" == reader.search(BIG, query="note 3", limit=10)[0].key
        assert [True] == asked.by_index


def test_off_means_no_index_is_used(built: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "off")
    used: list[str] = []
    monkeypatch.setattr(
        "shared_core.storage.postgres.indexes.search_text", lambda *_: used.append("used")
    )
    with store_at(built) as store:
        assert "3" == store.search(BIG, query="note 3", limit=10)[0].key
    assert [] == used


ITEMS = 2_000
FILTERS = {
    "all": {},
    "half": {"even": True},
    "one in a hundred": {"number": {"$gte": 500, "$lt": 520}},
    "one in a thousand": {"$or": [{"number": 7}, {"number": 1_900}]},
    "five": {"number": {"$in": [1, 400, 800, 1_200, 1_999]}},
    "none": {"number": -1},
}


def numbered_store(dsn: str) -> PgHippocampusStore:
    kind = OceanBaseHippocampusStore if "seekdb" in dsn else PgHippocampusStore
    return kind(dsn, index={"dims": DIMS, "embed": embed, "fields": ["text"]})


def fill_numbered(store: PgHippocampusStore) -> None:
    puts = [
        PutOp(
            (*BIG, "notes" if number % 500 else "rare"),
            f"{number}",
            {"text": f"note {number}", "even": number % 2 == 0, "number": number},
        )
        for number in range(ITEMS)
    ]
    for first in range(0, ITEMS, 500):
        store.batch(puts[first : first + 500])


@pytest.mark.both_engines
def test_what_is_left_of_a_large_user_is_found_whole(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "off")
    with numbered_store(dsn) as exact:
        fill_numbered(exact)
        monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "300")
        if "seekdb" not in dsn:
            assert build(dsn) == ["build"]
        with numbered_store(dsn) as store:
            for name, wanted in FILTERS.items():
                found, right = [], []
                for number in range(10):
                    asked = {"query": f"question {number}", "limit": 10, "filter": wanted}
                    found += keys(store.search(BIG, **asked))
                    right += keys(exact.search(BIG, **asked))
                assert len(found) == len(right)
                if name in ("all", "half"):
                    assert len({*found} & {*right}) >= 0.99 * len({*right})
                else:
                    assert found == right, name
            rare = {"query": "question", "limit": 10}
            assert 4 == len(store.search((*BIG, "rare"), **rare))
            assert keys(store.search((*BIG, "rare"), **rare)) == keys(
                exact.search((*BIG, "rare"), **rare)
            )
