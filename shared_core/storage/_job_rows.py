"""Reads rows of the queue for both engines; one unreadable row must not hide the others."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from shared_core.core.domain import JsonValue, ThreadId
from shared_core.ports.jobs import Job, JobRecord, JobStatus, JobType, UnreadableJob
from shared_core.storage._rows import record, scope_of

log = logging.getLogger("hippocampus")


def job_of(row: Sequence[Any]) -> Job:
    """Return the claimed job in the columns tenant, id, thread, type, performer, attempts, payload.

    Raises ValueError for a row that this library does not write.
    """
    tenant, job_id, thread_id, job_type, performer, attempts, payload = row
    return Job(
        job_id=job_id,
        scope=scope_of(tenant),
        thread_id=None if thread_id is None else ThreadId(thread_id),
        job_type=JobType(job_type),
        attempts=attempts,
        payload=None if payload is None else _json_object(payload, "payload"),
        performer=performer,
    )


def job_records_of(rows: Iterable[Sequence[Any]]) -> list[JobRecord]:
    """Return the jobs in the columns tenant, type, status and the further fields of JobRecord.

    It leaves out rows that this library does not write, and logs a warning for each.
    """
    found = []
    for tenant, job_type, status, *values in rows:
        try:
            *others, result, performer = values
            job = record(
                JobRecord,
                others,
                scope=scope_of(tenant),
                job_type=JobType(job_type),
                status=JobStatus(status),
                result=_json_object(result, "result"),
                performer=performer,
            )
            found.append(job)
        except ValueError as error:
            log.warning("job %s of tenant %r is not listed: %s", values[0], tenant, error)
    return found


def reason_of(error: ValueError) -> str:
    """Return the reason that is stored with an unreadable job."""
    return f"its row cannot be read, so correct or delete it: {error}"


def unreadable(tenant: str, job_id: UUID, error: ValueError) -> UnreadableJob:
    """Return the error for a claimed job that was unreadable, and is dead now."""
    return UnreadableJob(f"job {job_id} of tenant {tenant!r} is dead: {reason_of(error)}")


def _json_object(text: str, what: str) -> dict[str, JsonValue]:
    """Return the JSON object of a text."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"{what} is nested too deep") from error
    if not isinstance(found, dict):
        raise ValueError(f"{what} must be a JSON object, got {type(found).__name__}")
    return found
