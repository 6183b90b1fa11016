"""Tests adding sessions and events: every turn is stored once, and stays."""

from __future__ import annotations

import asyncio

from google.adk.memory.base_memory_service import BaseMemoryService

from adk_memory.conformance.samples import (
    WHO,
    entry,
    event,
    in_another_loop,
    search,
    session,
    turns,
)
from adk_memory.conformance.suite import ServiceTests, needs

TEA = event("e1", "tea is what I drink")
COFFEE = event("e2", "coffee and tea are sold here", author="bot")
BOTH = ["coffee and tea are sold here", "tea is what I drink"]


class Ingestion(ServiceTests):
    """A caller may add sessions and events in any order, in parts, repeatedly and concurrently."""

    async def test_what_a_session_said_is_found_with_its_author(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_session_to_memory(session(TEA, COFFEE))
        found = await search(service, "coffee tea")
        assert {memory.author: memory.content for memory in found} == {
            "user": TEA.content,
            "bot": COFFEE.content,
        }

    async def test_a_session_that_is_added_again_is_there_once(
        self, service: BaseMemoryService
    ) -> None:
        for _ in range(3):
            await service.add_session_to_memory(session(TEA, COFFEE))
        assert await turns(service, "tea") == BOTH

    async def test_of_a_session_that_grew_only_the_new_is_added(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_session_to_memory(session(TEA))
        await service.add_session_to_memory(session(TEA, COFFEE))
        assert await turns(service, "tea") == BOTH

    async def test_a_truncated_session_deletes_nothing(self, service: BaseMemoryService) -> None:
        """GetSessionConfig gives a session its last events only."""
        await service.add_session_to_memory(session(TEA, COFFEE))
        await service.add_session_to_memory(session(event("e3", "tea at last")))
        assert await turns(service, "tea") == [BOTH[0], "tea at last", BOTH[1]]

    async def test_a_session_without_events_deletes_nothing(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_session_to_memory(session(TEA))
        await service.add_session_to_memory(session())
        assert await turns(service, "tea") == BOTH[1:]

    @needs("add_events_to_memory")
    async def test_events_add_up(self, service: BaseMemoryService) -> None:
        for event_ in (TEA, COFFEE):
            await service.add_events_to_memory(events=[event_], session_id="s1", **WHO)
        await service.add_events_to_memory(events=[], session_id="s1", **WHO)
        assert await turns(service, "tea") == BOTH

    @needs("add_events_to_memory")
    async def test_events_that_are_added_again_are_there_once(
        self, service: BaseMemoryService
    ) -> None:
        for _ in range(2):
            await service.add_events_to_memory(events=[TEA, COFFEE, TEA], session_id="s1", **WHO)
        assert await turns(service, "tea") == BOTH

    @needs("add_events_to_memory")
    async def test_events_without_a_session_are_there_once(
        self, service: BaseMemoryService
    ) -> None:
        for _ in range(2):
            await service.add_events_to_memory(events=[TEA, COFFEE], **WHO)
        assert await turns(service, "tea") == BOTH

    @needs("add_events_to_memory")
    async def test_a_session_after_its_events_adds_nothing(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_events_to_memory(events=[COFFEE], session_id="s1", **WHO)
        await service.add_session_to_memory(session(TEA, COFFEE))
        assert await turns(service, "tea") == BOTH

    @needs("add_events_to_memory")
    async def test_events_after_their_session_add_nothing(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(TEA, COFFEE))
        await service.add_events_to_memory(events=[COFFEE, TEA], session_id="s1", **WHO)
        assert await turns(service, "tea") == BOTH

    @needs("add_events_to_memory")
    async def test_an_event_whose_text_changed_is_there_once(
        self, service: BaseMemoryService
    ) -> None:
        """The service may keep the first or the last text."""
        for text in ("tea", "tea again", "tea once more"):
            await service.add_events_to_memory(events=[event("e1", text)], session_id="s1", **WHO)
        assert len(await turns(service, "tea")) == 1

    @needs("add_events_to_memory")
    async def test_metadata_of_a_call_are_taken(self, service: BaseMemoryService) -> None:
        await service.add_events_to_memory(
            events=[TEA], session_id="s1", custom_metadata={"source": "import"}, **WHO
        )
        assert await turns(service, "tea") == BOTH[1:]

    async def test_one_event_id_in_two_sessions_is_two_turns(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_session_to_memory(session(TEA))
        await service.add_session_to_memory(session(event("e1", "green tea"), session_id="s2"))
        assert await turns(service, "tea") == ["green tea", "tea is what I drink"]

    async def test_one_event_id_of_two_users_is_two_turns(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(TEA))
        await service.add_session_to_memory(session(event("e1", "green tea"), user_id="bob"))
        assert await turns(service, "tea") == ["tea is what I drink"]
        assert await turns(service, "tea", user_id="bob") == ["green tea"]

    async def test_the_objects_of_the_caller_stay_as_they_are(
        self, service: BaseMemoryService
    ) -> None:
        added = session(event("e1", "tea is what I drink"), COFFEE)
        before = added.model_dump()
        await service.add_session_to_memory(added)
        await search(service, "tea")
        assert added.model_dump() == before

    async def test_what_the_caller_changes_later_is_not_remembered(
        self, service: BaseMemoryService
    ) -> None:
        added = event("e1", "tea is what I drink")
        await service.add_session_to_memory(session(added))
        added.content.parts[0].text = "tea, changed later"  # type: ignore[union-attr, index]
        assert await turns(service, "tea") == ["tea is what I drink"]

    async def test_what_a_search_returns_is_a_copy(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(TEA))
        [found] = await search(service, "tea")
        found.content.parts[0].text = "tea, changed later"  # type: ignore[index]
        assert await turns(service, "tea") == ["tea is what I drink"]

    async def test_a_session_added_by_many_at_once_is_there_once(
        self, service: BaseMemoryService
    ) -> None:
        grown = session(TEA, COFFEE)
        await asyncio.gather(*(service.add_session_to_memory(grown) for _ in range(8)))
        assert await turns(service, "tea") == BOTH

    async def test_sessions_added_at_once_are_all_there(self, service: BaseMemoryService) -> None:
        sessions = {f"tea for {n}": session(event("e1", f"tea for {n}"), session_id=f"s{n}")
                    for n in range(8)}  # fmt: skip
        await asyncio.gather(*map(service.add_session_to_memory, sessions.values()))
        assert await turns(service, "tea") == sorted(sessions)

    async def test_a_service_works_from_one_event_loop_after_another(
        self, service: BaseMemoryService
    ) -> None:
        """`Runner.run()` starts a thread and a loop for every call."""

        async def work() -> list[str]:
            await service.add_session_to_memory(session(TEA, COFFEE))
            return await turns(service, "tea")

        assert [await in_another_loop(work) for _ in range(3)] == [BOTH] * 3
        assert await work() == BOTH

    async def test_what_is_not_supported_says_so(self, service: BaseMemoryService) -> None:
        calls = {
            "add_events_to_memory": lambda: service.add_events_to_memory(events=[TEA], **WHO),
            "add_memory": lambda: service.add_memory(memories=[entry("tea")], **WHO),
            "delete_memory": lambda: service.delete_memory(memory_id="e1", **WHO),
        }
        for method in self.unsupported:
            try:
                await calls[method]()
            except NotImplementedError:
                continue
            raise AssertionError(f"{method} is declared unsupported and must raise, but did not")
