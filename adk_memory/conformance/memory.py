"""MemoryServiceSuite: what a memory service of Google ADK should do."""

from __future__ import annotations

from adk_memory.conformance.memory_content import Content
from adk_memory.conformance.memory_entries import Entries
from adk_memory.conformance.memory_ingestion import Ingestion
from adk_memory.conformance.memory_search import MemorySearching


class MemoryServiceSuite(Ingestion, Content, MemorySearching, Entries):
    """The behaviour of a memory service that returns what was said, as tests.

    A subclass gives the fixture `service`: a BaseMemoryService that remembers nothing yet.
    Every query shares words with what it has to find, so a search by keywords passes, and so does
    a search by meaning. A service may return facts and summaries of its own beside what was said;
    these need to have no author. `divergences` and `unsupported`: see Suite.
    """

    optional = frozenset({"add_events_to_memory", "add_memory", "delete_memory"})
