"""The context window of a question: each line, what it costs, why it is there, what is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final
from uuid import uuid4

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from shared_core.context.composition import ENDED, SAID_AGAIN, TELLS_NOTHING, TOLD
from shared_core.context.window import ContextItem, ContextWindow, DroppedItem
from shared_core.core.delimiters import READING_ORDER, Section
from shared_core.core.domain import Scope
from shared_core.engine import MemoryEngine
from shared_core.ui.pages.hit_rows import figure, gradient
from shared_core.ui.pages.question import AskedQuestion
from shared_core.ui.style import SERIES
from shared_core.ui.view import PageView
from shared_core.ui.widgets import kind_name

WINDOW_STYLE: Final = """
.window-line { display: grid; grid-template-columns: 5.5rem 1fr minmax(8rem, 16rem); gap: .6rem;
  padding: .3rem .4rem; border-top: 1px solid var(--line); width: 100%; }
.window-line .text { display: -webkit-box; -webkit-line-clamp: 4; -webkit-box-orient: vertical;
  overflow: hidden; }
.window-line .cost { font-variant-numeric: tabular-nums; white-space: pre-line; }
.budget-bar { height: 1.1rem; border-radius: .3rem; width: 100%; border: 1px solid var(--line); }
.prompt { white-space: pre-wrap; overflow-wrap: anywhere; font: .85rem/1.5 ui-monospace, monospace;
  border: 1px solid var(--line); border-radius: .4rem; padding: .6rem; max-height: 30rem;
  overflow: auto; }
@media (max-width: 600px) { .window-line { grid-template-columns: 4rem 1fr; }
  .window-line .why { grid-column: 2; } }
"""
MOST_CHARACTERS: Final = 400
MOST_LINES: Final = 150
"""Lines that are shown of a window, and of what was left out; the prompt shows all."""
THREADS_FROM: Final = 200
"""Newest turns whose threads can be chosen."""


async def threads_of(memory: MemoryEngine, user: Scope) -> list[str]:
    """Return the threads of the newest turns, newest first."""
    turns = await memory.list_memories(user, kinds=["episodic"], limit=THREADS_FROM)
    return [*dict.fromkeys(turn.thread_id for turn in turns if turn.thread_id)]


async def read_window(view: PageView, asked: AskedQuestion) -> Callable[[], None]:
    """Read what a model would be shown before it answers the question; return what shows that."""
    window = await view.memory.context_window(
        view.user, asked.thread or str(uuid4()), asked.text, max_tokens=asked.budget,
        as_of=asked.moment,
    )  # fmt: skip
    return partial(_show, view, window)


def _show(view: PageView, window: ContextWindow) -> None:
    names = section_names(view)
    _budget(view, window, names)
    for section, items in groupby(window.items[:MOST_LINES], key=lambda item: item.section):
        _heading(names[section], section)
        for item in items:
            _line(view, item, _why(view, item))
    _more(view, len(window.items))
    if window.dropped:
        ui.label(view.t("Left out", "未放入")).classes("heading")
        for one in window.dropped[:MOST_LINES]:
            _line(view, one.item, _why_not(view, one), names[one.item.section])
        _more(view, len(window.dropped))
    with ui.element("details").classes("plain-details full"):
        said = view.t("The text as the model reads it", "模型读到的原文")
        TextElement(tag="summary", text=said)
        ui.label(window.to_prompt()).classes("prompt")


def section_names(view: PageView) -> Mapping[Section, str]:
    """Return words for the sections of a window."""
    return {
        "system": view.t("system prompt", "系统提示词"),
        "instructions": view.t("instructions", "指令"),
        "profile": view.t("profile", "画像"),
        "facts": view.t("facts", "事实"),
        "memories": view.t("memories", "记忆"),
        "summary": view.t("summary", "摘要"),
        "history": view.t("history", "最近对话"),
        "query": view.t("question", "问题"),
    }


def _colour(section: Section) -> str:
    return SERIES[READING_ORDER.index(section)]


def _budget(view: PageView, window: ContextWindow, names: Mapping[Section, str]) -> None:
    """Show the cost of each section against the budget, as a bar and in words."""
    costs = {
        section: sum(item.tokens for item in items)
        for section in READING_ORDER
        if (items := window.section(section))
    }
    frame = max(window.tokens - sum(costs.values()), 0)
    used, most = window.tokens, window.max_tokens
    ui.label(
        view.t(f"{used:,} of {most:,} tokens ({window.budget_used:.0%})",
               f"已用 {used:,} / {most:,} 个 token（{window.budget_used:.0%}）")
    ).classes("heading")  # fmt: skip
    pieces = [(_colour(section), cost / most) for section, cost in costs.items()]
    ui.element("div").classes("budget-bar").style(
        f"background: {gradient([*pieces, ('var(--quiet)', frame / most)])}"
    ).props("aria-hidden=true")
    with ui.element("div").classes("row-line"):
        for section, cost in costs.items():
            label = ui.label(f"{names[section]} {cost:,}").classes("legend")
            label.style(f"border-color: {_colour(section)}")
        ui.label(view.t(f"tags and notice {frame:,}", f"标签与说明 {frame:,}")).classes(
            "legend"
        ).style("border-color: var(--quiet)")
        ui.label(view.t(f"free {most - used:,}", f"剩余 {most - used:,}")).classes("quiet")


def _heading(name: str, section: Section) -> None:
    ui.label(name).classes("legend").style(f"border-color: {_colour(section)}; font-weight: 600")


def _line(view: PageView, item: ContextItem, why: str, section: str = "") -> None:
    cost = view.t(f"{item.tokens:,} tok.", f"{item.tokens:,} token") if item.tokens else ""
    text = item.text
    if len(text) > MOST_CHARACTERS:
        text = text[:MOST_CHARACTERS] + " …"
    with ui.element("div").classes("window-line"):
        ui.label(f"{section or item.ref}\n{cost}").classes("cost quiet")
        if item.source and item.section in ("facts", "memories"):
            with ui.link(target=view.link("/memory", key=item.source)).classes("text"):
                ui.label(text).classes("inline")
        else:
            ui.label(text).classes("text")
        ui.label(why).classes("why quiet")


def _why(view: PageView, item: ContextItem) -> str:
    """Return why an item is in the window, and from when it is."""
    is_hit = bool(item.score_parts)
    why = {
        "system": view.t("always there", "始终包含"),
        "instructions": view.t("an instruction", "指令"),
        "profile": view.t("the stored profile of the user", "已存储的用户画像"),
        "facts": view.t("a fact that holds", "当前成立的事实"),
        "memories": view.t("found for the question", "因问题而找到"),
        "summary": view.t("the summary of the thread", "该会话的摘要"),
        "history": view.t("one of the last turns of the thread", "该会话最近的对话之一"),
        "query": view.t("the question comes last", "问题放在最后"),
    }[item.section]
    if item.section == "facts" and is_hit:
        why = view.t("a fact that has to do with the question", "与问题有关的事实")
    if is_hit and item.score is not None:
        why += view.t(f", score {figure(item.score)}", f"，得分 {figure(item.score)}")
    return " · ".join([why, *_about(view, item)])


def _about(view: PageView, item: ContextItem) -> Sequence[str]:
    about: list[str] = []
    if item.kind and item.section == "memories":
        about.append(kind_name(view, item.kind))
    if item.author:
        about.append(item.author)
    if item.valid_from:
        since = view.time(item.valid_from, day_only=True)
        about.append(view.t(f"since {since}", f"自 {since} 起"))
    elif item.occurred_at:
        about.append(view.time(item.occurred_at))
    if item.valid_until:
        until = view.time(item.valid_until, day_only=True)
        about.append(view.t(f"until {until}", f"至 {until}"))
    if item.is_doubtful:
        about.append(view.t("uncertain", "存疑"))
    if item.cut:
        about.append(view.t("shortened to fit", "为放得下而截短"))
    return about


_REASONS: Final = {
    "over budget": ("no room is left in the budget", "预算已用完"),
    "no text": ("it has no text", "没有文本"),
    ENDED: ("it has ended", "已经结束"),
    TELLS_NOTHING: ("it only asks, agrees or repeats", "只是提问、附和或重复"),
    TOLD: ("other items tell it", "其他条目已说明"),
    SAID_AGAIN: ("a better item says it", "更合适的条目已说过"),
}


def _why_not(view: PageView, one: DroppedItem) -> str:
    reason = one.reason
    if reason in _REASONS:
        reason = view.t(*_REASONS[reason])
    elif reason.startswith("duplicate of "):
        other = reason.removeprefix("duplicate of ")
        reason = view.t(f"says the same as {other}", f"与 {other} 内容相同")
    if one.item.score_parts and one.item.score is not None:
        reason += view.t(f", score {figure(one.item.score)}", f"，得分 {figure(one.item.score)}")
    return " · ".join([reason, *_about(view, one.item)])


def _more(view: PageView, number: int) -> None:
    if number > MOST_LINES:
        rest = number - MOST_LINES
        ui.label(view.t(f"and {rest:,} more", f"另有 {rest:,} 条")).classes("quiet")
