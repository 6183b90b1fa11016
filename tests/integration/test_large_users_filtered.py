"""Searches of a large user by what leaves little of their items: complete on both engines."""

from __future__ import annotations

import pytest
from langgraph.store.base import PutOp

from langgraph_store import OceanBaseHippocampusStore, PgHippocampusStore
from tests.integration.large_tenants import BIG, DIMS, build, embed, keys

pytestmark = pytest.mark.both_engines

ITEMS = 2_000
FILTERS = {
    "all": {},
    "half": {"even": True},
    "one in a hundred": {"number": {"$gte": 500, "$lt": 520}},
    "one in a thousand": {"$or": [{"number": 7}, {"number": 1_900}]},
    "five": {"number": {"$in": [1, 400, 800, 1_200, 1_999]}},
    "none": {"number": -1},
}


def store_at(dsn: str) -> PgHippocampusStore:
    kind = OceanBaseHippocampusStore if "seekdb" in dsn else PgHippocampusStore
    return kind(dsn, index={"dims": DIMS, "embed": embed, "fields": ["text"]})


def fill(store: PgHippocampusStore) -> None:
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


def test_what_is_left_of_a_large_user_is_found_whole(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "off")
    with store_at(dsn) as exact:
        fill(exact)
        monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "300")
        if "seekdb" not in dsn:
            assert build(dsn) == ["build"]
        with store_at(dsn) as store:
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
