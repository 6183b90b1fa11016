"""Gives long texts that punctuation never ends to every verb that reads text.

The arguments are two databases. The processor time of each call is limited.
"""

import asyncio
import os
import resource
import sys
import time
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any

from shared_core import Event, Scope, open_memory

LONG = "HIPPOCAMPUS_TEST_LONG" in os.environ
LENGTH, LIMIT_S = (100_000, 15) if LONG else (25_000, 3)
"""Characters of a text, and processor time for one call with it. The slowest takes a quarter."""
MOST_S = 90
"""Processor time for everything."""
EMBEDDED = LENGTH if LONG else 3_000
"""Characters of the texts that the model embeds: most of its time goes into its own arithmetic."""
LEAST_S = 0.1
"""Processor time below which a call is too short to be compared."""
ANN = Scope("app", "ann")
BODIES = ("my name is ", "the quick brown fox ", "a-", "我喜欢北京的天气", "\t ")
SENTENCES = ("她" * 390, "he " * 130, "a " * 190, "I love " + "a " * 190, "my son " * 55)
"""Almost the longest sentences that rules read."""


def texts() -> list[str]:
    repeated = [*BODIES, f"{SENTENCES[0]}. ", "".join(f"{one}. " for one in SENTENCES[1:])]
    return ["I am " + (one * (LENGTH // len(one) + 1))[: LENGTH - 5] for one in repeated]


async def within_limit(call: Awaitable[object], texts: int = 1) -> float:
    """Return the processor time of a call, which may take LIMIT_S for each text."""
    begun = time.process_time()
    await call
    used = time.process_time() - begun
    assert used <= LIMIT_S * texts, f"{call} took {used:.1f} s of the processor"
    return used


async def embed(dsn: str) -> None:
    """Let the model of a memory embed each text: four times the text, about four times the time."""
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ANN, "It loads the model.")
        for text in texts():
            parts = (text[: EMBEDDED // 4], text[:EMBEDDED])
            part, whole = [await within_limit(memory.remember(ANN, one)) for one in parts]
            assert whole <= 8 * max(part, LEAST_S), f"{part:.1f} s, {whole:.1f} s: {text[:20]}"


async def read(dsn: str) -> None:
    """Let every verb of a memory read each text."""
    given: Any = {"author": "ann", "role": "user", "occurred_at": datetime.now(UTC)}
    options: Any = {"embedder": lambda texts: [[1.0]] * len(texts), "worker": False}
    async with open_memory(dsn, **options) as memory:
        for number, text in enumerate(texts()):
            turn = Event(event_id=f"e{number}", text=text, **given)
            await within_limit(memory.remember(ANN, text))
            await within_limit(memory.append_events(ANN, "long", [turn]))
            await within_limit(memory.recall(ANN, text))
            await within_limit(memory.process_memory(text, "ann", app="app"))
        await within_limit(memory.consolidate(ANN, "long"), len(texts()))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_S, MOST_S))
    asyncio.run(embed(sys.argv[1]))
    asyncio.run(read(sys.argv[2]))
