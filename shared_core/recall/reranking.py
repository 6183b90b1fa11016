"""Reorders hits: by a reranker's scores, or for diversity. The argument `reranker` accepts:

a Reranker              async rerank(query, texts) -> scores
a function              (query, texts) -> scores, sync or async; a sync one runs in a thread
a document compressor   LangChain's BaseDocumentCompressor: CrossEncoderReranker, CohereRerank, ...
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeAlias, cast

from shared_core.core.domain import Hit
from shared_core.core.event_loops import on_own_loop
from shared_core.core.failure_reason import message
from shared_core.errors import InvalidInput, ModelOutputInvalid, ModelUnavailable
from shared_core.nlp.text import search_terms
from shared_core.ports.recall import Reranker

log = logging.getLogger("hippocampus")

TIMEOUT_S = 30.0
"""Seconds after which a reranker counts as failed."""

RerankFunction: TypeAlias = Callable[
    [str, Sequence[str]], "Sequence[float] | Awaitable[Sequence[float]]"
]

ADAPTERS: Mapping[str, str] = {
    "langchain_core.documents.compressor.BaseDocumentCompressor": "langgraph_store.llm"
}
"""Maps base classes of hosts to the module whose reranker() wraps them."""


def resolve_reranker(reranker: object) -> Reranker | None:
    """Return the reranker for an argument, without calling it; None for None.

    Raises InvalidInput for an argument of no accepted form.
    """
    if reranker is None:
        return None
    for base in type(reranker).__mro__:
        if module := ADAPTERS.get(f"{base.__module__}.{base.__qualname__}"):
            return cast(Reranker, import_module(module).reranker(reranker))
    is_one = not isinstance(reranker, type)
    if is_one and isinstance(reranker, Reranker) and inspect.iscoroutinefunction(reranker.rerank):
        return reranker
    if is_one and callable(reranker):
        return FunctionReranker(cast(RerankFunction, reranker))
    raise InvalidInput(
        f"reranker of type {type(reranker).__qualname__} is of no known form: give an object with"
        " 'async rerank(query, texts)', a sync or async function from a query and texts to scores,"
        " or a document compressor of LangChain"
    )


class FunctionReranker:
    """Any function from a query and texts to scores, sync or async."""

    def __init__(self, function: RerankFunction) -> None:
        self._function = function

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Ask the function; a sync one runs in a thread."""
        if inspect.iscoroutinefunction(self._function):
            answer: Any = await self._function(query, texts)
        else:
            answer = await asyncio.to_thread(self._function, query, texts)
            if inspect.isawaitable(answer):
                answer = await answer
        return cast("Sequence[float]", answer)


async def reranked(hits: Sequence[Hit], query: str, reranker: Reranker) -> list[Hit] | None:
    """Return the hits in the order of the reranker's scores; None, with a warning, if it fails.

    It also fails after TIMEOUT_S; a sync reranker then keeps running in its thread. Equal scores
    keep their order. The new score is also the part "rerank".
    """
    texts = [hit.memory.text for hit in hits]
    try:
        scores = _checked(await on_own_loop(_asked(reranker, query, texts)), len(texts))
    except Exception as error:  # noqa: BLE001 # code of a caller; recall works without it
        what = "the reranker failed on %d texts, recall goes on without: %s"
        log.warning(what, len(texts), message(error))
        return None
    order = sorted(range(len(hits)), key=lambda at: -scores[at])
    return [
        replace(hits[at], score=scores[at], parts={**hits[at].parts, "rerank": scores[at]})
        for at in order
    ]


async def _asked(reranker: Reranker, query: str, texts: Sequence[str]) -> Sequence[float]:
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await reranker.rerank(query, texts)
    except asyncio.CancelledError as error:
        if task is None or task.cancelling():
            raise
        raise ModelUnavailable("the reranker cancelled its own work") from error


def _checked(answer: Sequence[float], count: int) -> list[float]:
    try:
        scores = [float(score) for score in answer]
    except (TypeError, ValueError) as error:
        raise ModelOutputInvalid(f"a reranker must return numbers: {error}") from error
    if len(scores) != count or not all(math.isfinite(score) for score in scores):
        raise ModelOutputInvalid(
            f"a reranker must return one finite score for each of {count} texts, it returned"
            f" {len(scores)}, {sum(map(math.isfinite, scores))} of them finite"
        )
    return scores


MOST_DIVERSIFIED = 200
"""Maximum number of compared hits; all pairs of 200 take 30 ms of a busy core. The other hits keep
their order."""


def diversified(hits: Sequence[Hit], limit: int, diversity: float) -> list[Hit]:
    """Return up to limit hits by maximal marginal relevance (Carbonell and Goldstein, 1998).

    The similarity of two texts is the Jaccard index of their search terms. hits: best first.
    diversity: 0 keeps their order, 1 considers only dissimilarity after the best.
    """
    if diversity == 0:
        return list(hits[:limit])
    best = hits[:MOST_DIVERSIFIED]
    words = [frozenset(search_terms(hit.memory.text)) for hit in best]
    order = marginally_relevant([hit.score for hit in best], words, limit, diversity)
    return [*(best[at] for at in order), *hits[MOST_DIVERSIFIED:limit]]


def marginally_relevant(
    scores: Sequence[float], words: Sequence[Set[str]], limit: int, diversity: float
) -> list[int]:
    """Return the indexes of up to limit texts, in the order of selection.

    Each step selects the text with the largest (1 - diversity) * relevance - diversity * likeness.
    relevance: the score, scaled to 0 to 1. likeness: to the most similar selected text. The first
    of equal texts wins.
    """
    least, most = min(scores, default=0.0), max(scores, default=0.0)
    span = (most - least) or 1.0
    relevance = [(score - least) / span for score in scores]
    likeness = [0.0] * len(scores)
    left = list(range(len(scores)))
    taken: list[int] = []
    while left and len(taken) < limit:
        if taken:
            for at in left:
                likeness[at] = max(likeness[at], jaccard(words[at], words[taken[-1]]))
        best = max(left, key=lambda at: (1 - diversity) * relevance[at] - diversity * likeness[at])
        left.remove(best)
        taken.append(best)
    return taken


def jaccard(one: Set[str], other: Set[str]) -> float:
    """Return the Jaccard index of two sets, 0 to 1; 0 if both are empty."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0
