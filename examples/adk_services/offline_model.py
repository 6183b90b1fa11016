"""A stand-in for a language model, so that the agents run without a key and without a network.

It answers a question with the first memory in the request that is not itself a question, and any
other message with "Noted."
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

BLOCK = re.compile(r"<(PAST_CONVERSATIONS|MEMORIES)>\n(.*?)</\1>", re.DOTALL)


class EchoesMemory(BaseLlm):
    """Quotes a memory that preload_memory or the plugin put into the request."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        texts = [
            part.text or "" for content in llm_request.contents for part in content.parts or ()
        ]
        memories = [
            line
            for _, block in BLOCK.findall("\n".join(texts))
            for line in block.splitlines()
            if not line.startswith("Time: ") and not line.endswith("?")
        ]
        if not texts[-1].endswith("?"):
            answer = "Noted."
        elif memories:
            answer = f"I remember: {memories[0]}"
        else:
            answer = "I remember nothing about that."
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=answer)]))
