"""Evidence recall on labelled conversations: does recall find the turns that hold the answer?

    python -m benchmarks.quality FILE.json [FILE.json ...] [--embedder use|e5] [--json]

A file holds {"dataset", "conversations": [{"turns": [{"id", "date", "speaker", "text"}],
"questions": [{"question", "category", "evidence": [turn ids], "mode"?}]}]}. Every turn is appended
through the engine as it would be in use, every question asked with recall(); no language model
anywhere. R@k is the mean share of a question's evidence among the first k hits ("mode": "any"
counts one hit as all); MRR the mean inverse rank of the first. A speaker "assistant" is the agent.
No such data is shipped with the project.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.domain import Role

DEPTHS = (5, 10, 20)
BATCH = 200
AGENTS = ("assistant", "agent")
"""Speakers in the data who are the agent; everybody else is a user."""
START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Tally:
    """Sums over the questions of one data set."""

    questions: int = 0
    found: dict[int, float] = field(default_factory=lambda: dict.fromkeys(DEPTHS, 0.0))
    inverse_rank: float = 0.0
    recall_s: float = 0.0

    def add(self, evidence: set[str], any_suffices: bool, ranked: Sequence[str]) -> None:
        """Count one question."""
        self.questions += 1
        for depth in DEPTHS:
            hits = len(evidence.intersection(ranked[:depth]))
            self.found[depth] += min(1, hits) if any_suffices else hits / len(evidence)
        ranks = [rank for rank, turn in enumerate(ranked, 1) if turn in evidence]
        self.inverse_rank += 1 / ranks[0] if ranks else 0.0

    def figures(self) -> dict[str, float]:
        """The means, in percent, and the mean time of a recall in milliseconds."""
        shares = {
            f"recall_at_{depth}": 100 * self.found[depth] / self.questions for depth in DEPTHS
        }
        return {
            "questions": self.questions,
            **{name: round(share, 1) for name, share in shares.items()},
            "mrr": round(100 * self.inverse_rank / self.questions, 1),
            "recall_ms": round(1000 * self.recall_s / self.questions, 1),
        }


async def measure(files: Sequence[Path], embedder: str, skip: Sequence[str]) -> dict[str, Any]:
    """Return the figures of every file, by its name."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(Path(folder), embedder=embedder) as memory:
            for file in files:
                tally = Tally()
                for number, conversation in enumerate(
                    json.loads(file.read_text())["conversations"]
                ):
                    scope = Scope(file.stem, str(number))
                    await append_turns(memory, scope, conversation["turns"])
                    await _ask(memory, scope, conversation, tally, skip)
                results[file.stem] = tally.figures()
    return results


async def append_turns(memory: MemoryEngine, scope: Scope, turns: Sequence[dict[str, Any]]) -> None:
    events = [
        Event(
            event_id=str(turn["id"]),
            author=str(turn["speaker"]),
            role=_role(turn["speaker"]),
            text=" ".join(filter(None, (turn["text"], turn.get("caption")))),
            occurred_at=START + timedelta(minutes=position),
        )
        for position, turn in enumerate(turns)
    ]
    for first in range(0, len(events), BATCH):
        await memory.append_events(scope, "conversation", events[first : first + BATCH])


def _role(speaker: str) -> Role:
    return "agent" if speaker in AGENTS else "user"


async def _ask(
    memory: MemoryEngine,
    scope: Scope,
    conversation: dict[str, Any],
    tally: Tally,
    skip: Sequence[str],
) -> None:
    for question in answerable(conversation, skip):
        begun = time.perf_counter()
        hits = await memory.recall(
            scope, question["question"], limit=max(DEPTHS), kinds=["episodic"]
        )
        tally.recall_s += time.perf_counter() - begun
        ranked = [hit.memory.source_event_ids[0] for hit in hits]
        evidence = {str(turn) for turn in question["evidence"]}
        tally.add(evidence, question.get("mode") == "any", ranked)


def answerable(conversation: dict[str, Any], skip: Sequence[str]) -> Iterator[dict[str, Any]]:
    for question in conversation["questions"]:
        if question.get("evidence") and str(question.get("category")) not in skip:
            yield question


def main() -> None:
    parser = argparse.ArgumentParser(description="Evidence recall on labelled conversations.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--embedder", default="use")
    parser.add_argument("--skip-category", action="append", default=[], help="e.g. 5, adversarial")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if missing := [str(file) for file in arguments.files if not file.is_file()]:
        parser.error(f"no such file: {', '.join(missing)}")
    results = asyncio.run(measure(arguments.files, arguments.embedder, arguments.skip_category))
    if arguments.json:
        print(json.dumps({"embedder": arguments.embedder, **results}))
        return
    for name, figures in results.items():
        print(name, " ".join(f"{key}={value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
