"""The memories of a user, page by page, and each with everything about it."""

from __future__ import annotations

from shared_core.ui.frame import Page
from shared_core.ui.view import View


async def body(view: View) -> None:
    """Build the page."""


PAGE = Page("/memories", "list_alt", "Memories", "记忆", body)


async def detail(view: View) -> None:
    """Build the page of one memory, named by the parameter `key`."""


DETAIL = Page("/memory", "article", "Memory", "记忆详情", detail)
"""Not in the navigation: other pages link to it."""
