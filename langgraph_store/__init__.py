"""The LangGraph face: `graph.compile(store=PgHippocampusStore())`.

Names load at first use, so `langgraph_store.conformance` runs without the rest.
"""

from __future__ import annotations

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    # Imported here: the conformance suite runs without shared_core.
    from shared_core.core import from_extras

    with from_extras("the LangGraph face", "langgraph", "langchain"):
        return _load(name)
