"""Helpers for tests of conversations: a clock that the test moves, and queries of the tables."""

from datetime import UTC, datetime
from typing import Any

from postgres_admin import column, rows as rows_of
from turns import Clock

from shared_core import ConversationSettings, MemoryEngine, Scope, open_memory

ANN = "ann"
SCOPE = Scope("default", ANN)
MORNING = datetime(2026, 1, 22, 10, tzinfo=UTC)


class Watch(Clock):
    """A clock that moves only when a test advances it."""

    def __init__(self, now: datetime = MORNING) -> None:
        super().__init__(now)

    advance = Clock.forward


def opened(dsn: str, watch: Watch | None = None, **settings: Any) -> MemoryEngine:
    conversation = ConversationSettings(**settings) if settings else None
    return open_memory(dsn, clock=watch, worker=watch is None, conversation=conversation)


def rows(dsn: str, columns: str = "status, event_count") -> list[tuple[Any, ...]]:
    """Return columns of all conversations, in the order of their opening."""
    return rows_of(dsn, f"SELECT {columns} FROM hippocampus.conversations ORDER BY thread_id")


def jobs(dsn: str) -> list[str]:
    return column(dsn, "SELECT status FROM hippocampus.consolidation_jobs")


async def statements(memory: MemoryEngine, scope: Scope = SCOPE) -> list[str]:
    found = await memory.list_memories(scope)
    return [one.text for one in found if dict(one.value["metadata"]).get("statement")]  # type: ignore[call-overload, arg-type]


async def info(memory: MemoryEngine) -> dict[str, Any]:
    status: Any = await memory.get_session_status(ANN)
    assert status["status"] == "success"
    assert status["has_active_session"] is (status["session_info"] is not None)
    return status["session_info"] or {}
