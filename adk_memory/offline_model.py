"""OfflineModel: a stand-in for a language model, for agents without a key and a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from shared_core.context import offline_answer


class OfflineModel(BaseLlm):
    """Answers a question from its thread or its memories, and anything else with "Noted."

        LlmAgent(name="assistant", model=OfflineModel())

    It shows what a real model would read. It promises to carry out a request to forget. It calls
    no tools and understands nothing. It answers Chinese in Chinese.
    """

    model: str = "offline"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the one answer to a request."""
        system = llm_request.config.system_instruction
        texts = [system] if isinstance(system, str) else []
        parts = [
            (content.role, part.text or "")
            for content in llm_request.contents
            for part in content.parts or ()
        ]
        texts += [text for _, text in parts]
        said = [text for role, text in parts if role == "user"]
        yield LlmResponse(
            content=types.ModelContent(offline_answer(texts, said)),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=0, candidates_token_count=0, total_token_count=0
            ),  # ADK warns about a response without it
        )
