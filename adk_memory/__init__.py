"""The Google ADK face: `Runner(memory_service=OpenMemoryService())`.

Names load at first use, so `adk_memory.conformance` runs without the rest.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
