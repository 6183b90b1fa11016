"""Commands, the HTTP server and the MCP server on an embedded SeekDB, as their users start them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import httpx2
from http_processes import command as hippocampus, serving
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

ROOT = Path(__file__).parents[2]


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*hippocampus(), *arguments], capture_output=True, text=True, check=False)


def told(*arguments: str) -> str:
    done = ran(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_commands_work_as_on_postgresql(seekdb_dsn: str) -> None:
    at = ("--uri", seekdb_dsn)
    assert "SeekDB" in told("migrate", *at) and "pgvector" not in told("migrate", *at)
    told("remember", "app", "ann", "I drink 绿茶 every day.", *at)
    found = told("recall", "app", "ann", "绿茶", "--json", *at)
    assert "绿茶" in found
    told("stats", *at)
    assert [] == json.loads(told("index", "--dry-run", "--json", *at))
    report = json.loads(told("doctor", "--json", *at))
    checks = {one["check"]: one["status"] for one in report["findings"]}
    assert report["ok"]
    assert ["ok"] * 4 == [checks[name] for name in ("server", "schema", "vectors", "queue")]


def test_what_it_cannot_do_is_told_in_a_line(seekdb_dsn: str) -> None:
    refused = ran("migrate", "--distribute", "--uri", seekdb_dsn)
    assert refused.returncode != 0 and "Citus" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_doctor_makes_nothing(tmp_path: Path) -> None:
    report = json.loads(told("doctor", "--json", "--uri", f"seekdb://{tmp_path / 'none'}"))
    [folder] = [one for one in report["findings"] if one["check"] == "folder"]
    assert "note" == folder["status"] and not (tmp_path / "none").exists()


def test_it_is_served_over_http(seekdb_dsn: str, tmp_path: Path) -> None:
    with serving(seekdb_dsn, tmp_path / "log") as server, httpx2.Client(timeout=60) as client:
        body = {"user_id": "ann", "memories": ["My cat is called Mia."]}
        assert client.post(f"{server.url}/remember", json=body, timeout=60).status_code < 300
        asked = {"user_id": "ann", "query": "What is the cat called?"}
        found = client.post(f"{server.url}/recall", json=asked, timeout=60)
        assert found.status_code == 200 and "Mia" in found.text


async def test_it_is_served_over_mcp(seekdb_dsn: str) -> None:
    command, *rest = [*hippocampus(), "mcp", "--app", "app", "--user", "ann", "--uri", seekdb_dsn]
    environment = {"PYTHONPATH": str(ROOT), "HIPPOCAMPUS_HOME": os.environ["HIPPOCAMPUS_HOME"]}
    async with Client(StdioServerParameters(command=command, args=rest, env=environment)) as client:
        kept = await client.call_tool("remember", {"text": "My cat is called Mia."})
        assert not kept.is_error, kept.content
        found = await client.call_tool("recall", {"query": "What is the cat called?"})
        assert not found.is_error and "Mia" in json.dumps(found.structured_content)
