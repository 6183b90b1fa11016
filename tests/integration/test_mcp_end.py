"""How `hippocampus mcp` ends: the embedded PostgreSQL that it started ends with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from warm_python import warm_python

from shared_core.storage.postgres.connection.embedded import describe

COMMAND = ["-m", "shared_core.cli.main", "mcp", "--user", "ana"]
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}
STATUS = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "get_session_status", "arguments": {}},
}


@contextmanager
def started(home: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "HIPPOCAMPUS_HOME": str(home)}
    environment.pop("HIPPOCAMPUS_URI", None)
    with subprocess.Popen(
        [*warm_python(), *COMMAND, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            if (pid := describe(home).pid) is not None:
                os.kill(pid, signal.SIGINT)  # a test that failed leaves no server


def told_over_stdio(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    for message in (HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, STATUS):
        process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    while json.loads(process.stdout.readline()).get("id") != STATUS["id"]:
        pass


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "closed"])
def test_over_standard_input_it_stops_what_it_started(tmp_path: Path, how: str) -> None:
    with started(tmp_path) as process:
        told_over_stdio(process)
        assert describe(tmp_path).running
        if how == "closed":
            assert process.stdin is not None
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[how])
        assert 0 == process.wait(60)
        assert not describe(tmp_path).running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_over_http_it_stops_what_it_started(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, "--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"Serving http://127.0.0.1:")
        assert describe(tmp_path).running
        process.send_signal(number)
        assert 0 == process.wait(60)
        assert not describe(tmp_path).running


def test_over_http_it_ends_in_order_while_it_still_opens(tmp_path: Path) -> None:
    with started(tmp_path, "--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        while not describe(tmp_path).initialised:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(60), process.stderr.read()
        assert b"Serving" not in process.stderr.read()
        assert not describe(tmp_path).running


def test_without_standard_input_it_says_how_it_is_started() -> None:
    done = subprocess.run(
        [sys.executable, *COMMAND, "--uri", "postgresql://localhost:1/x"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.close(0),
    )
    assert 1 == done.returncode and "standard input is closed" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
