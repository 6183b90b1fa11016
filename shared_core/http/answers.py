"""The answers of the routes for OpenAPI. The core's values are sent without validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from shared_core.conversation.answers import Debugging
from shared_core.core.domain import FactType, MemoryKind
from shared_core.core.retention_policy import Fate, Stage
from shared_core.http.problems import MEDIA_TYPE

Score = Annotated[float, Field(description="Rank within this answer alone; higher is better.")]
IsoTime = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Json(Response):
    """An answer that is encoded as JSON once, moments and ids as texts."""

    media_type = "application/json"

    def __init__(self, content: object, status: int = 200) -> None:
        super().__init__(orjson.dumps(content), status)


def with_example(**values: Any) -> ConfigDict:
    """Return the settings of an answer that has an example."""
    return ConfigDict(json_schema_extra={"examples": [values]})


class Keys(BaseModel):
    """The keys of the stored memories, in order."""

    model_config = with_example(keys=["0193f6f2-c4d8-7e0f-9a7d-5e0c4b1a2f3e", "cats"])

    keys: list[str]


class SetAsideTopic(BaseModel):
    """What was set aside about a topic, at the request of the user; it is erased at `until`."""

    topic: str
    memories: int
    facts: int
    edges: int
    run_id: str | None
    until: str | None


class NewEvents(BaseModel):
    """The ids of the turns that were not stored before.

    set_aside: what went because a turn of the user asked to forget a topic; `run_id` undoes it.
    """

    model_config = with_example(new=["1"], set_aside=[])

    new: list[str]
    set_aside: list[SetAsideTopic] = []


class MemoryAnswer(BaseModel):
    """A memory. doubted_at: since when it is a doubtful fact, which a turn may have ended."""

    memory_id: str
    key: str
    kind: MemoryKind
    text: str
    author: str | None
    importance: float
    occurred_at: IsoTime
    doubted_at: IsoTime | None
    thread_id: str | None
    source_event_ids: list[str]


class HitAnswer(MemoryAnswer):
    """A memory that answers a question, and the parts of its score."""

    valid_from: IsoTime | None
    score: Score
    parts: dict[str, float]
    matched: list[str]


class Memories(BaseModel):
    """A page of memories, newest first."""

    memories: list[MemoryAnswer]


class MemoryCount(BaseModel):
    """The number of memories."""

    model_config = with_example(count=120)

    count: int


class TimeBucketAnswer(BaseModel):
    """A part of a period, and its number of memories."""

    begin: IsoTime
    end: IsoTime
    count: int


class Timeline(BaseModel):
    """The memories of a period, with scores if there was a query. buckets: of the whole period."""

    begin: IsoTime | None
    end: IsoTime | None
    memories: list[HitAnswer | MemoryAnswer]
    buckets: list[TimeBucketAnswer]


class Hits(BaseModel):
    """Hits, best first."""

    hits: list[HitAnswer]


class CitedTurnAnswer(BaseModel):
    """A turn that explains a fact. text: null if it was forgotten."""

    thread_id: str
    event_id: str
    text: str | None
    author: str | None
    said_at: IsoTime | None


class FactReasonAnswer(BaseModel):
    """What states, doubts or ends a fact. fact_key: the fact that took its place."""

    turns: list[CitedTurnAnswer]
    extractor: str
    pattern: str
    run_id: str | None
    fact_key: str | None


class FactReasonsAnswer(BaseModel):
    """Why a fact is held."""

    stated: FactReasonAnswer
    doubted: FactReasonAnswer | None
    ended: FactReasonAnswer | None


class FactAnswer(BaseModel):
    """A fact. is_doubtful: a turn may have ended it. why: only if asked for."""

    key: str
    slot: str
    value: str
    statement: str
    fact_type: FactType
    confidence: float
    extractor: str
    pattern: str
    valid_from: IsoTime
    valid_until: IsoTime | None
    recorded_at: IsoTime | None
    superseded_at: IsoTime | None
    doubted_at: IsoTime | None
    is_doubtful: bool
    thread_id: str | None
    source_event_ids: list[str]
    why: FactReasonsAnswer | None = None


class MemoryDetailAnswer(MemoryAnswer):
    """A memory with its provenance, its retention, and what was derived from it.

    fact: null unless it states a fact. score: its retention score, 0 to 1. bases: the memories that
    a reflection was drawn from.
    """

    created_at: IsoTime
    updated_at: IsoTime
    expires_at: IsoTime | None
    superseded_at: IsoTime | None
    is_current: bool
    value: dict[str, Any]
    turns: list[CitedTurnAnswer]
    fact: FactAnswer | None
    models: list[str]
    stage: Stage
    is_pinned: bool
    score: float
    leaves_stage_at: IsoTime | None
    access_count: int
    last_accessed_at: IsoTime | None
    bases: list[MemoryAnswer]
    derived: list[MemoryAnswer]


class UserAnswer(BaseModel):
    """A user with memories. newest_at: when the newest memory occurred, faded ones too."""

    app: str
    user_id: str
    memories: int
    newest_at: IsoTime


class ListedUsers(BaseModel):
    """A page of users, by application and user."""

    users: list[UserAnswer]


class Applications(BaseModel):
    """The names of applications."""

    model_config = with_example(applications=["my_app"])

    applications: list[str]


class RunAnswer(BaseModel):
    """A run. counts: its changes and its model usage. undone_at: null unless it was undone."""

    run_id: str
    kind: str
    thread_id: str | None
    extractor: str
    counts: dict[str, Any]
    started_at: IsoTime
    finished_at: IsoTime
    undone_at: IsoTime | None


class ListedRuns(BaseModel):
    """Runs, newest first."""

    runs: list[RunAnswer]


class Undone(BaseModel):
    """The run is undone."""

    undone: str


class KeptAnswer(BaseModel):
    """A memory and its stage. leaves_stage_at: null for never."""

    memory_id: str
    key: str
    kind: MemoryKind
    text: str
    stage: Stage
    staged_at: IsoTime | None
    is_pinned: bool
    importance: float
    access_count: int
    last_accessed_at: IsoTime | None
    created_at: IsoTime
    leaves_stage_at: IsoTime | None


class FadedMemories(BaseModel):
    """A page of faded memories, latest first."""

    memories: list[KeptAnswer]


class ChangedMemories(BaseModel):
    """The number of memories changed, and the keys that match no memory."""

    model_config = with_example(changed=1, unknown=[])

    changed: int
    unknown: list[str]


class KindStatsAnswer(BaseModel):
    """Statistics of a kind of memory. buckets: number of memories by tenth of the score."""

    count: int
    fades: int
    pinned: int
    stages: dict[Stage, int]
    buckets: list[int]
    average_score: float | None


class RetentionStatsAnswer(KindStatsAnswer):
    """Retention statistics of all kinds and of each kind.

    high, medium, low: number of memories that score 0.7 or more, 0.3 or more, less. ahead: by
    number of days, how many memories meet each fate if nobody reads them.
    """

    as_of: IsoTime
    high: int
    medium: int
    low: int
    kinds: dict[MemoryKind, KindStatsAnswer]
    ahead: dict[str, dict[Fate, int]]


class PolicyAnswer(BaseModel):
    """How a kind of memory fades."""

    decay_rate: float
    threshold: float
    min_age_days: float
    archive_threshold: float | None
    archive_after_days: float
    erase_threshold: float | None
    erase_after_days: float
    with_history: bool


class RetentionPolicies(BaseModel):
    """The policy of each kind of memory; null for a kind that never fades."""

    policy: dict[MemoryKind, PolicyAnswer | None]


class RetentionPolicySet(RetentionPolicies):
    """The policy that holds now. retimed: number of memories with a new time to fade."""

    retimed: int


class ListedFacts(BaseModel):
    """The facts of a user, current ones first."""

    facts: list[FactAnswer]


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
    """Hits, best first, and the edges of the entities that the question names.

    degraded: the embedder was down, so the hits match by words alone.
    """

    edges: list[EdgeAnswer]
    degraded: bool


class ContextAnswer(BaseModel):
    """The prompt, its cost in tokens, and each of its lines."""

    model_config = ConfigDict(extra="allow")

    prompt: str
    tokens: int
    max_tokens: int


class Forgotten(BaseModel):
    """The number of memories removed."""

    model_config = with_example(forgotten=2)

    forgotten: int


class Receipt(BaseModel):
    """The receipt of an erasure, without any erased text.

    counts: erased rows by table, except for "tombstones" (rows written so that erased data does not
    come back) and "api_tokens" (tokens that named the user).
    """

    erasure_id: str
    app: str
    user_id: str
    thread_id: str | None
    counts: dict[str, int]
    requested_at: IsoTime
    completed_at: IsoTime
    receipt_hash: str


class ListedReceipt(Receipt):
    """A receipt. is_intact: whether its hash matches its other fields."""

    is_intact: bool


class Erased(Receipt):
    """The receipt of an erasure. erased: the number of memories."""

    model_config = with_example(
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


class Receipts(BaseModel):
    """The receipts of erasures, newest first."""

    receipts: list[ListedReceipt]


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
    """The number of jobs changed: 0 if the job is in another state."""

    model_config = with_example(changed=1)

    changed: int


class Accepted(BaseModel):
    """The job is in the queue."""

    model_config = with_example(status="accepted")

    status: Literal["accepted"]


class RelationAnswer(BaseModel):
    """A relation between two entities."""

    source: str
    relation: str
    target: str
    hops: int
    confidence: float
    valid_from: IsoTime


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
    entities: list[dict[str, str | int]]
    relations: list[RelationAnswer]
    metadata: dict[str, bool]


class FindingAnswer(BaseModel):
    """A conclusion about a mind, and the quotes that support it."""

    dimension: Literal["intent", "emotion", "cognition", "social", "trend"]
    label: str
    text: str
    confidence: float
    quotes: list[str]


class ProfileAnswer(BaseModel):
    """A profile: who a person is, what happened, what may be concluded, and relations."""

    model_config = with_example(
        memory_id="01a203be-a115-7f64-a609-b16e78749acf",
        agent_id="my_app",
        subject="user",
        version=1,
        created_at="2026-03-02T09:00:00+00:00",
        updated_at="2026-03-02T09:00:00+00:00",
        content_hash="9f2c",
        profile="User lives in Leeds.",
        events=['On 2026-03-02 the user said: "I live in Leeds. I want to learn Rust."'],
        findings=[
            {
                "dimension": "intent",
                "label": "goal",
                "text": 'goal: "I want to learn Rust."',
                "confidence": 0.6,
                "quotes": ["I want to learn Rust."],
            }
        ],
        relations=[],
        prompt="## User profile\nUser lives in Leeds.",
    )

    memory_id: str
    agent_id: str
    subject: Literal["user", "agent"]
    version: int
    created_at: IsoTime
    updated_at: IsoTime
    content_hash: str
    profile: str
    events: list[str]
    findings: list[FindingAnswer]
    relations: list[dict[str, Any]]
    prompt: str


class ProfileUpdated(BaseModel):
    """The profile after a conversation, and the counts of each stage."""

    model_config = ConfigDict(extra="allow")

    changed: bool
    previous_version: int
    run_id: str
    conversation_id: str
    new_turns: int
    profile: ProfileAnswer


class ProfileVersionAnswer(BaseModel):
    """A version. revision: how often other turns repeated its content."""

    version: int
    revision: int
    content_hash: str
    run_id: str | None
    created_at: IsoTime


class ProfileVersions(BaseModel):
    """The stored versions, newest first."""

    versions: list[ProfileVersionAnswer]


class ProfileDiffAnswer(BaseModel):
    """The changes from one version to another."""

    model_config = with_example(
        from_version=1,
        to_version=2,
        added=["User lives in Lisbon."],
        removed=["User lives in Leeds."],
        added_events=[],
        removed_events=[],
        added_findings=[],
        removed_findings=[],
    )

    from_version: int
    to_version: int
    added: list[str]
    removed: list[str]
    added_events: list[str]
    removed_events: list[str]
    added_findings: list[str]
    removed_findings: list[str]


class DebugAnswer(Debugging):
    """What a message would find, with the parts of each score, and the session."""

    hits: list[HitAnswer]


PROCESSED: Final[dict[str, Any]] = {
    "status": "success",
    "resolved_query": "你喜欢吃桔子吗？",
    "memories": [{"content": "我喜欢吃桔子", "score": 0.87}],
    "relations": [{"source": "小朱", "relation": "喜欢", "target": "桔子"}],
    "metadata": {"retrieval_time_ms": 45, "has_memory": True},
}
ENDED: Final[dict[str, Any]] = {
    "status": "success",
    "message": "Session ending, consolidation started",
    "session_info": {
        "event_count": 10,
        "duration_seconds": 1500,
        "created_at": "2026-01-22T10:00:00Z",
        "ended_at": "2026-01-22T10:25:00Z",
    },
}
STATUS: Final[dict[str, Any]] = {
    "status": "success",
    "has_active_session": True,
    "session_info": {
        "event_count": 5,
        "created_at": "2026-01-22T10:00:00Z",
        "last_active_at": "2026-01-22T10:25:00Z",
        "time_until_timeout_seconds": 300,
    },
}


class Health(BaseModel):
    """The server answers."""

    model_config = with_example(status="ok", version="0.1.0")

    status: Literal["ok"]
    version: str


REASONS = {
    400: "The body cannot be read",
    401: "A valid token is missing",
    403: "The token is for another user or application",
    404: "It does not exist",
    405: "The path has other methods",
    409: "Another request changed it first",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "A value is invalid",
    429: "The token sends too many requests",
    500: "The server failed",
    501: "The server does not support it",
    503: "The database or a model is unavailable",
}
PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": reason, "content": PROBLEM} for status, reason in REASONS.items()
}


def responses(
    model: type[Any], status: int = 200, *, example: Mapping[str, Any] | None = None
) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route for OpenAPI: its answer, and every problem."""
    described = (model.__doc__ or "").partition("\n")[0]
    answer: dict[str, Any] = {"model": model, "description": described}
    if example is not None:
        answer["content"] = {"application/json": {"example": example}}
    return {status: answer, **PROBLEMS}
