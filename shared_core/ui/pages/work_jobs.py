"""The queue of jobs: how long it is, and each job with what can be done about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from nicegui import ui

from shared_core.core.domain import Scope
from shared_core.ports.jobs import OPEN_OR_FAILED, JobRecord, JobStats, JobStatus
from shared_core.ui.actions import action_button
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, panel, tile

MOST_SHOWN: Final = 100
"""Maximum number of jobs that the page shows."""
MOST_USERS: Final = 100
"""Maximum number of users of a token whose jobs are read, each with a query."""

STATES: Final[Mapping[JobStatus, tuple[str, str, str, str]]] = {
    JobStatus.RUNNING: ("running", "运行中", "sync", "#0072B2"),
    JobStatus.PENDING: ("waiting", "等待中", "schedule", "#E69F00"),
    JobStatus.FAILED: ("dead", "已失败", "error", "#D55E00"),
    JobStatus.COMPLETED: ("done", "已完成", "check_circle", "#009E73"),
    JobStatus.CANCELLED: ("cancelled", "已取消", "cancel", "#999999"),
}
"""English and Chinese word, icon and colour of each state, in the order of the list."""
TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "full_consolidation": ("consolidation", "整理"),
    "fast_replay": ("summary", "摘要"),
    "deep_reflection": ("facts of a thread", "提取事实"),
    "reflection": ("reflection", "反思"),
    "item_vectors": ("vectors of items", "条目的向量"),
    "callback": ("callback", "回调"),
}
"""English and Chinese word for each type of job."""


async def jobs_part(view: PageView) -> None:
    """Show the queue of the chosen user, or of all users that the visitor may see."""
    of_all = view.scope is None or view.params.get("of") == "all"
    chosen = _chosen_states(view)
    jobs = await _jobs(view, chosen, of_all=of_all)
    _whose(view, of_all=of_all)
    if of_all and len(view.caller.users or ()) > MOST_USERS:
        ui.label(view.t(
            f"Only the first {MOST_USERS} users are read: choose one.",
            f"只读取前 {MOST_USERS} 位用户，请选择一位用户。",
        )).classes("quiet")  # fmt: skip
    if view.caller.app is None and of_all:
        _sizes(view, await view.memory.jobs.stats())
    _filter(view, of_all=of_all)
    order = list(STATES)
    jobs.sort(key=lambda job: (order.index(job.status), -job.created_at.timestamp()))
    now = await view.memory.now()
    _retry_all(view, [job for job in jobs if job.status is JobStatus.FAILED])
    for job in jobs[:MOST_SHOWN]:
        _job(view, job, now)
    if len(jobs) > MOST_SHOWN:
        ui.label(view.t(
            f"Only the first {MOST_SHOWN} are shown: choose a user or a state.",
            f"只显示前 {MOST_SHOWN} 个任务，请选择用户或状态。",
        )).classes("quiet")  # fmt: skip
    if not jobs:
        empty(view.t(
            "There is no such job. Jobs appear here while new turns wait to be consolidated.",
            "没有这样的任务。新的对话等待整理时，任务会出现在这里。",
        ))  # fmt: skip


def _whose(view: PageView, *, of_all: bool) -> None:
    """Say whose jobs are shown and who runs them, with a link to the jobs of the others."""
    with ui.element("div").classes("row-line"):
        if view.scope is not None:
            states = view.params.get("state")
            if of_all:
                ui.label(view.t("Jobs of all users.", "所有用户的任务。"))
                ui.link(
                    view.t(f"Only {view.scope.user}", f"只看 {view.scope.user}"),
                    view.link("/runs", state=states),
                )
            else:
                ui.label(view.t(f"Jobs of {view.scope.user}.", f"{view.scope.user} 的任务。"))
                ui.link(
                    view.t("Jobs of all users", "所有用户的任务"),
                    view.link("/runs", of="all", state=states),
                )
        ui.label(
            view.t("This process runs them.", "由本进程执行。")
            if view.memory.jobs.done_here
            else view.t(
                "This process does not run them: hippocampus worker does.",
                "本进程不执行任务，请运行 hippocampus worker。",
            )
        ).classes("quiet")
        ui.button(
            view.t("Refresh", "刷新"), icon="refresh", on_click=lambda: ui.navigate.reload()
        ).props("flat dense no-caps")


def _chosen_states(view: PageView) -> Sequence[JobStatus]:
    state = view.params.get("state", "")
    if state == "all":
        return [*JobStatus]
    return [JobStatus(state)] if state in [*JobStatus] else OPEN_OR_FAILED


async def _jobs(view: PageView, states: Sequence[JobStatus], *, of_all: bool) -> list[JobRecord]:
    """Return the jobs that the visitor may see and has asked for, newest first."""
    listed, most = view.memory.jobs.list, MOST_SHOWN + 1
    if not of_all:
        return [*await listed(view.user, statuses=states, limit=most)]
    app, users = view.caller.app, view.caller.users
    if app is None or users is None:
        return [*await listed(app=app, statuses=states, limit=most)]
    found: list[JobRecord] = []
    for user in users[:MOST_USERS]:
        found += await listed(Scope(app, user), statuses=states, limit=most)
    return found


def _sizes(view: PageView, stats: JobStats) -> None:
    """Show the sizes of the whole queue."""
    oldest = view.t("nothing waits", "没有等待的任务")
    if stats.oldest_due_s is not None:
        waited = span(view, timedelta(seconds=stats.oldest_due_s))
        oldest = view.t(f"the oldest for {waited}", f"最久已等 {waited}")
    callbacks = ""
    if stats.due_callbacks:
        callbacks = view.t(
            f", {stats.due_callbacks} need a process with their code",
            f"，其中 {stats.due_callbacks} 个需要带有相应代码的进程",
        )
    with ui.element("div").classes("tiles"):
        tile(view.t("Running", "运行中"), f"{stats.running:,}")
        tile(view.t("Waiting", "等待中"), f"{stats.pending:,}")
        tile(view.t("Due now", "已到期"), f"{stats.due:,}", oldest + callbacks)
        tile(view.t("Dead", "已失败"), f"{stats.failed:,}")


def _filter(view: PageView, *, of_all: bool) -> None:
    """Show the states to choose from, as links."""
    chosen = view.params.get("state")
    choices: list[tuple[str | None, str]] = [
        (None, view.t("open and dead", "未完成与已失败")),
        *((state.value, view.t(*words[:2])) for state, words in STATES.items()),
        ("all", view.t("all", "全部")),
    ]
    with ui.element("nav").classes("row-line") as nav:
        nav.props["aria-label"] = view.t("States of jobs", "任务状态")
        for state, label in choices:
            if state == chosen:
                ui.label(label).classes("heading").props("aria-current=true")
            else:
                of = "all" if of_all and view.scope is not None else None
                ui.link(label, view.link("/runs", state=state, of=of))


def _job(view: PageView, job: JobRecord, now: datetime) -> None:
    """Show a job, with the action that its state allows."""
    english, chinese, icon, colour = STATES[job.status]
    with panel():
        with ui.element("div").classes("row-line"):
            ui.icon(icon).style(f"color: {colour}").props("aria-hidden=true")
            ui.label(view.t(english, chinese)).classes("kind").style(f"border-color: {colour}")
            ui.label(type_of_job(view, job))
            ui.label(f"{job.scope.app} / {job.scope.user}").classes("quiet")
            if job.thread_id:
                ui.label(view.t(f"thread {job.thread_id}", f"会话线程 {job.thread_id}")).classes(
                    "quiet"
                )
        with ui.element("div").classes("row-line"):
            ui.label(_when(view, job, now)).classes("quiet")
            ui.label(str(job.job_id)).classes("quiet")
        if job.error:
            ui.label(job.error).classes("text failure-text")
        if job.status is JobStatus.FAILED:
            _retry(view, job)
        elif job.is_open:
            _cancel(view, job)


def type_of_job(view: PageView, job: JobRecord) -> str:
    """Return the word for the type of a job, with the name of the code of a callback."""
    words = view.t(*TYPES[job.job_type]) if job.job_type in TYPES else str(job.job_type)
    return f"{words} {job.performer}" if job.performer else words


def _when(view: PageView, job: JobRecord, now: datetime) -> str:
    """Say how old a job is, how often it was tried, and when it is due or was done."""
    parts = [
        view.t(f"{span(view, now - job.created_at)} old", f"{span(view, now - job.created_at)}前"),
        view.t(f"tried {job.attempts} times", f"已尝试 {job.attempts} 次"),
    ]
    if job.status is JobStatus.PENDING:
        wait = job.run_after - now
        if wait > timedelta(0):
            parts.append(view.t(f"due in {span(view, wait)}", f"{span(view, wait)}后到期"))
        else:
            parts.append(view.t("due now", "已到期"))
    if job.completed_at is not None:
        parts.append(view.t("ended ", "结束于 ") + view.time(job.completed_at))
    return " · ".join(parts)


def _retry(view: PageView, job: JobRecord) -> None:
    async def do() -> str:
        count = await view.memory.jobs.retry([job.job_id])
        return _put_back(view, count)

    with ui.element("div"):
        action_button(
            view,
            view.t("Try again", "重试"),
            icon="replay",
            will=view.t(
                "Put this job back into the queue, due now.", "把该任务放回队列，立即到期。"
            ),
            do=do,
        )


def _retry_all(view: PageView, dead: Sequence[JobRecord]) -> None:
    if len(dead) < 2:
        return

    async def do() -> str:
        return _put_back(view, await view.memory.jobs.retry([job.job_id for job in dead]))

    by_error = Counter((job.error or "–")[:200] for job in dead)
    errors = "\n".join(f"{count} × {error}" for error, count in by_error.most_common(5))
    with ui.element("div"):
        action_button(
            view,
            view.t(f"Try {len(dead)} dead jobs again", f"重试 {len(dead)} 个失败任务"),
            icon="replay",
            will=view.t(
                f"Put these jobs back into the queue, due now. They failed with:\n{errors}",
                f"把这些任务放回队列，立即到期。失败原因：\n{errors}",
            ),
            do=do,
        )


def _put_back(view: PageView, count: int) -> str:
    return view.t(
        f"{count} put back into the queue. Cancel a job to take it out again.",
        f"已把 {count} 个任务放回队列。如需移出，请取消任务。",
    )


def _cancel(view: PageView, job: JobRecord) -> None:
    async def do() -> str:
        count = await view.memory.jobs.cancel([job.job_id])
        if not count:
            return view.t("The job had ended already.", "该任务此前已结束。")
        return view.t(
            "The job is cancelled. Its turns stay unread: to read them after all, consolidate the "
            "thread on this page.",
            "任务已取消，相关对话仍未整理。如需处理，请在本页整理该会话线程。",
        )

    with ui.element("div"):
        action_button(
            view,
            view.t("Cancel the job", "取消任务"),
            icon="cancel",
            will=view.t(
                "Take this job out of the queue. A running one stops within some seconds, and what "
                "it has stored stays.",
                "把该任务移出队列。正在运行的任务会在几秒内停止，已存储的内容会保留。",
            ),
            do=do,
        )


def span(view: PageView, length: timedelta) -> str:
    """Return a length of time in the largest unit that counts at least two."""
    seconds = max(int(length.total_seconds()), 0)
    units = ((86_400, "d", "天"), (3_600, "h", "小时"), (60, "min", "分钟"))
    for size, english, chinese in units:
        if seconds >= 2 * size:
            return view.t(f"{seconds // size} {english}", f"{seconds // size} {chinese}")
    return view.t(f"{seconds} s", f"{seconds} 秒")
