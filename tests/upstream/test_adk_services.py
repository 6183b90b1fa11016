"""The memory and session services that ship with ADK in our suites: who differs where, and why."""

from __future__ import annotations

import sys
from importlib.metadata import version
from uuid import uuid4

import psycopg
import pytest
from google.adk.memory import InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from adk_memory.conformance import MemoryServiceSuite, SessionServiceSuite

pytestmark = [pytest.mark.upstream,
    pytest.mark.skipif(not version("google-adk").startswith("2.13."),
    reason="divergences are those of google-adk 2.13")]  # fmt: skip

# Why tests of the suites fail, where one reason is shared.
REWIND = "knows nothing of rewinds"
LOCAL_TIME = "writes naive local time"
BESIDE = "returns an event's whole content, what was said and what was not"
LIVE = "reads content only; live turns have none"
BY_TIME = "sorts by timestamp"
SAME_MOMENT = "a revision is the time of the last event"
AUTH = "an auth scheme comes back as a CustomAuthScheme: it is written by Python names"


class TestInMemoryMemoryService(MemoryServiceSuite):
    unsupported = {"add_memory": "not implemented"}
    divergences = {
        "test_a_live_turn_is_remembered_by_its_transcription": LIVE,
        "test_a_session_without_events_deletes_nothing": "a session replaces what it was before",
        "test_a_time_that_cannot_be_spoils_no_search": "every search that finds it raises",
        "test_a_truncated_session_deletes_nothing": "a session replaces what it was before",
        "test_a_turn_that_is_rewound_later_is_forgotten": REWIND,
        "test_a_turn_that_was_rewound_is_not_remembered": REWIND,
        "test_deleting_a_turn_spares_its_namesake_in_another_session": "deletes by event id alone",
        "test_partial_events_are_not_remembered": "keeps the pieces and the whole",
        "test_the_secrets_of_a_request_to_the_user_stay_out": BESIDE,
        "test_times_carry_their_offset": LOCAL_TIME,
        "test_what_comes_back_can_be_sent_to_a_model": "returns lone surrogates",
        "test_what_stands_beside_a_text_does_not_come_back_with_it": BESIDE,
        "test_what_was_not_said_is_not_remembered[thought]": "indexes thoughts",
    }

    @pytest.fixture
    def service(self):
        return InMemoryMemoryService()


class TestSqliteMemoryService(MemoryServiceSuite):
    unsupported = {"add_memory": "not implemented", "delete_memory": "not implemented"}
    divergences = {
        "test_a_character_no_database_takes_does_not_lose_the_turn[surrogate]": (
            "refuses the event, and all that were added with it"
        ),
        "test_a_live_turn_is_remembered_by_its_transcription": LIVE,
        "test_a_text_is_found_by_its_words_and_comes_back_whole[chinese]": (
            "a run of Chinese is one word to its index"
        ),
        "test_a_time_that_cannot_be_spoils_no_search[endless]": "every search that finds it raises",
        "test_a_time_that_cannot_be_spoils_no_search[far]": "every search that finds it raises",
        "test_a_turn_that_is_rewound_later_is_forgotten": REWIND,
        "test_a_turn_that_was_rewound_is_not_remembered": REWIND,
        "test_partial_events_are_not_remembered": "keeps the pieces and the whole",
        "test_the_secrets_of_a_request_to_the_user_stay_out": BESIDE,
        "test_times_carry_their_offset": LOCAL_TIME,
        "test_what_comes_back_can_be_sent_to_a_model": "refuses lone surrogates",
        "test_what_stands_beside_a_text_does_not_come_back_with_it": BESIDE,
    }

    @pytest.fixture
    async def service(self, tmp_path):
        service = SqliteMemoryService(str(tmp_path / "memory.db"))
        yield service
        await service.close()


@pytest.fixture(scope="module")
def database(server):
    """One database for all tests, which is quicker: each finds its tables empty."""
    name = f"adk_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield conninfo_to_dict(server, dbname=name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


class TestInMemorySessionService(SessionServiceSuite):
    divergences = {
        "test_an_event_that_changes_later_is_kept_as_it_was": "keeps the object it is given",
        "test_the_state_of_the_caller_is_copied": "keeps the lists and dicts it is given",
        "test_who_writes_to_an_outdated_session_is_told": "has no revisions: all writes win",
    }

    @pytest.fixture
    def service(self):
        return InMemorySessionService()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="google-adk 2.13 binds ?1 by position")
class TestSqliteSessionService(SessionServiceSuite):
    divergences = {
        "test_a_character_no_database_takes_loses_no_event[surrogate]": "refuses the event",
        "test_a_character_no_database_takes_loses_no_state[NUL]": "cuts a text off at NUL",
        "test_a_character_no_database_takes_loses_no_state[surrogate]": "refuses the event",
        "test_an_event_comes_back_as_it_was[auth]": AUTH,
        "test_an_event_that_is_delivered_again_is_kept_once": "raises sqlite3.IntegrityError",
        "test_events_keep_their_order_when_a_clock_goes_back": BY_TIME,
        "test_what_is_appended_at_once_is_all_there_in_order": "the session at hand is shuffled",
        "test_who_writes_to_an_outdated_session_is_told[in the same moment]": SAME_MOMENT,
    }

    @pytest.fixture
    async def service(self, tmp_path):
        service = SqliteSessionService(str(tmp_path / "sessions.db"))
        yield service
        await service.close()


DATABASE = {
    "test_a_session_without_an_id_gets_one_of_its_own[empty]": "blank is an id like any other",
    "test_a_session_without_an_id_gets_one_of_its_own[spaces]": "blank is an id like any other",
    "test_an_event_comes_back_as_it_was[auth]": AUTH,
    "test_an_event_that_is_delivered_again_is_kept_once": "raises an IntegrityError",
    "test_events_keep_their_order_when_a_clock_goes_back": BY_TIME,
    "test_events_of_one_moment_keep_their_order": "sorts by timestamp, then by id",
    "test_who_writes_to_an_outdated_session_is_told[in the same moment]": SAME_MOMENT,
}


class TestDatabaseSessionServiceOnSqlite(SessionServiceSuite):
    divergences = {
        **DATABASE,
        "test_what_many_sessions_write_at_once_is_all_there": "without row locks the last wins",
    }

    @pytest.fixture
    async def service(self, tmp_path):
        url = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
        async with DatabaseSessionService(url) as service:
            yield service


class TestDatabaseSessionServiceOnPostgres(SessionServiceSuite):
    divergences = {
        **DATABASE,
        "test_a_character_no_database_takes_loses_no_event": "refuses the event",
        "test_a_character_no_database_takes_loses_no_state": "refuses the session",
        "test_any_id_is_an_id[long]": "an id has 128 characters at most",
        "test_ids_that_look_alike_are_kept_apart[long]": "an id has 128 characters at most",
    }

    @pytest.fixture
    async def service(self, database):
        engine = create_async_engine("postgresql+psycopg://", connect_args=database)
        service = DatabaseSessionService(db_engine=engine)
        await service.prepare_tables()
        async with engine.begin() as connection:
            await connection.execute(text("TRUNCATE sessions, events, app_states, user_states"))
        yield service
        await engine.dispose()
