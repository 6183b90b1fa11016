"""The first page: how much there is, and whether the memory is well."""

from __future__ import annotations

from shared_core.ui.frame import Page, user_list
from shared_core.ui.view import View
from shared_core.ui.widgets import panel


async def body(view: View) -> None:
    """Build the page."""
    with panel():
        await user_list(view, "/ask")


PAGE = Page("/", "dashboard", "Overview", "概览", body, of_user=False)
