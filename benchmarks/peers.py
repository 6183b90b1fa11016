"""Compares our memory with others on one conversation: python -m benchmarks.peers --data FILE

All contenders store the same turns, embed with the same model, and answer the same questions:

engine           MemoryEngine.append_events, and recall of turns
adk              OpenMemoryService with its defaults: adding a turn consolidates it as well
store            PgHippocampusStore, which searches by vector by default
store_hybrid     the same with search="hybrid"
postgres_store   LangGraph's PostgresStore
in_memory_store  LangGraph's InMemoryStore with an index
langmem          langmem's memory tools over a PostgresStore
mem0             mem0's Memory over pgvector with infer=False

One embedded PostgreSQL serves all, each with a database of its own. Turns are added and questions
asked one by one. After every few calls another contender has its turn, in random order. Figures:

add_ms         adding one turn, embedding included
ask_ms         one question with ten results, embedding included, each asked for the first time
recall_at_K    mean share of a question's evidence among the first K turns of ten results
mrr            mean inverse rank of the first evidence
process_mb     with --memory: resident memory of a process that has only this contender, after it
               has added all turns and answered ten questions; "model" is the embedding model alone

Questions are left out if single turns do not answer them, or if they limit what is known.
--left-out: rank with weights fitted without this conversation, as in benchmarks.retrieval.
--speakers: put the speaker's name before each text, for contenders that rank by texts alone.
`pip install 'pg-hippocampus[peers]'` installs the other contenders; one that is not installed is
skipped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.conversations import APART, Question, conversations
from benchmarks.measure import say
from benchmarks.peer_measure import MODEL, OPENERS, measure, open_all, resident_mb
from benchmarks.peer_plot import draw
from benchmarks.peer_setting import SharedModel, Turn
from benchmarks.report import describe_machine, load_average
from benchmarks.retrieval import left_out
from benchmarks.server import describe_server, fresh_database
from shared_core import Event

PACKAGES = ("google-adk", "langgraph", "langmem", "mem0ai")
COLUMNS = {
    "add_p50_ms": "add p50 (ms)",
    "add_p95_ms": "p95",
    "ask_p50_ms": "ask p50 (ms)",
    "ask_p95_ms": "p95",
    "recall_at_5": "recall@5",
    "recall_at_10": "recall@10",
    "mrr": "MRR",
    "process_mb": "process (MB)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments of a run."""

    data: Path
    conversation: int
    questions: int
    embedder: str
    contenders: Sequence[str]
    speakers: bool
    left_out: Path | None
    memory: bool


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark; with --json the last line printed is the report."""
    parser = _parser()
    values = vars(parser.parse_args(arguments))
    as_json, plot = values.pop("json"), values.pop("plot")
    try:
        report = run(Options(**values))
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    if plot:
        plot.write_text(draw(report["figures"]), "utf-8")
    if as_json:
        print(json.dumps(report))
    else:
        print_table(report)


def run(options: Options) -> dict[str, Any]:
    """Return the environment, and the figures by contender."""
    turns, questions = read(options)
    weights = left_out(options.left_out)(options.conversation) if options.left_out else None
    environment = describe_machine() | _versions()
    with fresh_database(None) as server:
        # The contenders' event loop starts in this block and keeps its weights.
        with weights or nullcontext(), ExitStack() as stack:
            model = SharedModel(options.embedder)
            opened = open_all(options.contenders, server, model, turns, stack)
            figures = measure(opened, turns, questions)
            for one in opened[:1]:
                environment |= describe_server(one.dsn)
        if options.memory:
            for name in (MODEL, *figures):
                say(f"measuring the memory of a process: {name}")
                figures.setdefault(name, {})["process_mb"] = _process_mb(
                    name, server, options, turns
                )
    environment |= {"turns": len(turns), "questions": len(questions), "embedder": options.embedder}
    environment["load_average_at_end"] = load_average()
    return {"environment": environment, "figures": figures}


def read(options: Options) -> tuple[list[Turn], list[Question]]:
    """Return the turns of the conversation, and the first questions that single turns answer."""
    found = list(conversations(options.data))
    if not 0 <= options.conversation < len(found):
        raise ValueError(
            f"--conversation must be between 0 and {len(found) - 1}, got {options.conversation}"
        )
    conversation = found[options.conversation]
    turns = [
        Turn(session, _named(event) if options.speakers else event)
        for session, events in conversation.sessions
        for event in events
    ]
    questions = [
        one
        for one in conversation.questions
        if one.category not in APART and not one.by_session and one.known_sessions is None
    ]
    if not questions:
        raise ValueError(f"{options.data} has no question that single turns answer")
    return turns, questions[: options.questions]


def _named(event: Event) -> Event:
    return replace(event, text=f"{event.author}: {event.text}")


def _process_mb(name: str, server: str, options: Options, turns: Sequence[Turn]) -> float | None:
    """Return resident_mb() of a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        return processes.submit(resident_mb, name, server, options.embedder, turns).result()


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def print_table(report: dict[str, Any]) -> None:
    """Print the report as docs/benchmarks.md shows it."""
    print(f"environment: {json.dumps(report['environment'])}\n")
    figures = report["figures"]
    shown = [name for name in COLUMNS if any(name in one for one in figures.values())]
    print("| |", " | ".join(COLUMNS[name] for name in shown), "|")
    print("|---|" + "---|" * len(shown))
    for contender, values in figures.items():
        cells = ("" if values.get(name) is None else f"{values[name]:g}" for name in shown)
        print(f"| {contender} |", " | ".join(cells), "|")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", required=True, type=Path, help="a file of conversations")
    parser.add_argument("--conversation", type=int, default=0, metavar="N", help="from 0")
    parser.add_argument("--questions", type=int, default=200, metavar="N", help="maximum number")
    parser.add_argument("--embedder", choices=("use", "e5"), default="use")
    parser.add_argument("--contenders", nargs="+", choices=OPENERS, default=list(OPENERS))
    parser.add_argument("--speakers", action="store_true", help="put names before texts")
    parser.add_argument(
        "--left-out", type=Path, metavar="FEATURES.npz", help="rank with weights of other folds"
    )
    parser.add_argument("--memory", action="store_true", help="measure the memory of processes")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the figures")
    parser.add_argument("--json", action="store_true", help="print one JSON object, on one line")
    return parser


if __name__ == "__main__":
    main()
