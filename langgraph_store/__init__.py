"""The LangGraph face: `graph.compile(store=PgHippocampusStore())`.

Names load at first use, so `langgraph_store.conformance` runs without the rest.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
