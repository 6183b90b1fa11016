"""The benchmark of forgetting runs at a tiny size; its speed is not asserted."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from warm_python import warm_python

ROOT = Path(__file__).parents[2]
SECONDS = {"cleanup_s", "bare_delete_s", "demote_s", "archive_s", "erase_s", "stats_s", "load_s"}


def test_it_prints_every_figure_and_nothing_was_written_beside() -> None:
    size = ("--items", "1000", "--per-user", "100", "--rounds", "1", "--dims", "8", "--json")
    command = [*warm_python(), "-m", "benchmarks.retention", *size]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert {"slice_p99_ms", "context_p50_ms"} <= report.keys()
    assert all(report[name] > 0 for name in SECONDS | {"record_access_ms", "cleanup_over_delete"})
    assert (0, 10) == (report["rows_written_outside"], report["forgotten"])
