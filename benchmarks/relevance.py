"""Measures which floor of relevance tells a related question from an unrelated one.

    python -m benchmarks.relevance [--embedder e5|use]

Each line of data/relevance_pairs.jsonl has a memory, a question that it answers in other words, and
a question that has nothing to do with it. Each memory is the only one of its user, so no other
memory helps to judge it. Prints for each floor the share of related and of unrelated questions that
find the memory, over the even lines, which the floor was chosen on, and over the odd lines.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from shared_core import MemoryEngine, NewMemory, Scope, open_memory
from shared_core.recall import relevance

PAIRS = Path(__file__).parent / "data" / "relevance_pairs.jsonl"
FLOORS = (0.1, 0.12, 0.14, 0.15, 0.16, 0.17, 0.18, 0.2, 0.25)


class Judged(NamedTuple):
    """The relevance of one memory to its two questions. form: questions, or words."""

    lang: str
    form: str
    related: float
    unrelated: float


async def judged(memory: MemoryEngine) -> list[Judged]:
    """Return the relevance of every memory of the pairs, in their order."""
    results = []
    for number, line in enumerate(PAIRS.read_text("utf-8").splitlines()):
        pair = json.loads(line)
        scope = Scope("pairs", str(number))
        await memory.remember(scope, [NewMemory(text=pair["memory"], kind="episodic")])
        related, unrelated = [
            max((relevance(hit) for hit in await memory.recall(scope, pair[name])), default=0.0)
            for name in ("related", "unrelated")
        ]
        results.append(Judged(pair["lang"], pair["form"], related, unrelated))
    return results


def kept(values: Iterable[float], floor: float) -> float:
    """Return the share of values at or above a floor, in percent."""
    flags = [value >= floor for value in values]
    return 100 * sum(flags) / len(flags)


def lines(results: Sequence[Judged], name: str) -> Iterable[str]:
    """Yield a line for each floor."""
    for floor in FLOORS:
        parts = [f"{name} floor={floor}"]
        for lang in ("en", "zh"):
            of_lang = [one for one in results if one.lang == lang]
            related = kept([one.related for one in of_lang], floor)
            unrelated = kept([one.unrelated for one in of_lang], floor)
            parts.append(f"{lang}: related={related:.1f}% unrelated={unrelated:.1f}%")
        yield "  ".join(parts)


async def measure(embedder: str) -> None:
    """Print the shares with one embedder."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(f"embedded://{folder}", embedder=embedder) as memory:
            results = await judged(memory)
    print(f"{embedder}: {len(results)} memories")
    for name, some in (("even", results[::2]), ("odd", results[1::2]), ("all", results)):
        print(*lines(some, name), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Related and unrelated questions by floor.")
    parser.add_argument("--embedder", default="e5")
    asyncio.run(measure(parser.parse_args().embedder))


if __name__ == "__main__":
    main()
