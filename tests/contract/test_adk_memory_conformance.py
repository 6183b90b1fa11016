"""The memory services that ship with ADK, and ours, in one suite: who differs where, and why."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from zlib import crc32

import pytest
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.memory._sqlite_memory_service import SqliteMemoryService

from adk_memory import OpenMemoryService
from adk_memory.conformance import MemoryServiceSuite


def word_vectors(texts: list[str]) -> list[list[float]]:
    """Bags of words: texts that share words are near."""
    bags = [[crc32(word.encode()) % 63 for word in text.lower().split()] for text in texts]
    return [[0.1, *(float(bag.count(n)) for n in range(63))] for bag in bags]


ships_with_adk = pytest.mark.skipif(
    not version("google-adk").startswith("2.13."), reason="divergences are those of google-adk 2.13"
)

# Why tests of the suite fail, where one reason is shared.
REWIND = "knows nothing of rewinds"
LOCAL_TIME = "writes naive local time"
BESIDE = "returns an event's whole content, what was said and what was not"
LIVE = "reads content only; live turns have none"


class TestOpenMemoryService(MemoryServiceSuite):
    divergences = {
        "test_a_text_is_found_by_its_words_and_comes_back_whole[long]": "max_chars bounds a search"
    }

    @pytest.fixture
    async def service(self, dsn: str) -> AsyncIterator[BaseMemoryService]:
        async with OpenMemoryService(dsn) as service:
            yield service


class TestOpenMemoryServiceWithTurns(MemoryServiceSuite):
    divergences = {
        "test_a_text_is_found_by_its_words_and_comes_back_whole[long]": "max_chars bounds a search",
        "test_deleting_a_turn_spares_its_namesake_in_another_session": "ids are those of events",
        "test_times_carry_their_offset": LOCAL_TIME,
    }

    @pytest.fixture
    async def service(self, dsn: str) -> AsyncIterator[BaseMemoryService]:
        async with OpenMemoryService(dsn, memories="turns") as service:
            yield service


@ships_with_adk
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
    def service(self) -> BaseMemoryService:
        return InMemoryMemoryService()


@ships_with_adk
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
    async def service(self, tmp_path: Path) -> AsyncIterator[BaseMemoryService]:
        service = SqliteMemoryService(str(tmp_path / "memory.db"))
        yield service
        await service.close()
