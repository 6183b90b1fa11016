"""Stores with a low threshold for large tenants, with data and queries for them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import PutOp
from postgres_admin import column, name_of
from postgres_databases import PostgresDatabases

from langgraph_store import PgHippocampusStore
from shared_core import MemoryEngine, open_memory, run_sync
from shared_core.storage.postgres.indexes import TenantIndexes

THRESHOLD = 300
DIMS = 24
BIG = ("shop", "big")
_TOPICS = np.random.default_rng(5).normal(size=(12, DIMS))


def vector(text: str) -> list[float]:
    """Return the vector of a text, near one of twelve topics and always the same."""
    noise = np.random.default_rng(int.from_bytes(text.encode(), "big") % (2**61 - 1))
    near = _TOPICS[noise.integers(len(_TOPICS))] + 0.6 * noise.normal(size=DIMS)
    return [float(part) for part in near / np.linalg.norm(near)]


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [vector(text) for text in texts]


@pytest.fixture(autouse=True)
def threshold(monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", str(THRESHOLD))


@pytest.fixture(scope="module")
def large(server, postgres):
    """Databases of a tenant with 900 items and an index, which are made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", str(THRESHOLD))
        for dsn in postgres.lend():
            with store_at(dsn) as store:
                fill(store)
            assert ["build"] == build(dsn)
            databases = PostgresDatabases(server, name_of(dsn))
            yield databases
            databases.close()


@pytest.fixture
def built(large):
    """The DSN of a database of a tenant with 900 items and an index."""
    yield from large.lend()


class Asked:
    """Records for each search whether an index answered it, or a full read of the tenant."""

    def __init__(self) -> None:
        self.by_index: list[bool] = []


@pytest.fixture
def asked(monkeypatch):
    seen = Asked()
    search = TenantIndexes.search

    async def watched(self: TenantIndexes, *arguments: Any) -> Any:
        rows = await search(self, *arguments)
        if self.threshold is not None:
            seen.by_index.append(rows is not None)
        return rows

    monkeypatch.setattr(TenantIndexes, "search", watched)
    return seen


def store_at(dsn: str, fields: Sequence[str] = ("text",), **options: Any) -> PgHippocampusStore:
    index: Any = {"dims": DIMS, "embed": embed, "fields": list(fields)}
    return PgHippocampusStore(dsn, index=index, **options)


@contextmanager
def both(dsn: str, **options: Any) -> Iterator[tuple[PgHippocampusStore, PgHippocampusStore]]:
    """Yield a store that uses indexes, and one that never does."""
    with pytest.MonkeyPatch.context() as patch, store_at(dsn, **options) as store:
        store.get(BIG, "opens it")
        patch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "off")
        with store_at(dsn, **options) as exact:
            exact.get(BIG, "opens it")
            patch.undo()
            yield store, exact


def fill(
    store: PgHippocampusStore, namespace: tuple[str, ...] = BIG, count: int = 900, start: int = 0
) -> None:
    puts = [
        PutOp(namespace, f"{number}", {"text": f"note {number}", "even": number % 2 == 0})
        for number in range(start, start + count)
    ]
    for first in range(0, count, 300):
        store.batch(puts[first : first + 300])


def build(dsn: str) -> list[str]:
    """Refresh the indexes once; return the actions."""

    async def refresh() -> list[str]:
        async with memory_at(dsn) as memory:
            steps = await memory.indexes.refresh()
            assert steps is not None
            return [step.action for step in steps]

    return run_sync(refresh())


def memory_at(dsn: str) -> MemoryEngine:
    return open_memory(dsn, worker=False)


def index_names(dsn: str) -> list[str]:
    return column(dsn, "SELECT indexname FROM pg_indexes WHERE indexname ^@ 'embeddings_near_'")


def keys(found: Sequence[Any]) -> list[tuple[tuple[str, ...], str]]:
    return [(item.namespace, item.key) for item in found]


def recall(store: PgHippocampusStore, exact: PgHippocampusStore, **options: Any) -> float:
    """Return the share of the exact answers that the store finds, over twenty questions."""
    prefix = options.pop("prefix", BIG)
    parts = []
    for number in range(20):
        question = f"question {number}"
        right = keys(exact.search(prefix, query=question, limit=10, **options))
        found = keys(store.search(prefix, query=question, limit=10, **options))
        assert len(set(found)) == len(found) == len(right) == 10
        parts.append(len(set(found) & set(right)) / len(right))
    return float(np.mean(parts))
