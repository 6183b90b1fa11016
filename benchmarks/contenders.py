"""Opens the contenders: our store in sync and async mode, and langgraph's PostgresStore."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, cast

from langgraph.store.base import BaseStore, PutOp
from langgraph.store.postgres import PostgresStore

from benchmarks.by_hand import ByHand
from benchmarks.dataset import Dataset, Entry, LookupEmbedder
from benchmarks.operations import (
    ASYNC_FACE,
    FUNCTION_FACE,
    SYNC_FACE,
    AwaitedContender,
    BlockingContender,
    Contender,
    Get,
    Operation,
    Put,
    Search,
)
from langgraph_store import PgHippocampusStore
from shared_core import CallableEmbedder

POOL_SIZE = 16
"""Maximum number of connections of a contender; equals the maximum number of clients."""


class BlockingStore(BlockingContender):
    """A LangGraph store, called by its sync methods."""

    def __init__(self, name: str, face: str, store: BaseStore) -> None:
        super().__init__(name, face)
        self._store = store

    def perform(self, operation: Operation) -> object:
        store = self._store
        match operation:
            case Search(question, limit):
                return store.search(question.namespace, query=question.text, limit=limit)
            case Get(entry):
                return store.get(entry.namespace, entry.key)
            case Put([entry]):
                store.put(entry.namespace, entry.key, entry.value)
            case Put(entries):
                return store.batch(_put_ops(entries))
        return None


class AwaitedStore(AwaitedContender):
    """A LangGraph store, called by its async methods."""

    def __init__(self, name: str, face: str, store: BaseStore, runner: asyncio.Runner) -> None:
        super().__init__(name, face, runner)
        self._store = store

    async def perform(self, operation: Operation) -> object:
        store = self._store
        match operation:
            case Search(question, limit):
                return await store.asearch(question.namespace, query=question.text, limit=limit)
            case Get(entry):
                return await store.aget(entry.namespace, entry.key)
            case Put([entry]):
                await store.aput(entry.namespace, entry.key, entry.value)
            case Put(entries):
                return await store.abatch(_put_ops(entries))
        return None


def open_contenders(dsn: str, dataset: Dataset, stack: ExitStack) -> list[Contender]:
    """Return the contenders, set up and empty: our store in three modes, the peer, and bare SQL.

    Each store is opened as its documentation shows and embeds the same field. Pools have the same
    size, except for the function mode, which has one connection. The stack closes all.
    """
    runner = stack.enter_context(asyncio.Runner())
    embedder = LookupEmbedder(dataset.vectors)
    ours = stack.enter_context(_ours(dsn, dataset, embedder, POOL_SIZE))
    function = CallableEmbedder(dataset.embed, model=embedder.model)
    by_function = stack.enter_context(_ours(dsn, dataset, function, 1))
    peer = stack.enter_context(
        PostgresStore.from_conn_string(
            dsn,
            pool_config={"min_size": 1, "max_size": POOL_SIZE},
            index={"dims": _dims(dataset), "embed": dataset.embed, "fields": ["text"]},
        )
    )
    peer.setup()
    by_hand = stack.enter_context(ByHand(dsn, dataset.vectors, embedder.model, POOL_SIZE))
    return [
        AwaitedStore("ours", ASYNC_FACE, ours, runner),
        BlockingStore("ours", SYNC_FACE, ours),
        AwaitedStore("ours", FUNCTION_FACE, by_function, runner),
        BlockingStore("postgres_store", "", peer),
        by_hand,
    ]


def _ours(dsn: str, dataset: Dataset, embedder: object, pool_size: int) -> PgHippocampusStore:
    return PgHippocampusStore(
        dsn,
        index={"dims": _dims(dataset), "embed": cast(Any, embedder), "fields": ["text"]},
        pool_size=pool_size,
    )


def _dims(dataset: Dataset) -> int:
    return len(next(iter(dataset.vectors.values())))


def _put_ops(entries: Sequence[Entry]) -> list[PutOp]:
    return [PutOp(entry.namespace, entry.key, dict(entry.value)) for entry in entries]
