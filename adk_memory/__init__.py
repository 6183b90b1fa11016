"""The Google ADK face: `Runner(memory_service=OpenMemoryService())`.

Names load at first use, so `adk_memory.conformance` runs without the rest.
"""

from __future__ import annotations

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    # Imported here: the conformance suite runs without shared_core.
    from shared_core.core import from_extras

    with from_extras("the Google ADK face", "adk"):
        return _load(name)
