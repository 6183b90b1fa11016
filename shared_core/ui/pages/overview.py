"""The first page: how much there is, and whether the memory is well.

The page is drawn first. Then its parts fill themselves, the quick ones before those that read
every memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from shared_core.core.locale import speaking
from shared_core.ports.recall import KINDS
from shared_core.ports.storage import StorageReport
from shared_core.ui.frame import Page, user_list
from shared_core.ui.options import HealthFinding
from shared_core.ui.pages import overview_numbers as numbers
from shared_core.ui.pages.hit_rows import DETAILS_STYLE, gradient
from shared_core.ui.pages.overview_numbers import Days, FadingCounts, Step, Whose
from shared_core.ui.style import COLOURS, SERIES
from shared_core.ui.view import PageView
from shared_core.ui.widgets import guarded, heading, kind_name, panel, table

OVERVIEW_STYLE: Final = """
.counts { display: grid; grid-template-columns: max-content max-content 1fr; gap: .35rem .8rem;
  align-items: center; width: 100%; }
.counts .count { text-align: right; font-variant-numeric: tabular-nums; }
.counts .share { height: .8rem; border-radius: .2rem; }
.about { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; width: 100%; }
.about > * { overflow-wrap: anywhere; }
.finding { border-left: 4px solid; padding: .1rem .7rem; width: 100%; }
.growth { height: 220px; width: 100%; }
"""
COUNTED_BY_ITSELF: Final = 300_000
"""Memories up to which the parts that read every memory fill themselves; else on a click."""
STEPS: Final = {"day": 60, "week": 53, "month": 13}
"""Bars of the growth by each step, at most."""
STATUS_COLOURS: Final = {"ok": "#009E73", "note": "#E69F00", "problem": "#D55E00"}


async def body(view: PageView) -> None:
    """Build the page; everything that is read from the memory is filled in afterwards."""
    ui.add_css(DETAILS_STYLE + OVERVIEW_STYLE)
    _Overview(view, numbers.whose(view)).build()


class _Tile:
    """A figure that is filled in later."""

    def __init__(self, label: str, mark: str) -> None:
        with ui.element("div").classes("panel tile"):
            ui.label(label).classes("quiet")
            self.number = ui.label("…").classes("number").mark(mark)
            self.note = ui.label("").classes("quiet")

    def set(self, number: str, note: str = "") -> None:
        self.number.text, self.note.text = number, note


class _Overview:
    """The parts of the page."""

    def __init__(self, view: PageView, of: Whose) -> None:
        self.view, self.of = view, of

    def build(self) -> None:
        """Draw the parts without their numbers, and let them fill themselves."""
        view, t = self.view, self.view.t
        self._whose()
        with ui.element("div").classes("tiles"):
            self._memories = _Tile(t("Memories in recall", "可检索的记忆"), "memories")
            self._users = _Tile(t("Users", "用户"), "users")
            self._week = _Tile(t("Fade within 7 days", "7 天内淡出"), "week")
            self._waiting = _Tile(t("Jobs waiting", "等待的任务"), "waiting")
            self._running = _Tile(t("Jobs running", "运行中的任务"), "running")
            self._dead = _Tile(t("Jobs dead", "失败的任务"), "dead")
        with ui.element("div").classes("row-line"):
            ui.link(t("What is forgotten", "将遗忘什么"), view.link("/forgetting"))
            ui.link(t("Runs and jobs", "运行与任务"), view.link("/runs"))
        with ui.element("div").classes("grid-2"):
            self._kinds = self._part(t("By kind, faded ones too", "按类型（含已淡出的）"))
            self._ages = self._part(t("By age", "按时间远近"))
        self._growth = self._part(t("Growth", "增长"))
        with ui.element("div").classes("grid-2"):
            people = None if view.scope else self._part("")
            self._system = self._part(t("Engine", "引擎"))
        self._health()
        self._later(self._fill_engine, self._system)
        self._later(self._fill_queue, None)
        if people is not None:
            self._later(lambda: user_list(view, "/ask"), people)
        self._later(self._fill_counts, None)

    def _whose(self) -> None:
        view, t = self.view, self.view.t
        if view.scope is not None:
            said = t(f"Of {view.scope.user} in {view.scope.app}.",
                     f"应用 {view.scope.app} 的用户 {view.scope.user}。")  # fmt: skip
        elif view.caller.app is not None:
            said = t(f"Of application {view.caller.app}, as far as your token reaches.",
                     f"应用 {view.caller.app} 中你的令牌可见的部分。")  # fmt: skip
        else:
            said = t("Of the whole memory. Choose a user to see one person's.",
                     "整个记忆库。选择用户后只显示该用户。")  # fmt: skip
        with ui.element("div").classes("row-line"):
            ui.label(said).classes("quiet")
            if view.scope is not None and len(view.caller.users or ("", "")) > 1:
                ui.link(
                    t("Show everybody", "显示全部用户"), view.link("/", app=None, user=None)
                ).classes("quiet")

    def _part(self, title: str) -> ui.element:
        with panel():
            if title:
                heading(title)
            place = ui.element("div").classes("full")
        with place:
            ui.label("…").classes("quiet")
        return place

    def _later(self, fill: Callable[[], Awaitable[None]], place: ui.element | None) -> None:
        """Fill a part after the page is drawn. place: is emptied first; None if fill does it."""

        async def run() -> None:
            if place is None:
                await fill()
                return
            place.clear()
            with place:
                await fill()

        ui.timer(0, guarded(self.view, run), once=True)

    async def _fill_engine(self) -> None:
        report = await self.view.memory.report()
        with ui.element("div").classes("about"):
            for label, value in _about(self.view, report):
                ui.label(label).classes("quiet")
                ui.label(value)

    async def _fill_queue(self) -> None:
        t, queue = self.view.t, await numbers.queue_of(self.view.memory, self.of)
        oldest = ""
        if queue.oldest_s is not None:
            minutes = f"{queue.oldest_s / 60:,.0f}"
            oldest = t(f"the oldest for {minutes} min", f"最久的已等 {minutes} 分钟")
        more = "" if queue.are_all else "+"
        self._waiting.set(f"{queue.waiting:,}{more}", oldest)
        self._running.set(f"{queue.running:,}{more}")
        self._dead.set(f"{queue.dead:,}{more}")

    async def _fill_counts(self) -> None:
        """Fill what reads the memories: totals first, then kinds, ages and growth."""
        view, t = self.view, self.view.t
        found = await numbers.users_of(view.memory, self.of)
        users, is_all = found.memories, found.are_all
        total = sum(users.values())
        some = t("of the first 1,000 users", "前 1,000 位用户") * (not is_all)
        apps = len({scope.app for scope in users})
        self._memories.set(f"{total:,}", some)
        self._users.set(
            f"{len(users):,}" + ("" if is_all else "+"),
            t(f"in {apps:,} applications", f"分属 {apps:,} 个应用") * (apps > 1),
        )

        async def count() -> None:
            days = await numbers.days_of(view.memory, users)
            self._show(self._ages, lambda: _ages(view, days))
            self._show(self._growth, lambda: _growth(view, days, some))
            fading = await numbers.fading_of(view.memory, self.of)
            self._show_fading(fading)

        if not users:
            for place in (self._kinds, self._ages, self._growth):
                self._show(place, lambda: _nothing(view))
            self._week.set("0")
        elif total <= COUNTED_BY_ITSELF and is_all:
            await count()
        else:
            self._offer(count)

    def _offer(self, count: Callable[[], Awaitable[None]]) -> None:
        """Offer to count a large memory, which takes a while and reads all of it."""
        t = self.view.t
        self._week.set("–")
        for place in (self._ages, self._growth):
            self._show(place, lambda: ui.label(t("Not counted yet.", "尚未统计。")))

        def offer() -> None:
            ui.label(t("This memory is large: counting reads all of it once.",
                       "记忆库较大：统计会完整读取一遍。")).classes("quiet")  # fmt: skip
            button = ui.button(t("Count", "开始统计"), icon="calculate")
            button.props("outline no-caps dense")

            async def counted() -> None:
                button.disable()
                await count()

            button.on_click(guarded(self.view, counted))

        self._show(self._kinds, offer)

    def _show(self, place: ui.element, draw: Callable[[], object]) -> None:
        place.clear()
        with place:
            draw()

    def _show_fading(self, fading: FadingCounts) -> None:
        view, t = self.view, self.view.t
        week = fading.week
        self._week.set(
            f"{week['demoted']:,}",
            t(f"archived {week['archived']:,} · erased {week['erased']:,}",
              f"归档 {week['archived']:,} · 删除 {week['erased']:,}"),
        )  # fmt: skip

        def draw() -> None:
            if not self.of.are_all:
                ui.label(t("Of the first 1,000 users.", "仅前 1,000 位用户。")).classes("quiet")
            _counts(
                (kind_name(view, kind), fading.kinds.get(kind, 0), COLOURS[kind]) for kind in KINDS
            )
            ui.label(
                t(f"{fading.faded:,} have faded out of recall, {fading.pinned:,} are pinned.",
                  f"其中 {fading.faded:,} 条已淡出检索，{fading.pinned:,} 条已固定。")
            ).classes("quiet")  # fmt: skip

        self._show(self._kinds, draw)

    def _health(self) -> None:
        view, t = self.view, self.view.t
        examine = view.inspector.options.examine
        if examine is None or view.caller.app is not None:
            return
        with panel():
            heading(t("Health", "健康检查"))
            ui.label(
                t("Runs the checks of `hippocampus doctor`: database, rights, vectors, models,"
                  " queue. They read only.",
                  "执行 hippocampus doctor 的各项检查：数据库、权限、向量、模型与队列。"
                  "只读取，不修改。")
            ).classes("quiet")  # fmt: skip
            button = ui.button(t("Examine", "开始检查"), icon="health_and_safety")
            button.props("outline no-caps dense").mark("examine")
            place = ui.element("div").classes("results")

        async def run() -> None:
            button.disable()
            place.clear()
            with place:
                ui.spinner()
            try:
                with speaking(view.language):
                    findings = await asyncio.to_thread(examine)
            finally:
                button.enable()
                place.clear()
            with place:
                _findings(view, findings)

        button.on_click(guarded(view, run))


def _about(view: PageView, report: StorageReport) -> Iterable[tuple[str, str]]:
    """Yield labels and values about the engine; the place of the database for its owner alone."""
    t = view.t
    yield t("Engine", "引擎"), f"{report.engine} {report.server_version}"
    if report.extension_version:
        yield t("Vectors", "向量扩展"), report.extension_version
    model = report.model or t("none yet", "尚无")
    if report.dimensions:
        model += t(f", {report.dimensions} dimensions", f"，{report.dimensions} 维")
    yield t("Embedder", "嵌入模型"), model
    if view.caller.app is not None:
        return
    if report.size_bytes is not None:
        yield t("On disk", "磁盘占用"), f"{report.size_bytes / 1024**2:,.1f} MB"
    yield t("Database", "数据库"), report.location
    yield t("Schema", "模式"), t(f"{report.schema}, version {report.schema_version}",
                                 f"{report.schema}，版本 {report.schema_version}")  # fmt: skip
    yield t("Role", "角色"), report.role


def _counts(rows: Iterable[tuple[str, int, str]]) -> None:
    """Show counts with their names as bars: name, count, colour."""
    listed = [*rows]
    most = max((count for _, count, _ in listed), default=0) or 1
    with ui.element("div").classes("counts"):
        for name, count, colour in listed:
            ui.label(name)
            ui.label(f"{count:,}").classes("count")
            bar = ui.element("span").classes("share").props("aria-hidden=true")
            bar.style(f"background: {gradient([(colour, count / most)], 'var(--line)')}")


def _ages(view: PageView, days: Days) -> None:
    t = view.t
    names = [
        t("today", "今天"), t("up to 7 days", "7 天内"), t("up to 30 days", "30 天内"),
        t("up to 90 days", "90 天内"), t("up to a year", "一年内"), t("older", "更早"),
    ]  # fmt: skip
    rows = [(name, count, SERIES[0]) for name, count in zip(names, days.ages, strict=True)]
    if days.after:
        rows.insert(0, (t("after today", "今天以后"), days.after, SERIES[0]))
    _counts(rows)


def _growth(view: PageView, days: Days, some: str) -> None:
    """Show the memories by day, week or month, as a chart and as a table."""
    t = view.t
    names = {
        "day": t("by day", "按天"),
        "week": t("by week", "按周"),
        "month": t("by month", "按月"),
    }
    asked = view.params.get("by", "")
    step: Step = "day" if asked == "day" else "month" if asked == "month" else "week"
    steps = days.by(step, STEPS[step])
    whole = sum(count for _, count in steps)
    busiest, most = max(steps, key=lambda one: one[1])
    with ui.element("div").classes("row-line"):
        for one, name in names.items():
            link = ui.link(name, view.link("/", by=one))
            if one == step:
                link.props("aria-current=true").style("font-weight: 700")
        ui.label(
            t(f"{whole:,} memories {some} by when they occurred, at most {most:,} at once, from"
              f" {busiest:%Y-%m-%d}.",
              f"按发生时间{some}共 {whole:,} 条，最多一段 {most:,} 条，"
              f"始于 {busiest:%Y-%m-%d}。")
        ).classes("quiet")  # fmt: skip
    _chart([f"{begin:%Y-%m-%d}" for begin, _ in steps], [count for _, count in steps])
    with ui.element("details").classes("plain-details"):
        TextElement(tag="summary", text=t("As a table", "以表格显示"))
        table(
            [("begin", t("from", "起")), ("count", t("memories", "记忆"))],
            [{"begin": f"{begin:%Y-%m-%d}", "count": f"{count:,}"} for begin, count in steps[::-1]
             if count],
            row_key="begin",
        )  # fmt: skip


def _chart(names: Sequence[str], counts: Sequence[int]) -> None:
    axis = {"axisLabel": {"color": "#888"}, "axisLine": {"lineStyle": {"color": "#888"}}}
    ui.echart(
        {
            "animation": False,
            "grid": {"left": 8, "right": 8, "top": 12, "bottom": 8, "containLabel": True},
            "tooltip": {"renderMode": "richText", "trigger": "axis"},
            "xAxis": {"type": "category", "data": [*names], **axis},
            "yAxis": {"type": "value", "minInterval": 1, **axis,
                      "splitLine": {"lineStyle": {"color": "#8884"}}},
            "series": [{"type": "bar", "data": [*counts], "color": SERIES[0]}],
        }
    ).classes("growth").props("aria-hidden=true")  # fmt: skip


def _nothing(view: PageView) -> None:
    ui.label(
        view.t("Nothing yet. Memories appear once an agent stores turns here; to try it:"
               " hippocampus demo --keep.",
               "还没有内容。智能体写入对话后会显示在这里；想先试试可运行 hippocampus demo --keep。")
    ).classes("quiet")  # fmt: skip


def _findings(view: PageView, findings: Sequence[HealthFinding]) -> None:
    """Show what the doctor found, problems first."""
    words = {
        "ok": view.t("✓ well", "✓ 正常"),
        "note": view.t("ℹ note", "ℹ 提示"),
        "problem": view.t("✕ problem", "✕ 问题"),
    }
    order = ["problem", "note", "ok"]
    for one in sorted(findings, key=lambda one: order.index(one.status)):
        with (
            ui.element("div")
            .classes("finding")
            .style(f"border-color: {STATUS_COLOURS[one.status]}")
        ):
            ui.label(f"{words[one.status]} · {one.check}").classes("quiet")
            ui.label(one.found).classes("text")
            if one.advice:
                ui.label(one.advice).classes("text quiet")


PAGE = Page("/", "dashboard", "Overview", "概览", body, of_user=False)
