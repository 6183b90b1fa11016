"""The curve of one memory as a picture: PNG or SVG by matplotlib, or lines for a terminal."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

from shared_core.errors import CapabilityMissing, InvalidInput
from shared_core.retention.statistics import RetentionCurve, is_known, scorer

SUFFIXES: Final = (".png", ".svg")
COLOURS: Final = {"demoted": "#d97706", "archived": "#9333ea", "erased": "#dc2626"}


def draw(curve: RetentionCurve, target: str | Path, *, title: str | None = None) -> Path:
    """Write the curve to a .png or .svg file and return its path.

    title: instead of the memory's kind and key; its text is not in the picture. Raises
    CapabilityMissing without matplotlib, InvalidInput for another suffix.
    """
    path = Path(target)
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(
            f"a curve is drawn to a {' or '.join(SUFFIXES)} file, not to {path.name!r}"
        )
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
            "matplotlib draws curves and is not installed: pip install 'pg-hippocampus[plot]'"
        ) from error
    return Figure


def lines(curve: RetentionCurve, *, width: int = 72, height: int = 12) -> list[str]:
    """Return the curve in so many rows and columns of text, scale and moments beside it.

    █ is what was, ░ what will be if nobody reads it, ▒ what it was at least before the last read;
    a row of ─ is the threshold.
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
