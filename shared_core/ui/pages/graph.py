"""The knowledge graph around an entity, its history, paths and aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nicegui import ui

from shared_core.core.domain import USER, AsOf
from shared_core.core.ids import short_id
from shared_core.ports.graph import Edge
from shared_core.ui.frame import Page
from shared_core.ui.pages.cells import (
    Cell,
    exact,
    folded,
    grid,
    kept,
    moment_input,
    quote,
    styles,
    text_input,
    text_of,
    thread_link,
)
from shared_core.ui.pages.graph_actions import edge_actions, forms
from shared_core.ui.pages.graph_chart import chart, distance_word, edge_text
from shared_core.ui.pages.slot_words import entity_label, relation_label
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, heading, panel, time_machine

LIMITS: Final = (50, 150, 500)
"""Most edges on a page."""
PARAMS: Final = (
    "name", "depth", "limit", "history", "as_of", "known", "edge", "start", "goal", "q",
)  # fmt: skip
"""What the address of this page says, besides the user."""
MOST_ENTITIES: Final = 30
TURNS_READ: Final = 500
"""Newest turns in which the thread of an edge without a fact is looked for."""


@dataclass(frozen=True, slots=True)
class Around:
    """The part of the graph that a page shows. more: whether there are more edges."""

    entities: Mapping[str, int]
    edges: Sequence[Edge]
    more: bool


@dataclass(frozen=True, slots=True)
class Address:
    """What the address of the page asks for."""

    entity: str
    depth: int
    limit: int
    history: bool

    @classmethod
    def of(cls, view: PageView) -> Address:
        depth, limit = view.params.get("depth", ""), view.params.get("limit", "")
        return cls(
            entity=view.params.get("name") or USER,
            depth=int(depth) if depth in ("1", "2", "3") else 2,
            limit=int(limit) if limit in map(str, LIMITS) else LIMITS[0],
            history=view.params.get("history") == "1",
        )


async def body(view: PageView) -> None:
    """Build the page."""
    styles()
    address, as_of = Address.of(view), time_machine(view)
    around = await read(view, address, as_of)
    _controls(view, address)
    forms(view, address.entity)
    await _edge_detail(view, around)
    if around.edges:
        _picture(view, address, around)
        _table(view, around)
    else:
        name = entity_label(view, address.entity)
        empty(view.t(
            f"No edge of {name} holds at this moment. Edges appear when a conversation is"
            " consolidated, when somebody states a fact, or adds a relation.",
            f"此刻没有与“{name}”相连的边。整理对话、陈述事实或添加关系后，就会出现。",
        ))  # fmt: skip
    await _paths(view, address, as_of)
    await _entities(view, as_of)


async def read(view: PageView, address: Address, as_of: AsOf | None) -> Around:
    """Return the edges around the entity of the address, with its ended ones if asked for."""
    near = await view.memory.graph.neighbourhood(
        view.user, address.entity, depth=address.depth, limit=address.limit, as_of=as_of
    )
    edges, entities, more = [*near.edges], dict(near.entities), near.more
    if address.history:
        known = {one.edge_id for one in edges}
        past = await view.memory.graph.history(
            view.user, address.entity, limit=address.limit, as_of=as_of
        )
        edges += [one for one in past if one.edge_id not in known]
        more = more or len(past) == address.limit
        centre = next((name for name, hops in entities.items() if not hops), None)
        for one in past:
            for name in (one.subject_entity, one.object_entity):
                is_centre = centre is None and name.casefold() == address.entity.casefold()
                entities.setdefault(name, 0 if is_centre else 1)
    return Around(entities, edges, more)


async def threads_of(view: PageView, edge: Edge) -> list[str]:
    """Return the threads of the turns behind an edge, as far as they are new enough."""
    turns = await view.memory.list_memories(view.user, kinds=["episodic"], limit=TURNS_READ)
    wanted = set(edge.source_event_ids)
    found = [one.thread_id for one in turns if wanted & set(one.source_event_ids)]
    return [str(one) for one in dict.fromkeys(found) if one is not None]


def here(view: PageView, **changed: object) -> str:
    """Return the address of this page with some of its parameters changed; None leaves one out."""
    return view.link("/graph", **kept(view, PARAMS) | changed)


def _controls(view: PageView, address: Address) -> None:
    """Show the entity and what limits the picture. Each change leads to an address."""
    flag = {"0": view.t("only what holds", "仅当前"), "1": view.t("ended ones too", "含已结束")}
    depths = {str(one): distance_word(view, one) for one in (1, 2, 3)}

    def show() -> None:
        ui.navigate.to(here(
            view, name=text_of(entity) or None, depth=text_of(depth), limit=text_of(limit),
            history="1" if text_of(history) == "1" else None, as_of=text_of(valid) or None,
            known=text_of(known) or None, edge=None,
        ))  # fmt: skip

    with ui.element("div").classes("form-line"):
        entity = text_input(view.t("Around whom or what", "以谁或什么为中心"), address.entity)
        entity.on("keydown.enter", show)
        depth = _select(view.t("How far", "多远"), depths, str(address.depth))
        history = _select(view.t("Edges", "边"), flag, "1" if address.history else "0")
        limit = _select(view.t("Most edges", "最多边数"), {str(n): str(n) for n in LIMITS},
                        str(address.limit))  # fmt: skip
        ui.button(view.t("Show", "查看"), on_click=show).props("no-caps outline")
    is_open = bool(view.params.get("as_of") or view.params.get("known"))
    other = folded(view.t("As of another moment", "查看其他时刻"), is_open=is_open)
    with other, ui.element("div").classes("form-line"):
        valid = moment_input(view, view.t("What held at", "何时有效"), view.params.get("as_of"))
        known = moment_input(view, view.t("As known at", "何时已知"), view.params.get("known"))
        ui.button(view.t("Show", "查看"), on_click=show).props("no-caps outline")


def _select(label: str, options: dict[str, str], value: str) -> ui.select:
    field = ui.select(options, label=label, value=value)
    return field.props("outlined dense options-dense")


def _picture(view: PageView, address: Address, around: Around) -> None:
    with panel():
        heading(view.t(f"Around {entity_label(view, address.entity)}",
                       f"{entity_label(view, address.entity)}的周围"))  # fmt: skip
        ui.label(view.t(
            "Click on an entity to go there, on a line to see who said so. Drag to move, scroll to"
            " enlarge. A dashed line has ended. Shape and colour: distance from the centre.",
            "点击实体前往该实体，点击连线查看依据。拖动可移动，滚动可缩放。虚线表示已结束；形状与颜色"
            "表示与中心的距离。",
        )).classes("quiet")  # fmt: skip
        chart(
            view, around.entities, around.edges,
            opens=lambda name: ui.navigate.to(here(view, name=name, edge=None)),
            chooses=lambda edge: ui.navigate.to(here(view, edge=edge)),
        )  # fmt: skip
        if around.more:
            ui.label(view.t(f"There are more edges than {address.limit}: raise the number above.",
                            f"边数超过 {address.limit} 条：请在上方调大数量。"))  # fmt: skip


def _table(view: PageView, around: Around) -> None:
    """Show the edges with their times and confidence."""
    columns = (
        view.t("from", "主体"), view.t("relation", "关系"), view.t("to", "客体"),
        view.t("state", "状态"), view.t("since", "自"), view.t("until", "至"),
        view.t("confidence", "置信度"), "",
    )  # fmt: skip
    chosen = view.params.get("edge", "")
    rows: list[tuple[Sequence[str | Cell | Sequence[Cell]], str]] = []
    for edge in around.edges:
        state = view.t("● holds", "● 当前") if edge.current else view.t("○ ended", "○ 已结束")
        kind = "here" if str(edge.edge_id) == chosen else "" if edge.current else "past"
        rows.append((
            (
                _entity_cell(view, edge.subject, edge.subject_entity),
                relation_label(view, edge.relation),
                _entity_cell(view, edge.object, edge.object_entity),
                state,
                view.time(edge.valid_from),
                view.time(edge.valid_until),
                f"{edge.confidence:.2f}",
                Cell(view.t("details", "详情"), here(view, edge=edge.edge_id)),
            ),
            kind,
        ))  # fmt: skip
    with panel():
        heading(view.t("Edges", "边"))
        grid(columns, rows, view.t("Edges of the graph", "图谱的边"))


def _entity_cell(view: PageView, spoken: str, entity: str) -> Cell:
    label = entity_label(view, spoken)
    if spoken.casefold() != entity.casefold():
        label += view.t(f" (= {entity})", f"（即{entity}）")
    return Cell(label, here(view, name=entity, edge=None))


async def _edge_detail(view: PageView, around: Around) -> None:
    """Show the edge that the address names: both time lines, turns and actions."""
    wanted = view.params.get("edge")
    edge = next((one for one in around.edges if str(one.edge_id) == wanted), None)
    if edge is None:
        return
    with panel():
        heading(edge_text(view, edge))
        open_end = view.t("no end known", "未结束")
        end_known = exact(edge.superseded_at) if edge.superseded_at else "–"
        grid(
            ("", view.t("from", "自"), view.t("until", "至")),
            [
                ((view.t("Held", "有效期"), exact(edge.valid_from),
                  exact(edge.valid_until) if edge.valid_until else open_end), ""),
                ((view.t("Known; its end", "入库；得知结束"), exact(edge.recorded_at), end_known),
                 ""),
            ],
            view.t("Both time lines of the edge", "边的两条时间线"),
        )  # fmt: skip
        await _edge_turns(view, edge)
        edge_actions(view, edge)
        ui.link(view.t("close", "收起"), here(view, edge=None)).classes("quiet")


async def _edge_turns(view: PageView, edge: Edge) -> None:
    """Show the turns behind an edge: those of its fact, else the threads of its events."""
    with ui.element("div").classes("row-line"):
        if edge.run_id is not None:
            ui.link(view.t(f"run {short_id(edge.run_id)}", f"运行 {short_id(edge.run_id)}"),
                    view.link("/runs")).classes("quiet")  # fmt: skip
        if edge.fact_id is not None:
            ui.link(
                view.t("the fact that it restates", "对应的事实"),
                view.link("/facts", fact=edge.fact_id) + f"#fact-{edge.fact_id}",
            ).classes("quiet")
    explained = view.memory.facts.explained
    fact = None if edge.fact_id is None else await explained(view.user, edge.fact_id)
    if fact is not None:
        for turn in fact.why.stated.turns if fact.why else ():
            quote(view, turn)
        return
    if edge.source_event_ids:
        for thread in await threads_of(view, edge):
            thread_link(view, thread)
    else:
        ui.label(view.t("No turn: the application or a person added it.",
                        "没有对话依据：由应用或人工添加。")).classes("quiet")  # fmt: skip


async def _paths(view: PageView, address: Address, as_of: AsOf | None) -> None:
    """Show the paths between two entities, and the form that asks for them."""
    start, goal = view.params.get("start", ""), view.params.get("goal", "")

    def show() -> None:
        ui.navigate.to(here(view, start=text_of(first) or None, goal=text_of(last) or None))

    with panel():
        heading(view.t("Paths between two entities", "两个实体之间的路径"))
        with ui.element("div").classes("form-line"):
            first = text_input(view.t("From", "起点"), start or address.entity)
            last = text_input(view.t("To", "终点"), goal)
            last.on("keydown.enter", show)
            ui.button(view.t("Find", "查找"), on_click=show).props("no-caps outline")
        if not (start and goal):
            return
        found = await view.memory.graph.paths(view.user, start, goal, max_hops=4, as_of=as_of)
        for path in found:
            with ui.element("div").classes("row-line"):
                _step(view, path.entities[0])
                for edge, reached in zip(path.edges, path.entities[1:], strict=True):
                    name = relation_label(view, edge.relation)
                    forward = edge.object_entity == reached
                    ui.label(f"— {name} →" if forward else f"← {name} —").classes("quiet")
                    _step(view, reached)
        if not found:
            ui.label(view.t(f"No path of at most 4 edges joins {start} and {goal}.",
                            f"{start} 与 {goal} 之间没有 4 条边以内的路径。"))  # fmt: skip


def _step(view: PageView, entity: str) -> None:
    ui.link(entity_label(view, entity), here(view, name=entity, edge=None))


async def _entities(view: PageView, as_of: AsOf | None) -> None:
    """Show the entities with the most edges, or those whose name has a text."""
    part = view.params.get("q", "")
    found = await view.memory.graph.entities(
        view.user, matching=part, limit=MOST_ENTITIES, as_of=as_of
    )

    def show() -> None:
        ui.navigate.to(here(view, q=text_of(field) or None))

    with panel():
        heading(view.t("Entities", "实体"))
        with ui.element("div").classes("form-line"):
            field = text_input(view.t("Part of a name", "名称的一部分"), part)
            field.on("keydown.enter", show)
            ui.button(view.t("Search", "搜索"), on_click=show).props("no-caps outline")
        rows = [
            (
                (
                    Cell(entity_label(view, one.name), here(view, name=one.name, edge=None)),
                    view.t(", ", "、").join(one.aliases) or "–",
                    f"{one.degree:,}",
                ),
                "",
            )
            for one in found
        ]
        if rows:
            columns = (view.t("name", "名称"), view.t("other names", "其他名称"),
                       view.t("edges", "边数"))  # fmt: skip
            grid(columns, rows, view.t("Entities", "实体"))
        else:
            ui.label(view.t("No entity with an edge that holds has this name.",
                            "没有名称匹配且有当前边的实体。")).classes("quiet")  # fmt: skip
        if len(found) == MOST_ENTITIES:
            ui.label(view.t("There may be more: type a part of the name.",
                            "可能还有更多：输入名称的一部分。")).classes("quiet")  # fmt: skip


PAGE = Page("/graph", "hub", "Graph", "图谱", body)
