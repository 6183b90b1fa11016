"""How memories fade, what goes when, and how to bring it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from nicegui import ui

from shared_core.core.domain import MemoryKind
from shared_core.core.retention_policy import FATES, STAGES, Rules
from shared_core.retention.cleanup import RetentionReport
from shared_core.retention.statistics import BUCKETS, RetentionStats
from shared_core.ui.actions import action_button
from shared_core.ui.frame import Page
from shared_core.ui.pages.cells import Cell, grid, styles
from shared_core.ui.pages.memory_table import (
    CSS,
    SPLIT,
    TEXT,
    counted,
    cut,
    follow_selection,
    forget_button,
    pin_button,
    revive_button,
    row_of,
    selectable_table,
    selected_keys,
)
from shared_core.ui.pages.policy_form import policy_forms
from shared_core.ui.pages.policy_text import (
    FATE_COLOURS,
    Fade,
    Levels,
    fade_in_words,
    fades_of,
    fate_name,
    horizon,
    levels_of,
    policy_name,
    stage_name,
    stage_rule,
    why_due,
)
from shared_core.ui.style import SERIES
from shared_core.ui.view import PageView
from shared_core.ui.widgets import guarded, heading, kind_name, panel, tile, whole_param

DAYS: Final = (7.0, 30.0, 90.0)
PAGE_SIZE: Final = 50
LISTED: Final = 100
"""Memories that the dry run of a cleanup lists."""
IMPORTANCE: Final = (1, 5, 10)


async def body(view: PageView) -> None:
    """Build the page."""
    styles()
    ui.add_css(CSS)
    retention = view.memory.retention
    _statistics(view)
    rules, levels = await retention.policy(view.user), await levels_of(view)
    _policy(view, rules, levels)
    _curves(view, rules)
    due = await retention.forget_faded(view.user, dry_run=True, limit=LISTED)
    await _due(view, due)
    await _faded(view)


def _statistics(view: PageView) -> None:
    """Show the statistics as soon as they are counted: they read every memory of the user."""
    place = ui.element("div").classes("stack")
    with place, ui.element("div").classes("row-line"):
        ui.spinner()
        ui.label(view.t("Counting the memories …", "正在统计记忆……")).classes("quiet")

    async def fill() -> None:
        stats = await view.memory.retention.stats(view.user, days=DAYS)
        place.clear()
        with place:
            _stages(view, stats)
            with ui.element("div").classes("grid-2"):
                _ahead(view, stats)
                _scores(view, stats)

    ui.timer(0.05, guarded(view, fill), once=True)


def _stages(view: PageView, stats: RetentionStats) -> None:
    """Show the number of memories by stage, in total and by kind."""
    total = stats.total
    with ui.element("div").classes("tiles"):
        for stage in STAGES:
            tile(stage_name(view, stage), f"{total.stages[stage]:,}")
        tile(view.t("pinned", "已固定"), f"{total.pinned:,}")
        tile(
            view.t("ever fade", "会淡忘"), f"{total.fades:,}",
            view.t(f"of {total.count:,}", f"共 {total.count:,} 条"),
        )  # fmt: skip
    if not stats.kinds:
        return
    with ui.expansion(view.t("By kind", "按类型")).classes("panel fold"):
        rows_of(
            [
                ("kind", view.t("Kind", "类型")),
                ("count", view.t("Memories", "记忆数")),
                ("score", view.t("Average score", "平均得分")),
                *((stage, stage_name(view, stage)) for stage in STAGES),
                ("pinned", view.t("pinned", "已固定")),
                ("fades", view.t("ever fade", "会淡忘")),
            ],
            [
                {
                    "kind": kind_name(view, kind), "count": f"{one.count:,}",
                    "score": "–" if one.average_score is None else f"{one.average_score:.2f}",
                    "pinned": f"{one.pinned:,}", "fades": f"{one.fades:,}",
                    **{stage: f"{number:,}" for stage, number in one.stages.items()},
                }
                for kind, one in stats.kinds.items()
            ],
            view.t("Memories by kind", "各类型的记忆"),
        )  # fmt: skip


def rows_of(
    columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, str]], label: str
) -> None:
    """Show rows by the names of their columns."""
    grid(
        [name for _, name in columns],
        [([row.get(field, "") for field, _ in columns], "") for row in rows],
        label,
    )


def _ahead(view: PageView, stats: RetentionStats) -> None:
    """Show what fades within some days if nothing is read."""
    with panel():
        heading(view.t("What goes when, if nothing is read", "若不再读取，何时淡忘"))
        rows_of(
            [
                ("days", view.t("Within", "期限")),
                *((fate, fate_name(view, fate)) for fate in FATES),
            ],
            [
                {
                    "days": view.t(f"{days:g} days", f"{days:g} 天内"),
                    **{fate: f"{number:,}" for fate, number in fates.items()},
                }
                for days, fates in stats.ahead.items()
            ],
            view.t("What goes when", "何时淡忘"),
        )  # fmt: skip


def _scores(view: PageView, stats: RetentionStats) -> None:
    """Show how many memories have which score."""
    with panel():
        heading(view.t("Memories by retention score", "记忆的保留得分分布"))
        labels = [
            f"{number / BUCKETS:.1f}–{(number + 1) / BUCKETS:.1f}" for number in range(BUCKETS)
        ]
        ui.echart({
            "grid": {"left": 44, "right": 8, "top": 12, "bottom": 40},
            "textStyle": TEXT,
            "tooltip": {"renderMode": "richText"},
            "xAxis": {"type": "category", "data": labels,
                      "axisLabel": {**TEXT, "rotate": 45, "fontSize": 10}},
            "yAxis": {"type": "value", "minInterval": 1, "axisLabel": TEXT, "splitLine": SPLIT},
            "series": [{"type": "bar", "data": list(stats.total.buckets), "color": SERIES[0]}],
        }).style("height: 180px").classes("full")  # fmt: skip
        ui.label(view.t(
            f"{stats.high:,} score 0.7 or more, {stats.medium:,} from 0.3, {stats.low:,} less. A"
            " memory that never fades scores as if it were new.",
            f"0.7 及以上 {stats.high:,} 条，0.3 至 0.7 {stats.medium:,} 条，0.3 以下"
            f" {stats.low:,} 条。不会淡忘的记忆按新记忆计分。",
        )).classes("quiet")  # fmt: skip


def _policy(view: PageView, rules: Rules, levels: Levels) -> None:
    """Show the policy of each kind and where it comes from, and the forms that change it."""
    with panel():
        heading(view.t("The policy in force", "生效的策略"))
        rows_of(
            [
                ("kind", view.t("Kind", "类型")),
                ("policy", view.t("Policy", "策略")),
                ("source", view.t("Where it comes from", "来源")),
                ("rate", view.t("Decay λ a day", "每日衰减 λ")),
                ("demoted", view.t("Fades", "淡忘")),
                ("archived", view.t("Archived", "归档")),
                ("erased", view.t("Erased", "彻底删除")),
            ],
            [_policy_row(view, kind, rules, levels) for kind in get_args(MemoryKind)],
            view.t("The policy in force", "生效的策略"),
        )
        ui.label(view.t(
            "The nearest policy counts: of the user, of the application, of everyone, built in.",
            "就近生效：用户、应用、全局、内置默认。",
        )).classes("quiet")  # fmt: skip
    policy_forms(view, rules, levels)


def _policy_row(view: PageView, kind: MemoryKind, rules: Rules, levels: Levels) -> dict[str, str]:
    rule = rules[kind]
    row = {
        "kind": kind_name(view, kind), "policy": policy_name(view, rule),
        "source": levels.source(view, kind),
    }  # fmt: skip
    if rule is not None:
        row |= {
            "rate": f"{rule.decay_rate:g}",
            "demoted": view.t(
                f"below {rule.threshold:g}, {rule.min_age_days:g} days old",
                f"低于 {rule.threshold:g}，且满 {rule.min_age_days:g} 天",
            ),
            "archived": stage_rule(view, rule.archive_threshold, rule.archive_after_days),
            "erased": stage_rule(view, rule.erase_threshold, rule.erase_after_days),
        }
    return row


def _curves(view: PageView, rules: Rules) -> None:
    """Show how an unread memory fades under each rule, with its stages."""
    wanted = view.params.get("importance", "")
    importance = int(wanted) if wanted in {str(one) for one in IMPORTANCE} else 5
    fades = fades_of(rules, importance)
    with panel():
        heading(view.t("How an unread memory fades", "未被读取的记忆如何淡忘"))
        with ui.element("div").classes("row-line"):
            ui.label(view.t("Importance:", "重要性：")).classes("quiet")
            for one in IMPORTANCE:
                if one == importance:
                    ui.label(f"{one}").classes("kind").props("aria-current=true")
                else:
                    ui.link(f"{one}", view.link("/forgetting", importance=one))
        if not fades:
            ui.label(view.t("No kind of memory fades.", "没有会淡忘的记忆类型。"))
            return
        ui.echart(_curve_options(view, fades)).classes("chart")
        for fade in fades:
            ui.label(fade_in_words(view, fade)).classes("text")
        ui.label(view.t(
            "Each read starts a new curve, higher and from day 0. Emotion slows the decay.",
            "每次读取都会开始一条新的、更高的曲线；情绪强烈的记忆衰减更慢。",
        )).classes("quiet")  # fmt: skip


def _curve_options(view: PageView, fades: Sequence[Fade]) -> dict[str, object]:
    until = horizon(fades)
    return {
        "grid": {"left": 44, "right": 24, "top": 40, "bottom": 44},
        "textStyle": TEXT,
        "legend": {"textStyle": TEXT, "type": "scroll", "top": 0},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "xAxis": {"type": "value", "max": round(until), "name": view.t("days", "天"),
                  "nameLocation": "middle", "nameGap": 26, "axisLabel": TEXT, "splitLine": SPLIT},
        "yAxis": {"type": "value", "min": 0, "max": 1, "axisLabel": TEXT, "splitLine": SPLIT},
        "series": [
            _curve(view, fade, until, SERIES[number % len(SERIES)])
            for number, fade in enumerate(fades)
        ],
    }  # fmt: skip


def _curve(view: PageView, fade: Fade, until: float, colour: str) -> dict[str, object]:
    """Return the series of a rule: its curve, its threshold, and a line for each stage."""
    marks: list[dict[str, object]] = [
        {
            "yAxis": fade.rule.threshold,
            "lineStyle": {"color": colour, "type": "dotted"},
            "label": {"formatter": f"{fade.rule.threshold:g}", **TEXT},
        }
    ]
    marks += [
        {
            "xAxis": round(day, 1),
            "lineStyle": {"color": FATE_COLOURS[fate], "type": "dashed"},
            "label": {"formatter": fate_name(view, fate), "position": "insideEndTop", **TEXT},
        }
        for day, fate in fade.stages
        if day <= until
    ]
    return {
        "name": view.t(", ", "、").join(kind_name(view, kind) for kind in fade.kinds),
        "type": "line", "showSymbol": False, "color": colour, "data": fade.points(until),
        "markLine": {"symbol": "none", "silent": True, "data": marks},
    }  # fmt: skip


async def _due(view: PageView, due: RetentionReport) -> None:
    """Show what a run of forgetting would do now, and the button that does it."""
    with panel():
        heading(view.t("What a run of forgetting would do now", "现在运行遗忘会发生什么"))
        ui.label(_in_words(view, due)).classes("text")
        await _schedule(view)
        if due.listed:
            now = await view.memory.now()
            grid(
                [view.t("What happens", "结果"), view.t("Kind", "类型"), view.t("Memory", "记忆"),
                 view.t("Why", "原因")],
                [
                    (
                        [fate_name(view, one.fate), kind_name(view, one.kept.kind),
                         Cell(cut(one.kept.text), view.link("/memory", key=one.kept.key)),
                         why_due(view, one, now)],
                        "",
                    )
                    for one in due.listed
                ],
                view.t("Memories that are due", "到期的记忆"),
            )  # fmt: skip
        if due.not_listed:
            ui.label(view.t(
                f"{due.not_listed:,} more are not listed.", f"另有 {due.not_listed:,} 条未列出。"
            )).classes("quiet")  # fmt: skip
        if due.total:
            _run_button(view, due)


def _run_button(view: PageView, due: RetentionReport) -> None:
    async def do() -> str:
        done = await view.memory.retention.forget_faded(view.user)
        return _in_words(view, done) + view.t(
            " To undo it: Bring back, under faded memories. What was erased stays erased.",
            " 撤销：在“已淡忘的记忆”中恢复；已彻底删除的无法恢复。",
        )

    erased = due.of("erased") + due.erased_along
    warning = (
        view.t(
            f"{counted(view, erased)} will be erased, which cannot be undone: export them first if"
            " you may need them.",
            f"其中 {counted(view, erased)}将被彻底删除，无法撤销；如需保留请先导出。",
        )
        if erased
        else view.t(
            "Nothing is erased: all of it can be brought back on this page.",
            "不会彻底删除任何内容，都可以在本页恢复。",
        )
    )
    action_button(
        view, view.t("Run forgetting now", "立即运行遗忘"), icon="cleaning_services", do=do,
        will=f"{_in_words(view, due)} {warning}", dangerous=erased > 0,
    )  # fmt: skip


def _in_words(view: PageView, report: RetentionReport) -> str:
    """Return what a run of forgetting did or would do, on one line."""
    counts = [
        view.t(f"{number:,} {_past(view, fate)}", f"{_past(view, fate)} {number:,} 条")
        for fate in FATES
        if (number := report.of(fate))
    ]
    if report.erased_along:
        counts.append(view.t(
            f"{report.erased_along:,} ended facts erased with them",
            f"连带删除已结束的事实 {report.erased_along:,} 条",
        ))  # fmt: skip
    if not counts:
        return view.t("Nothing is due to fade.", "目前没有到期的记忆。")
    said = view.t(", ", "，").join(counts)
    if report.dry_run:
        return view.t(f"Memories that would be: {said}.", f"将会：{said}。")
    return view.t(f"Memories: {said}.", f"记忆：{said}。")


def _past(view: PageView, fate: str) -> str:
    return {
        "demoted": view.t("faded out of recall", "淡忘"),
        "archived": view.t("archived", "归档"),
        "erased": view.t("erased", "彻底删除"),
    }[fate]


async def _schedule(view: PageView) -> None:
    """Show when a schedule forgot last, to the owner of the machine."""
    if view.caller.app is not None:
        return
    last = await view.memory.retention.schedule.last()
    ui.label(
        view.t(
            "No schedule runs it: set HIPPOCAMPUS_CLEANUP_HOURS to have a worker do it.",
            "尚无定时运行：设置 HIPPOCAMPUS_CLEANUP_HOURS 后由后台自动运行。",
        )
        if last is None
        else view.t(
            f"A schedule ran it last at {view.time(last.done_at)} UTC, and does next at"
            f" {view.time(last.next_at)}.",
            f"定时任务上次运行于 {view.time(last.done_at)}（UTC），"
            f"下次 {view.time(last.next_at)}。",
        )
    ).classes("quiet")


async def _faded(view: PageView) -> None:
    """Show the faded memories, which can be brought back."""
    offset = whole_param(view, "offset", 0, 100_000)
    found = await view.memory.retention.list_faded(view.user, limit=PAGE_SIZE + 1, offset=offset)
    with panel():
        heading(view.t("Faded memories", "已淡忘的记忆"))
        if not found:
            ui.label(view.t(
                "Nothing has faded. A run of forgetting moves what is due out of recall, and it"
                " appears here.",
                "还没有淡忘的记忆。运行遗忘后，到期的记忆会退出检索并显示在这里。",
            )).classes("quiet")  # fmt: skip
            return
        actions = ui.element("div").classes("row-line")
        shown = selectable_table(
            view,
            [
                ("time", view.t("Faded at (UTC)", "淡忘时间（UTC）")),
                ("stage", view.t("Stage", "阶段")),
                ("kind", view.t("Kind", "类型")),
                ("text", view.t("Memory", "记忆")),
                ("next", view.t("Next stage", "下一阶段")),
            ],
            [
                row_of(
                    view, key=one.key, kind=one.kind, text=one.text, at=one.staged_at,
                    stage=stage_name(view, one.stage), next=view.time(one.forget_at, day_only=True),
                )
                for one in found[:PAGE_SIZE]
            ],
        )  # fmt: skip
        _faded_actions(view, shown, actions)
        with ui.element("div").classes("row-line"):
            if offset:
                ui.link(view.t("← newer", "← 较新"),
                        view.link("/forgetting", offset=max(0, offset - PAGE_SIZE)))  # fmt: skip
            if len(found) > PAGE_SIZE:
                ui.link(view.t("older →", "较旧 →"),
                        view.link("/forgetting", offset=offset + PAGE_SIZE))  # fmt: skip


def _faded_actions(view: PageView, shown: ui.table, actions: ui.element) -> None:
    if not view.may_write:
        return

    def chosen() -> list[str]:
        return selected_keys(shown)

    with actions:
        buttons = [
            revive_button(view, chosen), pin_button(view, chosen), forget_button(view, chosen),
        ]  # fmt: skip
        said = ui.label().classes("quiet").props("role=status")
    follow_selection(view, shown, buttons, said)


PAGE = Page("/forgetting", "hourglass_bottom", "Forgetting", "遗忘", body)
