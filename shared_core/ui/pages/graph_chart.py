"""The picture of a part of the graph: a circle for each entity, a line for each edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nicegui import events, ui

from shared_core.ports.graph import Edge
from shared_core.ui.pages.cells import exact
from shared_core.ui.pages.slot_words import entity_label, relation_label
from shared_core.ui.style import SERIES
from shared_core.ui.view import PageView

GREY: Final = "#888888"
HOPS: Final = (
    ("diamond", SERIES[1], 34), ("circle", SERIES[4], 26), ("roundRect", SERIES[2], 20),
    ("triangle", SERIES[3], 16),
)  # fmt: skip
"""Shape, colour and size of the entities, by their distance from the centre."""


MOST_NAMED: Final = 40
"""Most edges whose labels may lie on each other; of more, some are left out."""


def distance_word(view: PageView, hops: int) -> str:
    """Return the word for a distance from the centre."""
    if not hops:
        return view.t("centre", "中心")
    return view.t(f"{hops} step" + ("s" if hops > 1 else ""), f"{hops} 步")


def edge_text(view: PageView, edge: Edge) -> str:
    """Return an edge as a sentence."""
    subject, name = entity_label(view, edge.subject), relation_label(view, edge.relation)
    return f"{subject} {name} {entity_label(view, edge.object)}"


def chart(
    view: PageView,
    entities: Mapping[str, int],
    edges: Sequence[Edge],
    *,
    opens: Callable[[str], None],
    chooses: Callable[[str], None],
) -> None:
    """Show edges as a picture that can be moved and enlarged.

    entities: the distance of each from the centre. opens: called with the entity whose circle was
    clicked. chooses: called with the id of the edge whose line was clicked.
    """
    names = list(entities)
    places = {name: str(place) for place, name in enumerate(names)}

    def clicked(event: events.GenericEventArguments) -> None:
        kind, data = event.args.get("dataType"), event.args.get("data") or {}
        place = str(data.get("id", ""))
        if kind == "node" and place in places.values():
            opens(names[int(place)])
        elif kind == "edge":
            chooses(str(data.get("edge", "")))

    nodes = [_node(view, places[name], name, hops) for name, hops in entities.items()]
    lines = [
        _line(view, edge, places[edge.subject_entity], places[edge.object_entity]) for edge in edges
    ]
    deepest = min(max(entities.values(), default=0), len(HOPS) - 1)
    legend = [{"name": distance_word(view, hops)} for hops in range(deepest + 1)]
    categories = [
        {**one, "symbol": shape, "itemStyle": {"color": colour}}
        for one, (shape, colour, _) in zip(legend, HOPS, strict=False)
    ]
    picture = ui.echart(_options(nodes, lines, categories))
    picture.on("componentClick", clicked, ["dataType", "data"])
    picture.classes("tall-chart").props["role"] = "img"
    picture.props["aria-label"] = view.t(
        "Picture of the graph; the table of edges says the same.", "图谱的图，内容与边的表格相同。"
    )


def _options(
    nodes: list[dict[str, Any]], lines: list[dict[str, Any]], categories: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "tooltip": {"renderMode": "richText", "confine": True},
        "media": [
            {"query": {"minWidth": 700}, "option": {"series": [{"force": _force(nodes, 2.2)}]}}
        ],
        "legend": {"bottom": 0, "textStyle": {"color": GREY}, "selectedMode": False,
                   "data": [{"name": one["name"], "icon": one["symbol"]} for one in categories]},
        "series": [
            {
                "type": "graph",
                "layout": "force",
                "roam": True,
                "draggable": True,
                "top": 20, "bottom": 50, "left": 40, "right": 40,
                "autoCurveness": True,
                "edgeSymbol": ["none", "arrow"],
                "edgeSymbolSize": 8,
                "categories": categories,
                "force": _force(nodes, 1),
                "labelLayout": {"hideOverlap": len(lines) > MOST_NAMED},
                "emphasis": {"focus": "adjacency"},
                "data": nodes,
                "links": lines,
            }
        ],
    }  # fmt: skip


def _force(nodes: Sequence[object], scale: float) -> dict[str, Any]:
    """Return the forces of the layout. scale: how much room there is."""
    return {
        "initLayout": "circular",
        "repulsion": scale * max(50, 4200 // (len(nodes) + 1)),
        "edgeLength": [60 * scale, 100 * scale],
        "gravity": 0.1,
        "layoutAnimation": False,
    }


def _node(view: PageView, place: str, name: str, hops: int) -> dict[str, Any]:
    shape, colour, size = HOPS[min(hops, len(HOPS) - 1)]
    label = entity_label(view, name)
    return {
        "id": place,
        "name": label,
        "category": min(hops, len(HOPS) - 1),
        "symbol": shape,
        "symbolSize": size,
        "itemStyle": {"color": colour},
        "label": {
            "show": True, "position": "bottom", "distance": 2, "color": GREY, "fontWeight": "bold",
            "width": 120, "overflow": "truncate",
        },
        "tooltip": {"formatter": f"{label} · {distance_word(view, hops)}"},
    }  # fmt: skip


def _line(view: PageView, edge: Edge, source: str, target: str) -> dict[str, Any]:
    name = relation_label(view, edge.relation)
    if not edge.current:
        name += view.t(" (ended)", "（已结束）")
    until = exact(edge.valid_until) if edge.valid_until else view.t("now", "现在")
    times = view.t(f"{exact(edge.valid_from)} to {until}", f"{exact(edge.valid_from)} 至 {until}")
    return {
        "source": source,
        "target": target,
        "edge": str(edge.edge_id),
        "lineStyle": {
            "color": GREY,
            "width": 2,
            "type": "solid" if edge.current else "dashed",
            "opacity": 0.9 if edge.current else 0.6,
        },
        "label": {"show": True, "formatter": name, "color": GREY, "fontSize": 11},
        "tooltip": {"formatter": f"{edge_text(view, edge)}\n{times}"},
    }
