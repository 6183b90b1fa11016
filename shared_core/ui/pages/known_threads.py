"""The threads of a user that a page offers to choose from."""

from __future__ import annotations

from nicegui import ui

from shared_core.ui.view import PageView

NEWEST = 500
"""Number of the newest turns whose threads are offered. Other names can be typed."""


async def known_threads(view: PageView) -> list[str]:
    """Return the threads of the newest turns of the chosen user, newest first."""
    turns = await view.memory.list_memories(view.user, kinds=["episodic"], limit=NEWEST)
    return list(dict.fromkeys(turn.thread_id for turn in turns if turn.thread_id))


def thread_field(view: PageView, label: str, known: list[str], value: str | None) -> ui.select:
    """Show a field for a thread; a name that is not offered can be typed."""
    options = known if value is None or value in known else [value, *known]
    field = ui.select(
        options, label=label, value=value, with_input=True, new_value_mode="add-unique"
    )
    return field.props("outlined dense clearable options-dense").classes("thread-field")
