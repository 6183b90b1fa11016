"""What every area of operations works on."""

from __future__ import annotations

from shared_core.client.calls import ServerConnection


class OperationsBase:
    """The connection to a server, and the application of requests that name none."""

    def __init__(self, connection: ServerConnection, app: str | None) -> None:
        self._connection = connection
        self._app = app
