"""Make the vectors of the topics of questions, and tell how well they are told apart.

    python -m benchmarks.question_topics [--out FILE.npz]

Reads nlp/rules/topics.toml and embeds it with "e5". The file holds the questions, in 8 bits a
number, and what the answers of each topic have beside those of others. Prints the share of
questions whose nearest other question is of their topic.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from shared_core.models.embedders import E5Embedder
from shared_core.nlp.rules import read_rule_file
from shared_core.recall.topics import NUMBERS, TOPICS

USUAL: Final = 0.8
"""Share of the mean of all answers that is taken from those of a topic."""
STEPS: Final = 127
"""Steps of a number of 8 bits."""


async def vectors(topics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of the file."""
    embedder = E5Embedder()
    asks, of, tells = [], [], []
    for number, topic in enumerate(topics.values()):
        for text in _texts(topic, "asks"):
            asks.append((await embedder.embed_query(text))[0])
            of.append(number)
        told = _texts(topic, "tells")
        tells.append((await embedder.embed_passages(told)).mean(axis=0) if told else 0 * asks[0])
    usual = np.mean([one for one in tells if one.any()], axis=0)
    moved = np.array([one - USUAL * usual if one.any() else one for one in tells])
    moved /= np.linalg.norm(moved, axis=1, keepdims=True).clip(1e-9)
    return {
        "model": np.array(embedder.model),
        "names": np.array([*topics]),
        "asks": np.round(np.array(asks) / np.abs(asks).max() * STEPS).astype(np.int8),
        "of": np.array(of, np.int16),
        "tells": moved.astype(np.float16),
    }


def _texts(topic: Mapping[str, Any], form: str) -> list[str]:
    return [text for texts in topic.get(form, {}).values() for text in texts]


def told_apart(asks: Any, of: Any) -> float:
    """Return the share of questions whose nearest other question is of their topic."""
    unit = asks / np.linalg.norm(asks.astype(float), axis=1, keepdims=True)
    like = unit @ unit.T
    np.fill_diagonal(like, -1)
    return float((of[like.argmax(axis=1)] == of).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the vectors of the topics of questions.")
    parser.add_argument("--out", type=Path, default=Path("shared_core/models", NUMBERS))
    arguments = parser.parse_args()
    found = asyncio.run(vectors(read_rule_file(TOPICS)))
    np.savez_compressed(arguments.out, **found)
    apart = told_apart(found["asks"], found["of"])
    print(f"{len(found['asks'])} questions, told apart: {apart:.1%}")


if __name__ == "__main__":
    main()
