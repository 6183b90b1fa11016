"""Stand-ins for a language model, so that the examples run without a key and without a network.

They are no language models: they understand nothing. They answer a question by quoting the first
memory they are shown that is no question, and all else with "Noted." With GOOGLE_API_KEY set, the
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


def model_for_adk() -> str | BaseLlm:
    """Return Gemini when its key is in the environment, else the stand-in."""
    return GEMINI if os.environ.get("GOOGLE_API_KEY") else EchoesMemoryLlm(model="echoes-memory")


def model_for_langgraph() -> BaseChatModel:
    """Return Gemini when its key and its LangChain packages are there, else the stand-in."""
    installed = all(map(importlib.util.find_spec, ("langchain", "langchain_google_genai")))
    if os.environ.get("GOOGLE_API_KEY") and installed:
        from langchain.chat_models import (  # type: ignore[import-not-found,unused-ignore]
            init_chat_model,
        )

        model: BaseChatModel = init_chat_model(f"google_genai:{GEMINI}")
        return model
    return EchoesMemoryChatModel()


class EchoesMemoryLlm(BaseLlm):
    """No language model: quotes a line of what ADK's preload_memory put into the request."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        shown = "\n".join(
            part.text or "" for content in llm_request.contents for part in content.parts or ()
        )
        block = re.search(r"<PAST_CONVERSATIONS>\n(.*?)</PAST_CONVERSATIONS>", shown, re.DOTALL)
        lines = block[1].splitlines() if block else []
        memories = [line for line in lines if not line.startswith("Time: ")]
        text = _echo(shown, memories)
        yield LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text=text)]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=0, candidates_token_count=0, total_token_count=0
            ),
        )


class EchoesMemoryChatModel(BaseChatModel):
    """No language model: quotes a "- " line of the system messages."""

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
        told = [str(message.text) for message in messages if isinstance(message, SystemMessage)]
        lines = [line for text in told for line in text.splitlines()]
        memories = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
        text = _echo(str(messages[-1].text), memories)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def _echo(asked: str, memories: list[str]) -> str:
    if not _is_question(asked):
        return "Noted."
    told = [memory for memory in memories if not _is_question(memory)]
    return f'I remember: "{told[0]}"' if told else "I remember nothing about that."


def _is_question(text: str) -> bool:
    return text.rstrip().endswith(("?", "？"))
