"""What a question did not return, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from nicegui import ui

from shared_core.core.domain import Hit
from shared_core.recall.ranking import collapsed, relevance
from shared_core.ui.pages.hit_rows import ScoreScale, hit_row
from shared_core.ui.pages.question import AskedQuestion
from shared_core.ui.view import PageView
from shared_core.ui.widgets import kind_name


async def read_left_out(
    view: PageView, asked: AskedQuestion, shown: Sequence[Hit]
) -> Callable[[], None]:
    """Ask again without the options that leave memories out; return what shows those."""
    wide = await asked.ask_for_all(view.memory, view.user)
    return partial(_show, view, asked, shown, list(wide))


def _show(view: PageView, asked: AskedQuestion, shown: Sequence[Hit], wide: Sequence[Hit]) -> None:
    known = {hit.memory.memory_id for hit in shown}
    missing = [
        (place, hit) for place, hit in enumerate(wide, 1) if hit.memory.memory_id not in known
    ]
    if not missing:
        ui.label(
            view.t(
                "Nothing: no other memory in recall has to do with the question.",
                "没有：检索范围内没有其他与问题有关的记忆。",
            )
        )
    scale, rank = ScoreScale(hit for _, hit in missing), len(shown)
    for place, hit in missing:
        reason = _reason(view, asked, hit, shown)
        if reason is None:
            rank += 1
            reason = view.t(
                f"Left out: further down (place {rank}) than the limit of {asked.limit}.",
                f"未返回：排在第 {rank} 位，超出 {asked.limit} 条的上限。",
            ) if rank > asked.limit else view.t(
                "Left out: it was no candidate while fewer memories were asked for.",
                "未返回：请求条数较少时，它未进入候选。",
            )  # fmt: skip
        hit_row(view, place, hit, scale, note=reason)
    with ui.element("div").classes("row-line"):
        ui.label(
            view.t("Not searched at all: facts that have ended and memories that have faded.",
                   "完全不参与搜索：已结束的事实和已淡出的记忆。")
        ).classes("quiet")  # fmt: skip
        ui.link(view.t("Facts", "事实"), view.link("/facts")).classes("quiet")
        ui.link(view.t("Forgetting", "遗忘"), view.link("/forgetting")).classes("quiet")


def _reason(view: PageView, asked: AskedQuestion, hit: Hit, shown: Sequence[Hit]) -> str | None:
    """Return which option left a hit out; None if only the limit can have."""
    if asked.kinds and hit.memory.kind not in asked.kinds:
        kind = kind_name(view, hit.memory.kind)
        return view.t(f"Left out: its kind ({kind}) was not asked for.",
                      f"未返回：所选类型不包括“{kind}”。")  # fmt: skip
    found = relevance(hit)
    if found < asked.floor:
        return view.t(
            f"Left out: below the floor. Its relevance is {found:.2f}, at least {asked.floor:.2f}"
            " was asked for.",
            f"未返回：低于下限。相关度 {found:.2f}，要求至少 {asked.floor:.2f}。",
        )
    if asked.distinct:
        for other, one in enumerate(shown, 1):
            if len(collapsed([one, hit], 2)) == 1:
                return view.t(f"Left out: it says the same as hit {other}.",
                              f"未返回：与第 {other} 条内容相同。")  # fmt: skip
    return None
