"""Recall: the request to a storage, its candidates, the reranker, and the result."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    overload,
    runtime_checkable,
)
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
from shared_core.core.shown import shown
from shared_core.core.timestamps import microseconds, moment_at
from shared_core.errors import InvalidInput
from shared_core.ports.graph import Edge

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]
    Numbers: TypeAlias = NDArray[np.float64]
    Flags: TypeAlias = NDArray[np.bool_]
    Places: TypeAlias = NDArray[np.intp]

T = TypeVar("T")
Voice: TypeAlias = tuple[str | None, Role | None]
"""Who says a memory: author and role."""

KINDS: Final[Sequence[MemoryKind]] = get_args(MemoryKind)
LOW_HALF: Final = (1 << 64) - 1
"""Mask of the lower half of an id."""

Ranking = Literal["linear", "fusion", "rrf", "vector", "bm25", "three_factor"]
"""The ways of ranking; shared_core.recall.ranking.rank describes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeFactor:
    """The three-factor score with custom weights (Park et al., 2023):

        relevance ** w1 * recency ** w2 * importance ** w3,    recency = e^(-days / recency_days)

    Each factor is 0 to 1. A weight of 0 removes its factor; all weights 1 is "three_factor".
    """

    relevance: float = 1.0
    recency: float = 1.0
    importance: float = 1.0
    recency_days: float = 30.0

    def __post_init__(self) -> None:
        for name in ("relevance", "recency", "importance", "recency_days"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InvalidInput(f"{name} must be a finite number from 0, got {shown(value)}")
        if self.recency_days == 0:
            raise InvalidInput("recency_days must be more than 0, got 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A query within a scope: memories below the namespace, by meaning and by words.

    vector: None without an embedder, or while it is down; then only words find memories.
    candidates: number per channel to fetch for ranking. filter: on values, as in ItemQuery.
    mentions: keys of entities whose edges are returned too. as_of: None for current memories.
    begin, end: restrict occurred_at, end exclusive; None for no bound. min_importance: 1 to 10; 0
    for all. may_be_resident: an index in this process may answer; the caller calls Recalled.fetch.
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
    may_be_resident: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A memory to rank. role: of the speaker, for a turn.

    ended: the share, 0 to 1, of facts derived from a turn, or from the turns of a summary, that no
    longer hold. is_doubtful: whether it is a doubtful fact. slot: of a fact ("employer"); "" for
    others. number: its index in the corpus. memory: builds the complete memory; it is lazy, because
    ranking drops about nine of ten candidates.
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
    is_doubtful: bool = False
    slot: str = ""


class CandidateTexts(Protocol):
    """The texts of K candidates, and their memories. An index may keep what is judged of a text."""

    def text(self, at: int) -> str:
        """Return the text of a candidate."""

    def memory(self, at: int) -> Memory:
        """Return the complete memory of a candidate."""

    def judged(self, judge: Callable[[str], bool], places: Places) -> Flags:
        """Return the judgement of the texts at these places. judge: a pure function of a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates(Sequence[Candidate]):
    """K memories to rank, as columns; the arrays have the shape (K,).

    numbers: indexes in the corpus. kinds: indexes in KINDS. speakers: indexes in voices, which are
    authors and roles. stated: indexes in slots. occurred: microseconds since EPOCH. high, low: the
    halves of the id. ended, doubtful: as in Candidate.
    """

    numbers: Places
    kinds: NDArray[np.int8]
    speakers: Places
    voices: Sequence[Voice]
    stated: Places
    slots: Sequence[str]
    occurred: NDArray[np.int64]
    high: NDArray[np.uint64]
    low: NDArray[np.uint64]
    ended: Numbers
    doubtful: Flags
    texts: CandidateTexts

    @classmethod
    def of(cls, rows: Sequence[Candidate]) -> Candidates:
        """Return the columns of these candidates."""
        import numpy as np

        codes: dict[Voice, int] = {}
        slots: dict[str, int] = {}
        return cls(
            numbers=np.array([one.number for one in rows], np.intp),
            kinds=np.array([KINDS.index(one.kind) for one in rows], np.int8),
            speakers=np.array(
                [codes.setdefault((one.author, one.role), len(codes)) for one in rows], np.intp
            ),
            voices=[*codes],
            stated=np.array([slots.setdefault(one.slot, len(slots)) for one in rows], np.intp),
            slots=[*slots],
            occurred=np.array([microseconds(one.occurred_at) for one in rows], np.int64),
            high=np.array([one.memory_id.int >> 64 for one in rows], np.uint64),
            low=np.array([one.memory_id.int & LOW_HALF for one in rows], np.uint64),
            ended=np.array([one.ended for one in rows], np.float64),
            doubtful=np.array([one.is_doubtful for one in rows], bool),
            texts=_ListedTexts(rows),
        )

    def memory_id(self, at: int) -> MemoryId:
        """Return the id of a candidate."""
        return MemoryId(UUID(int=int(self.high[at]) << 64 | int(self.low[at])))

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> Candidate: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Candidate]: ...
    def __getitem__(self, at: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        place = range(len(self))[at]
        author, role = self.voices[self.speakers[place]]
        return Candidate(
            memory_id=self.memory_id(place),
            kind=KINDS[self.kinds[place]],
            text=self.texts.text(place),
            author=author,
            role=role,
            occurred_at=moment_at(int(self.occurred[place])),
            number=int(self.numbers[place]),
            memory=partial(self.texts.memory, place),
            ended=float(self.ended[place]),
            is_doubtful=bool(self.doubtful[place]),
            slot=self.slots[self.stated[place]],
        )


@dataclass(frozen=True, slots=True)
class _ListedTexts:
    _rows: Sequence[Candidate]

    def text(self, at: int) -> str:
        return self._rows[at].text

    def memory(self, at: int) -> Memory:
        return self._rows[at].memory()

    def judged(self, judge: Callable[[str], bool], places: Places) -> Flags:
        import numpy as np

        return np.array([judge(self._rows[at].text) for at in places.tolist()], bool)


@dataclass(frozen=True, slots=True)
class _Computed:
    """Keeps what functions have made of a value."""

    _made: dict[Callable[..., Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def once(self, function: Callable[[Self], T]) -> T:
        """Return what a pure function makes of this value, computed once."""
        if function not in self._made:
            self._made[function] = function(self)
        found: T = self._made[function]
        return found


@dataclass(frozen=True, slots=True)
class TurnOrder(_Computed):
    """What is the same of N living memories for all queries, in order, turns by thread.

    length: (N,), number of words. opens: (N,), whether it opens a session; a memory that is no turn
    is a session of its own.
    """

    length: Numbers
    opens: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus(_Computed):
    """All N living memories of a query.

    similarity: (N,), cosine with the query, NaN without a vector. holders, words: (H,) each; memory
    holders[i] holds the word words[i] of the query. They are sorted by word, then by memory.
    terms: number of words of the query.
    """

    similarity: Numbers
    order: TurnOrder
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
        """Return the corpus of these sequences. Its first memory opens a session."""
        import numpy as np

        def array(values: Sequence[Any], kind: type) -> NDArray[Any]:
            return np.array(values, dtype=kind)

        begins = array(opens, bool)
        begins[:1] = True
        held, said = array(holders, np.intp), array(words, np.intp)
        order = np.lexsort((held, said))
        return cls(
            similarity=array(similarity, float),
            order=TurnOrder(array(length, float), begins),
            holders=held[order],
            words=said[order],
            terms=terms,
        )

    @property
    def length(self) -> Numbers:
        """Number of words of each memory, (N,)."""
        return self.order.length

    @property
    def opens(self) -> Flags:
        """Whether each memory opens a session, (N,)."""
        return self.order.opens


class AnswerOutdated(Exception):
    """Something changed since a storage answered from an index in the process: recall again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The answer of a storage: unordered candidates, and the corpus, or None if it is empty.

    edges: current edges of the mentioned entities, unordered.
    fetch: reads memories by their ids; call it before memory() of a candidate, and once before
    edges. It raises AnswerOutdated, and so may CandidateTexts. None if everything has been read.
    """

    candidates: Candidates | None = None
    corpus: Corpus | None = None
    edges: Sequence[Edge] = ()
    fetch: Callable[[Sequence[MemoryId]], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingQuery:
    """A query for ranking: its text, its distinct words, and its time.

    about_user: how far (0 to 1) it asks for something that is known to be told of users.
    pulled: how far the vector that was searched has moved towards what users tell of it.
    """

    text: str
    terms: Sequence[str]
    now: datetime
    about_user: float = 0.0
    pulled: float = 0.0


class RecallStorage(Protocol):
    """Candidates of recall."""

    async def recall(self, request: SearchRequest) -> Recalled:
        """Return candidates by meaning, by words and by neighbouring turns."""


Found: TypeAlias = Literal["vector_results", "graph_results", "merged"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecallResult(Sequence[Hit]):
    """The hits of one query, best first. As a sequence it behaves like its merged hits.

    Attributes:
        merged: ranked by meaning, words and context.
        vector_results: by meaning alone, nearest first, up to the limit; the score is the cosine
            similarity.
        graph_results: matching edges of the knowledge graph.
        degraded: the embedder was down, so only words found memories.
        reranked: the scores come from a reranker; False without one, or if it failed.
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
        """Return hits by index or slice, or the results with a name."""
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

    def to_dict(self, *, explain: bool = False) -> dict[Found, list[dict[str, JsonValue]]]:
        """Return the documented results by name, as a JSON object.

        explain: add the parts of each score.
        """
        return {
            "vector_results": [hit.to_dict(explain=explain) for hit in self.vector_results],
            "graph_results": [
                {name: _plain(value) for name, value in asdict(edge).items()}
                for edge in self.graph_results
            ],
            "merged": [hit.to_dict(explain=explain) for hit in self.merged],
        }


def _plain(value: JsonValue | UUID | datetime | tuple[str, ...]) -> JsonValue:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


@runtime_checkable
class Reranker(Protocol):
    """Scores texts against a query: slower than vectors, and more precise.

    A cross-encoder, a service, or a language model. It is awaited on the bridge's loop.
    """

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one finite score per text, in order; a higher score is a better match."""
