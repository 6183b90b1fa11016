"""What the routes of the conversation layer answer, for OpenAPI, with examples."""

from __future__ import annotations

from typing import Any, Final

from shared_core.conversation.answers import (
    Debugging,
    EndedSession,
    ProcessedInput,
    StatusOfSession,
)
from shared_core.http.answers import HitAnswer

__all__ = [
    "ENDED", "PROCESSED", "STATUS", "DebugAnswer", "EndedSession", "ProcessedInput",
    "StatusOfSession",
]  # fmt: skip


class DebugAnswer(Debugging):
    """What an input would find, with every part of each score, and the session."""

    hits: list[HitAnswer]


PROCESSED: Final[dict[str, Any]] = {
    "status": "success",
    "resolved_query": "你喜欢吃桔子吗？",
    "memories": [{"content": "我喜欢吃桔子", "score": 0.87}],
    "relations": [{"source": "小朱", "relation": "喜欢", "target": "桔子"}],
    "metadata": {"retrieval_time_ms": 45, "has_memory": True},
}
ENDED: Final[dict[str, Any]] = {
    "status": "success",
    "message": "Session ending, consolidation started",
    "session_info": {
        "event_count": 10,
        "duration_seconds": 1500,
        "created_at": "2026-01-22T10:00:00Z",
        "ended_at": "2026-01-22T10:25:00Z",
    },
}
STATUS: Final[dict[str, Any]] = {
    "status": "success",
    "has_active_session": True,
    "session_info": {
        "event_count": 5,
        "created_at": "2026-01-22T10:00:00Z",
        "last_active_at": "2026-01-22T10:25:00Z",
        "time_until_timeout_seconds": 300,
    },
}
