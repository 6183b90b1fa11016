"""Collects the training data of the ranking: questions with the features of all their turns.

The functions are those of recall, applied to every turn, without a database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from zipfile import is_zipfile

import numpy as np
from numpy.typing import NDArray

from benchmarks.conversations import APART, Conversation, Question, conversations
from shared_core import Event
from shared_core.core.domain import MemoryId
from shared_core.core.ids import uuid7
from shared_core.nlp.text import search_terms
from shared_core.ports.recall import Candidate, Candidates, Corpus, RankingQuery
from shared_core.ports.storage import Embedder
from shared_core.recall.features import Matched, features, overtakings
from shared_core.recall.query import query_terms
from shared_core.recall.ranking import PART_OF

BY_HAND: Final[Mapping[str, float]] = {
    "fact": 0.0, "asked": 9.0, "summary": -0.5, "ended": -4.0, "echo": -3.0,
    "of_another": -3.0,
}  # fmt: skip
"""Weights that the labelled data cannot teach, chosen with benchmarks.assistant. The data holds
turns only, without extracted facts and without repeated questions to an assistant."""
OF_CHATS: Final = frozenset(["told_later", "user_length", "recency_past", "recency_before"])
"""Features that only benchmarks.train_chat_ranking trains."""
TRAINED: Final = [name for name in PART_OF if name not in {*BY_HAND, *OF_CHATS}]
EVERY: Final = 5
"""Step between the used conversations of a set with more than HUNDREDS of them."""
HUNDREDS: Final = 100
LONGEST_PAUSE: Final = timedelta(hours=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingQuestion:
    """A question with the features of its turns (rows), and the turns that answer it (answers).

    Shapes: rows (N, F), answers (N,). older, newer (N,): for a question about a change, the turns
    with the old and with the new value. overtaken (P, 2): pairs of an earlier turn and the later
    turn that supersedes it. wanted: number of answers required.
    """

    set_name: str
    conversation: int
    category: str
    wanted: int
    rows: NDArray[np.float32]
    answers: NDArray[np.bool_]
    older: NDArray[np.bool_]
    newer: NDArray[np.bool_]
    overtaken: NDArray[np.intp]


def used(found: Sequence[Conversation]) -> Sequence[Conversation]:
    """Return the conversations of a set that training uses; their positions are their numbers."""
    return found[:: EVERY if len(found) > HUNDREDS else 1]


async def collected(files: Sequence[Path], embedder: Embedder) -> list[TrainingQuestion]:
    """Return all questions of the files, with the features of all their turns."""
    questions: list[TrainingQuestion] = []
    for file in files:
        for number, conversation in enumerate(used(list(conversations(file)))):
            questions += await _of_conversation(conversation, embedder, file.stem, number)
        print(file.stem, len(questions), flush=True)
    return questions


async def _of_conversation(
    conversation: Conversation, embedder: Embedder, name: str, number: int
) -> list[TrainingQuestion]:
    turns = [event for _, events in conversation.sessions for event in events]
    opens = [new for _, events in conversation.sessions for new in _opens_session(events)]
    vectors = await embedder.embed_passages([turn.text or "." for turn in turns])
    words = [search_terms(turn.text) for turn in turns]
    candidates = Candidates.of([_candidate(at, turn) for at, turn in enumerate(turns)])
    found = []
    for question in _single(conversation.questions):
        answers = _among(turns, question.evidence)
        if not answers.any():
            continue
        query = _query(question, turns)
        held = [(at, query.terms.index(word)) for at, terms in enumerate(words)
                for word in set(terms).intersection(query.terms)]  # fmt: skip
        query_vector = (await embedder.embed_query(question.text))[0]
        corpus = Corpus.of(
            similarity=(vectors @ query_vector).tolist(),
            length=[len(terms) for terms in words],
            opens=opens,
            holders=[at for at, _ in held],
            words=[word for _, word in held],
            terms=len(query.terms),
        )
        matched = Matched(corpus, candidates, query)
        known, pairs = features(matched), overtakings(matched)
        found.append(
            TrainingQuestion(
                set_name=name,
                conversation=number,
                category=question.category,
                wanted=1 if question.any_suffices else len(question.evidence),
                rows=np.stack([known[name] for name in TRAINED], axis=1).astype(np.float32),
                answers=answers,
                older=_among(turns, question.older),
                newer=_among(turns, question.newer - question.older),
                overtaken=np.array(pairs, dtype=np.intp).reshape(-1, 2),
            )
        )
    return found


def _single(questions: Sequence[Question]) -> Iterator[Question]:
    """Yield the questions that are answered by single turns."""
    return (one for one in questions if one.category not in APART and not one.by_session)


def _among(turns: Sequence[Event], ids: frozenset[str]) -> NDArray[np.bool_]:
    return np.array([turn.event_id in ids for turn in turns])


def _query(question: Question, turns: Sequence[Event]) -> RankingQuery:
    last = max(turn.occurred_at for turn in turns)
    return RankingQuery(
        text=question.text,
        terms=query_terms(question.text),
        now=question.asked_at or last + timedelta(days=1),
    )


def _opens_session(events: Sequence[Event]) -> list[bool]:
    """Return which turns of a thread begin a session, by the rule of recall's SQL."""
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


_ARRAYS: Final = ("rows", "answers", "older", "newer", "overtaken")
_VALUES: Final = ("set_name", "conversation", "category", "wanted")


def save(file: Path, questions: Sequence[TrainingQuestion]) -> None:
    """Write questions for load(), which requires the same features."""
    held: dict[str, Any] = {"trained": np.array(TRAINED)}
    for name in _VALUES:
        held[name] = np.array([getattr(one, name) for one in questions])
    for name in _ARRAYS:
        arrays = [getattr(one, name) for one in questions]
        held[name] = np.concatenate(arrays)
        held[f"{name}_ends"] = np.cumsum([len(one) for one in arrays])
    np.savez_compressed(file, **held)


def load(file: Path) -> list[TrainingQuestion]:
    """Return the questions that save() wrote.

    Raises FileNotFoundError, and ValueError for another kind of file or other features.
    """
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {file}")
    if not is_zipfile(file):
        raise ValueError(f"file must be an .npz file of train_ranking --features, got {file}")
    with np.load(file) as held:
        if "trained" not in held or held["trained"].tolist() != TRAINED:
            raise ValueError(f"{file} has other features than are in use: delete and recreate it")
        values = {name: held[name].tolist() for name in _VALUES}
        arrays = {name: np.split(held[name], held[f"{name}_ends"][:-1]) for name in _ARRAYS}
    columns = [values[name] for name in _VALUES] + [arrays[name] for name in _ARRAYS]
    names = (*_VALUES, *_ARRAYS)
    return [
        TrainingQuestion(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)
    ]
