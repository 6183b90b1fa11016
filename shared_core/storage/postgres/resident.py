"""Answers recall from indexes of users in this process, which are exactly fresh (decision 20).

An index answers first, from its arrays. Then one message reads the hits and the last change of the
user: if it is the one that the index holds, nothing has changed. Otherwise the index reads what
changed, and answers again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Final, TypeAlias
from uuid import UUID
from weakref import WeakSet

from shared_core.core.domain import Memory, MemoryId
from shared_core.core.event_loops import exiting, on_own_loop, start_on_own_loop
from shared_core.core.failure_reason import message
from shared_core.core.namespaces import memories_namespace, path_end, scope_path
from shared_core.ports.graph import Edge
from shared_core.ports.recall import AnswerOutdated, Recalled, SearchRequest
from shared_core.ports.storage import Clock
from shared_core.storage._resident import UNIT, PackedMemories, UserIndex
from shared_core.storage._rows import memory_from_row
from shared_core.storage.postgres.connection.changes import ANY, FACTS, MEMORIES_PATH
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Rows
from shared_core.storage.postgres.connection.statements import Step, named_pieces, step
from shared_core.storage.postgres.graph import found_edge

log = logging.getLogger("hippocampus")

IDLE_S: Final = 300.0
"""Seconds after which an index that answered nothing is dropped."""
_SWEPT_EVERY_S: Final = 30.0
_AFTER_S: Final = 0.1
"""Seconds from a first question to the reading of its index: it would delay the ranking."""
_REFUSED_S: Final = 300.0
"""Seconds for which a user without an index is not looked at again."""
_BYTES_A_MEMORY: Final = 500
"""Bytes of a memory in an index besides its text and its vector, about."""
_READ: Final = (
    "changes_since", "resident_memories", "resident_vectors", "resident_facts",
    "resident_fact_turns", "resident_ended_turns", "resident_names",
)  # fmt: skip

_Key: TypeAlias = tuple[str, str | None]
"""The tenant, and the model of the vectors."""


@dataclass
class _KeptIndex:
    index: UserIndex
    nbytes: int
    used_at: float


class ResidentIndexes:
    """The indexes of users in this process: at most `most_bytes` together, last used kept.

    An index is read in the background after the first question of its user. All are dropped on
    close and in a forked child; one is dropped after IDLE_S without a question.
    """

    def __init__(self, database: PostgresDatabase, clock: Clock, most_bytes: int) -> None:
        self._database = database
        self._clock = clock
        self._most_bytes = most_bytes
        self._reset()
        _all.add(self)
        database.on_change = self._expect_change

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Key, _KeptIndex] = OrderedDict()
        self._wanted: OrderedDict[_Key, None] = OrderedDict()
        self._refused: dict[_Key, float] = {}
        self._reader: asyncio.Task[None] | None = None
        self._is_reading = self._will_sweep = self._is_closed = False

    def open(self) -> None:
        """Allow indexes again after close()."""
        self._reset()

    async def close(self) -> None:
        """Drop all indexes and stop reading one."""
        with self._lock:
            self._is_closed = True
            self._wanted.clear()
        if self._reader is not None and not exiting():
            await on_own_loop(self._stop_reading())
        self.clear()

    async def _stop_reading(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.cancel()
            await asyncio.wait([reader])

    def clear(self) -> None:
        """Drop all indexes."""
        with self._lock:
            dropped = [*self._entries.values()]
            self._entries.clear()
        for entry in dropped:
            entry.index.wipe()

    @property
    def users(self) -> list[str]:
        """The tenants that have an index, the last used one last."""
        with self._lock:
            return [tenant for tenant, _ in self._entries]

    @property
    def nbytes(self) -> int:
        """Bytes of all indexes, about."""
        with self._lock:
            return sum(entry.nbytes for entry in self._entries.values())

    async def recall(self, request: SearchRequest, edges: Sequence[Step]) -> Recalled | None:
        """Return the answer of an index, or None where the statement must answer.

        edges: statements that return edges; they travel with the first hits.
        """
        if not self._can_answer(request):
            return None
        key = scope_path(request.scope), request.model
        index = self._used(key)
        if index is None:
            return None
        is_fresh = False
        if index.is_behind:
            caught_up = await self._caught_up(key, index)
            if caught_up is None:
                return None
            is_fresh = caught_up
        drop = partial(self._drop, key, index)
        answer = _Answer(self._database, key[0], index, is_fresh, drop)
        answer.seen, corpus, candidates = index.scored(request, self._clock(), answer.memory)
        if index.may_name(request.mentions, answer.seen):
            answer.edge_steps = edges
        return Recalled(
            candidates=candidates, corpus=corpus, edges=answer.edges, fetch=answer.fetch
        )

    def _can_answer(self, request: SearchRequest) -> bool:
        return (
            request.may_be_resident
            and self._most_bytes > 0
            and not self._database.is_spread
            and request.as_of is None
            and not request.filter
            and request.namespace == memories_namespace(request.scope)
        )

    def _expect_change(self, tenant: str, is_any: bool) -> None:
        """Let the next question of a user read changes first: this process writes some now.

        is_any: the changes may be an erasure, so drop the index of the user at once.
        """
        with self._lock:
            own = [(key, entry.index) for key, entry in self._entries.items() if key[0] == tenant]
        for key, index in own:
            index.is_behind = True
            if is_any:
                self._drop(key, index)

    def _used(self, key: _Key) -> UserIndex | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            entry.used_at = time.monotonic()
            self._entries.move_to_end(key)
            return entry.index

    def _drop(self, key: _Key, index: UserIndex) -> None:
        """Drop the index of a user, unless another one has taken its place."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.index is index:
                del self._entries[key]
        index.wipe()

    async def _caught_up(self, key: _Key, index: UserIndex) -> bool | None:
        """Let an index read what changed, and return whether it holds what this call has read.

        None, and no index any more, where the changes cannot be told, or left many slots unused.
        """
        since = index.seen
        read = await self._read(key, since)
        if read is None or index.is_sparse:
            self._drop(key, index)
            return None
        try:
            is_taken = index.apply(read, since)
        except BaseException:  # it holds a part of what was read
            self._drop(key, index)
            raise
        self._weigh(key, index)
        return is_taken

    async def _read(self, key: _Key, since: UUID | None) -> PackedMemories | None:
        """Read what changed since a write, or everything; None if that cannot be told."""
        tenant, model = key
        sent = read_steps(tenant, model, self._clock(), since)
        return packed(await self._database.run(tenant, *sent, one_moment=True), since)

    def prepare(self, request: SearchRequest) -> None:
        """Read the index of a user in the background, one user at a time, for later questions.

        Call it after the statement has answered: it would wait for the reading otherwise.
        """
        if not self._can_answer(request):
            return
        key = scope_path(request.scope), request.model
        with self._lock:
            is_refused = self._refused.get(key, 0.0) > time.monotonic()
            is_known = key in self._entries or key in self._wanted
            if self._is_closed or is_refused or is_known or exiting():
                return
            self._wanted[key] = None
            if self._is_reading:
                return
            self._is_reading = True
        start_on_own_loop(self._start_reading)

    def _start_reading(self) -> None:
        self._reader = asyncio.get_running_loop().create_task(self._read_wanted())

    async def _read_wanted(self) -> None:
        await asyncio.sleep(_AFTER_S)
        while True:
            with self._lock:
                if not self._wanted:
                    self._is_reading = False
                    return
                key = next(iter(self._wanted))
            try:
                await self._load(key)
            except Exception as error:  # noqa: BLE001 # others wait; the statement answers this one
                if not self._is_closed:
                    log.warning("an index of recall was not read: %s", message(error))
                self._refuse(key)
            except BaseException:
                self._is_reading = False
                raise
            finally:
                with self._lock:
                    self._wanted.pop(key, None)

    async def _load(self, key: _Key) -> None:
        tenant, model = key
        [[sizes]] = await self._database.run(tenant, step("resident_size", _values(tenant, model)))
        memories, text_bytes, vectors, dimensions = sizes
        size = memories * _BYTES_A_MEMORY + text_bytes + vectors * 4 * (dimensions or 0)
        read = await self._read(key, None) if size <= self._most_bytes else None
        if read is None and size <= self._most_bytes:
            return  # nothing was ever written for the user
        index = UserIndex()
        if read is not None:
            index.apply(read, None)
        if read is None or index.nbytes > self._most_bytes:
            self._refuse(key)
            return
        with self._lock:
            if self._is_closed:
                return
            self._entries[key] = _KeptIndex(index, index.nbytes, time.monotonic())
        self._weigh(key, index)
        self._plan_to_sweep()

    def _refuse(self, key: _Key) -> None:
        with self._lock:
            now = time.monotonic()
            self._refused = {one: at for one, at in self._refused.items() if at > now}
            self._refused[key] = now + _REFUSED_S

    def _weigh(self, key: _Key, index: UserIndex) -> None:
        """Note the size of an index, and drop those used least recently if there is no room."""
        dropped = []
        with self._lock:
            if (entry := self._entries.get(key)) is not None and entry.index is index:
                entry.nbytes = index.nbytes
            total = sum(one.nbytes for one in self._entries.values())
            while total > self._most_bytes and self._entries:
                _, oldest = self._entries.popitem(last=False)
                total -= oldest.nbytes
                dropped.append(oldest)
        for one in dropped:
            one.index.wipe()

    def _plan_to_sweep(self) -> None:
        with self._lock:
            if self._will_sweep or not self._entries or exiting():
                return
            self._will_sweep = True
        start_on_own_loop(self._sweep_later)

    def _sweep_later(self) -> None:
        asyncio.get_running_loop().call_later(_SWEPT_EVERY_S, self._sweep)

    def _sweep(self) -> None:
        self.drop_idle(time.monotonic() - IDLE_S)
        with self._lock:
            self._will_sweep = False
        self._plan_to_sweep()

    def drop_idle(self, since: float) -> None:
        """Drop the indexes that answered nothing since a moment of time.monotonic()."""
        with self._lock:
            idle = [(key, one) for key, one in self._entries.items() if one.used_at <= since]
            for key, _ in idle:
                del self._entries[key]
        for _, entry in idle:
            entry.index.wipe()


def read_steps(tenant: str, model: str | None, now: datetime, since: UUID | None) -> list[Step]:
    """Return the steps that read what changed since a write, or everything, for packed()."""
    values = _values(tenant, model) | {"now": now, "seen": since}
    filter_sql = "true" if since is None else _changed_sql()
    return [step(name, values, filter_sql=filter_sql) for name in _READ]


def _values(tenant: str, model: str | None) -> dict[str, object]:
    """Return the values of statements that read all memories of a user."""
    path = {"path": MEMORIES_PATH, "path_end": path_end(MEMORIES_PATH)}
    return {"tenant": tenant, "model": model, **path}


def packed(answers: Sequence[Rows], since: UUID | None) -> PackedMemories | None:
    """Return what read_steps() read, or None if it is not known what changed."""
    noted, groups, vectors, facts, fact_turns, turns, names = answers
    changed = _changes(noted, since)
    if not noted or (changed is None and since is not None):
        return None
    facts_differ = changed is None or FACTS in changed
    [(last, *_)] = noted
    return PackedMemories(
        seen=last,
        changed=None if changed is None else [one for one in changed if one != FACTS],
        groups=groups,
        vectors=vectors[0],
        facts=facts if facts_differ else None,
        ends=_ends(fact_turns, turns) if facts_differ else None,
        names=(names[0][0] or "").split(UNIT) if facts_differ else None,
    )


def _ends(fact_turns: Rows, turns: Rows) -> list[tuple[UUID, list[datetime]]]:
    """Return the ends of the facts that were drawn from the turns of each memory."""
    facts_of: dict[tuple[str, str], dict[UUID, datetime]] = {}
    for thread_id, event_id, fact_id, end in fact_turns:
        facts_of.setdefault((thread_id, event_id), {})[fact_id] = end
    drawn: dict[UUID, dict[UUID, datetime]] = {}
    for memory_id, thread_id, event_id in turns:
        drawn.setdefault(memory_id, {}).update(facts_of.get((thread_id, event_id), {}))
    return [(memory_id, [*ends.values()]) for memory_id, ends in drawn.items() if ends]


class _Answer:
    """The answer of an index to one question: reads the hits, and learns whether it still holds.

    is_fresh: the index read changes after the question was asked. Later changes then matter only if
    they are of hits. drop: drops the index, because rows went without a note
    (docs/explanation/privacy.md).
    """

    def __init__(
        self,
        database: PostgresDatabase,
        tenant: str,
        index: UserIndex,
        is_fresh: bool,
        drop: Callable[[], None],
    ) -> None:
        self.edges: list[Edge] = []
        self._drop = drop
        self._database = database
        self._tenant = tenant
        self._index = index
        self.seen = UUID(int=0)
        self._is_fresh = is_fresh
        self.edge_steps: Sequence[Step] = ()
        self._memories: dict[UUID, Memory] = {}

    def memory(self, memory_id: UUID) -> Memory:
        """Return a memory that fetch() has read."""
        return self._memories[memory_id]

    async def fetch(self, wanted: Sequence[MemoryId]) -> None:
        """Read memories. Raises AnswerOutdated if the index did not know a change."""
        ids = [one for one in wanted if one not in self._memories]
        tenant = {"tenant": self._tenant}
        sent = [
            step("recall_hits", tenant | {"memory_ids": ids}),
            # After the hits: what has not changed by now had not changed when they were read.
            step("changes_since", tenant | {"seen": self.seen}),
            *self.edge_steps,
        ]
        answers = await self._database.run(self._tenant, *sent)
        rows, noted = answers[:2]
        changed = _changes(noted, self.seen)
        if changed is None or changed:
            self._index.is_behind = True
            if changed is None or not self._is_fresh or not set(ids).isdisjoint(changed):
                raise AnswerOutdated
        self._memories |= {row[0]: memory_from_row(row) for row in rows}
        if self.edge_steps:
            self.edges += [found_edge(row).edge for row in answers.named("edges_about")]
            self.edge_steps = ()
        if not all(one in self._memories for one in ids):
            self._drop()
            raise AnswerOutdated


def _changes(noted: Rows, since: UUID | None) -> list[UUID] | None:
    """Return what was written since a change, or None if the list does not tell; noted: its row."""
    if since is None or not noted:
        return None
    [(last, write_ids, memory_ids)] = noted
    if last == since:
        return []
    if since not in write_ids:
        return None
    newer = memory_ids[: write_ids.index(since)]
    return None if ANY in newer else newer


@cache
def _changed_sql() -> str:
    return f"m.memory_id = ANY(ARRAY({named_pieces()[1]['changed_ids']}))"


_all: WeakSet[ResidentIndexes] = WeakSet()


def _forget_parents() -> None:
    """Drop the indexes of a forked child: its parent goes on with them."""
    for one in _all:
        one.open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)
