"""No text of 100,000 characters keeps a processor busy, whichever way it comes in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

READER = Path(__file__).parent.parent / "long_texts.py"


@pytest.mark.timeout(900)
def test_texts_without_punctuation_are_read_within_a_bound_of_processor_time(dsn: str) -> None:
    """The system stops the process at the bound, so that it cannot end well."""
    found = subprocess.run([sys.executable, READER, dsn], capture_output=True, text=True)
    sys.stdout.write(found.stdout)
    assert found.returncode == 0, found.stderr[-2000:]
