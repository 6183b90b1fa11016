"""OfflineModel: a stand-in for a language model, for agents without a key and a network."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Final

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from shared_core.context import offline_answer

OTHER_AGENT: Final = "For context:"
RELAYED: Final = re.compile(r"\[[^\]\n]+\] (?:said|thought|called tool|`)")
"""How the first and the further parts begin in which ADK quotes another agent to this one.

It gives them the role "user". A user's message may begin with the first as well.
"""
INSTRUCTION: Final = "<<<BEGIN_SYSTEM_INSTRUCTION>>>"
"""Marks the instruction that ADK puts among the user's messages, beside a static one."""


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
        contents = [one for one in llm_request.contents if not _is_of_another_agent(one)]
        parts = [(one.role, part.text or "") for one in contents for part in one.parts or ()]
        texts += [text for _, text in parts]
        said = [text for role, text in parts if role == "user" and INSTRUCTION not in text]
        yield LlmResponse(
            content=types.ModelContent(offline_answer(texts, said)),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=0, candidates_token_count=0, total_token_count=0
            ),  # ADK warns about a response without it
        )


def _is_of_another_agent(content: types.Content) -> bool:
    texts = [part.text or "" for part in content.parts or ()]
    return bool(texts) and texts[0].startswith(OTHER_AGENT) and any(map(RELAYED.match, texts[1:]))
