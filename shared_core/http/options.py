"""The options of the server: its address, its access and its limits."""

from __future__ import annotations

from dataclasses import dataclass

from shared_core.conversation.settings import DEFAULT_APP
from shared_core.core.uri_validation import is_loopback
from shared_core.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of the server.

    Attributes:
        host, port: The address to listen on. Port 0 takes a free port.
        auth: Whether a token is needed. None: not on a loopback address, until the first token
            exists.
        app: The application of requests without a token that name none.
        max_body: Maximum size of a request body in bytes.
        rate, burst: Sustained and burst requests per second of one token. Rate 0 is no
            limit.
        grace_s: Seconds that running requests may take after the signal to stop.
    """

    host: str = "127.0.0.1"
    port: int = 8420
    auth: bool | None = None
    app: str = DEFAULT_APP
    max_body: int = 1_048_576
    rate: float = 100.0
    burst: int = 200
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise InvalidInput(f"port must be between 0 and 65535, got {self.port}")
        if self.max_body < 1:
            raise InvalidInput(f"max_body must be at least 1 byte, got {self.max_body}")
        if not (0 <= self.rate < float("inf")) or self.burst < 1:
            raise InvalidInput(
                f"rate must be at least 0 and burst at least 1, got {self.rate} and {self.burst}"
            )
        if self.auth is False and not self.is_local:
            raise InvalidInput(
                f"without tokens the server cannot listen on {self.host!r}, which others can reach:"
                " leave out --no-auth and create a token with 'hippocampus token create --app APP'"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def needs_tokens(self, *, some_exist: bool) -> bool:
        """Return whether a token is needed. some_exist: whether the memory has tokens."""
        return self.auth if self.auth is not None else some_exist or not self.is_local
