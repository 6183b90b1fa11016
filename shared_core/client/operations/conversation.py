"""The operations of the area "conversation".

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from shared_core import wire
from shared_core.client.calls import given, segment
from shared_core.client.operations.base import OperationsBase


class ConversationOperations(OperationsBase):
    """The operations of the area "conversation"."""

    async def process(
        self, *, input: str, user_id: str, app: str | None = None, event_id: str | None = None
    ) -> wire.ProcessAnswer:
        """Store a message of a user and return related memories from earlier messages.

        Args:
            input: What the user says.
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            event_id: Your id of the message. A message sent twice with it is stored once.

        Returns:
            The memories and relations relevant to an input, best first.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ProcessAnswer,
            "POST",
            "/process",
            body={
                "input": input,
                "user_id": user_id,
                **given(app=self._app if app is None else app, event_id=event_id),
            },
        )

    async def debug(
        self, *, input: str, user_id: str, app: str | None = None, event_id: str | None = None
    ) -> wire.DebugAnswer:
        """Show what /process would answer and why, and the session, without storing the message.

        Args:
            input: What the user says.
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            event_id: Your id of the message. A message sent twice with it is stored once.

        Returns:
            What a message would find, with the parts of each score, and the session.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.DebugAnswer,
            "POST",
            "/debug",
            body={
                "input": input,
                "user_id": user_id,
                **given(app=self._app if app is None else app, event_id=event_id),
            },
        )

    async def end_session(self, *, user_id: str, app: str | None = None) -> wire.EndedSessionAnswer:
        """End the session of a user. It is consolidated after the answer.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            The conversation that ended, or null if none was active. A job consolidates it
                afterwards.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.EndedSessionAnswer,
            "POST",
            "/end-session",
            body={"user_id": user_id, **given(app=self._app if app is None else app)},
        )

    async def show_session_status(
        self, *, user_id: str, app: str | None = None
    ) -> wire.SessionStatusAnswer:
        """Show whether a user has an active session, its age and its length.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            Whether a user has an active conversation, and its state.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.SessionStatusAnswer,
            "GET",
            f"/session-status/{segment(user_id, 'user_id')}",
            query=given(app=self._app if app is None else app),
        )
