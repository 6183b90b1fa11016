"""The suites tell the truth about a service: what it fails is named, and only that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adk_memory.conformance import MemoryServiceSuite, SessionServiceSuite

ROOT = Path(__file__).parents[2]

THIRD_PARTY = """
import pytest
from google.adk.memory import InMemoryMemoryService
from adk_memory.conformance import MemoryServiceSuite

class TestTheirs(MemoryServiceSuite):
    divergences = {%s}
    unsupported = {%s}

    @pytest.fixture
    async def service(self):
        return InMemoryMemoryService()
"""

MENDED = '"test_a_content_without_a_role_is_remembered": "a reason that no longer holds"'
KNOWN = '"test_times_carry_their_offset": "times are local", \
"test_what_was_not_said_is_not_remembered[thought]": "thoughts are indexed"'


def run(folder: Path, divergences: str, unsupported: str, tests: str) -> str:
    """Run a suite as a project of its own, with pytest-asyncio in auto mode and nothing else."""
    (folder / "test_theirs.py").write_text(THIRD_PARTY % (divergences, unsupported), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rsxX", "--asyncio-mode=auto", "-p", "no:xdist",
         "-p", "no:cacheprovider", "-k", tests, "test_theirs.py"],
        cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_known_divergence_is_expected_to_fail_with_its_reason(tmp_path: Path) -> None:
    shown = run(tmp_path, KNOWN, "", "offset or (not_said and (thought or image))")
    assert "1 passed" in shown and "2 xfailed" in shown
    assert "times are local" in shown and "thoughts are indexed" in shown


def test_a_divergence_that_is_mended_fails(tmp_path: Path) -> None:
    shown = run(tmp_path, MENDED, "", "without_a_role")
    assert "[XPASS(strict)] a reason that no longer holds" in shown and "1 failed" in shown


def test_what_is_not_supported_is_skipped_with_its_reason(tmp_path: Path) -> None:
    shown = run(tmp_path, "", '"add_memory": "turns only"', "beside_turns or says_so")
    assert "1 passed" in shown and "2 skipped" in shown
    assert "no add_memory: turns only" in shown


def test_what_is_supported_is_not_called_unsupported(tmp_path: Path) -> None:
    shown = run(tmp_path, "", '"delete_memory": "an untruth"', "says_so")
    assert "delete_memory is said to be unsupported" in shown and "1 failed" in shown


def test_a_failure_shows_what_was_compared(tmp_path: Path) -> None:
    shown = run(tmp_path, "", "", "truncated_session")
    assert "At index 0 diff: 'tea at last' != 'coffee and tea are sold here'" in shown


@pytest.mark.parametrize("suite", [MemoryServiceSuite, SessionServiceSuite])
@pytest.mark.parametrize(
    "said",
    [
        {"divergences": {"test_that_is_none": "why"}},
        {"divergences": {"test_any_id_is_an_id[no such case]": "why"}},
        {"unsupported": {"no_method": "why"}},
        {"unsupported": {"test_any_id_is_an_id": "why"}},
    ],
)
def test_an_entry_that_names_nothing_of_the_suite_is_an_error(
    suite: type, said: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match="names what the suite does not have"):
        type("TestTheirs", (suite,), said)
