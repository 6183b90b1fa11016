"""Actions that change the memory: each asks once, says what it will do, and how to undo it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nicegui import ui

from shared_core.errors import MemoryCoreError
from shared_core.http.problems import ProblemError
from shared_core.ui.view import PageView
from shared_core.ui.widgets import guarded, notify_failure, notify_unexpected


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """What an action has done. secret: a text to copy, which no page shows again."""

    text: str
    secret: str = ""


def action_button(
    view: PageView,
    label: str,
    *,
    icon: str,
    will: str | Callable[[], str | Awaitable[str]],
    do: Callable[[], Awaitable[str | ActionOutcome]],
    dangerous: bool = False,
    typed: str = "",
) -> ui.button | None:
    """Show the button of an action and return it; nothing, and None, in read-only mode.

    Args:
        label: what the button says.
        icon: its icon.
        will: what the action will do, shown before it is done; a function, which may read the
            memory, is called when it is asked for.
        do: does it, and returns what was done and how to undo it. The page is loaded again after
            the visitor has read that.
        dangerous: it cannot be undone, so the button is red.
        typed: a text that the visitor must type before.
    """
    if not view.may_write:
        return None

    async def ask() -> None:
        said = will if isinstance(will, str) else will()
        if inspect.isawaitable(said):
            said = await said
        with ui.dialog() as dialog, ui.card().classes("wide"):
            ui.label(label).classes("heading")
            ui.label(said).classes("text")
            field = _typed_field(view, typed)
            with ui.row():
                yes = (
                    ui.button(label, on_click=lambda: confirm(dialog))
                    .props("no-caps" + (" color=negative" if dangerous else ""))
                    .mark("confirm")
                )
                if field:
                    yes.bind_enabled_from(field, "value", lambda value: value == typed)
                ui.button(view.t("Cancel", "取消"), on_click=dialog.close).props("flat no-caps")
        dialog.open()

    async def confirm(dialog: ui.dialog) -> None:
        if not dialog.value:
            return  # the second click of a double click
        dialog.close()
        await run(view, do)

    button = ui.button(label, icon=icon, on_click=guarded(view, ask)).props("outline no-caps dense")
    if dangerous:
        button.props("color=negative")
    return button


def _typed_field(view: PageView, typed: str) -> ui.input | None:
    if not typed:
        return None
    ask = view.t("Type it to confirm: ", "请输入以确认：") + typed
    field = ui.input(ask).props("outlined dense autocomplete=off").classes("full")
    return field.mark("typed")


async def run(view: PageView, do: Callable[[], Awaitable[str | ActionOutcome]]) -> None:
    """Do an action, then say what was done; or say why it was not."""
    working = ui.notification(view.t("Working …", "处理中……"), spinner=True, timeout=None)
    try:
        await view.check_may_write()
        said = await do()
    except (MemoryCoreError, ProblemError) as error:
        notify_failure(error)
        return
    except Exception:
        notify_unexpected(view)
        raise
    finally:
        working.dismiss()
    done = said if isinstance(said, ActionOutcome) else ActionOutcome(said)
    with ui.dialog().props("persistent") as dialog, ui.card().classes("wide"):
        ui.label(view.t("Done", "已完成")).classes("heading")
        ui.label(done.text).classes("text").props("role=status")
        if done.secret:
            ui.input(view.t("Copy it now", "请立即复制"), value=done.secret).props(
                "readonly outlined dense"
            ).classes("full").mark("secret")
        ui.button(view.t("Close", "关闭"), on_click=lambda: ui.navigate.reload()).props("no-caps")
    dialog.open()
