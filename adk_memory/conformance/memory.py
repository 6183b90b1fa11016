"""MemoryServiceSuite: tests of a memory service of Google ADK."""

from __future__ import annotations

from adk_memory.conformance.memory_content import Content
from adk_memory.conformance.memory_entries import Entries
from adk_memory.conformance.memory_ingestion import Ingestion
from adk_memory.conformance.memory_search import MemorySearching


class MemoryServiceSuite(Ingestion, Content, MemorySearching, Entries):
    """Tests the behaviour of a memory service that returns turns.

    A subclass provides the fixture `service`: an empty BaseMemoryService. Every query shares words
    with its expected result, so both keyword search and semantic search pass. A service may also
    return facts and summaries, without an author. `divergences` and `unsupported`: see
    ServiceTests.
    """

    optional = frozenset({"add_events_to_memory", "add_memory", "delete_memory"})
