"""SessionServiceSuite: tests of a session service of Google ADK."""

from __future__ import annotations

from adk_memory.conformance.session_events import Events
from adk_memory.conformance.session_lifecycle import Lifecycle
from adk_memory.conformance.session_state import States


class SessionServiceSuite(Lifecycle, States, Events):
    """Tests the behaviour of a session service.

    A subclass provides the fixture `service`: a BaseSessionService without sessions.
    `divergences` and `unsupported`: see ServiceTests.
    """

    optional = frozenset({"get_user_state"})
