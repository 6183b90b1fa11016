"""Measures whether the first recalled memories of chats hold the current answer.

    python -m benchmarks.assistant [--data PATH ...] [--ranking linear|fusion|...] [--embedder e5]
        [--verbose] [--json]

Chats of a user with an assistant (--data: files or folders; by default benchmarks/data/chats, which
the weights were fitted on) are appended through the engine, one thread per session, and
consolidated by the rules. Then every question goes to engine.recall(). The last line is one JSON
object. Figures by language:

answered_at_1, answered_at_3  share of questions answered by the first or the first three memories
current_first                 share of questions about a change where a memory with the current
                              answer ranks above every memory with only the stale answer
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from benchmarks.chats import DATA, answers, is_answer, is_stale
from shared_core.ports.recall import Ranking

LIMIT = 10


async def measure(
    ranking: Ranking, embedder: str, paths: Sequence[Path], *, verbose: bool
) -> dict[str, Any]:
    """Return the figures by language."""
    tallies: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    async for one in answers(paths, embedder, LIMIT, ranking):
        texts = [hit.memory.text for hit in one.hits]
        _count(tallies[one.language], one.question, texts, verbose=verbose)
    return {
        language: {name: round(statistics.fmean(found), 3) for name, found in sorted(tally.items())}
        | {"questions": len(tally["answered_at_1"]), "changed": len(tally["current_first"])}
        for language, tally in tallies.items()
    }


def _count(
    tally: dict[str, list[float]], question: dict[str, Any], texts: list[str], *, verbose: bool
) -> None:
    are_right = [is_answer(question, text) for text in texts]
    first = are_right.index(True) if True in are_right else len(texts)
    stale = [is_stale(question, text) for text in texts]
    is_current = first < (stale.index(True) if True in stale else len(texts) + 1)
    tally["answered_at_1"].append(float(first == 0))
    tally["answered_at_3"].append(float(first < 3))
    if question.get("stale"):
        tally["current_first"].append(float(is_current))
    if verbose and (first or not is_current):
        print(f"{question['text']} (expected {question['answer']}): {texts[:3]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="First answers in chats with an assistant.")
    parser.add_argument("--data", type=Path, nargs="+", default=[DATA / "chats"])
    parser.add_argument("--ranking", choices=get_args(Ranking), default="linear")
    parser.add_argument("--embedder", default="e5", help="use or e5")
    parser.add_argument("--verbose", action="store_true", help="print failed questions")
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    verbose = arguments.verbose and not arguments.json
    found = asyncio.run(
        measure(arguments.ranking, arguments.embedder, arguments.data, verbose=verbose)
    )
    print(json.dumps({"ranking": arguments.ranking, "embedder": arguments.embedder, **found}))


if __name__ == "__main__":
    main()
