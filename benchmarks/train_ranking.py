"""Trains the weights of the linear ranking on labelled conversations.

    python -m benchmarks.train_ranking --data DIR [--features CACHE.npz] [--write]

Features are made by the functions recall ranks with, of every turn and without a database;
`benchmarks.retrieval` then measures what the engine makes of the weights. They maximise the mean
log-likelihood of a question's evidence under a softmax over its turns (ListNet's top-one model, Cao
et al., 2007; multinomial logistic regression), each set counting SHARES times, with an L2 penalty
on standardised weights. Prints what a fit on the other conversations gives on those left out (five
folds over whole conversations of all sets), and on a set that no fold has seen. --write: puts the
weights of a fit on everything into shared_core/weights/linear.v1.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import shared_core
from benchmarks.conversations import APART, Conversation, conversations, files_of
from benchmarks.retrieval import Tally
from shared_core import Event
from shared_core.domain import MemoryId
from shared_core.embedders import resolve_embedder
from shared_core.features import features
from shared_core.ids import uuid7
from shared_core.linear_ranking import PART_OF
from shared_core.matches import matched
from shared_core.ports import Embedder
from shared_core.recall import query_terms
from shared_core.recall_ports import Asked as Query
from shared_core.recall_ports import Candidate, Corpus
from shared_core.text import search_terms

SHARES = {"locomo": 2.0, "memorybank": 1.5, "madial_zh": 2.0, "memdaily": 0.5, "madial_en": 0.5}
"""How much a set counts, by the beginning of its file's name; others count 1."""
LEFT_OUT = ("realmem",)
"""Sets whose evidence is sessions, not turns."""
BY_HAND = {"fact": 0.0, "summary": -0.5}
"""Weights of what the labelled data, turns alone, cannot teach."""
TRAINED = [name for name in PART_OF if name not in BY_HAND]
EVERY = 5
"""Of sets with hundreds of conversations, one in so many is used."""
PENALTY = 0.002
FOLDS = 5
LONGEST_PAUSE = timedelta(hours=6)
MOST_STEPS, LEAST_STEP = 30, 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question with the features of all turns, (N, F), and which of them answer it, (N,)."""

    set_name: str
    conversation: int
    category: str
    wanted: int
    any_suffices: bool
    rows: NDArray[np.float32]
    answers: NDArray[np.bool_]


async def collected(files: Sequence[Path], embedder: Embedder) -> list[Asked]:
    """Return all questions with the features of all turns they are asked about."""
    questions: list[Asked] = []
    for file in files:
        found = list(conversations(file))
        step = EVERY if len(found) > 100 else 1
        for number, conversation in enumerate(found[::step]):
            questions += await _asked(conversation, embedder, file.stem, number)
        print(file.stem, len(questions), flush=True)
    return questions


async def _asked(
    conversation: Conversation, embedder: Embedder, name: str, number: int
) -> list[Asked]:
    turns = [event for _, events in conversation.sessions for event in events]
    opens = [new for _, events in conversation.sessions for new in _opens_session(events)]
    vectors = await embedder.embed_passages([turn.text or "." for turn in turns])
    words = [search_terms(turn.text) for turn in turns]
    candidates = [_candidate(at, turn) for at, turn in enumerate(turns)]
    last = max(turn.occurred_at for turn in turns)
    found = []
    for question in conversation.questions:
        if question.category in APART or question.by_session:
            continue
        answers = np.array([turn.event_id in question.evidence for turn in turns])
        if not answers.any():
            continue
        asked = Query(
            text=question.text,
            terms=query_terms(question.text),
            now=question.asked_at or last + timedelta(days=1),
        )
        held = [(at, asked.terms.index(word)) for at, said in enumerate(words)
                for word in set(said).intersection(asked.terms)]  # fmt: skip
        query_vector = (await embedder.embed_query(question.text))[0]
        corpus = Corpus.of(
            similarity=(vectors @ query_vector).tolist(),
            length=[len(said) for said in words],
            opens=opens,
            holders=[at for at, _ in held],
            words=[word for _, word in held],
            terms=len(asked.terms),
        )
        known = features(corpus, matched(corpus), candidates, asked)
        found.append(
            Asked(
                set_name=name,
                conversation=number,
                category=question.category,
                wanted=1 if question.any_suffices else len(question.evidence),
                any_suffices=question.any_suffices,
                rows=np.stack([known[name] for name in TRAINED], axis=1).astype(np.float32),
                answers=answers,
            )
        )
    return found


def _opens_session(events: Sequence[Event]) -> list[bool]:
    """Return which turns of a thread begin a session, as the statement of recall has it."""
    pauses = [after.occurred_at - before.occurred_at for before, after in pairwise(events)]
    return [True, *(pause > LONGEST_PAUSE for pause in pauses)]


def _candidate(number: int, turn: Event) -> Candidate:
    return Candidate(
        memory_id=MemoryId(uuid7()),
        kind="episodic",
        text=turn.text,
        author=turn.author,
        occurred_at=turn.occurred_at,
        number=number,
        memory=lambda: NotImplemented,
        role=turn.role,
    )


def fit(questions: Sequence[Asked], penalty: float = PENALTY) -> NDArray[np.float64]:
    """Return a weight for each feature, by Newton's method with step halving."""
    rows = np.concatenate([one.rows for one in questions]).astype(float)
    mean, deviation = rows.mean(0), rows.std(0) + 1e-9
    scaled = [(one.rows - mean) / deviation for one in questions]
    shares = _shares(questions)

    def derivatives(weights: NDArray[np.float64]) -> tuple[float, Any, Any]:
        loss = penalty * float(weights @ weights)
        slope, curve = 2 * penalty * weights, 2 * penalty * np.eye(len(weights))
        for one, x, share in zip(questions, scaled, shares, strict=True):
            scores = x @ weights
            top = scores.max()
            chance = np.exp(scores - top)
            total = chance.sum()
            chance /= total
            expected = chance @ x
            loss += share * float(top + np.log(total) - scores[one.answers].mean())
            slope += share * (expected - x[one.answers].mean(0))
            curve += share * ((x * chance[:, None]).T @ x - np.outer(expected, expected))
        return loss, slope, curve

    weights = np.zeros(rows.shape[1])
    loss, slope, curve = derivatives(weights)
    for _ in range(MOST_STEPS):
        step = np.linalg.solve(curve, slope)
        while True:
            there = derivatives(weights - step)
            if there[0] <= loss or np.abs(step).max() < LEAST_STEP:
                break
            step /= 2
        weights, (loss, slope, curve) = weights - step, there
        if np.abs(step).max() < LEAST_STEP:
            break
    found: NDArray[np.float64] = weights / deviation
    return found


def _shares(questions: Sequence[Asked]) -> NDArray[np.float64]:
    names = [one.set_name for one in questions]
    shares = np.array([_share(name) / names.count(name) for name in names])
    normalised: NDArray[np.float64] = shares / shares.sum()
    return normalised


def _share(set_name: str) -> float:
    return next((share for start, share in SHARES.items() if set_name.startswith(start)), 1.0)


def left_out(questions: Sequence[Asked], unseen: str | None = None) -> dict[str, dict[str, float]]:
    """Return the figures by set, each question ranked by a fit that saw no turn of its fold.

    unseen: a set that no fit sees at all.
    """
    tallies: dict[str, Tally] = {}
    for fold in range(FOLDS):
        seen = [q for q in questions if q.conversation % FOLDS != fold and q.set_name != unseen]
        weights = fit(seen)
        for one in questions:
            if one.conversation % FOLDS == fold:
                _count(tallies.setdefault(one.set_name, Tally()), one, one.rows @ weights)
    return {name: tally.figures() for name, tally in tallies.items()}


def _count(tally: Tally, one: Asked, scores: NDArray[np.float64]) -> None:
    order = np.argsort(-scores, kind="stable")
    ranks = (np.nonzero(one.answers[order])[0] + 1)[: one.wanted]
    for depth, found in tally.found.items():
        found.append(float((ranks <= depth).sum()) / one.wanted)
    tally.all_found.append(float((ranks <= 10).sum() == one.wanted))
    tally.inverse_rank.append(1 / ranks[0])


def written(weights: NDArray[np.float64], questions: Sequence[Asked]) -> dict[str, Any]:
    """Return what the file of weights holds."""
    named = dict(zip(TRAINED, (round(float(weight), 4) for weight in weights), strict=True))
    return {
        "name": "linear.v1",
        "trained_by": "python -m benchmarks.train_ranking",
        "questions": {
            name: sum(one.set_name == name for one in questions)
            for name in sorted({one.set_name for one in questions})
        },
        "by_hand": sorted(BY_HAND),
        "weights": {name: (named | BY_HAND)[name] for name in PART_OF},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the weights of the linear ranking.")
    parser.add_argument("--data", type=Path, help="a folder of labelled conversations")
    parser.add_argument("--features", type=Path, help="keeps what was collected, or reads it")
    parser.add_argument("--embedder", default="use")
    parser.add_argument("--write", action="store_true", help="put the weights into the project")
    arguments = parser.parse_args()
    questions = _questions(arguments)
    for name, figures in left_out(questions).items():
        print("conversations left out:", name, figures)
    for name in sorted({one.set_name for one in questions}):
        print("set left out:", name, left_out(questions, unseen=name)[name])
    found = written(fit(questions), questions)
    print(json.dumps(found))
    if arguments.write:
        target = Path(shared_core.__file__).parent / "weights" / "linear.v1.json"
        target.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _questions(arguments: argparse.Namespace) -> list[Asked]:
    kept: Path | None = arguments.features
    if kept and kept.exists():
        with np.load(kept, allow_pickle=True) as loaded:
            return list(loaded["questions"])
    files = [file for file in files_of(arguments.data) if not file.stem.startswith(LEFT_OUT)]
    questions = asyncio.run(collected(files, resolve_embedder(arguments.embedder)))
    if kept:
        holder = np.empty(len(questions), dtype=object)
        holder[:] = questions
        np.savez_compressed(kept, questions=holder)
    return questions


if __name__ == "__main__":
    main()
