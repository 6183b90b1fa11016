"""A missing optional package is named with its extra; a developer at a terminal gets one hint."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from shared_core import open_memory
from shared_core.core import hints
from shared_core.core.extras import from_extras
from shared_core.errors import ExtraMissing, MemoryCoreError

ROOT = Path(__file__).parents[2]
TRY = """
import sys
for name in (
    "google.adk", "langgraph", "langchain_core", "langchain", "mcp", "fastapi", "httpx", "pymysql"
):
    sys.modules[name] = None  # as if it were not installed
from shared_core.errors import ExtraMissing
for statement in {statements!r}:
    try:
        exec(statement)
    except ExtraMissing as error:
        print(error)
"""
NAMED = {
    "from adk_memory import OpenMemoryService": "adk",
    "import langgraph_store; langgraph_store.PgHippocampusStore": "langgraph",
    "from langgraph_store import HippocampusMiddleware": "langchain",
    "from shared_core.http import create_app": "server",
    "from shared_core.client import HippocampusClient": "client",
    "from shared_core.mcp.server import build": "mcp",
    "from shared_core import open_memory; open_memory('seekdb:///nowhere')": "oceanbase",
}


def test_each_import_of_a_package_of_extras_names_the_extra_to_install_in_an_error_of_both():
    code = TRY.format(statements=list(NAMED))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    lines = ran.stdout.splitlines()
    assert len(NAMED) == len(lines), ran.stderr
    for extra, line in zip(NAMED.values(), lines, strict=True):
        assert line.endswith(f"is not installed: run pip install 'pg-hippocampus[{extra}]'")
    with pytest.raises(ExtraMissing) as failure, from_extras("this", "adk"):
        raise ModuleNotFoundError("No module named 'google.adk'", name="google.adk")
    assert isinstance(failure.value, MemoryCoreError) and isinstance(failure.value, ImportError)
    assert "google.adk" == failure.value.name
    with pytest.raises(ModuleNotFoundError) as failure, from_extras("this", "adk"):
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")
    assert not isinstance(failure.value, ExtraMissing)


def start_plugins() -> None:
    from adk_memory import MemoryPlugin

    MemoryPlugin()
    MemoryPlugin(name="second")


def start_middleware() -> None:
    from langgraph_store.middleware import HippocampusMiddleware

    for app in ("one", "two"):
        HippocampusMiddleware(SimpleNamespace(engine=open_memory()), app=app)  # type: ignore[arg-type]


starters = pytest.mark.parametrize("start", [start_plugins, start_middleware])


@pytest.fixture(autouse=True)
def new_process(monkeypatch):
    """Let this process be one that has shown no hint."""
    monkeypatch.setattr(hints, "_is_shown", False)


def at_a_terminal(start: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> str:
    """Start with a terminal as standard error, and return what it shows."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as stderr:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", stderr)
            start()
        stderr.write("the end\n")
        stderr.flush()
        shown = b""
        while b"the end" not in shown:
            shown += screen.read(4096)
    return shown.decode()


@pytest.mark.tail
@starters
def test_a_terminal_shows_the_command_once(start, monkeypatch):
    shown = at_a_terminal(start, monkeypatch)
    assert 1 == shown.count("`hippocampus ui`"), shown
    assert 1 == shown.count("HIPPOCAMPUS_HINTS=off")


@starters
def test_the_variable_switches_it_off(start, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_HINTS", "off")
    assert "hippocampus ui" not in at_a_terminal(start, monkeypatch)


@starters
def test_a_file_never_gets_it(start, capfd):
    start()
    assert "hippocampus ui" not in "".join(capfd.readouterr())
