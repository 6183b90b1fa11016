"""Recall: the request to a storage, its candidates, the reranker, and the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, overload, runtime_checkable
from uuid import UUID

from shared_core.core.domain import (
    AsOf,
    Hit,
    JsonValue,
    Memory,
    MemoryId,
    MemoryKind,
    Namespace,
    Role,
    Scope,
)
from shared_core.errors import InvalidInput
from shared_core.ports.graph import Edge

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]
    Numbers: TypeAlias = NDArray[np.float64]
    Flags: TypeAlias = NDArray[np.bool_]
    Places: TypeAlias = NDArray[np.intp]


Ranking = Literal["linear", "fusion", "rrf", "vector", "bm25", "three_factor"]
"""How candidates are ranked; shared_core.recall.ranking.rank says what each is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeFactor:
    """The three-factor score with weights of one's own (Park et al., 2023):

        relevance ** w1 * recency ** w2 * importance ** w3,    recency = e^(-days / recency_days)

    each factor 0 to 1. A weight of 0 leaves its factor out; all 1 is "three_factor".
    """

    relevance: float = 1.0
    recency: float = 1.0
    importance: float = 1.0
    recency_days: float = 30.0

    def __post_init__(self) -> None:
        for name in ("relevance", "recency", "importance", "recency_days"):
            given = getattr(self, name)
            if not isinstance(given, int | float) or not 0 <= given < math.inf:
                raise InvalidInput(f"{name} must be a finite number from 0, not {given!r}")
        if self.recency_days == 0:
            raise InvalidInput("recency_days must be more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """One question to one scope: what is below the namespace, by meaning and by words.

    vector is None when there is no embedder or it is down: then words alone find.
    candidates: how many of each channel are fetched for ranking. filter: on values, as of items.
    mentions: keys of entities; the edges of the graph that touch one come along. as_of: None for
    what is current. begin, end: only what occurred from one to before the other; None for no bound.
    min_importance: only what is at least so important, 1 to 10; 0 for all.
    """

    scope: Scope
    namespace: Namespace
    terms: Sequence[str]
    model: str | None
    vector: Vectors | None
    kinds: Sequence[MemoryKind] | None
    candidates: int
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    mentions: Sequence[str] = ()
    as_of: AsOf | None = None
    begin: datetime | None = None
    end: datetime | None = None
    min_importance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A memory that may answer, and for a turn the role of who said it.

    ended: of the facts drawn from a turn, or from the turns of a summary, the share that holds no
    longer, 0 to 1.
    number: its place in the corpus. Ranking looks at ten candidates for every one it returns, so
    it gets of each what it looks at; memory() builds the whole.
    """

    memory_id: MemoryId
    kind: MemoryKind
    text: str
    author: str | None
    occurred_at: datetime
    number: int
    memory: Callable[[], Memory]
    role: Role | None = None
    ended: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What was asked, whole: N living memories in order, turns by thread, as arrays.

    similarity: (N,), cosine with the query, NaN without a vector. length: (N,), words of each.
    opens: (N,), whether it is the first of its session; what is no turn is a session of its own.
    holders and words: (H,) each, that memory holders[i] holds the word words[i] of the query.
    terms: how many words the query has.
    """

    similarity: Numbers
    length: Numbers
    opens: Flags
    holders: Places
    words: Places
    terms: int

    @classmethod
    def of(
        cls,
        *,
        similarity: Sequence[float | None],
        length: Sequence[int],
        opens: Sequence[bool],
        holders: Sequence[int],
        words: Sequence[int],
        terms: int,
    ) -> Corpus:
        """Return the corpus of these sequences. What is first in it opens a session."""
        import numpy as np

        def array(values: Sequence[Any], kind: type) -> NDArray[Any]:
            return np.array(values, dtype=kind)

        begins = array(opens, bool)
        begins[:1] = True
        return cls(
            similarity=array(similarity, float),
            length=array(length, float),
            opens=begins,
            holders=array(holders, np.intp),
            words=array(words, np.intp),
            terms=terms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What a storage found: candidates in no order, and the corpus; None where nothing lives.

    edges: those that hold and touch what the query mentions, in no order.
    """

    candidates: Sequence[Candidate] = ()
    corpus: Corpus | None = None
    edges: Sequence[Edge] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingQuery:
    """A query as ranking sees it: its text, its words, each once, and when it was asked."""

    text: str
    terms: Sequence[str]
    now: datetime


class RecallStorage(Protocol):
    """Candidates of recall."""

    async def recall(self, request: SearchRequest) -> Recalled:
        """Return what may answer, by meaning, by words and by the turns around."""


Found: TypeAlias = Literal["vector_results", "graph_results", "merged"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecallResult(Sequence[Hit]):
    """The hits of one question, best first; as a sequence it is merged, and equals it as a list.

    merged: by meaning, by words and by what stands around, ranked. vector_results: by meaning
    alone, nearest first, at most as many as asked for; the score of each is its cosine similarity.
    graph_results: edges of the knowledge graph that fit. degraded: the embedder was down, so words
    alone found. reranked: a reranker gave the scores; False without one, or when it failed.
    """

    merged: tuple[Hit, ...] = ()
    vector_results: tuple[Hit, ...] = ()
    graph_results: Sequence[Edge] = ()
    degraded: bool = False
    reranked: bool = False

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> list[Hit]: ...
    @overload
    def __getitem__(self, at: Literal["merged", "vector_results"]) -> tuple[Hit, ...]: ...
    @overload
    def __getitem__(self, at: Literal["graph_results"]) -> Sequence[Edge]: ...
    def __getitem__(self, at: int | slice | Found) -> Hit | Sequence[Hit] | Sequence[Edge]:
        """Return a hit or some by place, or the results of one name."""
        if isinstance(at, slice):
            return list(self.merged[at])
        if isinstance(at, int):
            return self.merged[at]
        if at not in ("vector_results", "graph_results", "merged"):
            raise KeyError(at)
        results: Sequence[Hit] | Sequence[Edge] = getattr(self, at)
        return results

    def __len__(self) -> int:
        return len(self.merged)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RecallResult):
            return self.merged == other.merged
        return isinstance(other, list | tuple) and list(self.merged) == list(other)

    def to_dict(self) -> dict[Found, list[dict[str, JsonValue]]]:
        """Return the documented results by name, as what can be written as JSON."""
        return {
            "vector_results": [hit.to_dict() for hit in self.vector_results],
            "graph_results": [
                {name: _plain(value) for name, value in asdict(edge).items()}
                for edge in self.graph_results
            ],
            "merged": [hit.to_dict() for hit in self.merged],
        }


def _plain(value: JsonValue | UUID | datetime | tuple[str, ...]) -> JsonValue:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


@runtime_checkable
class Reranker(Protocol):
    """Reads a query and each text together: slower than vectors, and nearer to the mark.

    A cross-encoder, a service, or a language model. It is awaited on the bridge's one loop.
    """

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one finite score for each text, in their order; larger fits better."""
