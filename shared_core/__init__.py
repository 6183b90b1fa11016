"""Long-term memory for AI agents: one engine over one PostgreSQL schema.

from shared_core import Scope, open_memory

async with open_memory() as memory:
    await memory.remember(Scope("my-app", "alice"), "Alice loves spicy food.")
    for hit in await memory.recall(Scope("my-app", "alice"), "What does she eat?"):
        print(hit.score, hit.memory.text)
"""

from __future__ import annotations

import lazy_loader

__version__ = "0.1.0"

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
