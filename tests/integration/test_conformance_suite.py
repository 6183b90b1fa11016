"""The suites tell the truth about a service: what it fails is named, and only that."""

import contextlib
import io
import sys
import warnings

import pytest

from adk_memory.conformance import MemoryServiceSuite, SessionServiceSuite
from langgraph_store.conformance import StoreSuite

THIRD_PARTY = """
import pytest
from google.adk.memory import InMemoryMemoryService
from adk_memory.conformance import MemoryServiceSuite

class Theirs(MemoryServiceSuite):
    @pytest.fixture
    async def service(self):
        return InMemoryMemoryService()

class TestKnown(Theirs):
    divergences = {
        "test_times_carry_their_offset": "times are local",
        "test_what_was_not_said_is_not_remembered[thought]": "thoughts are indexed",
    }

class TestMended(Theirs):
    divergences = {"test_a_content_without_a_role_is_remembered": "it was so once"}

class TestTurnsOnly(Theirs):
    unsupported = {"add_memory": "turns only"}

class TestUntrue(Theirs):
    unsupported = {"delete_memory": "an untruth"}
"""

RUN = (
    "TestKnown::test_times_carry_their_offset",
    "TestKnown::test_what_was_not_said_is_not_remembered",
    "TestKnown::test_a_truncated_session_deletes_nothing",
    "TestMended::test_a_content_without_a_role_is_remembered",
    "TestTurnsOnly::test_nobody_finds_the_entries_of_others",
    "TestTurnsOnly::test_what_is_not_supported_says_so",
    "TestUntrue::test_what_is_not_supported_says_so",
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a project shows that has pytest-asyncio in auto mode, and of this one the suites."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "test_theirs.py").write_text(THIRD_PARTY, "utf-8")
    told = io.StringIO()
    unused = ("xdist", "cacheprovider", "schemathesis", "langsmith_plugin")
    options = ["-q", "-rA", "--asyncio-mode=auto", *(f"-pno:{plugin}" for plugin in unused)]
    with (
        pytest.MonkeyPatch.context() as patched,
        warnings.catch_warnings(),
        contextlib.redirect_stdout(told),
        contextlib.redirect_stderr(told),
    ):
        warnings.simplefilter("default")
        patched.chdir(folder)
        patched.setattr(sys, "path", [*sys.path])
        pytest.main([*options, *(f"test_theirs.py::{test}" for test in RUN)])
    sys.modules.pop("test_theirs", None)
    return told.getvalue()


def test_divergences_fail_until_mended_what_is_not_supported_is_skipped_and_failures_shown(shown):
    for name, reason in (
        ("times_carry_their_offset", "times are local"),
        ("what_was_not_said_is_not_remembered[thought]", "thoughts are indexed"),
    ):
        assert f"XFAIL test_theirs.py::TestKnown::test_{name} - {reason}" in shown
    assert "PASSED test_theirs.py::TestKnown::test_what_was_not_said" in shown
    assert "FAILED test_theirs.py::TestMended" in shown
    assert "[XPASS(strict)] it was so once" in shown
    assert "no add_memory: turns only" in shown
    assert "PASSED test_theirs.py::TestTurnsOnly::test_what_is_not_supported_says_so" in shown
    assert "FAILED test_theirs.py::TestUntrue::test_what_is_not_supported_says_so" in shown
    assert "At index 0 diff: 'tea at last' != 'coffee and tea are sold here'" in shown


@pytest.mark.parametrize("suite", [MemoryServiceSuite, SessionServiceSuite, StoreSuite])
@pytest.mark.parametrize("said", [
    {"divergences": {"test_that_is_none": "why"}},
    {"divergences": {"test_any_id_is_an_id[no such case]": "why"}},
    {"unsupported": {"no_method": "why"}},
    {"unsupported": {"test_any_id_is_an_id": "why"}},
])  # fmt: skip
def test_an_entry_that_names_nothing_of_the_suite_is_an_error(suite, said):
    with pytest.raises(ValueError, match="must name tests and"):
        type("TestTheirs", (suite,), said)
