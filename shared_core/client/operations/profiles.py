"""The operations of the area "profiles".

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from shared_core import wire
from shared_core.client.calls import given, segment
from shared_core.client.operations.base import OperationsBase
from shared_core.client.operations.parameters import MessageParam


class ProfilesOperations(OperationsBase):
    """The operations of the area "profiles"."""

    async def update_profile(
        self,
        *,
        user_id: str,
        messages: Sequence[MessageParam],
        app: str | None = None,
        agent_id: str | None = None,
        subject: Literal["user", "agent"] = "user",
        conversation_id: str | None = None,
    ) -> wire.ProfileUpdated:
        """Store a conversation and update the profile from it, in one transaction.

        Args:
            user_id: The user of the application.
            messages: The messages, oldest first.
            app: The application. Default: that of the client, else that of the token.
            agent_id: The agent that keeps the profile. Default: the application.
            subject: Who the profile is about: the user, or the agent itself.
            conversation_id: Your id of the conversation. Default: a new one.

        Returns:
            The profile after a conversation, and the counts of each stage.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ProfileUpdated,
            "POST",
            "/profile-update",
            body={
                "user_id": user_id,
                "messages": messages,
                **given(
                    app=self._app if app is None else app,
                    agent_id=agent_id,
                    subject=subject,
                    conversation_id=conversation_id,
                ),
            },
        )

    async def roll_back_profile(
        self,
        *,
        user_id: str,
        version: int,
        app: str | None = None,
        agent_id: str | None = None,
        subject: Literal["user", "agent"] = "user",
    ) -> wire.ProfileAnswer:
        """Store an earlier version as a new one. Forgotten memories stay forgotten.

        Args:
            user_id: The user of the application.
            version: The version to store again.
            app: The application. Default: that of the client, else that of the token.
            agent_id: The agent that keeps the profile. Default: the application.
            subject: Who the profile is about: the user, or the agent itself.

        Returns:
            A profile: who a person is, what happened, what may be concluded, and relations.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ProfileAnswer,
            "POST",
            "/profile-rollback",
            body={
                "user_id": user_id,
                "version": version,
                **given(app=self._app if app is None else app, agent_id=agent_id, subject=subject),
            },
        )

    async def show_profile(
        self,
        *,
        user_id: str,
        app: str | None = None,
        agent_id: str | None = None,
        subject: Literal["user", "agent"] = "user",
        version: int | None = None,
        language: Literal["en", "zh"] | None = None,
    ) -> wire.ProfileAnswer:
        """Show the profile that an agent keeps of a user, or the profile of the agent itself.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            agent_id: The agent that keeps the profile. Default: the application.
            subject: Who the profile is about: the user, or the agent itself.
            version: Default: the newest.
            language: Language of the headings. Default: the language of the texts.

        Returns:
            A profile: who a person is, what happened, what may be concluded, and relations.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ProfileAnswer,
            "GET",
            f"/profile/{segment(user_id, 'user_id')}",
            query=given(
                app=self._app if app is None else app,
                agent_id=agent_id,
                subject=subject,
                version=version,
                language=language,
            ),
        )

    async def list_profile_versions(
        self,
        *,
        user_id: str,
        app: str | None = None,
        agent_id: str | None = None,
        subject: Literal["user", "agent"] = "user",
        limit: int = 100,
    ) -> wire.ProfileVersions:
        """List the stored versions of a profile, newest first.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            agent_id: The agent that keeps the profile. Default: the application.
            subject: Who the profile is about: the user, or the agent itself.
            limit: Maximum number of results.

        Returns:
            The stored versions, newest first.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ProfileVersions,
            "GET",
            f"/profile-versions/{segment(user_id, 'user_id')}",
            query=given(
                app=self._app if app is None else app,
                agent_id=agent_id,
                subject=subject,
                limit=limit,
            ),
        )

    async def compare_profile_versions(
        self,
        *,
        user_id: str,
        from_version: int,
        to_version: int,
        app: str | None = None,
        agent_id: str | None = None,
        subject: Literal["user", "agent"] = "user",
    ) -> wire.ProfileDiffAnswer:
        """Show the changes from one version of a profile to another, in either direction.

        Args:
            user_id: The user of the application.
            from_version: The first version.
            to_version: The second version.
            app: The application. Default: that of the client, else that of the token.
            agent_id: The agent that keeps the profile. Default: the application.
            subject: Who the profile is about: the user, or the agent itself.

        Returns:
            The changes from one version to another.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ProfileDiffAnswer,
            "GET",
            f"/profile-diff/{segment(user_id, 'user_id')}",
            query={
                "from_version": from_version,
                "to_version": to_version,
                **given(app=self._app if app is None else app, agent_id=agent_id, subject=subject),
            },
        )
