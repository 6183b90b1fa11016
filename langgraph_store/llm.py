"""Adapts LangChain's chat models, tokenizers and document compressors to the core."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable

from shared_core.core import on_hosts_loop
from shared_core.errors import InvalidInput, MemoryCoreError
from shared_core.models import (
    Finish,
    LanguageModel,
    ModelReply,
    ModelRequest,
    model_failure,
    refuses_schema,
    shortened_message,
    strict_schema,
)
from shared_core.nlp import TokenCounter

log = logging.getLogger("hippocampus")

MODEL_ATTRIBUTES = ("model_name", "model", "model_id", "deployment_name")
"""Attributes that may hold the name of a LangChain model."""
METHODS = {"json_schema": "structured_output", "function_calling": "tool_calling", "json_mode": ""}
"""Methods of structured output, best first, and where a model's profile says that it has one."""
LIMITS = ("max_tokens", "max_output_tokens", "num_predict")
"""Attributes that may limit the tokens of an answer."""
REFUSALS = frozenset(("content_filter", "refusal", "safety", "prohibited_content", "blocklist"))
PLACE = "hippocampus_place"
"""Metadata key for the index of a text: compressors reorder, drop and copy documents."""
SCORE = "relevance_score"
"""Metadata key in which LangChain's rerankers put the score of a document."""
CUT_OFF = frozenset(("length", "max_tokens", "max_output_tokens"))


class LangChainModel:
    """A BaseChatModel as language model, with structured output where it supports that.

    The model's class and its profile decide the form of a schema: a JSON Schema, strict if the
    class has that option (OpenAI); a tool (Claude); JSON mode; or the prompt alone. If a provider
    refuses one form, requests take the next. The temperature stays the model's own. Calls use the
    sync methods in a thread. LangChain shares async clients with the agent's event loop, and they
    fail on a second loop.
    """

    def __init__(self, llm: BaseChatModel) -> None:
        self._llm = llm
        named = (getattr(llm, attribute, None) for attribute in MODEL_ATTRIBUTES)
        name = next((one for one in named if isinstance(one, str) and one), None)
        self._name = name or type(llm).__name__
        self._methods = _methods_of(llm)

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the model's reply. Raises ModelUnavailable or ModelQuotaExceeded if it fails."""
        messages = [SystemMessage(request.system), HumanMessage(request.prompt)]
        try:
            return _reply(await _invoked(self._bound(request), messages))
        except MemoryCoreError:
            raise
        except Exception as error:  # a provider's client raises anything
            if (cut := _cut_off(error)) is not None:
                return cut
            if request.schema is None or not self._methods or not refuses_schema(error):
                raise model_failure(self.name, error) from error
        log.info("language model %s refuses %s; requests omit it now", self.name, self._methods[0])
        self._methods = self._methods[1:]
        return await self.complete(request)

    def _bound(self, request: ModelRequest) -> Runnable[Any, Any]:
        """Return the model with structured output and its raw reply, or the model itself."""
        llm = _limited(self._llm, request.max_output_tokens)
        while request.schema is not None and self._methods:
            method, schema, options = self._methods[0], dict(request.schema), dict[str, Any]()
            if (
                method == "json_schema"
                and "strict" in signature(llm.with_structured_output).parameters
            ):
                schema, options = strict_schema(schema), {"strict": True}
            try:
                return llm.with_structured_output(
                    schema, method=method, include_raw=True, **options
                )
            except (NotImplementedError, TypeError, ValueError):  # the model lacks this method
                self._methods = self._methods[1:]
        return llm


def language_model(llm: BaseChatModel) -> LanguageModel:
    """Return a LangChain model as a language model of the core."""
    return LangChainModel(llm)


def named_model(name: str) -> LanguageModel:
    """Return the model of LangChain's init_chat_model for "provider:model".

    Raises InvalidInput for an unknown name, a missing package or a missing key.
    """
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise InvalidInput(
            f"llm {name!r} by name needs LangChain: pip install 'pg-hippocampus[langchain]', or"
            " give the model itself"
        ) from error
    try:
        return LangChainModel(init_chat_model(name))
    except Exception as error:  # a provider's class raises anything: no key, no package, no name
        shown = shortened_message(str(error))
        raise InvalidInput(f"init_chat_model makes no model of {name!r}: {shown}") from error


def _methods_of(llm: BaseChatModel) -> Sequence[str]:
    """Return the methods of structured output that a model offers, best first."""
    if type(llm).with_structured_output is BaseChatModel.with_structured_output:
        # The inherited one calls a tool, whatever the method.
        own_tools = type(llm).bind_tools is not BaseChatModel.bind_tools
        return ["function_calling"] if own_tools else []
    profile: Mapping[str, Any] = getattr(llm, "profile", None) or {}
    return [method for method, feature in METHODS.items() if profile.get(feature, True)]


def _limited(llm: BaseChatModel, max_tokens: int | None) -> BaseChatModel:
    """Return a model that answers with at most max_tokens tokens; None keeps its own limit."""
    name = next((one for one in LIMITS if one in type(llm).model_fields), None)
    if max_tokens is None or name is None:
        return llm
    return llm.model_copy(update={name: max_tokens})


async def _invoked(runnable: Runnable[Any, Any], messages: list[Any]) -> Any:
    try:
        return await asyncio.to_thread(runnable.invoke, messages)
    except NotImplementedError:  # the model has async methods only
        return await on_hosts_loop(partial(runnable.ainvoke, messages))


def _reply(answer: Any) -> ModelReply:
    message = answer["raw"] if isinstance(answer, Mapping) else answer
    if not isinstance(message, AIMessage):
        return ModelReply(text="")
    used = message.usage_metadata
    refusal = message.additional_kwargs.get("refusal")
    return ModelReply(
        text=_text(message),
        input_tokens=used["input_tokens"] if used else 0,
        output_tokens=used["output_tokens"] if used else 0,
        finish="refused" if refusal else _finish(message.response_metadata),
    )


def _text(message: AIMessage) -> str:
    """Return the text of a message, or the arguments if it calls the schema as a tool."""
    if message.text.strip() or not message.tool_calls:
        return message.text
    return json.dumps(message.tool_calls[0]["args"], ensure_ascii=False)


def _finish(metadata: Mapping[str, Any]) -> Finish:
    names = ("finish_reason", "stop_reason", "done_reason")
    reasons = {str(metadata.get(name) or "").lower() for name in names}
    if reasons & REFUSALS:
        return "refused"
    return "length" if reasons & CUT_OFF else "stop"


def _cut_off(error: Exception) -> ModelReply | None:
    """Return the partial reply in an error of OpenAI's client: truncated or filtered, or None."""
    completion = getattr(error, "completion", None)
    choices = getattr(completion, "choices", None)
    if not choices:
        return None
    used = getattr(completion, "usage", None)
    return ModelReply(
        text=str(getattr(choices[0].message, "content", "") or ""),
        input_tokens=getattr(used, "prompt_tokens", 0) or 0,
        output_tokens=getattr(used, "completion_tokens", 0) or 0,
        finish=_finish({"finish_reason": choices[0].finish_reason}),
    )


def model_tokens(model: BaseLanguageModel[Any]) -> TokenCounter:
    """Return a token counter that calls get_num_tokens of a LangChain model.

    Many models count offline. Some call their provider for every text. Models without a tokenizer
    use GPT-2's, which needs `transformers`: see your model's integration.
    """
    count = getattr(model, "get_num_tokens", None)
    if not callable(count):
        raise InvalidInput(
            f"{type(model).__name__} has no get_num_tokens: give a LangChain model, or a"
            " function that returns the number of tokens of a text"
        )

    def counted(text: str) -> int:
        return int(count(text))

    counted.__qualname__ = f"{type(model).__qualname__}.get_num_tokens"
    return counted


class CompressorReranker:
    """A BaseDocumentCompressor as reranker; its sync method runs in a thread.

    Scores come from the metadata of the documents, else from their order. A dropped document
    scores below all others.
    """

    def __init__(self, compressor: BaseDocumentCompressor) -> None:
        self._compressor = compressor

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a score for each text."""
        documents = [
            Document(page_content=text, metadata={PLACE: place}) for place, text in enumerate(texts)
        ]
        kept = await asyncio.to_thread(self._compressor.compress_documents, documents, query)
        found = [document.metadata.get(SCORE) for document in kept]
        known = [float(score) for score in found if score is not None]
        if len(known) < len(kept):
            known = [float(len(kept) - place) for place in range(len(kept))]
        scores = [min(known, default=0.0) - 1.0] * len(texts)
        for document, score in zip(kept, known, strict=True):
            scores[document.metadata[PLACE]] = score
        return scores


def reranker(compressor: BaseDocumentCompressor) -> CompressorReranker:
    """Return a document compressor as a reranker."""
    return CompressorReranker(compressor)
