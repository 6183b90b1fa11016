"""The pages, in the order of the navigation."""

from __future__ import annotations

from shared_core.ui import frame
from shared_core.ui.pages import (
    ask,
    facts,
    forgetting,
    graph,
    memories,
    overview,
    privacy,
    privacy_transfer,
    profiles,
    timeline,
    work,
)

PAGES = [
    overview.PAGE, ask.PAGE, memories.PAGE, facts.PAGE, graph.PAGE, timeline.PAGE, profiles.PAGE,
    forgetting.PAGE, work.PAGE, privacy.PAGE,
]  # fmt: skip
"""The pages that the navigation shows."""


def register() -> None:
    """Register every page, and the download of an export, at the UI library."""
    privacy_transfer.register_download()
    frame.register(PAGES, [memories.DETAIL])
