"""Commands of the queue: worker and jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.layout import Grid
from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import chosen_id
from shared_core.core.locale import t
from shared_core.errors import InvalidInput
from shared_core.ports.jobs import JobRecord, JobStats, JobStatus

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.jobs.worker import Tally

log = logging.getLogger("hippocampus")

ORDER = ("running", "pending", "failed", "completed", "cancelled")
SHOWN_OF_ID = 6
"""Characters from the end of an id that a table shows. Its beginning is only the time."""
WATCH_S = 0.5
"""Seconds between two looks at the queue for the progress."""
MAX_JOBS = 100_000
"""Maximum number of jobs that are searched for the beginning or the end of an id."""


@cli.app.command()
@cli.chinese(
    """运行所有进程排入队列的任务，直到 SIGTERM 或 Ctrl-C。

    可以同时运行任意多个 worker。使用 --once 时，若有尝试失败，退出码为 1。
    """
)
def worker(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    llm: cli.Llm = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help=both("Run the jobs that are due, and end.", "运行到期的任务后结束。")
        ),
    ] = False,
    poll: Annotated[
        float,
        typer.Option(
            min=0.01,
            metavar="SECONDS",
            help=both("Seconds between two looks at the queue.", "每隔几秒查看一次队列。"),
        ),
    ] = 1.0,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help=both("Print JSON at the end: what was done.", "结束时以 JSON 输出完成了什么。"),
        ),
    ] = False,
) -> None:
    """Run the queued jobs of all processes until SIGTERM or Ctrl-C.

    Any number of workers can run side by side. With --once the exit code is 1 if a try failed.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("hippocampus").setLevel(logging.INFO)
    model = cli.ready_model(llm)
    memory = cli.open_memory(uri, schema=schema, embedder=embedder, llm=model, worker=False)
    done: dict[str, int] = {}
    silent = as_json or not once
    code = asyncio.run(work(memory, once=once, poll_s=poll, done=done, silent=silent))
    if as_json:
        cli.print_json(done)
    raise typer.Exit(code)


@cli.app.command()
@cli.chinese(
    """列出运行中、等待中或失败的任务；可重试或取消一个任务。

    任务可用编号指明，也可用编号的开头或结尾。
    """
)
def jobs(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    limit: Annotated[
        int, typer.Option(min=1, help=both("Maximum number of jobs.", "最多列出几个任务。"))
    ] = 100,
    as_json: cli.AsJson = False,
    status: Annotated[
        JobStatus | None,
        typer.Option(
            help=both(
                "Only jobs in this state: pending, running, completed, failed or cancelled.",
                "只列此状态的任务：pending、running、completed、failed 或 cancelled。",
            ),
            show_default=both("running, pending or failed", "running、pending 或 failed"),
        ),
    ] = None,
    app_name: cli.OnlyApp = None,
    user: cli.OnlyUser = None,
    retry: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help=both(
                "Put a dead job back into the queue, or 'all' of them up to --limit.",
                "把失败的任务放回队列；all 表示全部，最多 --limit 个。",
            ),
        ),
    ] = None,
    cancel: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help=both("Cancel a job that waits or runs.", "取消等待中或运行中的任务。"),
        ),
    ] = None,
) -> None:
    """List the jobs that run, wait or are dead; retry or cancel a job.

    Name a job by its id, or by the beginning or the end of the id.
    """
    scope, _ = cli.scope_options(app_name, user)
    memory = cli.open_memory(uri, schema=schema, worker=False)
    if retry is not None or cancel is not None:
        done = cli.with_memory(
            memory, lambda memory: _change(memory, retry, cancel, scope, app_name, limit)
        )
        in_chinese = done.replace(" cancelled", " 个已取消").replace(" put back", " 个已放回队列")
        text = t(done, in_chinese)
        cli.report(text, {"done": done}, as_json)
        return

    async def read(memory: MemoryEngine) -> tuple[Sequence[JobRecord], JobStats]:
        statuses = None if status is None else [status]
        listed = await memory.jobs.list(scope, app=app_name, statuses=statuses, limit=limit)
        return listed, await memory.jobs.stats()

    found, stats = cli.with_memory(memory, read)
    found = sorted(found, key=lambda job: (ORDER.index(job.status), job.created_at))
    now = datetime.now(UTC)
    if as_json:
        cli.print_json([_job_json(job, now) for job in found], indent=2)
    elif found:
        cli.print_all([_jobs_table(found, now), _stats_line(stats)])
    elif status is None and app_name is None:
        cli.say(t("Nothing waits, and nothing failed.", "没有等待的任务，也没有失败的任务。"))
    else:
        cli.say(t("There is no such job.", "没有这样的任务。"))


async def work(
    memory: MemoryEngine,
    *,
    once: bool,
    poll_s: float,
    done: dict[str, int] | None = None,
    silent: bool = True,
) -> int:
    """Run the jobs of all processes until SIGTERM or SIGINT, or with once until none is due.

    The first signal lets the current job finish, the second returns it to the queue. The result is
    the exit code: 1 if a job failed with once, or a job was returned. done: receives the number of
    jobs done and of tries failed. silent: show no progress on a terminal.
    """
    stop = asyncio.Event()
    async with memory:
        if once:
            await memory.conversations.expiry.run()
        working = asyncio.create_task(memory.jobs.serve(stop, once=once, poll_s=poll_s))

        def on_signal() -> None:
            if stop.is_set():
                working.cancel()
            else:
                log.info("stopping after the current job; signal again to return it to the queue")
                stop.set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
        there = await memory.report()
        place = f"schema {there.schema!r} of {there.location}"
        log.info("worker %d waits for jobs in %s", os.getpid(), place)
        services = (memory.indexes, memory.retention.schedule, memory.conversations.expiry)
        upkeep = [] if once else [asyncio.create_task(one.keep(stop)) for one in services]
        try:
            with suppress(asyncio.CancelledError), _progress(memory, silent=silent):
                return await _finish(memory, working, once=once, done=done)
            log.warning("worker ends: the current job went back to the queue")
            return 1
        finally:
            for task in upkeep:
                task.cancel()
            if upkeep:
                await asyncio.wait(upkeep)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


@contextmanager
def _progress(memory: MemoryEngine, *, silent: bool) -> Iterator[None]:
    """Show how many of the due jobs are done, on a terminal."""
    with cli.progress_bar(silent=silent) as progress:
        if progress.disable:
            yield
            return
        bar = progress.add_task(t("Running jobs", "正在运行任务"), total=None)

        async def watch() -> None:
            most = 0
            while True:
                stats = await memory.jobs.stats()
                left = stats.due - stats.due_callbacks + stats.running
                most = max(most, left)
                progress.update(bar, total=most or None, completed=most - left)
                await asyncio.sleep(WATCH_S)

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()


async def _finish(
    memory: MemoryEngine, working: asyncio.Task[Tally], *, once: bool, done: dict[str, int] | None
) -> int:
    """Wait for the jobs, log how many were done, and return the exit code."""
    tally = await working
    if done is not None:
        done |= {"done": tally.done, "failed": tally.failed}
    if once:
        await memory.retention.schedule.run_if_due()
    log.info("worker ends: %d jobs done, %d tries failed", tally.done, tally.failed)
    if once and (left := (await memory.jobs.stats()).due_callbacks):
        log.info(
            "%d callbacks are due and were not run: they need a process that has their code, for"
            " example the DurableReflectionExecutor that queued them",
            left,
        )
    return 1 if once and tally.failed else 0


async def _change(
    memory: MemoryEngine,
    retry: str | None,
    cancel: str | None,
    scope: Scope | None,
    app: str | None,
    limit: int,
) -> str:
    """Retry dead jobs or cancel one, and return what was done in one line.

    retry, cancel: the id of a job, or its beginning or end; retry may be "all", up to limit.
    Raises InvalidInput for a name that means no job or several.
    """
    if retry is not None and cancel is not None:
        raise InvalidInput(
            t("give either --retry or --cancel, not both", "--retry 和 --cancel 只能选一个")
        )
    dead = [JobStatus.FAILED]
    if cancel is not None:
        ids = await _job_ids(memory, cancel, [JobStatus.PENDING, JobStatus.RUNNING])
        return f"{await memory.jobs.cancel(ids)} cancelled"
    if retry == "all":
        found = await memory.jobs.list(scope, app=app, statuses=dead, limit=limit)
        ids = [job.job_id for job in found]
    else:
        ids = await _job_ids(memory, retry or "", dead)
    return f"{await memory.jobs.retry(ids)} put back"


async def _job_ids(memory: MemoryEngine, name: str, statuses: Sequence[JobStatus]) -> list[UUID]:
    candidates = await memory.jobs.list(statuses=statuses, limit=MAX_JOBS)
    ids = [job.job_id for job in candidates]
    what = f"{' or '.join(statuses)} job"
    return [chosen_id(name, ids, what=what, shown_by="hippocampus jobs")]


def _job_json(job: JobRecord, now: datetime) -> dict[str, JsonValue]:
    return {
        "state": job.status,
        "app": job.scope.app,
        "user": job.scope.user,
        "thread": job.thread_id,
        "type": job.job_type,
        "performer": job.performer,
        "priority": job.priority,
        "attempts": job.attempts,
        "age_s": round((now - job.created_at).total_seconds(), 3),
        "run_after": job.run_after.isoformat(),
        "lease_until": cli.iso(job.lease_until),
        "started_at": cli.iso(job.started_at),
        "completed_at": cli.iso(job.completed_at),
        "error": job.error,
        "job_id": str(job.job_id),
    }


def _jobs_table(jobs: Sequence[JobRecord], now: datetime) -> Grid:
    rows = []
    for job in jobs:
        wait = job.run_after - now
        due = t("now", "现在")
        if wait > timedelta(0):
            due = t(f"in {_span(wait)}", f"{_span(wait)}后")
        rows.append(
            (
                job.status,
                str(job.job_id)[-SHOWN_OF_ID:],
                f"{job.job_type} {job.performer}" if job.performer else job.job_type,
                _span(now - job.created_at),
                due if job.status == "pending" else "",
                str(job.attempts),
                job.scope.app,
                job.scope.user,
                job.thread_id or "",
                job.error or "",
            )
        )
    names = (
        t("state", "状态"), t("job", "任务"), t("type", "类型"), t("age", "已有"), t("due", "到期"),
        t("tries", "尝试"), t("app", "应用"), t("user", "用户"), t("thread", "会话线程"),
        t("error", "错误"),
    )  # fmt: skip
    return Grid(names=names, rows=rows)


def _stats_line(stats: JobStats) -> str:
    """Return the length of the queue in one line."""
    english = chinese = ""
    if stats.due_callbacks:
        english = f", {stats.due_callbacks} of them for a process that has their code"
        chinese = f"，其中 {stats.due_callbacks} 个需要有其代码的进程"
    if stats.oldest_due_s is not None:
        oldest = _span(timedelta(seconds=stats.oldest_due_s))
        english += f", the oldest for {oldest}"
        chinese += f"，最早的已等 {oldest}"
    return t(
        f"In all: {stats.pending} pending ({stats.due} due{english}), {stats.running} running,"
        f" {stats.failed} dead.",
        f"总计：等待 {stats.pending}（到期 {stats.due}{chinese}），运行 {stats.running}，"
        f"失败 {stats.failed}。",
    )


def _span(span: timedelta) -> str:
    seconds = max(int(span.total_seconds()), 0)
    units = ((86_400, t("d", "天")), (3_600, t("h", "小时")), (60, t("min", "分钟")))
    for size, unit in units:
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} {t('s', '秒')}"
