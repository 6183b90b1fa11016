"""Opens the contenders of benchmarks.peers, and measures them alternately."""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np

from benchmarks.conversations import Question
from benchmarks.dataset import Question as Query
from benchmarks.measure import say
from benchmarks.operations import Contender, Operation, Put, Search
from benchmarks.peer_setting import NAMESPACE, Setting, SharedModel, Turn
from benchmarks.server import fresh_database, vacuum
from benchmarks.tally import Tally

OPENERS = {
    "engine": "benchmarks.peer_ours:open_engine",
    "adk": "benchmarks.peer_ours:open_adk",
    "store": "benchmarks.peer_ours:open_store",
    "store_hybrid": "benchmarks.peer_ours:open_hybrid_store",
    "postgres_store": "benchmarks.peer_langgraph:open_postgres_store",
    "in_memory_store": "benchmarks.peer_langgraph:open_in_memory_store",
    "langmem": "benchmarks.peer_langgraph:open_langmem",
    "mem0": "benchmarks.peer_mem0:open_mem0",
}
"""The function that opens each contender. Its module is imported only when it is opened, so that
the memory of a process shows what this contender needs."""
FROM_EXTRA = ("google", "langchain_core", "langgraph", "langmem", "mem0")
"""Top-level modules that the extra `peers` installs."""
MODEL = "model"
"""Stands for a process that has the embedding model and no contender."""
BLOCK = 5
"""Consecutive calls of one contender."""
WARM_UP = 10
"""Number of questions before the measured ones. Their texts are turns."""

Figures: TypeAlias = dict[str, dict[str, float | None]]
"""Figures by contender."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A contender and its database."""

    contender: Contender
    dsn: str


def open_all(
    names: Sequence[str], server: str, model: SharedModel, turns: Sequence[Turn], stack: ExitStack
) -> list[Opened]:
    """Return the contenders that are installed; say how to install each of the others."""
    runner = stack.enter_context(asyncio.Runner())
    by_key = {turn.event.event_id: turn for turn in turns}
    found = []
    for name in names:
        module, function = OPENERS[name].split(":")
        dsn = stack.enter_context(fresh_database(server))
        setting = Setting(dsn=dsn, model=model, turns=by_key, runner=runner, stack=stack)
        try:
            contender = getattr(import_module(module), function)(setting)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in FROM_EXTRA:
                raise
            say(f"{name} is skipped: {error.name} is not installed, run"
                " pip install 'pg-hippocampus[peers]'")  # fmt: skip
            continue
        found.append(Opened(contender, dsn))
    return found


def measure(
    opened: Sequence[Opened], turns: Sequence[Turn], questions: Sequence[Question]
) -> Figures:
    """Add all turns to each contender, then ask it all questions; return the figures."""
    contenders = [one.contender for one in opened]
    say(f"adding {len(turns):,} turns")
    added = _alternately(contenders, _puts(turns))
    for one in opened:
        vacuum(one.dsn)
    say(f"asking {len(questions):,} questions")
    for contender in contenders:
        contender.latencies_s(_warm_up(turns))
    asked = _alternately(contenders, _searches(questions))
    say("comparing the answers with the evidence")
    return {
        one.name: {
            "add_p50_ms": _percentile_ms(added[one.name], 50),
            "add_p95_ms": _percentile_ms(added[one.name], 95),
            "ask_p50_ms": _percentile_ms(asked[one.name], 50),
            "ask_p95_ms": _percentile_ms(asked[one.name], 95),
            **_quality(one, questions),
        }
        for one in contenders
    }


def resident_mb(name: str, server: str, embedder: str, turns: Sequence[Turn]) -> float | None:
    """Return the resident megabytes of this process, which is to have only this contender.

    None where the system does not tell. The contender adds the turns and answers some questions.
    """
    with ExitStack() as stack:
        model = SharedModel(embedder)
        if name == MODEL:
            for turn in turns:
                model.embed_documents([turn.event.text])
        else:
            for one in open_all([name], server, model, turns, stack):
                one.contender.latencies_s(_puts(turns) + _warm_up(turns))
        gc.collect()
        pages = Path("/proc/self/statm")
        if not pages.exists():
            return None
        size = int(pages.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return round(size / 2**20)


def _puts(turns: Sequence[Turn]) -> list[Operation]:
    return [Put([turn.entry]) for turn in turns]


def _warm_up(turns: Sequence[Turn]) -> list[Operation]:
    return [Search(Query(namespace=NAMESPACE, text=turn.event.text)) for turn in turns[:WARM_UP]]


def _searches(questions: Sequence[Question]) -> list[Operation]:
    return [Search(Query(namespace=NAMESPACE, text=question.text)) for question in questions]


def _alternately(
    contenders: Sequence[Contender], operations: Sequence[Operation]
) -> dict[str, list[float]]:
    """Return the seconds of each operation, by contender."""
    seconds: dict[str, list[float]] = defaultdict(list)
    order = random.Random(7)
    for first in range(0, len(operations), BLOCK):
        for contender in order.sample(contenders, len(contenders)):
            seconds[contender.name] += contender.latencies_s(operations[first : first + BLOCK])
    return seconds


def _percentile_ms(seconds: Sequence[float], percent: int) -> float:
    return round(1_000 * float(np.percentile(seconds, percent)), 2)


def _quality(contender: Contender, questions: Sequence[Question]) -> dict[str, float | None]:
    tally = Tally()
    for question, search in zip(questions, _searches(questions), strict=True):
        keys = contender.found_keys(cast(Search, search))
        tally.add(question, list(dict.fromkeys(keys)))
    figures = tally.figures()
    return {name: figures[name] for name in ("recall_at_5", "recall_at_10", "mrr")}
