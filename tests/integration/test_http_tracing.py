"""Spans of OpenTelemetry, by whatever SDK a process sets up; without one there are none."""

from __future__ import annotations

from opentelemetry import trace

from shared_core import MemoryEngine
from tests.integration.http_clients import client_of
from tests.integration.telemetry_sdk import listening

TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_a_request_is_a_span_of_the_callers_trace(memory: MemoryEngine) -> None:
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    with listening() as finished:
        async with client_of(memory) as client:
            question = {"user_id": "ana", "query": "my very own words"}
            await client.post("/recall", json=question, headers=headers)
            await client.post("/recall", content=b"{", headers={"Content-Type": "text/plain"})
        ended = finished.get_finished_spans()
    spans = {
        span.attributes["http.response.status_code"]: span
        for span in ended
        if span.kind is trace.SpanKind.SERVER
    }
    assert {200, 415} == set(spans)
    assert "POST /recall" == spans[200].name
    [recall] = [span for span in ended if span.name == "hippocampus.recall"]
    assert spans[200].context.trace_id == recall.context.trace_id
    assert TRACE == f"{spans[200].context.trace_id:032x}"
    told = [str(span.to_json()) for span in ended]
    assert not [one for one in told if "very own words" in one]
