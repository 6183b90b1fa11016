"""Answers of real clients over real HTTP, recorded from a small model on a local server.

They show the plumbing: what is sent, how answers are read, put together, repaired, refused and
counted. The model is far too small to be of use, so nothing here says how good an extraction is.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import UUID

from google.adk.models.google_llm import Gemini
from turns import said

from shared_core import ModelLimits
from shared_core.core.domain import Extraction, HeldFact, MemoryId
from shared_core.errors import ModelOutputInvalid
from shared_core.extraction.llm_extractor import ModelExtractor
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.models.language_model import ModelRequest, resolve_language_model
from shared_core.nlp.text import search_terms

HERE = Path(__file__).parent
MODEL = "smollm2-135m"
OPENAI = "http://127.0.0.1:18081/v1"
GEMINI = "http://127.0.0.1:18083"
NO_KEY = "not-a-key"

EVENTS = [
    said(f"event-{number}", text, datetime(2026, 3, 1, 9, number, tzinfo=UTC),
         author=author, role=role)
    for number, (author, role, text) in enumerate([
        ("zhu", "user", "Hi, I'm Zhu. I moved from Google to Meta last month."),
        ("bot", "agent", "Congratulations on the new job!"),
        ("zhu", "user", "My daughter Cancan is five and loves drawing."),
        ("zhu", "user", "我每周五不开会。"),
    ])
]  # fmt: skip
IDS = {event.event_id for event in EVENTS}
HELD = [HeldFact(
    memory_id=MemoryId(UUID(int=7)), fact_type="profile", slot="employer", subject="user",
    value="Google", statement="User works at Google.", functional=True,
    stated_at=datetime(2026, 1, 1, tzinfo=UTC),
)]  # fmt: skip
SHOWN = "<facts>\n[f1] user, employer: Google | User works at Google.\n</facts>"
OPERATIONS = ["add", "update", "end", "deny", "doubt", "keep", "forget", "event"]


def chat(**options: Any) -> Any:
    from langchain_openai import ChatOpenAI  # takes a second, and each worker imports this module

    return ChatOpenAI(
        model=MODEL, base_url=OPENAI, api_key=NO_KEY, max_retries=0, temperature=0, **options
    )


def extractor(llm: object, **options: Any) -> ModelExtractor:
    limits = ModelLimits(**options)
    return ModelExtractor(resolve_language_model(llm), RuleExtractor(), limits=limits)


def sent(cassette: Any) -> list[Any]:
    return [json.loads(request.body) for request in cassette.requests]


def check_plumbing(found: Extraction) -> None:
    """Whatever a model says, this holds."""
    ids = [fact.event_id for fact in found.facts] + [one.event_id for one in found.triples]
    ids += [one for statement in found.statements for one in statement.event_ids]
    assert IDS.issuperset([*ids, *found.emotions, *found.importance, *found.needs_model])
    assert all(0 <= fact.confidence <= 1 <= fact.importance <= 10 for fact in found.facts)
    assert all(1 <= one <= 10 for one in found.importance.values())
    said = " ".join(event.text for event in EVENTS)
    assert all(set(search_terms(fact.value)) & set(search_terms(said)) for fact in found.facts)


async def test_langchain_openai_holds_the_model_to_the_schema(cassette):
    reader = extractor(chat(max_tokens=400))
    try:
        check_plumbing(await reader.knowing([], HELD).extract(EVENTS, []))
    except ModelOutputInvalid as error:
        assert MODEL in str(error)
    [first, *_] = sent(cassette)
    schema = first["response_format"]["json_schema"]["schema"]
    assert "json_schema" == first["response_format"]["type"]
    assert ["facts", "summary"] == schema["required"]
    assert [*OPERATIONS, None] == schema["properties"]["facts"]["items"]["properties"]["op"]["enum"]
    assert SHOWN in first["messages"][1]["content"]
    assert ["system", "user"] == [message["role"] for message in first["messages"]]
    assert "[3] user, 2026-03-01: My daughter Cancan" in first["messages"][1]["content"]
    assert not any(event_id in json.dumps(first) for event_id in IDS)
    assert reader.usage.calls == len(cassette) <= 2
    assert reader.usage.input_tokens > 1000 and 0 < reader.usage.output_tokens <= 2 * 400
    assert f"llm-v3/extract.v4/{MODEL}" == reader.name


async def test_langchain_openai_streams(cassette):
    model = resolve_language_model(chat(max_tokens=40, streaming=True, stream_usage=True))
    question = ModelRequest(system="Answer in one sentence.", prompt="What is a memory?")
    reply = await model.complete(question)
    [request] = sent(cassette)
    assert request["stream"] and "response_format" not in request
    assert len(reply.text) > 20
    assert ("length", 40) == (reply.finish, reply.output_tokens) and reply.input_tokens > 10


async def test_a_sync_function_over_http_answers_in_prose(cassette):
    model = chat(max_tokens=60)

    def ask(prompt: str) -> str:
        return model.invoke(prompt).text

    reader = extractor(ask)
    try:
        check_plumbing(await reader.knowing([], HELD).extract(EVENTS, []))
    except ModelOutputInvalid as error:
        assert "ask" in str(error)
    assert reader.usage.calls == len(cassette)
    first, *_ = sent(cassette)
    assert "response_format" not in first
    assert SHOWN in first["messages"][0]["content"]


def test_the_cassettes_are_of_the_prompts_that_are_in_use():
    recorded = json.loads((HERE / "PROVENANCE.json").read_text("utf-8"))["prompts"]
    prompts = files("shared_core.extraction.prompts")
    assert recorded == {
        name: hashlib.sha256((prompts / name).read_bytes()).hexdigest() for name in recorded
    }
    assert recorded


def gemini() -> Gemini:
    key = {"api_key": NO_KEY, "vertexai": False}
    return Gemini(model=MODEL, base_url=GEMINI, api_version="v1beta", client_kwargs=key)


async def test_adk_gemini_holds_the_model_to_the_schema(cassette):
    reader = extractor(gemini(), max_tokens=300)
    try:
        check_plumbing(await reader.knowing([], HELD).extract(EVENTS, []))
    except ModelOutputInvalid as error:
        assert MODEL in str(error)
    [first, *_] = sent(cassette)
    settings = first["generationConfig"]
    assert "application/json" == settings["responseMimeType"]
    assert 0 == settings["temperature"] and 300 == settings["maxOutputTokens"]
    operation = settings["responseSchema"]["properties"]["facts"]["items"]["properties"]
    assert OPERATIONS == operation["op"]["enum"]
    assert SHOWN in first["contents"][0]["parts"][0]["text"]
    assert "long-term memory" in json.dumps(first["systemInstruction"])
    assert reader.usage.calls == len(cassette) <= 2
    assert reader.usage.input_tokens > 0
