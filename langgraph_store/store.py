"""PgHippocampusStore: LangGraph's BaseStore on the engine. Converts types, nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from langgraph_store.labels import from_label, from_labels, to_labels
from shared_core import InvalidInput, MemoryEngine, open_memory, run_sync
from shared_core.item_ports import Item as StoredItem
from shared_core.item_ports import NamespaceQuery
from shared_core.items import FindItems, ItemOp, ItemResult, ReadItem, WriteItem

SECONDS_PER_MINUTE = 60.0


class PgHippocampusStore(BaseStore):
    """A LangGraph store whose memories an ADK agent reads too, and the other way round.

    Sync and async on the same object, from any thread and any event loop; connects at first use.
    (app, user, "memories") holds what both frameworks remember of a user; every other namespace
    is the store's own (docs/data-model.md). Every item can be found by meaning, by default
    through a bundled multilingual model.

    uri, schema, pool_size: as in shared_core.open_memory. index: LangGraph's index configuration;
    its "embed" may also be "use" or "e5", and without "fields" an item is embedded by what its
    value says in words. ttl: LangGraph's, in minutes, fractions allowed; expired items are never
    read, and deleted by sweep_ttl(), which nothing calls by itself.
    engine: an open MemoryEngine to share instead; then close() leaves it open.
    """

    supports_ttl = True

    def __init__(
        self,
        uri: str | Path | None = None,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        schema: str | None = None,
        pool_size: int | None = None,
        engine: MemoryEngine | None = None,
    ) -> None:
        self.ttl_config = ttl
        fields = (index or {}).get("fields")
        self._fields = None if fields is None else _paths(fields)
        self._owns_engine = engine is None
        self._engine = engine or open_memory(
            uri, embedder=_embedder(index), schema=schema, pool_size=pool_size
        )

    @property
    def engine(self) -> MemoryEngine:
        """The memory behind the store, with all its verbs."""
        return self._engine

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations and return their results in order: reads see the state before the batch.

        Reads run first, then searches, lists and writes; the last write to a key wins.
        """
        return run_sync(self._run(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations as batch() does, on the caller's own event loop."""
        return await self._run(list(ops))

    async def _run(self, ops: list[Op]) -> list[Result]:
        for op in ops:
            validate_op_namespace(_with_tuples(op))
        results = await self._engine.run_item_ops([self._core_op(op) for op in ops])
        return [_result(op, result) for op, result in zip(ops, results, strict=True)]

    def _core_op(self, op: Op) -> ItemOp:
        if isinstance(op, GetOp):
            return ReadItem(address=(from_labels(op.namespace), op.key), refresh=op.refresh_ttl)
        if isinstance(op, SearchOp):
            return FindItems(
                prefix=from_labels(op.namespace_prefix),
                query=op.query,
                filter=op.filter or {},
                limit=op.limit,
                offset=op.offset,
                refresh=op.refresh_ttl,
            )
        if isinstance(op, ListNamespacesOp):
            return _namespace_query(op)
        if isinstance(op, PutOp):
            return WriteItem(
                address=(from_labels(op.namespace), op.key),
                value=op.value,
                texts=None if op.value is None else self._texts(op.value, op.index),
                ttl_s=None if op.ttl is None else op.ttl * SECONDS_PER_MINUTE,
            )
        raise InvalidInput(f"{type(op).__name__} is not an operation of a LangGraph store")

    def _texts(
        self, value: Mapping[str, Any], index: list[str] | bool | None
    ) -> dict[str, str] | None:
        if index is False:
            return {}
        paths = self._fields if index is None else _paths(cast("list[str]", index))
        if paths is None:
            return None
        return {
            f"{path}.{position}" if position else path: text
            for path, tokens in paths.items()
            for position, text in enumerate(get_text_at_path(value, tokens))
        }

    def setup(self) -> None:
        """Start or reach the database and bring its schema up to date; every call does it too."""
        run_sync(self._engine.open())

    async def asetup(self) -> None:
        """Do as setup() from async code."""
        await self._engine.open()

    def sweep_ttl(self) -> int:
        """Delete expired items now, at most 1,000; return how many. They are never read anyway."""
        return run_sync(self._engine.sweep_expired())

    def close(self) -> None:
        """Close all connections, unless the engine was given."""
        run_sync(self.aclose())

    async def aclose(self) -> None:
        """Do as close() from async code."""
        if self._owns_engine:
            await self._engine.close()

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str, **options: Any) -> Iterator[PgHippocampusStore]:
        """Open a store for a with block. options: those of the constructor."""
        with cls(conn_string, **options) as store:
            yield store

    @classmethod
    @asynccontextmanager
    async def afrom_conn_string(
        cls, conn_string: str, **options: Any
    ) -> AsyncIterator[PgHippocampusStore]:
        """Open a store for an async with block. options: those of the constructor."""
        async with cls(conn_string, **options) as store:
            yield store

    def __enter__(self) -> PgHippocampusStore:
        self.setup()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> PgHippocampusStore:
        await self.asetup()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def _embedder(index: IndexConfig | None) -> object:
    embed = (index or {}).get("embed")
    if embed is None or embed in ("use", "e5") or str(embed).startswith("google:"):
        return embed
    return ensure_embeddings(embed) if isinstance(embed, str) else embed


def _paths(fields: list[str]) -> dict[str, list[str]]:
    return {path: [] if path == "$" else tokenize_path(path) for path in fields}


def _with_tuples(op: Op) -> Op:
    """Return op with bare strings among its match conditions as one-label paths."""
    if isinstance(op, ListNamespacesOp) and op.match_conditions:
        conditions = tuple(
            MatchCondition(condition.match_type, cast(Any, _path(condition)))
            for condition in op.match_conditions
        )
        return op._replace(match_conditions=conditions)
    return op


def _path(condition: MatchCondition) -> tuple[str, ...]:
    path: object = condition.path
    return (path,) if isinstance(path, str) else tuple(condition.path)


def _namespace_query(op: ListNamespacesOp) -> NamespaceQuery:
    paths: dict[str, list[tuple[str, ...]]] = {"prefix": [], "suffix": []}
    for condition in op.match_conditions or ():
        labels = tuple(label if label == "*" else from_label(label) for label in _path(condition))
        if condition.match_type not in paths:
            raise InvalidInput(
                f"a condition on {condition.match_type!r} is neither prefix nor suffix"
            )
        paths[condition.match_type].append(labels)
    return NamespaceQuery(
        prefixes=paths["prefix"],
        suffixes=paths["suffix"],
        max_depth=op.max_depth,
        limit=op.limit,
        offset=op.offset,
    )


def _result(op: Op, result: ItemResult) -> Result:
    if isinstance(op, GetOp):
        return _item(result) if isinstance(result, StoredItem) else None
    if isinstance(op, SearchOp):
        return [_search_item(item) for item in cast("list[StoredItem]", result)]
    if isinstance(op, ListNamespacesOp):
        return [to_labels(namespace) for namespace in cast("list[tuple[str, ...]]", result)]
    return None


def _item(item: StoredItem) -> Item:
    return Item(
        value=dict(item.value),
        key=item.key,
        namespace=to_labels(item.namespace),
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def _search_item(item: StoredItem) -> SearchItem:
    return SearchItem(
        namespace=to_labels(item.namespace),
        key=item.key,
        value=dict(item.value),
        created_at=item.created_at,
        updated_at=item.updated_at,
        score=item.similarity,
    )
