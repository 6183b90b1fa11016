"""The operations of the area "facts".

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from shared_core import wire
from shared_core.client.calls import given, segment
from shared_core.client.operations.base import OperationsBase


class FactsOperations(OperationsBase):
    """The operations of the area "facts"."""

    async def list_facts(
        self,
        *,
        user_id: str,
        app: str | None = None,
        slot: str | None = None,
        history: bool = False,
        why: bool = False,
    ) -> wire.ListedFacts:
        """List the facts about a user, current ones first, and say why each is held.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            slot: Only this slot.
            history: Include facts that ended.
            why: Say which turns state, doubt or ended each.

        Returns:
            The facts of a user, current ones first.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ListedFacts,
            "GET",
            f"/facts/{segment(user_id, 'user_id')}",
            query=given(app=self._app if app is None else app, slot=slot, history=history, why=why),
        )

    async def state_fact(
        self,
        *,
        user_id: str,
        slot: str,
        value: str,
        app: str | None = None,
        subject: str | None = None,
        valid_from: datetime | str | None = None,
    ) -> wire.FactAnswer:
        """Store a fact as if the user had stated it.

        It ends another value of a slot that has one value.

        Args:
            user_id: The user of the application.
            slot: What the fact is about, e.g. employer.
            value: Its value, e.g. Acme.
            app: The application. Default: that of the client, else that of the token.
            subject: Who the fact is about. Default: the user.
            valid_from: Since when it holds. Default: now.

        Returns:
            A fact. is_doubtful: a turn may have ended it. why: only if asked for.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.FactAnswer,
            "POST",
            "/state",
            body={
                "user_id": user_id,
                "slot": slot,
                "value": value,
                **given(
                    app=self._app if app is None else app, subject=subject, valid_from=valid_from
                ),
            },
        )

    async def retract_fact(
        self, *, user_id: str, key: str, app: str | None = None, at: datetime | str | None = None
    ) -> wire.FactAnswer:
        """End a fact as of a moment. It stays as history.

        Args:
            user_id: The user of the application.
            key: The key of the fact.
            app: The application. Default: that of the client, else that of the token.
            at: When it ended. Default: now.

        Returns:
            A fact. is_doubtful: a turn may have ended it. why: only if asked for.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.FactAnswer,
            "POST",
            "/retract",
            body={
                "user_id": user_id,
                "key": key,
                **given(app=self._app if app is None else app, at=at),
            },
        )

    async def restore_fact(
        self, *, user_id: str, key: str, app: str | None = None
    ) -> wire.FactAnswer:
        """Let a fact that ended hold again, with what ended with it.

        Args:
            user_id: The user of the application.
            key: The key of the fact.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            A fact. is_doubtful: a turn may have ended it. why: only if asked for.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.FactAnswer,
            "POST",
            "/restore",
            body={"user_id": user_id, "key": key, **given(app=self._app if app is None else app)},
        )

    async def list_runs(
        self, *, user_id: str, app: str | None = None, thread_id: str | None = None, limit: int = 50
    ) -> wire.ListedRuns:
        """List the runs of consolidation, reflection and callers, newest first.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            thread_id: Only this thread.
            limit: Maximum number of results.

        Returns:
            Runs, newest first.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ListedRuns,
            "GET",
            f"/runs/{segment(user_id, 'user_id')}",
            query=given(app=self._app if app is None else app, thread_id=thread_id, limit=limit),
        )

    async def undo_run(
        self, *, user_id: str, run_id: UUID | str, app: str | None = None
    ) -> wire.Undone:
        """Undo a run: what it wrote goes, what it ended holds again, its turns are unread again.

        Args:
            user_id: The user of the application.
            run_id: The id of the run.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            The run is undone.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Undone,
            "POST",
            "/undo-run",
            body={
                "user_id": user_id,
                "run_id": run_id,
                **given(app=self._app if app is None else app),
            },
        )
