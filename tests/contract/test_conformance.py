"""Our store and our services of ADK in the suites that any implementation can run.

Those that ship with the frameworks: tests/upstream. HIPPOCAMPUS_LONG=1 runs the suites whole.
"""

import pytest
from long_forms import LONG

from adk_memory import OpenMemoryService, PgSessionService
from adk_memory.conformance import MemoryServiceSuite, SessionServiceSuite
from adk_memory.conformance.memory_content import Content
from adk_memory.conformance.memory_entries import Entries
from langgraph_store import PgHippocampusStore
from langgraph_store.conformance import StoreSuite
from langgraph_store.conformance.items import Keeping
from langgraph_store.conformance.loops import Serving
from langgraph_store.conformance.namespaces import Naming
from langgraph_store.conformance.samples import MODES

LONG_TEXT = {
    "test_a_text_is_found_by_its_words_and_comes_back_whole[long]": "max_chars bounds a search"
}


class TestPgHippocampusStore(StoreSuite):
    """By the async methods; each sync one hands the same batch to another loop."""

    @pytest.fixture(params=MODES if LONG else ["async"])
    def mode(self, request):
        return str(request.param)

    @pytest.fixture
    def factory(self, dsn):
        return lambda **options: PgHippocampusStore(dsn, **options)


class TestPgHippocampusStoreFromThreads(Keeping, Naming):
    @pytest.fixture(params=["sync"])
    def mode(self, request):
        return str(request.param)

    @pytest.fixture
    def factory(self, dsn):
        return lambda **options: PgHippocampusStore(dsn, **options)


class TestPgHippocampusStoreOfALoop(Serving):
    unsupported = {"sync_on_loop": "opened by async with"}

    @pytest.fixture
    async def store(self, dsn):
        async with PgHippocampusStore(dsn) as store:
            yield store


class TestOpenMemoryService(MemoryServiceSuite):
    divergences = LONG_TEXT

    @pytest.fixture
    async def service(self, dsn):
        async with OpenMemoryService(dsn) as service:
            yield service


class TestOpenMemoryServiceWithTurns(*([MemoryServiceSuite] if LONG else [Content, Entries])):
    """It takes everything in as above, and returns other entries: see test_adk_turns_mode.py."""

    divergences = {
        **LONG_TEXT,
        "test_deleting_a_turn_spares_its_namesake_in_another_session": "ids are those of events",
        "test_times_carry_their_offset": "writes naive local time",
    }

    @pytest.fixture
    async def service(self, dsn):
        async with OpenMemoryService(dsn, memories="turns") as service:
            yield service


class TestPgSessionService(SessionServiceSuite):
    @pytest.fixture
    async def service(self, dsn):
        async with PgSessionService(dsn) as service:
            yield service
