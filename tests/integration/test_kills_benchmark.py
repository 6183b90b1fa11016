"""The benchmark of kills runs at a tiny size and finds nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from warm_python import warm_python

ROOT = Path(__file__).parents[2]


def test_a_few_kills_lose_and_double_nothing() -> None:
    command = [*warm_python(), "-m", "benchmarks.kills", "--kills", "8", "--clients", "3"]
    command += ["--server-every", "4", "--cut-every", "3", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["kills"] >= 8 and report["killed clients"] > 0
    assert set(report["found"].values()) == {0}
