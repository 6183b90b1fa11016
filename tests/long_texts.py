"""Gives texts of 100,000 characters that punctuation never ends to every verb that reads text.

The database is the first argument. The processor time of this process is limited.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from datetime import UTC, datetime

from shared_core import Event, Scope, open_memory

LENGTH, LIMIT_S = (100_000, 60) if "HIPPOCAMPUS_LONG" in os.environ else (25_000, 20)
"""Characters of a text, and processor time in seconds for all. They take a quarter of it."""
ANN = Scope("app", "ann")
BODIES = ("my name is ", "the quick brown fox ", "a-", "我喜欢北京的天气", "\t ")
SENTENCES = ("她" * 390, "he " * 130, "a " * 190, "I love " + "a " * 190, "my son " * 55)
"""Almost the longest sentences that rules read."""


def texts() -> list[str]:
    repeated = [*BODIES, f"{SENTENCES[0]}. ", "".join(f"{one}. " for one in SENTENCES[1:])]
    return ["I am " + (one * (LENGTH // len(one) + 1))[: LENGTH - 5] for one in repeated]


async def main(dsn: str) -> None:
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ANN, texts())
        for number, text in enumerate(texts()):
            turn = Event(
                event_id=f"e{number}", author="ann", role="user", text=text,
                occurred_at=datetime.now(UTC),
            )  # fmt: skip
            await memory.append_events(ANN, "long", [turn])
            await memory.recall(ANN, text)
            await memory.process_memory(text, "ann", app="app")
        await memory.consolidate(ANN, "long")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
    asyncio.run(main(sys.argv[1]))
    used = resource.getrusage(resource.RUSAGE_SELF)
    sys.stdout.write(f"{used.ru_utime + used.ru_stime:.1f} s\n")
