"""Long-term memory for AI agents: one engine over one PostgreSQL schema.

from shared_core import Scope, open_memory

async with open_memory() as memory:
    await memory.remember(Scope("my-app", "alice"), "Alice loves spicy food.")
    for hit in await memory.recall(Scope("my-app", "alice"), "What does she eat?"):
        print(hit.score, hit.memory.text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared_core.access_ports import Accesses
    from shared_core.consolidation_worker import MemoryConsolidationWorker
    from shared_core.conversation_ports import Session, SessionStatus
    from shared_core.conversation_settings import ConversationSettings
    from shared_core.coreference_resolver import CoreferenceResolver
    from shared_core.domain import AsOf, Event, Hit, Memory, NewMemory, Scope
    from shared_core.embedders import CallableEmbedder
    from shared_core.engine import MemoryEngine
    from shared_core.errors import (
        BatchError,
        CapabilityMissing,
        Conflict,
        EmbeddingMismatch,
        InvalidInput,
        MemoryCoreError,
        ModelOutputInvalid,
        ModelQuotaExceeded,
        ModelUnavailable,
        NotFound,
        SchemaOutOfDate,
        StorageReadOnly,
        StorageUnavailable,
    )
    from shared_core.graph_ports import Edge, Entity, GraphChange, Path, Subgraph
    from shared_core.job_ports import JobRecord, JobStatus, JobType
    from shared_core.llm import FunctionModel
    from shared_core.memory_manager import MemoryManager, OceanBaseMemoryProvider
    from shared_core.memory_strategies import MemoryRecord, MemoryStrategy
    from shared_core.namespaces import memories_namespace
    from shared_core.opening import open_memory
    from shared_core.recall_result import RecallResult
    from shared_core.rerank_ports import Reranker
    from shared_core.retention_manager import MemoryRetentionManager, MemoryStats
    from shared_core.retention_ports import RetentionPolicy
    from shared_core.run_ports import Fact
    from shared_core.session_manager import (
        ConsolidationResult,
        SessionConsolidator,
        SessionManager,
    )
    from shared_core.slices import TimeBucket, TimeSlice
    from shared_core.strategy import ExtractionStrategy
    from shared_core.sync_bridge import run_sync

__version__ = "0.1.0"

__all__ = [
    "Accesses",
    "AsOf",
    "BatchError",
    "CallableEmbedder",
    "CapabilityMissing",
    "Conflict",
    "ConsolidationResult",
    "ConversationSettings",
    "CoreferenceResolver",
    "Edge",
    "EmbeddingMismatch",
    "Entity",
    "Event",
    "ExtractionStrategy",
    "Fact",
    "FunctionModel",
    "GraphChange",
    "Hit",
    "InvalidInput",
    "JobRecord",
    "JobStatus",
    "JobType",
    "Memory",
    "MemoryConsolidationWorker",
    "MemoryCoreError",
    "MemoryEngine",
    "MemoryManager",
    "MemoryRecord",
    "MemoryRetentionManager",
    "MemoryStats",
    "MemoryStrategy",
    "ModelOutputInvalid",
    "ModelQuotaExceeded",
    "ModelUnavailable",
    "NewMemory",
    "NotFound",
    "OceanBaseMemoryProvider",
    "Path",
    "RecallResult",
    "Reranker",
    "RetentionPolicy",
    "SchemaOutOfDate",
    "Scope",
    "Session",
    "SessionConsolidator",
    "SessionManager",
    "SessionStatus",
    "StorageReadOnly",
    "StorageUnavailable",
    "Subgraph",
    "TimeBucket",
    "TimeSlice",
    "memories_namespace",
    "open_memory",
    "run_sync",
]

_ROOMS = {
    "access_ports": ("Accesses",),
    "consolidation_worker": ("MemoryConsolidationWorker",),
    "conversation_ports": ("Session", "SessionStatus"),
    "conversation_settings": ("ConversationSettings",),
    "coreference_resolver": ("CoreferenceResolver",),
    "domain": ("AsOf", "Event", "Hit", "Memory", "NewMemory", "Scope"),
    "embedders": ("CallableEmbedder",),
    "engine": ("MemoryEngine",),
    "errors": (
        "BatchError",
        "CapabilityMissing",
        "Conflict",
        "EmbeddingMismatch",
        "InvalidInput",
        "MemoryCoreError",
        "ModelOutputInvalid",
        "ModelQuotaExceeded",
        "ModelUnavailable",
        "NotFound",
        "SchemaOutOfDate",
        "StorageReadOnly",
        "StorageUnavailable",
    ),
    "graph_ports": ("Edge", "Entity", "GraphChange", "Path", "Subgraph"),
    "job_ports": ("JobRecord", "JobStatus", "JobType"),
    "llm": ("FunctionModel",),
    "memory_manager": ("MemoryManager", "OceanBaseMemoryProvider"),
    "memory_strategies": ("MemoryRecord", "MemoryStrategy"),
    "namespaces": ("memories_namespace",),
    "opening": ("open_memory",),
    "recall_result": ("RecallResult",),
    "rerank_ports": ("Reranker",),
    "retention_manager": ("MemoryRetentionManager", "MemoryStats"),
    "retention_ports": ("RetentionPolicy",),
    "run_ports": ("Fact",),
    "session_manager": ("ConsolidationResult", "SessionConsolidator", "SessionManager"),
    "slices": ("TimeBucket", "TimeSlice"),
    "strategy": ("ExtractionStrategy",),
    "sync_bridge": ("run_sync",),
}
_HOME_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name at its first use: who only asks for --help waits for no engine."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
