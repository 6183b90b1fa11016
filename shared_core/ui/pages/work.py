"""Runs of consolidation with undo, and the queue of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nicegui import ui

from shared_core.core.domain import JsonValue
from shared_core.knowledge.consolidation import RunReport
from shared_core.knowledge.reflection import ReflectionReport
from shared_core.ports.runs import RunRecord
from shared_core.ui.actions import action_button
from shared_core.ui.frame import Page
from shared_core.ui.pages.known_threads import known_threads, thread_field
from shared_core.ui.pages.work_jobs import jobs_part
from shared_core.ui.style import COLOURS
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, heading, panel, whole_param

SHOWN: Final = 20
"""Number of runs that the page shows at first, and with each "more"."""
MOST: Final = 1_000

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "full_consolidation": ("consolidation", "整理"),
    "fast_replay": ("summary", "摘要"),
    "deep_reflection": ("facts of a thread", "提取事实"),
    "reflection": ("reflection", "反思"),
    "graph": ("correction of the graph", "更正图谱"),
    "retraction": ("retracted fact", "撤回事实"),
    "restoration": ("restored fact", "恢复事实"),
    "statement": ("stated fact", "录入事实"),
    "forget": ("request to forget", "遗忘请求"),
    "edit": ("edited turns", "修改对话"),
    "profile": ("profile update", "更新画像"),
}
"""English and Chinese word for each kind of run."""
CONSOLIDATIONS: Final = ("full_consolidation", "fast_replay", "deep_reflection")
"""Kinds of run that a consolidation of the thread makes again."""
CHANGES: Final[Mapping[str, tuple[str, str, str]]] = {
    "events": ("turn read", "turns read", "轮对话已读"),
    "turns": ("turn read", "turns read", "轮对话已读"),
    "memories": ("memory", "memories", "条记忆"),
    "facts": ("fact", "facts", "条事实"),
    "opened": ("entry", "entries", "个条目"),
    "closed": ("ended", "ended", "条已结束"),
    "statements": ("statement", "statements", "条陈述"),
    "insights": ("insight", "insights", "条洞见"),
    "edges": ("edge", "edges", "条关系"),
    "edges_closed": ("ended edge", "ended edges", "条关系已结束"),
    "summaries": ("summary", "summaries", "份摘要"),
    "doubted": ("made doubtful", "made doubtful", "条存疑"),
    "confirmed": ("certain again", "certain again", "条重新确认"),
    "edited": ("turn edited", "turns edited", "轮对话已修改"),
    "left": ("turn left", "turns left", "轮对话已移除"),
    "restored": ("restored", "restored", "条已恢复"),
    "merged": ("name merged", "names merged", "个名称已合并"),
    "parted": ("name parted", "names parted", "个名称已拆分"),
    "findings": ("conclusion", "conclusions", "条推断"),
    "rejected": ("rejected draft", "rejected drafts", "条草稿被拒"),
    "needs_model": ("left for a model", "left for a model", "条需语言模型处理"),
    "skipped": ("left unread by the model", "left unread by the model", "条未送模型"),
    "forgotten": ("forgotten on request", "forgotten on request", "条应要求遗忘"),
    "model_calls": ("call of a model", "calls of a model", "次模型调用"),
    "input_tokens": ("token read by it", "tokens read by it", "个输入 token"),
    "output_tokens": ("token written by it", "tokens written by it", "个输出 token"),
}
"""English word, its plural, and Chinese word for each count of a run, in the order shown."""


async def body(view: PageView) -> None:
    """Build the page."""
    heading(view.t("Runs", "运行记录"))
    if view.scope is None:
        empty(view.t(
            "Choose a user above to see what consolidation and reflection made of their turns.",
            "请先在上方选择用户，再查看整理与反思从对话中得出了什么。",
        ))  # fmt: skip
    else:
        await _runs(view)
    heading(view.t("Queue", "任务队列"))
    await jobs_part(view)


async def _runs(view: PageView) -> None:
    """Show the runs of the chosen user, newest first, and the actions that start one."""
    if named := view.params.get("run"):
        await _one_run(view, named)
        return
    thread, limit = view.params.get("thread") or None, _limit(view)
    await _begin(view, thread)
    found = await view.memory.runs(view.user, thread_id=thread, limit=limit + 1)
    for run in found[:limit]:
        _run(view, run)
    if not found:
        empty(view.t(
            "There are no runs yet. A run appears when the turns of a thread are consolidated.",
            "还没有运行记录。会话线程的对话被整理后，这里就会出现一次运行。",
        ))  # fmt: skip
    if len(found) > limit < MOST:
        more = min(limit + SHOWN, MOST)
        ui.link(view.t("Show more", "显示更多"), view.link("/runs", thread=thread, limit=more))


async def _one_run(view: PageView, named: str) -> None:
    """Show the run that the address names. Other pages link to it."""
    found = [
        one for one in await view.memory.runs(view.user, limit=MOST) if str(one.run_id) == named
    ]
    for run in found:
        _run(view, run)
    if not found:
        empty(view.t(
            f"There is no such run among the newest {MOST:,}.",
            f"最近 {MOST:,} 次运行中没有这一次。",
        ))  # fmt: skip
    ui.link(view.t("All runs", "全部运行记录"), view.link("/runs"))


def _limit(view: PageView) -> int:
    return whole_param(view, "limit", SHOWN, MOST) or SHOWN


async def _begin(view: PageView, thread: str | None) -> None:
    """Show the choice of a thread, and what can be started for it."""
    known = await known_threads(view)
    with ui.element("div").classes("row-line"):
        field = thread_field(view, view.t("Thread", "会话线程"), known, thread)
        field.on_value_change(
            lambda change: ui.navigate.to(view.link("/runs", thread=change.value or None))
        )
        if thread is not None:
            _consolidate_button(view, thread)
        _reflect_button(view)
    if thread is None and view.may_write:
        ui.label(view.t("Choose a thread to consolidate it now.", "选择会话线程后可立即整理。"))\
            .classes("quiet")  # fmt: skip


def _consolidate_button(view: PageView, thread: str) -> None:
    async def do() -> str:
        return _consolidated(view, await view.memory.consolidate(view.user, thread))

    action_button(
        view,
        view.t("Consolidate now", "立即整理"),
        icon="auto_fix_high",
        will=view.t(
            f"Read the unread turns of thread {thread}, and make facts, statements, edges of the "
            "graph and a summary of them. The run can be undone.",
            f"读取会话线程 {thread} 中尚未整理的对话，生成事实、陈述、图谱关系和摘要。"
            "这次运行可以撤销。",
        ),
        do=do,
    )


def _consolidated(view: PageView, report: RunReport) -> str:
    if report.run_id is None:
        return view.t(
            "This thread has no unread turns: nothing changed.",
            "这个会话线程没有未整理的对话，未作任何更改。",
        )
    counts: dict[str, JsonValue] = {
        "events": report.events, "facts": report.facts_opened, "closed": report.facts_closed,
        "statements": report.statements, "insights": report.insights, "edges": report.edges,
        "summaries": int(bool(report.summary)),
    }  # fmt: skip
    return changes(view, counts) + _undo_hint(view)


def _reflect_button(view: PageView) -> None:
    async def do() -> str:
        return _reflected(view, await view.memory.reflect(view.user))

    action_button(
        view,
        view.t("Reflect now", "立即反思"),
        icon="psychology",
        will=view.t(
            f"Look for patterns in the 50 newest memories of {view.user.user}, across all threads, "
            "and store them as insights; with a language model, also end the facts that are out of "
            "date. The run can be undone.",
            f"在 {view.user.user} 最近的 50 条记忆中（跨会话线程）寻找规律，并存为洞见；"
            "有语言模型时，还会结束已被其他事实表明过时的事实。这次运行可以撤销。",
        ),
        do=do,
    )


def _reflected(view: PageView, report: ReflectionReport) -> str:
    insights = [one.content for one in report.reflections]
    parts = [
        (view.t("New insights:", "新的洞见："), insights),
        (view.t("Holds no longer:", "不再成立："), report.ended),
    ]
    texts = [
        heading + "".join(f"\n• {one}" for one in lines) + "\n" for heading, lines in parts if lines
    ]
    if not texts:
        return view.t("It found nothing new: nothing changed.", "没有新发现，未作任何更改。")
    return "".join(texts) + _undo_hint(view)


def _undo_hint(view: PageView) -> str:
    return view.t(
        "\nTo undo it, use the button of the run on this page.",
        "\n如需撤销，请使用本页该次运行的按钮。",
    )


def _run(view: PageView, run: RunRecord) -> None:
    """Show a run: when, what kind, what it made, and the button that undoes it."""
    with panel():
        with ui.element("div").classes("row-line"):
            ui.label(kind_of_run(view, run.kind)).classes("kind").style(
                f"border-color: {COLOURS['reflection' if run.kind == 'reflection' else 'semantic']}"
            )
            ui.label(view.time(run.finished_at)).classes("quiet")
            if run.thread_id:
                ui.link(
                    view.t(f"thread {run.thread_id}", f"会话线程 {run.thread_id}"),
                    view.link("/memories", thread=run.thread_id),
                ).classes("quiet")
            ui.label(view.t(f"by {run.extractor}", f"由 {run.extractor}")).classes("quiet")
            ui.label(str(run.run_id)).classes("quiet")
        made = ui.label(changes(view, run.counts)).classes("text")
        if run.undone_at is not None:
            made.classes("ended")
            ui.label(
                view.t("Undone at ", "已撤销，时间：") + view.time(run.undone_at)
            ).classes("quiet")  # fmt: skip
        else:
            _undo_button(view, run)


def _undo_button(view: PageView, run: RunRecord) -> None:
    async def do() -> str:
        await view.memory.undo_run(view.user, run.run_id)
        return view.t("The run is undone.", "该次运行已撤销。") + _how_to_redo(view, run)

    with ui.element("div"):
        action_button(
            view, view.t("Undo", "撤销"), icon="undo", will=_what_undo_does(view, run), do=do
        )


def _what_undo_does(view: PageView, run: RunRecord) -> str:
    """Say what was before a run and will be again."""
    return {
        "profile": view.t(
            "The version of the profile before this one becomes the current one again.",
            "画像将恢复到这次更新之前的版本。",
        ),
        "forget": view.t(
            "All memories that this request set aside come back.",
            "这次遗忘请求搁置的所有记忆都会恢复。",
        ),
        "edit": view.t(
            "The turns have their old words again, and what rested on them comes back.",
            "对话恢复为原来的内容，由它得出的记忆也会恢复。",
        ),
        "retraction": view.t("The fact that was ended holds again.", "被撤回的事实将重新生效。"),
        "restoration": view.t("What was restored ends again.", "恢复的内容会再次失效。"),
        "graph": view.t("This correction is taken back.", "这次更正会被撤回。"),
        "statement": view.t(
            "The stated fact goes, and the facts that it ended hold again.",
            "录入的事实会移除，被它结束的事实重新生效。",
        ),
        "reflection": view.t("The insights of this run go.", "这次运行得出的洞见会移除。"),
    }.get(
        run.kind,
        view.t(
            "The facts, statements, edges and summary of this run go. Facts that it ended hold "
            "again, and its turns count as unread: the next consolidation reads them again.",
            "这次运行生成的事实、陈述、关系和摘要会移除，被它结束的事实重新生效；"
            "相关对话恢复为未整理，下次整理时会重新读取。",
        ),
    ) + view.t(
        "\nIf later runs build on it, nothing changes, and the message names them.",
        "\n如果之后的运行依赖于它，则不会作任何更改，并会提示是哪些运行。",
    )


def _how_to_redo(view: PageView, run: RunRecord) -> str:
    if run.thread_id is None or run.kind not in CONSOLIDATIONS:
        return ""
    return view.t(
        f"\nTo make it again, choose thread {run.thread_id} and consolidate it.",
        f"\n如需重新生成，请选择会话线程 {run.thread_id} 并立即整理。",
    )


def kind_of_run(view: PageView, kind: str) -> str:
    """Return the word for a kind of run."""
    return view.t(*KINDS[kind]) if kind in KINDS else kind


def changes(view: PageView, counts: Mapping[str, JsonValue]) -> str:
    """Return what a run made, as a list of counts without zeros."""
    made = [
        f"{number:,} {view.t(one if number == 1 else many, chinese)}"
        for name, (one, many, chinese) in CHANGES.items()
        if isinstance(number := counts.get(name), int) and not isinstance(number, bool) and number
    ]
    if counts.get("failed"):
        made.append(view.t("it failed", "失败"))
    if instead := counts.get("instead_of"):
        made.append(view.t(f"in place of {instead}", f"代替 {instead}"))
    return view.t(", ", "，").join(made) or view.t("nothing changed", "未作更改")


PAGE = Page("/runs", "history", "Runs and jobs", "运行与任务", body, of_user=False)
