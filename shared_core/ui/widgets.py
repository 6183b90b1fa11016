"""Small parts that several pages show: memories, kinds, errors, empty states, dates, paging."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from nicegui import ui

from shared_core.core.domain import AsOf, Memory, MemoryKind
from shared_core.core.timestamps import moment_of
from shared_core.errors import MemoryCoreError
from shared_core.http.problems import ProblemError
from shared_core.ui.style import COLOURS
from shared_core.ui.view import PageView


def kind_name(view: PageView, kind: MemoryKind | str) -> str:
    """Return the word for a kind of memory."""
    names = {
        "episodic": view.t("turn", "对话"),
        "semantic": view.t("fact", "事实"),
        "summary": view.t("summary", "摘要"),
        "reflection": view.t("insight", "洞见"),
        "item": view.t("item", "条目"),
    }
    return names.get(kind, kind)


def kind_badge(view: PageView, kind: MemoryKind | str) -> None:
    """Show a kind as a word in a frame of its colour."""
    colour = COLOURS.get(kind, "#999999")
    ui.label(kind_name(view, kind)).classes("kind").style(f"border-color: {colour}")


def panel() -> AbstractContextManager[object]:
    """Return a framed box; `with panel():` fills it."""
    return ui.element("section").classes("panel")


def heading(text: str) -> None:
    """Show a heading of the second level."""
    with ui.element("h2"):
        ui.label(text).classes("inline")


def tile(label: str, number: str, note: str = "") -> None:
    """Show one figure with its name."""
    with ui.element("div").classes("panel tile"):
        ui.label(label).classes("quiet")
        ui.label(number).classes("number")
        if note:
            ui.label(note).classes("quiet")


def empty(text: str) -> None:
    """Say that there is nothing, and what would make it appear."""
    with panel():
        ui.label(text).classes("quiet")


def failure(view: PageView, error: BaseException) -> None:
    """Show an error that the memory reports: what is wrong, and what to do."""
    text = error.detail if isinstance(error, ProblemError) else str(error)
    with ui.element("div").classes("panel failure").props("role=alert"):
        ui.label(view.t("This did not work.", "没有成功。")).classes("heading")
        ui.label(text).classes("text")


def guarded(view: PageView, call: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return a handler that checks the login, runs call, and shows an expected error as a notice.

    Every handler of a page that reads the memory goes through it. Actions go through actions.py.
    """

    async def handle() -> None:
        try:
            await view.check()
            await call()
        except (MemoryCoreError, ProblemError) as error:
            notify_failure(error)
        except Exception:
            notify_unexpected(view)
            raise

    return handle


def notify_failure(error: MemoryCoreError | ProblemError) -> None:
    """Show an error that the memory reports, until the visitor closes it."""
    text = error.detail if isinstance(error, ProblemError) else str(error)
    ui.notify(text, type="negative", multi_line=True, close_button="✕", timeout=0)


def notify_unexpected(view: PageView) -> None:
    """Say that an unexpected error is in the log. The caller raises it again."""
    text = view.t("Unexpected error; the log of the server has it.", "意外错误，详情见服务器日志。")
    ui.notify(text, type="negative", close_button="✕", timeout=0)


def memory_line(view: PageView, memory: Memory, *, detail: bool = True) -> None:
    """Show one memory: text, kind, author, time, thread, and a link to its page."""
    with ui.element("div").classes("row-line"):
        kind_badge(view, memory.kind)
        ui.label(view.time(memory.occurred_at)).classes("quiet")
        if memory.author:
            ui.label(memory.author).classes("quiet")
        if memory.thread_id:
            ui.link(
                view.t(f"thread {memory.thread_id}", f"会话线程 {memory.thread_id}"),
                view.link("/memories", thread=memory.thread_id),
            ).classes("quiet")
        if detail:
            ui.link(view.t("details", "详情"), view.link("/memory", key=memory.key)).classes(
                "quiet"
            )
    label = ui.label(memory.text).classes("text")
    if memory.superseded_at is not None:
        label.classes("ended")


def pages_of(
    view: PageView, path: str, *, offset: int, limit: int, total: int, **params: object
) -> None:
    """Show which results a page holds, and links to the page before and after it."""
    with ui.element("nav").classes("row-line") as nav:
        nav.props["aria-label"] = view.t("Pages of results", "结果页")
        first = min(offset + 1, total)
        ui.label(f"{first:,}–{min(offset + limit, total):,} / {total:,}").classes("quiet")
        if offset:
            ui.link(view.t("← newer", "← 较新"),
                    view.link(path, offset=max(0, offset - limit), **params))  # fmt: skip
        if offset + limit < total:
            ui.link(view.t("older →", "较旧 →"), view.link(path, offset=offset + limit, **params))


def whole_param(view: PageView, name: str, default: int, most: int) -> int:
    """Return a whole number in the address; default for what is none between 0 and most."""
    text = view.params.get(name, "")
    number = int(text) if len(text) <= 9 and text.isdecimal() else -1
    return number if 0 <= number <= most else default


def time_machine(view: PageView) -> AsOf | None:
    """Return the moments in the address of the page, `as_of` and `known`; None for now.

    Raises InvalidInput for a text that is no date.
    """
    valid, known = view.params.get("as_of"), view.params.get("known")
    if not valid and not known:
        return None
    return AsOf(valid=_moment(valid, "as_of"), known=_moment(known, "known"))


def _moment(text: str | None, name: str) -> datetime | None:
    return moment_of(text, name) if text else None


def table(
    columns: Sequence[tuple[str, str]], rows: Sequence[dict[str, object]], row_key: str = "id"
) -> ui.table:
    """Show rows in a table. columns: field and label. Cells are texts, never HTML."""
    shown = [
        {"name": field, "label": label, "field": field, "align": "left"} for field, label in columns
    ]
    return ui.table(rows=list(rows), columns=shown, row_key=row_key).classes("full").props("flat")
