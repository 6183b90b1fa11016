"""How `hippocampus mcp` ends: the embedded PostgreSQL that it started ends with it."""

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
from practised import practised  # noqa: F401
from warm_python import warm_python

from shared_core.storage.postgres.connection.embedded import describe
from tests.integration.test_mcp import HELLO, READY, call

pytestmark = pytest.mark.usefixtures("practised")
COMMAND = ["-m", "shared_core.cli.main", "mcp", "--user", "ana"]
STATUS = call(2, "get_session_status")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The folder of an embedded PostgreSQL that runs before no test and after none."""
    folder = tmp_path_factory.mktemp("home")
    folder.chmod(0o711)  # the servers of root run as another user
    return folder


@contextmanager
def started(home: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "HIPPOCAMPUS_HOME": str(home)}
    environment.pop("HIPPOCAMPUS_URI", None)
    with subprocess.Popen(
        [*warm_python(), *COMMAND, *options], env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            if (pid := describe(home).pid) is not None:
                os.kill(pid, signal.SIGINT)  # a test that failed leaves no server


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "closed"])
def test_over_standard_input_it_stops_what_it_started(home, how):
    with started(home) as process:
        for message in (HELLO, READY, STATUS):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        while json.loads(process.stdout.readline()).get("id") != STATUS["id"]:
            pass
        assert describe(home).running
        if how == "closed":
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[how])
        assert 0 == process.wait(60)
        assert not describe(home).running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_over_http_it_stops_what_it_started(home, number):
    with started(home, "--http", "127.0.0.1:0") as process:
        assert process.stderr.readline().startswith(b"Serving http://127.0.0.1:")
        assert describe(home).running
        process.send_signal(number)
        assert 0 == process.wait(60)
        assert not describe(home).running


def test_over_http_it_ends_in_order_while_it_still_opens(tmp_path):
    with started(tmp_path, "--http", "127.0.0.1:0") as process:
        while not describe(tmp_path).initialised:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(60), process.stderr.read()
        assert b"Serving" not in process.stderr.read()
        assert not describe(tmp_path).running


def test_without_standard_input_it_says_how_it_is_started():
    done = subprocess.run(
        [sys.executable, *COMMAND, "--uri", "postgresql://localhost:1/x"],
        capture_output=True, text=True, preexec_fn=lambda: os.close(0),
    )  # fmt: skip
    assert 1 == done.returncode and "standard input is closed" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
