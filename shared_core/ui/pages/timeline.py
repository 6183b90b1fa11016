"""What was said and learned, by day."""

from __future__ import annotations

from shared_core.ui.frame import Page
from shared_core.ui.view import View


async def body(view: View) -> None:
    """Build the page."""


PAGE = Page("/timeline", "timeline", "Timeline", "时间线", body)
