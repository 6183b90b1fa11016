"""Measures the evidence that a relevance floor costs, and the noise that it keeps out.

    python -m benchmarks.floors FILE.json [FILE.json ...] [--conversations N] [--embedder use|e5]

Files are those of benchmarks.retrieval. Prints for each floor R@10 over the questions of the first
N conversations. For irrelevant questions it prints the mean number of hits that remain of ten, and
the share of answers without hits. Irrelevant questions are of two kinds: general knowledge
(unrelated), and about other conversations of the file (foreign), which have similar topics.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from benchmarks.conversations import APART, Conversation, conversations
from benchmarks.retrieval import append_sessions
from shared_core import MemoryEngine, Scope, open_memory
from shared_core.recall.ranking import relevance

FLOORS = (0.0, 0.1, 0.14, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
UNRELATED = (
    "What is the capital of Mongolia?",
    "How do I invert a binary tree in Rust?",
    "What is the boiling point of mercury?",
    "Explain TCP congestion control.",
    "Who won the 1966 World Cup?",
    "蒙古的首都是哪里？",
    "怎么用Rust翻转二叉树？",
    "水银的沸点是多少？",
    "解释TCP拥塞控制。",
    "谁赢得了1966年世界杯？",
)
DEPTH, POOL = 10, 20
FOREIGN = 10
"""Number of questions about each other conversation."""


async def measure(files: Sequence[Path], limit: int, embedder: str) -> None:
    """Print a line for each file and floor."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(Path(folder), embedder=embedder) as memory:
            for file in files:
                related: list[tuple[list[tuple[bool, float]], int]] = []
                unrelated: list[list[float]] = []
                foreign: list[list[float]] = []
                chosen = list(islice(conversations(file), limit))
                for number, conversation in enumerate(chosen):
                    scope = Scope(file.stem, str(number))
                    await append_sessions(memory, scope, conversation.sessions)
                    for question in conversation.questions:
                        if question.category in APART or question.by_session:
                            continue
                        hits = await _hits(memory, scope, question.text, POOL)
                        evidence = question.evidence
                        related.append(([(turn in evidence, r) for turn, r in hits], len(evidence)))
                    for query in UNRELATED:
                        hits = await _hits(memory, scope, query, DEPTH)
                        unrelated.append([r for _, r in hits])
                    for query in _about_others(chosen, number):
                        hits = await _hits(memory, scope, query, DEPTH)
                        foreign.append([r for _, r in hits])
                for floor in FLOORS:
                    print(file.stem, _line(floor, related, unrelated, foreign))


def _about_others(chosen: Sequence[Conversation], number: int) -> list[str]:
    """Return some questions about every other conversation."""
    others = [one for place, one in enumerate(chosen) if place != number]
    return [
        question.text
        for other in others
        for question in [one for one in other.questions if one.category not in APART][:FOREIGN]
    ]


async def _hits(
    memory: MemoryEngine, scope: Scope, query: str, limit: int
) -> list[tuple[str, float]]:
    hits = await memory.recall(scope, query, limit=limit, kinds=["episodic"])
    return [(hit.memory.source_event_ids[0], relevance(hit)) for hit in hits]


def _line(
    floor: float,
    related: Sequence[tuple[list[tuple[bool, float]], int]],
    unrelated: Sequence[list[float]],
    foreign: Sequence[list[float]],
) -> str:
    found = [
        sum([right for right, r in hits if r >= floor][:DEPTH]) / evidence
        for hits, evidence in related
    ]
    noise = "".join(
        f" {name}_hits={sum(left) / len(left):.1f}"
        f" {name}_empty={100 * left.count(0) / len(left):.0f}%"
        for name, answers in (("unrelated", unrelated), ("foreign", foreign))
        if (left := [sum(r >= floor for r in answer) for answer in answers])
    )
    return (
        f"floor={floor} questions={len(found)} recall_at_10={100 * sum(found) / len(found):.1f}"
        f"{noise}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Evidence lost and noise kept out by a floor.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--conversations", type=int, default=2)
    parser.add_argument("--embedder", default="e5")
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.files, arguments.conversations, arguments.embedder))


if __name__ == "__main__":
    main()
