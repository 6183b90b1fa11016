"""Progress of commands that take long: it moves on standard error of a terminal, and is silent
elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console

from shared_core.cli.layout import console
from shared_core.core.locale import t

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_S: Final = 0.5
"""Seconds of an opening before it shows a progress."""


def progress_bar(screen: Console | None = None, *, silent: bool = False) -> Progress:
    """Return a progress bar that counts, and disappears at the end.

    A task without a total moves too, and counts what is done.

    Args:
        screen: The console; None for standard error.
        silent: Show nothing, for --json.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class CountColumn(ProgressColumn):
        """The number done, and the total if it is known."""

        def render(self, task: Task) -> Text:
            of_all = "" if task.total is None else f"/{task.total:,.0f}"
            return Text(f"{task.completed:,.0f}{of_all}")

    screen = screen or console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        CountColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=screen,
        disable=silent or not screen.is_terminal,
        transient=True,
    )


@contextmanager
def opening() -> Iterator[Callable[[], None]]:
    """Show that a memory is being opened, if that takes long. Call the value when it is open.

    The first use of an embedded server creates its files, which takes some seconds.
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda: None
        return
    status = screen.status(t("Opening the memory ...", "正在打开记忆……"))
    timer = asyncio.get_running_loop().call_later(PATIENCE_S, status.start)

    def opened() -> None:
        timer.cancel()
        status.stop()

    try:
        yield opened
    finally:
        opened()
