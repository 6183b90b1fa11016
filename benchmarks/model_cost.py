"""What reading with a language model costs, by the trigger that starts it: calls and characters.

    python -m benchmarks.model_cost

Plays the short English chats of benchmarks/data/chats, a turn every 20 seconds and a session a day,
through the queue. The model answers that it found nothing, so its own part is missing: an answer
has a few hundred characters.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shared_core import Event, ExtractionStrategy, Scope, open_memory
from shared_core.core import Role
from shared_core.models import ModelReply, ModelRequest

CHATS = Path(__file__).parent / "data/chats/short_en.json"
CONVERSATIONS = 10
MANY = 10_000
TRIGGERS = {
    "after each turn (default)": ExtractionStrategy(),
    "30 s without a turn": ExtractionStrategy(delay_s=30),
    "10 turns": ExtractionStrategy(delay_s=MANY, event_count=10),
    "2,000 tokens": ExtractionStrategy(delay_s=MANY, event_count=None, token_threshold=2_000),
    "end of the session alone": ExtractionStrategy(
        delay_s=MANY, event_count=None, token_threshold=None
    ),
}
"""The strategies compared. MANY seconds are longer than any session and shorter than a day."""


class Counting:
    """A model that finds nothing, and counts what it is sent."""

    name = "counting"

    def __init__(self) -> None:
        self.calls = self.characters = 0

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Count a request; answer that there is nothing."""
        self.calls += 1
        self.characters += len(request.system) + len(request.prompt)
        self.characters += len(json.dumps(request.schema)) if request.schema else 0
        return ModelReply(text='{"facts": [], "insights": [], "summary": "They talked."}')


def sessions() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the user of each session, and its turns: who speaks, and the text."""
    found: list[dict[str, Any]] = json.loads(CHATS.read_text(encoding="utf-8"))["conversations"]
    for conversation in found[:CONVERSATIONS]:
        for session in conversation["sessions"]:
            turns = [turn.partition(": ") for turn in session["turns"]]
            yield conversation["user"], [(who, text) for who, _, text in turns]


async def played(home: str, strategy: ExtractionStrategy) -> Counting:
    """Return the model after all sessions were read by a strategy."""
    model, now = Counting(), [datetime(2026, 1, 1, 9, tzinfo=UTC)]
    async with open_memory(
        f"embedded://{home}", llm=model, clock=lambda: now[0], worker=False, strategy=strategy,
        schema=f"s{abs(hash(strategy))}", embedder="use",
    ) as memory:  # fmt: skip
        for number, (user, turns) in enumerate(sessions()):
            scope, thread = Scope("app", user), f"{user}-{number}"
            for place, (who, text) in enumerate(turns):
                role: Role = "user" if who == "u" else "agent"
                event = Event(
                    event_id=f"{number}-{place}", role=role, author=role, text=text,
                    occurred_at=now[0],
                )  # fmt: skip
                await memory.append_events(scope, thread, [event], later=True)
                if who != "u":  # a plugin hands over the user's turn with the answer
                    await memory.jobs.serve(once=True)
                now[0] += timedelta(seconds=20)
            now[0] += timedelta(seconds=60)
            await memory.jobs.serve(once=True)
            await memory.end_session(scope, thread)
            await memory.jobs.serve(once=True)
            now[0] += timedelta(days=1)
    return model


async def main() -> None:
    every = list(sessions())
    turns = sum(len(turns) for _, turns in every)
    print(f"{len(every)} sessions, {turns} turns, {sum(len(t) for _, s in every for _, t in s):,}"
          " characters of text\n")  # fmt: skip
    print("| read | calls a session | characters sent a session |\n|---|---|---|")
    with TemporaryDirectory() as home:
        for name, strategy in TRIGGERS.items():
            model = await played(home, strategy)
            calls, sent = model.calls / len(every), model.characters / len(every)
            print(f"| {name} | {calls:.1f} | {sent:,.0f} |")


if __name__ == "__main__":
    asyncio.run(main())
