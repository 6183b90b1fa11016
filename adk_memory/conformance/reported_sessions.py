"""The suite of a report: its session service comes from the factory of the command."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from google.adk.sessions.base_session_service import BaseSessionService

from adk_memory.conformance.sessions import SessionServiceSuite
from langgraph_store.conformance.factories import opened
from langgraph_store.conformance.running import factory_of


class TestSessionService(SessionServiceSuite):
    """The suite for the session service of the command."""

    @pytest.fixture
    async def service(self, request: pytest.FixtureRequest) -> AsyncIterator[BaseSessionService]:
        async with opened(factory_of(request), BaseSessionService) as service:
            yield service
