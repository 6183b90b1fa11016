"""Loads and measures all contenders alternately, so that drift of the machine affects all."""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import TypeAlias

import numpy as np

from benchmarks.dataset import Dataset, Entry, Question
from benchmarks.operations import ASYNC_FACE, FUNCTION_FACE, Contender, Get, Operation, Put, Search

BATCH = 500
"""Items per call while loading."""

TURN = 10
"""Consecutive operations of one contender while latencies are measured."""

CLIENTS = (1, 4, 16)

Figures: TypeAlias = defaultdict[str, defaultdict[str, list[float]]]
"""Numbers by contender and figure: one per round; batched puts one per batch, recall one."""


class Measurement:
    """Measures one run step by step; figures holds the results."""

    def __init__(self, contenders: Sequence[Contender], dataset: Dataset, rounds: int) -> None:
        self.figures: Figures = defaultdict(lambda: defaultdict(list))
        self._contenders = contenders
        # A function as embedder affects searches only, so its face is left out elsewhere.
        self._full = [one for one in contenders if one.face != FUNCTION_FACE]
        self._dataset = dataset
        self._rounds = rounds
        self._searches = [Search(question) for question in dataset.questions]
        self._random = random.Random(len(dataset.entries))

    def load(self) -> None:
        """Load all entries into every contender, alternately; our store by its sync methods."""
        entries = self._dataset.entries
        writers = [one for one in self._full if one.face != ASYNC_FACE]
        for start in range(0, len(entries), BATCH):
            batch = entries[start : start + BATCH]
            for contender in writers:
                [seconds] = contender.latencies_s([Put(batch)])
                self.figures[contender.name]["put_batched_per_s"].append(len(batch) / seconds)
            say(f"loaded {start + len(batch):,} of {len(entries):,} items")

    def recall(self) -> None:
        """Compare the answers with the exact ones. It is also a warm-up."""
        say("comparing answers with brute force")
        everywhere = self._everywhere()
        for name, searches in (("recall", self._searches), ("global_recall", everywhere)):
            exact = [set(self._dataset.nearest(search.question)) for search in searches]
            for contender in self._full:
                found = [
                    len(keys & set(contender.found_keys(search))) / len(keys)
                    for search, keys in zip(searches, exact, strict=True)
                ]
                self.figures[contender.name][f"{contender.face}{name}_at_10"] = [fmean(found)]

    def warm_up(self) -> None:
        """Let every contender open its connections and prepare its statements on each."""
        say("warming up")
        gets = self._gets()
        for contender in self._contenders:
            contender.latencies_s(gets)
            # Enough for each connection to settle on a plan, which takes six executions.
            often = 1 + 8 * max(CLIENTS) // len(self._searches)
            contender.elapsed_s(self._searches * often, max(CLIENTS))

    def read(self) -> None:
        """Measure gets, searches and concurrent searches, all contenders in every round."""
        for number in range(1, self._rounds + 1):
            say(f"round {number} of {self._rounds}")
            self._latencies("get", self._full, self._gets())
            self._latencies("search", self._contenders, self._searches)
            self._latencies("global_search", self._full, self._everywhere())
            for clients in CLIENTS:
                for contender in self._full:
                    seconds = contender.elapsed_s(self._searches, clients)
                    self._note(contender, f"qps_{clients}", len(self._searches) / seconds)

    def write(self) -> None:
        """Measure puts of single new items."""
        say("putting single items")
        entries = self._dataset.newcomers
        share = len(entries) // self._rounds
        for number in range(self._rounds):
            chunk = entries[number * share : (number + 1) * share]
            for contender in self._full:
                puts = [Put([_renamed(entry, contender.face)]) for entry in chunk]
                seconds = contender.latencies_s(puts)
                self._note(contender, "put_single_ms", 1000 * float(np.median(seconds)))

    def _latencies(
        self, name: str, contenders: Sequence[Contender], operations: Sequence[Operation]
    ) -> None:
        taken: dict[Contender, list[float]] = defaultdict(list)
        for start in range(0, len(operations), TURN):
            for contender in contenders:
                taken[contender] += contender.latencies_s(operations[start : start + TURN])
        for contender, seconds in taken.items():
            for percent in (50, 99):
                value = 1000 * float(np.percentile(seconds, percent))
                self._note(contender, f"{name}_p{percent}_ms", value)

    def _note(self, contender: Contender, figure: str, value: float) -> None:
        self.figures[contender.name][f"{contender.face}{figure}"].append(value)

    def _gets(self) -> list[Get]:
        return [Get(e) for e in self._random.choices(self._dataset.entries, k=len(self._searches))]

    def _everywhere(self) -> list[Search]:
        some = self._searches[: max(1, len(self._searches) // 10)]
        return [Search(Question(namespace=(), text=search.question.text)) for search in some]


def say(progress: str) -> None:
    """Print the progress of the run to stderr."""
    print(progress, file=sys.stderr, flush=True)


def _renamed(entry: Entry, face: str) -> Entry:
    return Entry(namespace=entry.namespace, key=f"{face}{entry.key}", text=entry.text)
