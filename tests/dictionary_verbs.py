"""The verbs of policies on dictionaries: what each engine does in a statement of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from shared_core.core.namespaces import rest_of
from shared_core.ports.events import EventRow
from shared_core.ports.items import MemoryRow, VectorRows
from shared_core.ports.jobs import NewJob
from shared_core.ports.operations import Row

Rows = list[dict[str, Any]]
Tables = Mapping[str, Rows]
RunVerb = Callable[..., list[Row]]
_DERIVED = ("embeddings", "facts", "memory_archive")


def verbs(
    world: Tables, now: datetime | None, whole: Callable[[str, Mapping[str, Any]], dict[str, Any]]
) -> Mapping[str, RunVerb]:
    """Return the verbs by name; whole: returns a row of a table with all its columns."""

    def moment() -> datetime:
        assert now is not None, "name the moment of the verbs: run(policy, world, now)"
        return now

    def put_items(rows: Sequence[MemoryRow]) -> list[Row]:
        for row in rows:
            _put(world, whole, row, moment())
        return []

    def add_vectors(vectors: VectorRows | None) -> list[Row]:
        if vectors is None:
            return []
        for (namespace, key), field in zip(vectors.addresses, vectors.fields, strict=True):
            for memory in _at(world, rest_of(namespace), key):
                named = {"memory_id": memory["memory_id"], "model": vectors.model, "field": field}
                world["embeddings"][:] = [
                    one for one in world["embeddings"] if not named.items() <= one.items()
                ]
                world["embeddings"].append(whole("embeddings", named))
        return []

    def append_turns(thread_id: str, rows: Sequence[EventRow]) -> list[Row]:
        return _append(world, whole, thread_id, rows, moment())

    def enqueue(
        thread_id: str | None, job: NewJob, changed_at: datetime | None = None
    ) -> list[Row]:
        named = {"job_id": job.job_id, "thread_id": thread_id, "job_type": str(job.job_type)}
        world["consolidation_jobs"].append(whole("consolidation_jobs", named))
        return []

    return {
        "put_items": put_items,
        "add_vectors": add_vectors,
        "append_turns": append_turns,
        "exclude_appends": lambda: [],
        "enqueue": enqueue,
    }


def _at(world: Tables, namespace: str, key: str) -> Rows:
    named = {"namespace": namespace, "key": key}
    return [one for one in world["memories"] if named.items() <= one.items()]


def _put(
    world: Tables, whole: Callable[..., dict[str, Any]], row: MemoryRow, now: datetime
) -> None:
    """Write a memory; one that is stored there keeps its id, and what was drawn from it goes."""
    namespace = rest_of(row.namespace)
    values = {
        "kind": row.kind, "text": row.text, "value": dict(row.value), "terms": " ".join(row.terms),
        "term_count": len(row.terms), "author": row.author, "importance": row.importance,
        "occurred_at": row.occurred_at, "expires_at": row.expires_at, "ttl_s": row.ttl_s,
        "run_id": row.run_id, "superseded_at": row.superseded_at, "words_key": row.words_key,
        "demoted_at": None,
    }  # fmt: skip
    there = _at(world, namespace, row.key)
    if not there:
        own = {"memory_id": row.memory_id, "namespace": namespace, "key": row.key,
               "thread_id": row.thread_id, "created_at": now, "updated_at": now}  # fmt: skip
        world["memories"].append(whole("memories", {**own, **values}))
        world["memory_access"].append(whole("memory_access", {"memory_id": row.memory_id}))
        return
    [old] = there
    ended = old["expires_at"] is not None and old["expires_at"] <= now
    old.update(
        values,
        kind="episodic" if old["kind"] == "episodic" else row.kind,
        thread_id=row.thread_id or old["thread_id"],
        created_at=now if ended else old["created_at"],
        updated_at=max(now, old["updated_at"] + timedelta(microseconds=1)),
    )
    kept = old["kind"] in ("episodic", "summary")
    for table in (*_DERIVED, *(() if kept else ("memory_sources",))):
        world[table][:] = [one for one in world[table] if one["memory_id"] != old["memory_id"]]
    for one in world["memory_access"]:
        if one["memory_id"] == old["memory_id"]:
            one.update(stage=0, staged_at=None)


def _append(
    world: Tables,
    whole: Callable[..., dict[str, Any]],
    thread_id: str,
    rows: Sequence[EventRow],
    now: datetime,
) -> list[Row]:
    """Append turns that are neither stored nor forgotten; return their ids."""
    known = {(one["thread_id"], one["event_id"])
             for table in ("events", "tombstones") for one in world[table]}  # fmt: skip
    new = [row for row in rows if (thread_id, row.event.event_id) not in known]
    threads = [one for one in world["threads"] if one["thread_id"] == thread_id]
    if not threads:
        threads = [whole("threads", {"thread_id": thread_id, "created_at": now})]
        world["threads"] += threads
    [thread] = threads
    for row in new:
        event, turn = row.event, {"thread_id": thread_id, "event_id": row.event.event_id}
        thread["last_memory_seq"] += 1
        thread["unread_bytes"] += len(event.text.encode())
        number = thread["last_memory_seq"]
        told = {"text": event.text, "author": event.author, "importance": event.importance,
                "occurred_at": event.occurred_at, "expires_at": event.expires_at}  # fmt: skip
        own = {"role": event.role, "seq": number, "memory_seq": number, "recorded_at": now,
               "metadata": dict(event.metadata)}  # fmt: skip
        world["events"].append(whole("events", {**turn, **told, **own}))
        if row.memory_id is None:
            continue
        named = {"memory_id": row.memory_id}
        memory = {"namespace": "/memories/", "key": str(row.memory_id), "kind": "episodic",
                  "thread_id": thread_id, "value": dict(row.value), "terms": " ".join(row.terms),
                  "term_count": len(row.terms), "created_at": now, "updated_at": now}  # fmt: skip
        world["memories"].append(whole("memories", {**named, **told, **memory}))
        world["memory_access"].append(whole("memory_access", named))
        world["memory_sources"].append(whole("memory_sources", {**named, **turn}))
    return [(row.event.event_id,) for row in new]
