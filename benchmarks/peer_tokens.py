"""Measures how many tokens each memory spends until a question is answered.

    python -m benchmarks.peer_tokens --chats [PATH ...] | --data FILE [--left-out FEATURES.npz]
                                     [--contenders NAME ...] [--plot FILE.svg] [--json]

All contenders embed with e5 and store the same turns, each conversation in a database of its own.
A question gets what each shows a model, best first:

engine           the lines of the block that MemoryPlugin and HippocampusMiddleware show, with their
                 labels: ten memories, composed
postgres_store, in_memory_store, langmem, mem0
                 the texts of the forty turns found, each as a line "- text"

--chats: chats with an assistant (files or folders; by default benchmarks/data/chats). They are
consolidated by our rules. A question is answered by a line that holds one of its answers.
--data: conversations as in benchmarks.conversations, not consolidated. A question is answered by
the turns of its evidence; if several are needed, each counts by its share.
--left-out: rank with weights fitted without the conversation, as in benchmarks.retrieval.

answered_at_N    mean share of a question's answer within the first N tokens shown
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import chats
from benchmarks.conversations import APART, Conversation, Question as Evidence, conversations
from benchmarks.dataset import Question
from benchmarks.measure import say
from benchmarks.operations import Put, Search
from benchmarks.peer_measure import open_all
from benchmarks.peer_plot import draw
from benchmarks.peer_setting import NAMESPACE, SharedModel, Turn
from benchmarks.report import describe_machine, load_average
from benchmarks.retrieval import left_out
from benchmarks.server import fresh_database
from shared_core import Scope, open_memory
from shared_core.context import composed, shown_memory
from shared_core.core.delimiters import line
from shared_core.nlp import count_tokens

BUDGETS = (50, 100, 200, 400, 800)
CONTENDERS = ("engine", "postgres_store", "in_memory_store", "langmem", "mem0")
OUR_LIMIT = 10
PEERS_LIMIT = 40
"""Number of turns that a peer is asked for, enough for the largest budget."""
PANELS = {
    f"answered_at_{budget}": f"answered in {budget} tokens" for budget in BUDGETS if budget >= 100
}
SCOPE = Scope(*NAMESPACE)


class Line(NamedTuple):
    """A line shown, and the ids of its turns."""

    text: str
    turns: Sequence[str]


class Asked(NamedTuple):
    """A question. told: returns which share of its answer lines hold, 0 to 1."""

    text: str
    at: datetime | None
    told: Callable[[Sequence[Line]], float]


class Told(NamedTuple):
    """A conversation with its questions, and whether ours consolidates it."""

    turns: Sequence[Turn]
    asked: Sequence[Asked]
    is_chat: bool


def of_chats(paths: Sequence[Path]) -> Iterator[Told]:
    """Yield chats with an assistant."""
    for _, chat in chats.chats(paths):
        asked_at = chats.asked_at(chat)
        yield Told(
            [Turn(session, event) for session, events in chats.sessions(chat) for event in events],
            [
                Asked(one["text"], asked_at, partial(_holds_answer, one))
                for one in chat["questions"]
            ],
            is_chat=True,
        )


def of_conversations(file: Path) -> Iterator[Told]:
    """Yield labelled conversations, each turn with the name of its speaker."""
    for one in conversations(file):
        yield Told([*_turns(one)], [*_questions(one)], is_chat=False)


def _turns(told: Conversation) -> Iterator[Turn]:
    for session, events in told.sessions:
        for event in events:
            yield Turn(session, replace(event, text=f"{event.author}: {event.text}"))


def _questions(told: Conversation) -> Iterator[Asked]:
    for one in told.questions:
        if one.category not in APART and not one.by_session and one.known_sessions is None:
            yield Asked(one.text, one.asked_at, partial(_share_of, one))


def _holds_answer(question: dict[str, Any], lines: Sequence[Line]) -> float:
    return float(any(chats.is_answer(question, one.text) for one in lines))


def _share_of(question: Evidence, lines: Sequence[Line]) -> float:
    found = question.evidence & {turn for one in lines for turn in one.turns}
    required = 1 if question.any_suffices else len(question.evidence)
    return min(len(found), required) / required


def ours(told: Told, server: str, model: SharedModel) -> list[list[Line]]:
    """Return the lines of our block, by question."""
    return asyncio.run(_ours(told, server, model))


async def _ours(told: Told, server: str, model: SharedModel) -> list[list[Line]]:
    sessions: dict[str, list[Turn]] = defaultdict(list)
    for turn in told.turns:
        sessions[turn.session].append(turn)
    with fresh_database(server) as dsn:
        async with open_memory(dsn, embedder=model.embedder, worker=False) as memory:
            for session, turns in sessions.items():
                await memory.append_events(SCOPE, session, [turn.event for turn in turns])
                if told.is_chat:
                    await memory.consolidate(SCOPE, session)
            shown = []
            for one in told.asked:
                hits = await memory.recall(SCOPE, one.text, limit=OUR_LIMIT, asked_at=one.at)
                lines = composed(one.text, [shown_memory(hit, one.at) for hit in hits]).shown
                shown.append(
                    [Line(line(each.about, each.text), each.source_event_ids) for each in lines]
                )
            return shown


def theirs(name: str, told: Told, server: str, model: SharedModel) -> list[list[Line]] | None:
    """Return the lines that a peer shows, by question; None if it is not installed."""
    texts = {turn.event.event_id: turn.event.text for turn in told.turns}
    with ExitStack() as stack:
        for opened in open_all([name], server, model, told.turns, stack):
            contender = opened.contender
            contender.latencies_s([Put([turn.entry]) for turn in told.turns])
            return [
                [Line(f"- {texts[key]}", [key]) for key in contender.found_keys(_search(one))]
                for one in told.asked
            ]
    return None


def _search(asked: Asked) -> Search:
    return Search(Question(namespace=NAMESPACE, text=asked.text), PEERS_LIMIT)


def within(lines: Sequence[Line], budget: int) -> list[Line]:
    """Return the first lines that a budget of tokens holds whole."""
    spent, kept = 0, []
    for one in lines:
        spent += count_tokens(one.text)
        if spent > budget:
            break
        kept.append(one)
    return kept


def run(
    told: Sequence[Told], names: Sequence[str], weights: Path | None
) -> dict[str, dict[str, float]]:
    """Return the figures by contender."""
    shares: dict[str, dict[int, list[float]]] = {}
    model = SharedModel("e5")
    fitted = left_out(weights) if weights else None
    with fresh_database(None) as server:
        for name in names:
            for number, one in enumerate(told):
                say(f"{name}: conversation {number + 1} of {len(told)}")
                with fitted(number) if fitted else nullcontext():
                    shown = (
                        ours(one, server, model)
                        if name == "engine"
                        else theirs(name, one, server, model)
                    )
                if shown is None:
                    break
                tally = shares.setdefault(name, defaultdict(list))
                for asked, lines in zip(one.asked, shown, strict=True):
                    for budget in BUDGETS:
                        tally[budget].append(asked.told(within(lines, budget)))
    return {
        name: {
            f"answered_at_{budget}": round(statistics.fmean(values), 3)
            for budget, values in tally.items()
        }
        for name, tally in shares.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark; with --json the last line printed is the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peer_tokens", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--chats", type=Path, nargs="*", metavar="PATH")
    source.add_argument("--data", type=Path, metavar="FILE")
    parser.add_argument("--left-out", type=Path, metavar="FEATURES.npz")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    parser.add_argument("--json", action="store_true", help="print one JSON object, on one line")
    given = parser.parse_args(arguments)
    if given.data:
        told = [*of_conversations(given.data)]
    else:
        told = [*of_chats(given.chats or [chats.DATA / "chats"])]
    figures = run(told, given.contenders, given.left_out)
    if given.plot:
        given.plot.write_text(draw(figures, PANELS), "utf-8")
    environment = describe_machine() | {"load_average_at_end": load_average()}
    if given.json:
        print(json.dumps({"environment": environment, "figures": figures}))
    else:
        print_table(environment, figures)


def print_table(environment: dict[str, Any], figures: dict[str, dict[str, float]]) -> None:
    """Print the report as docs/benchmarks.md shows it."""
    print(f"environment: {json.dumps(environment)}\n")
    print("| answered within tokens |", " | ".join(map(str, BUDGETS)), "|")
    print("|---|" + "---|" * len(BUDGETS))
    for name, shares in figures.items():
        print(f"| {name} |", " | ".join(f"{share:.2f}" for share in shares.values()), "|")


if __name__ == "__main__":
    main()
