"""Tables with links, inputs of moments and quotes of turns, for facts, graph and profiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from shared_core.core.timestamps import moment_of
from shared_core.ports.runs import CitedTurn
from shared_core.ui.view import PageView

CSS: Final = """
.scroll-x { overflow-x: auto; width: 100%; }
table.grid { border-collapse: collapse; width: 100%; font-size: .9rem; }
table.grid th, table.grid td { text-align: left; padding: .35rem .6rem; vertical-align: top;
  border-bottom: 1px solid var(--line); }
table.grid th { color: var(--quiet); font-weight: 600; white-space: nowrap; }
table.grid td { overflow-wrap: break-word; min-width: 5.5rem; max-width: 24rem; }
table.grid tr.here td { background: color-mix(in srgb, var(--accent) 12%, transparent); }
table.grid tr.past td { color: var(--quiet); }
.form-line { display: flex; gap: .6rem; flex-wrap: wrap; align-items: flex-end; width: 100%; }
.form-line > .q-field { min-width: 11rem; flex: 1 1 11rem; max-width: 22rem; }
.quote { border-left: 3px solid var(--line); padding-left: .7rem; display: flex;
  flex-direction: column; gap: .1rem; }
.said { white-space: pre-wrap; overflow-wrap: anywhere; }
.inset { border-left: 4px solid var(--accent); padding: .6rem 0 .6rem .9rem; display: flex;
  flex-direction: column; gap: .7rem; width: 100%; }
.tall-chart { width: 100%; height: 600px; }
details.more { width: 100%; }
details.more > summary { cursor: pointer; font-weight: 600; padding: .2rem 0;
  color: var(--accent); }
details.more > summary::before { content: "▸ "; }
details.more[open] > summary::before { content: "▾ "; }
details.more > .form-line { padding: .6rem 0; }
@media (max-width: 600px) { .tall-chart { height: 400px; } }
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: a text, and the address that it leads to."""

    text: str
    href: str | None = None


def kept(view: PageView, names: Iterable[str]) -> dict[str, object]:
    """Return the parameters of the address with these names."""
    return {name: view.params[name] for name in names if name in view.params}


def styles() -> None:
    """Add the style of these parts to the page."""
    ui.add_css(CSS)


def text_in(tag: str, text: str) -> TextElement:
    """Show a text in an element of HTML."""
    return TextElement(tag=tag, text=text)


def grid(
    columns: Sequence[str],
    rows: Iterable[tuple[Sequence[str | Cell | Sequence[Cell]], str]],
    label: str,
) -> None:
    """Show a table whose cells may be links. rows: cells, and a class of the row ("" for none)."""
    # Focusable, so that the keyboard scrolls it too.
    with (
        ui.element("div").classes("scroll-x").props("tabindex=0"),
        ui.element("table").classes("grid") as whole,
    ):
        whole.props["aria-label"] = label
        with ui.element("thead"), ui.element("tr"):
            for name in columns:
                text_in("th", name).props("scope=col")
        with ui.element("tbody"):
            for cells, kind in rows:
                with ui.element("tr").classes(kind):
                    for cell in cells:
                        _cell(cell)


def _cell(cell: str | Cell | Sequence[Cell]) -> None:
    if isinstance(cell, str):
        text_in("td", cell)
        return
    with ui.element("td"):
        for one in [cell] if isinstance(cell, Cell) else cell:
            if one.href is None:
                ui.label(one.text)
            else:
                with ui.element("div"):
                    ui.link(one.text, one.href)


def folded(summary: str, *, is_open: bool = False) -> ui.element:
    """Return a part that opens on its summary; `with folded(...):` fills it."""
    part = ui.element("details").classes("more")
    if is_open:
        part.props["open"] = True
    with part:
        text_in("summary", summary)
    return part


def moment_input(view: PageView, label: str, text: str | None = "") -> ui.input:
    """Show an input of a date and time in UTC. text: its value as in the address."""
    value = f"{moment_of(text, label).astimezone(UTC):%Y-%m-%dT%H:%M:%S}" if text else ""
    shown = view.t(f"{label} (UTC)", f"{label}（UTC）")
    return ui.input(shown, value=value).props(
        "outlined dense stack-label type=datetime-local step=1 clearable"
    )


def moment_in(field: ui.input, name: str) -> datetime | None:
    """Return the moment in an input, or None if it is empty."""
    text = str(field.value or "").strip()
    return moment_of(text, name) if text else None


def text_input(label: str, value: str = "", hint: str = "") -> ui.input:
    """Show an input of one line."""
    field = ui.input(label, value=value).props("outlined dense")
    if hint:
        field.props["hint"] = hint
    return field


def text_of(field: ui.input | ui.select) -> str:
    """Return the trimmed text of an input."""
    return str(field.value or "").strip()


def exact(moment: datetime | None) -> str:
    """Return a moment in UTC to the second, or a dash."""
    return "–" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def quote(view: PageView, turn: CitedTurn) -> None:
    """Show the words of a turn, who said them when, and a link to its thread."""
    with ui.element("div").classes("quote"):
        if turn.text is None:
            ui.label(view.t("A turn that was forgotten.", "该轮对话已被遗忘。")).classes("quiet")
        else:
            ui.label(view.t(f"“{turn.text}”", f"“{turn.text}”")).classes("said")
        with ui.element("div").classes("row-line"):
            if turn.author:
                ui.label(view.t(f"said by {turn.author}", f"{turn.author} 说")).classes("quiet")
            if turn.said_at is not None:
                ui.label(view.time(turn.said_at)).classes("quiet")
            thread_link(view, turn.thread_id)


def thread_link(view: PageView, thread_id: str) -> None:
    """Show a link to the turns of a thread."""
    ui.link(
        view.t(f"in the thread {thread_id}", f"会话线程 {thread_id}"),
        view.link("/memories", thread=thread_id),
    ).classes("quiet")
