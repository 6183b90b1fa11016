"""The LangGraph face: `graph.compile(store=PgHippocampusStore())`.

Each name is loaded at its first use, so that `langgraph_store.conformance` runs without the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langgraph_store.executor import DurableReflectionExecutor
    from langgraph_store.instructions import (
        get_instruction,
        instruction_history,
        instructions_namespace,
        put_instruction,
        rollback_instruction,
    )
    from langgraph_store.labels import memories_namespace, profile_namespace
    from langgraph_store.middleware import HippocampusMiddleware
    from langgraph_store.oceanbase import OceanBaseHippocampusStore
    from langgraph_store.reflection import create_reflection_node
    from langgraph_store.server import make_store
    from langgraph_store.store import PgHippocampusStore
    from langgraph_store.tools import memory_tools
    from shared_core.errors import BatchError

__all__ = [
    "BatchError",
    "DurableReflectionExecutor",
    "HippocampusMiddleware",
    "OceanBaseHippocampusStore",
    "PgHippocampusStore",
    "create_reflection_node",
    "get_instruction",
    "instruction_history",
    "instructions_namespace",
    "make_store",
    "memories_namespace",
    "memory_tools",
    "profile_namespace",
    "put_instruction",
    "rollback_instruction",
]

_HOMES = {
    "BatchError": "shared_core.errors",
    "DurableReflectionExecutor": "langgraph_store.executor",
    "HippocampusMiddleware": "langgraph_store.middleware",
    "OceanBaseHippocampusStore": "langgraph_store.oceanbase",
    "PgHippocampusStore": "langgraph_store.store",
    "create_reflection_node": "langgraph_store.reflection",
    "get_instruction": "langgraph_store.instructions",
    "instruction_history": "langgraph_store.instructions",
    "instructions_namespace": "langgraph_store.instructions",
    "make_store": "langgraph_store.server",
    "memories_namespace": "langgraph_store.labels",
    "memory_tools": "langgraph_store.tools",
    "profile_namespace": "langgraph_store.labels",
    "put_instruction": "langgraph_store.instructions",
    "rollback_instruction": "langgraph_store.instructions",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
