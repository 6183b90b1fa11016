"""Measures what a model is shown of a memory: answers, outdated lines, repetitions, tokens.

    python -m benchmarks.shown [--data PATH ... | --typed [FOLDER]] [--before] [--embedder e5]

Conversations are appended through the engine, one thread a session, and consolidated by the rules.
Each question is recalled, ten memories, and becomes the lines of a block as MemoryPlugin and
HippocampusMiddleware show it. --data: chats with an assistant of five sessions (files or folders;
by default benchmarks/data/chats). --typed: conversations of four to nine turns, as people type them
(by default benchmarks/data/typed). --before: the same memories as both showed them before they were
composed: all, each with its full time and its speaker. The last line is one JSON object. Figures by
language:

answered      share of questions whose answer is in the lines
answered_at_N the same within their first N tokens
stale         share of questions about a change where a line says only what was true before, and
              bears no mark that perhaps it no longer holds
again         share of lines of which an earlier line holds seven tenths of the words
tokens        mean of the lines
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import typed
from benchmarks.chats import DATA, answers, is_answer, is_stale
from shared_core import Hit, open_memory
from shared_core.context import composed, shown_memory
from shared_core.core.delimiters import line
from shared_core.nlp import count_tokens, shown_text
from shared_core.nlp.uncertainty import MARKS

LIMIT = 10
BUDGETS = (50, 100, 200, 400)
WORDS = re.compile(r"[a-z0-9']+|[\u4e00-\u9fff]")


class Asked(NamedTuple):
    """A question, its hits, and what tells a line that answers, or that only did before.

    told: the name of its conversation.
    """

    told: str
    language: str
    text: str
    hits: Sequence[Hit]
    is_answer: Callable[[str], bool]
    is_stale: Callable[[str], bool] | None


async def of_chats(paths: Sequence[Path], embedder: str) -> AsyncIterator[Asked]:
    """Ask the questions of chats."""
    async for one in answers(paths, embedder, LIMIT):
        given = one.question
        stale = partial(is_stale, given) if given.get("stale") else None
        told = f"{one.source} {one.chat}"
        yield Asked(told, one.language, given["text"], one.hits, partial(is_answer, given), stale)


async def of_typed(folder: Path, embedder: str) -> AsyncIterator[Asked]:
    """Ask the questions of short conversations that have an answer."""
    with tempfile.TemporaryDirectory() as home:
        async with open_memory(Path(home), embedder=embedder) as memory:
            async for one, scope, asked_at in typed.told_conversations(memory, folder):
                for given in filter(lambda question: question["expect"], one["questions"]):
                    hits = await memory.recall(scope, given["q"], limit=LIMIT, asked_at=asked_at)
                    stale = partial(typed.is_stale, given) if given["stale"] else None
                    answer = partial(typed.is_answer, given)
                    yield Asked(one["id"], one["lang"], given["q"], hits, answer, stale)


def lines_now(asked: Asked) -> list[str]:
    """Return the lines of the block that a question gets."""
    return [
        line(one.about, one.text)
        for one in composed(asked.text, [*map(shown_memory, asked.hits)]).shown
    ]


def lines_before(asked: Asked) -> list[str]:
    """Return the lines of the hits as recalled."""
    memories = [hit.memory for hit in asked.hits]
    return [
        line(", ".join(filter(None, (one.occurred_at.isoformat(), one.author))), shown_text(one))
        for one in memories
    ]


def count(tally: dict[str, list[float]], asked: Asked, lines: Sequence[str]) -> None:
    """Add the figures of one question."""
    tokens = [count_tokens(one) for one in lines]
    first = next((at for at, one in enumerate(lines) if asked.is_answer(one)), None)
    tally["answered"].append(float(first is not None))
    for budget in BUDGETS:
        within = first is not None and sum(tokens[: first + 1]) <= budget
        tally[f"answered_at_{budget}"].append(float(within))
    if asked.is_stale:
        as_if_it_held = [one for one in lines if not one.rstrip().endswith((*MARKS.values(),))]
        tally["stale"].append(float(any(map(asked.is_stale, as_if_it_held))))
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


async def measure(
    questions: AsyncIterator[Asked], lines: Callable[[Asked], list[str]]
) -> dict[str, dict[str, float]]:
    """Return the figures by language."""
    tallies: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    async for asked in questions:
        count(tallies[asked.language], asked, lines(asked))
    return {
        language: {name: round(statistics.fmean(found), 3) for name, found in tally.items()}
        | {"questions": len(tally["answered"]), "changed": len(tally["stale"])}
        for language, tally in tallies.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What a model is shown of a memory.")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--data", type=Path, nargs="+", default=[DATA / "chats"])
    source.add_argument("--typed", type=Path, nargs="?", const=typed.DATA)
    parser.add_argument("--before", action="store_true", help="as recalled, not composed")
    parser.add_argument("--embedder", default="e5", help="use or e5")
    given = parser.parse_args()
    if given.typed:
        questions = of_typed(given.typed, given.embedder)
    else:
        questions = of_chats(given.data, given.embedder)
    print(json.dumps(asyncio.run(measure(questions, lines_before if given.before else lines_now))))


if __name__ == "__main__":
    main()
