"""Measures whether the first recalled memories of short chats hold the current answer.

    python -m benchmarks.assistant [--ranking linear|fusion|...] [--verbose] [--json]

Chats of about ten turns (benchmarks/data/assistant.json, ours, English and Chinese) are appended
through the engine, one thread per session, and consolidated by the rules. Then every question goes
to engine.recall(). The last line is one JSON object. Figures by language:

answered_at_1, answered_at_3  share of questions answered by the first or the first three memories
current_first                 share of questions about a change where a memory with the current
                              answer ranks above every memory with only the stale answer
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.ports.recall import Ranking

DATA = Path(__file__).parent / "data" / "assistant.json"
ASKED_AT = datetime(2026, 7, 1, tzinfo=UTC)
LIMIT = 10


async def measure(ranking: Ranking, embedder: str, *, verbose: bool) -> dict[str, Any]:
    """Return the figures by language."""
    tallies: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    chats = json.loads(DATA.read_text(encoding="utf-8"))["conversations"]
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(Path(folder), embedder=embedder) as memory:
            for number, chat in enumerate(chats):
                scope = Scope("assistant", str(number))
                await _append(memory, scope, chat)
                for question in chat["questions"]:
                    hits = await memory.recall(
                        scope, question["text"], limit=LIMIT, ranking=ranking, asked_at=ASKED_AT
                    )
                    texts = [hit.memory.text for hit in hits]
                    _count(tallies[chat["language"]], question, texts, verbose=verbose)
    return {
        language: {name: round(statistics.fmean(found), 3) for name, found in sorted(tally.items())}
        | {"questions": len(tally["answered_at_1"]), "changed": len(tally["current_first"])}
        for language, tally in tallies.items()
    }


async def _append(memory: MemoryEngine, scope: Scope, chat: dict[str, Any]) -> None:
    for number, session in enumerate(chat["sessions"]):
        begun = datetime.fromisoformat(session["date"]).replace(tzinfo=UTC) + timedelta(hours=9)
        turns = [
            Event(
                event_id=f"{number}-{at}",
                author=chat["user"] if line.startswith("u: ") else "assistant",
                role="user" if line.startswith("u: ") else "agent",
                text=line[3:],
                occurred_at=begun + timedelta(minutes=at),
            )
            for at, line in enumerate(session["turns"])
        ]
        await memory.append_events(scope, f"session {number}", turns)
        await memory.consolidate(scope, f"session {number}")


def _count(
    tally: dict[str, list[float]], question: dict[str, Any], texts: list[str], *, verbose: bool
) -> None:
    answers = [any(answer in text for answer in question["answer"]) for text in texts]
    first = answers.index(True) if True in answers else len(texts)
    stale = [
        any(old in text for old in question.get("stale", ())) and not answered
        for text, answered in zip(texts, answers, strict=True)
    ]
    is_current = first < (stale.index(True) if True in stale else len(texts) + 1)
    tally["answered_at_1"].append(float(first == 0))
    tally["answered_at_3"].append(float(first < 3))
    if question.get("stale"):
        tally["current_first"].append(float(is_current))
    if verbose and (first or not is_current):
        print(f"{question['text']} (expected {question['answer']}): {texts[:3]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="First answers in short chats.")
    parser.add_argument("--ranking", choices=get_args(Ranking), default="linear")
    parser.add_argument("--embedder", default="use", help="use or e5")
    parser.add_argument("--verbose", action="store_true", help="print failed questions")
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    verbose = arguments.verbose and not arguments.json
    found = asyncio.run(measure(arguments.ranking, arguments.embedder, verbose=verbose))
    print(json.dumps({"ranking": arguments.ranking, "embedder": arguments.embedder, **found}))


if __name__ == "__main__":
    main()
