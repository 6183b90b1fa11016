"""Commands of retention: cleanup, stats, curve, policy, pin, unpin, recover, forget, faded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.layout import Grid, Piece
from shared_core.cli.unknown_user import read_of
from shared_core.core.domain import JsonValue, MemoryKind, Scope
from shared_core.core.locale import t
from shared_core.core.retention_policy import FATES, POLICIES, STAGES, RetentionPolicy, Rules
from shared_core.errors import NotFound

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.ports.retention import Kept
    from shared_core.retention.cleanup import RetentionReport
    from shared_core.retention.statistics import RetentionCurve, RetentionStats

Keys = Annotated[
    list[str],
    typer.Argument(
        metavar="KEY",
        help=both("Keys as recall prints them, or memory ids.", "recall 打印的键，或记忆的编号。"),
    ),
]

MAX_SHOWN = 48
"""Characters of a memory's text that a table shows."""
PLOT = 72
"""Columns of the widest curve."""
BESIDE_PLOT = 6
"""Columns of the scale of a curve."""
BAR = 30
"""Columns of the longest bar of the scores."""


@cli.app.command()
@cli.chinese(
    """按保留策略降级、归档或删除已淡忘的记忆，每次一级。

    若设置了 HIPPOCAMPUS_CLEANUP_HOURS，worker 每隔这么多小时做同样的事。
    """
)
def cleanup(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    app_name: cli.OnlyApp = None,
    user: cli.OnlyUser = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help=both(
                "List what would fade and why; change nothing.",
                "只列出将淡忘的记忆和原因，不做改动。",
            ),
        ),
    ] = False,
    limit: Annotated[
        int,
        typer.Option(
            min=0,
            help=both(
                "Maximum number of memories that a dry run lists.", "试运行最多列出几条记忆。"
            ),
        ),
    ] = 20,
    as_json: cli.AsJson = False,
) -> None:
    """Demote, archive or erase faded memories, one stage per run.

    The stored policies decide. A worker does the same every HIPPOCAMPUS_CLEANUP_HOURS hours if that
    is set.
    """
    scope, of_app = cli.scope_options(app_name, user)
    of = f"{scope.app} / {scope.user}" if scope else of_app

    async def run(memory: MemoryEngine) -> RetentionReport:
        with cli.progress_bar(silent=as_json) as progress:
            bar = progress.add_task(t("Forgetting", "正在淡忘"), total=None)

            def on_batch(done: int, total: int) -> None:
                progress.update(bar, completed=done, total=max(done, total))

            return await memory.retention.forget_faded(
                scope, app=of_app, dry_run=dry_run, limit=limit,
                progress=None if dry_run else on_batch,
            )  # fmt: skip

    done = cli.with_memory(cli.open_memory(uri, schema=schema, worker=False), run)
    if as_json:
        cli.print_json(_cleanup_json(done, of or "all applications"))
        return
    who = of or t("all applications", "所有应用")
    table = [_fading_table(done)] if done.listed else []
    cli.print_all([t(f"Of {who}:", f"{who}："), *table, _cleanup_line(done)])


@cli.app.command()
@cli.chinese("显示记忆保留的统计：得分、阶段，以及即将淡忘的内容。")
def stats(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    app_name: cli.OnlyApp = None,
    user: cli.OnlyUser = None,
    days: Annotated[
        list[float] | None,
        typer.Option(help=both("Days to look ahead; repeatable.", "向后看几天；可重复。")),
    ] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show retention statistics: scores, stages, and what fades soon."""
    from shared_core.retention.statistics import HORIZONS

    scope, of_app = cli.scope_options(app_name, user)
    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.retention.stats(scope, app=of_app, days=days or HORIZONS),
    )
    if as_json:
        cli.print_json(found.to_dict())
    else:
        cli.print_all(_stats_tables(found))


@cli.app.command()
@cli.chinese("显示一条记忆的保留得分随时间的变化，以及无人读取时的走势。")
def curve(
    app_name: cli.App,
    user: cli.User,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help=both("Key or id of a memory.", "记忆的键或编号。"))
    ],
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    days: Annotated[
        float | None, typer.Option(help=both("Days to look ahead.", "向后看几天。"))
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=both(
                "Draw the curve to a .png or .svg file (needs the extra plot).",
                "把曲线画到 .png 或 .svg 文件（需要附加包 plot）。",
            ),
        ),
    ] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show the retention score of a memory, and its future if unread."""
    from shared_core.retention.statistics import draw

    async def run(memory: MemoryEngine) -> RetentionCurve:
        scope = Scope(app_name, user)
        try:
            return await memory.retention.curve(scope, key, days_ahead=days)
        except NotFound as error:
            command = f"hippocampus timeline {app_name} {user} --json"
            raise NotFound(
                t(
                    f"there is no memory {key!r} of {scope}: {command} shows keys",
                    f"{scope} 没有键为 {key!r} 的记忆：{command} 可查看键",
                )
            ) from error

    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False, track_access=False), run
    )
    if out is not None:
        drawn = str(draw(found, out))
        cli.report(drawn, {"file": drawn}, as_json)
    elif as_json:
        cli.print_json(found.to_dict())
    else:
        cli.print_all(_curve_lines(found))


@cli.app.command()
@cli.chinese("查看或设置保留策略：对所有人、一个应用或它的一个用户。")
def policy(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help=both(
                "default, high-interaction, low-interaction, sensitive or knowledge; inherit to"
                " use the policy of the level above.",
                "default、high-interaction、low-interaction、sensitive 或 knowledge；"
                "inherit 表示沿用上一级的策略。",
            ),
            show_default=both("show the policy", "显示策略"),
        ),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    app_name: cli.OnlyApp = None,
    user: cli.OnlyUser = None,
    never: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help=both(
                "Kind of memory that never fades; repeatable.", "永不淡忘的记忆种类；可重复。"
            ),
        ),
    ] = None,
    erase_after: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS",
            help=both(
                "Days in the last stage before erasure; below 0 for never.",
                "在最后阶段停留几天后删除；小于 0 表示永不删除。",
            ),
        ),
    ] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show or set the retention policy: of all, an application or a user."""
    from shared_core.retention.service import kinds_named, policy_named

    scope, of_app = cli.scope_options(app_name, user)
    chosen: str | RetentionPolicy | None = None if name == "inherit" else name
    with cli.malformed():
        if isinstance(chosen, str):
            policy_named(chosen)
        kinds = kinds_named(cast(Sequence[MemoryKind], never or ()))
    if chosen in POLICIES and erase_after is not None:
        stored = POLICIES[str(chosen)]
        chosen = (
            replace(stored, erase_threshold=None)
            if erase_after < 0
            else replace(stored, erase_threshold=1.0, erase_after_days=erase_after)
        )

    async def run(memory: MemoryEngine) -> Rules:
        if name is not None:
            changed = await memory.retention.set_policy(chosen, scope, app=of_app, never=kinds)
            text = t(
                f"{changed} memories have a new time to fade.",
                f"{changed} 条记忆的淡忘时间已更新。",
            )
            cli.say(text, err=True)
        return await memory.retention.policy(scope, app=of_app)

    rules = cli.with_memory(cli.open_memory(uri, schema=schema, worker=False), run)
    if as_json:
        cli.print_json({kind: _rule_json(rule) for kind, rule in rules.items()})
    else:
        cli.print_all([_rules_table(rules)])


DONE: Final[Mapping[str, str]] = {
    "pinned": "已固定", "no longer pinned": "已取消固定", "restored": "已恢复",
    "forgotten": "已遗忘",
}  # fmt: skip
"""What became of memories, in English and in Chinese."""


def _each_key(
    memory: MemoryEngine,
    scope: Scope,
    keys: Sequence[str],
    done: str,
    verb: Callable[[Scope, Sequence[str]], Awaitable[int]],
    as_json: bool,
) -> None:
    """Apply a verb to memories, report their number, and name each unknown key.

    The exit code is 1 if a key is unknown or no memory changed.
    """

    async def run(memory: MemoryEngine) -> tuple[int, Sequence[str]]:
        unknown = await memory.retention.unknown_keys(scope, keys)
        return await verb(scope, keys), unknown

    count, unknown = cli.with_memory(memory, run)
    text = t(
        f"{count} {'memory' if count == 1 else 'memories'} {done}", f"{count} 条记忆{DONE[done]}"
    )
    cli.report(text, {"memories": count, "done": done, "unknown": list(unknown)}, as_json)
    for key in unknown:
        command = f"hippocampus timeline {scope.app} {scope.user} --json"
        missing = t(
            f"Error: {scope.app} / {scope.user} has no memory {key!r}; `{command}` shows keys",
            f"错误：{scope.app} / {scope.user} 没有键为 {key!r} 的记忆；`{command}` 可查看键",
        )
        cli.say(missing, err=True)
    raise typer.Exit(0 if count and not unknown else 1)


@cli.app.command()
@cli.chinese(
    """固定记忆，无论得分如何都不会淡忘。

    键不存在时退出码为 1。
    """
)
def pin(
    app_name: cli.App, user: cli.User, keys: Keys, uri: cli.Uri = None, schema: cli.Schema = None,
    embedder: cli.Embedder = None, as_json: cli.AsJson = False,
) -> None:  # fmt: skip
    """Protect memories from fading, whatever their score.

    Exit code 1 if a key is unknown.
    """
    memory = cli.open_memory(uri, schema=schema, embedder=embedder, worker=False)
    _each_key(memory, Scope(app_name, user), keys, "pinned", memory.retention.pin, as_json)


@cli.app.command()
@cli.chinese(
    """取消固定，记忆可再次淡忘。

    键不存在或未固定时退出码为 1。
    """
)
def unpin(
    app_name: cli.App, user: cli.User, keys: Keys, uri: cli.Uri = None, schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:  # fmt: skip
    """Let pinned memories fade again.

    Exit code 1 if a key is unknown or none was pinned.
    """
    memory = cli.open_memory(uri, schema=schema, worker=False)
    _each_key(
        memory, Scope(app_name, user), keys, "no longer pinned", memory.retention.unpin, as_json
    )


@cli.app.command()
@cli.chinese(
    """把已降级或归档的记忆恢复到检索中。

    键不存在，或没有记忆恢复时，退出码为 1。
    """
)
def recover(
    app_name: cli.App, user: cli.User, keys: Keys, uri: cli.Uri = None, schema: cli.Schema = None,
    embedder: cli.Embedder = None, as_json: cli.AsJson = False,
) -> None:  # fmt: skip
    """Bring demoted and archived memories back into recall.

    Exit code 1 if a key is unknown or no memory came back.
    """
    memory = cli.open_memory(uri, schema=schema, embedder=embedder, worker=False)
    _each_key(memory, Scope(app_name, user), keys, "restored", memory.retention.revive, as_json)


@cli.app.command()
@cli.chinese(
    """遗忘记忆，以及只由它们得出的一切。

    使用 --about 时，关于某个主题的记忆立即退出检索，30 天后删除；在此之前
    `hippocampus runs APP USER --undo RUN` 可以恢复。键或用户不存在时退出码为 1。
    """
)
def forget(
    app_name: cli.App,
    user: cli.User,
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY", help=both("Keys or ids of memories.", "记忆的键或编号。")),
    ] = None,
    about: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            help=both(
                "Set aside what is about a name or a thing.", "把关于某人或某事的记忆移出检索。"
            ),
        ),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Remove memories and everything derived from them alone.

    With --about, memories about a topic leave recall now and are erased after 30 days; until then
    `hippocampus runs APP USER --undo RUN` brings them back. Exit code 1 if a key or
    the user is unknown.
    """
    if bool(keys) == bool(about):
        raise cli.Malformed(
            t(
                "name keys to forget, or a topic with --about, one of both",
                "请给出要遗忘的键，或用 --about 给出主题，二者选一",
            )
        )
    memory, scope = cli.open_memory(uri, schema=schema), Scope(app_name, user)
    if about is None:
        _each_key(memory, scope, keys or [], "forgotten", memory.forget, as_json)
        return
    gone, hint = read_of(
        memory,
        scope,
        lambda memory: memory.forget_about(scope, about),
        lambda one: not one.done.run_id,
    )
    if hint:
        raise NotFound(hint.strip())
    undo = f"hippocampus runs {app_name} {user} --undo {gone.done.run_id}"
    text = t(f"Nothing is about {gone.topic}.", f"没有关于 {gone.topic} 的记忆。")
    if gone.done.run_id and gone.done.until:
        count, until = gone.done.memories, cli.day(gone.done.until)
        text = t(
            f"{count} memories about {gone.topic} are set aside until {until}. To bring them back:"
            f" {undo}",
            f"{count} 条关于 {gone.topic} 的记忆已移出检索，保留到 {until}。恢复：{undo}",
        )
    cli.report(text, gone.to_dict(), as_json)


@cli.app.command()
@cli.chinese("列出已淡出检索、可以恢复的记忆，最近的在前。")
def faded(
    app_name: cli.App,
    user: cli.User,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    limit: Annotated[
        int, typer.Option(min=1, help=both("Maximum number of memories.", "最多返回几条记忆。"))
    ] = 20,
    as_json: cli.AsJson = False,
) -> None:
    """List memories that faded out of recall and can be recovered."""
    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.retention.list_faded(Scope(app_name, user), limit=limit),
    )
    if as_json:
        for one in found:
            cli.print_json(_kept_json(one))
    elif found:
        rows = [
            (one.stage, cli.day(one.staged_at), one.kind, _short(one), one.key) for one in found
        ]
        names = (
            t("stage", "阶段"), t("since", "自"), t("kind", "种类"), t("memory", "记忆"),
            t("key", "键"),
        )  # fmt: skip
        cli.print_all([Grid(names=names, rows=rows)])
    else:
        cli.say(t("Nothing has faded.", "没有淡忘的记忆。"))


def _cleanup_json(done: RetentionReport, of: str) -> dict[str, JsonValue]:
    """Return a cleanup or its dry run as JSON values. of: the application or user it was for."""
    return {
        "of": of,
        "dry_run": done.dry_run,
        "total": done.total,
        "not_listed": done.not_listed,
        "counts": {fate: _str_keys(done.counts.get(fate, {})) for fate in FATES},
        "along": _str_keys(done.along),
        "retimed": done.retimed,
        "batches": done.batches,
        "duration_s": round(done.duration_s, 4),
        "memories": [
            {**_kept_json(one.kept), "fate": one.fate, "score": one.score, "why": one.why}
            for one in done.listed
        ],
    }


def _str_keys(counts: Mapping[MemoryKind, int]) -> dict[str, JsonValue]:
    return {kind: count for kind, count in counts.items()}


def _kept_json(kept: Kept) -> dict[str, JsonValue]:
    return {
        "app": kept.namespace[0] if kept.namespace else "",
        "user": kept.namespace[1] if len(kept.namespace) > 1 else "",
        "key": kept.key,
        "memory_id": str(kept.memory_id),
        "kind": kept.kind,
        "stage": kept.stage,
        "text": kept.text,
        "forget_at": cli.iso(kept.forget_at),
    }


def _cleanup_line(done: RetentionReport) -> str:
    """Return in one line what a cleanup did, or what a dry run would do."""
    counted = []
    for fate in FATES:
        if kinds := done.counts.get(fate, {}):
            each = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
            counted.append(f"{sum(kinds.values()):,} {_fate(fate)} ({each})")
    what = ", ".join(counted) or t("nothing has faded", "没有淡忘的记忆")
    if along := sum(done.along.values()):
        what += t(f", and with them {along:,} that had ended", f"，连同 {along:,} 条已结束的")
    if done.dry_run and done.listed and done.not_listed:
        left = done.not_listed
        what += t(
            f"; {left:,} are not listed (--limit lists more)",
            f"；另有 {left:,} 条未列出（--limit 可列出更多）",
        )
    if done.dry_run:
        return t(f"Would be: {what}.", f"将会：{what}。")
    took, batches = f"{done.duration_s:.1f}", done.batches
    return t(
        f"{what[0].upper()}{what[1:]}. {took} s in {batches} batches.",
        f"{what}。用时 {took} 秒，共 {batches} 批。",
    )


FATE_NAMES: Final[Mapping[str, str]] = {
    "demoted": "降级", "archived": "归档", "erased": "删除", "kept": "保留",
    "never fades": "永不淡忘",
    "own": "自定", "never": "从不", "pinned": "已固定",
}  # fmt: skip
"""Stages and fates of memories in Chinese."""


def _fate(name: str) -> str:
    return t(name, FATE_NAMES.get(name, name))


def _fading_table(done: RetentionReport) -> Grid:
    rows = [
        (
            _fate(one.fate),
            " / ".join(one.kept.namespace[:2]),
            one.kept.kind,
            _short(one.kept),
            one.why,
        )
        for one in done.listed
    ]
    names = (
        "", t("app / user", "应用 / 用户"), t("kind", "种类"), t("memory", "记忆"),
        t("why", "原因"),
    )  # fmt: skip
    return Grid(names=names, rows=rows)


def _short(kept: Kept) -> str:
    text = " ".join(kept.text.split())
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def _stats_tables(found: RetentionStats) -> Iterator[Piece]:
    """Yield statistics: the kinds, the distribution of scores, and what fades when."""
    count, high, medium, low = found.total.count, found.high, found.medium, found.low
    yield t(
        f"{count:,} memories: {high:,} score 0.7 or more, {medium:,} 0.3 or more, {low:,} less.",
        f"{count:,} 条记忆：{high:,} 条得分 0.7 以上，{medium:,} 条 0.3 以上，{low:,} 条更低。",
    )
    rows = []
    for kind, one in found.kinds.items():
        average = "" if one.average_score is None else f"{one.average_score:.2f}"
        stages = (f"{one.stages[stage]:,}" for stage in STAGES)
        rows.append((kind, f"{one.count:,}", average, *stages, f"{one.pinned:,}", f"{one.fades:,}"))
    names = (
        t("kind", "种类"), t("memories", "记忆数"), t("average", "平均"), *map(_fate, STAGES),
        t("pinned", "已固定"), t("fade", "将淡忘"),
    )  # fmt: skip
    yield Grid(names=names, rows=rows, right=frozenset(range(1, len(names))))
    most = max(found.total.buckets, default=0) or 1
    bars = [
        (
            f"{number / 10:.1f}–{number / 10 + 0.1:.1f}",
            "█" * round(BAR * count / most),
            f"{count:,}",
        )
        for number, count in enumerate(found.total.buckets)
    ]
    yield Grid(names=(t("score", "得分"), "", t("memories", "记忆数")), rows=bars)
    for days, fates in found.ahead.items():
        fading = ", ".join(f"{count:,} {_fate(fate)}" for fate, count in fates.items() if count)
        yield t(
            f"Within {days:g} days unread: {fading or 'nothing'}.",
            f"{days:g} 天内无人读取：{fading or '无'}。",
        )


def _curve_lines(found: RetentionCurve) -> Iterator[Text]:
    """Yield a memory, its state, its curve and its coming stages."""
    from shared_core.retention.statistics import lines

    kept = found.kept
    yield Text(_short(kept), style="bold")
    reads = f"{kept.access_count} read{'' if kept.access_count == 1 else 's'}"
    pinned, used = kept.pinned, f"{kept.used_at:%Y-%m-%d %H:%M} UTC"
    read = kept.last_accessed_at is not None
    yield Text(
        t(
            f"{kept.kind}, {kept.stage}{', pinned' if pinned else ''}: score {found.score:.3f},"
            f" {reads}, last {'read' if read else 'written'} {used}",
            f"{kept.kind}，{_fate(kept.stage)}{'，已固定' if pinned else ''}：得分"
            f" {found.score:.3f}，读取 {kept.access_count} 次，"
            f"最近{'读取' if read else '写入'}于 {used}",
        )
    )
    yield from map(Text, lines(found, width=min(PLOT, cli.console().width - BESIDE_PLOT)))
    ahead = "; ".join(f"{_fate(fate)} {at:%Y-%m-%d}" for at, fate in found.stages)
    if ahead:
        yield Text(t(f"Unread: {ahead}.", f"无人读取时：{ahead}。"))
    else:
        yield Text(t("It will not be forgotten.", "不会被淡忘。"))


def _rule_json(rule: RetentionPolicy | None) -> dict[str, JsonValue] | None:
    """Return the rule of a kind as JSON values, or None for a kind that never fades."""
    return (
        None if rule is None else {name: getattr(rule, name) for name in RetentionPolicy.__slots__}
    )


def _rules_table(rules: Rules) -> Grid:
    rows = []
    for kind, rule in rules.items():
        if rule is None:
            rows.append((kind, _fate("never fades"), "", "", "", ""))
            continue
        name = next((name for name, known in POLICIES.items() if known == rule), _fate("own"))
        below, age = f"{rule.threshold:g}", f"{rule.min_age_days:g}"
        rows.append(
            (
                kind,
                name,
                f"{rule.decay_rate:g}",
                t(f"{below}, {age} days old", f"{below}，满 {age} 天"),
                _stage(rule.archive_threshold, rule.archive_after_days),
                _stage(rule.erase_threshold, rule.erase_after_days),
            )
        )
    names = (
        t("kind", "种类"), t("policy", "策略"), t("λ a day", "每天 λ"),
        t("demoted below", "低于则降级"),
        t("archived", "归档"), t("erased", "删除"),
    )  # fmt: skip
    return Grid(names=names, rows=rows)


def _stage(threshold: float | None, days: float) -> str:
    if threshold is None:
        return _fate("never")
    return t(f"below {threshold:g}, {days:g} days later", f"低于 {threshold:g}，{days:g} 天后")
