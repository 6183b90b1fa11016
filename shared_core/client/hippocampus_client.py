"""The async client of the HTTP server."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx

from shared_core.client.calls import ServerConnection
from shared_core.client.operations import ClientOperations


class HippocampusClient(ClientOperations):
    """Asks a memory over HTTP: one method for each operation of the server.

    A method has the name of its operation, takes the parameters of the operation as keywords, and
    returns its answer as a model of `shared_core.wire`. One client has one pool of connections;
    use it from many tasks at once, and close it at the end:

        async with HippocampusClient("http://127.0.0.1:8420", app="my_app") as memory:
            await memory.remember(user_id="ana", memories=["Ana drinks green tea."])
            found = await memory.recall(user_id="ana", query="What does Ana drink?")

    Every method raises errors of `shared_core.errors`:

    - InvalidInput: a value cannot be used; NotFound, Conflict, CapabilityMissing: as in Python.
    - StorageUnavailable, ModelUnavailable, EmbeddingMismatch: the server cannot use its database
      or a model now.
    - AccessDenied: the token is missing, invalid, or for another application or user.
    - TooManyRequests: the token sends too many requests; `retry_after_s` says how long to wait.
    - ServerUnavailable: the server cannot be reached, is too slow, or hung up; `may_be_done` says
      whether it may have carried out the request.
    - UnexpectedAnswer: another program answers, or another version.

    A request is sent again, up to `retries` times, only if that is safe: if it was refused before
    the server began (no connection, too many requests, busy), or if it only reads.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8420",
        *,
        app: str | None = None,
        token: str | None = None,
        timeout: float | None = 60.0,
        retries: int = 2,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        """Make a client. It connects with the first request.

        Args:
            base_url: The address of the server, with the path if a proxy adds one.
            app: The application of every request that names none. Default: that of the token,
                else that of the server.
            token: A token of `hippocampus token create`, where the server wants one.
            timeout: Seconds to wait for each part of an answer; None waits for ever.
            retries: How often a request is sent again where that is safe.
            http_client: An HTTPX client with your own proxy, certificates, pool or transport. Its
                timeouts hold, and it stays open.

        Raises:
            InvalidInput: The address, the token, the timeout or the number cannot be used.
        """
        connection = ServerConnection(
            base_url, token=token, timeout=timeout, retries=retries, http_client=http_client
        )
        super().__init__(connection, app)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the pool of connections. A given `http_client` stays open."""
        await self._connection.aclose()

    def __repr__(self) -> str:
        return f"HippocampusClient({self._connection.base_url!r}, app={self._app!r})"
