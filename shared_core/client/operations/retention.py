"""The operations of the area "retention".

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from shared_core import wire
from shared_core.client.calls import given, segment
from shared_core.client.operations.base import OperationsBase
from shared_core.client.operations.parameters import PolicyParam
from shared_core.core.domain import MemoryKind


class RetentionOperations(OperationsBase):
    """The operations of the area "retention"."""

    async def show_retention_stats(
        self, *, user_id: str | None = None, app: str | None = None
    ) -> wire.RetentionStatsAnswer:
        """Show how the memories of a user or an application score, and how many fade soon.

        It reads each of these memories once.

        Args:
            user_id: Default: all users of the application.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            Retention statistics of all kinds and of each kind.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.RetentionStatsAnswer,
            "GET",
            "/retention-stats",
            query=given(user_id=user_id, app=self._app if app is None else app),
        )

    async def show_retention_policy(
        self, *, user_id: str | None = None, app: str | None = None
    ) -> wire.RetentionPolicies:
        """Show the policy of each kind of memory that holds for a user or an application.

        Args:
            user_id: Default: all users of the application.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            The policy of each kind of memory; null for a kind that never fades.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.RetentionPolicies,
            "GET",
            "/retention-policy",
            query=given(user_id=user_id, app=self._app if app is None else app),
        )

    async def set_retention_policy(
        self,
        *,
        policy: Literal["default", "high-interaction", "low-interaction", "sensitive", "knowledge"]
        | PolicyParam
        | None,
        user_id: str | None = None,
        app: str | None = None,
        never: Sequence[MemoryKind] | None = None,
    ) -> wire.RetentionPolicySet:
        """Set how the memories of a user or an application fade. It replaces the policy set there.

        Args:
            policy: A name or an object; null for the policy of the application, or of all.
            user_id: Default: all users of the application.
            app: The application. Default: that of the client, else that of the token.
            never: Kinds that never fade.

        Returns:
            The policy that holds now. retimed: number of memories with a new time to fade.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.RetentionPolicySet,
            "POST",
            "/retention-policy",
            body={
                "policy": policy,
                **given(user_id=user_id, app=self._app if app is None else app, never=never),
            },
        )

    async def list_faded(
        self,
        *,
        user_id: str,
        app: str | None = None,
        kind: MemoryKind | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> wire.FadedMemories:
        """List the memories that have faded out of recall, latest first.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            kind: Only this kind.
            limit: Maximum number of results.
            offset: Number of results to pass over.

        Returns:
            A page of faded memories, latest first.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.FadedMemories,
            "GET",
            f"/faded/{segment(user_id, 'user_id')}",
            query=given(
                app=self._app if app is None else app, kind=kind, limit=limit, offset=offset
            ),
        )

    async def revive(
        self, *, user_id: str, keys: Sequence[str], app: str | None = None
    ) -> wire.ChangedMemories:
        """Bring faded memories back into recall, as if they were read now.

        Args:
            user_id: The user of the application.
            keys: The keys or the ids of memories.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            The number of memories changed, and the keys that match no memory.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ChangedMemories,
            "POST",
            "/revive",
            body={"user_id": user_id, "keys": keys, **given(app=self._app if app is None else app)},
        )

    async def pin(
        self, *, user_id: str, keys: Sequence[str], app: str | None = None
    ) -> wire.ChangedMemories:
        """Protect memories from fading. Faded ones come back into recall.

        Args:
            user_id: The user of the application.
            keys: The keys or the ids of memories.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            The number of memories changed, and the keys that match no memory.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ChangedMemories,
            "POST",
            "/pin",
            body={"user_id": user_id, "keys": keys, **given(app=self._app if app is None else app)},
        )

    async def unpin(
        self, *, user_id: str, keys: Sequence[str], app: str | None = None
    ) -> wire.ChangedMemories:
        """Let pinned memories fade again by their policy.

        Args:
            user_id: The user of the application.
            keys: The keys or the ids of memories.
            app: The application. Default: that of the client, else that of the token.

        Returns:
            The number of memories changed, and the keys that match no memory.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ChangedMemories,
            "POST",
            "/unpin",
            body={"user_id": user_id, "keys": keys, **given(app=self._app if app is None else app)},
        )
