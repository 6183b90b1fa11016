"""The answers about the queue."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel

from shared_core.wire.examples import with_example


class JobAnswer(BaseModel):
    """A job of the queue.

    performer: the name of the code of a callback. run_after: when it is due. error: of its last
    attempt.
    """

    job_id: str
    user_id: str
    thread_id: str | None
    job_type: Literal[
        "fast_replay",
        "deep_reflection",
        "full_consolidation",
        "reflection",
        "item_vectors",
        "callback",
    ]
    status: Literal["pending", "running", "completed", "failed", "cancelled"]
    performer: str | None
    attempts: int
    created_at: AwareDatetime
    run_after: AwareDatetime
    completed_at: AwareDatetime | None
    error: str | None


class Jobs(BaseModel):
    """Jobs, newest first."""

    jobs: list[JobAnswer]


class Changed(BaseModel):
    """The number of jobs changed: 0 if the job is in another state."""

    model_config = with_example(changed=1)

    changed: int


class Accepted(BaseModel):
    """The job is in the queue."""

    model_config = with_example(status="accepted")

    status: Literal["accepted"]
