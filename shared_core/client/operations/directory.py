"""The operations of the area "directory".

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from shared_core import wire
from shared_core.client.calls import given
from shared_core.client.operations.base import OperationsBase


class DirectoryOperations(OperationsBase):
    """The operations of the area "directory"."""

    async def list_applications(self) -> wire.Applications:
        """List the applications with data, sorted; with a token, its application alone.

        Returns:
            The names of applications.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(wire.Applications, "GET", "/applications")

    async def list_users(
        self,
        *,
        app: str | None = None,
        contains: str = "",
        limit: int = 50,
        after: str | None = None,
    ) -> wire.ListedUsers:
        """List the users of an application who have memories; with a token, those it is for.

        They are sorted as stored. Each comes with the number of memories and the time of the
        newest.

        Args:
            app: The application. Default: that of the client, else that of the token.
            contains: A part of the user id, in upper or lower case.
            limit: Maximum number of results.
            after: The last user of the page before.

        Returns:
            A page of users, by application and user.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.ListedUsers,
            "GET",
            "/users",
            query=given(
                app=self._app if app is None else app, contains=contains, limit=limit, after=after
            ),
        )

    async def list_erasures(
        self, *, user_id: str | None = None, app: str | None = None, limit: int = 100
    ) -> wire.Receipts:
        """List the receipts of the erasures of a user or an application, newest first.

        Args:
            user_id: Default: all users of the application.
            app: The application. Default: that of the client, else that of the token.
            limit: Maximum number of results.

        Returns:
            The receipts of erasures, newest first.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.Receipts,
            "GET",
            "/erasures",
            query=given(user_id=user_id, app=self._app if app is None else app, limit=limit),
        )
