"""One event of every kind that ADK writes; a session service must store each of them."""

from __future__ import annotations

from typing import Any

from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.event import Event, NodeInfo
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.events.ui_widget import UiWidget
from google.adk.models.cache_metadata import CacheMetadata
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from adk_memory.conformance.samples import Part, event

BYTES = bytes(range(256))
NESTED: dict[str, Any] = {
    "text": "茶 🦜",
    "none": None,
    "list": [1, 2.5, True, None, {"deep": []}],
    "": {},
}


def model_event(*parts: str | Part, **fields: Any) -> Event:
    """Return an event of a model."""
    return event("e1", *parts, author="bot", **fields)


def done(**fields: Any) -> Event:
    """Return an event with actions and no content."""
    return event("e1", author="bot", actions=EventActions(**fields))


_auth = AuthConfig.model_validate(
    {"authScheme": {"type": "apiKey", "in": "header", "name": "X-Key"}}
).model_copy(
    update={
        "raw_auth_credential": AuthCredential(
            auth_type=AuthCredentialTypes.API_KEY, api_key="hunter2"
        )
    }
)

_summary = types.Content(role="model", parts=[Part(text="tea, summed up")])

PARTS = {
    "text": model_event("tea"),
    "odd text": model_event('茶 🦜👍🏽 it\'s "quoted" \\ \u2028 %s {0} $1 \x1b\x7f'),
    "empty text": model_event(""),
    "long text": model_event("tea " * 100_000),
    "several parts": model_event(
        "tea", "coffee", Part.from_bytes(data=b"x", mime_type="image/png")
    ),
    "thought": model_event(Part(text="hm", thought=True, thought_signature=BYTES)),
    "inline data": model_event(Part.from_bytes(data=BYTES, mime_type="image/png")),
    "file data": model_event(Part.from_uri(file_uri="gs://bucket/tea.png", mime_type="image/png")),
    "video": model_event(
        Part(
            file_data=types.FileData(file_uri="gs://bucket/tea.mp4", mime_type="video/mp4"),
            video_metadata=types.VideoMetadata(start_offset="1s", end_offset="2s", fps=1.5),
        )
    ),
    "function call": model_event(
        Part(function_call=types.FunctionCall(id="f1", name="brew", args=NESTED))
    ),
    "long running call": model_event(
        Part(function_call=types.FunctionCall(id="f1", name="brew", args={})),
        long_running_tool_ids={"f1", "f2"},
    ),
    "no long running call": model_event("tea", long_running_tool_ids=set()),
    "function response": event(
        "e1", Part(function_response=types.FunctionResponse(id="f1", name="brew", response=NESTED))
    ),
    "executable code": model_event(
        Part.from_executable_code(code="print('tea')\n", language=types.Language.PYTHON)
    ),
    "code result": model_event(
        Part.from_code_execution_result(outcome=types.Outcome.OUTCOME_FAILED, output="no tea")
    ),
    "no content": model_event(),
    "no parts": model_event(content=types.Content(role="model", parts=[])),
    "no role": model_event(content=types.Content(parts=[Part(text="tea")])),
}

ACTIONS = {
    "state": done(state_delta={"a": NESTED, "user:b": None, "app:c": [0.1 + 0.2]}),
    "artifact": done(artifact_delta={"tea.png": 3, "user:tea/茶.png": 0}),
    "compaction": done(
        compaction=EventCompaction(
            start_timestamp=1.25, end_timestamp=2.5, compacted_content=_summary
        )
    ),
    "rewind": done(rewind_before_invocation_id="i1"),
    "auth": done(requested_auth_configs={"f1": _auth}),
    "confirmation": done(
        requested_tool_confirmations={
            "f1": ToolConfirmation(hint="pay?", confirmed=False, payload=NESTED)
        }
    ),
    "transfer": done(transfer_to_agent="tea_bot", escalate=True, skip_summarization=True),
    "agent state": done(agent_state=NESTED, end_of_agent=False),
    "route": done(route=["a", 1, True]),
    "widgets": done(render_ui_widgets=[UiWidget(id="w1", provider="mcp", payload=NESTED)]),
    "model response": done(set_model_response={"answer": NESTED}),
}

FIELDS = {
    "heard": event("e1", input_transcription=types.Transcription(text="茶", finished=True)),
    "spoken": model_event(output_transcription=types.Transcription(text="tea", finished=False)),
    "usage": model_event(
        "tea",
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=3,
            candidates_token_count=0,
            prompt_tokens_details=[
                types.ModalityTokenCount(modality=types.MediaModality.TEXT, token_count=3)
            ],
        ),
        model_version="model-1",
        avg_logprobs=-0.25,
    ),
    "grounding": model_event(
        "tea",
        grounding_metadata=types.GroundingMetadata(
            web_search_queries=["tea"],
            grounding_chunks=[
                types.GroundingChunk(web=types.GroundingChunkWeb(uri="https://tea", title="Tea"))
            ],
        ),
        citation_metadata=types.CitationMetadata(
            citations=[types.Citation(start_index=0, end_index=3, uri="https://tea")]
        ),
    ),
    "custom metadata": model_event("tea", custom_metadata=NESTED),
    "error": model_event(error_code="SAFETY", error_message="no tea"),
    "flags": model_event(
        "tea",
        partial=False,
        turn_complete=True,
        interrupted=False,
        finish_reason=types.FinishReason.MAX_TOKENS,
    ),
    "branch": model_event("tea", branch="a.b.c", isolation_scope="f1"),
    "node": model_event(
        "tea",
        output=NESTED,
        node_info=NodeInfo(path="A@1/B@2", output_for=["A@1"], message_as_output=True),
    ),
    "cache": model_event(
        "tea",
        cache_metadata=CacheMetadata(
            cache_name="c1", fingerprint="f", invocations_used=1, contents_count=2, expire_time=1.5
        ),
        interaction_id="x1",
        live_session_id="x2",
        live_session_resumption_update=types.LiveServerSessionResumptionUpdate(
            new_handle="h", resumable=True
        ),
    ),
    "fraction of a second": model_event("tea", timestamp=1_772_441_999.123456),
    "time zero": model_event("tea", timestamp=0.0),
    "time to come": model_event("tea", timestamp=4_102_444_800.0),
    "no invocation": model_event("tea", invocation_id=""),
}

SHAPES: dict[str, Event] = {**PARTS, **ACTIONS, **FIELDS}
