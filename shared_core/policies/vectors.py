"""Which memories wait for a vector."""

from __future__ import annotations

from datetime import datetime

from shared_core.core.namespaces import MEMORIES, to_path
from shared_core.ports.operations import (
    Join,
    Policy,
    Select,
    begins_with,
    compare,
    equal,
    is_null,
    one_of,
    open_after,
)


def turns_without_vectors(
    thread_id: str, model: str, limit: int, now: datetime
) -> Policy[list[tuple[str, str]]]:
    """Return key and text of turns of a thread without a vector of a model, oldest first."""
    living = (
        equal("m.kind", "episodic"),
        compare("m.term_count", ">", 0),
        begins_with("m.namespace", to_path((MEMORIES,))),
        is_null("m.superseded_at"),
        is_null("m.demoted_at"),
        open_after("m.expires_at", now),
    )
    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    where = (equal("thread_id", thread_id), *living)
    [turns] = yield [Select("memory_sources", ("memory_id",), where, (memories,), is_distinct=True)]
    ids = [row[0] for row in turns]
    of_model = (one_of("memory_id", ids), equal("model", model))
    [embedded] = yield [Select("embeddings", ("memory_id",), of_model, is_distinct=True)]
    waiting = sorted(set(ids) - {row[0] for row in embedded})[:limit]
    if not waiting:
        return []
    of_waiting = (one_of("memory_id", waiting),)
    [rows] = yield [Select("memories", ("memory_id", "key", "text"), of_waiting)]
    return [(key, text) for _, key, text in sorted(rows)]
