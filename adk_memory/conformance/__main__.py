"""`python -m adk_memory.conformance --memory module:factory`: reports how a service conforms."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.sessions.base_session_service import BaseSessionService

from adk_memory.conformance import TESTED
from langgraph_store.conformance.command import (
    BadInput,
    CommandParser,
    add_options,
    named_features,
    refused,
    report,
)
from langgraph_store.conformance.factories import BadFactory, load, probe
from langgraph_store.conformance.report import distribution_of

DESCRIPTION = """
Run a conformance suite against a service of Google ADK, and report what passed. The factory returns
a new, empty service, or a context manager or async context manager that yields one.
"""

OPTIONAL: dict[type, tuple[str, ...]] = {
    BaseMemoryService: ("add_events_to_memory", "add_memory", "delete_memory"),
    BaseSessionService: ("get_user_state",),
}
"""The optional methods of each kind of service."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 1 if a test failed, 2 for bad input."""
    parser = CommandParser(prog="python -m adk_memory.conformance", description=DESCRIPTION)
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument("--memory", metavar="MODULE:FACTORY", help="a memory service")
    kinds.add_argument("--sessions", metavar="MODULE:FACTORY", help="a session service")
    add_options(parser)
    try:
        given = parser.parse_args(arguments)
        option = "--sessions" if given.memory is None else "--memory"
        kind: type = BaseSessionService if given.memory is None else BaseMemoryService
        unsupported = named_features(given.unsupported, OPTIONAL[kind])
        factory = load(given.memory or given.sessions or "", option)

        async def look(service: Any) -> tuple[str, dict[str, str], list[str]]:
            """Return the name of a service, the methods that it has not, and its package."""
            missing = {
                method: "not implemented"
                for method in OPTIONAL[kind]
                if getattr(type(service), method, None) is getattr(kind, method, None)
            }
            package = distribution_of(service)
            return type(service).__name__, missing, [package] if package else []

        name, missing, package = asyncio.run(probe(factory, kind, option, look))
        word = "session" if given.memory is None else "memory"
        suite = "reported_sessions.py" if given.memory is None else "reported_memory.py"
        return report(
            given,
            suite=Path(__file__).with_name(suite),
            title=f"Conformance of a {word} service of Google ADK",
            name=name,
            factory=factory,
            unsupported={**missing, **unsupported},
            rewritten=TESTED,
            packages=[*package, "google-adk", "pg-hippocampus"],
        )
    except (BadInput, BadFactory) as error:
        return refused(error)


if __name__ == "__main__":
    sys.exit(main())
