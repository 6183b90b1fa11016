"""What answers hold, for OpenAPI. The core's own values are sent; nothing is validated twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from shared_core.core.domain import MemoryKind
from shared_core.http.problems import MEDIA_TYPE

Score = Annotated[float, Field(description="It ranks the hits of one answer.")]
IsoTime = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


def shown(**values: Any) -> ConfigDict:
    """Return the settings of an answer with an example."""
    return ConfigDict(json_schema_extra={"examples": [values]})


class Keys(BaseModel):
    """The keys of what was remembered, in order."""

    model_config = shown(keys=["0193f6f2-c4d8-7e0f-9a7d-5e0c4b1a2f3e", "cats"])

    keys: list[str]


class NewEvents(BaseModel):
    """The ids of the turns that were not known yet."""

    model_config = shown(new=["1"])

    new: list[str]


class MemoryAnswer(BaseModel):
    """A memory."""

    memory_id: str
    key: str
    kind: MemoryKind
    text: str
    author: str | None
    importance: float
    occurred_at: IsoTime
    thread_id: str | None
    source_event_ids: list[str]


class HitAnswer(MemoryAnswer):
    """A memory that answers a question, and why."""

    valid_from: IsoTime | None
    score: Score
    parts: dict[str, float]
    matched: list[str]


class Memories(BaseModel):
    """A page of what is remembered, newest first."""

    memories: list[MemoryAnswer]


class Hits(BaseModel):
    """Hits, best first."""

    hits: list[HitAnswer]


class EdgeAnswer(BaseModel):
    """An edge of the knowledge graph."""

    edge_id: str
    source: str
    relation: str
    target: str
    confidence: float
    valid_from: IsoTime
    source_event_ids: list[str]


class RecallAnswer(Hits):
    """Hits, best first, and the edges that touch what the question names.

    degraded: the embedder was down, and words alone found this.
    """

    edges: list[EdgeAnswer]
    degraded: bool


class ContextAnswer(BaseModel):
    """The prompt, its cost, and each line of it."""

    model_config = ConfigDict(extra="allow")

    prompt: str
    tokens: int
    max_tokens: int


class Forgotten(BaseModel):
    """How many memories went."""

    model_config = shown(forgotten=2)

    forgotten: int


class Erased(BaseModel):
    """The receipt of an erasure.

    erased: how many memories went. counts: rows by table; of "tombstones" those that were left, so
    that what was erased does not come back; of "api_tokens" those that named the user.
    """

    model_config = shown(
        erased=120,
        erasure_id="0193f6f2-c4d8-7e0f-9a7d-5e0c4b1a2f3e",
        app="my_app",
        user_id="ana",
        thread_id=None,
        counts={"memories": 120, "events": 80, "tombstones": 80},
        requested_at="2026-01-22T10:00:00+00:00",
        completed_at="2026-01-22T10:00:00+00:00",
        receipt_hash="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    )

    erased: int
    erasure_id: str
    app: str
    user_id: str
    thread_id: str | None
    counts: dict[str, int]
    requested_at: IsoTime
    completed_at: IsoTime
    receipt_hash: str


class JobAnswer(BaseModel):
    """A job of the queue."""

    model_config = ConfigDict(extra="allow")

    job_id: str
    user_id: str
    thread_id: str | None
    job_type: str
    status: Literal["pending", "running", "completed", "failed", "cancelled"]
    attempts: int


class Jobs(BaseModel):
    """Jobs, newest first."""

    jobs: list[JobAnswer]


class Changed(BaseModel):
    """How many jobs were changed: 0 for one that is in another state."""

    model_config = shown(changed=1)

    changed: int


class Accepted(BaseModel):
    """The work is in the queue."""

    model_config = shown(status="accepted")

    status: Literal["accepted"]


class RelationAnswer(BaseModel):
    """A relation of two entities."""

    source: str
    relation: str
    target: str
    hops: int
    confidence: float
    valid_from: IsoTime


class GraphAnswer(BaseModel):
    """What is known around an entity: relations that hold, nearest and newest first."""

    model_config = shown(
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
    entities: list[dict[str, str | int]]
    relations: list[RelationAnswer]
    metadata: dict[str, bool]


class Health(BaseModel):
    """The server answers."""

    model_config = shown(status="ok", version="0.1.0")

    status: Literal["ok"]
    version: str


REASONS = {
    400: "The body cannot be read",
    401: "No valid token",
    403: "The token is for others",
    404: "There is no such thing",
    405: "Another method is wanted",
    409: "Somebody else changed it first",
    413: "The body is too long",
    415: "The body is no JSON",
    422: "A value cannot be used",
    429: "Too many requests of this token",
    500: "The server failed",
    501: "This server cannot do that",
    503: "The database or a model is away",
}
PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": reason, "content": PROBLEM} for status, reason in REASONS.items()
}


def answers(
    model: type[Any], status: int = 200, *, example: Mapping[str, Any] | None = None
) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI shall say of a route: its answer, and every problem."""
    described = (model.__doc__ or "").partition("\n")[0]
    told: dict[str, Any] = {"model": model, "description": described}
    if example is not None:
        told["content"] = {"application/json": {"example": example}}
    return {status: told, **PROBLEMS}
