"""Sends the requests of the client: encodes, repeats what is safe, and reads the answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Final, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_json
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential_jitter,
)

from shared_core import __version__
from shared_core.client.refusals import first_fault, not_answered, not_understood, refusal
from shared_core.errors import (
    InvalidInput,
    ModelUnavailable,
    ServerUnavailable,
    StorageReadOnly,
    StorageUnavailable,
    TooManyRequests,
)

Answer = TypeVar("Answer", bound=BaseModel)
Values = Mapping[str, object]
"""The parameters or the body of a request, by name."""

READS: Final = frozenset({"/recall", "/search", "/context", "/debug"})
"""The paths of POST requests that store no memory: they may be repeated, as every GET may."""
MAX_WAIT_S: Final = 30.0
"""A request is not repeated if the server wants a longer pause."""
CONNECT_S: Final = 5.0
"""Maximum seconds to connect."""
BACK_OFF: Final = wait_exponential_jitter(initial=0.1, max=5.0, jitter=0.1)
LINE_END: Final = b"\n"


def given(**values: object) -> dict[str, object]:
    """Return the values that are not None: the server has defaults for the others."""
    return {name: value for name, value in values.items() if value is not None}


def segment(value: object, what: str) -> str:
    """Return a value as one segment of a path. Raises InvalidInput for an empty one."""
    text = str(value)
    if not text:
        raise InvalidInput(f"{what} must not be empty")
    try:
        # A client or a proxy would resolve the segments "." and "..".
        return quote(text, safe="").replace(".", "%2E")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} must be valid Unicode, got {text!r}") from error


class ServerConnection:
    """The address of a server, its token, and the pool of connections to it."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None,
        timeout: float | None,
        retries: int,
        http_client: httpx.AsyncClient | None,
    ) -> None:
        self.base_url = _checked_url(base_url)
        if timeout is not None and not timeout > 0:
            raise InvalidInput(f"timeout must be more than 0 seconds, or None, got {timeout}")
        if retries < 0:
            raise InvalidInput(f"retries must be at least 0, got {retries}")
        self._timeout = timeout if http_client is None else None
        self._retries = retries
        self._headers = {"User-Agent": f"pg-hippocampus/{__version__}"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_checked_token(token)}"
        self._owns_http = http_client is None
        connect = CONNECT_S if timeout is None else min(CONNECT_S, timeout)
        limits = httpx.Timeout(timeout, connect=connect)
        self._http = http_client or httpx.AsyncClient(timeout=limits)

    async def aclose(self) -> None:
        """Close the pool, unless the caller gave it."""
        if self._owns_http:
            await self._http.aclose()

    async def answer(
        self,
        model: type[Answer],
        method: str,
        path: str,
        *,
        query: Values | None = None,
        body: Values | None = None,
    ) -> Answer:
        """Send a request and return its answer. Raises MemoryCoreError."""
        response = await self._repeated(self._request(method, path, query, body))
        try:
            return model.model_validate_json(response.content)
        except ValidationError as error:
            raise not_understood(response, self.base_url, first_fault(error)) from None

    async def text(self, method: str, path: str) -> str:
        """Send a request and return the text of its answer. Raises MemoryCoreError."""
        response = await self._repeated(self._request(method, path, None, None))
        if not response.headers.get("content-type", "").startswith("text/plain"):
            raise not_understood(response, self.base_url, "it is not plain text")
        return response.text

    async def lines(self, method: str, path: str, *, query: Values) -> AsyncGenerator[str, None]:
        """Send a request and yield the lines of its answer as they arrive. Raises MemoryCoreError.

        Only a line feed ends a line: JSON may hold every other line break of Unicode.
        """
        response = await self._repeated(self._request(method, path, query, None), stream=True)
        try:
            if not response.headers.get("content-type", "").startswith("application/x-ndjson"):
                await response.aread()
                raise not_understood(response, self.base_url, "it has no lines of JSON")
            async with aclosing(self._split(response)) as lines:
                async for line in lines:
                    yield line
        finally:
            await response.aclose()

    async def _split(self, response: httpx.Response) -> AsyncGenerator[str, None]:
        rest = b""
        async with self._named_errors():
            async for chunk in response.aiter_bytes():
                *lines, rest = (rest + chunk).split(LINE_END)
                for line in lines:
                    yield line.decode()
        if rest:
            yield rest.decode()

    def _request(
        self, method: str, path: str, query: Values | None, body: Values | None
    ) -> httpx.Request:
        headers = dict(self._headers)
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = _json(body)
        url = f"{self.base_url}{path}"
        try:
            params = {name: _parameter(value) for name, value in (query or {}).items()}
            return self._http.build_request(
                method, url, params=params or None, content=content, headers=headers
            )
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a parameter must be valid Unicode ({error})") from error
        except httpx.InvalidURL as error:
            raise InvalidInput(f"a parameter is no part of an address ({error})") from error

    async def _repeated(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        """Send a request, again where a repeat is safe, and return a success."""
        if self._http.is_closed:
            raise InvalidInput(f"the client of {self.base_url} is closed: make another one")
        is_read = request.method == "GET" or request.url.path.endswith(tuple(READS))
        tries = AsyncRetrying(
            stop=stop_after_attempt(1 + self._retries),
            retry=retry_if_exception(lambda error: _may_repeat(error, is_read)),
            wait=_wait_s,
            reraise=True,
        )
        return await tries(self._once, request, stream)

    async def _once(self, request: httpx.Request, stream: bool) -> httpx.Response:
        async with self._named_errors():
            response = await self._http.send(request, stream=stream, follow_redirects=False)
            if response.status_code in (200, 202):
                return response
            try:
                await response.aread()
            finally:
                await response.aclose()
        raise refusal(response, self.base_url)

    @asynccontextmanager
    async def _named_errors(self) -> AsyncIterator[None]:
        try:
            yield
        except httpx.RequestError as error:
            raise not_answered(error, self.base_url, self._timeout) from error


def _may_repeat(error: BaseException, is_read: bool) -> bool:
    """Return whether the request surely changed nothing, and may succeed another time."""
    wait_s = getattr(error, "retry_after_s", None)
    if wait_s is not None and wait_s > MAX_WAIT_S:
        return False
    if isinstance(error, TooManyRequests):
        return True
    if isinstance(error, ServerUnavailable):
        return is_read or not error.may_be_done
    is_passing = isinstance(error, StorageUnavailable | ModelUnavailable)
    return is_read and is_passing and not isinstance(error, StorageReadOnly)


def _wait_s(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    wanted_s = getattr(error, "retry_after_s", None)
    return BACK_OFF(state) if wanted_s is None else float(wanted_s)


def _json(body: Values) -> bytes:
    try:
        return to_json(body)
    except PydanticSerializationError as error:
        raise InvalidInput(f"the request cannot be written as JSON ({error})") from error


def _parameter(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _checked_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidInput(f"{base_url!r} is no address ({error}): {_LIKE}") from error
    if url.userinfo:
        raise InvalidInput(
            "base_url must not contain a user or a password: pass the token as token=, or an"
            " http_client= with auth="
        )
    parts = {"?", "#"}.intersection(base_url)
    if url.scheme not in ("http", "https") or not url.host or parts:
        raise InvalidInput(f"{base_url!r} is not the address of a server: {_LIKE}")
    return base_url.rstrip("/")


_LIKE: Final = "pass one such as 'http://127.0.0.1:8420'"


def _checked_token(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            "token must be printable ASCII without spaces, as 'hippocampus token create' prints it"
        )
    return token
