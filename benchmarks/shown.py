"""Measures what a model is shown of a memory: answers, outdated lines, repetitions, tokens.

    python -m benchmarks.shown [--data PATH ...] [--embedder e5] [--json]

Chats of a user with an assistant (--data: files or folders; by default benchmarks/data/chats) are
appended through the engine, one thread a session, and consolidated by the rules. Each question is
recalled, ten memories, and becomes a block as MemoryPlugin and HippocampusMiddleware show it.
Figures by language:

answered      share of questions whose answer is in the block
answered_at   the same within the first 100, 200 and 400 tokens of its lines
stale         share of questions about a change where a line says only what was true before
again         share of lines of which an earlier line holds seven tenths of the words
tokens        mean of the lines
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.chats import DATA, Answered, answers, is_answer, is_stale
from shared_core.context import shown_memory
from shared_core.context.composition import composed
from shared_core.core.delimiters import line
from shared_core.nlp import count_tokens

LIMIT = 10
BUDGETS = (100, 200, 400)
WORDS = re.compile(r"[a-z0-9']+|[\u4e00-\u9fff]")


def shown_lines(answered: Answered) -> list[str]:
    """Return the lines of the block that a question gets."""
    found = composed(answered.question["text"], [*map(shown_memory, answered.hits)])
    return [line(one.about, one.text) for one in found]


def count(tally: dict[str, list[float]], question: dict[str, Any], lines: Sequence[str]) -> None:
    """Add the figures of one question."""
    tokens = [count_tokens(one) for one in lines]
    first = next((at for at, one in enumerate(lines) if is_answer(question, one)), None)
    tally["answered"].append(float(first is not None))
    for budget in BUDGETS:
        within = first is not None and sum(tokens[: first + 1]) <= budget
        tally[f"answered_at_{budget}"].append(float(within))
    if question.get("stale"):
        tally["stale"].append(float(any(is_stale(question, one) for one in lines)))
    tally["again"] += said_again(lines)
    tally["tokens"].append(float(sum(tokens)))


def said_again(lines: Iterable[str]) -> list[float]:
    """Return 1 for each line of which an earlier one holds seven tenths of the words, else 0."""
    seen: list[set[str]] = []
    found = []
    for one in lines:
        words = {*WORDS.findall(one.partition("] ")[2].lower())}
        found.append(float(any(len(words & other) >= 0.7 * len(words) for other in seen if words)))
        seen.append(words)
    return found


async def measure(embedder: str, paths: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Return the figures by language."""
    tallies: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    async for one in answers(paths, embedder, LIMIT):
        count(tallies[one.language], one.question, shown_lines(one))
    return {
        language: {name: round(statistics.fmean(found), 3) for name, found in tally.items()}
        | {"questions": len(tally["answered"]), "changed": len(tally["stale"])}
        for language, tally in tallies.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What a model is shown of a memory.")
    parser.add_argument("--data", type=Path, nargs="+", default=[DATA / "chats"])
    parser.add_argument("--embedder", default="e5", help="use or e5")
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.embedder, arguments.data))
    for language, found in figures.items() if not arguments.json else ():
        print(f"{language}: {', '.join(f'{name} {value:g}' for name, value in found.items())}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
