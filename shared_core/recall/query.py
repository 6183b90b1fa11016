"""Recall: turns a query into ranked memories, in one round trip to the storage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, get_args

from shared_core.core import validation as arguments
from shared_core.core.domain import AsOf, Hit, MemoryKind, Namespace, Scope, ThreadId
from shared_core.core.namespaces import check_label, clean_text, memories_namespace, scope_path
from shared_core.core.shown import shown
from shared_core.core.telemetry import measured, recalled, stage
from shared_core.core.timestamps import check_as_of, check_moment, check_period
from shared_core.errors import InvalidInput, ModelUnavailable
from shared_core.models.embedding import Embedding
from shared_core.nlp.asked_slots import names_slot
from shared_core.nlp.question_subject import best_edges, mentioned
from shared_core.nlp.text import has_words, search_terms
from shared_core.ports.events import MemoryQuery
from shared_core.ports.recall import (
    AnswerOutdated,
    Ranking,
    RankingQuery,
    Recalled,
    RecallResult,
    Reranker,
    SearchRequest,
    ThreeFactor,
)
from shared_core.ports.storage import Storage
from shared_core.recall.reranking import diversified, reranked

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors
    from shared_core.recall.ranking import Ranked
    from shared_core.recall.topics import ReadQuestion

MAX_QUERY_TERMS = 128
"""Maximum number of search terms; of a longer query the last ones count."""
LEAST_CANDIDATES = 160
SPARE = 2
"""Factor on the limit for the pool of hits where duplicates may be dropped."""
MORE = 8
"""Factor on the number of candidates for a second query where duplicates filled the first."""
MAX_LIMIT = 100_000
RESIDENT_TRIES = 2
"""How often an index in the process may answer; then a statement does."""
RERANKED = 50
"""Minimum number of best hits passed to a reranker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOptions:
    """Checked options of a recall; see MemoryEngine.recall for the public ones.

    now: time of the query, for "last week". with_graph: include edges of the graph. begin, end:
    restrict occurred_at, end exclusive. about: keys of entities whose edges are included beside
    those that the query mentions. least_candidates: minimum candidates per channel. embedded: the
    result of Embedding.query_or_words for the query, if known. merged_only: skip vector_results.
    min_importance: 1 to 10; 0 for all.
    """

    now: datetime
    limit: int = 10
    kinds: Sequence[MemoryKind] | None = None
    namespace: Namespace | None = None
    ranking: Ranking | ThreeFactor = "linear"
    min_relevance: float = 0.0
    distinct: bool = False
    diversity: float = 0.0
    reranker: Reranker | None = None
    with_graph: bool = False
    as_of: AsOf | None = None
    begin: datetime | None = None
    end: datetime | None = None
    about: Sequence[str] = ()
    least_candidates: int = LEAST_CANDIDATES
    embedded: tuple[Vectors | None, bool] | None = None
    merged_only: bool = False
    min_importance: float = 0.0

    def __post_init__(self) -> None:
        known = get_args(Ranking)
        if self.ranking not in known and not isinstance(self.ranking, ThreeFactor):
            raise InvalidInput(
                f"ranking {shown(self.ranking)} is not known: take one of {', '.join(known)}, or a"
                " ThreeFactor"
            )
        check_kinds(self.kinds)
        _check_bounds(self.limit)
        check_moment(self.now, "asked_at")
        check_as_of(self.as_of)
        for name, share in (("min_relevance", self.min_relevance), ("diversity", self.diversity)):
            if not (isinstance(share, int | float) and 0 <= share <= 1):
                raise InvalidInput(f"{name} must be between 0 and 1, got {shown(share)}")
        arguments.number(self.min_importance, "min_importance", 0, 10)


@measured("recall")
async def recall(
    storage: Storage, embedding: Embedding, scope: Scope, query: str, options: RecallOptions
) -> RecallResult:
    """Return the best memories of a scope for a query, at most options.limit.

    A query without a letter or digit finds nothing. While the embedder is down, only words find
    memories.
    """
    # They import numpy.
    from shared_core.recall.features import holds_asked
    from shared_core.recall.ranking import nearest, ranked
    from shared_core.recall.topics import ReadQuestion, read_question

    query = checked_query(scope, query)
    if options.limit == 0 or not has_words(query):
        return RecallResult()
    if options.embedded is None:
        with stage("embed"):
            vector, degraded = await embedding.query_or_words(query)
    else:
        vector, degraded = options.embedded
    model = await embedding.known_model()
    read = read_question(query, vector, query_terms(query), model)
    # A fact that is held answers a question that names its slot: the topic is read without one.
    by_slot = bool(read.shares) and names_slot(query)
    plain = ReadQuestion(vector, query_terms(query), read.shares)
    request = _request(scope, query, options, plain if by_slot else read, model)
    asked = _asked(query, options, plain if by_slot else read, is_pulled=not by_slot)
    by = "bm25" if degraded and options.ranking == "vector" else options.ranking
    tries = RESIDENT_TRIES
    while True:
        with stage("fetch"):
            found = await storage.recall.recall(request)
            if by_slot and not holds_asked(found.candidates, query):
                by_slot = False
                request = replace(request, vector=read.vector, terms=read.terms)
                asked = _asked(query, options, read, is_pulled=True)
                found = await storage.recall.recall(request)
        by_meaning = [] if options.merged_only else nearest(found, options.limit)
        vector_results = [*_relevant(by_meaning, options.min_relevance)]
        relevant = _relevant(ranked(found, asked, by=by), options.min_relevance)
        hits = _ReadHits(found, relevant, vector_results)
        try:
            is_reranked = await _rerank(hits, query, options)
            # Ranking is lazy: it happens here, unless a reranker has asked for its result before.
            with stage("rank" if options.reranker is None else "select"):
                merged = await _chosen(hits, options)
        except AnswerOutdated:
            tries -= 1
            request = replace(request, may_be_resident=request.may_be_resident and tries > 0)
            continue
        if not (options.distinct and len(merged) < options.limit and _more_there(found, request)):
            break
        # Duplicates filled the result, so ask for more candidates.
        request = replace(request, candidates=MORE * request.candidates)
    if await _other_model(embedding, request, found):
        return await recall(storage, embedding, scope, query, replace(options, embedded=None))
    recalled(candidates=len(found.candidates or ()), hits=len(merged), degraded=degraded)
    return RecallResult(
        merged=tuple(merged),
        vector_results=tuple(one.hit() for one in vector_results),
        graph_results=tuple(best_edges(found.edges, request.terms, options.limit)),
        degraded=degraded,
        reranked=is_reranked,
    )


def _asked(
    query: str, options: RecallOptions, read: ReadQuestion, *, is_pulled: bool
) -> RankingQuery:
    """Return the query to rank by. is_pulled: whether its vector has moved towards topics."""
    about_user = sum(read.shares.values())
    return RankingQuery(
        text=query, terms=read.terms, now=options.now, about_user=about_user,
        pulled=about_user if is_pulled else 0.0,
    )  # fmt: skip


def _request(
    scope: Scope, query: str, options: RecallOptions, read: ReadQuestion, model: str | None
) -> SearchRequest:
    """Return the request for the candidates of a query that was read."""
    return SearchRequest(
        scope=scope,
        namespace=options.namespace or memories_namespace(scope),
        terms=read.terms,
        model=model,
        vector=read.vector,
        kinds=options.kinds,
        candidates=max(options.least_candidates, 3 * _pool(options)),
        mentions=[*mentioned(query), *options.about] if options.with_graph else (),
        as_of=options.as_of,
        begin=options.begin,
        end=options.end,
        min_importance=options.min_importance,
        # The three factors read whole memories of all candidates.
        may_be_resident=isinstance(options.ranking, str) and options.ranking != "three_factor",
    )


@measured("search")
async def search(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    query: str,
    *,
    limit: int,
    kinds: Sequence[MemoryKind] | None,
    as_of: AsOf | None = None,
) -> list[Hit]:
    """Return the nearest memories by meaning. Raises ModelUnavailable if the embedder fails."""
    from shared_core.recall.ranking import nearest

    _check_bounds(limit)
    check_kinds(kinds)
    check_as_of(as_of)
    query = checked_query(scope, query)
    if limit == 0 or not has_words(query):
        return []
    try:
        vector = await embedding.query(query)
    except ModelUnavailable as error:
        raise ModelUnavailable(
            f"search() finds by meaning alone and the embedder failed: {error}. Try again later, or"
            " take recall(), which goes on by words"
        ) from error
    if vector is None:
        return []
    request = SearchRequest(
        scope=scope,
        namespace=memories_namespace(scope),
        terms=(),
        model=await embedding.model(),
        vector=vector,
        kinds=kinds,
        candidates=limit,
        as_of=as_of,
        may_be_resident=True,
    )
    answers: list[Recalled] = []

    def best(found: Recalled) -> Iterable[Ranked]:
        answers.append(found)
        return nearest(found, limit)

    picked = await read_best(storage, request, best)
    if await _other_model(embedding, request, answers[-1]):
        return await search(storage, embedding, scope, query, limit=limit, kinds=kinds, as_of=as_of)
    return [one.hit() for one in picked]


async def read_best(
    storage: Storage, request: SearchRequest, best: Callable[[Recalled], Iterable[Ranked]]
) -> list[Ranked]:
    """Return the candidates that `best` picks for a request, with their memories read.

    The index of the user answers if the request allows it.
    """
    for tries in range(RESIDENT_TRIES, -1, -1):
        is_resident = request.may_be_resident and tries > 0
        found = await storage.recall.recall(replace(request, may_be_resident=is_resident))
        try:
            picked = [*best(found)]
            if found.fetch is not None:
                await found.fetch([one.memory_id for one in picked])
        except AnswerOutdated:
            continue
        return picked
    raise AssertionError("a statement answers at once")


async def _other_model(embedding: Embedding, request: SearchRequest, found: Recalled) -> bool:
    """Tell whether no memory has a vector of the query's model because another is in use by now.

    The embedding follows that one, so the query has to be embedded again. Raises EmbeddingMismatch
    where it cannot.
    """
    if request.vector is None:
        return False
    similarity = () if found.corpus is None else found.corpus.similarity
    has_none = all(one != one for one in similarity)  # NaN stands for no vector
    return has_none and await embedding.has_changed()


def _more_there(found: Recalled, request: SearchRequest) -> bool:
    """Return whether more candidates would bring further memories."""
    size = len(found.corpus.length) if found.corpus else 0
    return len(found.candidates or ()) < size and request.candidates < size


def _relevant(ranked: Iterable[Ranked], least: float) -> Iterator[Ranked]:
    from shared_core.recall.ranking import relevance

    return (one for one in ranked if least == 0 or relevance(one) >= least)


class _ReadHits:
    """The hits of an answer, best first; their memories are read as far as they are needed.

    beside: candidates whose memories are read with the first ones.
    """

    def __init__(self, found: Recalled, best: Iterator[Ranked], beside: Sequence[Ranked]) -> None:
        self._found = found
        self._rest = best
        self._beside = beside
        self.read: list[Hit] = []

    async def first(self, count: int) -> list[Hit]:
        """Return the best hits, at most count. Raises AnswerOutdated."""
        more = list(islice(self._rest, max(0, count - len(self.read))))
        if self._found.fetch is not None and (more or not self.read):
            await self._found.fetch([one.memory_id for one in (*more, *self._beside)])
            self._beside = ()
        self.read += [one.hit() for one in more]
        return self.read[:count]


async def _rerank(hits: _ReadHits, query: str, options: RecallOptions) -> bool:
    """Reorder the best hits by the reranker; return whether it gave an order."""
    if options.reranker is None:
        return False
    with stage("rank"):
        best = await hits.first(max(RERANKED, _pool(options)))
    with stage("rerank"):
        anew = await reranked(best, query, options.reranker) if best else None
    if anew is not None:
        hits.read[: len(best)] = anew
    return anew is not None


async def _chosen(hits: _ReadHits, options: RecallOptions) -> Sequence[Hit]:
    """Return the final hits, deduplicated and diversified as requested."""
    pool = _pool(options) if options.diversity else options.limit
    some = await (_distinct(hits, pool) if options.distinct else hits.first(pool))
    return diversified(some, options.limit, options.diversity)


async def _distinct(hits: _ReadHits, pool: int) -> list[Hit]:
    """Return the best hits without duplicates, as many as a pool takes."""
    from shared_core.recall.ranking import collapsed

    count = SPARE * pool
    # One more than the pool takes: up to there, a duplicate may replace a hit.
    while len(some := await hits.first(count)) == count and len(collapsed(some, pool + 1)) <= pool:
        count *= MORE
    return collapsed(some, pool)


def _pool(options: RecallOptions) -> int:
    """Return the number of hits to choose the final ones from."""
    chooses = options.distinct or options.diversity
    return SPARE * options.limit if chooses else options.limit


def checked_query(scope: Scope, query: str) -> str:
    """Return the query with U+FFFD for characters that the database cannot hold.

    Raises InvalidInput unless it is a text, and for an invalid scope.
    """
    scope_path(scope)
    if not isinstance(query, str):
        raise InvalidInput(f"query must be a text, got {type(query).__name__}")
    return clean_text(query)


def query_terms(query: str) -> list[str]:
    """Return the distinct search terms of a query."""
    return list(dict.fromkeys(search_terms(query)))[-MAX_QUERY_TERMS:]


def page(
    scope: Scope,
    kinds: Sequence[MemoryKind] | None,
    limit: int,
    offset: int,
    *,
    thread_id: str | None = None,
    contains: str = "",
    begin: datetime | None = None,
    end: datetime | None = None,
    as_of: AsOf | None = None,
) -> MemoryQuery:
    """Return the query for one page of the memories of a scope."""
    _check_bounds(limit, offset)
    return selection(
        scope, kinds, thread_id=thread_id, contains=contains, begin=begin, end=end, as_of=as_of
    )


def selection(
    scope: Scope,
    kinds: Sequence[MemoryKind] | None,
    *,
    thread_id: str | None = None,
    contains: str = "",
    begin: datetime | None = None,
    end: datetime | None = None,
    as_of: AsOf | None = None,
) -> MemoryQuery:
    """Return the query for the memories of a scope; engine.list_memories() explains it."""
    scope_path(scope)
    check_kinds(kinds)
    check_as_of(as_of)
    check_text(contains, "contains")
    check_period(begin, end)
    return MemoryQuery(
        scope=scope,
        namespace=memories_namespace(scope),
        kinds=kinds,
        begin=begin,
        end=end,
        as_of=as_of,
        thread_id=None if thread_id is None else ThreadId(check_label(thread_id, "thread_id")),
        contains=contains,
    )


def check_text(text: str, what: str) -> None:
    """Raise InvalidInput, naming what, unless it is a text that can be stored, or ""."""
    if text != "":
        check_label(text, what)


def check_kinds(kinds: Sequence[MemoryKind] | None) -> None:
    """Raise InvalidInput unless kinds is a list of known kinds, or None."""
    known = ", ".join(get_args(MemoryKind))
    if kinds is not None and (isinstance(kinds, str) or not isinstance(kinds, Collection)):
        raise InvalidInput(
            f"kinds must be a list of {known}, e.g. ['semantic'], got {shown(kinds)}"
        )
    for kind in kinds or ():
        if kind not in get_args(MemoryKind):
            raise InvalidInput(f"kind {shown(kind)} is not known: take one of {known}")


def _check_bounds(limit: int, offset: int = 0) -> None:
    for name, number in (("limit", limit), ("offset", offset)):
        whole = isinstance(number, int) and not isinstance(number, bool)
        if not (whole and 0 <= number <= MAX_LIMIT):
            raise InvalidInput(
                f"{name} must be between 0 and {MAX_LIMIT:,}, a whole number, got {shown(number)}"
            )
