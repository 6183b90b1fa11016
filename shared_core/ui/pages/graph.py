"""The knowledge graph around a name."""

from __future__ import annotations

from shared_core.ui.frame import Page
from shared_core.ui.view import View


async def body(view: View) -> None:
    """Build the page."""


PAGE = Page("/graph", "hub", "Graph", "图谱", body)
