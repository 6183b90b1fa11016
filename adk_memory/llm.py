"""Adapts Google ADK's models to language models of the core: a BaseLlm, or a registered name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types

from shared_core.core import on_hosts_loop
from shared_core.errors import InvalidInput, MemoryCoreError
from shared_core.models import (
    Finish,
    LanguageModel,
    ModelReply,
    ModelRequest,
    coded_failure,
    model_failure,
    refuses_schema,
    shortened_message,
    strict_schema,
)

log = logging.getLogger("hippocampus")

REFUSALS = frozenset(
    (
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "OTHER",
    )
)
"""Finish and block reasons of an answer that the provider withheld."""
MAX_TOKENS = 8_192
"""Tokens of an answer where no limit is set: some models of ADK have a lower one of their own."""
CUT_OFF = "MAX_TOKENS"
"""Finish reason of a truncated answer."""


class AdkModel:
    """A BaseLlm as language model, called without streaming; it joins answers that still stream.

    Requests use the model's own client, with its key, address and retries, on the loop of the host:
    LiteLLM's callbacks live there. ADK hands a schema on as each provider takes it: to Gemini as
    response_schema, to Claude as a tool, by LiteLLM as a strict response_format, which LiteLLM
    translates for Ollama and others. After a model refuses the temperature or the schema, requests
    omit it.
    """

    def __init__(self, llm: BaseLlm) -> None:
        self._llm = llm
        self._temperature = self._schema = True
        self._checked = False
        by_litellm = any(base.__qualname__ == "LiteLlm" for base in type(llm).__mro__)
        self._is_strict = by_litellm and "gemini" not in llm.model

    @property
    def name(self) -> str:
        return self._llm.model

    def check(self) -> None:
        """Raise ModelUnavailable if the model cannot be called, e.g. for lack of a key.

        Do not call it on an event loop: a Gemini client that fails to start leaves a failing task.
        """
        if not self._checked and isinstance(self._llm, Gemini):
            try:
                _ = self._llm.api_client
            except (
                Exception
            ) as error:  # the client, or the one for its credentials, raises anything
                error.__traceback__ = None  # its frames keep the half-made client alive
                raise model_failure(self.name, error) from error
        self._checked = True

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask the model. Raises ModelUnavailable, or ModelQuotaExceeded, when it fails."""
        if not self._checked:
            await asyncio.to_thread(self.check)
        try:
            return self._reply(await on_hosts_loop(partial(self._responses, request)))
        except MemoryCoreError:
            raise
        except Exception as error:  # a provider's client raises anything
            if self._temperature and "temperature" in str(error).lower():
                self._temperature, refused = False, "temperature"
            elif self._schema and request.schema is not None and refuses_schema(error):
                self._schema, refused = False, "schema"
            else:
                raise model_failure(self.name, error) from error
            log.info("language model %s refuses a %s; requests omit it now", self.name, refused)
        return await self.complete(request)

    async def _responses(self, request: ModelRequest) -> list[LlmResponse]:
        config = types.GenerateContentConfig(
            system_instruction=request.system,
            max_output_tokens=request.max_output_tokens or MAX_TOKENS,
            temperature=request.temperature if self._temperature else None,
        )
        if request.schema is not None and self._schema:
            config.response_mime_type = "application/json"
            schema = strict_schema(request.schema) if self._is_strict else dict(request.schema)
            config.response_schema = schema
        content = types.Content(role="user", parts=[types.Part(text=request.prompt)])
        llm_request = LlmRequest(model=self._llm.model, contents=[content], config=config)
        return [response async for response in self._llm.generate_content_async(llm_request)]

    def _reply(self, responses: Sequence[LlmResponse]) -> ModelReply:
        last = next((one for one in reversed(responses) if not one.partial), None)
        whole = last is not None and _text(last)
        text = _text(last) if last and whole else "".join(_text(one) for one in responses)
        finish = _finish(responses)
        failed = next((one for one in responses if one.error_code), None)
        if failed is not None and finish == "stop":
            raise coded_failure(self.name, _word(failed.error_code), failed.error_message or "")
        used = next((one.usage_metadata for one in reversed(responses) if one.usage_metadata), None)
        return ModelReply(
            text=text,
            input_tokens=(used.prompt_token_count or 0) if used else 0,
            output_tokens=_written(used) if used else 0,
            finish=finish,
        )


def language_model(llm: BaseLlm) -> LanguageModel:
    """Return an ADK model as a language model of the core."""
    return AdkModel(llm)


def named_model(name: str) -> LanguageModel:
    """Return the model of ADK's registry for a name, e.g. "gemini-3.5-flash".

    Raises InvalidInput for an unknown name, a missing package or a missing key.
    """
    try:
        return AdkModel(LLMRegistry.new_llm(name))
    except Exception as error:  # a provider's class raises anything: no key, no package, no name
        shown = shortened_message(str(error))
        raise InvalidInput(f"ADK's LLMRegistry makes no model of {name!r}: {shown}") from error


def _text(response: LlmResponse) -> str:
    parts = response.content.parts if response.content else None
    return "".join(part.text for part in parts or () if part.text and not part.thought)


def _finish(responses: Sequence[LlmResponse]) -> Finish:
    reasons = [_word(reason) for one in responses for reason in (one.finish_reason, one.error_code)]
    if any(reason in REFUSALS for reason in reasons):
        return "refused"
    return "length" if CUT_OFF in reasons else "stop"


def _word(reason: Any) -> str:
    """Return a reason as text: the value of an enumeration, or the provider's own text."""
    return str(getattr(reason, "value", reason) or "")


def _written(used: Any) -> int:
    """Return the number of output tokens, including thinking, which is billed as well."""
    counts: Mapping[str, int | None] = {
        name: getattr(used, name, None)
        for name in ("candidates_token_count", "thoughts_token_count")
    }
    return sum(count or 0 for count in counts.values())
