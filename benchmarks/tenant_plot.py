"""Draws recall and search time by the size of the tenant, as an SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

WIDTH, HEIGHT, LEFT, TOP = 380, 260, 56, 34
COLOURS = {"ours": "#1a7f5a", "exact": "#8a8f98", "postgres_store": "#c2502e"}
NAMES = {
    "ours": "pg-hippocampus",
    "exact": "the same, exact only",
    "postgres_store": "PostgresStore",
}

_Figures = Mapping[str, Mapping[int, Mapping[str, Any]]]


def draw(figures: _Figures) -> str:
    """Return an SVG of two panels; figures: series, then size, then recall_at_10 and p50_ms."""
    sizes = sorted(next(iter(figures.values())))
    times = [one["p50_ms"] for by_size in figures.values() for one in by_size.values()]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    x = scale(math.log10(sizes[0]), math.log10(sizes[-1]), LEFT, LEFT + WIDTH)
    recall_y = scale(0, 1, TOP + HEIGHT, TOP)
    time_y = scale(low, high, TOP + HEIGHT, TOP)
    panels = [
        _panel("recall@10", sizes, x, [(f"{n / 5:g}", recall_y(n / 5)) for n in range(6)])
        + _lines(figures, sizes, "recall_at_10", x, recall_y),
        _panel("p50 of a search (ms)", sizes, x,
               [(f"{10.0**n:g}", time_y(n)) for n in range(low, high + 1)])
        + _lines(figures, sizes, "p50_ms", x, lambda ms: time_y(math.log10(ms))),
    ]  # fmt: skip
    full = 2 * (WIDTH + LEFT) + 50
    body = "".join(
        f'<g transform="translate({place * (WIDTH + LEFT + 20)} 0)">{panel}</g>'
        for place, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full} {HEIGHT + TOP + 76}"'
        ' font-family="sans-serif" font-size="11" fill="#333">'
        f'<rect width="100%" height="100%" fill="#fff"/>{body}{_legend(figures)}</svg>\n'
    )


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = (high - low) or 1
    return lambda value: start + (value - low) / span * (end - start)


def _panel(
    title: str, sizes: Sequence[int], x: Callable[[float], float],
    marks: Sequence[tuple[str, float]],
) -> str:  # fmt: skip
    bottom = TOP + HEIGHT
    parts = [f'<text x="{LEFT}" y="{TOP - 14}" font-size="13" font-weight="bold">{title}</text>']
    for label, y in marks:
        parts.append(
            f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="#e3e3e3"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
        )
    for size in sizes:
        place = x(math.log10(size))
        parts.append(f'<text x="{place:.1f}" y="{bottom + 16}" text-anchor="middle">'
                     f"{_short(size)}</text>")  # fmt: skip
    parts.append(
        f'<text x="{LEFT + WIDTH / 2}" y="{bottom + 34}" text-anchor="middle">'
        "items of the tenant</text>"
    )
    return "".join(parts)


def _lines(
    figures: _Figures, sizes: Sequence[int], name: str,
    x: Callable[[float], float], y: Callable[[float], float],
) -> str:  # fmt: skip
    drawn = []
    for series in sorted(figures, key=lambda one: one != "exact"):  # beneath the others
        points = [(x(math.log10(size)), y(figures[series][size][name])) for size in sizes]
        colour = COLOURS[series]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        dashes = ' stroke-dasharray="5 4"' if series == "exact" else ""
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}"'
                     f' stroke-width="2"{dashes}/>')  # fmt: skip
        drawn += [f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="{colour}"/>'
                  for left, top in points]  # fmt: skip
    return "".join(drawn)


def _legend(figures: _Figures) -> str:
    y = TOP + HEIGHT + 58
    return "".join(
        f'<rect x="{LEFT + 190 * place}" y="{y - 9}" width="12" height="10"'
        f' fill="{COLOURS[series]}"/><text x="{LEFT + 190 * place + 18}" y="{y}">'
        f"{NAMES[series]}</text>"
        for place, series in enumerate(figures)
    )


def _short(size: int) -> str:
    return f"{size // 1000}k" if size >= 1000 and size % 1000 == 0 else str(size)
