"""Measures accuracy and cost of the privacy class on labelled sentences.

    python -m benchmarks.privacy [--embedder use|e5] [--data FILE.json] [--part test|seen|tuning]
                                 [--misses] [--json]

FILE holds {"EN": {"tuning": [{"text", "privacy", "hard"?}], "seen": [...], "test": [...]}, "ZH":
{...}}. The default is benchmarks/data/privacy.json, our own. Examples and margin were chosen with
"tuning" and "seen"; for these parts several margins are printed. "seen" was the test of a first
version. "test" was written after the last example. A sentence is classified like a statement in a
consolidation: by its words, then by the examples in shared_core/nlp/rules/privacy.toml.
private_called_public is the error to avoid: a filter that drops public memories loses the memory.
public_called_private only keeps an unneeded memory. "by_examples" leaves out the rule for words.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from shared_core.models.embedders import resolve_embedder
from shared_core.nlp.text import Language, language
from shared_core.privacy.classifier import (
    MARGIN,
    Prototypes,
    class_by_example,
    examples,
    private_by_words,
    prototypes_of,
)

if TYPE_CHECKING:
    from shared_core.ports.storage import Embedder, Vectors

OWN_DATA: Final = Path(__file__).parent / "data" / "privacy.json"
MARGINS: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(slots=True)
class Tally:
    """Results of the sentences of one language: right or wrong, by label, and of hard ones."""

    right: dict[str, list[bool]] = field(default_factory=lambda: {"private": [], "public": []})
    hard: list[bool] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)

    def add(self, row: Mapping[str, Any], predicted: str) -> None:
        """Count one sentence."""
        right = predicted == row["privacy"]
        self.right[row["privacy"]].append(right)
        if row.get("hard"):
            self.hard.append(right)
        if not right:
            self.misses.append(f"{row['privacy']} called {predicted}: {row['text']}")

    def figures(self) -> dict[str, float | str]:
        """Return the figures by name: shares between 0 and 1, counts as "wrong/all"."""
        private, public = self.right["private"], self.right["public"]
        return {
            "sentences": len(private) + len(public),
            "accuracy": _share([*private, *public]),
            "hard_accuracy": _share(self.hard),
            "private_called_public": f"{private.count(False)}/{len(private)}",
            "public_called_private": f"{public.count(False)}/{len(public)}",
        }


def score(
    rows: Sequence[Mapping[str, Any]],
    vectors: Vectors,
    prototypes: Mapping[Language, Prototypes],
    *,
    by_words: bool = True,
) -> Tally:
    """Return the results of sentences with their vectors."""
    tally = Tally()
    for row, vector in zip(rows, vectors, strict=True):
        is_private = by_words and private_by_words(row["text"])
        near = prototypes[language(row["text"])]
        tally.add(row, "private" if is_private else class_by_example(vector, near))
    return tally


def with_margin(
    prototypes: Mapping[Language, Prototypes], margin: float
) -> Mapping[Language, Prototypes]:
    """Return the prototypes with another margin, in the unit of MARGIN."""
    return {
        code: replace(one, margin=one.margin * margin / MARGIN) for code, one in prototypes.items()
    }


async def measure(embedder: Embedder, data: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return figures and misses by language, and the cost."""
    await embedder.embed_passages(["the model is loaded by now"])
    begun = time.perf_counter()
    prototypes = {
        code: prototypes_of(code, await embedder.embed_passages(examples(code)))
        for code in get_args(Language)
    }
    examples_ms = 1000 * (time.perf_counter() - begun)
    results: dict[str, Any] = {}
    taken = count = 0.0
    for name, parts in data.items():
        rows = parts[part]
        vectors = await embedder.embed_passages([row["text"] for row in rows])
        begun = time.perf_counter()
        tally = score(rows, vectors, prototypes)
        taken, count = taken + time.perf_counter() - begun, count + len(rows)
        alone = score(rows, vectors, prototypes, by_words=False)
        results[name] = {**tally.figures(), "by_examples": alone.figures(), "misses": tally.misses}
        if part != "test":
            results[name]["margins"] = {
                str(margin): score(rows, vectors, with_margin(prototypes, margin)).figures()
                for margin in MARGINS
            }
    results["cost"] = {
        "examples_ms": round(examples_ms, 1),
        "us_per_text": round(1e6 * taken / max(1.0, count), 1),
    }
    return results


def _share(right: Sequence[bool]) -> float:
    return round(sum(right) / max(1, len(right)), 3)


def show(results: Mapping[str, Any], *, misses: bool) -> None:
    """Print the results, one line for each language and variant."""
    for name, figures in results.items():
        print(name, _line(figures))
        if "by_examples" in figures:
            print(f"  by examples only: {_line(figures['by_examples'])}")
        for margin, of_margin in figures.get("margins", {}).items():
            print(f"  margin {margin}: {_line(of_margin)}")
        if misses:
            print("".join(f"  {miss}\n" for miss in figures.get("misses", ())), end="")


def _line(figures: Mapping[str, Any]) -> str:
    plain = {key: one for key, one in figures.items() if isinstance(one, str | int | float)}
    return " ".join(f"{key}={one}" for key, one in plain.items())


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy of the privacy class.")
    parser.add_argument("--embedder", choices=("use", "e5"), default="e5")
    parser.add_argument("--data", type=Path, default=OWN_DATA)
    parser.add_argument("--part", choices=("test", "seen", "tuning"), default="test")
    parser.add_argument("--misses", action="store_true", help="list wrong sentences")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.data.is_file():
        parser.error(f"no such file: {arguments.data}")
    data = json.loads(arguments.data.read_text(encoding="utf-8"))
    results = asyncio.run(measure(resolve_embedder(arguments.embedder), data, arguments.part))
    if arguments.json:
        print(json.dumps(results, ensure_ascii=False))
    else:
        show(results, misses=arguments.misses)


if __name__ == "__main__":
    main()
