"""What a page knows: the memory, who looks at it, in which language, and the user it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request

from shared_core.core.domain import Scope
from shared_core.core.locale import Language, in_language
from shared_core.engine import MemoryEngine
from shared_core.errors import MemoryCoreError, PermissionDenied
from shared_core.http.access import Caller
from shared_core.http.export import RunningExports
from shared_core.http.problems import ProblemError
from shared_core.ui.guard import Doors
from shared_core.ui.options import InspectorOptions

LANGUAGE_COOKIE: Final = "hippocampus_language"
DARK_COOKIE: Final = "hippocampus_dark"


@dataclass(frozen=True, slots=True)
class Inspector:
    """The inspected memory, its doors and its options: one in a process.

    exports: the exports that run, those of the HTTP API too.
    """

    memory: MemoryEngine
    doors: Doors
    options: InspectorOptions
    exports: RunningExports


class LoginEnded(MemoryCoreError):
    """The token of a session was revoked or expired while a page was open."""


@dataclass(slots=True)
class PageView:
    """One page as one visitor sees it.

    path: of the page below the mount. params: the query of its address, so that every state of a
    page has an address. scope: the chosen user, None before one is chosen.
    """

    inspector: Inspector
    request: Request
    caller: Caller
    path: str
    language: Language
    scope: Scope | None
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def memory(self) -> MemoryEngine:
        return self.inspector.memory

    @property
    def user(self) -> Scope:
        """The chosen user. Pages that need one are not built without it."""
        assert self.scope is not None
        return self.scope

    @property
    def may_write(self) -> bool:
        return not self.inspector.options.read_only

    def t(self, english: str, chinese: str) -> str:
        """Return the text in the language of the page."""
        return in_language(self.language, english, chinese)

    def time(self, moment: datetime | None, *, day_only: bool = False) -> str:
        """Return a moment in UTC, or a dash for None."""
        if moment is None:
            return "–"
        return f"{moment:%Y-%m-%d}" if day_only else f"{moment:%Y-%m-%d %H:%M}"

    def link(self, path: str, **params: object) -> str:
        """Return the address of a page for the same user. None leaves a parameter out.

        It is relative to the mount, as every page is: the UI library would put the mount before an
        address that begins with a slash, and other elements and redirects would not.
        """
        named: dict[str, object] = {}
        if self.scope is not None:
            named = {"app": self.scope.app, "user": self.scope.user}
        named |= params
        query = urlencode({name: value for name, value in named.items() if value is not None})
        return f".{path}" + (f"?{query}" if query else "")

    async def check(self) -> None:
        """Raise LoginEnded if the login has ended. Each handler of a page calls it."""
        if not await self.inspector.doors.still_opens(self.request.headers, self.caller):
            raise LoginEnded(
                self.t("The login has ended: log in again.", "登录已失效，请重新登录。")
            )

    async def check_may_write(self) -> None:
        """Raise as check() does, and PermissionDenied in read-only mode."""
        await self.check()
        if not self.may_write:
            raise PermissionDenied(
                self.t("This inspector was started with --read-only.", "本检查器以只读方式启动。")
            )


def view_of(inspector: Inspector, request: Request, path: str) -> PageView:
    """Return the view of a request. Raises ProblemError for a user whom the caller may not see."""
    caller: Caller = request.scope["hippocampus.caller"]
    params = dict(request.query_params)
    app, user = params.get("app"), params.get("user")
    scope = None
    if user:
        scope = caller.scope(user, app)
    elif caller.users is not None and len(caller.users) == 1:
        scope = caller.scope(caller.users[0], app)
    return PageView(inspector, request, caller, path, language_of(request), scope, params)


def language_of(request: Request) -> Language:
    """Return the chosen language, else the first one of the browser that is known."""
    chosen = request.cookies.get(LANGUAGE_COOKIE)
    if chosen in ("en", "zh"):
        return "zh" if chosen == "zh" else "en"
    return "zh" if request.headers.get("accept-language", "").lower().startswith("zh") else "en"


def is_forbidden(error: BaseException) -> bool:
    return isinstance(error, ProblemError)
