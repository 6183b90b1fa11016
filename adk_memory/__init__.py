"""The Google ADK face: `Runner(memory_service=OpenMemoryService())`.

Each name is loaded at its first use, so that `adk_memory.conformance` runs without the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adk_memory.memory_service import OpenMemoryService
    from adk_memory.plugin import MemoryPlugin
    from adk_memory.registry import register
    from adk_memory.session_service import PgSessionService
    from adk_memory.tools import forget, recall, remember

__all__ = [
    "MemoryPlugin",
    "OpenMemoryService",
    "PgSessionService",
    "forget",
    "recall",
    "recall_when",
    "register",
    "remember",
]

_HOMES = {
    "MemoryPlugin": "adk_memory.plugin",
    "OpenMemoryService": "adk_memory.memory_service",
    "PgSessionService": "adk_memory.session_service",
    "forget": "adk_memory.tools",
    "recall": "adk_memory.tools",
    "recall_when": "adk_memory.time_tools",
    "register": "adk_memory.registry",
    "remember": "adk_memory.tools",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
