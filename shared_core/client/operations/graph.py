"""The operations of the area "graph".

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from shared_core import wire
from shared_core.client.calls import given, segment
from shared_core.client.operations.base import OperationsBase


class GraphOperations(OperationsBase):
    """The operations of the area "graph"."""

    async def show_graph(
        self,
        *,
        user_id: str,
        app: str | None = None,
        entity: str = "user",
        depth: int = 2,
        limit: int = 100,
    ) -> wire.GraphAnswer:
        """Show the current relations around an entity, nearest and newest first.

        Args:
            user_id: The user of the application.
            app: The application. Default: that of the client, else that of the token.
            entity: Entity to start from. Default: the user.
            depth: Maximum distance in relations.
            limit: Maximum number of relations.

        Returns:
            The current relations around an entity, nearest and newest first.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return await self._connection.answer(
            wire.GraphAnswer,
            "GET",
            f"/graph/{segment(user_id, 'user_id')}",
            query=given(
                app=self._app if app is None else app, entity=entity, depth=depth, limit=limit
            ),
        )
