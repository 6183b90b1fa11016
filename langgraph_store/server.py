"""A store for LangGraph's servers: {"store": {"path": ".../langgraph_store/server.py:make_store"}}.

All settings come from the environment:

HIPPOCAMPUS_URI, _HOME, _SCHEMA     as everywhere
HIPPOCAMPUS_POOL_SIZE               maximum number of connections; default 16
HIPPOCAMPUS_EMBEDDER                "use", "e5", "google:MODEL", or LangChain's "provider:model"
HIPPOCAMPUS_LLM                     the extracting model: "langchain:PROVIDER:MODEL", or "adk:MODEL"
HIPPOCAMPUS_INDEX_FIELDS            paths to embed, with commas; default: all texts of a value
HIPPOCAMPUS_SEARCH                  "vector", "hybrid" or "text"
HIPPOCAMPUS_DEFAULT_TTL_MINUTES     lifetime of items put without a ttl, or with None
HIPPOCAMPUS_SWEEP_INTERVAL_MINUTES  minutes between two deletions of expired items
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from langgraph.store.base import TTLConfig

from langgraph_store.store import PgHippocampusStore
from shared_core.core import setting

PREFIX = "HIPPOCAMPUS_"


class _Shared:
    """Shares one store per environment and process among the threads of a server."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._stores: dict[tuple[tuple[str, str], ...], tuple[PgHippocampusStore, int]] = {}
        self._pid = os.getpid()

    def take(self, variables: tuple[tuple[str, str], ...]) -> PgHippocampusStore:
        if self._pid != os.getpid():
            self._forget()
        with self._lock:
            store, users = self._stores.get(variables) or (_store(dict(variables)), 0)
            self._stores[variables] = store, users + 1
            return store

    async def release(self, variables: tuple[tuple[str, str], ...]) -> None:
        with self._lock:
            store, users = self._stores.pop(variables, (None, 0))
            if store is not None and users > 1:
                self._stores[variables] = store, users - 1
                return
        if store is not None:
            await store.aclose()


_shared = _Shared()


@asynccontextmanager
async def make_store() -> AsyncIterator[PgHippocampusStore]:
    """Open the store that the environment names; it closes after its last user.

    Raises:
        InvalidInput: for an invalid variable.
    """
    found = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    variables = tuple(sorted(found.items()))
    store = _shared.take(variables)
    try:
        await store.engine.open()
        yield store
    finally:
        await _shared.release(variables)


def _store(variables: Mapping[str, str]) -> PgHippocampusStore:
    def named(name: str) -> Any:
        return setting(PREFIX + name, environment=variables)

    index: Any = {}
    if embedder := named("EMBEDDER"):
        index["embed"] = embedder
    if fields := named("INDEX_FIELDS"):
        index["fields"] = [field.strip() for field in fields.split(",")]
    ttl: TTLConfig = {"omit_expired": True}
    if (minutes := named("DEFAULT_TTL_MINUTES")) is not None:
        ttl["default_ttl"] = minutes
    if (interval := named("SWEEP_INTERVAL_MINUTES")) is not None:
        ttl["sweep_interval_minutes"] = interval
    return PgHippocampusStore(
        index=index or None,
        ttl=ttl,
        pool_size=named("POOL_SIZE"),
        llm=named("LLM"),
        search=named("SEARCH"),
        none_is_default_ttl=True,  # the server passes None for arguments that a request omits
    )
