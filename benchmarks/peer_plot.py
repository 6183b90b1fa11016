"""Draws the figures of benchmarks.peers as bars, as an SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.tenant_plot import COLOURS, scale

OURS = ("engine", "adk", "store", "store_hybrid")
NAMES = {
    "engine": "pg-hippocampus, engine",
    "adk": "pg-hippocampus, ADK",
    "store": "pg-hippocampus, store",
    "store_hybrid": "pg-hippocampus, hybrid store",
    "postgres_store": "PostgresStore",
    "in_memory_store": "InMemoryStore",
    "langmem": "langmem",
    "mem0": "mem0",
}
PANELS = {
    "recall_at_10": "evidence recall@10",
    "ask_p50_ms": "asking, p50 (ms)",
    "add_p50_ms": "adding a turn, p50 (ms)",
}
LABELS, WIDTH, GAP, TOP, ROW = 180, 190, 60, 34, 24
"""Pixels: the names, a panel, the room to its right, the room above the bars, a bar."""


def draw(
    figures: Mapping[str, Mapping[str, float | None]], panels: Mapping[str, str] = PANELS
) -> str:
    """Return an SVG of one panel for each figure, with a bar for each contender.

    panels: their titles, by the name of the figure.
    """
    shown = [name for name in figures if name in NAMES]
    parts = [
        f'<text x="{LABELS - 10}" y="{_y(row) + 14}" text-anchor="end">{NAMES[name]}</text>'
        for row, name in enumerate(shown)
    ]
    for place, (figure, title) in enumerate(panels.items()):
        values = [figures[name][figure] or 0.0 for name in shown]
        x = scale(0, max(values), 0, WIDTH)
        left = LABELS + place * (WIDTH + GAP)
        parts.append(f'<g transform="translate({left} 0)">{_panel(title, shown, values, x)}</g>')
    width, height = LABELS + len(panels) * (WIDTH + GAP), _y(len(shown)) + 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="11" fill="#333">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _panel(
    title: str, names: Sequence[str], values: Sequence[float], x: Callable[[float], float]
) -> str:
    parts = [f'<text y="{TOP - 14}" font-size="13" font-weight="bold">{title}</text>']
    for row, (name, value) in enumerate(zip(names, values, strict=True)):
        colour = COLOURS["ours" if name in OURS else "exact"]
        parts.append(
            f'<rect y="{_y(row)}" width="{x(value):.1f}" height="{ROW - 6}" fill="{colour}"/>'
            f'<text x="{x(value) + 5:.1f}" y="{_y(row) + 14}">{value:.3g}</text>'
        )
    return "".join(parts)


def _y(row: int) -> int:
    return TOP + row * ROW
