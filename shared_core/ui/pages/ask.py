"""Ask as any user: the hits, why they were found, what was left out, what a model would read."""

from __future__ import annotations

from nicegui import ui

from shared_core.ui.frame import Page
from shared_core.ui.view import View
from shared_core.ui.widgets import empty, memory_line, panel, time_machine


async def body(view: View) -> None:
    """Build the page."""
    query = view.params.get("q", "")
    if not query:
        empty(view.t("Type a question.", "请输入问题。"))
        return
    found = await view.memory.recall(view.user, query, as_of=time_machine(view))
    for hit in found:
        with panel():
            memory_line(view, hit.memory)
            ui.label(hit.explain()).classes("quiet")


PAGE = Page("/ask", "search", "Ask", "提问", body)
