"""Conformance suites for any implementation of the services of Google ADK.

    from adk_memory.conformance import MemoryServiceSuite

    class TestMyService(MemoryServiceSuite):
        divergences = {"test_times_carry_their_offset": "times are local"}
        unsupported = {"add_memory": "turns only"}

        @pytest.fixture
        async def service(self):
            async with MyService() as service:
                yield service

They need google-adk, pytest, and pytest-asyncio with `asyncio_mode = "auto"`. They load
nothing else of this project.

`python -m adk_memory.conformance --memory module:factory`, or `--sessions`, runs one and writes a
report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from adk_memory.conformance.memory import MemoryServiceSuite
    from adk_memory.conformance.sessions import SessionServiceSuite

TESTED = tuple(
    f"{__name__}.{name}"
    for name in (
        "memory_content",
        "memory_entries",
        "memory_ingestion",
        "memory_search",
        "session_events",
        "session_lifecycle",
        "session_state",
    )
)
"""The modules with tests. pytest rewrites their assertions, so that failures explain themselves."""

pytest.register_assert_rewrite(*TESTED)

__all__ = ["MemoryServiceSuite", "SessionServiceSuite"]


def __getattr__(name: str) -> object:
    # At first use: the command starts pytest before it imports the tests.
    if name == "MemoryServiceSuite":
        from adk_memory.conformance.memory import MemoryServiceSuite

        return MemoryServiceSuite
    if name == "SessionServiceSuite":
        from adk_memory.conformance.sessions import SessionServiceSuite

        return SessionServiceSuite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
