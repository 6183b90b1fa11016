"""A developer at a terminal learns of the inspector once; nobody else sees the line."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping

import pytest

PLUGIN = "from adk_memory import MemoryPlugin; MemoryPlugin(); MemoryPlugin(name='second')"
MIDDLEWARE = """
from types import SimpleNamespace
from langgraph_store.middleware import HippocampusMiddleware
from shared_core import open_memory
for app in ("one", "two"):
    HippocampusMiddleware(SimpleNamespace(engine=open_memory()), app=app)
"""
starters = pytest.mark.parametrize("code", [PLUGIN, MIDDLEWARE], ids=["plugin", "middleware"])


def at_a_terminal(code: str, env: Mapping[str, str] | None = None) -> str:
    """Run code with a terminal as standard error, and return what it shows."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stderr=theirs, env=os.environ | dict(env or {})
        )
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # Linux reports the end of the other side so
                break
            if not part:
                break
            shown += part
        assert 0 == process.wait(), shown
    finally:
        os.close(ours)
    return shown.decode()


@starters
def test_a_terminal_shows_the_command_once(code: str) -> None:
    shown = at_a_terminal(code)
    assert 1 == shown.count("`hippocampus ui`"), shown
    assert 1 == shown.count("HIPPOCAMPUS_HINTS=off")


@starters
def test_the_variable_switches_it_off(code: str) -> None:
    assert "hippocampus ui" not in at_a_terminal(code, {"HIPPOCAMPUS_HINTS": "off"})


@starters
def test_a_file_never_gets_it(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "hippocampus ui" not in done.stderr + done.stdout
