"""Tests that a memory service stores the words of an event, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.memory.base_memory_service import BaseMemoryService
from google.genai import types

from adk_memory.conformance.samples import Part, event, search, session, texts, turns
from adk_memory.conformance.suite import ServiceTests, each

SECRET = "hunter2"

UNSAID = {
    "thought": Part(text="tea is a secret thought", thought=True),
    "function call": Part.from_function_call(name="tea", args={"tea": "tea"}),
    "function response": Part.from_function_response(name="tea", response={"tea": "tea"}),
    "image": Part.from_bytes(data=b"tea", mime_type="image/png"),
    "file": Part.from_uri(file_uri="gs://tea/tea.png", mime_type="image/png"),
    "code": Part.from_executable_code(code="tea = 'tea'", language=types.Language.PYTHON),
    "code result": Part.from_code_execution_result(outcome=types.Outcome.OUTCOME_OK, output="tea"),
}

SILENT = {
    "no content": event("e1"),
    "no parts": event("e1", content=types.Content(role="user", parts=[])),
    "parts unset": event("e1", content=types.Content(role="user")),
    "empty text": event("e1", ""),
    "error": event("e1", author="bot", error_code="TEA", error_message="no tea"),
    "compaction": event(
        "e1",
        actions=EventActions(
            compaction=EventCompaction(
                start_timestamp=1.0,
                end_timestamp=2.0,
                compacted_content=types.Content(role="model", parts=[Part(text="tea, summed up")]),
            )
        ),
    ),
}

REQUESTS = {
    "credential call": Part.from_function_call(
        name="adk_request_credential",
        args={"authConfig": {"rawAuthCredential": {"apiKey": SECRET}}},
    ),
    "credential answer": Part.from_function_response(
        name="adk_request_credential", response={"exchangedAuthCredential": {"apiKey": SECRET}}
    ),
    "confirmation call": Part.from_function_call(
        name="adk_request_confirmation",
        args={"originalFunctionCall": {"name": "pay", "args": {"pin": SECRET}}},
    ),
    "confirmation answer": Part.from_function_response(
        name="adk_request_confirmation", response={"confirmed": True, "payload": SECRET}
    ),
}

SAID = {
    "english": ("I drink green tea every morning", "green tea"),
    "chinese": ("我每天早上都喝绿茶", "绿茶"),
    "chinese phrase": ("我每天早上，都喝绿茶。", "都喝绿茶"),
    "mixed": ("我用Python写程序", "Python"),
    "accents": ("Un caf\u00e9 cr\u00e8me, s'il vous pla\u00eet", "caf\u00e9"),
    "decomposed query": ("Un caf\u00e9 cr\u00e8me, s'il vous pla\u00eet", "cafe\u0301"),
    "capitals": ("The Eiffel Tower", "EIFFEL tower"),
    "russian": ("Я пью зелёный чай", "чай"),
    "digits": ("my room is 4711", "4711"),
    "lines": ("first line\n\nsecond line about tea", "tea"),
    "quotes": ("it's \"tea\" \\ '' %s {0} $1 -- ; DROP TABLE", "tea"),
    "long": ("tea " + "and cake " * 5000, "tea"),
}

MOMENTS = {
    "with a fraction": datetime(2026, 3, 2, 8, 40, 0, 250_000, UTC).timestamp(),
    "zero": 0.0,
    "future": datetime(2100, 1, 1, tzinfo=UTC).timestamp(),
}


def rewind(event_id: str, before: str) -> Event:
    """Return the event that `Runner.rewind_async` appends to a session."""
    actions = EventActions(rewind_before_invocation_id=before)
    return event(event_id, invocation_id="rewind", actions=actions)


class Content(ServiceTests):
    """A service stores words unchanged, and no thoughts, tool calls, secrets or rewound turns."""

    @each("case", SAID)
    async def test_a_text_is_found_by_its_words_and_comes_back_whole(
        self, service: BaseMemoryService, case: tuple[str, str]
    ) -> None:
        text, query = case
        await service.add_session_to_memory(session(event("e1", text)))
        assert [found.strip() for found in await turns(service, query)] == [text.strip()]

    async def test_a_turn_of_several_parts_is_found_by_each(
        self, service: BaseMemoryService
    ) -> None:
        await service.add_session_to_memory(session(event("e1", "tea here", "coffee there")))
        for query in ("tea", "coffee"):
            [found] = await turns(service, query)
            assert "tea here" in found and "coffee there" in found

    @each("event_", SILENT)
    async def test_an_event_without_words_is_passed_over(
        self, service: BaseMemoryService, event_: Event
    ) -> None:
        await service.add_session_to_memory(session(event_))
        assert await turns(service, "tea") == []

    @each("part", UNSAID)
    async def test_what_was_not_said_is_not_remembered(
        self, service: BaseMemoryService, part: types.Part
    ) -> None:
        await service.add_session_to_memory(session(event("e1", part, author="bot")))
        assert await search(service, "tea") == []

    @each("part", UNSAID)
    async def test_what_stands_beside_a_text_does_not_come_back_with_it(
        self, service: BaseMemoryService, part: types.Part
    ) -> None:
        """`load_memory` passes all results of a search to the model, and images as base64."""
        await service.add_session_to_memory(session(event("e1", part, "said of tea", author="bot")))
        [found] = await search(service, "tea")
        kept = [part for part in found.content.parts or [] if part != Part(text="said of tea")]
        assert kept == []

    @each("part", REQUESTS)
    async def test_the_secrets_of_a_request_to_the_user_stay_out(
        self, service: BaseMemoryService, part: types.Part
    ) -> None:
        request = event("e1", "please sign in for tea", part, author="bot")
        await service.add_session_to_memory(session(request))
        for query in (SECRET, "tea", "adk_request_credential adk_request_confirmation"):
            found = await search(service, query)
            assert SECRET not in "".join(memory.model_dump_json() for memory in found)

    async def test_partial_events_are_not_remembered(self, service: BaseMemoryService) -> None:
        """The event that completes them has the whole text."""
        pieces = [event("e1", "tea is", author="bot", partial=True),
                  event("e2", "tea is ready", author="bot")]  # fmt: skip
        await service.add_session_to_memory(session(*pieces))
        assert await turns(service, "tea") == ["tea is ready"]

    async def test_a_turn_that_was_rewound_is_not_remembered(
        self, service: BaseMemoryService
    ) -> None:
        events = [event("e1", "tea one", invocation_id="i1"),
                  event("e2", "tea two", invocation_id="i2"),
                  event("e3", "tea three", author="bot", invocation_id="i2"),
                  rewind("e4", "i2"),
                  event("e5", "tea four", invocation_id="i4")]  # fmt: skip
        await service.add_session_to_memory(session(*events))
        assert await turns(service, "tea") == ["tea four", "tea one"]

    async def test_a_turn_that_is_rewound_later_is_forgotten(
        self, service: BaseMemoryService
    ) -> None:
        events = [event("e1", "tea one", invocation_id="i1"),
                  event("e2", "tea two", invocation_id="i2"),
                  event("e3", "tea three", author="bot", invocation_id="i2")]  # fmt: skip
        await service.add_session_to_memory(session(*events))
        more = [rewind("e4", "i2"), event("e5", "tea four", invocation_id="i4")]
        await service.add_session_to_memory(session(*events, *more))
        assert await turns(service, "tea") == ["tea four", "tea one"]

    @each("field", {"heard": "input_transcription", "spoken": "output_transcription"})
    async def test_a_live_turn_is_remembered_by_its_transcription(
        self, service: BaseMemoryService, field: str
    ) -> None:
        fields = {field: types.Transcription(text="tea, please", finished=True)}
        await service.add_session_to_memory(session(event("e1", author="bot", **fields)))
        assert await turns(service, "tea") == ["tea, please"]

    async def test_a_content_without_a_role_is_remembered(self, service: BaseMemoryService) -> None:
        content = types.Content(parts=[Part(text="tea for two")])
        await service.add_session_to_memory(session(event("e1", content=content)))
        assert await turns(service, "tea") == ["tea for two"]

    async def test_the_role_says_whether_a_user_or_a_model_spoke(
        self, service: BaseMemoryService
    ) -> None:
        """The author names the agent; the role does not."""
        added = session(event("e1", "tea here"), event("e2", "tea there", author="tea_bot"))
        await service.add_session_to_memory(added)
        found = await search(service, "tea")
        assert {entry.author: entry.content.role for entry in found} == {
            "user": "user",
            "tea_bot": "model",
        }

    @each("bad", {"NUL": "\x00", "surrogate": "\ud800"})
    async def test_a_character_no_database_takes_does_not_lose_the_turn(
        self, service: BaseMemoryService, bad: str
    ) -> None:
        await service.add_session_to_memory(session(event("e1", f"tea {bad} with milk")))
        [found] = await turns(service, "tea")
        assert found.startswith("tea ") and found.endswith(" with milk")
        assert await turns(service, "milk") == [found]

    async def test_what_comes_back_can_be_sent_to_a_model(self, service: BaseMemoryService) -> None:
        """UTF-8 cannot encode a lone surrogate, so a request with one fails."""
        await service.add_session_to_memory(session(event("e1", "tea \ud800 with milk")))
        response = await service.search_memory(
            app_name="support.bot", user_id="alice@example.com", query="tea"
        )
        assert "with milk" in response.model_dump_json()

    @each("moment", MOMENTS)
    async def test_the_time_of_a_turn_comes_back(
        self, service: BaseMemoryService, moment: float
    ) -> None:
        await service.add_session_to_memory(session(event("e1", "tea", timestamp=moment)))
        [found] = await search(service, "tea")
        assert datetime.fromisoformat(found.timestamp or "").timestamp() == moment

    async def test_times_carry_their_offset(self, service: BaseMemoryService) -> None:
        """A time without an offset is ambiguous: a server's local time is not a user's."""
        await service.add_session_to_memory(session(event("e1", "tea")))
        [found] = await search(service, "tea")
        assert datetime.fromisoformat(found.timestamp or "").tzinfo is not None

    @each("moment", {"far": 1e18, "nan": float("nan"), "endless": float("inf")})
    async def test_a_time_that_cannot_be_spoils_no_search(
        self, service: BaseMemoryService, moment: float
    ) -> None:
        """The service may refuse or store the event; the memory must stay readable."""
        await service.add_session_to_memory(session(event("e1", "tea first")))
        odd = event("e2", "tea out of time", timestamp=moment)
        with suppress(Exception):
            await service.add_session_to_memory(session(odd, session_id="s2"))
        assert "tea first" in texts(await search(service, "tea"))
