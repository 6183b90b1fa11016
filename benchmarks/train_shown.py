"""Trains the weights that judge the lines of a block (shared_core.context.worth).

    python -m benchmarks.train_shown [--embedder use e5] [--write]

The conversations of benchmarks/data/typed and the chats of benchmarks/data/chats are told to the
engine, and their questions asked, as benchmarks.shown does. Each line that is left of ten hits
becomes a row for two logistic regressions with an L2 penalty on the standardised weights: whether
it answers, and whether it tells only what was true before. Prints the figures of conversations left
out of a fit. --write: puts the weights into shared_core/context/worth.v1.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import shared_core.context
from benchmarks import typed
from benchmarks.chats import DATA
from benchmarks.shown import Asked, of_chats, of_typed
from benchmarks.train_ranking import least
from shared_core.context import ShownMemory, shown_memory
from shared_core.context.composition import left_out, words_of
from shared_core.context.worth import Worth, features, hardly_answer, has_rival, outdated_lines
from shared_core.nlp.changes import asks_how_it_was

WEIGHTS: Final = Path(shared_core.context.__file__).parent / "worth.v1.json"
PENALTY: Final = 10.0
FOLDS: Final = 10
Numbers = NDArray[np.float64]


class Block(NamedTuple):
    """The N lines of a question, and the name of its conversation.

    rows: (N, F) their features. answers, outdated, may_be_marked: (N,) 0 or 1.
    """

    told: str
    lines: list[ShownMemory]
    rows: Numbers
    answers: Numbers
    outdated: Numbers
    may_be_marked: Numbers


async def collected(embedder: str) -> tuple[list[str], list[Block]]:
    """Return the names of the features, and the blocks of all questions."""
    names: list[str] = []
    blocks = []
    for source in (of_chats([DATA / "chats"], embedder), of_typed(typed.DATA, embedder)):
        async for asked in source:
            memories = [*map(shown_memory, asked.hits)]
            hidden = left_out(asked.text, memories)
            lines = [one for place, one in enumerate(memories) if place not in hidden]
            words = [words_of(one.text) for one in lines]
            found = features(asked.text, words_of(asked.text), lines, words)
            if found:
                names = [*found[0]]
                blocks.append(_block(asked, lines, found))
    return names, blocks


def _block(asked: Asked, lines: list[ShownMemory], found: list[dict[str, float]]) -> Block:
    texts = [one.text for one in lines]
    is_past = asks_how_it_was(asked.text)
    may = [
        not (one.is_fact or is_past) and has_rival(row)
        for one, row in zip(lines, found, strict=True)
    ]
    return Block(
        told=asked.told,
        lines=lines,
        rows=np.array([[*one.values()] for one in found]),
        answers=np.array([asked.is_answer(one) for one in texts], float),
        outdated=np.array([bool(asked.is_stale and asked.is_stale(one)) for one in texts], float),
        may_be_marked=np.array(may, float),
    )


def fit(rows: Numbers, right: Numbers) -> Numbers:
    """Return F weights, and a constant, of the least loss."""
    mean, deviation = rows.mean(0), rows.std(0) + 1e-9
    scaled = np.c_[(rows - mean) / deviation, np.ones(len(rows))]
    penalty = np.array([PENALTY] * rows.shape[1] + [0.0])

    def derivatives(given: Numbers) -> tuple[float, Any, Any]:
        scores = scaled @ given
        chance = 1 / (1 + np.exp(-scores))
        loss = float(np.logaddexp(0, scores).sum() - right @ scores + penalty @ given**2 / 2)
        slope = scaled.T @ (chance - right) + penalty * given
        curve = (scaled.T * (chance * (1 - chance))) @ scaled + np.diag(penalty + 1e-9)
        return loss, slope, curve

    found = least(derivatives, scaled.shape[1])
    weights = found[:-1] / deviation
    fitted: Numbers = np.r_[weights, found[-1] - weights @ mean]
    return fitted


def chances(weights: Numbers, rows: Numbers) -> Numbers:
    """Return the chance of each row, (N,)."""
    found: Numbers = 1 / (1 + np.exp(-(rows @ weights[:-1] + weights[-1])))
    return found


def cross_validated(blocks: list[Block]) -> dict[str, float]:
    """Return the figures of blocks that are judged by fits without their conversations.

    marked_outdated, marked_answers: share of the lines of the kind that would be marked. lines:
    mean number shown. answered: share of the questions with an answer among the lines that keep it.
    """
    told = {name: place % FOLDS for place, name in enumerate(dict.fromkeys(b.told for b in blocks))}
    tally: defaultdict[str, float] = defaultdict(float)
    for fold in range(FOLDS):
        rest = [one for one in blocks if told[one.told] != fold]
        rows = np.concatenate([one.rows for one in rest])
        answers, outdated = (
            fit(rows, np.concatenate([getattr(one, name) for one in rest]))
            for name in ("answers", "outdated")
        )
        for one in blocks:
            if told[one.told] == fold:
                answering = chances(answers, one.rows).tolist()
                ended = chances(outdated, one.rows) * one.may_be_marked
                judged = [*map(Worth, answering, ended.tolist())]
                old = outdated_lines(one.lines, judged)
                marked, kept = np.zeros(len(judged)), np.ones(len(judged), bool)
                marked[[*old]], kept[[*(hardly_answer(answering) - old)]] = 1, False
                tally["outdated"] += one.outdated.sum()
                tally["marked_outdated"] += float(one.outdated @ marked)
                tally["answers"] += one.answers.sum()
                tally["marked_answers"] += float(one.answers @ marked)
                tally["lines"] += kept.sum()
                tally["answerable"] += one.answers.any()
                tally["answered"] += one.answers[kept].any()
    return {
        "marked_outdated": round(tally["marked_outdated"] / tally["outdated"], 3),
        "marked_answers": round(tally["marked_answers"] / tally["answers"], 3),
        "lines": round(tally["lines"] / len(blocks), 2),
        "answered": round(tally["answered"] / tally["answerable"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the weights that judge lines of a block.")
    parser.add_argument("--embedder", nargs="+", default=["use", "e5"])
    parser.add_argument("--write", action="store_true", help="put the weights into the project")
    given = parser.parse_args()
    names: list[str] = []
    blocks: list[Block] = []
    for embedder in given.embedder:
        names, found = asyncio.run(collected(embedder))
        blocks += found
    print(json.dumps({"questions": len(blocks)} | cross_validated(blocks)))
    rows = np.concatenate([one.rows for one in blocks])
    weights = {
        name: dict(
            zip(
                [*names, "constant"],
                fit(rows, np.concatenate([getattr(one, name) for one in blocks])).round(4).tolist(),
                strict=True,
            )
        )
        for name in ("answers", "outdated")
    }
    if given.write:
        trained = {"trained_by": "python -m benchmarks.train_shown", "questions": len(blocks)}
        WEIGHTS.write_text(json.dumps(trained | weights, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
