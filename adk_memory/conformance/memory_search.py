"""Tests search: by words, within limits, and only among the user's own memories."""

from __future__ import annotations

from google.adk.memory.base_memory_service import BaseMemoryService

from adk_memory.conformance.samples import (
    NEIGHBOURS,
    ODD_IDS,
    event,
    owner,
    search,
    session,
    texts,
    turns,
)
from adk_memory.conformance.suite import ServiceTests, each

MOST = 100
"""Maximum number of results: `preload_memory` puts all of them into the prompt."""

TEA = event("e1", "tea is what I drink")

WORDLESS = {
    "empty": "",
    "blank": " \n\t",
    "punctuation": "?!…",
    "chinese punctuation": "。、！",
    "zero width": "\u200b",
    "emoji": "👍",
}

SYNTAX = {
    "operators": "tea AND (NOT",
    "near": 'NEAR("tea", 3) tea',
    "quote": 'tea" OR "',
    "wildcard": "tea * % _",
    "column": "search_text: tea",
    "statement": "tea'; DROP TABLE events; --",
    "tsquery": "tea & ! | <-> :*",
    "escape": "tea \\ \\\\ '",
    "NUL": "tea \x00 tea",
    "surrogate": "tea \ud800",
}


class MemorySearching(ServiceTests):
    """A search finds memories with words of the query, best first, of one app and user."""

    async def test_a_memory_that_was_never_used_finds_nothing(
        self, service: BaseMemoryService
    ) -> None:
        assert await search(service, "tea") == []

    @each("query", WORDLESS)
    async def test_a_query_without_words_finds_nothing(
        self, service: BaseMemoryService, query: str
    ) -> None:
        await service.add_session_to_memory(session(TEA, event("e2", "👍 ?!… 。、！")))
        assert await search(service, query) == []

    @each("query", SYNTAX)
    async def test_a_query_is_words_and_no_syntax(
        self, service: BaseMemoryService, query: str
    ) -> None:
        await service.add_session_to_memory(session(TEA))
        assert await turns(service, query) == ["tea is what I drink"]

    async def test_a_query_of_thousands_of_words_is_answered(
        self, service: BaseMemoryService
    ) -> None:
        """`preload_memory` searches for the user's whole message, even a pasted document."""
        await service.add_session_to_memory(session(TEA))
        query = " ".join(["tea", *(f"word{n}" for n in range(3000))])
        assert await turns(service, query) == ["tea is what I drink"]

    async def test_what_shares_most_words_comes_first(self, service: BaseMemoryService) -> None:
        events = [event(f"e{n}", f"the tea number {n}") for n in range(8)]
        events.insert(4, event("best", "the parrot drinks green tea"))
        await service.add_session_to_memory(session(*events))
        found = await search(service, "which parrot drinks green tea")
        assert texts(found)[0] == "the parrot drinks green tea"

    async def test_a_search_is_bounded(self, service: BaseMemoryService) -> None:
        events = [event(f"e{n}", f"tea number {n}") for n in range(2 * MOST)]
        await service.add_session_to_memory(session(*events))
        assert 0 < len(await search(service, "tea number")) <= MOST

    async def test_others_find_nothing(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(TEA))
        assert await search(service, "tea", user_id="bob") == []
        assert await search(service, "tea", app_name="other") == []

    async def test_a_session_of_another_app_is_remembered_there(
        self, service: BaseMemoryService
    ) -> None:
        """Equal session and event ids in two apps are two sessions and two events."""
        await service.add_session_to_memory(session(TEA))
        await service.add_session_to_memory(session(event("e1", "green tea"), app_name="other"))
        assert await turns(service, "tea") == ["tea is what I drink"]
        assert await turns(service, "tea", app_name="other") == ["green tea"]

    @each("odd", ODD_IDS)
    async def test_any_id_is_an_id(self, service: BaseMemoryService, odd: str) -> None:
        who = owner(odd, odd)
        for _ in range(2):
            added = session(event(odd, "tea is what I drink"), session_id=odd, **who)
            await service.add_session_to_memory(added)
        assert await turns(service, "tea", **who) == ["tea is what I drink"]
        assert await search(service, "tea") == []

    @each("pair", NEIGHBOURS)
    async def test_ids_that_look_alike_are_kept_apart(
        self, service: BaseMemoryService, pair: tuple[tuple[str, str], tuple[str, str]]
    ) -> None:
        mine, theirs = (owner(app, user) for app, user in pair)
        await service.add_session_to_memory(session(TEA, **mine))
        assert await search(service, "tea", **theirs) == []
        await service.add_session_to_memory(session(event("e1", "green tea"), **theirs))
        assert await turns(service, "tea", **mine) == ["tea is what I drink"]
        assert await turns(service, "tea", **theirs) == ["green tea"]
