"""Facts by slot: what holds, what ended and what is doubtful, on both time lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final

from nicegui import ui

from shared_core.core.domain import USER
from shared_core.ports.runs import Fact
from shared_core.ui.frame import Page
from shared_core.ui.pages import fact_picture
from shared_core.ui.pages.cells import (
    Cell,
    exact,
    folded,
    grid,
    kept,
    moment_input,
    styles,
    text_of,
    thread_link,
)
from shared_core.ui.pages.fact_detail import (
    MARKS,
    Shown,
    Status,
    detail,
    first_turn,
    state_form,
    status_badge,
    status_word,
)
from shared_core.ui.pages.slot_words import slot_label, slot_order, split_slot, subject_label
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, heading, pages_of, panel, time_machine, whole_param

PARAMS: Final = ("slot", "subject", "status", "as_of", "known")
"""The filters in the address of this page."""
PER_PAGE: Final = 100
"""Facts on one page."""
MOST_EXPLAINED: Final = 300
"""Most facts whose turns are read at once; of more, the turns are shown of a chosen slot."""
CSS: Final = """
.slot { display: grid; grid-template-columns: 11rem 1fr; gap: .4rem 1rem; width: 100%;
  border-top: 1px solid var(--line); padding: .7rem 0; }
.slot-name { display: flex; flex-direction: column; gap: .1rem; font-weight: 600; }
.slot-name .quiet { font-weight: 400; }
.facts-of { display: flex; flex-direction: column; gap: .8rem; min-width: 0; }
.fact { display: flex; flex-direction: column; gap: .2rem; min-width: 0; scroll-margin-top: 5rem; }
.fact .value { font-weight: 600; overflow-wrap: anywhere; }
.fact.past .value { font-weight: 400; color: var(--quiet); }
@media (max-width: 700px) { .slot { grid-template-columns: 1fr; } }
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The facts that a page shows, all of its slots, and the names of relatives."""

    shown: Sequence[Shown]
    slots: Sequence[str]
    names: dict[str, str]


async def body(view: PageView) -> None:
    """Build the page."""
    styles()
    ui.add_css(CSS)
    as_of, slot = time_machine(view), view.params.get("slot", "")
    now = await view.memory.now()
    valid = as_of.valid if as_of else None
    found = await read(view, valid or now)
    _filters(view, found)
    state_form(view, slot)
    if as_of is not None:
        _moments(view, as_of.valid, as_of.known)
    if not found.slots:
        empty(view.t(
            "No facts yet. They appear when a conversation of this user is consolidated, or when"
            " somebody states one.",
            "还没有事实。整理该用户的对话，或直接陈述一条后，就会出现。",
        ))  # fmt: skip
        return
    shown = chosen(view, found)
    if not shown:
        empty(view.t("No fact passes these filters: clear them above.",
                     "没有符合筛选条件的事实：请在上方清除筛选。"))  # fmt: skip
        return
    if slot:
        await _over_time(view, slot, shown, found, now)
    _list(view, found, shown)


async def read(view: PageView, moment: datetime) -> Found:
    """Return the facts of the address, each with its status at a moment."""
    memory, user, as_of = view.memory, view.user, time_machine(view)
    slot = view.params.get("slot", "")
    every = await memory.facts(user, history=True, as_of=as_of)
    held = {one.key for one in await memory.facts(user, slot, as_of=as_of)}
    wanted: Sequence[Fact] = every
    if slot or len(every) <= MOST_EXPLAINED:
        wanted = await memory.facts(user, slot, history=True, as_of=as_of, why=True)
    names = {
        one.slot.partition(".")[2]: one.value
        for one in every
        if one.valid_until is None
        and one.superseded_at is None
        and one.slot.startswith("relation.")
        and one.slot.count(".") == 1
    }
    shown = [Shown(one, _status(one, held, moment)) for one in wanted]
    shown.sort(key=lambda one: one.fact.valid_from, reverse=True)
    shown.sort(key=lambda one: list(MARKS).index(one.status))
    shown.sort(key=lambda one: _order(one.fact.slot))
    slots = sorted({one.slot for one in every}, key=_order)
    return Found(shown, slots, names)


def _order(slot: str) -> tuple[bool, str, tuple[int, str]]:
    subject, _ = split_slot(slot)
    return subject != USER, subject, slot_order(slot)


def _status(fact: Fact, held: set[str], moment: datetime) -> Status:
    if fact.key in held:
        return "doubtful" if fact.is_doubtful else "current"
    return "future" if fact.valid_from > moment else "ended"


def chosen(view: PageView, found: Found) -> list[Shown]:
    """Return the facts that pass the filters of subject and status."""
    subject, status = view.params.get("subject"), view.params.get("status")
    return [
        one
        for one in found.shown
        if (not subject or split_slot(one.fact.slot)[0] == subject)
        and (not status or one.status == status)
    ]


def _filters(view: PageView, found: Found) -> None:
    """Show the filters. Each change leads to the address of the filtered page."""
    params = view.params
    everything = view.t("all", "全部")
    slots = {"": everything} | {one: _slot_option(view, found, one) for one in found.slots}
    subjects = {"": everything}
    for one in found.slots:
        subject = split_slot(one)[0]
        subjects[subject] = subject_label(view, subject, found.names)
    statuses = {"": everything} | {one: f"{MARKS[one]} {status_word(view, one)}" for one in MARKS}
    slot = params.get("slot", "")
    slots.setdefault(slot, slot)
    subjects.setdefault(params.get("subject", ""), params.get("subject", ""))

    def show() -> None:
        ui.navigate.to(view.link(
            "/facts", slot=text_of(by_slot) or None, subject=text_of(by_subject) or None,
            status=text_of(by_status) or None, as_of=text_of(valid) or None,
            known=text_of(known) or None,
        ))  # fmt: skip

    with ui.element("div").classes("form-line"):
        by_slot = _select(view.t("Slot", "槽位"), slots, slot, show)
        by_subject = _select(view.t("About", "关于谁"), subjects, params.get("subject", ""), show)
        status = params.get("status", "")
        by_status = _select(
            view.t("State", "状态"), statuses, status if status in statuses else "", show
        )
    is_open = bool(params.get("as_of") or params.get("known"))
    other = folded(view.t("As of another moment", "查看其他时刻"), is_open=is_open)
    with other, ui.element("div").classes("form-line"):
        valid = moment_input(view, view.t("What held at", "何时有效"), params.get("as_of"))
        known = moment_input(view, view.t("As known at", "何时已知"), params.get("known"))
        ui.button(view.t("Show", "查看"), on_click=show).props("no-caps outline")
    if any(params.get(name) for name in ("slot", "subject", "status", "as_of", "known", "fact")):
        ui.link(view.t("Show all facts", "显示全部事实"), view.link("/facts"))


def _select(label: str, options: dict[str, str], value: str, show: object) -> ui.select:
    assert callable(show)
    field = ui.select(options, label=label, value=value, on_change=lambda: show())
    return field.props("outlined dense options-dense")


def _slot_option(view: PageView, found: Found, slot: str) -> str:
    subject, _ = split_slot(slot)
    label = slot_label(view, slot)
    if subject != USER:
        label = f"{subject_label(view, subject, found.names)}: {label}"
    return f"{label} · {slot}"


def _moments(view: PageView, valid: datetime | None, known: datetime | None) -> None:
    """Say which moment the page is about."""
    at = exact(valid) if valid else view.t("now", "现在")
    by = exact(known) if known else view.t("now", "现在")
    with panel():
        ui.label(view.t(f"What held at: {at}. As known at: {by}.",
                        f"有效时刻：{at}。已知时刻：{by}。")).props("role=status")  # fmt: skip


async def _over_time(
    view: PageView, slot: str, shown: Sequence[Shown], of_slot: Found, now: datetime
) -> None:
    """Show a slot on both time lines, as a picture and as a table."""
    as_of = time_machine(view)
    facts = [one.fact for one in shown]
    found: Sequence[fact_picture.State] = ()
    if not (too_many := len(of_slot.shown) > fact_picture.MOST_VALUES):
        found = await fact_picture.states(view, slot, facts, as_of.known if as_of else None)
        known = {one.key for state in found for one in state.beliefs}
        too_many = len(known) > fact_picture.MOST_VALUES
    title = view.t("When it held, and when it was known", "何时有效，何时得知")
    with panel():
        heading(view.t(f"{slot_label(view, slot)}: ", f"{slot_label(view, slot)}：") + title)
        if too_many:
            ui.label(view.t("Too many values for a picture: the list below has them.",
                            "值太多，无法画图，请看下方列表。"))  # fmt: skip
            return
        ui.label(view.t(
            "From left to right: when something held. From top to bottom: each time the memory"
            " learned something, and what it took for true from then on. A dashed frame: an end is"
            " known. No frame reaches into the time before it was known.",
            "从左到右：何时有效。从上到下：每次记忆得知新内容的时刻，以及从那时起认为成立的内容。"
            "虚线框：已知其结束。任何框都不会早于得知的时刻。",
        )).classes("quiet")  # fmt: skip
        with ui.element("div").classes("grid-2"):
            with ui.element("div"):
                fact_picture.picture(view, found, now, as_of.valid if as_of else None)
            _known_table(view, found)


def _known_table(view: PageView, found: Sequence[fact_picture.State]) -> None:
    """Show the same as the picture: what was known from each moment on."""
    columns = (
        view.t("known from", "得知时间"), view.t("value", "值"), view.t("held from", "有效自"),
        view.t("until", "至"),
    )  # fmt: skip
    rows: list[tuple[Sequence[str | Cell | Sequence[Cell]], str]] = []
    for state in found:
        for place, one in enumerate(state.beliefs):
            mark = view.t(" (doubtful)", "（存疑）") if one.is_doubtful else ""
            until = exact(one.until) if one.until else view.t("no end known", "未结束")
            since = exact(state.since) if not place else ""
            rows.append(((since, f"{one.value}{mark}", exact(one.begin), until),
                         "" if one.until is None else "past"))  # fmt: skip
    grid(
        columns, rows, view.t("What was known of the slot, and since when", "槽位的已知内容与时间")
    )


def _list(view: PageView, found: Found, shown: Sequence[Shown]) -> None:
    """Show facts by subject and slot, a page of them."""
    offset = _offset(view, shown)
    page = shown[offset : offset + PER_PAGE]
    for subject, of_subject in groupby(page, lambda one: split_slot(one.fact.slot)[0]):
        with panel():
            heading(subject_label(view, subject, found.names))
            for slot, in_slot in groupby(of_subject, lambda one: one.fact.slot):
                _slot(view, slot, list(in_slot))
    if len(shown) > PER_PAGE:
        pages_of(
            view, "/facts", offset=offset, limit=PER_PAGE, total=len(shown), **kept(view, PARAMS)
        )


def _offset(view: PageView, shown: Sequence[Shown]) -> int:
    """Return where the page begins: at the offset of the address, or where its fact is."""
    offset, wanted = whole_param(view, "offset", -1, len(shown) - 1), view.params.get("fact")
    if offset >= 0:
        return offset
    place = next((at for at, one in enumerate(shown) if one.fact.key == wanted), 0)
    return place - place % PER_PAGE


def _slot(view: PageView, slot: str, facts: Sequence[Shown]) -> None:
    with ui.element("div").classes("slot"):
        with ui.element("div").classes("slot-name"):
            ui.label(slot_label(view, slot))
            ui.label(slot).classes("quiet")
            if view.params.get("slot") != slot:
                ui.link(view.t("over time", "随时间变化"), view.link("/facts", slot=slot)).classes(
                    "quiet"
                )
        with ui.element("div").classes("facts-of"):
            for one in facts:
                _fact(view, one)


def _fact(view: PageView, shown: Shown) -> None:
    """Show a fact in two lines: what holds since when, and who said so."""
    fact = shown.fact
    is_open = view.params.get("fact") == fact.key
    kind = "fact past" if shown.status == "ended" else "fact"
    with ui.element("div").classes(kind).props(f"id=fact-{fact.memory_id}"):
        with ui.element("div").classes("row-line"):
            status_badge(view, shown.status)
            ui.label(fact.value).classes("value")
            ui.label(_when(view, fact)).classes("quiet")
            ui.label(view.t(f"confidence {fact.confidence:.2f}", f"置信度 {fact.confidence:.2f}")
                     ).classes("quiet")  # fmt: skip
            text = view.t("details and actions", "详情与操作")
            if is_open:
                text = view.t("close", "收起")
            chosen_fact = None if is_open else fact.key
            href = view.link("/facts", **kept(view, PARAMS), fact=chosen_fact)
            ui.link(text, f"{href}#fact-{fact.memory_id}").classes("quiet")
        if is_open:
            detail(view, shown)
        elif (turn := first_turn(fact)) is not None:
            with ui.element("div").classes("row-line"):
                said = turn.text if turn.text is not None else view.t("(forgotten)", "（已遗忘）")
                by = view.t(f"{turn.author or '?'} said", f"{turn.author or '?'} 说")
                ui.label(view.t(f"{by}: “{said}”", f"{by}：“{said}”")).classes("quiet said")
                thread_link(view, turn.thread_id)


def _when(view: PageView, fact: Fact) -> str:
    since = view.time(fact.valid_from)
    if fact.valid_until is None:
        return view.t(f"since {since}", f"自 {since} 起")
    until = view.time(fact.valid_until)
    return view.t(f"{since} to {until}", f"{since} 至 {until}")


PAGE = Page("/facts", "fact_check", "Facts", "事实", body)
