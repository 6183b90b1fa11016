"""The benchmark of lost answers runs at a small size and finds nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from warm_python import warm_python

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("engine", ["postgres", "seekdb"])
def test_no_cut_loses_doubles_or_misleads(engine: str) -> None:
    command = [*warm_python(), "-m", "benchmarks.lost_answers", "--cuts", "30", "--json"]
    command += ["--engine", engine]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert 0 == done.returncode, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["cuts"] == 30
