"""What held when, as it was known when: the two time lines of the facts of a slot as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final

from nicegui import ui

from shared_core.core.domain import AsOf
from shared_core.ports.runs import Fact
from shared_core.ui.pages.cells import exact
from shared_core.ui.style import SERIES
from shared_core.ui.view import PageView

MOST_MOMENTS: Final = 24
"""Moments at which something became known that a picture shows, the newest ones."""
MOST_VALUES: Final = 40
"""Values of a slot that a picture shows; the lanes of more take too long to find."""
RUNS_READ: Final = 100
END: Final = datetime.max.replace(tzinfo=UTC)
FILLS: Final = [SERIES[place] for place in (4, 1, 2, 3, 6, 7)]
"""Fills on which black letters are legible."""
GREY: Final = "#888888"
ROW_PX: Final = 58
"""Height of a row in pixels."""
NARROW: Final = 0.25
"""Share of the width below which the words of a rectangle stand upright."""
THIN: Final = 0.03
"""Share of the width below which a rectangle has no words; the table has them."""


@dataclass(frozen=True, slots=True)
class Belief:
    """A fact as it was known at a moment."""

    key: str
    value: str
    begin: datetime
    until: datetime | None
    is_doubtful: bool

    @property
    def end(self) -> datetime:
        return self.until or END


@dataclass(frozen=True, slots=True)
class State:
    """What was known of a slot from a moment on, until the next state."""

    since: datetime
    beliefs: tuple[Belief, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A rectangle: a belief, and the first and last row of the picture that it covers."""

    belief: Belief
    top: int
    bottom: int


async def states(
    view: PageView, slot: str, facts: Sequence[Fact], known: datetime | None
) -> list[State]:
    """Return what was known of a slot, each time that it changed, oldest first.

    Ends that were undone since are asked for at the moments of the runs that set and undid them.
    """
    runs = await view.memory.runs(view.user, limit=RUNS_READ)
    changes = [one for one in runs if one.kind in ("retraction", "restoration", "graph")]
    moments = {at for one in changes for at in (one.started_at, one.finished_at)}
    moments |= {at for one in facts for at in (one.recorded_at, one.superseded_at) if at}
    first = min((one.recorded_at for one in facts if one.recorded_at), default=None)
    if first is None:
        return []
    asked = sorted(at for at in moments if at >= first and (known is None or at <= known))
    found: list[State] = []
    for moment in asked[-MOST_MOMENTS:]:
        as_of = AsOf(valid=END - timedelta(days=2), known=moment)
        then = await view.memory.facts(view.user, slot, history=True, as_of=as_of)
        beliefs = tuple(
            Belief(one.key, one.value, one.valid_from, one.valid_until, one.doubted_at is not None)
            for one in sorted(then, key=lambda fact: (fact.valid_from, fact.key))
        )
        if not found or found[-1].beliefs != beliefs:
            found.append(State(moment, beliefs))
    return found


def lanes(found: Sequence[State]) -> list[list[State]]:
    """Return the states of groups of facts that never hold at the same time.

    The values of a slot with one value are one lane; those of a slot with many have a lane each.
    """
    keys: list[set[str]] = []
    for key in dict.fromkeys(one.key for state in found for one in state.beliefs):
        lane = next((lane for lane in keys if not _meets(found, key, lane)), None)
        if lane is None:
            keys.append(lane := set())
        lane.add(key)
    made = []
    for lane in keys:
        own = [
            State(state.since, tuple(one for one in state.beliefs if one.key in lane))
            for state in found
        ]
        made.append([next(same) for _, same in groupby(own, lambda state: state.beliefs)])
    return [[state for state in lane if state.beliefs] for lane in made]


def _meets(found: Sequence[State], key: str, lane: set[str]) -> bool:
    """Return whether a fact and one of a lane hold at the same time in a state."""
    for state in found:
        own = [one for one in state.beliefs if one.key == key]
        others = [one for one in state.beliefs if one.key in lane]
        if any(one.begin < other.end and other.begin < one.end for one in own for other in others):
            return True
    return False


def blocks(lane: Sequence[State]) -> list[Block]:
    """Return the rectangles of a lane; states with the same belief are one."""
    found: list[Block] = []
    for row, state in enumerate(lane):
        for belief in state.beliefs:
            before = next(
                (one for one in found if one.belief == belief and one.bottom == row), None
            )
            if before is not None:
                found.remove(before)
            found.append(Block(belief, before.top if before else row, row + 1))
    return [one for one in found if one.belief.begin < one.belief.end]


def picture(view: PageView, found: Sequence[State], now: datetime, valid: datetime | None) -> None:
    """Show the picture. valid: the moment that the page is about, drawn as a line."""
    rows: list[str] = []
    areas: list[list[dict[str, Any]]] = []
    known = [one for state in found for one in state.beliefs]
    colours = {
        key: FILLS[place % len(FILLS)] for place, key in enumerate({k.key: 0 for k in known})
    }
    begin, end = _span(known, now)
    for lane in lanes(found):
        start = len(rows)
        rows += [exact(state.since).replace(" ", "\n") for state in lane]
        rows.append(view.t("now", "现在"))
        areas += [_area(view, one, start, begin, end, colours) for one in blocks(lane)]
    lines = [_line(now, view.t("now", "现在"))]
    if valid is not None:
        lines.append(_line(valid, f"{valid:%Y-%m-%d}"))
    options = _options(rows, areas, lines, (begin, end))
    height = 90 + ROW_PX * len(rows)
    chart = ui.echart(options).style(f"width: 100%; height: {height}px")
    chart.props["role"] = "img"
    chart.props["aria-label"] = view.t(
        "Picture of both time lines; the table says the same.", "两条时间线的图，内容与表格相同。"
    )


def _line(moment: datetime, text: str) -> dict[str, Any]:
    label = {"formatter": text, "position": "start", "color": GREY}
    return {"xAxis": _ms(moment), "label": label}


def _options(
    rows: list[str], areas: list[list[dict[str, Any]]], lines: list[dict[str, Any]],
    span: tuple[datetime, datetime],
) -> dict[str, Any]:  # fmt: skip
    text = {"color": GREY}
    return {
        "useUTC": True,
        "animation": False,
        "textStyle": text,
        "tooltip": {"renderMode": "richText", "trigger": "item", "confine": True},
        "grid": {"left": 84, "right": 18, "top": 30, "bottom": 40},
        "xAxis": {
            "type": "time", "min": _ms(span[0]), "max": _ms(span[1]),
            "axisLabel": {**text, "hideOverlap": True},
            "splitLine": {"show": True, "lineStyle": {"opacity": 0.25}},
        },
        "yAxis": {
            "type": "category", "data": rows, "inverse": True, "boundaryGap": False,
            "axisLabel": {**text, "interval": 0}, "axisTick": {"show": True},
            "splitLine": {"show": True, "interval": 0, "lineStyle": {"opacity": 0.25}},
        },
        "series": [
            {
                "type": "line",
                "data": [],
                "markArea": {"data": areas},
                "markLine": {
                    "data": lines, "symbol": "none", "silent": True,
                    "lineStyle": {"type": "dashed", "color": GREY},
                },
            }
        ],
    }  # fmt: skip


def _area(
    view: PageView,
    block: Block,
    start: int,
    begin: datetime,
    end: datetime,
    colours: dict[str, str],
) -> list[dict[str, Any]]:
    belief = block.belief
    mark = ""
    if belief.until is not None:
        mark = view.t(" (ended)", "（已结束）")
    elif belief.is_doubtful:
        mark = view.t(" (doubtful)", "（存疑）")
    share = (min(belief.end, end) - max(belief.begin, begin)) / (end - begin)
    since, until = exact(belief.begin), exact(belief.until)
    said = view.t(f"held {since} to {until}", f"有效期 {since} 至 {until}")
    return [
        {
            "name": f"{belief.value[:40]}{mark}",
            "xAxis": _ms(max(belief.begin, begin)),
            "yAxis": start + block.top,
            "itemStyle": {
                "color": colours[belief.key],
                "borderColor": "#333333",
                "borderWidth": 2,
                "borderType": "solid" if belief.until is None else "dashed",
            },
            "label": {
                "show": share > THIN,
                "rotate": 90 if share < NARROW else 0,
                "position": "inside", "color": "#111111", "fontWeight": "bold",
                "overflow": "truncate",
                "width": 130 if share >= NARROW else ROW_PX * (block.bottom - block.top) - 8,
            },
            "tooltip": {"formatter": f"{belief.value}{mark}\n{said}"},
        },
        {"xAxis": _ms(min(belief.end, end)), "yAxis": start + block.bottom},
    ]  # fmt: skip


def _span(known: Sequence[Belief], now: datetime) -> tuple[datetime, datetime]:
    """Return the first and last moment of the picture, with some room."""
    moments = [at for one in known for at in (one.begin, one.until) if at is not None]
    first, last = min(moments, default=now), max([*moments, now])
    room = max((last - first) / 20, timedelta(hours=1))
    return first - room, last + room


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
