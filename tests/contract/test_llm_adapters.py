"""Tier "fake": models of both frameworks that a test made up, through their own base classes."""

import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

import pytest
import turns
from every_case import every_case
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types
from google.genai.errors import APIError, ClientError, ServerError
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field
from typer.testing import CliRunner

from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore, make_store
from shared_core import MemoryEngine, Scope, open_memory, run_sync
from shared_core.cli.main import app
from shared_core.errors import InvalidInput, ModelQuotaExceeded, ModelUnavailable
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.models.language_model import ModelReply, ModelRequest, resolve_language_model
from tests.unit.scripted_model import parts

SCHEMA = {"title": "Answer", "type": "object", "properties": {"x": {"type": "string"}}}
REQUEST = ModelRequest(system="Be brief.", prompt="Go.", schema=SCHEMA, max_output_tokens=77)


def said(*texts: str, thought: bool = False) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=t, thought=thought) for t in texts])


class OwnLlm(BaseLlm):
    """Gives the responses of a test, or raises, and keeps what it was asked."""

    model: str = "own-model"
    answers: list[Any] = Field(default_factory=list)
    asked: list[LlmRequest] = Field(default_factory=list)

    @classmethod
    def supported_models(cls) -> list[str]:
        return [r"own-.*"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.asked.append(llm_request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for response in answer:
            yield response


async def replied(llm: object) -> ModelReply:
    return await resolve_language_model(llm).complete(REQUEST)


async def adk(answer: object) -> ModelReply:
    return await replied(OwnLlm(answers=[answer]))


async def test_adk_is_asked_for_the_schema_and_a_temperature_if_it_takes_one_and_may_stream():
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=11, candidates_token_count=5, thoughts_token_count=2
    )
    content = types.Content(parts=[*said("hm", thought=True).parts, *said("{", "}").parts])
    stop = types.FinishReason.STOP
    llm = OwnLlm(answers=[[LlmResponse(content=content, usage_metadata=usage, finish_reason=stop)]])
    assert ModelReply(text="{}", input_tokens=11, output_tokens=7) == await replied(llm)
    [asked] = llm.asked
    assert ("own-model", "Go.") == (asked.model, asked.contents[0].parts[0].text)
    names = "system_instruction max_output_tokens temperature response_mime_type response_schema"
    assert ("Be brief.", 77, 0.0, "application/json", SCHEMA) == parts(asked.config, names)
    streamed = [LlmResponse(content=said(text), partial=True) for text in ('{"x"', ': "y"}')]
    whole = LlmResponse(content=said('{"x": "y"}'), partial=False)
    for last in ([], [whole], [LlmResponse(turn_complete=True)]):
        assert '{"x": "y"}' == (await adk([*streamed, *last])).text
    refusal = ValueError("Unsupported value: 'temperature' does not support 0 with this model")
    fine = [LlmResponse(content=said("{}"))]
    llm = OwnLlm(answers=[refusal, fine, fine])
    model = resolve_language_model(llm)
    assert ["{}"] * 2 == [(await model.complete(REQUEST)).text for _ in range(2)]
    assert [0.0, None, None] == [asked.config.temperature for asked in llm.asked]
    with pytest.raises(ModelUnavailable, match="temperature"):
        await replied(OwnLlm(answers=[refusal, refusal]))


@every_case(
    (LlmResponse(content=said("{"), finish_reason=types.FinishReason.MAX_TOKENS), "length"),
    (LlmResponse(error_code="MAX_TOKENS", finish_reason="MAX_TOKENS"), "length"),
    (LlmResponse(error_code="SAFETY", finish_reason="SAFETY"), "refused"),
    (LlmResponse(error_code="PROHIBITED_CONTENT"), "refused"),
    (LlmResponse(content=said()), "stop"),
)
async def test_adk_says_how_an_answer_ended(response, finish):
    assert finish == (await adk([response])).finish


def failure(code: int, status: str, message: str = "no") -> APIError:
    kind = ClientError if code < 500 else ServerError
    return kind(code, {"error": {"code": code, "status": status, "message": message}})


@every_case(
    (failure(429, "RESOURCE_EXHAUSTED", "Please retry in 5s."), 5.0, "exceeded its quota"),
    (failure(503, "UNAVAILABLE"), ModelUnavailable, "503"),
    ([LlmResponse(error_code="429", error_message="wait")], None, "wait"),
    ([LlmResponse(error_code="INTERNAL", error_message="oops")], ModelUnavailable, "oops"),
)
async def test_adk_failures_say_whose_and_what(answer, told, words):
    with pytest.raises(ModelUnavailable, match=f"'own-model'.*{words}") as caught:
        await adk(answer)
    found = caught.value
    is_full = ModelQuotaExceeded is type(found)
    assert told == (found.retry_after_s if is_full else type(found))


def test_models_by_name(monkeypatch):
    LLMRegistry.register(OwnLlm)
    assert "own-1" == resolve_language_model("adk:own-1").name
    with pytest.raises(InvalidInput, match="LLMRegistry makes no model of 'nobody-1'"):
        resolve_language_model("adk:nobody-1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidInput, match="credentials"):
        resolve_language_model("langchain:openai:gpt-5-mini")
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    with pytest.raises(InvalidInput, match="init_chat_model makes no model of 'nobody:model'"):
        resolve_language_model("langchain:nobody:model")
    assert "gpt-5-mini" == resolve_language_model("langchain:openai:gpt-5-mini").name


class PlainChat(BaseChatModel):
    """A chat model with sync methods only; keeps which thread asked."""

    answer: AIMessage
    threads: list[str] = Field(default_factory=list)
    asked: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "plain"

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        self.threads.append(threading.current_thread().name)
        self.asked.append(messages)
        return ChatResult(generations=[ChatGeneration(message=self.answer)])


class StreamingChat(PlainChat):
    """Streams its answer word by word; its async client is bound to the loop of an agent."""

    streaming: bool = False

    def _stream(self, *args: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
        for word in self.answer.text.split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(word))

    async def _agenerate(self, *args: Any, **options: Any) -> ChatResult:
        raise RuntimeError("bound to a different event loop")

    async def _astream(self, *args: Any, **options: Any) -> AsyncIterator[ChatGenerationChunk]:
        raise RuntimeError("bound to a different event loop")
        yield


class AsyncChat(PlainChat):
    """Has async methods only."""

    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, *args: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answer)])


async def test_langchain_models_without_a_schema_are_asked_in_words_and_failures_told():
    usage: Any = {"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}
    ended = {"finish_reason": "length"}
    llm = PlainChat(answer=AIMessage("{}", usage_metadata=usage, response_metadata=ended))
    expected = ModelReply(text="{}", input_tokens=4, output_tokens=2, finish="length")
    assert expected == await replied(llm)
    assert [["system", "human"]] == [[one.type for one in asked] for asked in llm.asked]
    assert threading.current_thread().name not in llm.threads
    model = resolve_language_model(FakeListChatModel(responses=["one"]))
    assert ("one", "FakeListChatModel") == ((await model.complete(REQUEST)).text, model.name)

    class RateLimitError(Exception):
        status_code = 429

    class Failing(PlainChat):
        def _generate(self, *args: Any, **options: Any) -> ChatResult:
            raise RateLimitError("slow down")

    with pytest.raises(ModelQuotaExceeded, match="'Failing' exceeded its quota"):
        await replied(Failing(answer=AIMessage("")))


@every_case(
    (StreamingChat(answer=AIMessage('{"x": "y"}'), streaming=True), '{"x":"y"}'),
    (StreamingChat(answer=AIMessage("one")), "one"), (AsyncChat(answer=AIMessage("one")), "one"),
)  # fmt: skip
async def test_langchain_models_that_stream_or_are_of_an_agents_loop(llm, text):
    assert text == (await replied(llm)).text


@every_case(
    (AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "{}"}]), "{}"),
    (AIMessage("", tool_calls=[{"name": "Answer", "args": {"x": "日"}, "id": "1"}]), '{"x": "日"}'),
    (AIMessage("", additional_kwargs={"refusal": "I will not."}), ""),
    (AIMessage("", response_metadata={"stop_reason": "refusal"}), ""),
)
async def test_langchain_answers_in_blocks_calls_and_refusals(answer, text):
    reply = await replied(PlainChat(answer=answer))
    assert (text, "stop" if text else "refused") == (reply.text, reply.finish)


SCOPE = Scope("support.bot", "alice@example.com")
TURN = turns.said("e1", "I have settled in Oslo at last.", author="alice")
FACT = {"turns": [1], "slot": "city", "value": "Oslo", "statement": "In Oslo."}
ANSWERS = [json.dumps({"facts": [FACT], "summary": "She lives in Oslo."})]


async def learned(engine: MemoryEngine) -> tuple[list[str], str]:
    await engine.append_events(SCOPE, "t", [TURN])
    report = await engine.consolidate(SCOPE, "t")
    facts = await engine.facts(SCOPE)
    return [f"{one.slot}={one.value} by {one.extractor}" for one in facts], report.summary


@pytest.mark.parametrize("face", ["adk", "langgraph", "core"])
async def test_every_face_takes_a_model(face, dsn):
    texts = iter(ANSWERS)
    if face == "adk":
        own = OwnLlm(answers=[[LlmResponse(content=said(answer))] for answer in ANSWERS])
        service = OpenMemoryService(dsn, llm=own)
        engine, close, name = service.engine, service.close, "own-model"
    elif face == "langgraph":
        store = PgHippocampusStore(dsn, llm=FakeListChatModel(responses=ANSWERS))
        engine, close, name = store.engine, store.aclose, "FakeListChatModel"
    else:
        engine = open_memory(dsn, llm=lambda prompt: next(texts))
        close, name = engine.close, f"{__name__}.test_every_face_takes_a_model.<locals>.<lambda>"
    try:
        facts, summary = await learned(engine)
    finally:
        await close()
    assert [f"residence=Oslo by llm-v3/extract.v4/{name}"] == facts
    assert "She lives in Oslo." == summary


async def test_no_connection_is_held_while_a_model_works_and_a_failure_loses_no_turn(dsn):
    answers: list[Any] = [ModelUnavailable("down"), *ANSWERS]
    seen: list[int] = []

    def ask(prompt: str) -> str:
        seen.append(len(run_sync(engine.list_memories(SCOPE))))  # the pool's only connection
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    async with open_memory(dsn, llm=ask, pool_size=1) as engine:
        with pytest.raises(ModelUnavailable, match="down"):
            await learned(engine)
        [hit] = await engine.recall(SCOPE, "Oslo")
        assert "e1" == hit.memory.source_event_ids[0]
        report = await engine.consolidate(SCOPE, "t")
        assert (1, 1) == (report.events, report.facts_opened)
    assert [1, 1] == seen


@every_case(
    (lambda: OpenMemoryService(engine=open_memory(), llm="gemini-3.5-flash"), "open_memory"),
    (lambda: PgHippocampusStore(engine=open_memory(), llm="openai:gpt-5-mini"), "open_memory"),
    (lambda: open_memory(llm=print, extractor=RuleExtractor()), "not both"),
    (lambda: OpenMemoryService(llm="nobody-1"), "LLMRegistry"),
    (lambda: OpenMemoryService("hippocampus://?llm=nobody-1"), "LLMRegistry"),
    (lambda: PgHippocampusStore(llm="nobody:model"), "init_chat_model"),
    (lambda: PgHippocampusStore(llm="adk:nobody-1"), "LLMRegistry"),
)
def test_a_model_beside_an_engine_or_an_extractor_or_of_no_framework_is_refused(made, words):
    with pytest.raises(InvalidInput, match=words):
        made()


async def test_names_come_by_variable_and_command_line(monkeypatch, tmp_path):
    monkeypatch.setenv("HIPPOCAMPUS_LLM", "langchain:nobody:model")
    with pytest.raises(InvalidInput, match="init_chat_model makes no model of 'nobody:model'"):
        async with make_store():
            pass
    for options in ([], ["--llm", "adk:nobody-1"]):
        command = ["worker", "--once", "--uri", f"embedded://{tmp_path}", *options]
        done = CliRunner().invoke(app, command)
        assert 1 == done.exit_code
        assert (options or ["nobody:model"])[-1].removeprefix("adk:") in done.output
