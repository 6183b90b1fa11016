"""A missing optional package is named with the extra that installs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_each_import_names_the_extra_to_install() -> None:
    code = TRY.format(statements=list(NAMED))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    lines = ran.stdout.splitlines()
    assert len(NAMED) == len(lines), ran.stderr
    for extra, line in zip(NAMED.values(), lines, strict=True):
        assert line.endswith(f"is not installed: run pip install 'pg-hippocampus[{extra}]'")


def test_it_is_an_error_of_the_project_and_of_an_import() -> None:
    with pytest.raises(ExtraMissing) as failure, from_extras("this", "adk"):
        raise ModuleNotFoundError("No module named 'google.adk'", name="google.adk")
    assert isinstance(failure.value, MemoryCoreError) and isinstance(failure.value, ImportError)
    assert "google.adk" == failure.value.name


def test_a_package_of_no_extra_is_not_explained_away() -> None:
    with pytest.raises(ModuleNotFoundError) as failure, from_extras("this", "adk"):
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")
    assert not isinstance(failure.value, ExtraMissing)
