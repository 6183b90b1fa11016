"""PgHippocampusStore: LangGraph's BaseStore on the engine. It only converts types."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, cast

from langgraph.store.base import (
    NOT_PROVIDED,
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    ListNamespacesOp,
    NotProvided,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
)

from langgraph_store.awaitables import Count, Done, Task
from langgraph_store.configuration import checked_pool, checked_ttl, index_settings
from langgraph_store.connections import size_of, uri_of, with_options
from langgraph_store.labels import check_labels, with_label_hint
from langgraph_store.operations import Reading, core_op, result_of
from langgraph_store.single_ops import SingleOps
from langgraph_store.sweeper import STOP_TIMEOUT_S, Sweeper
from shared_core import (
    BatchError as BatchError,
    ExtractionStrategy,
    InvalidInput,
    MemoryEngine,
    ModelLimits,
    open_memory,
    run_sync,
)
from shared_core.core import check_arguments, instructions_scope, listed, shown
from shared_core.errors import MemoryCoreError
from shared_core.ingest import one_error
from shared_core.models import hosted
from shared_core.ports import ItemOp, Search
from shared_core.privacy import PrivacyPolicy
from shared_core.settings import load_settings, redacted

SECONDS_PER_MINUTE = 60.0
SWEEP_INTERVAL_MINUTES = 5.0
"""Default minutes between two sweeps."""
SWEEP_BATCH = 1000
"""Maximum number of expired items that one statement deletes."""

Method = TypeVar("Method", bound=Callable[..., Any])


class PgHippocampusStore(BaseStore):
    """A LangGraph store that shares its memories with ADK agents.

    It works sync and async on the same object, from any thread and event loop, and connects at
    first use. (app, user, "memories") holds the user's memories of both frameworks. (app, user,
    "hippocampus-instructions") keeps every version of its items. All other namespaces belong to the
    store (docs/reference/data-model.md). Each operation of a batch fails alone: see BatchError.

    Opened by `with`, or not at all, it behaves as PostgresStore does. Opened by `async with`, it
    behaves as AsyncPostgresStore does: a sync call on its own event loop raises InvalidStateError.

    Args:
        uri: as in shared_core.open_memory, like schema and pool_size; or a connection of psycopg or
            a pool, also one that a checkpointer uses, for a store in the same database.
        index: LangGraph's index configuration. "embed" may also be "e5" or "use"; the default
            is that of the database. Without "fields" all texts of a value are embedded. False: no
            item is found by a query, unless its put() names fields.
        embed_later: put() does not wait for the model; a job of the queue embeds the text of the
            value, long ones in passages. Until then only the words of its first 1,000 characters
            find an item. For files of agents (docs/how-to/deepagents.md).
        ttl: LangGraph's configuration, in minutes or fractions of them. sweep_ttl() deletes expired
            items, periodically with "sweep_interval_minutes". Until then they are read, unless
            "omit_expired" is set; memories are never read after they expired.
        pool_config: of a pool as LangGraph takes it; "max_size" is the pool_size.
        pipeline: for compatibility; every call is one pipeline already.
        llm: extracts facts and writes summaries instead of rules: a chat model of LangChain, or its
            name "provider:model" (shared_core.models).
        llm_limits: as in shared_core.open_memory, like strategy.
        privacy: what happens to secrets in turns before they are stored (shared_core.privacy).
            Values of put() are stored unchanged.
        search: "vector" (by meaning), "text" (by words) or "hybrid" (both). Default: hybrid in the
            shared memories, as in ADK, and vector elsewhere.
        score_parts: whether search results have the parts of their score (item.score_parts).
        none_is_default_ttl: whether put(ttl=None) takes the default lifetime instead of none. An
            Agent Server passes None for arguments that a client omitted.
        engine: a MemoryEngine to share; close() leaves it open.
    """

    supports_ttl = True

    def __init__(
        self,
        uri: object = None,
        *,
        index: IndexConfig | Literal[False] | None = None,
        embed_later: bool = False,
        ttl: TTLConfig | None = None,
        pool_config: Mapping[str, Any] | None = None,
        pipeline: bool = False,
        schema: str | None = None,
        pool_size: int | None = None,
        llm: object = None,
        llm_limits: ModelLimits | None = None,
        strategy: ExtractionStrategy | None = None,
        privacy: str | Mapping[str, str] | PrivacyPolicy | None = None,
        search: Search | None = None,
        score_parts: bool = False,
        none_is_default_ttl: bool = False,
        engine: MemoryEngine | None = None,
    ) -> None:
        check_arguments(PgHippocampusStore.__init__, locals())
        self.ttl_config = checked_ttl(ttl)
        self._sweep_interval_s = _sweep_interval_s(ttl)
        self._sweeps_by_itself = self._sweep_interval_s is not None
        settings = index_settings(index, later=embed_later)
        self._embeds_later = embed_later
        self.index_config = settings.config
        self.embeddings = settings.embeddings
        self._fields = settings.fields
        self._distance = settings.distance
        self._search = search
        self._score_parts = score_parts
        self._none_is_default_ttl = none_is_default_ttl
        self._sweeper = Sweeper(self._swept)
        self._single_ops = SingleOps()
        self._listings = SingleOps()  # of their own: no write waits for a slow one
        self._closed = False
        self._opened_on: asyncio.AbstractEventLoop | None = None
        self._owns_engine = engine is None
        of_engine = (llm, llm_limits, strategy, privacy, settings.embedder)
        if engine is not None and any(one is not None for one in of_engine):
            raise InvalidInput(
                "give llm, llm_limits, strategy, privacy and index['embed'] to open_memory(), which"
                " made the engine"
            )
        pool = checked_pool(pool_config)
        sizes = (pool_size, pool.get("max_size"), size_of(uri))
        address = uri_of(uri)
        address = with_options(address, pool.get("kwargs") or {})
        self._engine = engine or open_memory(
            address,
            item_embedder=settings.embedder,
            llm=hosted(llm, "langchain"),
            llm_limits=llm_limits,
            strategy=strategy,
            privacy=privacy,
            schema=schema,
            pool_size=next((size for size in sizes if size is not None), None),
        )

    @property
    def engine(self) -> MemoryEngine:
        """The memory behind the store, with all its methods."""
        return self._engine

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations and return their results in order.

        Reads run first, then searches, lists and writes; the last write to a key wins. If some
        operations failed, it raises BatchError with the results of the others. If all have the same
        error, or there is one operation, it raises the error itself.

        Raises:
            InvalidStateError: on the event loop of the `async with` that opened the store.
        """
        self._require_other_loop()
        return run_sync(self._run(_listed(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations as batch() does, on the caller's own event loop.

        Concurrent single reads, writes, listings and searches without a query, e.g. of
        asyncio.gather, share batches, and equal reads of them run once. Writes of instructions do
        not, because each makes a version, nor do searches with a query, because each runs for
        longer than its round trip.
        """
        ops = _listed(ops)
        if len(ops) == 1 and _may_share(ops[0]):
            is_listing = isinstance(ops[0], SearchOp | ListNamespacesOp)
            shared = self._listings if is_listing else self._single_ops
            return [await shared.do(ops[0], self._outcome)]
        return await self._run(ops)

    async def _run(self, ops: Sequence[Op]) -> list[Result]:
        results, errors = await self._outcome(ops)
        if errors:
            raise one_error(errors, results)
        return results

    async def _outcome(self, ops: Sequence[Op]) -> tuple[list[Result], dict[int, Exception]]:
        """Run operations; return their results in order, and their errors by index."""
        if self._sweep_interval_s and self._sweeps_by_itself:
            self._sweep_on(self._sweep_interval_s)
        errors: dict[int, Exception] = {}
        core: dict[int, ItemOp] = {}
        reading = Reading(self._search, self._distance, not self._omits_expired)
        for place, op in enumerate(ops):
            try:
                core[place] = core_op(op, self._fields, reading, later=self._embeds_later)
            except ValueError as error:  # InvalidInput and InvalidNamespaceError are ValueErrors
                errors[place] = error
        found: Sequence[Any] = [None] * len(core)
        try:
            found = await self._engine.run_item_ops(list(core.values())) if core else []
        except BatchError as failed:
            found = failed.results
            errors |= {list(core)[place]: error for place, error in failed.errors.items()}
        except MemoryCoreError as error:
            errors |= dict.fromkeys(core, error)
        results: list[Result] = [None] * len(ops)
        for (place, _), result in zip(core.items(), found, strict=True):
            if place not in errors:
                results[place] = result_of(ops[place], result, score_parts=self._score_parts)
        return results, errors

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Write an item, as BaseStore says; in a namespace of instructions, make a new version."""
        super().put(namespace, key, value, index, ttl=self._ttl(namespace, ttl))

    def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> Coroutine[Any, Any, None]:
        """Do as put() from async code."""
        return super().aput(namespace, key, value, index, ttl=self._ttl(namespace, ttl))

    def _ttl(
        self, namespace: Sequence[str], ttl: float | NotProvided | None
    ) -> float | NotProvided | None:
        """Return the lifetime of a put; instructions have none by default."""
        if ttl is None and self._none_is_default_ttl:
            ttl = NOT_PROVIDED
        if isinstance(ttl, NotProvided) and isinstance(namespace, Sequence):
            return None if instructions_scope(namespace) else ttl
        return ttl

    def _sweep_on(self, interval_s: float) -> None:
        if not (self._sweeper.running or self._sweeper.cancelled or self._closed):
            self._sweeper.start(interval_s)

    @property
    def _omits_expired(self) -> bool:
        return bool((self.ttl_config or {}).get("omit_expired"))

    def _is_on_own_loop(self) -> bool:
        return self._opened_on is not None and self._opened_on is _running_loop()

    def _require_other_loop(self) -> None:
        if self._is_on_own_loop():
            raise asyncio.InvalidStateError(
                "a sync call of a store on the event loop that opened it by 'async with' would stop"
                " all other tasks of the loop: await the async method instead, e.g."
                " await store.aget(...), or call it from another thread"
            )

    def setup(self) -> Awaitable[None]:
        """Connect, start an embedded server, and migrate the schema, as a first operation does.

        It may be awaited.
        """
        if self._is_on_own_loop():
            return self._open()
        run_sync(self._open())
        return Done()

    async def _open(self) -> None:
        self._closed = False
        await self._engine.open()

    def sweep_ttl(self) -> Count:
        """Delete all expired items now; return their number. It may be awaited."""
        if self._is_on_own_loop():
            return cast(Count, self._sweep())  # a coroutine: there it must be awaited
        return Count(self._swept())

    def _swept(self) -> int:
        return run_sync(self._sweep())

    async def _sweep(self) -> int:
        swept = 0
        while True:
            now = await self._engine.sweep_expired(limit=SWEEP_BATCH)
            swept += now
            if now < SWEEP_BATCH:
                return swept

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Task[None]:
        """Sweep at a fixed interval, in its own thread, until it is stopped or closed.

        Returns a future that ends with the sweeper; cancelling it stops the sweeper. A second call
        returns the future of the running sweeper. The default interval is
        "sweep_interval_minutes" of the configuration. If it is set, the first operation starts the
        sweeper, unless a caller stopped or cancelled it. It may be awaited, which returns a future
        of asyncio.
        """
        interval_s = _checked_interval_s(sweep_interval_minutes) or self._sweep_interval_s
        self._sweeps_by_itself = self._sweep_interval_s is not None
        return self._sweeper.start(interval_s or SWEEP_INTERVAL_MINUTES * SECONDS_PER_MINUTE)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> Count:
        """Stop sweeping; return whether no sweep runs any more after timeout seconds.

        It may be awaited.
        """
        self._sweeps_by_itself = False
        if self._is_on_own_loop():
            return cast(Count, asyncio.to_thread(self._sweeper.stop, timeout))
        return Count(self._sweeper.stop(timeout))

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all queued turns are embedded and consolidated; return False on a timeout.

        Raises:
            InvalidStateError: on the event loop of the `async with` that opened the store.
        """
        self._require_other_loop()
        return run_sync(self.aflush(timeout_s))

    async def aflush(self, timeout_s: float | None = None) -> bool:
        """Do as flush() from async code."""
        return await self._engine.flush(timeout_s)

    def close(self) -> None:
        """Stop the sweeper and close all connections, unless the engine was given."""
        self._closed = True
        self._sweeper.stop(STOP_TIMEOUT_S)
        run_sync(self.aclose())

    async def aclose(self) -> None:
        """Do as close() from async code."""
        self._closed = True
        await self._sweeper.astop()
        if self._owns_engine:
            await self._engine.close()

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Return a store for `with` or `async with`.

        Args:
            conn_string: the database, as the constructor's uri.
            options: those of the constructor.
        """
        return cls(conn_string, **options)

    def __enter__(self) -> Self:
        self._opened_on = None
        run_sync(self._open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._opened_on = asyncio.get_running_loop()
        await self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class OceanBaseHippocampusStore(PgHippocampusStore):
    """A PgHippocampusStore with its items in SeekDB or OceanBase.

        with OceanBaseHippocampusStore("seekdb:///data/memory") as store:
            graph.compile(store=store)

    uri: "seekdb:///folder", or "oceanbase://user@tenant#cluster:password@host:2881/database";
    default: HIPPOCAMPUS_URI. options: those of PgHippocampusStore.

    Raises:
        InvalidInput: for a uri of another engine.
    """

    def __init__(self, uri: str | None = None, **options: Any) -> None:
        chosen = load_settings(uri).uri
        if options.get("engine") is None and not chosen.startswith(("seekdb://", "oceanbase://")):
            raise InvalidInput(
                f"OceanBaseHippocampusStore keeps its items in OceanBase, not in"
                f" {redacted(chosen)!r}: give 'seekdb:///folder' or 'oceanbase://...', or take"
                " PgHippocampusStore for PostgreSQL"
            )
        super().__init__(uri, **options)


def _may_share(op: Op) -> bool:
    if isinstance(op, PutOp):
        return not (isinstance(op.namespace, Sequence) and instructions_scope(op.namespace))
    if isinstance(op, SearchOp):
        return not op.query
    return isinstance(op, GetOp | ListNamespacesOp)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _sweep_interval_s(ttl: TTLConfig | None) -> float | None:
    return _checked_interval_s((ttl or {}).get("sweep_interval_minutes"))


def _checked_interval_s(minutes: float | None) -> float | None:
    if minutes is None:
        return None
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not minutes > 0:
        raise InvalidInput(f"sweep_interval_minutes must be above 0, got {shown(minutes)}")
    return min(minutes * SECONDS_PER_MINUTE, threading.TIMEOUT_MAX)


def _listed(ops: Iterable[Op]) -> list[Op]:
    return listed(ops, "ops", "[GetOp(...)]")


def _check_address(args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise InvalidInput for labels or a key that BaseStore would fail on."""
    for name, given in (*zip(("namespace", "key"), args[1:3], strict=False), *options.items()):
        # prefix and suffix may be one bare label, or None
        if name == "namespace" or (
            name in ("prefix", "suffix") and not isinstance(given, str | None)
        ):
            check_labels(given, name)
        elif name == "key" and not isinstance(given, str):
            _check_key(given)


def _check_key(key: object) -> None:
    try:
        str(key)  # as BaseStore writes keys that are no texts
    except (RecursionError, ValueError) as error:
        raise InvalidInput(f"the key of an item must be a string, got {shown(key)}") from error


def _helpful(method: Method) -> Method:
    """Wrap a method of BaseStore, so that its errors for a namespace or a key are clear."""

    @wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        _check_address(args, options)
        try:
            return method(*args, **options)
        except InvalidNamespaceError as error:
            raise with_label_hint(error) from None

    @wraps(method)
    async def acall(*args: Any, **options: Any) -> Any:
        _check_address(args, options)
        try:
            return await method(*args, **options)
        except InvalidNamespaceError as error:
            raise with_label_hint(error) from None

    return cast(Method, acall if method.__name__.startswith("a") else call)


for _name in (
    "get", "search", "put", "delete", "list_namespaces",
    "aget", "asearch", "aput", "adelete", "alist_namespaces",
):  # fmt: skip
    setattr(PgHippocampusStore, _name, _helpful(getattr(PgHippocampusStore, _name)))
