"""No text makes a regular expression of the packages take time that grows with its square."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FINDER = Path(__file__).parent.parent / "adversarial_patterns.py"


@pytest.mark.timeout(900)
def test_every_pattern_reads_a_long_text_once() -> None:
    """Each on repetitive texts of 100,000 characters made for it, in seconds of processor time."""
    found = subprocess.run([sys.executable, FINDER], capture_output=True, text=True, check=True)
    *slow, summary = found.stdout.splitlines()
    assert [] == slow
    assert int(summary.split()[0]) > 500
