"""`hippocampus serve --ui` has the inspector beside the API; both commands name a missing extra."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from inspector import APP, fill
from warm_python import warm_python

WITHOUT_NICEGUI = """
import sys
sys.modules["nicegui"] = None
from shared_core.cli.main import app
app()
"""


def test_serve_has_the_inspector_beside_the_api(dsn: str, tmp_path: Path) -> None:
    asyncio.run(fill(dsn))
    log = tmp_path / "serve.log"
    with log.open("ab") as written:
        process = subprocess.Popen(
            [*warm_python(), "-m", "shared_core.cli.main", "serve", "--ui", "--port", "0",
             "--no-worker", "--uri", dsn],
            stdout=written, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        while not (found := re.search(r"inspector is at (http://\S+)/ui/", log.read_text("utf-8"))):
            assert process.poll() is None, log.read_text("utf-8")
            time.sleep(0.05)
        page = httpx.get(f"{found[1]}/ui/", timeout=60)
        assert 200 == page.status_code and "pg-hippocampus" in page.text
        listed = httpx.get(
            f"{found[1]}/memories", params={"user_id": "ana", "app": APP}, timeout=60
        )
        assert listed.json()["memories"]
    finally:
        process.terminate()
        assert 0 == process.wait(60)


@pytest.mark.parametrize("command", [("ui", "--no-open"), ("serve", "--ui")])
def test_without_nicegui_the_extra_is_named(command: tuple[str, ...], dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NICEGUI, *command, "--port", "0", "--uri", dsn],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert 0 != done.returncode
    assert "pip install 'pg-hippocampus[ui]'" in done.stderr
    assert "Traceback" not in done.stderr
