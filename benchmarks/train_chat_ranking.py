"""Trains the weights of the linear ranking for chats of a user with an agent.

    python -m benchmarks.train_chat_ranking [--data PATH ...] [--embedder use e5] [--write]

The chats (those of benchmarks/data/chats and assistant.json, unless others are given) are
appended and consolidated by the engine with each embedder, so that there are facts among the
candidates. The weights maximise the mean log-probability, under a softmax over turns and facts,
that an answer comes first; an L2 penalty holds the standardised weights small. Summaries are left
out: one holds the answers of a whole session, and is long. So are facts that a question asks for:
a rule puts them first, and the fit would weigh down all facts for it. Prints the figures of chats
left out of a fit, by file and embedder.
--write: puts the weights into shared_core/recall/weights/linear.v1.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.chats import DATA, OWN, Answered, answers, is_answer, is_stale
from benchmarks.train_ranking import WEIGHTS, least

BY_HAND: Final = {
    "asked": 12.0, "ended": -4.0, "coverage": 1.5, "summary": -2.0, "of_another": -3.0,
}  # fmt: skip
"""What the chats cannot teach. Too few of their facts end. Their questions are asked in other words
than the answers, on purpose, so that they would teach that shared words speak against a memory; the
weight given to them costs nothing here. Summaries are left out."""
TRAINED: Final = (
    "z_similarity", "z_similarity_next", "z_bm25_around", "agent", "is_question",
    "user_length", "fact", "told_later", "recency_past", "recency_before", "when_told", "time_fit",
)  # fmt: skip
PENALTY: Final = 0.005
FOLDS: Final = 10
EVERYTHING: Final = 1000
"""Limit of recall; the chats hold fewer memories."""
LEAST_CHANCE: Final = 1e-12

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatQuestion:
    """A question with the features of N turns and facts.

    rows: (N, F) in the order of TRAINED. offset: (N,), the part of the score that BY_HAND gives.
    answers, stale: (N,).
    """

    chat: int
    source: str
    rows: Numbers
    offset: Numbers
    answers: Flags
    stale: Flags


async def collected(paths: Sequence[Path], embedder: str) -> list[ChatQuestion]:
    """Return the questions of chats that some turn or fact answers."""
    asked = [_question(one, embedder) async for one in answers(paths, embedder, EVERYTHING)]
    return [one for one in asked if one.answers.any()]


def _question(one: Answered, embedder: str) -> ChatQuestion:
    hits = [hit for hit in one.hits if hit.memory.kind != "summary" and not hit.parts["asked"]]
    return ChatQuestion(
        chat=one.chat,
        source=f"{one.source}, {embedder}",
        rows=np.array([[hit.parts[name] for name in TRAINED] for hit in hits]),
        offset=np.array(
            [sum(weight * hit.parts[name] for name, weight in BY_HAND.items()) for hit in hits]
        ),
        answers=np.array([is_answer(one.question, hit.memory.text) for hit in hits]),
        stale=np.array([is_stale(one.question, hit.memory.text) for hit in hits]),
    )


def fit(questions: Sequence[ChatQuestion]) -> Numbers:
    """Return a weight for each feature, of the least loss."""
    rows = np.concatenate([one.rows for one in questions])
    mean, deviation = rows.mean(0), rows.std(0) + 1e-9
    scaled = [(one.rows - mean) / deviation for one in questions]

    def derivatives(given: Numbers) -> tuple[float, Any, Any]:
        loss = PENALTY * float(given @ given)
        slope, curve = 2 * PENALTY * given, 2 * PENALTY * np.eye(len(given))
        for one, x in zip(questions, scaled, strict=True):
            scores = x @ given + one.offset
            chance = np.exp(scores - scores.max())
            chance /= chance.sum()
            right = max(float(chance[one.answers].sum()), LEAST_CHANCE)
            expected = chance @ x
            loss -= float(np.log(right)) / len(questions)
            slope += (expected - chance[one.answers] @ x[one.answers] / right) / len(questions)
            curve += ((x * chance[:, None]).T @ x - np.outer(expected, expected)) / len(questions)
        return loss, slope, curve

    found: Numbers = least(derivatives, rows.shape[1]) / deviation
    return found


def left_out(questions: Sequence[ChatQuestion]) -> dict[str, dict[str, float]]:
    """Return the figures by file, with each chat ranked by a fit without it and its fold."""
    tallies: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for fold in range(FOLDS):
        found = fit([one for one in questions if one.chat % FOLDS != fold])
        for one in questions:
            if one.chat % FOLDS == fold:
                _count(tallies[one.source], one, one.rows @ found + one.offset)
    return {
        source: {name: round(float(np.mean(right)), 3) for name, right in tally.items()}
        for source, tally in tallies.items()
    }


def _count(tally: dict[str, list[bool]], one: ChatQuestion, scores: Numbers) -> None:
    order = np.argsort(-scores, kind="stable")
    first = int(np.argmax(one.answers[order]))
    tally["answered_at_1"].append(first == 0)
    tally["answered_at_3"].append(first < 3)
    if one.stale.any():
        tally["current_first"].append(first < int(np.argmax(one.stale[order])))


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the weights for chats with an agent.")
    parser.add_argument("--data", type=Path, nargs="+", default=[DATA / "chats", OWN])
    parser.add_argument("--embedder", nargs="+", default=["use", "e5"])
    parser.add_argument("--write", action="store_true", help="put the weights into the project")
    arguments = parser.parse_args()
    questions = [
        one
        for embedder in arguments.embedder
        for one in asyncio.run(collected(arguments.data, embedder))
    ]
    for source, figures in left_out(questions).items():
        print("chats left out:", source, figures)
    found = dict(zip(TRAINED, (round(float(one), 4) for one in fit(questions)), strict=True))
    print(json.dumps(found))
    if arguments.write:
        read = json.loads(WEIGHTS.read_text(encoding="utf-8"))
        read["chat"] = {
            "trained_by": "python -m benchmarks.train_chat_ranking",
            "questions": len(questions) // len(arguments.embedder),
            "by_hand": sorted(BY_HAND),
            "weights": found | BY_HAND,
        }
        WEIGHTS.write_text(json.dumps(read, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
