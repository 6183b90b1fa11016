"""The Google ADK face: `Runner(memory_service=OpenMemoryService())`."""

from adk_memory.memory_service import OpenMemoryService

__all__ = ["OpenMemoryService"]
