"""The page of one memory: its text, where it comes from, how it fades, and what it led to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from nicegui import ui

from shared_core.core.domain import Memory
from shared_core.errors import NotFound
from shared_core.ports.runs import CitedTurn, Fact, FactReason
from shared_core.retention.statistics import RetentionCurve
from shared_core.ui.pages.cells import quote, styles
from shared_core.ui.pages.memory_reads import Details, details_of
from shared_core.ui.pages.memory_table import (
    CSS,
    SPLIT,
    TEXT,
    cut,
    forget_button,
    pin_button,
    revive_button,
    unpin_button,
)
from shared_core.ui.pages.policy_text import FATE_COLOURS, fate_name, policy_name, stage_name
from shared_core.ui.style import SERIES
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, heading, kind_badge, panel

MOST_TURNS: Final = 30
"""Turns of a provenance that the page shows; the thread shows the rest."""
MOST_RELATIVES: Final = 50
"""Facts of the same slot, and memories derived from it, that the page shows."""


async def body(view: PageView) -> None:
    """Build the page of one memory, named by the parameter `key`."""
    styles()
    ui.add_css(CSS)
    key = view.params.get("key", "")
    try:
        details = await details_of(view, key)
    except NotFound:
        empty(view.t(
            f"There is no memory with the key {key}. It may have been forgotten or erased.",
            f"没有键为 {key} 的记忆，可能已被遗忘或删除。",
        ))  # fmt: skip
        ui.link(view.t("All memories", "全部记忆"), view.link("/memories"))
        return
    _text(view, details)
    _actions(view, details)
    with ui.element("div").classes("grid-2"):
        _properties(view, details)
        _retention(view, details)
    if details.fact is not None:
        _reasons(view, details.fact)
        _history(view, details)
    if details.memory.kind != "episodic":
        _provenance(view, details)
    _derived(view, details)
    _value(view, details)


def _text(view: PageView, details: Details) -> None:
    kept = details.curve.kept
    with panel():
        with ui.element("div").classes("row-line"):
            kind_badge(view, kept.kind)
            if kept.stage != "kept":
                ui.label(stage_name(view, kept.stage)).classes("stage")
            if kept.pinned:
                ui.label(view.t("pinned", "已固定")).classes("stage")
            if not details.detail.is_current:
                ui.label(view.t("ended", "已结束")).classes("stage")
            if details.fact is not None and details.fact.is_doubtful:
                ui.label(view.t("doubtful", "存疑")).classes("stage")
        text = ui.label(kept.text).classes("text")
        if not details.detail.is_current:
            text.classes("ended")


def _actions(view: PageView, details: Details) -> None:
    if not view.may_write:
        return
    kept = details.curve.kept

    def chosen() -> list[str]:
        return [details.memory.key]

    with ui.element("div").classes("row-line"):
        if kept.stage != "kept":
            revive_button(view, chosen)
        if kept.pinned:
            unpin_button(view, chosen)
        else:
            pin_button(view, chosen)
        forget_button(view, chosen)


def named(rows: Sequence[tuple[str, str]]) -> None:
    """Show names and values as a list of definitions."""
    with ui.element("dl").classes("named"):
        for name, value in rows:
            with ui.element("dt"):
                ui.label(name).classes("quiet")
            with ui.element("dd"):
                ui.label(value).classes("text")


def _properties(view: PageView, details: Details) -> None:
    memory = details.memory
    rows = [
        (view.t("Occurred (UTC)", "发生时间（UTC）"), view.time(memory.occurred_at)),
        (view.t("Stored", "存入时间"), view.time(memory.created_at)),
        (view.t("Changed", "更新时间"), view.time(memory.updated_at)),
        (view.t("Expires", "过期时间"),
         view.time(memory.expires_at) if memory.expires_at else view.t("never", "从不")),
        (view.t("Author", "作者"), memory.author or "–"),
        (view.t("Importance", "重要性"), f"{memory.importance:g} / 10"),
        (view.t("Vectors of", "嵌入模型"),
         ", ".join(details.detail.models) or view.t("none", "无")),
        (view.t("Key", "键"), memory.key),
        (view.t("Memory id", "记忆 ID"), str(memory.memory_id)),
    ]  # fmt: skip
    with panel():
        heading(view.t("Properties", "属性"))
        named(rows)
        if memory.thread_id:
            ui.link(
                view.t(f"Thread {memory.thread_id}", f"会话线程 {memory.thread_id}"),
                view.link("/memories", thread=memory.thread_id),
            )
        day = view.time(memory.occurred_at, day_only=True)
        ui.link(view.t(f"The day {day} in the timeline", f"时间线中的 {day}"),
                view.link("/timeline", when=day))  # fmt: skip


def _retention(view: PageView, details: Details) -> None:
    """Show the score over time, the stages to come, and the accesses."""
    curve, detail = details.curve, details.detail
    kept = curve.kept
    last = detail.last_accessed_at
    with panel():
        heading(view.t("Retention", "保留"))
        named([
            (view.t("Stage", "阶段"), stage_name(view, kept.stage)),
            (view.t("Score now", "当前得分"), f"{curve.score:.3f}"),
            (view.t("Policy", "策略"), policy_name(view, kept.rule)),
            (view.t("Reads", "读取次数"), f"{detail.access_count:,}"),
            (view.t("Last read (UTC)", "最近读取（UTC）"),
             view.time(last) if last else view.t("never", "从未")),
        ])  # fmt: skip
        ui.echart(_curve(view, curve)).classes("chart")
        ui.label(_ahead(view, curve)).classes("text")


def _ahead(view: PageView, curve: RetentionCurve) -> str:
    """Return in words what happens to the memory if nobody reads it."""
    if curve.kept.pinned:
        return view.t("It is pinned, so it never fades.", "已固定，不会淡忘。")
    if not curve.stages:
        return view.t("It will not fade.", "不会淡忘。")
    said = view.t(", ", "，").join(
        f"{fate_name(view, fate)} {view.time(at, day_only=True)}" for at, fate in curve.stages
    )
    return view.t(f"If nobody reads it, it {said}.", f"若不再读取：{said}。")


def _curve(view: PageView, curve: RetentionCurve) -> dict[str, object]:
    def points(*, ahead: bool, sure: bool) -> list[list[object]]:
        return [
            [int(one.at.timestamp() * 1000), round(one.score, 4)]
            for one in curve.points
            if (one.at >= curve.now) == ahead and (one.sure == "known") == sure
        ]

    last = curve.points[-1].at
    marks: list[dict[str, object]] = [
        {"xAxis": int(curve.now.timestamp() * 1000),
         "label": {"formatter": view.t("now", "现在"), **TEXT},
         "lineStyle": {"color": "#8a8f98", "type": "solid"}}
    ]  # fmt: skip
    marks += [
        {"xAxis": int(at.timestamp() * 1000),
         "label": {"formatter": fate_name(view, fate), **TEXT},
         "lineStyle": {"color": FATE_COLOURS[fate], "type": "dashed"}}
        for at, fate in curve.stages if at <= last
    ]  # fmt: skip
    if curve.threshold is not None:
        label = {"formatter": f"{curve.threshold:g}", **TEXT}
        dotted = {"color": "#8a8f98", "type": "dotted"}
        marks.append({"yAxis": curve.threshold, "label": label, "lineStyle": dotted})
    blue = SERIES[0]
    lines: list[dict[str, object]] = [
        {"name": view.t("at least", "至少"), "data": points(ahead=False, sure=False),
         "lineStyle": {"type": "dashed", "color": "#8a8f98"}, "color": "#8a8f98"},
        {"name": view.t("score", "得分"), "data": points(ahead=False, sure=True), "color": blue,
         "markLine": {"symbol": "none", "silent": True, "data": marks}},
        {"name": view.t("if nobody reads it", "若不再读取"), "data": points(ahead=True, sure=True),
         "lineStyle": {"type": "dotted", "color": blue}, "color": blue},
    ]  # fmt: skip
    return {
        "grid": {"left": 40, "right": 16, "top": 44, "bottom": 28},
        "textStyle": TEXT, "legend": {"textStyle": TEXT, "type": "scroll", "top": 0},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "xAxis": {"type": "time", "axisLabel": {**TEXT, "hideOverlap": True}},
        "yAxis": {"type": "value", "min": 0, "max": 1, "axisLabel": TEXT, "splitLine": SPLIT},
        "series": [{"type": "line", "showSymbol": False, **one} for one in lines if one["data"]],
    }  # fmt: skip


def _reasons(view: PageView, fact: Fact) -> None:
    """Show why a fact is held, doubted, or ended."""
    if fact.why is None:
        return
    with panel():
        heading(view.t("Why this is held", "依据"))
        named([
            (view.t("Slot", "属性槽"), fact.slot),
            (view.t("Value", "值"), fact.value),
            (view.t("Confidence", "置信度"), f"{fact.confidence:.2f}"),
            (view.t("Holds from", "生效"), view.time(fact.valid_from)),
            (view.t("Holds until", "失效"),
             view.time(fact.valid_until) if fact.valid_until else view.t("now", "至今")),
            (view.t("Known since", "得知时间"), view.time(fact.recorded_at)),
        ])  # fmt: skip
        for title, reason in (
            (view.t("Stated", "陈述"), fact.why.stated),
            (view.t("Doubted", "质疑"), fact.why.doubted),
            (view.t("Ended", "结束"), fact.why.ended),
        ):
            if reason is not None:
                _reason(view, title, reason)


def _reason(view: PageView, title: str, reason: FactReason) -> None:
    ui.label(title).classes("heading")
    for turn in reason.turns:
        quote(view, turn)
    by = (
        view.t("by a call of the application", "由应用直接写入")
        if reason.extractor == "caller"
        else view.t(f"read by {reason.extractor or '–'}", f"由 {reason.extractor or '–'} 读出")
    )
    if reason.pattern:
        by += view.t(f", rule {reason.pattern}", f"，规则 {reason.pattern}")
    with ui.element("div").classes("row-line"):
        ui.label(by).classes("quiet")
        if reason.run_id is not None:
            ui.link(view.t(f"run {reason.run_id}", f"运行 {reason.run_id}"),
                    view.link("/runs", run=str(reason.run_id))).classes("quiet")  # fmt: skip
        if reason.fact_key is not None:
            ui.link(view.t("what took its place", "取代它的事实"),
                    view.link("/memory", key=reason.fact_key)).classes("quiet")  # fmt: skip


def _history(view: PageView, details: Details) -> None:
    """Show the facts of the same slot: what this one took the place of, and what followed."""
    others = [one for one in details.same_slot if one.memory_id != details.curve.kept.memory_id]
    if not others:
        return
    with panel():
        heading(view.t("Other facts of the same slot", "同一属性槽的其他事实"))
        others.sort(key=lambda fact: fact.valid_from, reverse=True)
        for one in others[:MOST_RELATIVES]:
            with ui.element("div").classes("row-line"):
                until = view.time(one.valid_until, day_only=True) if one.valid_until else ""
                ui.label(
                    f"{view.time(one.valid_from, day_only=True)} → "
                    + (until or view.t("now", "至今"))
                ).classes("quiet")
                link = ui.link(one.statement, view.link("/memory", key=one.key))
                if one.superseded_at is not None:
                    link.classes("ended")
        if len(others) > MOST_RELATIVES:
            ui.link(view.t(f"all {len(others) + 1:,} facts of the slot",
                           f"该属性槽的全部 {len(others) + 1:,} 条事实"),
                    view.link("/facts", slot=others[0].slot))  # fmt: skip


def _provenance(view: PageView, details: Details) -> None:
    """Show the turns and the memories that a memory was derived from."""
    turns, bases = details.detail.turns, details.detail.bases
    with panel():
        heading(view.t("Derived from", "来源"))
        for turn in turns[:MOST_TURNS]:
            _turn(view, turn, details.keys.get((turn.thread_id, turn.event_id)))
        if len(turns) > MOST_TURNS:
            more = len(turns) - MOST_TURNS
            ui.label(view.t(f"… and {more:,} more turns of the thread", f"……另有 {more:,} 轮对话"))
        for one in bases:
            _linked(view, one)
        if not turns and not bases:
            ui.label(view.t(
                "From no turn: an application stored it.", "并非来自对话：由应用直接写入。"
            )).classes("quiet")  # fmt: skip


def _turn(view: PageView, turn: CitedTurn, key: str | None) -> None:
    """Show a turn, its text a link to its page if it is remembered."""
    if key is None or turn.text is None:
        quote(view, turn)
        return
    with ui.element("div").classes("row-line"):
        kind_badge(view, "episodic")
        ui.label(view.time(turn.said_at)).classes("quiet")
        if turn.author:
            ui.label(turn.author).classes("quiet")
    ui.link(cut(turn.text), view.link("/memory", key=key)).classes("text")


def _derived(view: PageView, details: Details) -> None:
    """Show what was derived from a memory; ended memories too."""
    is_turn, derived = details.memory.kind == "episodic", details.detail.derived
    if not derived and not is_turn:
        return
    with panel():
        heading(
            view.t("Learned from this turn", "由这轮对话得出")
            if is_turn
            else view.t("Derived from it", "由其得出")
        )
        for one in derived[:MOST_RELATIVES]:
            _linked(view, one)
        if len(derived) > MOST_RELATIVES:
            more = len(derived) - MOST_RELATIVES
            ui.label(view.t(f"… and {more:,} more", f"……另有 {more:,} 条")).classes("quiet")
            if thread := details.memory.thread_id:
                ui.link(view.t("all memories of the thread", "该会话线程的全部记忆"),
                        view.link("/memories", thread=thread))  # fmt: skip
        if not derived:
            ui.label(view.t(
                "Nothing yet. A consolidation turns unread turns into facts and summaries.",
                "暂无。整合运行会把未读的对话转化为事实和摘要。",
            )).classes("quiet")  # fmt: skip


def _linked(view: PageView, one: Memory) -> None:
    """Show a memory on a line, its text a link to its page."""
    with ui.element("div").classes("row-line"):
        kind_badge(view, one.kind)
        ui.label(view.time(one.occurred_at)).classes("quiet")
        if one.author:
            ui.label(one.author).classes("quiet")
    link = ui.link(cut(one.text), view.link("/memory", key=one.key)).classes("text")
    if one.superseded_at is not None:
        link.classes("ended")


def _value(view: PageView, details: Details) -> None:
    """Show the value as JSON, as a key-value read returns it."""
    with ui.expansion(view.t("Value as JSON", "JSON 值"), icon="data_object").classes("panel fold"):
        text = json.dumps(details.memory.value, ensure_ascii=False, indent=2, sort_keys=True)
        with ui.element("pre").classes("json"):
            ui.label(text).classes("inline")
