"""The language model port, and how a host application's model becomes one.

a model of Google ADK       BaseLlm: Gemini, LiteLlm, Claude, your own
a model of LangChain        BaseChatModel: ChatOpenAI, ChatGoogleGenerativeAI, ChatOllama, ...
"adk:MODEL"                 by name, through ADK's LLMRegistry, e.g. "adk:gemini-3.5-flash"
"langchain:PROVIDER:MODEL"  by name, through LangChain's init_chat_model
a function                  prompt -> answer, sync or async
a LanguageModel             see below

The project has no model client of its own: keys, addresses, retries and proxies belong to the host.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from shared_core.core.domain import JsonValue
from shared_core.core.event_loops import on_hosts_loop
from shared_core.core.model_names import NAMED
from shared_core.errors import InvalidInput, MemoryCoreError, ModelOutputInvalid
from shared_core.models.failures import model_failure

Finish = Literal["stop", "length", "refused"]
PromptFunction: TypeAlias = Callable[[str], "str | Awaitable[str]"]

ADAPTERS: Mapping[str, str] = {
    "google.adk.models.base_llm.BaseLlm": "adk_memory.llm",
    "langchain_core.language_models.chat_models.BaseChatModel": "langgraph_store.llm",
}
"""Base class of a host's models, and the module whose language_model() wraps one."""

EXTRAS: Mapping[str, str] = {"adk_memory.llm": "adk", "langgraph_store.llm": "langchain"}
"""The extra to install for each of these modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a language model.

    system: Instructions. prompt: The request itself. schema: JSON Schema of the answer, or None for
    plain text. It has a title, no references, and only type, properties, required, items, enum and
    description. The prompt describes the same, for models without structured output.
    max_output_tokens: Maximum tokens of the answer; None leaves it to the host's object.
    temperature: Passed on by adapters if the host's object leaves it open.
    """

    system: str
    prompt: str
    schema: Mapping[str, JsonValue] | None = None
    max_output_tokens: int | None = None
    temperature: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The answer of a language model.

    finish: "length" if the token limit truncated it, "refused" if the model or a filter declined.
    Tokens are 0 if the host does not report them.
    """

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    finish: Finish = "stop"


@runtime_checkable
class LanguageModel(Protocol):
    """Answers a prompt with text.

    name identifies the model and is stored with its results. Raise ModelQuotaExceeded for an
    exceeded quota and ModelUnavailable for any other failure.
    """

    @property
    def name(self) -> str: ...

    async def complete(self, request: ModelRequest) -> ModelReply: ...


def resolve_language_model(llm: object) -> LanguageModel:
    """Return the language model for the argument `llm`, without calling it.

    Raises InvalidInput for an unsupported value.
    """
    if isinstance(llm, str):
        before, _, name = llm.partition(":")
        if before in NAMED and name:
            return _adapter(NAMED[before]).named_model(name)
    for base in type(llm).__mro__:
        if module := ADAPTERS.get(f"{base.__module__}.{base.__qualname__}"):
            return _adapter(module).language_model(llm)
    if isinstance(llm, LanguageModel) and inspect.iscoroutinefunction(llm.complete):
        return llm
    if callable(llm) and not isinstance(llm, type):
        return FunctionModel(cast(PromptFunction, llm))
    raise InvalidInput(
        f"llm {_shown(llm)} is not supported: give a model of Google ADK (BaseLlm) or LangChain"
        " (BaseChatModel), 'adk:MODEL', 'langchain:PROVIDER:MODEL', or a sync or async function"
        " from a prompt to an answer"
    )


@runtime_checkable
class CheckedModel(Protocol):
    """A language model that can tell before a call whether something is missing."""

    def check(self) -> None:
        """Raise ModelUnavailable if it cannot be called, for example without a key."""
        ...


def ready_language_model(llm: object) -> LanguageModel:
    """Return the language model for the argument `llm` if it is ready, without calling it.

    Raises InvalidInput like resolve_language_model, and ModelUnavailable if a call would fail, for
    example without a key. Do not call it on an event loop.
    """
    model = resolve_language_model(llm)
    if isinstance(model, CheckedModel):
        model.check()
    return model


class FunctionModel:
    """Any function from a prompt to an answer, sync or async; a sync one runs in a thread.

    name is stored with its results; the default is the function's name.
    """

    def __init__(self, function: PromptFunction, *, name: str | None = None) -> None:
        described = getattr(function, "__qualname__", type(function).__qualname__)
        self.name = name or f"{getattr(function, '__module__', '')}.{described}"
        self._function = function

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Call the function with the system text and the prompt as one text."""
        prompt = f"{request.system}\n\n{request.prompt}"
        try:
            if inspect.iscoroutinefunction(self._function):
                answer = await on_hosts_loop(partial(self._function, prompt))
            else:
                answer = await asyncio.to_thread(self._function, prompt)
                if inspect.isawaitable(answer):
                    answer = await answer
        except MemoryCoreError:
            raise
        except Exception as error:  # foreign code may raise anything
            raise model_failure(self.name, error) from error
        if not isinstance(answer, str):
            raise ModelOutputInvalid(
                f"{self.name} must return its answer as a string, got {type(answer).__name__}"
            )
        return ModelReply(text=answer)


class _Adapter(Protocol):
    """A module that wraps the language models of a framework."""

    def language_model(self, llm: Any) -> LanguageModel: ...
    def named_model(self, name: str) -> LanguageModel: ...


def _adapter(module: str) -> _Adapter:
    try:
        return cast(_Adapter, import_module(module))
    except ImportError as error:
        raise InvalidInput(
            f"this llm needs a package that is not installed ({error}): pip install"
            f" 'pg-hippocampus[{EXTRAS[module]}]'"
        ) from error


def hosted(llm: object, host: str) -> object:
    """Return a bare model name with the host as prefix; anything else unchanged.

    For the faces: a bare name belongs to their own framework.
    """
    if isinstance(llm, str) and llm and llm.partition(":")[0] not in NAMED:
        return f"{host}:{llm}"
    return llm


def _shown(llm: object) -> str:
    """Return a description without attributes, because one may hold a key."""
    return repr(llm) if isinstance(llm, str) else f"of type {type(llm).__qualname__}"
