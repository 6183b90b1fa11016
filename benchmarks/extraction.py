"""Measures precision, recall and speed of the rule-based extractor on labelled utterances.

    python -m benchmarks.extraction [--data FILE.json] [--misses] [--without PATTERN ...] [--json]

FILE holds {"EN": [{"text", "expect": [{"kind", "value", "operation"?}]}], "ZH": [...]}. The default
is benchmarks/data/utterances.json, our own. An empty "expect" means that nothing may be extracted.
Every utterance is read alone, as by `hippocampus extract --json`. A draft is right if kind and
operation equal those of a label, and one value contains the other, ignoring case. Each label counts
once. If no label of the data has an operation, any operation is right. "needs": share of the
utterances without facts that are marked for a model, by their "silence". index_ms, revision_ms:
processor time to index 500 held facts, once a window, and to compare a turn with them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from shared_core.cli.extraction import LineDrafts, kind_of, read_lines
from shared_core.core.domain import USER, Event, HeldFact, MemoryId
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.knowledge.revision import Revision

OWN_DATA: Final = Path(__file__).parent / "data" / "utterances.json"
SAID_AT: Final = datetime(2026, 5, 13, 15, tzinfo=UTC)
SPEED_S: Final = 2.0
HELD_FACTS: Final = 500
REVISIONS: Final = 40
REVISING: Final = (
    "I don't drink coffee anymore, it was messing w my sleep",
    "so I handed in my notice at Deloitte last week and we moved out of Leeds",
    "what should I cook tonight for six people who like fish",
    "我现在不喝咖啡了，胃受不了",
    "辩论赛改期了，那周暴雨，拖到6月20，我们输了",
)


@dataclass(slots=True)
class Tally:
    """Counts over the utterances of one language."""

    utterances: int = 0
    negatives: int = 0
    loud: int = 0
    right: int = 0
    wrong: int = 0
    missed: int = 0
    misses: list[str] = field(default_factory=list)
    marked: dict[str, Counter[bool]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, row: dict[str, Any], line: LineDrafts, *, operations: bool) -> None:
        """Count one utterance. operations: whether the labels have operations."""
        self.utterances += 1
        unmatched = list(row["expect"])
        for draft in line.drafts:
            label = next(
                (
                    one
                    for one in unmatched
                    if one["kind"] == kind_of(draft)
                    and (not operations or one.get("operation", "assert") == draft.operation)
                    and fits(one["value"], draft.value)
                ),
                None,
            )
            if label is None and any(fits(one, draft.value) for one in row.get("also", ())):
                continue
            if label is None:
                self.wrong += 1
                self.misses.append(f"wrong   {row['text']} -> {draft.slot} = {draft.value}")
            else:
                unmatched.remove(label)
                self.right += 1
        self.missed += len(unmatched)
        self.misses += [f"missed  {row['text']} -> {one['value']}" for one in unmatched]
        if not row["expect"]:
            self.negatives += 1
            self.loud += bool(line.drafts)
            self.marked[row.get("silence", "")][line.needs_llm] += 1

    def figures(self) -> dict[str, float | int | dict[str, float]]:
        """Return the figures by name; precision and recall are between 0 and 1."""
        return {
            "utterances": self.utterances,
            "negatives": self.negatives,
            "negatives_with_drafts": self.loud,
            "precision": round(self.right / max(1, self.right + self.wrong), 3),
            "recall": round(self.right / max(1, self.right + self.missed), 3),
            "needs": {
                name: round(found[True] / found.total(), 2) for name, found in self.marked.items()
            },
        }


def fits(label: str, value: str) -> bool:
    """Return whether one of two values contains the other, ignoring case."""
    label, value = label.casefold(), value.casefold()
    return bool(value) and (label in value or value in label)


def score(
    data: dict[str, list[dict[str, Any]]], without: Collection[str] = (), *, reader: bool = False
) -> dict[str, Tally]:
    """Return the counts of each language. reader: whether the trained reader reads too."""
    extractor = RuleExtractor(without=without, reader=reader)
    operations = any(
        "operation" in one for rows in data.values() for row in rows for one in row["expect"]
    )
    tallies = {}
    for name, rows in data.items():
        tallies[name] = Tally()
        for row, line in zip(rows, readings(rows, extractor), strict=True):
            tallies[name].add(row, line, operations=operations)
    return tallies


def readings(rows: Sequence[dict[str, Any]], extractor: RuleExtractor) -> list[LineDrafts]:
    """Return the drafts of each utterance, from the reader of the command line."""
    source = BytesIO("".join(row["text"].replace("\n", " ") + "\n" for row in rows).encode())
    return list(read_lines(source, extractor, SAID_AT))


def speed(data: dict[str, list[dict[str, Any]]], *, reader: bool) -> dict[str, int]:
    """Return utterances per second of wall-clock time, and of processor time."""
    extractor, done = RuleExtractor(reader=reader), 0
    rows = [row for rows in data.values() for row in rows]
    readings(rows, extractor)
    wall, cpu = time.perf_counter(), time.process_time()
    while time.process_time() - cpu < SPEED_S:
        done += len(readings(rows, extractor))
    return {
        "per_s": round(done / (time.perf_counter() - wall)),
        "per_cpu_s": round(done / (time.process_time() - cpu)),
    }


def revision_ms() -> dict[str, float]:
    """Return the processor time to compare a turn with HELD_FACTS facts, and to index these."""
    facts = [
        HeldFact(
            memory_id=MemoryId(UUID(int=number)),
            fact_type="preference",
            slot="like",
            subject=USER,
            value=f"thing{number} of note{number % 37}" if number % 2 else f"第{number}号的东西",
            statement="",
            functional=False,
            stated_at=SAID_AT,
        )
        for number in range(HELD_FACTS)
    ]
    turns = [
        Event(event_id=text, author="user", role="user", text=text, occurred_at=SAID_AT)
        for text in REVISING
    ]
    started = time.process_time()
    revisions = [Revision(facts, reader=False) for _ in range(REVISIONS)]
    indexed = time.process_time()
    for revision in revisions:
        for turn in turns:
            revision.read(turn, [])
    done = time.process_time()
    return {
        "index_ms": round((indexed - started) / REVISIONS * 1000, 2),
        "revision_ms": round((done - indexed) / REVISIONS / len(turns) * 1000, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Precision and recall of the rules.")
    parser.add_argument("--data", type=Path, default=OWN_DATA)
    parser.add_argument("--misses", action="store_true", help="list wrong and missed values")
    parser.add_argument("--without", action="append", default=[], help="a pattern to switch off")
    parser.add_argument("--reader", action="store_true", help="with the trained reader")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.data.is_file():
        parser.error(f"no such file: {arguments.data}")
    data = json.loads(arguments.data.read_text(encoding="utf-8"))
    tallies = score(data, arguments.without, reader=arguments.reader)
    results = {name: tally.figures() for name, tally in tallies.items()}
    measured = speed(data, reader=arguments.reader) | revision_ms()
    if arguments.json:
        print(json.dumps({**results, "speed": measured}))
        return
    for name, figures in results.items():
        print(name, " ".join(f"{key}={value}" for key, value in figures.items()))
        if arguments.misses:
            print("\n".join(f"  {miss}" for miss in tallies[name].misses))
    print(" ".join(f"{key}={value}" for key, value in measured.items()))


if __name__ == "__main__":
    main()
