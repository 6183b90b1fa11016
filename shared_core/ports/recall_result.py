"""What recall answers: the ranked hits, and what each way of finding found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal, TypeAlias, overload
from uuid import UUID

from shared_core.core.domain import Hit, JsonValue
from shared_core.ports.graph import Edge

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
