"""A stand-in for a language model: agents remember and answer without a key and a network."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Final

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

TAG: Final = re.compile(r"<(PAST_CONVERSATIONS|MEMORIES)>\n")
"""Begins memories, from ADK's preload_memory or from our plugin; `</...>` ends them."""
LINE_LABEL: Final = re.compile(r"^- \[[^\]]*\] ")
QUESTION_MARKS: Final = ("?", "？")
HAN: Final = re.compile(r"[\u4e00-\u9fff]")
ANSWERS: Final = ("I remember", "我记得", "这件事我不记得")
"""How its own answers begin. They become memories too, and say nothing new."""


class QuotesMemory(BaseLlm):
    """Answers a question with the first memory that is neither a question nor an answer of its own.

    It says "Noted." to any other message, and answers Chinese in Chinese.
    """

    model: str = "quotes-memory"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the one answer to a request."""
        texts = [
            part.text or "" for content in llm_request.contents for part in content.parts or ()
        ]
        answer = answer_of(texts)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=answer)]))


def answer_of(texts: list[str]) -> str:
    """Return the answer to the texts of a request, the user's message last."""
    message = next((text for text in reversed(texts) if not blocks_of(text)), "").strip()
    is_chinese = HAN.search(message) is not None
    if not message.endswith(QUESTION_MARKS):
        return "好的，记住了。" if is_chinese else "Noted."
    lines = [
        LINE_LABEL.sub("", line)
        for block in blocks_of("\n".join(texts))
        for line in block.splitlines()
        if line.strip() and not line.startswith("Time: ")
    ]
    memories = [
        line
        for line in lines
        if not line.rstrip().endswith(QUESTION_MARKS) and not line.startswith(ANSWERS)
    ]
    if not memories:
        return "这件事我不记得。" if is_chinese else "I remember nothing about that."
    return f"我记得：{memories[0]}" if is_chinese else f"I remember: {memories[0]}"


def blocks_of(text: str) -> list[str]:
    """Return what stands between the tags around memories."""
    found = []
    unclosed = set()
    place = 0
    while tag := TAG.search(text, place):
        place = tag.end()
        end = -1 if tag[1] in unclosed else text.find(f"</{tag[1]}>", place)
        if end < 0:
            unclosed.add(tag[1])  # looking once is enough, however often it begins
            continue
        found.append(text[place:end])
        place = end
    return found
