"""The Google ADK face: `Runner(memory_service=OpenMemoryService())`."""

from adk_memory.memory_service import OpenMemoryService
from adk_memory.session_service import PgSessionService

__all__ = ["OpenMemoryService", "PgSessionService"]
