"""Language models: what the core asks of one, and how one is made of what a host application has.

a model of Google ADK       BaseLlm: Gemini, LiteLlm, Claude, your own
a model of LangChain        BaseChatModel: ChatOpenAI, ChatGoogleGenerativeAI, ChatOllama, ...
"adk:MODEL"                 by name, through ADK's LLMRegistry, e.g. "adk:gemini-3.5-flash"
"langchain:PROVIDER:MODEL"  by name, through LangChain's init_chat_model
a function                  prompt -> answer, sync or async
a LanguageModel             as below

The project has no client of its own: keys, addresses, retries and proxies are the host's.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from shared_core.core.domain import JsonValue
from shared_core.errors import InvalidInput, MemoryCoreError, ModelOutputInvalid
from shared_core.models.failures import model_failure

Finish = Literal["stop", "length", "refused"]
PromptFunction: TypeAlias = Callable[[str], "str | Awaitable[str]"]

ADAPTERS: Mapping[str, str] = {
    "google.adk.models.base_llm.BaseLlm": "adk_memory.llm",
    "langchain_core.language_models.chat_models.BaseChatModel": "langgraph_store.llm",
}
"""Base classes of hosts by name, and the module whose language_model() wraps one."""

NAMED: Mapping[str, str] = {"adk": "adk_memory.llm", "langchain": "langgraph_store.llm"}
"""What may stand before the name of a model, and the module whose named_model() makes it."""

EXTRAS: Mapping[str, str] = {"adk_memory.llm": "adk", "langgraph_store.llm": "langchain"}
"""What to install for a module above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a language model.

    schema: the JSON Schema of the answer: type, properties, required, items, enum and description
    only, no references, with a title; None for plain text. A model that cannot be held to a schema
    gets the prompt alone, which describes the same. max_output_tokens, temperature: what adapters
    pass on where the host's object leaves it to the request.
    """

    system: str
    prompt: str
    schema: Mapping[str, JsonValue] | None = None
    max_output_tokens: int = 8192
    temperature: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The answer of a language model.

    finish: "length" if it was cut off at the limit of tokens, "refused" if the model or a filter
    would not answer. Tokens are 0 where the host does not tell.
    """

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    finish: Finish = "stop"


@runtime_checkable
class LanguageModel(Protocol):
    """Answers a prompt with text.

    name says which model, and is stored with what it found. Raise ModelQuotaExceeded when it takes
    no more for now, and ModelUnavailable when it fails otherwise.
    """

    @property
    def name(self) -> str: ...

    async def complete(self, request: ModelRequest) -> ModelReply: ...


def resolve_language_model(llm: object) -> LanguageModel:
    """Return the language model that the argument `llm` names; asks it nothing yet.

    Raises InvalidInput for something that is none of the forms above.
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
        f"llm {_shown(llm)} is of no known form: give a model of Google ADK (BaseLlm) or LangChain"
        " (BaseChatModel), 'adk:MODEL', 'langchain:PROVIDER:MODEL', or a sync or async function"
        " from a prompt to an answer"
    )


@runtime_checkable
class CheckedModel(Protocol):
    """A language model that knows before it is asked whether something is missing."""

    def check(self) -> None:
        """Raise ModelUnavailable if it cannot be asked, for want of a key for example."""
        ...


def ready_language_model(llm: object) -> LanguageModel:
    """Return the language model that the argument `llm` names, if it can be asked; asks nothing.

    Raises InvalidInput as resolve_language_model does, and ModelUnavailable where it is known that
    the model would fail: without a key. Not on an event loop.
    """
    model = resolve_language_model(llm)
    if isinstance(model, CheckedModel):
        model.check()
    return model


class FunctionModel:
    """Any function from a prompt to an answer, sync or async; a sync one runs in a thread.

    name is stored with what it found; left out, it is the name of the function.
    """

    def __init__(self, function: PromptFunction, *, name: str | None = None) -> None:
        described = getattr(function, "__qualname__", type(function).__qualname__)
        self.name = name or f"{getattr(function, '__module__', '')}.{described}"
        self._function = function

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask the function; it gets the system text and the prompt as one."""
        prompt = f"{request.system}\n\n{request.prompt}"
        try:
            if inspect.iscoroutinefunction(self._function):
                answer = await self._function(prompt)
            else:
                answer = await asyncio.to_thread(self._function, prompt)
                if inspect.isawaitable(answer):
                    answer = await answer
        except MemoryCoreError:
            raise
        except Exception as error:  # a stranger's code: anything may come out
            raise model_failure(self.name, error) from error
        if not isinstance(answer, str):
            raise ModelOutputInvalid(
                f"{self.name} returned {type(answer).__name__}: it must return its answer as text"
            )
        return ModelReply(text=answer)


class _Adapter(Protocol):
    """A module of a face that makes language models of its framework's."""

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
    """Return a name with a host before it, where it has none; anything else as it is.

    For the faces: a bare name is one of their own framework's.
    """
    if isinstance(llm, str) and llm and llm.partition(":")[0] not in NAMED:
        return f"{host}:{llm}"
    return llm


def _shown(llm: object) -> str:
    """Return a name of what was given, and no attribute of it: there may be a key in one."""
    return repr(llm) if isinstance(llm, str) else f"of type {type(llm).__qualname__}"
