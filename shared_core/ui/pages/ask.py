"""Ask as any user: the hits, why they were found, what was left out, what a model would read."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from nicegui import ui

from shared_core.core.domain import Hit
from shared_core.core.namespaces import clean_text
from shared_core.ports.recall import KINDS, RecallResult
from shared_core.ui.frame import Page
from shared_core.ui.pages.hit_rows import (
    DETAILS_STYLE,
    HIT_STYLE,
    ScoreScale,
    hit_row,
    legend,
    relations,
)
from shared_core.ui.pages.left_out import read_left_out
from shared_core.ui.pages.question import (
    BUDGET,
    LEAST_TOKENS,
    MOST_HITS,
    MOST_TOKENS,
    RANKINGS,
    AskedQuestion,
    number_of,
)
from shared_core.ui.pages.window_rows import WINDOW_STYLE, read_window, threads_of
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, guarded, kind_name

Read: TypeAlias = Callable[[], Awaitable[Callable[[], None]]]
"""Reads something of the memory and returns what draws it."""
DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
LIMITS: Final = (5, 10, 20, 50, MOST_HITS)
ASK_STYLE: Final = """
.ask-row { display: flex; gap: .6rem; align-items: stretch; width: 100%; }
.ask-row .q-field { flex: 1; }
.options { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .75rem;
  width: 100%; align-items: start; }
.options .q-checkbox { flex-wrap: nowrap; }
.results { width: 100%; display: flex; flex-direction: column; gap: .75rem; }
"""


async def body(view: PageView) -> None:
    """Build the page; a question in the address is answered at once."""
    ui.add_css(ASK_STYLE + DETAILS_STYLE + HIT_STYLE + WINDOW_STYLE)
    asking = _Asking(view, AskedQuestion.of(view.params))
    await asking.answer()
    ui.timer(0, guarded(view, view.memory.warm_up), once=True)


class _Asking:
    """The page of one visitor: the field, its options, and the results below."""

    def __init__(self, view: PageView, asked: AskedQuestion) -> None:
        self.view = view
        self.asked = asked
        self._number = 0
        t = view.t
        with ui.element("div").classes("ask-row"):
            self._field = ui.input(t("Question", "问题"), value=asked.text)
            self._field.props("outlined autofocus clearable maxlength=4000").mark("question")
            self._field.on(
                "keydown.enter",
                self._ask_field,
                js_handler="""
                (event) => { if (!event.isComposing) emit(event.target.value); }""",
            )
            button = ui.button(t("Ask", "提问"), icon="search").props("no-caps unelevated")
            button.on_click(lambda: self._ask_text(self._field.value or ""))
        self._options()
        self._results = ui.element("div").classes("results").props("aria-live=polite")
        self._found: Sequence[Hit] = ()
        self._parts = [
            self._part(
                "left_out", t("What was left out, and why", "哪些没有返回，为什么"), "filter_alt",
                lambda: read_left_out(view, self.asked, self._found),
            ),
            self._part(
                "window",
                t("What a model would read (context window)", "模型会读到什么（上下文窗口）"),
                "description", self._read_window,
            ),
        ]  # fmt: skip

    def _options(self) -> None:
        view, asked, t = self.view, self.asked, self.view.t
        is_default = replace(asked, text="", left_out=False, window=False) == AskedQuestion(
            thread=asked.thread, budget=asked.budget
        )
        with ui.expansion(t("Options", "选项"), icon="tune", value=not is_default) as panel:
            panel.classes("full").props("dense")
            with ui.element("div").classes("options"):
                self._select("limit", t("Hits at most", "最多返回"), {n: f"{n}" for n in LIMITS})
                kinds = {kind: kind_name(view, kind) for kind in KINDS}
                self._select("kinds", t("Kinds (none: all)", "类型（不选：全部）"), kinds)
                self._select("ranking", t("Ranking", "排序方式"), _ranking_names(view))
                self._date("as_of", t("As of: what held then", "截至：当时成立的"))
                self._date("known", t("Known: what was known then", "已知：当时所知道的"))
                self._floor()
                ui.checkbox(
                    t("Without repeats", "去除重复"), value=asked.distinct,
                    on_change=lambda change: self._change(distinct=bool(change.value))(),
                )  # fmt: skip
            ui.label(t("A date means its first moment in UTC.", "日期指 UTC 当天零点。")).classes(
                "quiet"
            )

    def _select(self, name: str, label: str, options: dict[Any, str]) -> None:
        value = getattr(self.asked, name)
        many = isinstance(value, tuple)
        shown = [*value] if many else value
        if not many and shown not in options:
            options = {**options, shown: str(shown)}

        async def changed(change: Any) -> None:
            chosen = tuple(change.value or ()) if many else change.value
            await self._change(**{name: chosen})()

        ui.select(options, label=label, value=shown, multiple=many, on_change=changed).props(
            "outlined dense options-dense"
        ).mark(name)

    def _date(self, name: str, label: str) -> None:
        value = getattr(self.asked, name)
        field = ui.input(label, value=value)
        kind = "date" if not value or DATE.fullmatch(value) else "text"  # an address may say more
        field.props(f"type={kind} outlined dense stack-label").mark(name)
        field.on_value_change(lambda change: self._change(**{name: change.value or ""})())

    def _floor(self) -> None:
        label = self.view.t("Least relevance, 0 to 1", "最低相关度，0 到 1")
        field = ui.number(label, value=self.asked.floor, min=0, max=1, step=0.05)
        field.props("outlined dense debounce=400").mark("floor")

        async def changed(change: Any) -> None:
            floor = 0.0 if change.value is None else min(max(float(change.value), 0.0), 1.0)
            await self._change(floor=floor)()

        field.on_value_change(changed)

    async def _ask_field(self, event: Any) -> None:
        await self._ask_text(event.args if isinstance(event.args, str) else "")

    async def _ask_text(self, text: str) -> None:
        await self._change(text=clean_text(text).strip())()

    def _change(self, **options: Any) -> Callable[[], Awaitable[None]]:
        """Return a handler that asks with other options, and keeps them in the address."""

        async def ask() -> None:
            self._keep(**options)
            await self.answer()

        return guarded(self.view, ask)

    def _keep(self, **options: Any) -> None:
        """Keep options in the address of the page, so that it can be shared."""
        self.asked = replace(self.asked, **options)
        ui.navigate.history.replace(self.view.link("/ask", **self.asked.params))

    async def answer(self) -> None:
        """Ask, and put the answer in the place of the one before."""
        view, asked = self.view, self.asked
        self._number += 1
        number = self._number
        began = time.perf_counter()
        found = await asked.ask(view.memory, view.user) if asked.text else RecallResult()
        took_ms = 1000 * (time.perf_counter() - began)
        if number != self._number:
            return  # a later question was faster
        self._found = list(found)
        self._results.clear()
        with self._results:
            if asked.text:
                _show_hits(view, found, took_ms)
            else:
                _nothing_asked(view)
        for part in self._parts:
            part.empty(is_shown=bool(asked.text))

    def _part(self, name: str, title: str, icon: str, read: Read) -> _Part:
        is_open = bool(getattr(self.asked, name))
        part = _Part(self.view, title, icon, read, is_open=is_open)
        part.whole.mark(name)
        part.whole.on_value_change(lambda change: self._keep(**{name: bool(change.value)}))
        return part

    async def _read_window(self) -> Callable[[], None]:
        """Read the context window; return what shows it with a thread and a budget to choose."""
        view, t = self.view, self.view.t
        threads = await threads_of(view.memory, view.user)
        draw = await read_window(view, self.asked)

        def show() -> None:
            known = dict.fromkeys([*filter(None, [self.asked.thread]), *threads])
            names = {"": t("a new conversation", "新的会话"), **{one: one for one in known}}
            with ui.element("div").classes("options"):
                thread = ui.select(
                    names, label=t("Conversation that is answered", "正在回答的会话"),
                    value=self.asked.thread, with_input=True,
                ).props("outlined dense options-dense").mark("thread")  # fmt: skip
                budget = ui.number(
                    t("Budget in tokens", "token 预算"), value=self.asked.budget, min=LEAST_TOKENS,
                    max=MOST_TOKENS, step=500, format="%.0f",
                ).props("outlined dense debounce=500").mark("budget")  # fmt: skip
            with ui.element("div").classes("results") as place:
                draw()

            async def again() -> None:
                tokens = number_of(
                    str(budget.value or ""), "budget", LEAST_TOKENS, MOST_TOKENS, BUDGET
                )
                self._keep(thread=thread.value or "", budget=int(tokens))
                draw = await read_window(view, self.asked)
                place.clear()
                with place:
                    draw()

            thread.on_value_change(guarded(view, again))
            budget.on_value_change(guarded(view, again))

        return show


class _Part:
    """A part of the page that is read when it is opened. read: returns what draws it."""

    def __init__(self, view: PageView, title: str, icon: str, read: Read, *, is_open: bool) -> None:
        self._read = read
        self._number = 0
        self.whole = ui.expansion(title, icon=icon, value=is_open).classes("panel")
        with self.whole:
            self._place = ui.element("div").classes("results")
        self._fill_now = guarded(view, self._fill)
        self._is_filled = False
        self.whole.on_value_change(self._fill_now)

    def empty(self, *, is_shown: bool) -> None:
        """Forget what was read for another question, and read again if the part is open."""
        self._number += 1
        self._is_filled = False
        self.whole.set_visibility(is_shown)
        self._place.clear()
        if is_shown and self.whole.value:
            with self._place:
                ui.timer(0, self._fill_now, once=True)

    async def _fill(self) -> None:
        if self._is_filled or not self.whole.value:
            return
        self._is_filled, number = True, self._number
        with self._place:
            waiting = ui.spinner()
        try:
            draw = await self._read()
        finally:
            if number == self._number:
                waiting.delete()
                self._is_filled = False  # stays so after an error: opened again, it is read again
        if number == self._number:
            self._is_filled = True
            with self._place:
                draw()


def _show_hits(view: PageView, found: RecallResult, took_ms: float) -> None:
    t = view.t
    with ui.element("div").classes("row-line"):
        ui.label(
            t(f"{len(found)} {'memory' if len(found) == 1 else 'memories'} in {took_ms:.0f} ms",
              f"{len(found)} 条记忆，用时 {took_ms:.0f} 毫秒")
        ).classes("quiet").props("role=status").mark("found")  # fmt: skip
        if found.reranked:
            ui.label(t("in the order of a reranker", "按重排模型排序")).classes("quiet")
    if found.degraded:
        ui.label(
            t("The embedder cannot be used: these memories were found by their words alone.",
              "嵌入模型暂不可用：这些记忆只按用词找到。")
        ).classes("panel failure")  # fmt: skip
    if not found:
        empty(
            t("No memory answers this. A question needs a letter or a digit; fewer options, or"
              " another user, may find more.",
              "没有记忆能回答。问题至少要有一个文字或数字；放宽选项或换一个用户可能会找到更多。")
        )  # fmt: skip
        return
    if found.graph_results:
        relations(view, found.graph_results)
    hits = list(found)
    legend(view, hits)
    scale = ScoreScale(hits)
    for place, hit in enumerate(hits, 1):
        hit_row(view, place, hit, scale)


def _nothing_asked(view: PageView) -> None:
    user = view.user.user
    empty(
        view.t(
            f"Type a question, in any words. The memories of {user} that answer it appear here,"
            " best first, with the reasons why they were found.",
            f"输入任意问题。这里会按相关程度列出 {user} 的记忆，并说明为什么找到它们。",
        )
    )


def _ranking_names(view: PageView) -> dict[Any, str]:
    names = {
        "linear": view.t("learned weights (default)", "学习得到的权重（默认）"),
        "fusion": view.t("meaning and words, by hand", "意思与用词，人工权重"),
        "rrf": view.t("reciprocal ranks", "倒数排名融合"),
        "vector": view.t("meaning alone", "仅按意思"),
        "bm25": view.t("words alone", "仅按用词"),
        "three_factor": view.t("relevance, recency, importance", "相关、新近、重要"),
    }
    return {ranking: names.get(ranking, ranking) for ranking in RANKINGS}


PAGE = Page("/ask", "search", "Ask", "提问", body)
