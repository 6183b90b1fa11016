"""Events of ADK for tests. Import this module within a test: ADK takes seconds to import."""

from typing import Any

from google.adk.events import Event, EventActions
from google.genai import types

Part = types.Part


def event(author: str, *parts: str | Part, **fields: Any) -> Event:
    written = [Part(text=part) if isinstance(part, str) else part for part in parts]
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=written) if parts else None
    return Event(author=author, content=content, **{"invocation_id": "i", **fields})


def spoken(author: str, text: str, **fields: Any) -> Event:
    kind = "input_transcription" if author == "user" else "output_transcription"
    return event(author, **{kind: types.Transcription(text=text)}, **fields)


def call(**fields: Any) -> Event:
    asked = types.FunctionCall(id="c", name="tool", args={})
    return event("bot", Part(function_call=asked), **fields)


def response(author: str = "bot", **fields: Any) -> Event:
    given = types.FunctionResponse(id="c", name="tool", response={})
    return event(author, Part(function_response=given), **fields)


ASKED, ANSWERED = event("user", "hello"), event("bot", "hi")
WAITING = call(long_running_tool_ids={"c"})
SUMMARY = EventActions(skip_summarization=True)
