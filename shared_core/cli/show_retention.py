"""What the commands about forgetting show: runs, statistics, policies, the curve of a memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from shared_core.core.domain import JsonValue, Scope
from shared_core.core.retention_policy import POLICIES, STAGES, RetentionPolicy, Rules
from shared_core.ports.retention import FATES, Kept
from shared_core.retention.cleanup import RetentionReport
from shared_core.retention.statistics import RetentionCurve, RetentionStats, lines

SHOWN_TEXT = 48


def whose(scope: Scope | None, app: str | None) -> str:
    """Return of whom a command is."""
    if scope is not None:
        return f"{scope.app} / {scope.user}"
    return "all applications" if app is None else app


def report_json(report: RetentionReport, of: str) -> dict[str, JsonValue]:
    """Return a run, or what one would do, as JSON values. of: of whom it is."""
    return {
        "of": of,
        "dry_run": report.dry_run,
        "total": report.total,
        "not_listed": report.not_listed,
        "counts": {
            fate: {kind: count for kind, count in report.counts.get(fate, {}).items()}
            for fate in FATES
        },
        "along": {kind: count for kind, count in report.along.items()},
        "retimed": report.retimed,
        "batches": report.batches,
        "duration_s": round(report.duration_s, 4),
        "memories": [
            {
                **kept_json(one.kept),
                "fate": one.fate,
                "score": one.score,
                "why": one.why,
            }
            for one in report.listed
        ],
    }


def kept_json(kept: Kept) -> dict[str, JsonValue]:
    """Return how a memory is kept as JSON values."""
    return {
        "app": kept.namespace[0] if kept.namespace else "",
        "user": kept.namespace[1] if len(kept.namespace) > 1 else "",
        "key": kept.key,
        "memory_id": str(kept.memory_id),
        "kind": kept.kind,
        "stage": kept.stage,
        "text": kept.text,
        "forget_at": kept.forget_at.isoformat() if kept.forget_at else None,
    }


def report_lines(report: RetentionReport) -> str:
    """Return what a run did, or would do, in a line."""
    counted = []
    for fate in FATES:
        if kinds := report.counts.get(fate, {}):
            each = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
            counted.append(f"{sum(kinds.values()):,} {fate} ({each})")
    what = ", ".join(counted) or "nothing has faded"
    if along := sum(report.along.values()):
        what += f", and along with them {along:,} that had ended"
    if report.dry_run and report.listed and report.not_listed:
        what += f"; {report.not_listed:,} are not listed (--limit lists more)"
    if report.dry_run:
        return f"Would be: {what}."
    return f"{what[0].upper()}{what[1:]}. {report.duration_s:.1f} s in {report.batches} batches."


def fading_table(report: RetentionReport) -> Table:
    """Return what would go, and why."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("", "app / user", "kind", "memory", "why"):
        table.add_column(name, overflow="fold")
    for one in report.listed:
        kept = one.kept
        table.add_row(
            one.fate, Text(" / ".join(kept.namespace[:2])), kept.kind, Text(_short(kept)), one.why
        )
    return table


def kept_table(memories: Sequence[Kept]) -> Table:
    """Return memories that are out of recall."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("stage", "since", "kind", "memory", "key"):
        table.add_column(name, overflow="fold")
    for kept in memories:
        since = f"{kept.staged_at:%Y-%m-%d}" if kept.staged_at else ""
        table.add_row(kept.stage, since, kept.kind, Text(_short(kept)), Text(kept.key))
    return table


def _short(kept: Kept) -> str:
    text = " ".join(kept.text.split())
    return text if len(text) <= SHOWN_TEXT else f"{text[: SHOWN_TEXT - 1]}…"


@contextmanager
def progress_bar(screen: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how far a run is, on a terminal; yield what is told so."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def told(done: int, total: int) -> None:
            progress.update(task, completed=done, total=max(done, total))

        yield told


def stats_tables(stats: RetentionStats) -> Iterator[Table | Text]:
    """Return statistics for a terminal: kinds, the distribution, what goes when."""
    yield Text(
        f"{stats.total.count:,} memories: {stats.high:,} score 0.7 or more, {stats.medium:,} 0.3 or"
        f" more, {stats.low:,} less."
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("kind", "memories", "average", *STAGES, "pinned", "fade"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind, one in stats.kinds.items():
        average = "" if one.average_score is None else f"{one.average_score:.2f}"
        table.add_row(kind, f"{one.count:,}", average, *(f"{one.stages[s]:,}" for s in STAGES),
                      f"{one.pinned:,}", f"{one.fades:,}")  # fmt: skip
    yield table
    most = max(stats.total.buckets, default=0) or 1
    bars = Table(box=None, show_header=False, pad_edge=False)
    for number, count in enumerate(stats.total.buckets):
        low = number / 10
        bars.add_row(f"{low:.1f}–{low + 0.1:.1f}", "█" * round(30 * count / most), f"{count:,}")
    yield bars
    for days, fates in stats.ahead.items():
        told = ", ".join(f"{count:,} {fate}" for fate, count in fates.items() if count)
        yield Text(f"Within {days:g} days unread: {told or 'nothing'}.")


def curve_text(curve: RetentionCurve) -> Iterator[Text]:
    """Return the curve of a memory for a terminal."""
    kept = curve.kept
    yield Text(f"{_short(kept)}", style="bold")
    reads = f"{kept.access_count} read{'' if kept.access_count == 1 else 's'}"
    pinned = ", pinned" if kept.pinned else ""
    yield Text(
        f"{kept.kind}, {kept.stage}{pinned}: score {curve.score:.3f}, {reads}, last"
        f" {'read' if kept.last_accessed_at else 'written'} {kept.used_at:%Y-%m-%d %H:%M} UTC"
    )
    for line in lines(curve):
        yield Text(line)
    ahead = "; ".join(f"{fate} {at:%Y-%m-%d}" for at, fate in curve.stages)
    yield Text(f"Unread: {ahead}." if ahead else "It will not be forgotten.")


def rules_json(rules: Rules) -> dict[str, JsonValue]:
    """Return a policy as JSON values; null for a kind that never fades."""
    return {kind: None if rule is None else _rule_json(rule) for kind, rule in rules.items()}


def _rule_json(rule: RetentionPolicy) -> Mapping[str, JsonValue]:
    return {name: getattr(rule, name) for name in RetentionPolicy.__slots__}


def rules_table(rules: Rules) -> Table:
    """Return a policy for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("kind", "policy", "λ a day", "demoted below", "archived", "erased"):
        table.add_column(name, overflow="fold")
    for kind, rule in rules.items():
        if rule is None:
            table.add_row(kind, "never fades", "", "", "", "")
            continue
        name = next((name for name, known in POLICIES.items() if known == rule), "own")
        table.add_row(
            kind,
            name,
            f"{rule.decay_rate:g}",
            f"{rule.threshold:g}, {rule.min_age_days:g} days old",
            _later(rule.archive_threshold, rule.archive_after_days),
            _later(rule.erase_threshold, rule.erase_after_days),
        )
    return table


def _later(threshold: float | None, days: float) -> str:
    return "never" if threshold is None else f"below {threshold:g}, {days:g} days later"
