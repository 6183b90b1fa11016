"""Measures evidence recall on labelled conversations: does recall find the turns that answer?

    python -m benchmarks.retrieval --data FILE_OR_DIR [--baseline vector|bm25|rrf|fusion] [--json]
    python -m benchmarks.retrieval --data DIR --left-out FEATURES.npz

Every turn is appended through the engine, one thread per session. Every question goes to
engine.recall(). No language model runs. The last line is one JSON object. Figures, overall and by
category ("overall" leaves out adversarial, abstention and summarization):

recall_at_K                 mean share of a question's evidence among the first K hits
all_gold_at_10              share of questions with all their evidence among the first ten hits
mrr                         mean inverse rank of the first evidence
newer_above_older           of questions about a change: share with the new value above the old one
knowable                    share of these where a turn with the new value states a change and
                            supersedes, and a turn with the old value is superseded
                            (recall.supersession), whatever the order of the hits
newer_above_older_knowable  newer_above_older of the knowable questions
newer_above_older_rest      newer_above_older of the other questions

--left-out: reads the file of benchmarks.train_ranking --features, and ranks each conversation with
weights fitted on the other folds, over the conversations that training uses.
benchmarks.conversations describes the format of a file; the project ships none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from benchmarks.conversations import APART, Conversation, Question, conversations, files_of
from benchmarks.tally import DEPTHS, SHOWN, Tally
from benchmarks.train_ranking import FOLDS, LEFT_OUT, fold_weights
from benchmarks.training_set import load, used
from shared_core import Event, Hit, MemoryEngine, Scope, open_memory
from shared_core.nlp.tokenizer import count_tokens
from shared_core.ports.recall import Ranking
from shared_core.recall.ranking import use_weights

BATCH = 200
BY_SESSION = 60
"""Number of turns recalled for a question that sessions answer."""
ALL = 200
"""Number of turns recalled to find those that supersede or are superseded."""
Weighting = Callable[[int], AbstractContextManager[None]]
"""Sets the weights for ranking a conversation, by its number."""


@dataclass(slots=True)
class Results:
    """The results of one ranking: figures by category, seconds and tokens."""

    overall: Tally = field(default_factory=Tally)
    categories: dict[str, Tally] = field(default_factory=dict)
    query_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def add(self, question: Question, ranked: Sequence[str], *, is_knowable: bool) -> None:
        if question.category not in APART:
            self.overall.add(question, ranked, is_knowable=is_knowable)
        of_category = self.categories.setdefault(question.category, Tally())
        of_category.add(question, ranked, is_knowable=is_knowable)

    def figures(self) -> dict[str, Any]:
        times = sorted(self.query_s)
        return {
            "overall": self.overall.figures(),
            "by_category": {name: one.figures() for name, one in sorted(self.categories.items())},
            "query_ms": {
                "p50": round(1000 * times[len(times) // 2], 1) if times else 0.0,
                "p95": round(1000 * times[int(0.95 * len(times))], 1) if times else 0.0,
            },
            "tokens_in_first_10": round(statistics.fmean(self.tokens)) if self.tokens else 0,
        }


async def measure(
    files: Sequence[Path],
    embedder: str,
    rankings: Sequence[Ranking],
    most: int | None = None,
    weighting: Weighting | None = None,
) -> dict[str, Any]:
    """Return the figures of every file, for each ranking; most: conversations of each file.

    weighting: measure only the conversations that training uses, each with these weights.
    """
    report: dict[str, Any] = {}
    for file in files:
        results = {ranking: Results() for ranking in rankings}
        turns, seconds = 0, 0.0
        with tempfile.TemporaryDirectory() as folder:
            async with open_memory(Path(folder), embedder=embedder) as memory:
                for number, conversation in enumerate(_measured(file, most, weighting)):
                    scope = Scope(file.stem, str(number))
                    with weighting(number) if weighting else nullcontext():
                        added = await ask_all(memory, scope, conversation, results)
                    turns, seconds = turns + added[0], seconds + added[1]
        report[file.stem] = {
            "turns": turns,
            "ingestion_s": round(seconds, 2),
            "turns_per_s": round(turns / seconds) if seconds else 0,
            **{ranking: found.figures() for ranking, found in results.items()},
        }
    return report


def _measured(file: Path, most: int | None, weighting: Weighting | None) -> Sequence[Conversation]:
    found = list(conversations(file))
    return (used(found) if weighting else found)[:most]


async def ask_all(
    memory: MemoryEngine, scope: Scope, conversation: Conversation, results: dict[Ranking, Results]
) -> tuple[int, float]:
    """Append a conversation, and ask each question at its time; return turns and seconds."""
    turns, seconds, known = 0, 0.0, 0
    everything = len(conversation.sessions)

    def due(question: Question) -> int:
        return everything if question.known_sessions is None else question.known_sessions

    for question in sorted(conversation.questions, key=due):
        begun = time.perf_counter()
        turns += await append_sessions(memory, scope, conversation.sessions[known : due(question)])
        seconds += time.perf_counter() - begun
        known = max(known, due(question))
        for ranking, found in results.items():
            await _ask(memory, scope, conversation, question, ranking, found)
    return turns, seconds


async def append_sessions(
    memory: MemoryEngine, scope: Scope, sessions: Sequence[tuple[str, Sequence[Event]]]
) -> int:
    """Append sessions, one thread each; return their number of turns."""
    for session, events in sessions:
        for first in range(0, len(events), BATCH):
            await memory.append_events(scope, session, events[first : first + BATCH])
    return sum(len(events) for _, events in sessions)


async def _ask(
    memory: MemoryEngine,
    scope: Scope,
    conversation: Conversation,
    question: Question,
    ranking: Ranking,
    results: Results,
) -> None:
    begun = time.perf_counter()
    hits = await memory.recall(
        scope,
        question.text,
        limit=BY_SESSION if question.by_session else max(DEPTHS),
        kinds=["episodic"],
        ranking=ranking,
        asked_at=question.asked_at,
    )
    results.query_s.append(time.perf_counter() - begun)
    results.tokens.append(sum(count_tokens(hit.memory.text) for hit in hits[:SHOWN]))
    units = [_unit(hit, conversation, question) for hit in hits]
    is_knowable = bool(question.newer) and await _is_knowable(memory, scope, question)
    results.add(question, list(dict.fromkeys(units)), is_knowable=is_knowable)


async def _is_knowable(memory: MemoryEngine, scope: Scope, question: Question) -> bool:
    """Return whether a turn with the new value supersedes, and one with the old is superseded."""
    hits = await memory.recall(
        scope, question.text, limit=ALL, kinds=["episodic"], asked_at=question.asked_at
    )
    parts = [(hit.memory.source_event_ids[0], hit.parts) for hit in hits]
    superseding = {turn for turn, known in parts if known.get("overtakes")}
    superseded = {turn for turn, known in parts if known.get("is_overtaken")}
    newer = question.newer - question.older
    return not (newer.isdisjoint(superseding) or question.older.isdisjoint(superseded))


def _unit(hit: Hit, conversation: Conversation, question: Question) -> str:
    turn = hit.memory.source_event_ids[0]
    return conversation.session_of[turn] if question.by_session else turn


def main() -> None:
    parser = argparse.ArgumentParser(description="Evidence recall on labelled conversations.")
    parser.add_argument("--data", required=True, type=Path, help="a file, or a folder of files")
    parser.add_argument(
        "--ranking", choices=get_args(Ranking), default="linear", help="the ranking to measure"
    )
    parser.add_argument(
        "--baseline", choices=get_args(Ranking), action="append", default=[],
        help="another ranking to measure in the same run; repeatable",
    )  # fmt: skip
    parser.add_argument("--embedder", default="e5", help="use or e5")
    parser.add_argument("--conversations", type=int, help="maximum number in each file")
    parser.add_argument(
        "--left-out", type=Path, metavar="FEATURES.npz", help="rank with weights of other folds"
    )
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    try:
        files = files_of(arguments.data)
        weighting = left_out(arguments.left_out) if arguments.left_out else None
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    if weighting:
        files = [file for file in files if not file.stem.startswith(LEFT_OUT)]
    rankings = list(dict.fromkeys([arguments.ranking, *arguments.baseline]))
    report: dict[str, Any] = {}
    for file in files:
        found = asyncio.run(
            measure([file], arguments.embedder, rankings, arguments.conversations, weighting)
        )
        if not arguments.json:
            _print(found, rankings)
        report |= found
    print(json.dumps(summary(report, arguments.ranking, arguments.embedder)))


def left_out(features: Path) -> Weighting:
    """Return a weighting that ranks each conversation with weights of the other folds.

    Raises FileNotFoundError, and ValueError for a file of other features than are in use.
    """
    weights = fold_weights(load(features))
    return lambda number: use_weights(weights[number % FOLDS])


def summary(report: dict[str, Any], ranking: Ranking, embedder: str) -> dict[str, Any]:
    """Return the object of the last line: the figures of one file, or the means over files."""
    first = next(iter(report.values()))
    if len(report) == 1:
        flat = first[ranking]
        others = {name: found for name, found in first.items() if isinstance(found, dict)}
        costs = {name: found for name, found in first.items() if not isinstance(found, dict)}
        baselines = {name: found for name, found in others.items() if name != ranking}
        return {"ranking": ranking, "embedder": embedder, **costs, **flat, "baselines": baselines}
    names = [
        name
        for name in first[ranking]["overall"]
        if all(name in found[ranking]["overall"] for found in report.values())
    ]
    overall = {
        name: round(
            statistics.fmean(found[ranking]["overall"][name] for found in report.values()), 4
        )
        for name in names
        if name != "questions"
    }
    return {"ranking": ranking, "embedder": embedder, "overall": overall, "files": report}


def _print(report: dict[str, Any], rankings: Sequence[Ranking]) -> None:
    for name, found in report.items():
        print(f"{name}: {found['turns']} turns, {found['turns_per_s']} a second")
        for ranking in rankings:
            figures = found[ranking]
            rows = {"overall": figures["overall"], **figures["by_category"]}
            times = figures["query_ms"]
            print(f"  {ranking}: {times['p50']} ms a query (p95 {times['p95']})", flush=True)
            for row, values in rows.items():
                print(f"    {row:26}", "  ".join(f"{key} {value}" for key, value in values.items()))


if __name__ == "__main__":
    main()
