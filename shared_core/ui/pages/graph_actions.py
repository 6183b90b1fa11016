"""Actions on the graph: add, retract and restore an edge, merge and separate names."""

from __future__ import annotations

import re

from nicegui import ui

from shared_core.ports.graph import Edge, GraphChange, Operation
from shared_core.ui.actions import action_button
from shared_core.ui.pages.cells import folded, moment_in, moment_input, text_input, text_of
from shared_core.ui.pages.graph_chart import edge_text
from shared_core.ui.view import PageView

SEPARATORS = re.compile(r"[,，、;；\n]")


def forms(view: PageView, entity: str) -> None:
    """Show the forms that change the graph. entity: filled in already."""
    if not view.may_write:
        return
    with folded(view.t("Add a relation", "添加关系")):
        _add(view, entity)
    with folded(view.t("Merge or separate names", "合并或拆分名称")):
        _aliases(view, entity)


def edge_actions(view: PageView, edge: Edge) -> None:
    """Show what can be done to an edge: end it, or undo its end."""
    if edge.superseded_at is None:
        _retract(view, edge)
    else:
        _restore(view, edge)


def undo_text(view: PageView, change: GraphChange) -> str:
    """Return how to undo a change of the graph."""
    if change.run_id is None:
        return ""
    return view.t(
        f" To undo it and what it ended, undo run {change.run_id} on the page Runs and jobs.",
        f"如需连同它所结束的内容一起撤销，请在“运行与任务”页撤销运行 {change.run_id}。",
    )


def _add(view: PageView, entity: str) -> None:
    with ui.element("div").classes("form-line"):
        subject = text_input(view.t("From", "主体"), entity)
        relation = text_input(view.t("Relation", "关系"), "",
                              view.t("e.g. works_at, knows", "如 works_at、knows"))  # fmt: skip
        target = text_input(view.t("To", "客体"))
        since = moment_input(view, view.t("Since; empty for now", "开始时间，留空表示现在"))
        many = {"": view.t("as declared", "按声明"), "one": view.t("one at a time", "同时仅一个"),
                "many": view.t("many", "可以多个")}  # fmt: skip
        objects = ui.select(many, value="", label=view.t("Objects", "客体数量"))
        objects.props("outlined dense options-dense")

        def will() -> str:
            said = f"{text_of(subject)} {text_of(relation)} {text_of(target)}"
            return view.t(
                f"The edge “{said}” will be added. It ends an edge that it excludes, with its fact."
                " An edge of the user that stands for a slot also adds the fact.",
                f"将添加边“{said}”。与它互斥的边及其事实将结束。如果主体是用户且该关系对应某个槽位，"
                "还会写入相应的事实。",
            )

        async def do() -> str:
            chosen = text_of(objects)
            change = await view.memory.graph.add(
                view.user, text_of(subject), text_of(relation), text_of(target),
                valid_from=moment_in(since, "since"),
                functional=None if not chosen else chosen == "one",
            )  # fmt: skip
            if change.operation is Operation.NOOP:
                return view.t("This edge holds already: nothing changed.",
                              "这条边已存在，没有变化。")  # fmt: skip
            ended = len(change.closed)
            return view.t(
                f"The edge is added, and {ended} ended.", f"已添加该边，同时结束了 {ended} 条边。"
            ) + undo_text(view, change)

        action_button(view, view.t("Add", "添加"), icon="add", will=will, do=do)


def _aliases(view: PageView, entity: str) -> None:
    with ui.element("div").classes("form-line"):
        name = text_input(view.t("Name that stays", "保留的名称"), entity)
        others = text_input(view.t("Other names, with commas", "其他名称，用逗号分隔"))

        def given() -> list[str]:
            return [one.strip() for one in SEPARATORS.split(text_of(others)) if one.strip()]

        def will_merge() -> str:
            return view.t(
                f"{', '.join(given())} will be read as {text_of(name)}. Edges are not rewritten."
                " Separate undoes it.",
                f"{'、'.join(given())}将视为{text_of(name)}。边不会被改写，可用“拆分”撤销。",
            )

        async def merge() -> str:
            merged = await view.memory.graph.merge_aliases(view.user, text_of(name), given())
            return view.t(f"Merged names: {merged}. To undo it, separate them.",
                          f"合并了 {merged} 个名称。如需撤销，请拆分它们。")  # fmt: skip

        def will_separate() -> str:
            names = given()
            whom = view.t(", ".join(names) or "All other names", "、".join(names) or "所有其他名称")
            return view.t(
                f"{whom} will be an entity apart from {text_of(name)} again. Merge undoes it.",
                f"{whom}将重新与{text_of(name)}分开，可用“合并”撤销。",
            )

        async def separate() -> str:
            apart = await view.memory.graph.unmerge_aliases(
                view.user, text_of(name), given() or None
            )
            return view.t(f"Separated names: {apart}. To undo it, merge them.",
                          f"拆分了 {apart} 个名称。如需撤销，请合并它们。")  # fmt: skip

        action_button(view, view.t("Merge", "合并"), icon="merge", will=will_merge, do=merge)
        action_button(
            view, view.t("Separate", "拆分"), icon="call_split", will=will_separate, do=separate
        )


def _retract(view: PageView, edge: Edge) -> None:
    if not view.may_write:
        return
    with ui.element("div").classes("form-line"):
        at = moment_input(view, view.t("Ended at; empty for now", "结束时间，留空表示现在"))

        async def do() -> str:
            change = await view.memory.graph.retract(
                view.user, edge.subject, edge.relation, edge.object,
                valid_until=moment_in(at, "at"),
            )  # fmt: skip
            if change.operation is Operation.NOOP:
                return view.t("This edge ends no later: nothing changed.",
                              "这条边的结束时间不晚于所给时间，没有变化。")  # fmt: skip
            return view.t(
                "The edge ended, with its fact. It stays as history; Restore undoes it.",
                "该边及其事实已结束，仍保留在历史中，可用“恢复”撤销。",
            )

        action_button(
            view, view.t("Retract", "撤回"), icon="event_busy", do=do,
            will=view.t(
                f"The edge “{edge_text(view, edge)}” will end, with its fact. It stays as history,"
                " and Restore undoes it.",
                f"边“{edge_text(view, edge)}”及其事实将结束。它仍保留在历史中，可用“恢复”撤销。",
            ),
        )  # fmt: skip


def _restore(view: PageView, edge: Edge) -> None:
    async def do() -> str:
        await view.memory.graph.restore(view.user, edge.edge_id)
        return view.t(
            "The edge holds again, with its fact. To undo it, choose Retract.",
            "该边及其事实重新生效。如需撤销，请选择“撤回”。",
        )

    with ui.element("div").classes("row-line"):
        action_button(
            view, view.t("Restore", "恢复"), icon="restore", do=do,
            will=view.t(
                f"The end of the edge “{edge_text(view, edge)}” and of its fact will be undone. It"
                " is refused while an edge that excludes it holds. Retract undoes it.",
                f"将撤销边“{edge_text(view, edge)}”及其事实的结束。如有互斥的边正在生效，"
                "则会被拒绝。可用“撤回”撤销。",
            ),
        )  # fmt: skip
