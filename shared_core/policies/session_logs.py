"""Session logs: threads with the events of a framework, and the state they leave."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared_core.core.domain import ThreadId
from shared_core.policies.jobs import JOBS
from shared_core.ports.operations import (
    Delete,
    Last,
    Operation,
    Policy,
    Select,
    Update,
    equal,
    is_not_null,
    is_null,
)

USER_STATE = Select("shared_state", ("state",))
"""Reads the state that all sessions of a user share; no row if there is none."""


def close_session(
    thread_id: ThreadId, now: datetime, forgetting: Sequence[Operation] | None = None
) -> Policy[None]:
    """Delete the log of a thread, except for the turns that are remembered.

    forgetting: what forgets these first; None keeps them. A thread without turns goes as well.
    """
    named = (equal("thread_id", thread_id),)
    log = ("version", "session_started_at")
    threads, kept, logged = yield [
        Select("threads", log, named, lock="update"),
        Select("events", ("seq",), (*named, is_not_null("memory_seq")), limit=1),
        Select("events", ("seq",), (*named, is_null("memory_seq")), limit=1),
    ]
    if not threads:
        return
    [(version, started_at)] = threads
    writes = list(forgetting or ())
    is_empty = forgetting is None and not kept and not logged
    if started_at is not None:
        is_empty = forgetting is not None or not kept
        writes += [
            Update(
                "threads",
                {
                    "session_started_at": None, "session_updated_at": None, "last_event_id": None,
                    "state": {}, "version": version + 1, "updated_at": now,
                },
                named,
            ),
            Delete("events", (*named, is_null("memory_seq"))),
            Update("events", {"payload": None}, (*named, is_not_null("memory_seq"))),
        ]  # fmt: skip
    if is_empty:
        writes += [Delete(JOBS, named), Delete("threads", named)]
    yield Last(writes)
