"""Runs of consolidation with undo, and the queue of jobs."""

from __future__ import annotations

from shared_core.ui.frame import Page
from shared_core.ui.view import View


async def body(view: View) -> None:
    """Build the page."""


PAGE = Page("/runs", "history", "Runs and jobs", "运行与任务", body, of_user=False)
