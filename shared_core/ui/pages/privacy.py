"""Erasures and their receipts, export and import of a user, tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from nicegui import ui

from shared_core.core.domain import Scope
from shared_core.ports.erasures import ErasureReceipt
from shared_core.ui.actions import action_button
from shared_core.ui.frame import Page
from shared_core.ui.pages.known_threads import known_threads, thread_field
from shared_core.ui.pages.privacy_tokens import tokens_part
from shared_core.ui.pages.privacy_transfer import export_part, import_part
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, heading, panel

MOST_SHOWN: Final = 50
"""Maximum number of receipts that the page shows."""
MOST_USERS: Final = 100
"""Maximum number of users of a token whose receipts are read, each with a query."""


async def body(view: PageView) -> None:
    """Build the page."""
    heading(view.t("Export", "导出"))
    export_part(view)
    if view.may_write:
        heading(view.t("Import", "导入"))
        import_part(view)
        heading(view.t("Erase", "彻底删除"))
        await _erase_part(view)
    heading(view.t("Receipts of erasures", "彻底删除的回执"))
    await _receipts_part(view)
    if view.caller.app is None or view.caller.users is None:
        heading(view.t("Tokens", "令牌"))
        await tokens_part(view)


async def _erase_part(view: PageView) -> None:
    """Show what an erasure does, and the buttons for the chosen user or one of their threads."""
    if view.scope is None:
        empty(
            view.t(
                "Choose a user above to erase their data.", "请先在上方选择要彻底删除数据的用户。"
            )
        )
        return
    thread = view.params.get("thread") or None
    with panel():
        ui.label(view.t(
            "This removes data for good from every table: memories, session logs, profiles, runs "
            "and jobs. A receipt with the number of rows stays, without any of the text.",
            "这会从所有数据表中永久删除数据：记忆、会话日志、画像、运行记录和任务。"
            "只保留一张写明行数的回执，不含任何原文。",
        ))  # fmt: skip
        known = await known_threads(view)
        label = view.t("Only this thread (empty: everything)", "仅此会话线程（留空则为全部）")
        field = thread_field(view, label, known, thread)
        field.on_value_change(
            lambda change: ui.navigate.to(view.link("/privacy", thread=change.value or None))
        )
        with ui.element("div"):
            _erase_button(view, thread)


def _erase_button(view: PageView, thread: str | None) -> None:
    user, app = view.user.user, view.user.app

    async def do() -> str:
        receipt = await view.memory.erase(view.user, thread)
        return _receipt_text(view, receipt)

    if thread is None:
        label = view.t(f"Erase everything of {user}", f"彻底删除 {user} 的全部数据")
        what = view.t(
            f"Erase everything of user {user} of application {app} for good. Tokens for this user "
            "alone are revoked.",
            f"彻底删除应用 {app} 中用户 {user} 的全部数据。仅用于该用户的令牌会被吊销。",
        )
    else:
        label = view.t(f"Erase thread {thread}", f"彻底删除会话线程 {thread}")
        what = view.t(
            f"Erase thread {thread} of user {user} of application {app} for good, and what was "
            "derived from it alone.",
            f"彻底删除应用 {app} 中用户 {user} 的会话线程 {thread}，以及只由它得出的内容。",
        )
    again = view.t(
        "\nThis cannot be undone. Export the data first if you may need it.",
        "\n此操作无法撤销。如果以后可能需要，请先导出。",
    )

    async def will() -> str:
        count = await view.memory.count_memories(view.user, thread_id=thread)
        here = view.t(f"\n{count:,} memories are here now.", f"\n目前有 {count:,} 条记忆。")
        return what + here + again

    action_button(view, label, icon="delete_forever", will=will, do=do, dangerous=True, typed=user)


def _receipt_text(view: PageView, receipt: ErasureReceipt) -> str:
    rows = "\n".join(f"• {count:,} {table}" for table, count in sorted(receipt.counts.items()))
    return (
        view.t("Erased for good. Rows by table:\n", "已彻底删除。各数据表的行数：\n")
        + (rows or view.t("• there was nothing", "• 原本就没有数据"))
        + view.t("\nReceipt ", "\n回执 ")
        + str(receipt.erasure_id)
    )


async def _receipts_part(view: PageView) -> None:
    """Show the receipts of the chosen user, or of all users that the visitor may see."""
    of_all = view.scope is None or view.params.get("receipts") == "all"
    found = await _receipts(view, of_all=of_all)
    if view.scope is not None:
        thread = view.params.get("thread")
        with ui.element("div").classes("row-line"):
            if of_all:
                ui.label(view.t("Receipts of all users.", "所有用户的回执。"))
                ui.link(
                    view.t(f"Only {view.scope.user}", f"只看 {view.scope.user}"),
                    view.link("/privacy", thread=thread),
                )
            else:
                ui.label(view.t(f"Receipts of {view.scope.user}.", f"{view.scope.user} 的回执。"))
                ui.link(
                    view.t("Receipts of all users", "所有用户的回执"),
                    view.link("/privacy", thread=thread, receipts="all"),
                )
    if of_all and len(view.caller.users or ()) > MOST_USERS:
        ui.label(view.t(
            f"Only the first {MOST_USERS} users are read: choose one.",
            f"只读取前 {MOST_USERS} 位用户，请选择一位用户。",
        )).classes("quiet")  # fmt: skip
    for receipt in found[:MOST_SHOWN]:
        _receipt(view, receipt)
    if len(found) > MOST_SHOWN:
        ui.label(view.t(
            f"The newest {MOST_SHOWN} of {len(found):,}: hippocampus erasures lists all.",
            f"共 {len(found):,} 张，只显示最近 {MOST_SHOWN} 张；hippocampus erasures 可列出全部。",
        )).classes("quiet")  # fmt: skip
    if not found:
        empty(view.t(
            "Nothing was erased. Each erasure leaves a receipt here.",
            "还没有彻底删除过数据。每次彻底删除都会在这里留下回执。",
        ))  # fmt: skip


async def _receipts(view: PageView, *, of_all: bool) -> Sequence[ErasureReceipt]:
    app, users = view.caller.app, view.caller.users
    if not of_all:
        return await view.memory.erasures(view.user)
    if app is None or users is None:
        return await view.memory.erasures(app=app)
    found = [
        one for user in users[:MOST_USERS] for one in await view.memory.erasures(Scope(app, user))
    ]
    return sorted(found, key=lambda one: one.completed_at, reverse=True)


def _receipt(view: PageView, receipt: ErasureReceipt) -> None:
    """Show a receipt: its time, its user, its rows, and whether it was changed since."""
    with panel():
        with ui.element("div").classes("row-line"):
            ui.label(view.time(receipt.completed_at)).classes("quiet")
            ui.label(f"{receipt.scope.app} / {receipt.scope.user}")
            if receipt.thread_id:
                ui.label(
                    view.t(f"thread {receipt.thread_id}", f"会话线程 {receipt.thread_id}")
                ).classes("quiet")
            if receipt.is_intact:
                ui.label(view.t("✓ as it was written", "✓ 与写入时一致")).classes("quiet")
            else:
                ui.label(view.t("✗ changed since", "✗ 写入后被改动")).classes("heading")
        rows = ", ".join(f"{count:,} {table}" for table, count in sorted(receipt.counts.items()))
        ui.label(rows or view.t("There was nothing.", "原本就没有数据。")).classes("text")
        with ui.element("div").classes("row-line"):
            ui.label(str(receipt.erasure_id)).classes("quiet")
            text = json.dumps(receipt.to_dict(), ensure_ascii=False, indent=2)
            file = f"erasure-{receipt.erasure_id}.json"
            ui.button(
                view.t("Save the receipt", "保存回执"),
                icon="download",
                on_click=lambda: ui.download.content(text, file, "application/json"),
            ).props("flat dense no-caps")


PAGE = Page("/privacy", "shield", "Privacy", "隐私", body, of_user=False)
