"""Facts by slot: what holds, what ended and what is doubtful, on both time lines."""

from __future__ import annotations

from shared_core.ui.frame import Page
from shared_core.ui.view import View


async def body(view: View) -> None:
    """Build the page."""


PAGE = Page("/facts", "fact_check", "Facts", "事实", body)
