"""What was said and learned, by day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final, get_args

from nicegui import ui
from nicegui.events import EChartPointClickEventArguments

from shared_core.core.domain import Memory, MemoryKind
from shared_core.ui.frame import Page
from shared_core.ui.pages.cells import Cell, folded, grid, styles
from shared_core.ui.pages.memory_table import CSS, MOST_OF_A_THREAD, SPLIT, TEXT, counted
from shared_core.ui.pages.time_ranges import UNITS, Range, Unit, title
from shared_core.ui.style import SERIES
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, heading, kind_badge, panel, whole_param

PAGE_SIZE: Final = 50
LEARNED: Final = tuple(kind for kind in get_args(MemoryKind) if kind != "episodic")
STYLE: Final = """
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: .4rem 1.2rem; width: 100%;
  border-top: 1px solid var(--line); padding: .5rem 0; }
.pair > div { display: flex; flex-direction: column; gap: .35rem; min-width: 0; }
.units a, .units span { padding: .15rem .55rem; border: 1px solid var(--line);
  border-radius: 1rem; text-decoration: none; }
.units .here { border-color: var(--accent); font-weight: 600; }
@media (max-width: 700px) {
  .pair { grid-template-columns: 1fr; }
  .pair > .learned { border-left: 3px solid var(--line); padding-left: .6rem; }
}
"""


async def body(view: PageView) -> None:
    """Build the page."""
    styles()
    ui.add_css(CSS)
    ui.add_css(STYLE)
    _form(view)
    chosen = await _range(view)
    if chosen is None:
        empty(view.t(
            "No memories yet. They appear when an application stores turns of a conversation.",
            "还没有记忆。应用写入对话之后，这里就会出现。",
        ))  # fmt: skip
        return
    wanted = view.params.get("unit")
    unit = next((one for one in chosen.units() if one == wanted), chosen.best_unit())
    await _bars(view, chosen, unit)
    await _days(view, chosen)


def _form(view: PageView) -> None:
    """Show the field for words that name a time."""
    with ui.element("div").classes("form-line"):
        field = ui.input(
            view.t("A time, in words", "用文字描述时间"), value=view.params.get("when", ""),
            placeholder=view.t("last Tuesday, 3 weeks ago, March 2026",
                               "上周二、三周前、2026年3月"),
        ).props("outlined dense clearable")  # fmt: skip

        def show() -> None:
            ui.navigate.to(view.link("/timeline", when=(field.value or "").strip() or None))

        field.on("keydown.enter", show)
        ui.button(view.t("Show", "查看"), icon="search", on_click=show).props("unelevated no-caps")
        ui.label(view.t("Days are in UTC.", "日期按 UTC 计算。")).classes("quiet")


async def _range(view: PageView) -> Range | None:
    """Return the range in the address, by default all of time; None without memories.

    Raises InvalidInput for words that name no time.
    """
    when = view.params.get("when") or None
    begin, end = view.params.get("begin") or None, view.params.get("end") or None
    asked = await view.memory.slice(
        view.user, when, begin=begin, end=end, order="oldest", limit=1, zone=UTC
    )
    since, until = asked.begin, asked.end
    if since is None or until is None:
        if not asked.memories:
            return None
        newest = await view.memory.slice(view.user, begin=begin, end=end, limit=1, zone=UTC)
        since = since or _day(asked.memories[0].occurred_at)
        until = until or _day(newest.memories[0].occurred_at) + timedelta(days=1)
    return Range(since.astimezone(UTC), until.astimezone(UTC))


def _day(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _link(view: PageView, one: Range, unit: Unit | None = None) -> str:
    return view.link("/timeline", begin=one.begin.isoformat(), end=one.end.isoformat(), unit=unit)


def unit_name(view: PageView, unit: Unit) -> str:
    """Return the word for a unit, as a button says it."""
    return {
        "year": view.t("years", "年"), "month": view.t("months", "月"),
        "week": view.t("weeks", "周"), "day": view.t("days", "日"),
        "hour": view.t("hours", "小时"), "minute": view.t("minutes", "分钟"),
    }[unit]  # fmt: skip


async def _bars(view: PageView, chosen: Range, unit: Unit) -> None:
    """Show how many turns and learned memories each part of the range has."""
    parts = chosen.parts(unit)
    bounds = [one.begin for one in parts]
    count = view.memory.count_memories
    said = await count(view.user, bounds, kinds=["episodic"], begin=chosen.begin, end=chosen.end)
    learned = await count(view.user, bounds, kinds=LEARNED, begin=chosen.begin, end=chosen.end)
    with panel():
        heading(f"{view.time(chosen.begin)} → {view.time(chosen.end)}")
        _zoom(view, chosen, unit)
        turns, others = sum(said), sum(learned)
        ui.label(view.t(
            f"{turns:,} turn{'' if turns == 1 else 's'}, {counted(view, others)} learned or stored."
            " Click a bar to zoom in.",
            f"对话 {turns:,} 轮，得出或写入的记忆 {others:,} 条。点击柱形可放大。",
        )).classes("quiet")  # fmt: skip
        if not turns + others:
            return

        def clicked(event: EChartPointClickEventArguments) -> None:
            if event.data_index < len(parts):
                ui.navigate.to(_link(view, parts[event.data_index]))

        options = _bar_options(view, [title(one, unit) for one in parts], said, learned)
        ui.echart(options, on_point_click=clicked).classes("chart")
        filled = [
            (one, spoken, found)
            for one, spoken, found in zip(parts, said, learned, strict=True)
            if spoken or found
        ]
        with folded(view.t("The same as a table", "以表格显示")):
            grid(
                [unit_name(view, unit), view.t("Turns", "对话"), view.t("Learned", "得出")],
                [
                    ([Cell(title(one, unit), _link(view, one)), f"{spoken:,}", f"{found:,}"], "")
                    for one, spoken, found in filled
                ],
                view.t("Memories by time", "各时段的记忆数"),
            )


def _bar_options(
    view: PageView, names: Sequence[str], said: Sequence[int], learned: Sequence[int]
) -> dict[str, object]:
    bars = [
        (view.t("said", "对话"), said, SERIES[0]),
        (view.t("learned or stored", "得出或写入"), learned, SERIES[1]),
    ]
    return {
        "grid": {"left": 44, "right": 12, "top": 36, "bottom": 32},
        "textStyle": TEXT, "legend": {"textStyle": TEXT, "top": 0},
        "tooltip": {"trigger": "axis", "renderMode": "richText",
                    "axisPointer": {"type": "shadow"}},
        "xAxis": {"type": "category", "data": list(names),
                  "axisLabel": {**TEXT, "hideOverlap": True}},
        "yAxis": {"type": "value", "minInterval": 1, "axisLabel": TEXT, "splitLine": SPLIT},
        "series": [
            {"type": "bar", "stack": "all", "name": name, "data": list(counts), "color": colour,
             "barMaxWidth": 48, "cursor": "pointer"}
            for name, counts, colour in bars
        ],
    }  # fmt: skip


def _zoom(view: PageView, chosen: Range, unit: Unit) -> None:
    """Show the units, and links to the ranges around, before and after."""
    with ui.element("nav").classes("row-line units") as nav:
        nav.props["aria-label"] = view.t("Unit and range", "单位与范围")
        allowed = chosen.units()
        for one in UNITS:
            if one == unit:
                with ui.element("span").classes("here").props("aria-current=true"):
                    ui.label(unit_name(view, one)).classes("inline")
            elif one in allowed and chosen.length > timedelta(0):
                ui.link(unit_name(view, one), _link(view, chosen, one))
            else:
                with ui.element("span").classes("quiet"):
                    ui.label(unit_name(view, one)).classes("inline")
    with ui.element("div").classes("row-line"):
        if (earlier := chosen.moved(-1)) is not None:
            ui.link(view.t("← earlier", "← 更早"), _link(view, earlier))
        if (later := chosen.moved(1)) is not None:
            ui.link(view.t("later →", "更晚 →"), _link(view, later))
        if (around := chosen.around()) is not None:
            ui.link(view.t("Zoom out", "缩小"), _link(view, around))
        ui.link(view.t("All of time", "全部时间"), view.link("/timeline"))
        ui.link(
            view.t("As a table of memories", "在记忆列表中查看"),
            view.link("/memories", begin=chosen.begin.isoformat(), end=chosen.end.isoformat()),
        )


async def _days(view: PageView, chosen: Range) -> None:
    """Show the memories of the range by day, turns beside what was learned from them."""
    offset = whole_param(view, "offset", 0, 100_000)
    total = await view.memory.count_memories(view.user, begin=chosen.begin, end=chosen.end)
    found = await view.memory.slice(
        view.user,
        begin=chosen.begin,
        end=chosen.end,
        order="oldest",
        limit=PAGE_SIZE,
        offset=offset,
    )
    if not found.memories:
        empty(view.t("No memories in this range.", "该时段没有记忆。"))
        return
    beside = await _learned_from(view, found.memories)
    shown = {one.memory_id for turn in beside.values() for one in turn}
    left_over = [one for one in found.memories if one.memory_id not in shown]
    for day, of_day in groupby(left_over, key=lambda one: _day(one.occurred_at)):
        with panel():
            heading(view.time(day, day_only=True) + " " + _weekday(view, day))
            for one in of_day:
                _pair(view, one, beside.get(one.key, ()))
    params = {name: view.params.get(name) for name in ("when", "begin", "end", "unit")}
    with ui.element("nav").classes("row-line"):
        ui.label(f"{offset + 1:,}–{offset + len(found.memories):,} / {total:,}").classes("quiet")
        if offset:
            before = max(0, offset - PAGE_SIZE) or None
            ui.link(view.t("← earlier", "← 更早"),
                    view.link("/timeline", **params, offset=before))  # fmt: skip
        if offset + PAGE_SIZE < total:
            ui.link(view.t("later →", "更晚 →"),
                    view.link("/timeline", **params, offset=offset + PAGE_SIZE))  # fmt: skip


def _weekday(view: PageView, day: datetime) -> str:
    english = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    return view.t(english[day.weekday()], "星期" + "一二三四五六日"[day.weekday()])


async def _learned_from(
    view: PageView, memories: Sequence[Memory]
) -> Mapping[str, Sequence[Memory]]:
    """Return, by the key of each turn, the facts and insights that were derived from it."""
    turns = [one for one in memories if one.kind == "episodic" and one.thread_id]
    found: dict[str, list[Memory]] = {}
    for thread_id in dict.fromkeys(one.thread_id for one in turns):
        learned = await view.memory.list_memories(
            view.user, thread_id=thread_id, kinds=["semantic", "reflection"],
            limit=MOST_OF_A_THREAD,
        )  # fmt: skip
        for turn in turns:
            if turn.thread_id == thread_id:
                events = set(turn.source_event_ids)
                from_it = [one for one in learned if events & set(one.source_event_ids)]
                found.setdefault(turn.key, []).extend(from_it)
    return found


def _pair(view: PageView, one: Memory, learned: Sequence[Memory]) -> None:
    """Show a turn beside what was learned from it; anything else on the side of the learned."""
    is_turn = one.kind == "episodic"
    with ui.element("div").classes("pair"):
        with ui.element("div"):
            if is_turn:
                _memory(view, one)
        with ui.element("div").classes("learned"):
            for other in learned if is_turn else [one]:
                _memory(view, other)


def _memory(view: PageView, one: Memory) -> None:
    with ui.element("div").classes("row-line"):
        kind_badge(view, one.kind)
        ui.label(f"{one.occurred_at.astimezone(UTC):%H:%M}").classes("quiet")
        if one.author:
            ui.label(one.author).classes("quiet")
        if one.thread_id:
            ui.link(one.thread_id, view.link("/memories", thread=one.thread_id)).classes("quiet")
        ui.link(view.t("details", "详情"), view.link("/memory", key=one.key)).classes("quiet")
    ui.label(one.text).classes("text")


PAGE = Page("/timeline", "timeline", "Timeline", "时间线", body)
