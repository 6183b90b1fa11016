"""Tokens of the servers and of the inspector: list, create, revoke."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from nicegui import ui

from shared_core.errors import InvalidInput
from shared_core.ports.api_tokens import ApiToken
from shared_core.ui.actions import ActionOutcome, action_button
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, panel

MOST_SHOWN: Final = 100
"""Maximum number of tokens that the page shows."""
SPANS: Final = (1, 7, 30, 90, 365)
"""Days after which a new token expires, to choose from."""


async def tokens_part(view: PageView) -> None:
    """Show the tokens of the visitor's application, or of all, and the form for a new one."""
    found = await view.memory.tokens.list(view.caller.app)
    ui.label(view.t(
        "A token opens the HTTP API, the MCP server and this inspector, for one application or for "
        "some of its users.",
        "令牌可用于 HTTP 接口、MCP 服务和本检查器，限定于一个应用或其中的部分用户。",
    )).classes("quiet")  # fmt: skip
    if view.may_write:
        _form(view, own=_own(view, found), is_first=view.caller.app is None and not found)
    now = datetime.now(UTC)
    for token in found[:MOST_SHOWN]:
        _token(view, token, now)
    if len(found) > MOST_SHOWN:
        ui.label(view.t(
            f"The newest {MOST_SHOWN} of {len(found):,}: hippocampus token list shows all.",
            f"共 {len(found):,} 个，只显示最近 {MOST_SHOWN} 个；全部见 hippocampus token list。",
        )).classes("quiet")  # fmt: skip
    if not found:
        empty(view.t(
            "There are no tokens: only this machine can reach the memory.",
            "还没有令牌：只有本机可以访问。",
        ))  # fmt: skip


def _own(view: PageView, found: Sequence[ApiToken]) -> ApiToken | None:
    """Return the token that the visitor has logged in with."""
    return next((one for one in found if one.token_id == view.caller.token_id), None)


def _form(view: PageView, *, own: ApiToken | None, is_first: bool) -> None:
    """Show the form for a new token. own: the visitor's; no new one may outlive it."""
    with panel():
        if is_first:
            ui.label(_first_warning(view)).classes("text").mark("first-token")
        app = ui.input(view.t("Application", "应用"), value=_default_app(view))
        app.props("outlined dense").set_enabled(view.caller.app is None)
        users = ui.input(
            view.t(
                "Only these users, a line each (empty: all)", "仅限这些用户，每行一个（留空为全部）"
            )
        ).props("outlined dense type=textarea rows=2 autogrow")
        options = {str(days): view.t(f"{days} days", f"{days} 天") for days in SPANS}
        if own is None or own.expires_at is None:
            options["never"] = view.t("never", "永不")
        expires = ui.select(options, label=view.t("Expires after", "有效期"), value="30")
        expires.props("outlined dense options-dense")
        label = ui.input(view.t("Name for this list", "名称，用于本列表")).props("outlined dense")

        async def do() -> ActionOutcome:
            names = [line.strip() for line in (users.value or "").splitlines() if line.strip()]
            new = await view.memory.tokens.create(
                view.caller.app or (app.value or "").strip(),
                users=names or None,
                expires_at=_expiry(view, expires.value, own),
                label=(label.value or "").strip(),
            )
            return ActionOutcome(
                view.t(
                    "This token is shown now and never again. To undo it, revoke it on this page.",
                    "令牌只显示这一次。如需撤销，请在本页吊销。",
                ),
                secret=new.text,
            )

        with ui.element("div"):
            action_button(
                view,
                view.t("Create a token", "创建令牌"),
                icon="key",
                will=lambda: _what_opens(view, app.value, users.value, is_first=is_first),
                do=do,
            )


def _default_app(view: PageView) -> str:
    if view.caller.app is not None:
        return view.caller.app
    return view.scope.app if view.scope is not None else view.caller.default_app


def _first_warning(view: PageView) -> str:
    return view.t(
        "⚠ Until the first token exists, everybody on this machine may use the memory without one. "
        "From then on this inspector and the HTTP API ask for a token, here too: copy the new "
        "token before you close its window, you log in with it.",
        "⚠ 在创建第一个令牌之前，本机上的任何人都可直接访问。创建之后，本检查器和 HTTP 接口"
        "都会要求令牌，你也不例外：请在关闭窗口前复制新令牌，之后用它登录。",
    )


def _what_opens(view: PageView, app: str, users: str, *, is_first: bool) -> str:
    names = [line.strip() for line in (users or "").splitlines() if line.strip()]
    if names:
        shown = ", ".join(names)
        what = view.t(
            f"Create a token that opens these users of application {app}: {shown}.",
            f"创建令牌，可访问应用 {app} 的这些用户：{shown}。",
        )
    else:
        what = view.t(
            f"Create a token that opens application {app} with all its users.",
            f"创建令牌，可访问应用 {app} 及其所有用户。",
        )
    return what + (f"\n{_first_warning(view)}" if is_first else "")


def _expiry(view: PageView, days: str, own: ApiToken | None) -> datetime | None:
    """Return when a new token expires. Raises InvalidInput if it would outlive the visitor's."""
    until = None if days == "never" else datetime.now(UTC) + timedelta(days=int(days))
    end = own.expires_at if own is not None else None
    if end is not None and (until is None or until > end):
        raise InvalidInput(view.t(
            f"Your own token expires at {view.time(end)}, and a new one may not outlive it: choose "
            "a shorter time.",
            f"你的令牌将于 {view.time(end)} 过期，新令牌的有效期不能超过它，请选择更短的时间。",
        ))  # fmt: skip
    return until


def _token(view: PageView, token: ApiToken, now: datetime) -> None:
    """Show a token, and the button that revokes it."""
    with panel():
        with ui.element("div").classes("row-line"):
            ui.label(_state(view, token, now)).classes("kind").style(
                f"border-color: {'#009E73' if token.opens_at(now) else '#999999'}"
            )
            if token.label:
                ui.label(token.label).classes("heading")
            everybody = view.t("all users", "所有用户")
            whose = everybody if token.users is None else ", ".join(token.users)
            if token.opens == "metrics":
                whose = view.t("metrics alone", "仅指标")
            ui.label(f"{token.app} / {whose}")
            if token.token_id == view.caller.token_id:
                ui.label(view.t("you are logged in with it", "当前登录使用")).classes("quiet")
        with ui.element("div").classes("row-line"):
            ui.label(token.token_id).classes("quiet")
            ui.label(view.t("since ", "创建于 ") + view.time(token.created_at)).classes("quiet")
        if token.opens_at(now):
            _revoke_button(view, token)


def _state(view: PageView, token: ApiToken, now: datetime) -> str:
    if token.revoked_at is not None:
        return view.t("revoked ", "已吊销 ") + view.time(token.revoked_at)
    if token.expires_at is None:
        return view.t("valid, never expires", "有效，永不过期")
    at = view.time(token.expires_at)
    if token.expires_at <= now:
        return view.t(f"expired {at}", f"已过期 {at}")
    return view.t(f"valid until {at}", f"有效至 {at}")


def _revoke_button(view: PageView, token: ApiToken) -> None:
    async def do() -> str:
        await view.memory.tokens.revoke(token.token_id)
        return view.t(
            f"Token {token.token_id} is revoked. Running servers refuse it within five seconds.",
            f"令牌 {token.token_id} 已吊销，运行中的服务会在五秒内拒绝它。",
        )

    will = view.t(
        f"Revoke token {token.token_id} for good. Programs that use it need another one.",
        f"永久吊销令牌 {token.token_id}。使用它的程序需要换用其他令牌。",
    )
    if token.token_id == view.caller.token_id:
        will += view.t(
            "\n⚠ You are logged in with it: you need another token to come back.",
            "\n⚠ 你正使用它登录：吊销后需要用其他令牌重新登录。",
        )
    with ui.element("div"):
        action_button(
            view, view.t("Revoke", "吊销"), icon="block", will=will, do=do, dangerous=True
        )
