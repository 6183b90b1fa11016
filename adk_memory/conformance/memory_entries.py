"""Tests adding and deleting single memories, for services that support it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adk_memory.conformance.samples import WHO, Part, entry, event, search, session, turns
from adk_memory.conformance.suite import ServiceTests, each, needs

TEA = event("e1", "tea is what I drink")
COFFEE = event("e2", "coffee and tea are sold here", author="bot")

UNKNOWN = {
    "none": None,
    "empty": "",
    "no such event": "e9",
    "uuid": "0190a000-0000-7000-8000-000000000000",
    "number": "999999",
    "NUL": "a\x00b",
    "surrogate": "\ud800",
    "long": "x" * 10_000,
    "wildcard": "%",
    "statement": "'; --",
}

REFUSED = {
    "text": "tea",
    "dict": {"content": {"parts": [{"text": "tea"}]}},
    "none": None,
    "no parts": MemoryEntry(content=types.Content()),
    "empty": entry(""),
    "blank": entry(" \n"),
    "a thought": entry("", content=types.Content(parts=[Part(text="tea", thought=True)])),
    "an image": entry("", content=types.Content(parts=[Part.from_bytes(
        data=b"tea", mime_type="image/png")])),
}  # fmt: skip


class Entries(ServiceTests):
    """A service adds single memories, and deletes them by id for good."""

    @needs("delete_memory")
    async def test_a_deleted_turn_is_gone_and_the_others_stay(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_session_to_memory(session(TEA, COFFEE))
        await _delete(service, "tea is what I drink")
        assert await turns(service, "tea") == ["coffee and tea are sold here"]

    @needs("delete_memory")
    async def test_a_deleted_turn_does_not_come_back_with_its_session(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_session_to_memory(session(TEA, COFFEE))
        await _delete(service, "tea is what I drink")
        await service.add_session_to_memory(session(TEA, COFFEE))
        assert await turns(service, "tea") == ["coffee and tea are sold here"]

    @needs("delete_memory", "add_events_to_memory")
    async def test_a_deleted_turn_does_not_come_back_as_an_event(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_session_to_memory(session(TEA, COFFEE))
        await _delete(service, "tea is what I drink")
        await service.add_events_to_memory(events=[TEA], session_id="s1", **WHO)
        assert await turns(service, "tea") == ["coffee and tea are sold here"]

    @needs("delete_memory")
    async def test_deleting_a_turn_spares_its_namesake_in_another_session(
        self, service: BaseMemoryService
    ) -> None:
        """Two events may have one id; the service deletes the memory that it showed."""
        await service.add_session_to_memory(session(TEA))
        await service.add_session_to_memory(session(event("e1", "green tea"), session_id="s2"))
        await _delete(service, "green tea")
        assert await turns(service, "tea") == ["tea is what I drink"]

    @needs("delete_memory")
    async def test_deleting_twice_is_deleting_once(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(TEA, COFFEE))
        [mine] = [found for found in await search(service, "tea") if found.author == "user"]
        for _ in range(2):
            await service.delete_memory(memory_id=mine.id, **WHO)
        assert await turns(service, "tea") == ["coffee and tea are sold here"]

    @needs("delete_memory")
    @each("memory_id", UNKNOWN)
    async def test_deleting_an_unknown_id_changes_nothing(
        self, service: BaseMemoryService, memory_id: str | None
    ) -> None:
        await service.delete_memory(memory_id=memory_id, **WHO)
        await service.add_session_to_memory(session(TEA))
        await service.delete_memory(memory_id=memory_id, **WHO)
        assert await turns(service, "tea") == ["tea is what I drink"]

    @needs("delete_memory")
    @each("other", {"user": {"user_id": "bob"}, "app": {"app_name": "other"}})
    async def test_nobody_deletes_the_memory_of_others(
        self, service: BaseMemoryService, other: dict[str, str]
    ) -> None:
        await service.add_session_to_memory(session(TEA))
        await service.add_session_to_memory(session(event("e7", "their tea"), **other))
        [mine] = await search(service, "tea")
        await service.delete_memory(memory_id=mine.id, **{**WHO, **other})
        assert await turns(service, "tea") == ["tea is what I drink"]
        assert await turns(service, "tea", **other) == ["their tea"]

    @needs("add_memory")
    async def test_an_entry_is_found_with_its_author_and_time(
        self, service: BaseMemoryService
    ) -> None:
        added = entry("tea at noon", author="diary", timestamp="2026-03-02T10:40:00+02:00")
        before = added.model_dump()
        await service.add_memory(memories=[added], **WHO)
        [found] = await search(service, "tea")
        assert (found.author, found.content.parts) == ("diary", [Part(text="tea at noon")])
        assert _moment(found) == _moment(added)
        assert added.model_dump() == before

    @needs("add_memory")
    @each("text", {"english": "I like green tea", "chinese": "我喜欢喝绿茶 tea"})
    async def test_entries_are_found_beside_turns(
        self, service: BaseMemoryService, text: str
    ) -> None:
        await service.add_session_to_memory(session(TEA))
        await service.add_memory(memories=[entry(text), entry("more tea")], **WHO)
        assert await turns(service, "tea") == sorted([text, "more tea", "tea is what I drink"])

    @needs("add_memory")
    async def test_nobody_finds_the_entries_of_others(self, service: BaseMemoryService) -> None:
        await service.add_memory(memories=[entry("tea", id="note")], **WHO)
        await service.add_memory(
            memories=[entry("their tea", id="note")], app_name="a", user_id="b"
        )
        assert await turns(service, "tea") == ["tea"]
        assert await turns(service, "tea", app_name="a", user_id="b") == ["their tea"]

    @needs("add_memory")
    @each("bad", REFUSED)
    async def test_an_entry_without_words_is_refused_with_its_neighbours(
        self, service: BaseMemoryService, bad: Any
    ) -> None:
        with pytest.raises((TypeError, ValueError)):
            await service.add_memory(memories=[entry("good tea"), bad], **WHO)
        assert await search(service, "tea") == []

    @needs("add_memory", "delete_memory")
    async def test_an_entry_is_deleted_by_the_id_it_was_given(
        self, service: BaseMemoryService
    ) -> None:
        notes = [entry("tea one", id="my/note"), entry("tea two", id="note 2")]
        await service.add_memory(memories=notes, **WHO)
        await service.delete_memory(memory_id="my/note", **WHO)
        assert await turns(service, "tea") == ["tea two"]

    @needs("add_memory", "delete_memory")
    async def test_an_entry_is_deleted_by_the_id_it_was_found_with(
        self, service: BaseMemoryService
    ) -> None:
        notes = [entry("tea one"), entry("tea two"), entry("tea three", id="note 3")]
        await service.add_memory(memories=notes, **WHO)
        for found in await search(service, "tea"):
            await service.delete_memory(memory_id=found.id, **WHO)
        assert await search(service, "tea") == []


async def _delete(service: BaseMemoryService, text: str) -> None:
    found = await search(service, text)
    [memory] = [one for one in found if one.content.parts == [Part(text=text)]]
    assert memory.id, "a memory without an id cannot be deleted"
    await service.delete_memory(memory_id=memory.id, **WHO)


def _moment(memory: MemoryEntry) -> datetime:
    return datetime.fromisoformat(memory.timestamp or "")
