"""Compares PostgreSQL and SeekDB, both embedded, by the same work in one run.

    python -m benchmarks.engines [--turns 1000] [--questions 50] [--writes 50] [--json]
    python -m benchmarks.engines --users 1000,1000,25000 [--questions 50] [--json]

One user has --turns turns, half English, half Chinese: templates filled with words by Zipf's law,
embedded by the bundled model. They are appended in batches of 50; --writes more are appended singly
and recalled. Then the questions are recalled and searched, and threads of 50 are consolidated.
Times are the median of a call in milliseconds. "recall@10": share of PostgreSQL's ten hits that
SeekDB finds. "missed": number of single turns that the next recall of their own words misses.

--users: instead measure users with these numbers of turns: one English, one Chinese, one half each,
and so on. Prints for each the share of PostgreSQL's ten hits that SeekDB finds, by recall() and by
search().
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from benchmarks.process_memory import CHINESE, ENGLISH, words_of
from benchmarks.report import load_average
from shared_core import Event, MemoryEngine, Scope, open_memory

ANA = Scope("benchmark", "ana")
BATCH = 50
LOADED = 1000
"""Turns per append in the mode --users, which does not time it."""
Languages = tuple[str, ...]
LANGUAGES: tuple[Languages, ...] = (("en",), ("zh",), ("zh", "en"))
START = datetime(2026, 3, 1, tzinfo=UTC)


def sentences(count: int, seed: str = "engines", languages: Languages = ("zh", "en")) -> list[str]:
    """Return distinct sentences that alternate between the languages."""
    chooser = random.Random(seed)
    made: list[str] = []
    for number in range(count):
        language = languages[number % len(languages)]
        words = words_of(language, 400)
        templates = ENGLISH if language == "en" else CHINESE
        weights = [1 / (1 + place) for place in range(len(words))]
        made.append(
            f"{templates[number % 4].format(*chooser.choices(words, weights, k=4))} {number}"
        )
    return made


def questions_about(texts: Sequence[str], count: int, seed: str = "questions") -> list[str]:
    """Return the beginnings of some of the texts."""
    chooser = random.Random(seed)
    beginnings = [" ".join(text.split()[:-1])[: chooser.randint(8, 60)] for text in texts]
    return chooser.sample(beginnings, min(count, len(beginnings)))


def turn(number: int, text: str) -> Event:
    """Return a turn of the user."""
    return Event(
        event_id=f"e{number}",
        author="user",
        role="user",
        text=text,
        occurred_at=START + timedelta(minutes=number),
    )


async def timed(calls: Sequence[Callable[[], Awaitable[Any]]]) -> tuple[float, list[Any]]:
    """Return the median of the calls in milliseconds, and their results."""
    times, found = [], []
    for call in calls:
        began = time.perf_counter()
        found.append(await call())
        times.append(1000 * (time.perf_counter() - began))
    return round(median(times), 2), found


async def measure(
    memory: MemoryEngine, texts: Sequence[str], questions: Sequence[str], writes: int
) -> tuple[dict[str, float], list[list[str]]]:
    """Return the figures of one engine, and the texts that each question found."""
    turns = [turn(number, text) for number, text in enumerate(texts)]
    batches = [turns[start : start + BATCH] for start in range(0, len(turns), BATCH)]
    figures: dict[str, float] = {}
    figures["append a batch of 50"], _ = await timed(
        [
            lambda batch=batch, number=number: memory.append_events(  # type: ignore[misc]
                ANA, f"t{number}", batch
            )
            for number, batch in enumerate(batches)
        ]
    )
    extra = [
        turn(10**6 + number, f"The code of room {number} is {number}x.") for number in range(writes)
    ]
    missed = 0

    async def append_and_recall(one: Event) -> None:
        nonlocal missed
        await memory.append_events(ANA, "single", [one])
        hits = await memory.recall(ANA, one.text, limit=3)
        missed += one.text not in [hit.memory.text for hit in hits]

    figures["append one and recall it"], _ = await timed(
        [lambda one=one: append_and_recall(one) for one in extra]  # type: ignore[misc]
    )
    figures["missed"] = missed
    figures["recall"], found = await timed(
        [lambda ask=ask: memory.recall(ANA, ask, limit=10) for ask in questions]  # type: ignore[misc]
    )
    figures["search"], _ = await timed(
        [lambda ask=ask: memory.search(ANA, ask, 10) for ask in questions]  # type: ignore[misc]
    )
    figures["consolidate 50 turns"], _ = await timed(
        [lambda n=n: memory.consolidate(ANA, f"t{n}") for n in range(min(10, len(batches)))]  # type: ignore[misc]
    )
    return figures, [[hit.memory.text for hit in hits] for hits in found]


async def run(turns: int, questions: int, writes: int) -> dict[str, Any]:
    """Return the figures of both engines, and their ratios."""
    texts = sentences(turns)
    queries = questions_about(texts, questions)
    figures: dict[str, dict[str, float]] = {}
    found = {}
    for scheme in ("embedded", "seekdb"):
        with tempfile.TemporaryDirectory(prefix="hippocampus-engines-") as folder:
            async with open_memory(
                f"{scheme}://{folder}", worker=False, track_access=False
            ) as memory:
                figures[scheme], found[scheme] = await measure(memory, texts, queries, writes)
    return {
        "turns": turns,
        "load": load_average(),
        "ms": figures,
        "seekdb / postgres": {
            name: round(figures["seekdb"][name] / value, 2)
            for name, value in figures["embedded"].items()
            if value
        },
        "recall@10": share_of(found["embedded"], found["seekdb"]),
        "same order": sum(a == b for a, b in zip(*found.values(), strict=True)) / len(queries),
    }


def share_of(expected: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> float:
    """Return the mean share of the expected texts that were found, over the questions."""
    shares = [
        len({*right} & {*texts}) / max(1, len(right))
        for right, texts in zip(expected, found, strict=True)
    ]
    return round(sum(shares) / len(shares), 4)


async def answers(
    memory: MemoryEngine, user: Scope, texts: Sequence[str], questions: Sequence[str]
) -> dict[str, Any]:
    """Append the texts as turns of a user; return times and hits of recall() and search()."""
    turns = [turn(number, text) for number, text in enumerate(texts)]
    for start in range(0, len(turns), LOADED):
        await memory.append_events(user, f"t{start}", turns[start : start + LOADED])
    recall_ms, recalled = await timed(
        [lambda ask=ask: memory.recall(user, ask, limit=10) for ask in questions]  # type: ignore[misc]
    )
    search_ms, searched = await timed(
        [lambda ask=ask: memory.search(user, ask, 10) for ask in questions]  # type: ignore[misc]
    )
    return {
        "ms": {"recall": recall_ms, "search": search_ms},
        "recall": [[hit.memory.text for hit in hits] for hits in recalled],
        "search": [[hit.memory.text for hit in hits] for hits in searched],
    }


async def compare_users(sizes: Sequence[int], questions: int) -> dict[str, Any]:
    """Return each user's share of PostgreSQL's hits that SeekDB finds, and the lowest shares."""
    users = []
    for number, size in enumerate(sizes):
        languages = LANGUAGES[number % len(LANGUAGES)]
        texts = sentences(size, f"user {number}", languages)
        users.append((languages, texts, questions_about(texts, questions, f"user {number}")))
    found: dict[str, list[dict[str, Any]]] = {}
    for scheme in ("embedded", "seekdb"):
        with tempfile.TemporaryDirectory(prefix="hippocampus-engines-") as folder:
            async with open_memory(
                f"{scheme}://{folder}", worker=False, track_access=False
            ) as memory:
                found[scheme] = [
                    await answers(memory, Scope("benchmark", f"user {number}"), texts, queries)
                    for number, (_, texts, queries) in enumerate(users)
                ]
    rows = [
        {
            "turns": len(texts),
            "languages": "+".join(languages),
            "recall@10": share_of(postgres["recall"], seekdb["recall"]),
            "search@10": share_of(postgres["search"], seekdb["search"]),
            "postgres ms": postgres["ms"],
            "seekdb ms": seekdb["ms"],
        }
        for (languages, texts, _), postgres, seekdb in zip(
            users, found["embedded"], found["seekdb"], strict=True
        )
    ]
    return {
        "load": load_average(),
        "users": rows,
        "least recall@10": min(row["recall@10"] for row in rows),
        "least search@10": min(row["search@10"] for row in rows),
    }


def print_users(report: dict[str, Any], as_json: bool) -> None:
    """Print the report of compare_users()."""
    if as_json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
        return
    print(f"load {report['load']}")
    for row in report["users"]:
        print(
            f"{row['turns']:>7} turns {row['languages']:6} recall@10 {row['recall@10']:.4f}"
            f" ({row['postgres ms']['recall']} and {row['seekdb ms']['recall']} ms)"
            f" search@10 {row['search@10']:.4f}"
            f" ({row['postgres ms']['search']} and {row['seekdb ms']['search']} ms)"
        )
    print(f"least: {report['least recall@10']} and {report['least search@10']}")


def main() -> None:
    """Measure, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--writes", type=int, default=50)
    parser.add_argument("--users", type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.users:
        print_users(asyncio.run(compare_users(chosen.users, chosen.questions)), chosen.json)
        return
    report = asyncio.run(run(chosen.turns, chosen.questions, chosen.writes))
    if chosen.json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
        return
    print(f"{report['turns']} turns, load {report['load']}")
    for name, value in report["ms"]["embedded"].items():
        other = report["ms"]["seekdb"][name]
        print(f"{name:28} PostgreSQL {value:>9} SeekDB {other:>9}")
    print(f"recall@10 {report['recall@10']}, the same order in {report['same order']:.0%}")


if __name__ == "__main__":
    main()
