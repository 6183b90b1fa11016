"""One line in the terminal of a developer that names the inspector."""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

INSPECTOR: Final = (
    "pg-hippocampus: see what it remembers in a browser with `hippocampus ui`"
    " (http://127.0.0.1:8421/ui/). HIPPOCAMPUS_HINTS=off hides this line."
)

_lock = threading.Lock()
_is_shown = False


def hint_at_inspector() -> None:
    """Print the command of the inspector to standard error, once in a process.

    It prints nothing unless standard error is a terminal, and nothing with HIPPOCAMPUS_HINTS=off.
    """
    global _is_shown
    with _lock:
        if _is_shown or os.environ.get("HIPPOCAMPUS_HINTS", "").strip().lower() == "off":
            return
        # A process without a console has no standard error.
        if sys.stderr is None or sys.stderr.closed or not sys.stderr.isatty():
            return
        _is_shown = True
    sys.stderr.write(f"{INSPECTOR}\n")
