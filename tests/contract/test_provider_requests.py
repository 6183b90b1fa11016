"""Tier "fake": the clients of providers against a server on loopback: what was sent to each."""

import asyncio
import gc
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.genai import types
from waiting import until

from shared_core import ModelKeyRefused
from shared_core.core.event_loops import note_hosts_loop
from shared_core.models.call_limits import ModelCalls
from shared_core.models.language_model import ModelReply, ModelRequest, resolve_language_model

pytestmark = pytest.mark.filterwarnings(
    "ignore:Items? .* on TypedDict class:UserWarning", "ignore:Pydantic serializer:UserWarning"
)  # of LiteLLM

WORD: Any = {"type": "string", "enum": ["add", "end"]}
PLAIN: Any = {
    "title": "Answer", "type": "object", "required": ["op"],
    "properties": {"op": WORD, "id": {"type": "string"}},
}  # fmt: skip
STRICT = {
    "title": "Answer", "type": "object", "required": ["op", "id"], "additionalProperties": False,
    "properties": PLAIN["properties"],
}  # fmt: skip
REQUEST = ModelRequest(system="Be brief.", prompt="Go.", schema=PLAIN, max_output_tokens=77)
ANSWER = {"op": "end"}
TEXT = json.dumps(ANSWER)
CALL = {"type": "tool_use", "id": "t", "name": "Answer", "input": ANSWER}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "c",
           "usage": {"input_tokens": 3, "output_tokens": 2}}  # fmt: skip
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}


class Provider:
    """Answers as OpenAI, Anthropic and Gemini do. refuses: a status, and parameters it refuses."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.refuses: tuple[int, tuple[str, ...]] = (400, ())
        self.ends = {"/messages": "end_turn", "/completions": "stop", "/gemini": "STOP"}

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.sent.append(body)
        status, parameters = self.refuses
        if refused := [name for name in parameters if name in body]:
            return status, {"error": {"message": f"unknown parameter {refused[0]}", "code": status}}
        if path == "/api/chat":
            reason = {"done": True, "done_reason": self.ends["/completions"]}
            return 200, {"model": "m", "message": {"role": "assistant", "content": TEXT}} | reason
        if path.endswith(":generateContent"):
            content = {"role": "model", "parts": [{"text": TEXT}]}
            return 200, {"candidates": [{"content": content, "finishReason": self.ends["/gemini"]}]}
        if path.endswith("/messages"):
            named = body.get("tool_choice", {}).get("name")
            content = CALL | {"name": named} if named else {"type": "text", "text": TEXT}
            return 200, MESSAGE | {"content": [content], "stop_reason": self.ends["/messages"]}
        message = {"role": "assistant", "content": TEXT}
        choice = {"index": 0, "message": message, "finish_reason": self.ends["/completions"]}
        return 200, CHAT | {"choices": [choice]}


@pytest.fixture
def provider():
    playing = Provider()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, answer = playing.answer(self.path.partition("?")[0], body)
            written = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    playing.url = f"http://127.0.0.1:{server.server_port}"
    yield playing
    server.shutdown()
    server.server_close()


# Clients take seconds to import, and each worker imports this module.


def openai(url: str) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="m", base_url=f"{url}/v1", api_key="k", max_retries=0)


def claude(url: str, model: str = "claude-haiku-4-5-20251001") -> Any:
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model=model, base_url=url, api_key="k", max_retries=0)


def adk_claude(url: str) -> Any:
    from anthropic import AsyncAnthropic
    from google.adk.models.anthropic_llm import AnthropicLlm

    return AnthropicLlm(model="claude-x", client=AsyncAnthropic(api_key="k", base_url=url))


def adk_gemini(url: str) -> Any:
    return Gemini(model="gemini-x", base_url=url)


def google(url: str) -> Any:
    from langchain_google_genai import ChatGoogleGenerativeAI

    return ChatGoogleGenerativeAI(model="gemini-x", base_url=url, api_key="k", max_retries=1)


def ollama(url: str) -> Any:
    from langchain_ollama import ChatOllama

    return ChatOllama(model="m", base_url=url)


def by_litellm(url: str) -> Any:
    from google.adk.models.lite_llm import LiteLlm

    return LiteLlm("openai/m", api_base=f"{url}/v1", api_key="k", max_retries=0)


def strict(body: dict[str, Any]) -> bool:
    form = body["response_format"]
    schema = form["json_schema"].pop("schema")
    schema["required"] = [one for one in STRICT["required"] if one in schema["required"]]
    expected = {"type": "json_schema", "json_schema": {"name": "Answer", "strict": True}}
    return expected == form and STRICT == schema | {"title": "Answer"}


def tool(body: dict[str, Any]) -> bool:
    [offered] = body["tools"]
    forced = {"type": "tool", "name": offered["name"]}
    required = offered["input_schema"]["required"]
    return forced.items() <= body["tool_choice"].items() and ["op"] == required


def output_config(body: dict[str, Any]) -> bool:
    return ["op"] == body["output_config"]["format"]["schema"]["required"] and "tools" not in body


def subset(body: dict[str, Any]) -> bool:
    config = body["generationConfig"]
    schema = config.get("responseSchema") or config["responseJsonSchema"]
    sent = config["responseMimeType"], schema["required"]
    return ("application/json", ["op"]) == sent and "additionalProperties" not in json.dumps(body)


def form_of_ollama(body: dict[str, Any]) -> bool:
    return ["op"] == body["format"]["required"] and "strict" not in json.dumps(body)


LIMITS = ("num_predict", "max_completion_tokens", "max_tokens", "maxOutputTokens")


@pytest.mark.parametrize(("made", "form"), [
    (openai, strict), (by_litellm, strict), (claude, tool), (adk_claude, tool),
    (lambda url: claude(url, "claude-sonnet-5"), output_config), (adk_gemini, subset),
    (google, subset), (ollama, form_of_ollama),
])  # fmt: skip
async def test_each_provider_is_sent_the_schema_as_it_takes_it(provider, made, form, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    reply = await resolve_language_model(made(provider.url)).complete(REQUEST)
    assert (ANSWER, "stop") == (json.loads(reply.text), reply.finish)
    [body] = provider.sent
    sent = body | body.get("generationConfig", {}) | body.get("options", {})
    assert [77] == [sent[name] for name in LIMITS if name in sent]
    assert form(body)


async def test_what_a_provider_refuses_is_left_out_from_then_on(provider):
    provider.refuses = 400, ("response_format", "tools")
    model = resolve_language_model(openai(provider.url))
    for _ in range(2):
        assert ModelReply(text=TEXT) == await model.complete(REQUEST)
    forms = [body.get("response_format", {}).get("type", "tools" in body) for body in provider.sent]
    assert ["json_schema", True, "json_object", False, False] == forms


@pytest.mark.parametrize("made", [
    openai, claude, adk_claude, adk_gemini, by_litellm, google, ollama
])  # fmt: skip
async def test_each_provider_may_cut_an_answer_off_or_refuse_the_key(provider, made, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    provider.ends = {
        "/messages": "max_tokens", "/completions": "length", "/gemini": "MAX_TOKENS"
    }  # fmt: skip
    reply = await resolve_language_model(made(provider.url)).complete(REQUEST)
    assert (TEXT, "length") == (reply.text, reply.finish)
    for status in (401, 403):
        provider.refuses = status, ("messages", "contents")
        with pytest.raises(ModelKeyRefused, match=f"status {status}, no valid key"):
            await resolve_language_model(made(provider.url)).complete(REQUEST)


async def test_litellm_keeps_its_callbacks_between_calls_of_an_agent(provider, monkeypatch, caplog):
    import litellm
    from litellm.integrations.custom_logger import CustomLogger

    class Noting(CustomLogger):
        async def async_log_success_event(self, *_: object, **__: object) -> None:
            noted.append(asyncio.get_running_loop())

    noted: list[object] = []
    monkeypatch.setattr(litellm, "callbacks", [Noting()])
    llm = by_litellm(provider.url)
    asked = LlmRequest(contents=[types.UserContent("Hello")])
    calls = ModelCalls(resolve_language_model(llm))
    note_hosts_loop()
    for _ in range(3):
        assert [answer async for answer in llm.generate_content_async(asked)]
        await calls.complete(REQUEST)
    await until(lambda: len(noted) >= 6)
    gc.collect()
    assert {asyncio.get_running_loop()} == set(noted)
    assert "Task was destroyed" not in caplog.text
