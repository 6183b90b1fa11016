"""Runs the HTTP server in a process of its own, as a user starts it."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warm_python import warm_python


def command() -> list[str]:
    """Return the start of a command line of hippocampus, on a warm interpreter."""
    return [*warm_python(), "-m", "shared_core.cli.main"]


class ServerProcess:
    """A running server, its database, its address and its log."""

    def __init__(self, dsn: str, log: Path, *options: str) -> None:
        self.dsn = dsn
        self._log = log
        with log.open("ab") as stderr:
            begin = stderr.tell()
            serve = [*command(), "serve", "--uri", dsn, "--port", "0", *options]
            self.process = subprocess.Popen(serve, stderr=stderr)
        self.port = self._listening(begin)
        self.url = f"http://127.0.0.1:{self.port}"

    def _listening(self, begin: int) -> int:
        while self.process.poll() is None:
            told = re.search(r"listening on http://[^\"]*:(\d+)", self.log()[begin:])
            if told:
                return int(told[1])
            time.sleep(0.02)
        raise AssertionError(self.log())

    def log(self) -> str:
        return self._log.read_text("utf-8")

    def lines(self) -> list[dict[str, object]]:
        """Return the log, parsed from JSON lines."""
        return [json.loads(line) for line in self.log().splitlines()]


@contextmanager
def serving(dsn: str, log: Path, *options: str) -> Iterator[ServerProcess]:
    """Yield a running server, killed at the end if it still runs."""
    server = ServerProcess(dsn, log, *options)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()
