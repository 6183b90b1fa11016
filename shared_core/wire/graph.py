"""The answers about the knowledge graph."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel

from shared_core.wire.examples import with_example


class EdgeAnswer(BaseModel):
    """An edge of the knowledge graph."""

    edge_id: str
    source: str
    relation: str
    target: str
    confidence: float
    valid_from: AwareDatetime
    source_event_ids: list[str]


class RelationAnswer(BaseModel):
    """A relation between two entities."""

    source: str
    relation: str
    target: str
    hops: int
    confidence: float
    valid_from: AwareDatetime


class GraphEntityAnswer(BaseModel):
    """An entity, and its distance in relations from the entity that the request starts from."""

    name: str
    hops: int


class GraphMetadata(BaseModel):
    """Whether the graph has more relations than the request asked for."""

    has_more: bool


class GraphAnswer(BaseModel):
    """The current relations around an entity, nearest and newest first."""

    model_config = with_example(
        status="success",
        user_id="user_001",
        entities=[{"name": "小朱", "hops": 0}, {"name": "灿灿", "hops": 1}],
        relations=[
            {
                "source": "小朱",
                "relation": "女儿",
                "target": "灿灿",
                "hops": 1,
                "confidence": 1.0,
                "valid_from": "2026-01-22T10:00:00+00:00",
            }
        ],
        metadata={"has_more": False},
    )

    status: Literal["success"]
    user_id: str
    entities: list[GraphEntityAnswer]
    relations: list[RelationAnswer]
    metadata: GraphMetadata
