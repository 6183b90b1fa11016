"""Stand-ins for a language model, so that the examples run without a key and without a network.

They answer a question with the first memory in the request that is not itself a question. Their
answer to any other message is "Noted". If the agent has the tools, the model for ADK calls
`remember` on a request to remember, and `load_memory` for a question. With GOOGLE_API_KEY set, the
examples use Gemini instead.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult

GEMINI = "gemini-3.5-flash"

BLOCK = re.compile(r"<(PAST_CONVERSATIONS|MEMORIES)>\n(.*?)</\1>", re.DOTALL)
"""The tags around memories, from ADK's preload_memory and from our plugin."""


def model_for_adk() -> str | BaseLlm:
    """Return Gemini if its key is in the environment, else the stand-in."""
    return GEMINI if os.environ.get("GOOGLE_API_KEY") else EchoesMemoryLlm(model="echoes-memory")


def model_for_langgraph() -> BaseChatModel:
    """Return Gemini if its key and its LangChain packages are available, else the stand-in."""
    installed = all(map(importlib.util.find_spec, ("langchain", "langchain_google_genai")))
    if os.environ.get("GOOGLE_API_KEY") and installed:
        from langchain import chat_models  # type: ignore[import-not-found,unused-ignore]

        model: BaseChatModel = chat_models.init_chat_model(f"google_genai:{GEMINI}")
        return model
    return EchoesMemoryChatModel()


class EchoesMemoryLlm(BaseLlm):
    """Quotes a memory that preload_memory, a plugin or a tool put into the request."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(
            content=types.Content(role="model", parts=[self._answer(llm_request)]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=0, candidates_token_count=0, total_token_count=0
            ),
        )

    def _answer(self, request: LlmRequest) -> types.Part:
        message = _message(request)
        response = _response(request)
        match = re.match(r"Please remember: (.*)", message)
        if response and response.name == "remember":
            return types.Part(text="I will remember that.")
        if match and "remember" in request.tools_dict:
            return types.Part.from_function_call(name="remember", args={"text": match[1]})
        if _is_question(message) and "load_memory" in request.tools_dict and not response:
            return types.Part.from_function_call(name="load_memory", args={"query": message})
        return types.Part(text=_echo(message, [*_shown(request), *_found(response)]))


def _message(request: LlmRequest) -> str:
    """Return the last text of the user that is not a block of recalled memories."""
    texts = [
        part.text
        for content in request.contents
        if content.role == "user"
        for part in content.parts or ()
        if part.text and not BLOCK.search(part.text)
    ]
    return texts[-1] if texts else ""


def _response(request: LlmRequest) -> types.FunctionResponse | None:
    """Return the response of the last tool call, if it is of this turn."""
    parts = request.contents[-1].parts or []
    responses = [part.function_response for part in parts if part.function_response]
    if not responses and len(request.contents) > 1 and BLOCK.search(parts[-1].text or ""):
        before = request.contents[-2].parts or []
        responses = [part.function_response for part in before if part.function_response]
    return responses[-1] if responses else None


def _shown(request: LlmRequest) -> list[str]:
    """Return the lines that preload_memory or a plugin put into the request."""
    texts = [part.text or "" for content in request.contents for part in content.parts or ()]
    blocks = [match for text in texts for match in BLOCK.findall(text)]
    lines = [line for _, block in blocks for line in block.splitlines()]
    return [re.sub(r"^- \[.*?\] ", "", line) for line in lines if not line.startswith("Time: ")]


def _found(response: types.FunctionResponse | None) -> list[str]:
    """Return the texts that load_memory found."""
    found = (response.response or {}).get("result") if response else None
    memories = getattr(found, "memories", ())
    return [part.text for memory in memories for part in memory.content.parts if part.text]


class EchoesMemoryChatModel(BaseChatModel):
    """Quotes a "- " line of the system messages."""

    @property
    def _llm_type(self) -> str:
        return "echoes-memory"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        prompts = [str(message.text) for message in messages if isinstance(message, SystemMessage)]
        lines = [line for text in prompts for line in text.splitlines()]
        memories = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
        text = _echo(str(messages[-1].text), memories)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def _echo(message: str, memories: list[str]) -> str:
    if not _is_question(message):
        return "Noted."
    facts = [memory for memory in memories if not _is_question(memory)]
    return f'I remember: "{facts[0]}"' if facts else "I remember nothing about that."


def _is_question(text: str) -> bool:
    return text.rstrip().endswith(("?", "？"))
