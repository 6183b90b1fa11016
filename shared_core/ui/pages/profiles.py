"""The profile of a user: its text, versions, differences, rollback."""

from __future__ import annotations

from shared_core.ui.frame import Page
from shared_core.ui.view import View


async def body(view: View) -> None:
    """Build the page."""


PAGE = Page("/profiles", "badge", "Profiles", "画像", body)
