"""The configurations of the page about MCP clients start a server that remembers."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, get_default_environment
from pages import ROOT, blocks_of
from warm_python import warm_python

PAGES = [ROOT / "docs" / "how-to" / name for name in ("mcp.md", "mcp.zh.md")]
ADDED = re.compile(r"`claude mcp add [^`]*? -- ([^`]*)`")
"""A server as a command of Claude Code adds it."""


def servers_of(page: Path) -> list[dict[str, Any]]:
    """Return the servers that a page tells clients to start, one for each client."""
    files = [json.loads(one.text) for one in blocks_of(page) if one.language == "json"]
    named = [(one.get("mcpServers") or one["servers"])["memory"] for one in files]
    for command in ADDED.findall(page.read_text("utf-8")):
        name, *arguments = shlex.split(command)
        named.append({"command": name, "args": arguments})
    return named


DIFFERENT = {
    json.dumps([server["command"], server["args"], server.get("env", {})]): server
    for page in PAGES
    for server in servers_of(page)
}
"""Clients that start the same command in the same environment are one."""


def test_each_page_has_a_configuration_for_each_client() -> None:
    assert [4, 4] == [len(servers_of(page)) for page in PAGES]


@pytest.mark.parametrize("configured", DIFFERENT.values(), ids=str)
async def test_a_client_remembers_with_a_configuration_of_the_page(
    configured: dict[str, Any], dsn: str, tmp_path: Path
) -> None:
    command = tmp_path / "hippocampus"
    program = shlex.join([*warm_python(), "-m", "shared_core.cli.main"])
    command.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    command.chmod(0o755)
    assert command.name == configured["command"]
    environment = get_default_environment() | {
        "PYTHONPATH": str(ROOT),
        "HIPPOCAMPUS_URI": dsn,
        "HIPPOCAMPUS_HOME": os.environ["HIPPOCAMPUS_HOME"],
    }
    started = StdioServerParameters(
        command=str(command), args=configured["args"], env=environment | configured.get("env", {})
    )
    async with Client(started) as client:
        assert {"remember", "recall"} <= {tool.name for tool in (await client.list_tools()).tools}
        kept = await client.call_tool("remember", {"text": "Ana plays the cello."})
        found = await client.call_tool("recall", {"query": "Which instrument?"})
        forgotten = await client.call_tool("forget", {"keys": [kept.structured_content["key"]]})
    assert "Ana plays the cello." in [
        one["content"] for one in found.structured_content["memories"]
    ]
    assert {"forgotten": 1} == forgotten.structured_content
