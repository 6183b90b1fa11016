"""Runs on PostgreSQL: what a run reads of a thread, and known texts like its drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from shared_core.core.domain import KnownPerson, MemoryId, MemoryKind, Scope, ThreadId
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path, summary_key
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.runs import LikeText, ReadRequest, ThreadWindow
from shared_core.ports.storage import Clock
from shared_core.storage._rows import event_from_row
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import Step, step, steps
from shared_core.storage.postgres.items import below


@dataclass
class PostgresRuns:
    """Reads threads and known texts for runs."""

    _database: PostgresDatabase
    _clock: Clock

    async def read_thread(
        self, scope: Scope, thread_id: ThreadId, request: ReadRequest
    ) -> ThreadWindow | None:
        values = self._thread(scope, thread_id) | {
            "turns": request.turns,
            "context": request.context,
            "replay": request.replay + request.reread if request.replay else 0,
            "reread": request.reread,
            "people": request.people,
        }
        names = ["read_marks", "unread_turns", "turns_before", "turns_to_sum_up", "last_run"]
        names += ["known_people"] if request.people else []
        answers = await self._database.run(scope_path(scope), *steps(values, *names))
        marks, [(number,)] = answers.named("read_marks"), answers.named("last_run")
        people = answers.named("known_people") if request.people else []
        if not marks:
            return None
        read_mark, replay_mark, summed, summary, summary_run = marks[0]
        return ThreadWindow(
            read_mark=read_mark,
            turns=[(row[0], event_from_row(row[1:])) for row in answers.named("unread_turns")],
            context=[event_from_row(row[1:]) for row in reversed(answers.named("turns_before"))],
            replay_mark=replay_mark,
            summed=summed,
            replay=[(row[0], event_from_row(row[1:])) for row in answers.named("turns_to_sum_up")],
            summary=summary or "",
            summary_run=summary_run,
            people=[_known_person(row) for row in people],
            known_number=number,
        )

    async def like_texts(
        self,
        scope: Scope,
        kinds: Sequence[MemoryKind],
        words_keys: Mapping[ItemAddress, UUID],
        vectors: VectorRows | None,
    ) -> Mapping[ItemAddress, Sequence[LikeText]]:
        common = below(memories_namespace(scope)) | {
            "tenant": scope_path(scope),
            "kinds": list(kinds),
            "now": self._clock(),
        }
        searches: list[tuple[list[ItemAddress], Step]] = [
            (
                list(words_keys),
                step("said_texts", common | {"words_keys": list(words_keys.values())}),
            )
        ]
        if vectors is not None:
            near = {
                "model": vectors.model,
                "embeddings": [HalfVector(vector) for vector in vectors.vectors],
            }
            searches.append((list(vectors.addresses), step("like_texts", common | near)))
        answers = await self._database.run(scope_path(scope), *[search for _, search in searches])
        found: dict[ItemAddress, list[LikeText]] = {}
        for (addresses, _), rows in zip(searches, answers, strict=True):
            for place, memory_id, text, similarity in rows:
                like = LikeText(
                    memory_id=MemoryId(memory_id), text=text, similarity=float(similarity)
                )
                found.setdefault(addresses[place - 1], []).append(like)
        return found

    def _thread(self, scope: Scope, thread_id: ThreadId) -> dict[str, object]:
        return {
            "tenant": scope_path(scope),
            "thread_id": thread_id,
            "namespace": rest_of(memories_namespace(scope)),
            "summary_key": summary_key(thread_id),
            "now": self._clock(),
        }


def _known_person(row: Sequence[Any]) -> KnownPerson:
    memory_id, relation, name, statement, thread_ids, event_ids, told_at, expires_at, names = row
    return KnownPerson(
        memory_id=MemoryId(memory_id),
        relation=relation,
        name=name,
        statement=statement,
        turns=tuple(zip(map(ThreadId, thread_ids), event_ids, strict=True)),
        told_at=told_at,
        expires_at=expires_at,
        aliases=tuple(one for one in names or () if one != name),
    )
