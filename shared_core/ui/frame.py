"""The frame around each page: navigation, the chosen user, language, dark mode, and errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import nicegui
from nicegui import ui
from nicegui.events import GenericEventArguments
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shared_core import __version__
from shared_core.core.domain import Scope
from shared_core.errors import MemoryCoreError
from shared_core.http.access import Caller
from shared_core.http.problems import ProblemError
from shared_core.ui.guard import LOGOUT, MOUNT
from shared_core.ui.sockets import UnopenedPages
from shared_core.ui.style import STYLE
from shared_core.ui.view import DARK_COOKIE, LANGUAGE_COOKIE, Inspector, PageView, view_of
from shared_core.ui.widgets import failure

Body: TypeAlias = Callable[[PageView], Awaitable[None]]
YEAR_S: Final = 365 * 24 * 3600
COOKIE_END: Final = f"; path={MOUNT}; max-age={YEAR_S}; samesite=strict"
MOST_USERS: Final = 50
"""Users that the dialog shows at once; a text narrows them down."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the inspector. of_user: it shows one user, so one must be chosen first."""

    path: str
    icon: str
    english: str
    chinese: str
    body: Body
    of_user: bool = True

    def title(self, view: PageView) -> str:
        return view.t(self.english, self.chinese)


def register(pages: list[Page], others: list[Page]) -> None:
    """Register the pages at the UI library's application. others: not in the navigation."""
    unopened = UnopenedPages()
    for one in [*pages, *others]:
        ui.page(one.path, response_timeout=30.0)(_builder(one, pages, unopened))
    nicegui.app.on_page_exception(_unexpected)


def _unexpected() -> None:
    """Build the page of an unexpected error, which NiceGUI writes into the log."""
    ui.label("Unexpected error; the log of the server has it. 意外错误，详情见服务器日志。")


def _builder(
    page: Page, pages: list[Page], unopened: UnopenedPages
) -> Callable[[Request], Awaitable[Response | None]]:
    async def build(request: Request) -> Response | None:
        inspector: Inspector = nicegui.app.state.inspector
        try:
            caller: Caller = request.scope["hippocampus.caller"]
            unopened.add(caller.token_id, ui.context.client)
            view = view_of(inspector, request, page.path)
            if page.of_user and view.scope is None and (only := await _only_user(view)):
                return RedirectResponse(view.link(page.path, app=only.app, user=only.user), 307)
        except (MemoryCoreError, ProblemError) as error:
            ui.label(error.detail if isinstance(error, ProblemError) else str(error))
            return None
        with _frame(view, page, pages):
            try:
                if page.of_user and view.scope is None:
                    await user_list(view, page.path)
                else:
                    await page.body(view)
            except (MemoryCoreError, ProblemError) as error:
                failure(view, error)
        return None

    return build


async def _only_user(view: PageView) -> Scope | None:
    found = await view.memory.users(view.caller.app, limit=2, among=view.caller.users)
    return found[0].scope if len(found) == 1 else None


@contextmanager
def _frame(view: PageView, page: Page, pages: list[Page]) -> Iterator[None]:
    """Draw the header and the navigation; the body of the with statement fills the page."""
    ui.page_title(f"{page.title(view)} · pg-hippocampus")
    ui.add_css(STYLE)
    ui.context.client.page.language = None
    dark = ui.dark_mode({"1": True, "0": False}.get(view.request.cookies.get(DARK_COOKIE, "")))
    ui.run_javascript(f"document.documentElement.lang = '{view.language}'")
    # Without a value the library would ask each browser for it, and fail where one is slow.
    drawer = ui.left_drawer(value=False, bordered=True).classes("nav")
    drawer.props("show-if-above breakpoint=900 width=220")
    with ui.header(bordered=True).classes("bar"):
        menu = ui.button(icon="menu", on_click=drawer.toggle).props("flat round dense")
        name(menu, view.t("Navigation", "导航"))
        ui.link("pg-hippocampus", view.link("/")).classes("brand")
        _user_button(view)
        ui.space()
        _language_button(view)
        _dark_button(view, dark)
        if view.caller.token_id is not None:
            ui.html(
                f'<form method="post" action="{LOGOUT}"><button class="plain" type="submit">'
                f"{view.t('Log out', '退出')}</button></form>",
                sanitize=False,
            )
    with drawer:
        with ui.element("nav").props(f'aria-label="{view.t("Pages", "页面")}"'):
            for one in pages:
                link = ui.link(target=view.link(one.path)).classes("page-link")
                with link:
                    ui.icon(one.icon).props("aria-hidden=true")
                    ui.label(one.title(view))
                if one is page:
                    link.classes("here").props("aria-current=page")
        ui.label(f"{__version__}" + ("" if view.may_write else view.t(" · read-only", " · 只读"))
        ).classes("quiet version")  # fmt: skip
    with ui.element("div").classes("content"):
        with ui.element("h1"):
            ui.label(page.title(view)).classes("inline")
        yield


def name(element: ui.element, label: str) -> None:
    """Give an element without a text a name for screen readers, and a tooltip."""
    element.props["aria-label"] = label
    element.tooltip(label)


def _language_button(view: PageView) -> None:
    other, label = ("zh", "中文") if view.language == "en" else ("en", "English")
    button = ui.button(label, on_click=lambda: set_cookie(LANGUAGE_COOKIE, other, reload=True))
    button.props(f"flat dense no-caps lang={other}")


def _dark_button(view: PageView, dark: ui.dark_mode) -> None:
    def choose(event: GenericEventArguments) -> None:
        # The page shows the value of this element again at each of its updates.
        dark.value = bool(event.args)
        set_cookie(DARK_COOKIE, "1" if dark.value else "0")

    button = ui.button(icon="contrast").props("flat round dense")
    # What is shown without a choice of the visitor is known in the browser only.
    button.on("click", choose, js_handler="() => emit(!Quasar.Dark.isActive)")
    name(button, view.t("Light or dark", "浅色或深色"))


def set_cookie(cookie: str, value: str, *, reload: bool = False) -> None:
    """Keep a choice of the visitor in their browser. value: one of our own words."""
    ui.run_javascript(
        f"document.cookie = '{cookie}={value}{COOKIE_END}';"
        + ("location.reload();" if reload else "")
    )


def _user_button(view: PageView) -> None:
    shown = view.t("Choose a user", "选择用户")
    if view.scope is not None:
        shown = f"{view.scope.app} / {view.scope.user}"
    with ui.dialog() as dialog, ui.card().classes("wide"):
        place = ui.column().classes("full")

    async def opened() -> None:
        place.clear()
        with place:
            await user_list(view, view.path)
        dialog.open()

    button = ui.button(shown, icon="person", on_click=opened).props("flat no-caps dense")
    button.classes("who")
    button.props["aria-label"] = view.t("User: ", "用户：") + shown


async def user_list(view: PageView, path: str) -> None:
    """Show the applications and users, narrowed down by a text; each is a link to a page."""
    ui.label(view.t("Whose memory?", "看谁的记忆？")).classes("heading")
    found = ui.column().classes("full close")

    async def fill(contains: str) -> None:
        try:
            await view.check()
            users = await view.memory.users(
                view.caller.app, contains=contains, limit=MOST_USERS, among=view.caller.users
            )
        except MemoryCoreError as error:
            found.clear()
            with found:
                failure(view, error)
            return
        found.clear()
        with found:
            for one in users:
                with ui.link(target=view.link(path, app=one.scope.app, user=one.scope.user)):
                    ui.label(f"{one.scope.app} / {one.scope.user}").classes("inline")
                ui.label(
                    view.t(f"{one.memories:,} memories, last ", f"{one.memories:,} 条记忆，最近 ")
                    + view.time(one.newest_at)
                ).classes("quiet")
            if not users:
                ui.label(view.t("Nobody yet.", "还没有用户。"))
            elif len(users) == MOST_USERS:
                ui.label(view.t("There may be more: type a part of the name.",
                                "可能还有更多：输入名称的一部分。")).classes("quiet")  # fmt: skip

    field = ui.input(
        view.t("Part of the application or user", "应用或用户的一部分"),
        on_change=lambda change: fill(change.value or ""),
    ).props("debounce=250 clearable outlined dense")
    field.move(target_index=1)
    await fill("")
