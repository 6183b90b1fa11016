"""The memories of a user, page by page, and each with everything about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast, get_args

from nicegui import ui

from shared_core.core.domain import Memory, MemoryKind, NewMemory
from shared_core.core.timestamps import moment_of
from shared_core.errors import InvalidInput
from shared_core.ui.actions import action_button
from shared_core.ui.frame import Page
from shared_core.ui.pages import memory_detail
from shared_core.ui.pages.cells import styles
from shared_core.ui.pages.memory_table import (
    counted,
    follow_selection,
    forget_button,
    pin_button,
    row_of,
    selectable_table,
    selected_keys,
    unpin_button,
)
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, kind_name, pages_of, panel, time_machine, whole_param

PAGE_SIZE: Final = 50
DEEPEST: Final = 100_000
"""Maximum offset of a page of memories."""
FILTERS: Final = ("q", "kind", "thread", "begin", "end", "as_of", "known")
"""Parameters of the address that choose memories."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The filters in an address. begin, end: first and last day, or moments."""

    params: Mapping[str, str]

    @property
    def kinds(self) -> list[MemoryKind] | None:
        names = [one for one in self.params.get("kind", "").split(",") if one]
        for name in names:
            if name not in get_args(MemoryKind):
                raise InvalidInput(
                    f"kind {name!r} is not known: take {', '.join(get_args(MemoryKind))}"
                )
        return cast("list[MemoryKind]", names) or None

    def filters(self) -> dict[str, Any]:
        """Return the arguments of list_memories() and count_memories()."""
        return {
            "kinds": self.kinds,
            "thread_id": self.params.get("thread") or None,
            "contains": self.params.get("q", ""),
            "begin": day_or_moment(self.params.get("begin"), "begin"),
            "end": day_or_moment(self.params.get("end"), "end", is_last=True),
        }

    @property
    def named(self) -> dict[str, str]:
        return {name: self.params[name] for name in FILTERS if self.params.get(name)}


def day_or_moment(text: str | None, name: str, *, is_last: bool = False) -> datetime | None:
    """Return the moment of a text. is_last: a day without a time stands for its end."""
    if not text:
        return None
    moment = moment_of(text, name)
    try:
        return moment + timedelta(days=1) if is_last and len(text) == len("2026-01-01") else moment
    except OverflowError as error:
        raise InvalidInput(f"{name} must be a day before 9999-12-31, got {text}") from error


async def body(view: PageView) -> None:
    """Build the page."""
    styles()
    chosen = Chosen(view.params)
    _filter_form(view, chosen)
    _new_forms(view)
    filters, as_of = chosen.filters(), time_machine(view)
    offset = whole_param(view, "offset", 0, DEEPEST)
    total = await view.memory.count_memories(view.user, **filters, as_of=as_of)
    memories = await view.memory.list_memories(
        view.user, **filters, as_of=as_of, limit=PAGE_SIZE, offset=offset
    )
    if as_of is not None:
        ui.label(
            view.t("As the memory was then: ", "当时的记忆：")
            + " / ".join(one for one in (view.params.get("as_of"), view.params.get("known")) if one)
        ).classes("quiet")
    if not memories:
        _nothing(view, chosen, total)
        return
    _list(view, memories)
    _pages(view, chosen, offset, total)


def _filter_form(view: PageView, chosen: Chosen) -> None:
    """Show the filters; they navigate to the address with these filters."""
    params = view.params
    with panel(), ui.element("div").classes("form-line"):
        text = ui.input(view.t("Text contains", "包含文字"), value=params.get("q", ""))
        kinds = ui.select(
            {one: kind_name(view, one) for one in get_args(MemoryKind)},
            label=view.t("Kinds", "类型"), multiple=True, clearable=True,
            value=[one for one in params.get("kind", "").split(",")
                   if one in get_args(MemoryKind)],
        ).classes("dates")  # fmt: skip
        thread = ui.input(view.t("Thread", "会话线程"), value=params.get("thread", ""))
        begin = ui.input(view.t("From", "从"), value=params.get("begin", "")[:10])
        end = ui.input(view.t("To, included", "到（含）"), value=params.get("end", "")[:10])
        for one in (begin, end):
            one.props("type=date stack-label").classes("dates")
        for field in (text, kinds, thread, begin, end):
            field.props("outlined dense")

        def search() -> None:
            asked = {
                "q": text.value, "kind": ",".join(kinds.value or []), "thread": thread.value,
                "begin": begin.value, "end": end.value,
                "as_of": params.get("as_of"), "known": params.get("known"),
            }  # fmt: skip
            ui.navigate.to(
                view.link("/memories", **{name: value or None for name, value in asked.items()})
            )

        for field in (text, thread, begin, end):
            field.on("keydown.enter", search)
        ui.button(view.t("Filter", "筛选"), icon="filter_list", on_click=search).props(
            "unelevated no-caps"
        )
        if chosen.named:
            ui.link(view.t("All memories", "全部记忆"), view.link("/memories"))


def _new_forms(view: PageView) -> None:
    """Show the forms that remember a text, and that forget what is about a name."""
    if not view.may_write:
        return
    with ui.element("div").classes("grid-2"):
        with ui.expansion(view.t("Remember something", "记住新内容"), icon="add").classes(
            "panel fold"
        ):
            _remember_form(view)
        with ui.expansion(
            view.t("Forget what is about a name", "遗忘与某个名字有关的内容"), icon="auto_delete"
        ).classes("panel fold"):
            _forget_about_form(view)


def _remember_form(view: PageView) -> None:
    text = ui.textarea(view.t("Text", "内容")).props("outlined autogrow").classes("full")
    with ui.element("div").classes("row-line"):
        kind = ui.select(
            {one: kind_name(view, one) for one in ("semantic", "episodic", "item")},
            label=view.t("Kind", "类型"), value="semantic",
        ).props("outlined dense").classes("dates")  # fmt: skip
        importance = ui.number(
            view.t("Importance, 1 to 10", "重要性（1–10）"), value=5, min=1, max=10
        ).props("outlined dense").classes("dates")  # fmt: skip

    async def do() -> str:
        new = NewMemory(text=text.value or "", kind=kind.value, importance=importance.value or 5.0)
        [key] = await view.memory.remember(view.user, [new])
        return view.t(
            f"Remembered. Its key is {key}. To undo it: forget it.",
            f"已记住，键为 {key}。撤销：遗忘该条。",
        )

    action_button(
        view, view.t("Remember", "记住"), icon="add", do=do,
        will=lambda: view.t(
            f"This stores a memory of {view.user.user}; recall finds it from now on:",
            f"将为 {view.user.user} 保存一条记忆，之后检索即可找到：",
        ) + f"\n\n{text.value or '–'}",
    )  # fmt: skip


def _forget_about_form(view: PageView) -> None:
    topic = ui.input(view.t("A name or a thing, e.g. Theo", "名字或事物，如“小张”")).props(
        "outlined dense"
    ).classes("full")  # fmt: skip

    async def do() -> str:
        gone = await view.memory.forget_about(view.user, topic.value or "")
        done = gone.done
        if done.run_id is None:
            return view.t(
                f"No memory is about {gone.topic}, so nothing changed.",
                f"没有与“{gone.topic}”有关的记忆，未作任何改动。",
            )
        number, scope = counted(view, done.memories), view.user
        undo = f"hippocampus runs {scope.app} {scope.user} --undo {done.run_id}"
        until = view.time(done.until, day_only=True)
        return view.t(
            f"{number} about {gone.topic} set aside, {done.facts:,} facts among them, and"
            f" {done.edges:,} edges of the graph. They are erased on {until}.\n\nTo bring them back"
            f" before, undo the run {done.run_id} on the page Runs and jobs, or with: {undo}",
            f"已搁置与“{gone.topic}”有关的 {number}（其中事实 {done.facts:,} 条），以及图谱中的"
            f" {done.edges:,} 条边，将于 {until} 彻底删除。\n\n在此之前可以找回：在“运行与任务”页"
            f"撤销运行 {done.run_id}，或执行 {undo}",
        )

    action_button(
        view, view.t("Forget what is about it", "遗忘相关内容"), icon="auto_delete", do=do,
        will=lambda: view.t(
            f"Turns, facts, entries of profiles and edges of the graph that name “{topic.value}”"
            " leave recall now, and are erased after 30 days. Until then this can be undone.",
            f"提到“{topic.value}”的对话、事实、画像条目和图谱边会立即退出检索，30 天后彻底删除；"
            "此前可以撤销。",
        ),
    )  # fmt: skip


def _nothing(view: PageView, chosen: Chosen, total: int) -> None:
    if total:
        empty(view.t("This page is past the last memory.", "这一页已超出最后一条记忆。"))
    elif chosen.named:
        empty(view.t(
            "No memory in recall fits the filter. Faded memories are on the page Forgetting.",
            "没有符合条件的记忆。已淡忘的记忆见“遗忘”页。",
        ))  # fmt: skip
    else:
        empty(view.t(
            "No memories yet. They appear when an application stores turns of a conversation, or"
            " when you remember something above.",
            "还没有记忆。应用写入对话，或在上方“记住新内容”之后，这里就会出现。",
        ))  # fmt: skip


def _list(view: PageView, memories: Sequence[Memory]) -> None:
    """Show a page of memories, and what can be done with the selected ones."""
    actions = ui.element("div").classes("row-line")
    table = selectable_table(
        view,
        [
            ("time", view.t("Time (UTC)", "时间（UTC）")),
            ("kind", view.t("Kind", "类型")),
            ("text", view.t("Memory", "记忆")),
            ("author", view.t("Author", "作者")),
            ("thread", view.t("Thread", "会话线程")),
        ],
        [
            row_of(
                view, key=one.key, kind=one.kind, text=one.text, at=one.occurred_at,
                author=one.author, thread_id=one.thread_id, ended=one.superseded_at is not None,
            )
            for one in memories
        ],
    )  # fmt: skip
    if not view.may_write:
        return

    def chosen() -> list[str]:
        return selected_keys(table)

    with actions:
        buttons = [
            forget_button(view, chosen), pin_button(view, chosen), unpin_button(view, chosen),
        ]  # fmt: skip
        said = ui.label().classes("quiet").props("role=status")
    follow_selection(view, table, buttons, said)


def _pages(view: PageView, chosen: Chosen, offset: int, total: int) -> None:
    reached = min(total, DEEPEST + PAGE_SIZE)
    pages_of(view, "/memories", offset=offset, limit=PAGE_SIZE, total=reached, **chosen.named)
    if total > reached:
        ui.label(view.t(
            f"There are {total:,}. To see older ones, give a last day.",
            f"共 {total:,} 条。查看更早的记忆请指定截止日期。",
        )).classes("quiet")  # fmt: skip


PAGE = Page("/memories", "list_alt", "Memories", "记忆", body)
DETAIL = Page("/memory", "article", "Memory", "记忆详情", memory_detail.body)
"""Not in the navigation: other pages link to it."""
