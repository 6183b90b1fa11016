"""Erasures and their receipts, export and import of a user, tokens."""

from __future__ import annotations

from shared_core.ui.frame import Page
from shared_core.ui.view import View


async def body(view: View) -> None:
    """Build the page."""


PAGE = Page("/privacy", "shield", "Privacy", "隐私", body, of_user=False)
