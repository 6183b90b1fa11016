"""How memories fade, what goes when, and how to bring it back."""

from __future__ import annotations

from shared_core.ui.frame import Page
from shared_core.ui.view import View


async def body(view: View) -> None:
    """Build the page."""


PAGE = Page("/forgetting", "hourglass_bottom", "Forgetting", "遗忘", body)
