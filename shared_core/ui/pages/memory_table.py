"""A table of memories that can be selected, and what can be done with the selected ones."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from nicegui import ui

from shared_core.core.domain import MemoryKind, ThreadId
from shared_core.ui.actions import action_button
from shared_core.ui.style import COLOURS
from shared_core.ui.view import PageView
from shared_core.ui.widgets import kind_name

MOST_CHARACTERS: Final = 280
"""Characters of a text that a table shows; the page of the memory shows the rest."""
MOST_NAMED: Final = 10
"""Texts that a confirmation lists."""
MOST_OF_A_THREAD: Final = 1_000
"""Memories of a thread that are read to find the one of a turn."""
CSS: Final = """
.q-table__card.memories { background: transparent; }
.memories .cell-text { min-width: 16rem; }
.memories .cell-time, .memories .cell-kind, .memories .cell-author { white-space: nowrap; }
.memories .cell-thread { min-width: 8rem; }
.panel.fold { padding: .1rem; }
.panel.fold .q-expansion-item__content { padding: 0 .8rem .8rem; }
.memories a { text-decoration: none; }
.memories a:hover { text-decoration: underline; }
.stage { border: 1px dashed var(--quiet); border-radius: 1rem; padding: 0 .5rem; font-size: .8rem; }
.dates { width: 10rem; }
.stack { display: flex; flex-direction: column; gap: 1rem; width: 100%; }
.named { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .9rem; margin: 0; }
.named dt, .named dd { margin: 0; }
pre.json { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
@media (max-width: 700px) {
  .memories thead { display: none; }
  .memories table, .memories tbody { display: block; }
  .memories tbody tr { display: flex; flex-wrap: wrap; align-items: center; gap: .1rem .5rem;
    border-bottom: 1px solid var(--line); padding: .5rem 0; height: auto !important; }
  .memories tbody td { border: 0; padding: .1rem 0; height: auto !important; }
  .memories tbody td:first-child { width: auto; min-width: 1.6rem; }
  .memories tbody td.cell-text { order: 9; flex: 1 0 100%; min-width: 0; }
}
"""
TEXT: Final = {"color": "#8a8f98"}
"""Colour of the texts of a chart, legible on light and on dark."""
SPLIT: Final = {"lineStyle": {"color": "#8a8f98", "opacity": 0.3}}
"""Lines of the grid of a chart."""
CELLS: Final[Mapping[str, str]] = {
    "kind": '<span class="kind" :style="{borderColor: props.row.colour}">{{ props.row.kind }}'
    "</span>",
    "text": '<a :href="props.row.link" :class="{ended: props.row.ended}">{{ props.row.text }}</a>',
    "thread": '<a v-if="props.row.thread" :href="props.row.thread_link">{{ props.row.thread }}</a>',
}
"""Templates of cells. Vue shows the values of a row as text, never as HTML."""


def row_of(
    view: PageView,
    *,
    key: str,
    kind: MemoryKind,
    text: str,
    at: datetime | None,
    author: str | None = None,
    thread_id: ThreadId | None = None,
    ended: bool = False,
    **more: object,
) -> dict[str, object]:
    """Return the row of a memory. more: values of further columns."""
    return {
        "id": key,
        "kind": kind_name(view, kind),
        "colour": COLOURS.get(kind, "#999999"),
        "text": cut(text),
        "link": view.link("/memory", key=key),
        "time": view.time(at),
        "author": author or "",
        "thread": thread_id or "",
        "thread_link": view.link("/memories", thread=thread_id) if thread_id else "",
        "ended": ended,
        "select": view.t("Select: ", "选择：") + cut(text, 60),
        **more,
    }


def cut(text: str, characters: int = MOST_CHARACTERS) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text[: characters * 2].split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def selectable_table(
    view: PageView, columns: Sequence[tuple[str, str]], rows: Sequence[dict[str, object]]
) -> ui.table:
    """Show memories, each with a box to select it where something may be changed.

    columns: field and label. A narrow screen shows each memory as a card.
    """
    ui.add_css(CSS)
    shown = [
        {
            "name": field, "label": label, "field": field, "align": "left",
            "classes": f"cell-{field}",
        }
        for field, label in columns
    ]  # fmt: skip
    table = ui.table(
        rows=list(rows), columns=shown, selection="multiple" if view.may_write else None
    )
    table.classes("full memories").props("flat dense")
    for field, template in CELLS.items():
        table.add_slot(f"body-cell-{field}", f'<q-td :props="props">{template}</q-td>')
    table.add_slot(
        "body-selection",
        '<q-checkbox v-model="props.selected" dense :aria-label="props.row.select" />',
    )
    table.add_slot(
        "header-selection", '<q-checkbox v-model="props.selected" dense aria-label="✓" />'
    )
    return table


def selected_keys(table: ui.table) -> list[str]:
    """Return the keys of the selected memories."""
    return [str(row["id"]) for row in table.selected]


def follow_selection(
    view: PageView, table: ui.table, buttons: Sequence[ui.button | None], said: ui.label
) -> None:
    """Enable the buttons while a memory is selected, and say how many are."""

    def changed() -> None:
        number = len(table.selected)
        for button in buttons:
            if button is not None:
                button.set_enabled(number > 0)
        said.set_text(
            view.t(f"{number:,} selected", f"已选 {number:,} 条")
            if number
            else view.t("Select memories to change them.", "勾选记忆后可以操作。")
        )

    table.on_select(lambda _: changed())
    changed()


def counted(view: PageView, number: int) -> str:
    """Return "1 memory" or "2 memories"."""
    return view.t(f"{number:,} memor{'y' if number == 1 else 'ies'}", f"{number:,} 条记忆")


def forget_button(view: PageView, chosen: Callable[[], Sequence[str]]) -> ui.button | None:
    """Show the button that forgets memories for good. chosen: returns their keys."""

    async def will() -> str:
        number = counted(view, len(chosen()))
        first = view.t(f"This forgets {number} for good.", f"将彻底遗忘 {number}。")
        return "\n\n".join([first, await goes_along(view, chosen()), no_way_back(view)])

    async def do() -> str:
        gone = await view.memory.forget(view.user, chosen())
        number = counted(view, gone)
        return view.t(
            f"{number} forgotten, with what was derived from them alone. There is no way back"
            " except the import of an earlier export with --restore.",
            f"已遗忘 {number}（包括仅由其推导出的内容）。除非用 --restore 导入此前的导出文件，"
            "否则无法找回。",
        )

    return action_button(
        view, view.t("Forget", "遗忘"), icon="delete", will=will, do=do, dangerous=True
    )


def no_way_back(view: PageView) -> str:
    """Say that a forget cannot be undone, and how to keep a copy first."""
    command = f"hippocampus export {shlex.quote(view.user.app)} {shlex.quote(view.user.user)}"
    return view.t(
        "This cannot be undone. To keep a copy, export the memory first: on the page Privacy, or"
        f" with {command}",
        f"此操作无法撤销。如需留底，请先在“隐私”页导出，或运行 {command}",
    )


def pin_button(view: PageView, chosen: Callable[[], Sequence[str]]) -> ui.button | None:
    """Show the button that pins memories."""

    async def do() -> str:
        number = counted(view, await view.memory.retention.pin(view.user, chosen()))
        return view.t(
            f"{number} pinned. Unpin lets them fade again; those that came back stay in recall.",
            f"已固定 {number}。取消固定后会重新淡忘；已恢复检索的仍留在检索中。",
        )

    return action_button(
        view, view.t("Pin", "固定"), icon="push_pin", do=do,
        will=view.t(
            "Pinned memories never fade, whatever their score. Faded ones come back into recall.",
            "固定的记忆不会淡忘，无论得分多低；已淡忘的会重新参与检索。",
        ),
    )  # fmt: skip


def unpin_button(view: PageView, chosen: Callable[[], Sequence[str]]) -> ui.button | None:
    """Show the button that lets pinned memories fade again."""

    async def do() -> str:
        number = counted(view, await view.memory.retention.unpin(view.user, chosen()))
        return view.t(
            f"{number} no longer pinned. To undo it, Pin those that were pinned before.",
            f"已取消固定 {number}。如需撤销，请只固定原本已固定的记忆。",
        )

    return action_button(
        view, view.t("Unpin", "取消固定"), icon="do_not_disturb_on", do=do,
        will=view.t(
            "Without a pin, memories fade again as their policy says. Those without a pin stay as"
            " they are.",
            "取消固定后，记忆按策略正常淡忘。未固定的不受影响。",
        ),
    )  # fmt: skip


def revive_button(view: PageView, chosen: Callable[[], Sequence[str]]) -> ui.button | None:
    """Show the button that brings faded memories back."""

    async def do() -> str:
        number = counted(view, await view.memory.retention.revive(view.user, chosen()))
        return view.t(
            f"{number} back in recall, as if read now. They fade again as their policy says;"
            " Pin keeps them.",
            f"{number} 已恢复，重新参与检索，视同刚被读取。之后仍按策略淡忘；固定后则不再淡忘。",
        )

    return action_button(
        view, view.t("Bring back", "恢复"), icon="restore", do=do,
        will=view.t(
            "Faded memories come back into recall, as if they were read now. Memories that are in"
            " recall stay as they are.",
            "淡忘的记忆将重新参与检索，视同刚被读取；未淡忘的不受影响。",
        ),
    )  # fmt: skip


async def goes_along(view: PageView, keys: Sequence[str]) -> str:
    """Return what else goes if memories are forgotten, ended and faded ones included."""
    found = [await view.memory.memory(view.user, key) for key in keys]
    chosen = {one.memory.memory_id for one in found}
    derived = {one.memory_id: one for each in found for one in each.derived}
    along = [one for key, one in derived.items() if key not in chosen and one.kind != "episodic"]
    said = view.t(
        "What was derived from them alone goes too. With turns and summaries go the replaced"
        " summaries of their threads, and with all of it the insights drawn from it. Turns leave"
        " a tombstone, so they are not remembered again.",
        "仅由其推导出的内容也会一并删除。对话和摘要会连同所属会话线程中已被替换的摘要一起删除；"
        "以上述任何内容为依据的洞见也会删除。对话会留下墓碑标记，不会被再次记住。",
    )
    if not along:
        return said
    lines = [f"• {kind_name(view, one.kind)}: {cut(one.text, 90)}" for one in along[:MOST_NAMED]]
    if len(along) > MOST_NAMED:
        more = len(along) - MOST_NAMED
        lines.append(view.t(f"… and {more:,} more", f"……另有 {more:,} 条"))
    first = view.t(
        f"Derived from them ({counted(view, len(along))}), and kept only if other turns say the"
        " same:",
        f"由其推导出的 {counted(view, len(along))}（另有对话佐证的会保留）：",
    )
    return "\n".join([said, first, *lines])
