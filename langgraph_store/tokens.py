"""The tokenizer of a LangChain model, for `ContextAssembler(count=model_tokens(model))`."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseLanguageModel

from shared_core import InvalidInput
from shared_core.nlp import TokenCounter


def model_tokens(model: BaseLanguageModel[Any]) -> TokenCounter:
    """Return a function that counts tokens as a model of LangChain does, by its get_num_tokens.

    Many models count offline, some ask their provider over the network for every text, and those
    without a tokenizer of their own take GPT-2's, which needs `transformers`: see your model's
    integration. What it raises is passed on by who counts, with a note that names the model.
    """
    count = getattr(model, "get_num_tokens", None)
    if not callable(count):
        raise InvalidInput(
            f"{type(model).__name__} has no get_num_tokens: give a model of LangChain, or a"
            " function of your own that returns the tokens of a text"
        )

    def counted(text: str) -> int:
        return int(count(text))

    counted.__qualname__ = f"{type(model).__qualname__}.get_num_tokens"
    return counted
