"""The Google ADK face: `Runner(memory_service=OpenMemoryService())`.

Each name is loaded at its first use, so that `adk_memory.conformance` runs without the rest.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
