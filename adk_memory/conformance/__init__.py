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
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
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
)

from adk_memory.conformance.memory import MemoryServiceSuite  # noqa: E402 # after the rewrite
from adk_memory.conformance.sessions import SessionServiceSuite  # noqa: E402

__all__ = ["MemoryServiceSuite", "SessionServiceSuite"]
