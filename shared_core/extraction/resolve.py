"""Which extractor reads turns: rules, a language model, or the caller's own."""

from __future__ import annotations

from shared_core.errors import InvalidInput
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.models.language_model import resolve_language_model
from shared_core.ports.storage import Extractor


def resolve_extractor(llm: object = None, extractor: Extractor | None = None) -> Extractor:
    """Return what the arguments llm and extractor of open_memory() name; calls no model yet.

    Raises InvalidInput for both at once, and for an llm of no known form.
    """
    if llm is None:
        return extractor or RuleExtractor()
    if extractor is not None:
        raise InvalidInput("give llm or extractor, not both: an extractor brings its own model")
    from shared_core.extraction.llm_extractor import (
        ModelExtractor,  # pydantic takes a moment to load
    )

    return ModelExtractor(resolve_language_model(llm), RuleExtractor())
