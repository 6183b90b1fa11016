"""The operations of the area "jobs".

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from shared_core import wire
from shared_core.client.calls import given, segment
from shared_core.client.operations.base import OperationsBase


class JobsOperations(OperationsBase):
    """The operations of the area "jobs"."""

    async def list_jobs(
        self,
        *,
        user_id: str | None = None,
        app: str | None = None,
        thread_id: str | None = None,
        status: Literal["pending", "running", "completed", "failed", "cancelled"] | None = None,
        limit: int = 100,
    ) -> wire.Jobs:
        """List the jobs that run, wait or are dead; with thread_id or status, all matching jobs.

        Args:
            user_id: Only jobs of this user.
            app: The application. Default: that of the client, else that of the token.
            thread_id: Only this thread.
            status: Only jobs in this state.
            limit: Maximum number of results.

        Returns:
            Jobs, newest first.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Jobs,
            "GET",
            "/jobs",
            query=given(
                user_id=user_id,
                app=self._app if app is None else app,
                thread_id=thread_id,
                status=status,
                limit=limit,
            ),
        )

    async def request_job(
        self,
        *,
        user_id: str,
        job_type: Literal["fast_replay", "deep_reflection", "full_consolidation", "reflection"],
        app: str | None = None,
        thread_id: str | None = None,
    ) -> wire.Accepted:
        """Queue a job on a thread, or a reflection on a user, ahead of the waiting jobs.

        Args:
            user_id: The user of the application.
            job_type: fast_replay summarises a thread, deep_reflection extracts its facts,
                full_consolidation does both; reflection needs no thread.
            app: The application. Default: that of the client, else that of the token.
            thread_id: The thread.

        Returns:
            The job is in the queue.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Accepted,
            "POST",
            "/jobs",
            body={
                "user_id": user_id,
                "job_type": job_type,
                **given(app=self._app if app is None else app, thread_id=thread_id),
            },
        )

    async def show_job(self, *, job_id: UUID | str, app: str | None = None) -> wire.JobAnswer:
        """Show one job, whatever its state.

        Args:
            job_id: The id of the job.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            A job of the queue.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.JobAnswer,
            "GET",
            f"/jobs/{segment(job_id, 'job_id')}",
            query=given(app=self._app if app is None else app),
        )

    async def retry_job(self, *, job_id: UUID | str, app: str | None = None) -> wire.Changed:
        """Put a dead job back into the queue.

        Args:
            job_id: The id of the job.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            The number of jobs changed: 0 if the job is in another state.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Changed,
            "POST",
            f"/jobs/{segment(job_id, 'job_id')}/retry",
            query=given(app=self._app if app is None else app),
        )

    async def cancel_job(self, *, job_id: UUID | str, app: str | None = None) -> wire.Changed:
        """Cancel a job that waits or runs. What it has stored so far stays.

        Args:
            job_id: The id of the job.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            The number of jobs changed: 0 if the job is in another state.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Changed,
            "POST",
            f"/jobs/{segment(job_id, 'job_id')}/cancel",
            query=given(app=self._app if app is None else app),
        )
