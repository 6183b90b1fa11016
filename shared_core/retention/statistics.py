"""Retention statistics by score, kind and stage, and the retention curve of one memory. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from shared_core.core.decay import days_between, next_stage_at, retention_score
from shared_core.core.domain import JsonValue, MemoryKind
from shared_core.core.retention_policy import STAGES, Fate, RetentionPolicy, Stage
from shared_core.core.shown import shown
from shared_core.core.validation import number, whole_number
from shared_core.errors import CapabilityMissing, InvalidInput
from shared_core.ports.retention import Kept, RetentionRow

SUFFIXES: Final = (".png", ".svg")
COLOURS: Final = {"demoted": "#d97706", "archived": "#9333ea", "erased": "#dc2626"}


def draw(curve: RetentionCurve, target: str | Path, *, title: str | None = None) -> Path:
    """Draw the curve to a .png or .svg file and return its path.

    title: by default the memory's kind and key; its text is never drawn. Raises CapabilityMissing
    without matplotlib, InvalidInput for another suffix.
    """
    path = Path(target)
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"target must be a {' or '.join(SUFFIXES)} file, got {shown(path.name)}")
    figure_type = _figure_type()
    figure = figure_type(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    before = [point for point in curve.points if point.sure == "at least"]
    known = [point for point in curve.points if point.sure == "known"]
    if before:
        axes.plot([p.at for p in before], [p.score for p in before], color="#94a3b8",
                  linestyle="--", label="at least: earlier reads have no date")  # fmt: skip
    past = [point for point in known if point.at <= curve.now]
    ahead = [point for point in known if point.at >= curve.now]
    for points, style, label in ((past, "-", "score"), (ahead, ":", "if nobody reads it")):
        if points:
            axes.plot([p.at for p in points], [p.score for p in points], color="#2563eb",
                      linestyle=style, label=label)  # fmt: skip
    if curve.threshold is not None:
        axes.axhline(curve.threshold, color="#64748b", linewidth=0.8)
    axes.axvline(curve.now, color="#0f172a", linewidth=0.8, label="now")
    for at, fate in curve.stages:
        if at <= curve.points[-1].at:
            axes.axvline(at, color=COLOURS[fate], linestyle="--", linewidth=1, label=fate)
    axes.set(
        ylim=(0, 1.02), ylabel="retention", title=title or f"{curve.kept.kind} {curve.kept.key}"
    )
    axes.legend(loc="upper right", fontsize="small")
    figure.savefig(path)
    return path


def _figure_type() -> Any:
    try:
        from matplotlib.backends import backend_agg, backend_svg  # noqa: F401 # fail here or never
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CapabilityMissing(
            "drawing a curve needs matplotlib: pip install 'pg-hippocampus[plot]'"
        ) from error
    return Figure


def lines(curve: RetentionCurve, *, width: int = 72, height: int = 12) -> list[str]:
    """Return the curve as lines of text with a scale and dates. width, height: of the plot.

    █ is the past score, ░ the future score without reads, ▒ a lower bound before the last read. A
    row of ─ is the threshold.
    """
    start, end = curve.points[0].at, curve.points[-1].at
    score = scorer(curve.kept, curve.now)
    moments = [start + (end - start) * (column / (width - 1)) for column in range(width)]
    columns = [(score(at), _mark(curve, at)) for at in moments]
    threshold = None if curve.threshold is None else round(curve.threshold * height)
    rows = []
    for row in range(height, 0, -1):
        cells = [
            mark if value * height >= row - 0.5 else ("─" if row == threshold else " ")
            for value, mark in columns
        ]
        rows.append(f"{row / height:4.2f} │{''.join(cells)}")
    rows.append(f"     └{'─' * width}")
    left, right = f"{start:%Y-%m-%d}", f"{end:%Y-%m-%d}"
    at_now = round((curve.now - start) / (end - start) * (width - 1)) if end > start else 0
    foot = [" "] * width
    for place, text in ((0, left), (width - len(right), right), (at_now - 1, "now")):
        place = max(0, min(place, width - len(text)))
        if all(cell == " " for cell in foot[max(0, place - 1) : place + len(text) + 1]):
            foot[place : place + len(text)] = text
    rows.append(f"      {''.join(foot)}")
    return rows


def _mark(curve: RetentionCurve, at: datetime) -> str:
    if at > curve.now:
        return "░"
    return "█" if is_known(curve.kept, curve.now, at) else "▒"


BUCKETS: Final = 10
"""Number of score buckets, each a tenth: the first starts at 0, the last ends at 1."""
HORIZONS: Final = (1.0, 7.0, 30.0)
HIGH, MEDIUM = 7, 3
"""First buckets of the documented high and medium values."""
MOST_POINTS: Final = 10_000

Sure: TypeAlias = Literal["known", "at least"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindStats:
    """Statistics of one kind. buckets: number of memories per tenth of the score.

    fades: number of memories that ever fade. average_score: None without memories.
    """

    count: int
    fades: int
    pinned: int
    stages: Mapping[Stage, int]
    buckets: Sequence[int]
    average_score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionStats:
    """Retention statistics at a moment, over all stages, without expired and ended memories.

    ahead: by number of days, how many memories meet each fate if nothing is read; a memory that is
    demoted and then erased counts for both. A memory that never fades scores as if it were new.
    """

    as_of: datetime
    kinds: Mapping[MemoryKind, KindStats]
    total: KindStats
    ahead: Mapping[float, Mapping[Fate, int]]

    @property
    def high(self) -> int:
        """Number of memories with a score of 0.7 or more."""
        return sum(self.total.buckets[HIGH:])

    @property
    def medium(self) -> int:
        """Number of memories with a score from 0.3 to below 0.7."""
        return sum(self.total.buckets[MEDIUM:HIGH])

    @property
    def low(self) -> int:
        """Number of memories with a score below 0.3."""
        return sum(self.total.buckets[:MEDIUM])

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the whole as JSON values."""
        return {
            "as_of": self.as_of.isoformat(),
            **_kind_dict(self.total),
            "high": self.high,
            "medium": self.medium,
            "low": self.low,
            "kinds": {kind: _kind_dict(stats) for kind, stats in self.kinds.items()},
            "ahead": {
                f"{days:g}": {fate: count for fate, count in fates.items()}
                for days, fates in self.ahead.items()
            },
        }


def _kind_dict(stats: KindStats) -> dict[str, JsonValue]:
    return {
        "count": stats.count,
        "fades": stats.fades,
        "pinned": stats.pinned,
        "stages": {stage: count for stage, count in stats.stages.items()},
        "buckets": list(stats.buckets),
        "average_score": stats.average_score,
    }


def stats_of(
    as_of: datetime, rows: Sequence[RetentionRow], ahead: Mapping[float, Mapping[Fate, int]]
) -> RetentionStats:
    """Return the statistics of rows, by kind and in total."""
    kinds = sorted({row.kind for row in rows})
    return RetentionStats(
        as_of=as_of,
        kinds={kind: _summed(row for row in rows if row.kind == kind) for kind in kinds},
        total=_summed(rows),
        ahead=ahead,
    )


def _summed(rows: Iterable[RetentionRow]) -> KindStats:
    rows = list(rows)
    count = sum(row.count for row in rows)
    return KindStats(
        count=count,
        fades=sum(row.count for row in rows if row.fades),
        pinned=sum(row.pinned for row in rows),
        stages={stage: sum(row.count for row in rows if row.stage == stage) for stage in STAGES},
        buckets=[sum(row.count for row in rows if row.bucket == n) for n in range(BUCKETS)],
        average_score=sum(row.score_sum for row in rows) / count if count else None,
    )


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A score at a moment. sure: "at least" before the last read, if there were several.

    The dates of earlier reads are unknown, so the score is then that of an unread memory.
    """

    at: datetime
    score: float
    sure: Sure


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionCurve:
    """The score of one memory over time, past and future, if nobody reads it again.

    stages: its next fates with their times. threshold: the score below which it is demoted; None
    if its kind never fades.
    """

    kept: Kept
    now: datetime
    points: Sequence[CurvePoint]
    stages: Sequence[tuple[datetime, Fate]]
    threshold: float | None

    @property
    def score(self) -> float:
        """The score as of now."""
        return scorer(self.kept, self.now)(self.now)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the whole as JSON values."""
        kept = self.kept
        return {
            "memory_id": str(kept.memory_id),
            "key": kept.key,
            "kind": kept.kind,
            "stage": kept.stage,
            "pinned": kept.pinned,
            "score": self.score,
            "threshold": self.threshold,
            "access_count": kept.access_count,
            "used_at": kept.used_at.isoformat(),
            "created_at": kept.created_at.isoformat(),
            "now": self.now.isoformat(),
            "stages": [{"at": at.isoformat(), "fate": fate} for at, fate in self.stages],
            "points": [
                {"at": point.at.isoformat(), "score": point.score, "sure": point.sure}
                for point in self.points
            ],
        }


def curve_of(kept: Kept, now: datetime, *, days_ahead: float | None, points: int) -> RetentionCurve:
    """Return the curve of a memory from its creation to days_ahead from now.

    days_ahead: by default until shortly after its demotion, and at least its age.
    """
    whole_number(points, "points", 2, MOST_POINTS)
    stages = _stages_ahead(kept)
    end = _end(kept, now, stages, days_ahead)
    start = min(kept.created_at, kept.used_at, now)
    step = (end - start) / (points - 1)
    moments = {start + step * number for number in range(points)}
    moments |= {kept.used_at} if start <= kept.used_at <= end else set()
    score = scorer(kept, now)
    return RetentionCurve(
        kept=kept,
        now=now,
        points=[
            CurvePoint(at, score(at), "known" if is_known(kept, now, at) else "at least")
            for at in sorted(moments)
        ],
        stages=stages,
        threshold=kept.rule.threshold if kept.rule else None,
    )


def is_known(kept: Kept, now: datetime, at: datetime) -> bool:
    """Tell whether the score at a moment is exact; otherwise it is a lower bound."""
    return at >= _used_from(kept, now) or kept.access_count == 0


def _used_from(kept: Kept, now: datetime) -> datetime:
    """Return when the last use takes effect; a clock that is ahead may put it in the future."""
    return kept.used_at if now < kept.created_at else min(kept.used_at, now)


def scorer(kept: Kept, now: datetime) -> Callable[[datetime], float]:
    """Return a function from a moment to the score; before the last use, as if unread.

    A last use in the future, by a clock that is ahead, counts as now.
    """
    used_from = _used_from(kept, now)
    decay_rate = kept.rule.decay_rate if kept.rule else 0.0

    def score(at: datetime) -> float:
        used = at >= used_from
        return retention_score(
            initial=kept.strength,
            days=days_between(kept.used_at if used else kept.created_at, at),
            accesses=kept.access_count if used else 0,
            arousal=kept.arousal,
            decay_rate=decay_rate,
        )

    return score


def _stages_ahead(kept: Kept) -> list[tuple[datetime, Fate]]:
    if kept.rule is None or kept.pinned or kept.forget_at is None:
        return []
    ahead: list[tuple[datetime, Fate]] = []
    stage: Stage = kept.stage
    at: datetime | None = kept.forget_at
    while at is not None:
        fate = _fate(stage, kept.rule)
        ahead.append((at, fate))
        if fate == "erased":
            break
        stage = "demoted" if fate == "demoted" else "archived"
        at = next_stage_at(
            stage, initial=kept.strength, last_used_at=kept.used_at, since=at,
            accesses=kept.access_count, arousal=kept.arousal, policy=kept.rule,
        )  # fmt: skip
    return ahead


def _fate(stage: Stage, rule: RetentionPolicy) -> Fate:
    if stage == "kept":
        return "demoted"
    return "archived" if stage == "demoted" and rule.archive_threshold is not None else "erased"


def _end(
    kept: Kept, now: datetime, stages: Sequence[tuple[datetime, Fate]], days_ahead: float | None
) -> datetime:
    if days_ahead is None:
        first = stages[0][0] if stages else now
        days_ahead = max(7.0, 1.2 * days_between(now, first), days_between(kept.created_at, now))
        days_ahead = min(days_ahead, 3650.0)
    return now + timedelta(days=number(days_ahead, "days_ahead", 0, 36_500))
