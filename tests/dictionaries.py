"""Runs policies on dictionaries: tables of one tenant in memory, without a database.

Foreign keys delete along, and primary keys are kept, as the schema of PostgreSQL says.
"""

import json
import operator
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeVar

from shared_core.core.json_text import JsonText
from shared_core.core.namespaces import rest_of
from shared_core.errors import Conflict
from shared_core.ports import operations as ops
from shared_core.ports.events import EventRow
from shared_core.ports.items import MemoryRow, VectorRows
from shared_core.ports.jobs import NewJob
from shared_core.ports.tables import NOW, tables as described

T = TypeVar("T")
RunVerb = Callable[..., list[ops.Row]]
_DERIVED = ("embeddings", "facts", "memory_archive")
Record = dict[str, Any]
Tables = defaultdict[str, list[Record]]
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def tables(**rows: Sequence[Record]) -> Tables:
    """Return tables with some rows, each with all of its columns."""
    found: Tables = defaultdict(list)
    for table, some in rows.items():
        found[table] += [_whole(table, row) for row in some]
    return found


def run(policy: ops.Policy[T], world: Tables, now: datetime | None = None) -> T:
    """Run a policy; its changes are made if it ends with `Last`, and not if it raises.

    now: the moment of the verbs that it yields, if it yields any.
    """
    held = defaultdict(list, {name: [{**one} for one in rows] for name, rows in world.items()})
    own = _verbs(held, now)
    answers: Any = None
    try:
        while True:
            batch = policy.send(answers)
            operations = batch.operations if isinstance(batch, ops.Last) else batch
            answers = [
                own[one.name](*one.arguments) if isinstance(one, ops.Verb) else _done(held, one)
                for one in operations
            ]
            if isinstance(batch, ops.Last):
                world.clear()
                world.update(held)
                answers = []
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _copied(value: Any) -> Any:
    """Return a copy of dictionaries, lists and tuples; what else a row holds never changes."""
    match value:
        case dict():
            return {name: _copied(inner) for name, inner in value.items()}
        case list() | tuple():
            return type(value)(map(_copied, value))
    return value


def _whole(table: str, row: Mapping[str, Any]) -> Record:
    defaults = _defaults(table)
    assert row.keys() <= defaults.keys(), f"{table} has no {row.keys() - defaults.keys()}"
    given = {name: json.loads(value) if isinstance(value, JsonText) else value
             for name, value in row.items()}  # fmt: skip
    return {**defaults, **given}


@cache
def _defaults(table: str) -> Record:
    return {name: None if one.default in (None, NOW) else json.loads(one.default)
            for name, one in described()[table].columns.items()}  # fmt: skip


def _done(world: Tables, operation: ops.Operation) -> list[ops.Row]:
    """Do an operation, and return its rows."""
    match operation:
        case ops.Select():
            return _selected(world, operation)
        case ops.Insert():
            for values in operation.rows:
                _insert(world, operation, dict(zip(operation.columns, values, strict=True)))
        case ops.Update() | ops.Delete():
            fitting = [one for one in world[operation.table] if _fits(one, operation.where)]
            if isinstance(operation, ops.Delete):
                _delete(world, operation.table, fitting)
            else:
                for one in fitting:
                    one.update(_copied(dict(operation.values)))
            return [tuple(one[name] for name in operation.returning) for one in fitting]
        case ops.UpdateEach():
            names = (*operation.key, *operation.columns)
            for values in operation.rows:
                row = dict(zip(names, values, strict=True))
                for one in world[operation.table]:
                    if all(one[name] == row[name] for name in operation.key):
                        one.update(_copied(row))
        case _:
            raise NotImplementedError(operation)
    return []


def _insert(world: Tables, insert: ops.Insert, row: Record) -> None:
    new = _whole(insert.table, _copied(row))
    key = described()[insert.table].key
    there = [one for one in world[insert.table] if all(one[name] == new[name] for name in key)]
    if not there:
        world[insert.table].append(new)
    elif insert.exists == "error":
        raise Conflict(f"a row of {insert.table} exists: {row}")
    elif insert.exists == "update":
        there[0].update({name: row[name] for name in insert.update})


def _delete(world: Tables, table: str, rows: Sequence[Record]) -> None:
    """Delete rows, and those that name them by a foreign key."""
    if not rows:
        return
    gone = {id(one) for one in rows}
    world[table] = [one for one in world[table] if id(one) not in gone]
    for other, shape in described().items():
        for parent in shape.parents:
            if parent.table == table:
                named = {tuple(one[name] for name in parent.theirs) for one in rows}
                along = [one for one in world[other]
                         if tuple(one[name] for name in parent.columns) in named]  # fmt: skip
                _delete(world, other, along)


def _selected(world: Tables, select: ops.Select) -> list[ops.Row]:
    own = [one for one in select.where if not any("." in name for name in one.columns)]
    fitting = [one for one in world[select.table] if _fits(one, own)]
    found = [{f"t.{name}": value for name, value in one.items()} for one in fitting]
    for join in select.joins:
        found = _joined(world, found, join)
    found = [one for one in found if _fits(one, select.where, "t.")]
    for name in reversed(select.order):
        column = _full(name.removeprefix("-"))
        found.sort(key=lambda one, by=column: one[by], reverse=name.startswith("-"))
    rows = list(_columns(found, select.columns))
    if select.is_distinct:
        rows = [row for place, row in enumerate(rows) if row not in rows[:place]]
    copied: list[ops.Row] = _copied(rows[: select.limit])
    return copied


def _joined(world: Tables, rows: Sequence[Record], join: Any) -> list[Record]:
    partners: dict[ops.Row, list[Record]] = {}
    for one in world[join.table]:
        partner = {f"{join.alias}.{name}": value for name, value in one.items()}
        partners.setdefault(tuple(one[its] for _, its in join.on), []).append(partner)
    nothing = {f"{join.alias}.{name}": None for name in described()[join.table].columns}
    keys = [tuple(row[_full(own)] for own, _ in join.on) for row in rows]
    others = [partners.get(key, [nothing] if join.is_left else []) for key in keys]
    return [{**row, **one} for row, some in zip(rows, others, strict=True) for one in some]


def _full(column: str) -> str:
    return column if "." in column else f"t.{column}"


def _columns(found: Sequence[Record], columns: Sequence[Any]) -> Iterator[ops.Row]:
    plain = [one for one in columns if isinstance(one, str)]
    if not any(isinstance(one, ops.Aggregate) for one in columns):
        yield from (tuple(_read(one, column) for column in columns) for one in found)
        return
    groups: dict[ops.Row, list[Record]] = {} if plain else {(): []}
    for one in found:
        groups.setdefault(tuple(one[_full(name)] for name in plain), []).append(one)
    for some in groups.values():
        yield tuple(
            some[0][_full(one)] if isinstance(one, str) else _aggregated(one, some)
            for one in columns
        )


def _read(row: Record, column: Any) -> Any:
    if isinstance(column, ops.Member):
        return column.of(row[_full(column.column)])
    return row[_full(column)]


def _aggregated(aggregate: ops.Aggregate, some: Sequence[Record]) -> Any:
    if aggregate.function == "count":
        return len(some)
    values = [one[_full(aggregate.column)] for one in some]
    values = [value for value in values if value is not None]
    if aggregate.function in ("max", "min"):
        return (max if aggregate.function == "max" else min)(values, default=None)
    return sum(values if aggregate.function == "sum" else (len(one.encode()) for one in values))


def _fits(row: Record, where: Sequence[ops.Condition], prefix: str = "") -> bool:
    return all(_is_met(row, condition, prefix) for condition in where)


def _is_met(row: Record, condition: ops.Condition, prefix: str) -> bool:
    names = [_full(name) if prefix else name for name in condition.columns]
    values = tuple(row[name] for name in names)
    value, asked = values[0] if len(values) == 1 else values, condition.value
    match condition.comparison:
        case "null":
            return value is None
        case "not null":
            return value is not None
        case "null or >":
            return value is None or value > asked
    if None in values:
        return False
    if condition.comparison == "in":
        return value in (asked if len(values) == 1 else [tuple(one) for one in asked])
    if compared := _COMPARED.get(condition.comparison):
        return bool(compared(value, asked))
    return str(value).startswith(asked)


# What each engine does in a statement of its own


def _verbs(world: Tables, now: datetime | None) -> Mapping[str, RunVerb]:
    """Return the verbs by name."""

    def moment() -> datetime:
        assert now is not None, "name the moment of the verbs: run(policy, world, now)"
        return now

    def put_items(rows: Sequence[MemoryRow]) -> list[ops.Row]:
        for row in rows:
            _put(world, row, moment())
        return []

    def add_vectors(vectors: VectorRows | None) -> list[ops.Row]:
        if vectors is None:
            return []
        for (namespace, key), field in zip(vectors.addresses, vectors.fields, strict=True):
            for memory in _at(world, rest_of(namespace), key):
                named = {"memory_id": memory["memory_id"], "model": vectors.model, "field": field}
                held = [one for one in world["embeddings"] if not named.items() <= one.items()]
                world["embeddings"][:] = [*held, _whole("embeddings", named)]
        return []

    def enqueue(
        thread_id: str | None, job: NewJob, changed_at: datetime | None = None
    ) -> list[ops.Row]:
        named = {"job_id": job.job_id, "thread_id": thread_id, "job_type": str(job.job_type)}
        world["consolidation_jobs"].append(_whole("consolidation_jobs", named))
        return []

    return {
        "put_items": put_items, "add_vectors": add_vectors, "exclude_appends": lambda: [],
        "append_turns": lambda thread_id, rows: _append(world, thread_id, rows, moment()),
        "enqueue": enqueue,
    }  # fmt: skip


def _at(world: Tables, namespace: str, key: str) -> list[Record]:
    named = {"namespace": namespace, "key": key}
    return [one for one in world["memories"] if named.items() <= one.items()]


def _put(world: Tables, row: MemoryRow, now: datetime) -> None:
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
        world["memories"].append(_whole("memories", {**own, **values}))
        world["memory_access"].append(_whole("memory_access", {"memory_id": row.memory_id}))
        return
    [old] = there
    ended = old["expires_at"] is not None and old["expires_at"] <= now
    old.update(values, kind="episodic" if old["kind"] == "episodic" else row.kind,
        thread_id=row.thread_id or old["thread_id"],
        created_at=now if ended else old["created_at"], updated_at=max(now,
        old["updated_at"] + timedelta(microseconds=1)))  # fmt: skip
    kept = old["kind"] in ("episodic", "summary")
    for table in (*_DERIVED, *(() if kept else ("memory_sources",))):
        world[table][:] = [one for one in world[table] if one["memory_id"] != old["memory_id"]]
    for one in world["memory_access"]:
        if one["memory_id"] == old["memory_id"]:
            one.update(stage=0, staged_at=None)


def _append(
    world: Tables, thread_id: str, rows: Sequence[EventRow], now: datetime
) -> list[ops.Row]:
    """Append turns that are neither stored nor forgotten; return their ids."""
    known = {(one["thread_id"], one["event_id"])
             for table in ("events", "tombstones") for one in world[table]}  # fmt: skip
    new = [row for row in rows if (thread_id, row.event.event_id) not in known]
    threads = [one for one in world["threads"] if one["thread_id"] == thread_id]
    if not threads:
        threads = [_whole("threads", {"thread_id": thread_id, "created_at": now})]
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
        world["events"].append(_whole("events", {**turn, **told, **own}))
        if row.memory_id is None:
            continue
        named = {"memory_id": row.memory_id}
        memory = {"namespace": "/memories/", "key": str(row.memory_id), "kind": "episodic",
                  "thread_id": thread_id, "value": dict(row.value), "terms": " ".join(row.terms),
                  "term_count": len(row.terms), "created_at": now, "updated_at": now}  # fmt: skip
        world["memories"].append(_whole("memories", {**named, **told, **memory}))
        world["memory_access"].append(_whole("memory_access", named))
        world["memory_sources"].append(_whole("memory_sources", {**named, **turn}))
    return [(row.event.event_id,) for row in new]
