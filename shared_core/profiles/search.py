"""MemorySearcher: search in conversations and profiles by meaning, words, time and weights.

It stores nothing. It filters the hits of recall by their topics (nlp.keywords_and_topics), and
weighs the score parts that each hit has.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from shared_core.core.domain import Hit, Memory, MemoryKind, Scope
from shared_core.core.namespaces import PROFILE
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_moment
from shared_core.core.validation import number, whole_number
from shared_core.errors import InvalidInput
from shared_core.nlp.keywords_and_topics import TextFeatures, text_features, topic_names
from shared_core.nlp.text import normalised, search_terms
from shared_core.recall.query import RecallOptions
from shared_core.recall.reranking import marginally_relevant
from shared_core.recall.time_slices import stretch

if TYPE_CHECKING:
    from shared_core.ports.storage import Clock
    from shared_core.recall.service import Recall

MemoryType = Literal["profile", "event"]
ScorePart = Literal["semantic", "keyword", "time", "importance", "topic", "sentiment"]
TimeRange: TypeAlias = "str | tuple[datetime | None, datetime | None]"
SentimentRange: TypeAlias = tuple[float, float]

WEIGHTS: Final[Mapping[ScorePart, float]] = MappingProxyType(
    {"semantic": 0.4, "keyword": 0.2, "time": 0.2, "importance": 0.2}
)
RECENCY_DAYS: Final = 30.0
"""Days after which the time part of a score falls to 1/e."""
LEAST_POOL: Final = 100
"""Least number of hits to recall."""
SPARE: Final = 10
"""Hits to recall for each result, because filters drop some."""
MAX_LIMIT: Final = 1_000
ALL_OF_PROFILES: Final = 5_000
DIVERSITY: Final = 0.2
SPOKEN: Final[Sequence[MemoryKind]] = ("episodic", "summary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions on a hit; by default every hit passes.

    Args:
        time_range: Words ("last week", 上周), or (begin, end) with time zones, end excluded.
        keywords: The hit contains at least one of them.
        topics: The hit is about at least one of them, by English or Chinese name.
        sentiment: Least and most valence, -1 to 1. A hit without feelings does not pass.
        similarity_threshold: Least cosine, 0 to 1. While the embedder is down, the least share of
            the query's words.
    """

    time_range: TimeRange | None = None
    keywords: Collection[str] = ()
    topics: Collection[str] = ()
    sentiment: SentimentRange | None = None
    similarity_threshold: float = 0.0

    def __post_init__(self) -> None:
        for name, given in (("keywords", self.keywords), ("topics", self.topics)):
            if isinstance(given, str) or not isinstance(given, Collection):
                raise InvalidInput(
                    f"{name} must be a list of words, e.g. ['work'], got {shown(given)}"
                )
        known = topic_names() if self.topics else {}
        for topic in self.topics:
            if topic not in known:
                raise InvalidInput(
                    f"topic {topic!r} is not known: take one of {', '.join(sorted(known))}"
                )
        number(self.similarity_threshold, "similarity_threshold", 0, 1)
        if self.sentiment is not None:
            _check_sentiment(self.sentiment)

    def bounds(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return begin and end of the time range. Raises InvalidInput if they are reversed."""
        if self.time_range is None:
            return None, None
        if isinstance(self.time_range, str):
            return stretch(self.time_range, None, None, now)
        try:
            begin, end = self.time_range
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                "time_range must be words such as 'last week', or (begin, end), got"
                f" {shown(self.time_range)}"
            ) from error
        for name, moment in (("begin", begin), ("end", end)):
            if moment is not None:
                check_moment(moment, f"{name} of time_range")
        if begin is not None and end is not None and end <= begin:
            raise InvalidInput(
                f"time_range ends at {end.isoformat()}, before it begins at {begin.isoformat()}:"
                " pass (begin, end)"
            )
        return begin, end

    def admits(self, hit: Hit, about: TextFeatures) -> bool:
        """Return whether a hit meets all conditions except the time range."""
        if relevance_of(hit) < self.similarity_threshold:
            return False
        if self.sentiment is not None:
            low, high = self.sentiment
            if about.sentiment is None or not low <= about.sentiment <= high:
                return False
        names = topic_names()
        if self.topics and not {names[topic] for topic in self.topics} & {*about.topics}:
            return False
        terms = {*search_terms(hit.memory.text)} if self.keywords else set()
        return not self.keywords or any(
            {*search_terms(word)} <= terms for word in self.keywords if search_terms(word)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMemory:
    """A memory that was found. memory_type: "conversation", "profile", "event" or its kind.

    score ranks one answer. parts: each from 0 to 1, before weights.
    """

    memory: Memory
    memory_type: str
    score: float
    parts: Mapping[str, float]
    about: TextFeatures

    @property
    def text(self) -> str:
        """The text of the memory."""
        return self.memory.text


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundConversation:
    """A found conversation, with its best hits, best first."""

    conversation_id: str
    score: float
    hits: tuple[FoundMemory, ...] = field(default_factory=tuple)


class MemorySearcher:
    """Search over one scope: engine.profiles.searcher(scope)."""

    def __init__(self, scope: Scope, recall: Recall, clock: Clock) -> None:
        self.scope = scope
        self._recall = recall
        self._clock = clock

    async def search_conversations(
        self,
        query: str,
        limit: int = 10,
        time_range: TimeRange | None = None,
        similarity_threshold: float = 0.0,
        *,
        filters: Filters | None = None,
    ) -> list[FoundConversation]:
        """Return the conversations that match query, best first."""
        conditions = _with(filters or Filters(), time_range, similarity_threshold)
        hits = await self._recalled(query, _pool(limit), conditions, kinds=SPOKEN)
        by_thread: dict[str, list[FoundMemory]] = {}
        for hit in hits:
            if hit.memory.thread_id is not None:
                by_thread.setdefault(hit.memory.thread_id, []).append(hit)
        return [
            FoundConversation(
                conversation_id=thread_id, score=max(one.score for one in found), hits=tuple(found)
            )
            for thread_id, found in list(by_thread.items())[:limit]
        ]

    async def search_memories(
        self,
        query: str,
        memory_types: Collection[MemoryType] | None = None,
        limit: int = 10,
        *,
        filters: Filters | None = None,
    ) -> list[FoundMemory]:
        """Return the entries of profiles that match query, best first: "profile" and "event"."""
        types = _types(memory_types)
        _pool(limit)
        hits = await self._of_profiles(query, filters or Filters())
        return [hit for hit in hits if hit.memory_type in types][:limit]

    async def hybrid_search(
        self,
        query: str,
        weights: Mapping[ScorePart, float] | None = None,
        limit: int = 10,
        *,
        filters: Filters | None = None,
        diversity: float = DIVERSITY,
    ) -> list[FoundMemory]:
        """Return conversations, facts and profiles that match query, by a weighted sum, best first.

        Equal texts are returned once.

        Args:
            query: The text to match.
            weights: Weights of "semantic" (cosine), "keyword" (share of the query's words), "time"
                (e^(-days / 30)), "importance", "topic" (share of the query's topics) and
                "sentiment" (similarity of feeling). A missing one is 0; only proportions count.
            limit: Most results.
            filters: Conditions on the hits.
            diversity: Penalty, 0 to 1, for similarity to a better hit.
        """
        shares = _shares(weights)
        number(diversity, "diversity", 0, 1)
        pool = _pool(limit)
        subject = text_features(query) if isinstance(query, str) else text_features("")
        hits = [
            *await self._recalled(query, pool, filters or Filters()),
            *await self._of_profiles(query, filters or Filters()),
        ]
        now = self._clock()
        scored = [_weighed(hit, subject, shares, now) for hit in hits]
        scored.sort(key=lambda one: -one.score)
        once = {_words(one): one for one in reversed(scored)}
        best = sorted(once.values(), key=lambda one: -one.score)[: 2 * pool]
        words = [frozenset(search_terms(one.text)) for one in best]
        places = marginally_relevant([one.score for one in best], words, limit, diversity)
        return [best[place] for place in places]

    async def _of_profiles(self, query: str, filters: Filters) -> list[FoundMemory]:
        namespace = (self.scope.app, self.scope.user, PROFILE)
        return await self._recalled(query, ALL_OF_PROFILES, filters, namespace=namespace)

    async def _recalled(
        self,
        query: str,
        limit: int,
        filters: Filters,
        *,
        kinds: Sequence[MemoryKind] | None = None,
        namespace: tuple[str, ...] | None = None,
    ) -> list[FoundMemory]:
        now = self._clock()
        begin, end = filters.bounds(now)
        options = RecallOptions(
            now=now, limit=limit, kinds=kinds, namespace=namespace, distinct=True, begin=begin,
            end=end,
        )  # fmt: skip
        found = []
        for hit in await self._recall.find(self.scope, query, options, reranker=False):
            about = text_features(hit.memory.text)
            if filters.admits(hit, about):
                found.append(
                    FoundMemory(
                        memory=hit.memory, memory_type=_type_of(hit.memory), score=hit.score,
                        parts=hit.parts, about=about,
                    )
                )  # fmt: skip
        return found


def relevance_of(hit: Hit) -> float:
    """Return the cosine of a hit or, without vectors, its share of the query's words."""
    return hit.parts.get("similarity", hit.parts.get("coverage", 0.0))


def _weighed(
    hit: FoundMemory, subject: TextFeatures, shares: Mapping[str, float], now: datetime
) -> FoundMemory:
    days = max(0.0, (now - hit.memory.occurred_at).total_seconds() / 86_400)
    feels, felt = subject.sentiment, hit.about.sentiment
    parts: dict[str, float] = {
        "semantic": min(1.0, max(0.0, hit.parts.get("similarity", 0.0))),
        "keyword": min(1.0, max(0.0, hit.parts.get("coverage", 0.0))),
        "time": math.exp(-days / RECENCY_DAYS),
        "importance": (hit.memory.importance - 1) / 9,
        "topic": len({*subject.topics} & {*hit.about.topics}) / max(1, len(subject.topics)),
        "sentiment": 0.0 if feels is None or felt is None else 1 - abs(feels - felt) / 2,
    }
    score = sum(share * parts[name] for name, share in shares.items())
    return replace(hit, score=score, parts=parts)


def _words(found: FoundMemory) -> str:
    """Return the normalised text of a hit; of a quoted event, the bare quotation."""
    quoted = found.memory.value.get("text") if found.memory_type == "event" else None
    return normalised(quoted if isinstance(quoted, str) else found.text)


def _type_of(memory: Memory) -> str:
    if memory.namespace[2:3] == (PROFILE,):
        return str(memory.value.get("memory_type", "profile"))
    return "conversation" if memory.kind in SPOKEN else memory.kind


def _with(filters: Filters, time_range: TimeRange | None, threshold: float) -> Filters:
    time_range = filters.time_range if time_range is None else time_range
    threshold = threshold or filters.similarity_threshold
    return replace(filters, time_range=time_range, similarity_threshold=threshold)


def _types(given: Collection[MemoryType] | None) -> Collection[str]:
    known = get_args(MemoryType)
    if given is None:
        return known
    if isinstance(given, str) or not isinstance(given, Collection):
        raise InvalidInput(f"memory_types must be a list of {', '.join(known)}, got {shown(given)}")
    for one in given:
        if one not in known:
            raise InvalidInput(f"memory type {one!r} is not known: take {' or '.join(known)}")
    return given


def _shares(weights: Mapping[ScorePart, float] | None) -> Mapping[str, float]:
    """Return weights scaled to a sum of 1."""
    given: Mapping[ScorePart, float] = WEIGHTS if weights is None else weights
    known = get_args(ScorePart)
    for name, weight in given.items():
        if name not in known:
            raise InvalidInput(f"weight {name!r} is not known: take one of {', '.join(known)}")
        number(weight, f"the weight of {name!r}", 0)
    total = sum(given.values())
    if total <= 0:
        raise InvalidInput("all weights are 0: at least one must be greater")
    return {name: weight / total for name, weight in given.items()}


def _pool(limit: int) -> int:
    return max(LEAST_POOL, SPARE * whole_number(limit, "limit", 1, MAX_LIMIT))


def _check_sentiment(given: SentimentRange) -> None:
    pair = isinstance(given, Sequence) and len(given) == 2
    if not (pair and all(isinstance(one, int | float) for one in given)):
        raise InvalidInput(f"sentiment must be (least, most), e.g. (-1, 0), got {shown(given)}")
    if not -1 <= given[0] <= given[1] <= 1:
        raise InvalidInput(f"sentiment must be (least, most) from -1 to 1, got {shown(given)}")
