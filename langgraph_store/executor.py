"""DurableReflectionExecutor: langmem's ReflectionExecutor with a queue that survives a crash."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from langchain_core.messages import messages_from_dict, messages_to_dict
from langchain_core.runnables import RunnableConfig
from langgraph.func import entrypoint
from langgraph.store.base import BaseStore

from langgraph_store.labels import memories_namespace
from langgraph_store.messages import messages_of
from langgraph_store.run_identity import IdSource, RunIdentity, current_config
from langgraph_store.store import PgHippocampusStore
from langgraph_store.turn_feed import TurnFeed
from shared_core import InvalidInput, MemoryCoreError, Scope, run_sync
from shared_core.core import JsonValue, in_background, uuid7
from shared_core.jobs import CALLBACK, PerformerExited
from shared_core.ports import Job, JobRecord, JobStatus, JobType

_Thread: TypeAlias = tuple[Scope, str]
_Over: TypeAlias = "Future[JobRecord | None]"
_NOT_SET: Any = object()


class LangMemReflector(Protocol):
    """A reflector of langmem, e.g. create_memory_store_manager(...)."""

    def invoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """Reflect on {"messages": [...]}."""
        ...


class ReflectionFailed(MemoryCoreError):
    """Raised when all retries of a reflection failed."""


@dataclass(slots=True)
class _Reflected:
    """The result or error of a reflector in this process, for a waiting future."""

    returned: Any = _NOT_SET
    raised: BaseException | None = None


class DurableReflectionExecutor:
    """langmem's ReflectionExecutor, with a durable queue in the memory's database.

        executor = DurableReflectionExecutor(store, app="my_app")
        executor.submit({"messages": messages}, config=config, after_seconds=30)

    Without a reflector the messages become turns of the thread, and are consolidated. With a
    reflector, e.g. langmem's create_memory_store_manager(...), the queue stores the payload. Any
    process with an executor of the same app and name on the same memory may run it. A newer payload
    of a thread replaces a waiting one and cancels its future.

    A future ends with its reflection; without a reflector, when its thread has no open work.
    Cancelling a future only stops the wait. Closing the store cancels it.

    Args:
        store: the store whose memory keeps the queue.
        app: the application; an id, or a function of the run's config and context.
        user_id: the user, likewise; for the default see RunIdentity.
        reflector: an object of langmem that reflects on {"messages": [...]}.
        name: identifies the reflector. It is required if the application has several, or if app is
            a function.

    Raises:
        Conflict: another executor with this app and name is open on the store.
    """

    def __init__(
        self,
        store: PgHippocampusStore,
        *,
        app: IdSource,
        user_id: IdSource | None = None,
        reflector: LangMemReflector | None = None,
        name: str | None = None,
    ) -> None:
        self._store = store
        self._engine = store.engine
        self._identity = RunIdentity(app, user_id)
        self._lock = threading.Lock()
        self._futures: dict[Future[Any], _Thread] = {}
        self._reflected: dict[UUID, _Reflected] = {}
        self._shut_down = False
        self._app = None if callable(app) else str(app)
        self._name = CALLBACK if name is None else name
        self._graph = None
        if reflector is not None:
            if name is None and self._app is None:
                raise InvalidInput(
                    "a reflector needs a name if app is a function: give name=..., the same in"
                    " every process that runs it"
                )
            self._graph = _graph(reflector, store)
            self._engine.jobs.learn(self._reflect, name=self._name, app=self._app)

    def submit(
        self,
        payload: Mapping[str, Any],
        /,
        config: RunnableConfig | None = None,
        *,
        after_seconds: float = 0,
        thread_id: str | UUID | None = _NOT_SET,
    ) -> Future[Any]:
        """Queue the work of a thread for after_seconds from now; newer work postpones it.

        Args:
            config: by default that of the current run.
            thread_id: by default that of the config.
        """
        if self._shut_down:
            raise InvalidInput("this executor was shut down: create another one")
        config = current_config(config)
        scope = self._identity.scope(config)
        if thread_id is _NOT_SET or not thread_id:
            thread_id = self._identity.thread(config)
        thread: _Thread = (scope, str(thread_id))
        if self._graph is None:
            run_sync(self._remember(thread, payload, after_seconds))
            return self._promised(thread, JobType.FULL_CONSOLIDATION, None)
        job_id = uuid7()
        self._reflected[job_id] = _Reflected()
        try:
            run_sync(
                self._engine.jobs.ask(
                    *thread,
                    _serialized(payload, config),
                    delay_s=after_seconds,
                    name=self._name,
                    job_id=job_id,
                )
            )
        except BaseException:
            del self._reflected[job_id]
            raise
        return self._promised(thread, JobType.CALLBACK, job_id)

    def search(
        self,
        query: str | None = None,
        *,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        namespace: str | tuple[str, ...] | None = None,
    ) -> list[dict[str, Any]]:
        """Search the store; by default the memories of the run's user."""
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
        """Like search(), from async code."""
        where = self._namespace(namespace)
        found = await self._store.asearch(
            where, query=query, filter=filter, limit=limit, offset=offset
        )
        return [item.dict() for item in found]

    def shutdown(
        self, wait: bool = True, *, cancel_futures: bool = False, timeout_s: float | None = None
    ) -> None:
        """Run the work submitted here now, and wait for it; later calls of submit() fail.

        With wait=False, cancel_futures=True or a memory with worker=False, it does not wait and the
        work stays queued.
        Once no future is open, another executor may take the name.

        Args:
            wait: whether to run the work now.
            cancel_futures: leaves the work queued.
            timeout_s: maximum number of seconds to wait.
        """
        self._shut_down = True
        with self._lock:
            waiting = dict(self._futures)
        if cancel_futures:
            for future in waiting:
                future.cancel()
        elif wait and waiting and self._engine.jobs.done_here:
            run_sync(self._engine.jobs.hasten([*dict.fromkeys(waiting.values())]))
            futures.wait(waiting, timeout_s)
        if self._graph is not None and all(future.done() for future in waiting):
            self._engine.jobs.unlearn(name=self._name, app=self._app)

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
        feed = TurnFeed(self._engine, self._identity, delay_s=delay_s)
        if not await feed.append(*thread, messages_of(payload, "messages")):
            # Known turns queue no work, but their earlier job may be dead.
            await self._engine.jobs.ask_if_unread(*thread, delay_s=delay_s)

    async def _reflect(self, job: Job) -> Mapping[str, JsonValue]:
        graph = self._graph
        assert graph is not None
        payload: dict[str, Any] = dict(job.payload or {})
        configurable = payload.pop("configurable", {})
        if "messages" in payload:
            payload["messages"] = messages_from_dict(payload["messages"])
        config: RunnableConfig = {"configurable": configurable}
        reflected = self._reflected.get(job.job_id, _Reflected())
        try:
            returned = await graph.ainvoke(payload, config)
        except Exception as error:
            # The queue stores no message, as it may quote the user. The future gets the error.
            reflected.raised = error
            raise
        reflected.returned = returned
        return {"returned": len(returned) if isinstance(returned, list) else 1}

    def _promised(self, thread: _Thread, job_type: JobType, job_id: UUID | None) -> Future[Any]:
        """Return a future of the result of a job."""
        future: Future[Any] = Future()
        with self._lock:
            self._futures[future] = thread
        over = self._engine.jobs.watch(*thread, job_type, job_id)
        future.add_done_callback(lambda _: self._forget(future, job_id, over))
        over.add_done_callback(lambda _: self._end(future, job_id, over))
        return future

    def _forget(self, future: Future[Any], job_id: UUID | None, over: _Over) -> None:
        over.cancel()
        with self._lock:
            self._futures.pop(future, None)
        if job_id is not None:
            self._reflected.pop(job_id, None)

    def _end(self, future: Future[Any], job_id: UUID | None, over: _Over) -> None:
        reflected = _Reflected() if job_id is None else self._reflected.get(job_id, _Reflected())
        if over.cancelled() and reflected.returned is _NOT_SET:
            future.cancel()
        elif future.set_running_or_notify_cancel():
            try:
                future.set_result(_outcome(reflected, over))
            except MemoryCoreError as error:
                future.set_exception(error)

    def _namespace(self, namespace: str | tuple[str, ...] | None) -> tuple[str, ...]:
        if namespace is None:
            scope = self._identity.scope(current_config())
            return memories_namespace(scope.app, scope.user)
        return (namespace,) if isinstance(namespace, str) else namespace


def _outcome(reflected: _Reflected, over: _Over) -> Any:
    """Return the result of a reflection in this process, else the result in the queue."""
    if reflected.returned is not _NOT_SET:
        return reflected.returned
    job = over.result()
    if job is not None and job.status is JobStatus.FAILED:
        raise ReflectionFailed(
            f"the reflection failed after all retries: {reflected.raised or job.error}"
        ) from reflected.raised
    return {} if job is None else dict(job.result)


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Run work in a daemon thread and return its result.

    The work may block, as langmem's reflectors do. It does not reopen a closed memory.
    """
    loop = asyncio.get_running_loop()
    ended: Future[Any] = Future()
    ended.set_running_or_notify_cancel()  # cancelling the wait does not stop the work
    context = contextvars.copy_context()
    context.run(in_background.set, True)

    def run() -> None:
        try:
            ended.set_result(context.run(work))
        except (StopIteration, SystemExit, KeyboardInterrupt) as error:
            # A future refuses StopIteration, and the others would end the event loop.
            exited = PerformerExited(f"the reflector raised {type(error).__name__}")
            exited.__cause__ = error
            ended.set_exception(exited)
        except BaseException as error:  # noqa: BLE001 # the awaiting caller gets it
            ended.set_exception(error)

    threading.Thread(target=run, name="hippocampus-reflector", daemon=True).start()
    return await asyncio.wrap_future(ended, loop=loop)


def _graph(reflector: LangMemReflector, store: BaseStore) -> Any:
    """Return a graph that calls the reflector, so that it finds the store in the runtime."""

    @entrypoint(store=store)
    async def reflect(payload: dict[str, Any], config: RunnableConfig) -> Any:
        return await _in_thread(lambda: reflector.invoke(payload, config))

    return reflect


def _serialized(payload: Mapping[str, Any], config: RunnableConfig) -> dict[str, JsonValue]:
    """Return a payload and the ids of its config as JSON values."""
    serialized: dict[str, Any] = dict(payload)
    if "messages" in serialized:
        serialized["messages"] = messages_to_dict(messages_of(payload, "messages"))
    ids = config.get("configurable", {}).items()
    serialized["configurable"] = {
        name: str(value) if isinstance(value, UUID) else value
        for name, value in ids
        if isinstance(value, str | int | float | bool | UUID) and not name.startswith("__")
    }
    return serialized
