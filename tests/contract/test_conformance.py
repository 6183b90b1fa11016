"""Our store and our services of ADK in the suites that any implementation can run.

Those that ship with the frameworks: tests/upstream. HIPPOCAMPUS_TEST_LONG=1 runs the suites whole.
"""

from functools import partial

import pytest
from emptied_database import lent
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
from langgraph_store.conformance.samples import INDEX, MODES
from shared_core import run_sync

LONG_TEXT = {
    "test_a_text_is_found_by_its_words_and_comes_back_whole[long]": "max_chars bounds a search"
}


@pytest.fixture(scope="class")
def database(postgres):
    """A database that a class shares; each of its tests finds it empty."""
    yield from lent(postgres)


@pytest.fixture(scope="class")
def open_store(database):
    """The store of the class, as the suite opens its own."""
    with PgHippocampusStore(database.dsn, index=INDEX, ttl={"omit_expired": True}) as store:
        yield store


@pytest.fixture(scope="class")
def open_service(request, database):
    """The open service of the class, which its method `make` returns."""
    service = request.cls.make(database.dsn)
    yield service
    run_sync(service.close())


class OurStore:
    """The store of the class, emptied. Stores with another configuration are opened for a test."""

    @pytest.fixture
    def store(self, open_store, database):
        database.empty()
        return open_store

    @pytest.fixture
    def factory(self, dsn):
        return lambda **options: PgHippocampusStore(dsn, **options)


class TestPgHippocampusStore(OurStore, StoreSuite):
    """By the async methods; each sync one hands the same batch to another loop."""

    @pytest.fixture(params=MODES if LONG else ["async"])
    def mode(self, request):
        return str(request.param)


class TestPgHippocampusStoreFromThreads(OurStore, Keeping, Naming):
    @pytest.fixture(params=["sync"])
    def mode(self, request):
        return str(request.param)


class TestPgHippocampusStoreOfALoop(Serving):
    unsupported = {"sync_on_loop": "opened by async with"}

    @pytest.fixture
    async def store(self, dsn):
        async with PgHippocampusStore(dsn) as store:
            yield store


class OurService:
    @pytest.fixture
    def service(self, ours):
        return ours


class TestOpenMemoryService(OurService, MemoryServiceSuite):
    divergences = LONG_TEXT
    make = OpenMemoryService


class TestOpenMemoryServiceWithTurns(
    OurService, *([MemoryServiceSuite] if LONG else [Content, Entries])
):
    """It takes everything in as above, and returns other entries: see test_adk_turns_mode.py."""

    divergences = {
        **LONG_TEXT,
        "test_deleting_a_turn_spares_its_namesake_in_another_session": "ids are those of events",
        "test_times_carry_their_offset": "writes naive local time",
    }
    make = partial(OpenMemoryService, memories="turns")


class TestPgSessionService(OurService, SessionServiceSuite):
    make = PgSessionService
