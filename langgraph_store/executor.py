"""DurableReflectionExecutor: langmem's ReflectionExecutor with a queue that survives a crash."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from langchain_core.messages import messages_from_dict, messages_to_dict
from langchain_core.runnables import RunnableConfig
from langgraph.func import entrypoint
from langgraph.store.base import BaseStore

from langgraph_store.labels import memories_namespace
from langgraph_store.messages import messages_of
from langgraph_store.store import PgHippocampusStore
from langgraph_store.turn_feed import TurnFeed
from langgraph_store.whose import Part, Whose, current_config
from shared_core import MemoryCoreError, Scope, run_sync
from shared_core.domain import JsonValue
from shared_core.job_ports import Job, JobRecord, JobStatus, JobType
from shared_core.sync_bridge import start_on_own_loop

SHORTEST_LOOK_S = 0.02
LONGEST_LOOK_S = 1.0

_Thread: TypeAlias = tuple[Scope, str]
_UNSAID: Any = object()


class Reflector(Protocol):
    """What langmem calls a reflector, e.g. create_memory_store_manager(...)."""

    def invoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """Reflect on {"messages": [...]}."""
        ...


class ReflectionFailed(MemoryCoreError):
    """A reflection was tried again and again, and given up."""


class DurableReflectionExecutor:
    """Takes what langmem's ReflectionExecutor takes, and keeps it in PostgreSQL until it is done.

        executor = DurableReflectionExecutor(store, app="my_app")
        executor.submit({"messages": messages}, config=config, after_seconds=30)

    Without a reflector the messages become turns of the thread, and facts and a summary are drawn
    from them. With one, e.g. langmem's create_memory_store_manager(...), the payload is kept and
    the reflector called with it, by this process or any that makes such an executor on the same
    memory; a newer payload of a thread takes the place of the one that waits, and the older future
    is cancelled. One reflector per store.

    A future ends when no work of its thread is open any more; cancelling it only stops waiting.
    """

    def __init__(
        self,
        store: PgHippocampusStore,
        *,
        app: Part,
        user_id: Part | None = None,
        reflector: Reflector | None = None,
    ) -> None:
        self._store = store
        self._engine = store.engine
        self._whose = Whose(app, user_id)
        self._job_type = JobType.FULL_CONSOLIDATION if reflector is None else JobType.CALLBACK
        self._lock = threading.Lock()
        self._futures: dict[Future[Any], _Thread] = {}
        self._watchers: set[asyncio.Task[None]] = set()
        self._returned: dict[_Thread, Any] = {}
        self._raised: dict[_Thread, Exception] = {}
        self._graph = None if reflector is None else _graph(reflector, store)
        if reflector is not None:
            self._engine.jobs.learn(self._reflect)

    def submit(
        self,
        payload: Mapping[str, Any],
        /,
        config: RunnableConfig | None = None,
        *,
        after_seconds: float = 0,
        thread_id: str | UUID | None = _UNSAID,
    ) -> Future[Any]:
        """Store work on a thread, not to be done before after_seconds; newer work moves it.

        config: by default that of the run this is called in. thread_id: by default the config's.
        """
        config = current_config(config)
        scope = self._whose.scope(config)
        if thread_id is _UNSAID or not thread_id:
            thread_id = self._whose.thread(config)
        thread: _Thread = (scope, str(thread_id))
        if self._graph is None:
            run_sync(self._remember(thread, payload, after_seconds))
        else:
            kept = _kept(payload, config)
            run_sync(self._engine.jobs.ask(scope, thread[1], kept, delay_s=after_seconds))
        future: Future[Any] = Future()
        with self._lock:
            older = [one for one, its in self._futures.items() if its == thread]
            self._futures[future] = thread
        if self._graph is not None:
            for one in older:
                one.cancel()
        start_on_own_loop(lambda: self._watch(future))
        return future

    def search(
        self,
        query: str | None = None,
        *,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        namespace: str | tuple[str, ...] | None = None,
    ) -> list[dict[str, Any]]:
        """Return what the store finds; by default in the memories of the run's user."""
        where = self._namespace(namespace)
        found = self._store.search(where, query=query, filter=filter, limit=limit, offset=offset)
        return [item.dict() for item in found]

    async def asearch(
        self,
        query: str | None = None,
        *,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        namespace: str | tuple[str, ...] | None = None,
    ) -> list[dict[str, Any]]:
        """Do as search() from async code."""
        where = self._namespace(namespace)
        found = await self._store.asearch(
            where, query=query, filter=filter, limit=limit, offset=offset
        )
        return [item.dict() for item in found]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait until what was submitted here is done, or stop waiting for it: it stays queued."""
        with self._lock:
            waiting = list(self._futures)
        if cancel_futures:
            for future in waiting:
                future.cancel()
        elif wait and waiting:
            run_sync(self._engine.flush())
            for future in waiting:
                if not future.cancelled():
                    future.exception()

    def __enter__(self) -> DurableReflectionExecutor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()

    async def _remember(self, thread: _Thread, payload: Mapping[str, Any], delay_s: float) -> None:
        feed = TurnFeed(self._engine, self._whose, delay_s=delay_s)
        await feed.append(*thread, messages_of(payload, "messages"))

    async def _reflect(self, job: Job) -> Mapping[str, JsonValue]:
        assert self._graph is not None and job.thread_id is not None
        payload: dict[str, Any] = dict(job.payload or {})
        configurable = payload.pop("configurable", {})
        if "messages" in payload:
            payload["messages"] = messages_from_dict(payload["messages"])
        config: RunnableConfig = {"configurable": configurable}
        # In a thread: a reflector may block, as langmem's do.
        thread = (job.scope, job.thread_id)
        try:
            returned = await asyncio.to_thread(self._graph.invoke, payload, config)
        except Exception as error:
            # The queue keeps no words of it: they may be the user's. Who waits here is told.
            self._raised[thread] = error
            raise
        self._returned[thread] = returned
        return {"returned": len(returned) if isinstance(returned, list) else 1}

    def _watch(self, future: Future[Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._settle(future))
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)

    async def _settle(self, future: Future[Any]) -> None:
        """Wait until no work of a future's thread is open, and tell what came of it."""
        scope, thread_id = thread = self._futures[future]
        wait_s = SHORTEST_LOOK_S
        try:
            while not future.cancelled():
                jobs = await self._engine.jobs.list(scope, thread_id=thread_id)
                ours = [job for job in jobs if job.job_type == self._job_type]
                if not any(job.status in ("pending", "running") for job in ours):
                    if future.set_running_or_notify_cancel():
                        self._end(future, ours[0] if ours else None, thread)
                    return
                await asyncio.sleep(wait_s)
                wait_s = min(1.5 * wait_s, LONGEST_LOOK_S)
        except MemoryCoreError as error:
            if not future.cancelled():
                future.set_exception(error)
        finally:
            with self._lock:
                self._futures.pop(future, None)
                if thread not in self._futures.values():
                    self._returned.pop(thread, None)
                    self._raised.pop(thread, None)

    def _end(self, future: Future[Any], job: JobRecord | None, thread: _Thread) -> None:
        if job is not None and job.status is JobStatus.FAILED:
            raised = self._raised.get(thread)
            failure = ReflectionFailed(f"given up: {raised or job.error}")
            failure.__cause__ = raised
            future.set_exception(failure)
            return
        returned = self._returned.get(thread)
        stored = dict(job.result) if job is not None else {}
        future.set_result(returned if returned is not None else stored)

    def _namespace(self, namespace: str | tuple[str, ...] | None) -> tuple[str, ...]:
        if namespace is None:
            scope = self._whose.scope(current_config())
            return memories_namespace(scope.app, scope.user)
        return (namespace,) if isinstance(namespace, str) else namespace


def _graph(reflector: Reflector, store: BaseStore) -> Any:
    """Return the reflector as a graph of its own, so that it finds the store where it looks."""

    @entrypoint(store=store)
    def reflect(payload: dict[str, Any], config: RunnableConfig) -> Any:
        return reflector.invoke(payload, config)

    return reflect


def _kept(payload: Mapping[str, Any], config: RunnableConfig) -> dict[str, JsonValue]:
    """Return a payload and the ids of its config as JSON values."""
    kept: dict[str, Any] = dict(payload)
    if "messages" in kept:
        kept["messages"] = messages_to_dict(messages_of(payload, "messages"))
    ids = config.get("configurable", {}).items()
    kept["configurable"] = {
        name: value
        for name, value in ids
        if isinstance(value, str | int | float | bool) and not name.startswith("__")
    }
    return kept
