"""The operations of the area "export".

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from shared_core.client.calls import given
from shared_core.client.operations.base import OperationsBase


class ExportOperations(OperationsBase):
    """The operations of the area "export"."""

    def export(
        self, *, user_id: str | None = None, app: str | None = None, vectors: bool = False
    ) -> AsyncGenerator[str, None]:
        """Export all data of a user or an application for `hippocampus import`.

        The export is a snapshot of one moment. Without its last line ("end") it is incomplete, and
        an import refuses it.

        Args:
            user_id: Default: all users.
            app: The application. Default: that of the client, else that of the token.
            vectors: Include vectors, so that an import need not embed.

        Yields:
            Lines of JSON: a header, the rows, and an end with their number.

        Raises:
            MemoryCoreError: The request failed; HippocampusClient lists the errors.
        """
        return self._connection.lines(
            "GET",
            "/export",
            query=given(user_id=user_id, app=self._app if app is None else app, vectors=vectors),
        )
