"""What the server may be told: where it listens, whom it lets in, and how much it takes."""

from __future__ import annotations

from dataclasses import dataclass

from shared_core.conversation.settings import DEFAULT_APP
from shared_core.core.uri_validation import is_loopback
from shared_core.errors import InvalidInput

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How the server is run.

    host, port: where it listens; port 0 takes a free one. auth: whether a token is needed; None:
    not on a loopback address, as long as no token was ever made. app: the application of requests
    without a token that name none. max_body: bytes of a request's body. rate: requests a second of
    one token, in the long run; burst: so many at once; rate 0 for no limit. grace_s: how long
    requests in work may take once the server is told to stop.
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
            raise InvalidInput(f"port must be from 0 to 65535, not {self.port}")
        if self.max_body < 1:
            raise InvalidInput(f"max_body must be at least 1 byte, not {self.max_body}")
        if not (0 <= self.rate < float("inf")) or self.burst < 1:
            raise InvalidInput(
                f"rate must be at least 0 and burst at least 1, not {self.rate} and {self.burst}"
            )
        if self.auth is False and not self.is_local:
            raise InvalidInput(
                f"without tokens the server listens on this machine alone, not on {self.host!r}:"
                " leave out --no-auth and make a token with 'hippocampus token create --app APP'"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def needs_tokens(self, *, some_exist: bool) -> bool:
        """Return whether a token is needed, in a memory where some were made or none."""
        return self.auth if self.auth is not None else some_exist or not self.is_local
