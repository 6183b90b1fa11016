"""One fact with everything about it, and the actions that end, restore and state facts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from nicegui import ui

from shared_core.core.domain import USER
from shared_core.core.ids import short_id
from shared_core.extraction.stated_facts import STATED as CALLER
from shared_core.ports.runs import CitedTurn, Fact, FactReason
from shared_core.ui.actions import action_button
from shared_core.ui.pages.cells import (
    exact,
    folded,
    grid,
    moment_in,
    moment_input,
    quote,
    text_input,
    text_of,
)
from shared_core.ui.view import PageView

Status = Literal["current", "doubtful", "ended", "future"]
MARKS: Final = {"current": "●", "doubtful": "◐", "ended": "○", "future": "◇"}
"""The shape of each status, which stands beside its word."""
COLOURS: Final = {
    "current": "#009E73", "doubtful": "#E69F00", "ended": "#999999", "future": "#56B4E9",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """A fact and its status at the moment that the page is about."""

    fact: Fact
    status: Status


def status_word(view: PageView, status: str) -> str:
    """Return the word for a status of a fact."""
    return {
        "current": view.t("current", "当前"),
        "doubtful": view.t("doubtful", "存疑"),
        "ended": view.t("ended", "已结束"),
        "future": view.t("not yet", "尚未开始"),
    }[status]


def status_badge(view: PageView, status: str) -> None:
    """Show a status as its shape and word."""
    label = ui.label(f"{MARKS[status]} {status_word(view, status)}").classes("kind")
    label.style(f"border-color: {COLOURS[status]}; white-space: nowrap")


def detail(view: PageView, shown: Shown) -> None:
    """Show both time lines of a fact, the turns behind it, and what can be done to it."""
    fact = shown.fact
    with ui.element("div").classes("inset"):
        ui.label(fact.statement).classes("heading")
        _time_lines(view, fact)
        if fact.why is not None:
            _reason(view, view.t("Said by", "依据"), fact.why.stated)
            _reason(view, view.t("Doubted by", "引起怀疑的对话"), fact.why.doubted)
            _reason(view, view.t("Ended by", "使其结束的对话"), fact.why.ended)
        with ui.element("div").classes("row-line"):
            ui.label(view.t(f"key {fact.key}", f"键 {fact.key}")).classes("quiet said")
            ui.link(
                view.t("memory of this fact", "这条事实的记忆"), view.link("/memory", key=fact.key)
            ).classes("quiet")
        if shown.status == "ended":
            _restore(view, fact)
        else:
            _retract(view, fact)


def _time_lines(view: PageView, fact: Fact) -> None:
    held, known = view.t("Held", "有效期"), view.t("Known", "入库时间")
    names = ("", view.t("from", "自"), view.t("until", "至"))
    open_end = view.t("no end known", "未结束")
    rows = [
        ((held, exact(fact.valid_from), exact(fact.valid_until) if fact.valid_until else open_end),
         ""),
        ((known, exact(fact.recorded_at),
          view.t(f"its end known since {exact(fact.superseded_at)}",
                 f"{exact(fact.superseded_at)} 起得知其结束")
          if fact.superseded_at else open_end), ""),
    ]  # fmt: skip
    grid(names, rows, view.t("Both time lines of the fact", "事实的两条时间线"))
    ui.label(view.t(f"Confidence {fact.confidence:.2f}", f"置信度 {fact.confidence:.2f}")).classes(
        "quiet"
    )


def _reason(view: PageView, heading: str, reason: FactReason | None) -> None:
    """Show the turns and the rule behind a fact, its doubt or its end."""
    if reason is None:
        return
    caller = view.t("the application or a person", "应用或人工")
    by = [caller if one == CALLER else one for one in (reason.extractor, reason.pattern)]
    by += [view.t(f"run {short_id(str(reason.run_id))}", f"运行 {short_id(str(reason.run_id))}")
           ] if reason.run_id else []  # fmt: skip
    with ui.element("div").classes("row-line"):
        ui.label(heading).style("font-weight: 600")
        ui.label(" · ".join(one for one in dict.fromkeys(by) if one)).classes("quiet said")
        if reason.run_id is not None:
            ui.link(view.t("runs", "运行记录"), view.link("/runs")).classes("quiet")
        if reason.fact_key:
            ui.link(
                view.t("the fact that took its place", "取代它的事实"),
                view.link("/facts", fact=reason.fact_key) + f"#fact-{reason.fact_key}",
            ).classes("quiet")
    for turn in reason.turns:
        quote(view, turn)
    if not reason.turns:
        ui.label(view.t("No turn: the application or a person stated it.",
                        "没有对话依据：由应用或人工直接写入。")).classes("quiet")  # fmt: skip


def first_turn(fact: Fact) -> CitedTurn | None:
    """Return the first turn that states a fact, if any is known."""
    return next(iter(fact.why.stated.turns), None) if fact.why else None


def _retract(view: PageView, fact: Fact) -> None:
    if not view.may_write:
        return
    with ui.element("div").classes("form-line"):
        at = moment_input(view, view.t("Ended at; empty for now", "结束时间，留空表示现在"))

        async def do() -> str:
            ended = await view.memory.retract(view.user, fact.key, at=moment_in(at, "at"))
            until = exact(ended.valid_until)
            return view.t(
                f"“{fact.statement}” ended at {until}. It stays as history. To undo it, open the"
                " fact and choose Restore.",
                f"“{fact.statement}”已于 {until} 结束，仍保留在历史中。如需撤销，打开该事实并选择"
                "“恢复”。",
            )

        action_button(
            view, view.t("Retract", "撤回"), icon="event_busy", do=do,
            will=view.t(
                f"“{fact.statement}” will end, with its edges of the graph and what was derived"
                " from it. It stays as history, and Restore undoes it.",
                f"“{fact.statement}”将结束，图谱中对应的边以及由它推导出的记忆也随之结束。它仍保留"
                "在历史中，可用“恢复”撤销。",
            ),
        )  # fmt: skip


def _restore(view: PageView, fact: Fact) -> None:
    async def do() -> str:
        await view.memory.restore(view.user, fact.key)
        return view.t(
            f"“{fact.statement}” holds again. To undo it, open the fact and choose Retract.",
            f"“{fact.statement}”重新生效。如需撤销，打开该事实并选择“撤回”。",
        )

    with ui.element("div").classes("row-line"):
        action_button(
            view, view.t("Restore", "恢复"), icon="restore", do=do,
            will=view.t(
                f"The end of “{fact.statement}” will be undone, with all that ended with it. It is"
                " refused while another value of a slot with one value holds. Retract undoes it.",
                f"将撤销“{fact.statement}”的结束，随之结束的内容一并恢复。如果同一槽位只允许一个值"
                "且已有其他值生效，则会被拒绝。可用“撤回”撤销。",
            ),
        )  # fmt: skip


def state_form(view: PageView, slot: str) -> None:
    """Show the form that states a fact. slot: filled in already."""
    if not view.may_write:
        return
    with folded(view.t("State a fact", "陈述一条事实")), ui.element("div").classes("form-line"):
        example = view.t("e.g. employer, residence, like", "如 公司、居住地、喜欢")
        name = text_input(view.t("Slot", "槽位"), slot, example)
        value = text_input(view.t("Value", "值"), "", view.t("e.g. Zenith", "如 云杉书坊"))
        about = text_input(view.t("About whom; empty for the user", "关于谁，留空表示用户本人"))
        since = moment_input(view, view.t("Since; empty for now", "开始时间，留空表示现在"))

        def will() -> str:
            whom = text_of(about) or view.user.user
            return view.t(
                f"It will be stored that “{text_of(name)}” of {whom} is “{text_of(value)}”. In a"
                " slot with one value it ends the value that holds.",
                f"将记录：{whom} 的“{text_of(name)}”是“{text_of(value)}”。如果该槽位只允许一个值，"
                "当前的值将结束。",
            )

        async def do() -> str:
            subject, begun = text_of(about), await view.memory.now()
            fact = await view.memory.state_fact(
                view.user, text_of(name), text_of(value),
                subject=subject if subject and subject != USER else None,
                valid_from=moment_in(since, "since"),
            )  # fmt: skip
            return await _stated(view, fact, begun)

        action_button(view, view.t("State", "写入"), icon="add", will=will, do=do)


async def _stated(view: PageView, fact: Fact, begun: datetime) -> str:
    """Return what stating a fact has done since a moment, and the run that undoes it."""
    if fact.recorded_at is not None and fact.recorded_at < begun:
        newest = await view.memory.runs(view.user, limit=1)
        if not newest or newest[0].started_at < begun:
            return view.t("It was known already: nothing changed.", "早已记录，没有任何变化。")
        return view.t(
            "It was known already. What changed with it is the newest run on the page Runs and"
            " jobs.",
            "早已记录；随之发生的变化见“运行与任务”页最新的一次运行。",
        )
    known = await view.memory.facts(view.user, fact.slot, history=True, why=True)
    why = next((one.why for one in known if one.key == fact.key), None)
    run = why.stated.run_id if why else None
    if run is None:
        return view.t(f"It is known: “{fact.statement}”.", f"已记录：“{fact.statement}”。")
    return view.t(
        f"“{fact.statement}” is stored as the slot “{fact.slot}”. To undo it and what it ended,"
        f" undo run {run} on the page Runs and jobs.",
        f"“{fact.statement}”已写入槽位“{fact.slot}”。如需连同它所结束的内容一起撤销，请在“运行与"
        f"任务”页撤销运行 {run}。",
    )
