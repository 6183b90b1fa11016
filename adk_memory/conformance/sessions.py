"""SessionServiceSuite: what a session service of Google ADK should do."""

from __future__ import annotations

from adk_memory.conformance.session_events import Events
from adk_memory.conformance.session_lifecycle import Lifecycle
from adk_memory.conformance.session_state import States


class SessionServiceSuite(Lifecycle, States, Events):
    """The behaviour of a session service, as tests.

    A subclass gives the fixture `service`: a BaseSessionService without any session.
    `divergences` and `unsupported`: see Suite.
    """

    optional = frozenset({"get_user_state"})
