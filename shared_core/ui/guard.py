"""Access to the inspector: who asks, the login by token, and the headers of every answer."""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope as AsgiScope, Send

from shared_core.core.local_requests import fault_of_local_request
from shared_core.errors import MemoryCoreError
from shared_core.http.access import Caller, KnownTokens, TokenBuckets
from shared_core.http.options import ServerOptions
from shared_core.jobs.api_tokens import ApiTokens, FirstToken
from shared_core.ui.login_page import login_page

MOUNT: Final = "/ui"
LOGIN: Final = f"{MOUNT}/login"
LOGOUT: Final = f"{MOUNT}/logout"
EXPORT: Final = f"{MOUNT}/export"
ASSETS: Final = re.compile(
    rf"{MOUNT}/_nicegui/[^/]+/(static|libraries|components|resources|esm|dynamic_resources)/"
)
"""Scripts, styles and fonts of the UI library. They hold no memory and need no login."""
COOKIE: Final = "hippocampus_session"
SESSION_S: Final = 12 * 3600.0
"""Seconds after which a login ends."""
MOST_SESSIONS: Final = 10_000
MOST_OF_TOKEN: Final = 50
"""Maximum number of logins: of all tokens, and of one. The oldest ends for a new one."""
MOST_FORM_BYTES: Final = 4_096
MOST_UPLOAD_BYTES: Final = 101_000_000
"""Maximum size of a request body: an uploaded export of 100 MB and what the form adds to it."""
CSP: Final = "; ".join(
    (
        "default-src 'self'",
        # The UI library compiles its templates in the browser and starts them from the page itself.
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = (
    (b"content-security-policy", CSP.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    # Not no-referrer: then a browser sends the form of the login with the origin "null".
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Logins:
    """The logins of this process: a random id in a cookie names a token that is held here.

    A token has few of them, so that nobody ends the logins of others by logging in.
    """

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def begin(self, token: str) -> str:
        """Return the id of a new session."""
        now = time.monotonic()
        session_id = secrets.token_urlsafe(32)
        own = [known for known, (held, _) in self._tokens.items() if held == token]
        for oldest in own[: max(len(own) - MOST_OF_TOKEN + 1, 0)]:
            self.end(oldest)
        self._tokens[session_id] = token, now + SESSION_S
        while len(self._tokens) > MOST_SESSIONS or next(iter(self._tokens.values()))[1] < now:
            self._tokens.popitem(last=False)
        return session_id

    def token(self, session_id: str) -> str | None:
        """Return the token of a session, or None if it has ended."""
        token, until = self._tokens.get(session_id, ("", 0.0))
        return token if time.monotonic() < until else None

    def end(self, session_id: str) -> None:
        self._tokens.pop(session_id, None)


class Doors:
    """Finds who asks: the holder of a session, or anybody on this machine while no token exists."""

    def __init__(self, tokens: ApiTokens, options: ServerOptions) -> None:
        self.sessions = Logins()
        self._options = options
        self._first = FirstToken(tokens)
        self._known = KnownTokens(tokens)
        self._tries = TokenBuckets(rate=0.2, burst=10)

    async def caller(
        self, headers: Headers, path: str, client: tuple[str, int] | None
    ) -> Caller | str | None:
        """Return the caller of a request, None if it must log in, or why it is refused."""
        if fault := _foreign_origin(headers, path):
            return fault
        if token := self.sessions.token(session_of(headers)):
            return await self.opened_by(token)
        if await self._needs_token():
            return None
        return fault_of_local_request(headers.items(), client and client[0]) or Caller(
            None, None, None, self._options.app
        )

    async def opened_by(self, token: str) -> Caller | None:
        """Return the caller with this token, or None for an unknown or invalid token."""
        known = await self._known.verify(token)
        return Caller(known.app, known.users, known.token_id, known.app) if known else None

    async def still_opens(self, headers: Headers, caller: Caller) -> bool:
        """Return whether what let this caller in is still valid. Called before each action."""
        if caller.token_id is None:
            return not await self._needs_token()
        token = self.sessions.token(session_of(headers))
        found = token and await self.opened_by(token)
        return isinstance(found, Caller) and found.token_id == caller.token_id

    def may_try(self, client: tuple[str, int] | None) -> bool:
        """Return whether an address may try another token now."""
        return not self._tries.take(client[0] if client else "")

    async def _needs_token(self) -> bool:
        if self._options.auth is not None or not self._options.is_local:
            return self._options.needs_tokens(some_exist=False)
        return self._options.needs_tokens(some_exist=await self._first.is_made())


class InspectorGuard:
    """Lets a request below MOUNT pass if its caller may see the inspector.

    Pages and the socket of the UI library find the caller in the scope of the request. Everything
    outside of MOUNT passes: the HTTP API has its own access layer.
    """

    def __init__(self, app: ASGIApp, doors: Doors) -> None:
        self.app = app
        self._doors = doors

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] not in ("http", "websocket") or not _is_below_mount(path):
            await self.app(scope, receive, send)
            return
        send = _with_headers(send)
        if scope["type"] == "http" and ASSETS.match(path) and scope["method"] == "GET":
            await self.app(scope, receive, send)
            return
        try:
            answer = _too_large(scope) or await self._refusal(scope, receive)
        except MemoryCoreError as error:
            answer = PlainTextResponse(str(error), 503)
        if answer is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4401})
        else:
            await answer(scope, receive, send)

    async def _refusal(self, scope: AsgiScope, receive: Receive) -> Response | None:
        """Return the answer to a request that does not pass, or None."""
        headers, client = Headers(scope=scope), scope.get("client")
        caller = await self._doors.caller(headers, scope["path"], client)
        if isinstance(caller, str):
            return PlainTextResponse(caller, 403)
        if scope["type"] == "http" and scope["path"] in (LOGIN, LOGOUT):
            return await self._login(Request(scope, receive), caller)
        if caller is None:
            wanted = scope["path"] + ("?" + scope["query_string"].decode("latin-1")).rstrip("?")
            return RedirectResponse(f"{LOGIN}?next={quote(wanted, safe='')}", 303)
        scope["hippocampus.caller"] = caller
        return None

    async def _login(self, request: Request, caller: Caller | None) -> Response:
        wanted = _own_path(request.query_params.get("next", ""))
        if request.url.path == LOGOUT:
            if request.method != "POST":
                return PlainTextResponse("Log out with the button.", 405, {"Allow": "POST"})
            self._doors.sessions.end(session_of(request.headers))
            gone = RedirectResponse(LOGIN, 303)
            gone.delete_cookie(COOKIE, path=MOUNT)
            return gone
        if request.method == "GET":
            if caller is not None:
                return RedirectResponse(wanted, 303)
            return HTMLResponse(login_page(wanted, request.headers.get("accept-language", "")))
        if request.method != "POST":
            return PlainTextResponse("Use GET or POST.", 405, {"Allow": "GET, POST"})
        return await self._try_token(request, wanted)

    async def _try_token(self, request: Request, wanted: str) -> Response:
        language = request.headers.get("accept-language", "")
        token = await _token_in_form(request)
        if not token or not await self._doors.opened_by(token):
            # Only failures count: behind a proxy all visitors have one address.
            if self._doors.may_try(request.scope.get("client")):
                return HTMLResponse(login_page(wanted, language, "wrong"), 401)
            return HTMLResponse(login_page(wanted, language, "wait"), 429, {"Retry-After": "5"})
        answer = RedirectResponse(wanted, 303)
        answer.set_cookie(
            COOKIE, self._doors.sessions.begin(token), path=MOUNT, max_age=int(SESSION_S),
            httponly=True, samesite="strict",
            secure=request.headers.get("origin", "").startswith("https:"),
        )  # fmt: skip
        return answer


def _too_large(scope: AsgiScope) -> Response | None:
    """Return the refusal of a request whose body is too large, or of unknown size."""
    headers = Headers(scope=scope)
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isdecimal():
        return PlainTextResponse("Send a Content-Length.", 411)
    if int(length) > MOST_UPLOAD_BYTES:
        return PlainTextResponse(f"A body has at most {MOST_UPLOAD_BYTES:,} bytes.", 413)
    return None


def session_of(headers: Headers) -> str:
    """Return the session id in the cookies of a request, or an empty text."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")


async def _token_in_form(request: Request) -> str:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_FORM_BYTES:
            return ""
    fields = parse_qs(body.decode("utf-8", "replace"))
    token = fields.get("token", [""])[0].strip()
    return token if token.isascii() else ""


def _is_below_mount(path: str) -> bool:
    return path == MOUNT or path.startswith(f"{MOUNT}/")


def _own_path(path: str) -> str:
    """Return where a login leads: a page of the inspector, never another site."""
    is_own = path.startswith(f"{MOUNT}/") and not re.search(r"[\\\x00-\x1f]|//", path)
    return path if is_own and not path.startswith(LOGIN) else f"{MOUNT}/"


def _foreign_origin(headers: Headers, path: str) -> str | None:
    """Return why a request that a page of another site sends is refused, or None.

    A link on another site may open a page. It may not start a download or load a part of a page.
    """
    origin = headers.get("origin")
    is_own = origin is None or origin.partition("://")[2] == headers.get("host")
    if is_own and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        is_own = headers.get("sec-fetch-mode") == "navigate" and path != EXPORT
    return None if is_own else "The inspector answers its own pages only."


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*_others(message.get("headers", ())), *HEADERS]
        await send(message)

    return sent


def _others(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    ours = {name for name, _ in HEADERS}
    return [(name, value) for name, value in headers if name.lower() not in ours]
