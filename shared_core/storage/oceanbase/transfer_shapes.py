"""What the tables look like on PostgreSQL: the shape of the rows of an export."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from shared_core.core.domain import MemoryKind
from shared_core.ports.jobs import JobStatus, JobType

Type = Literal[
    "text", "uuid", "int", "bool", "real", "double", "moment", "json", "raw", "bytes", "texts",
    "terms", "vector",
]  # fmt: skip
"""json is jsonb there, raw is json; terms is a tsvector, texts an array, vector a halfvec."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. default: of rows that do not name it, as JSON text; None for none."""

    name: str
    type: Type
    nullable: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a table in their order, and those of its primary key."""

    columns: Mapping[str, Column]
    key: tuple[str, ...]

    @property
    def selected(self) -> str:
        """The columns as they are named in a statement."""
        return names(self.columns)


@dataclass(frozen=True, slots=True)
class Unique:
    """Columns that no two rows share, of those rows for which the condition holds.

    condition: SQL; holds: the same of a row as it is stored.
    """

    columns: tuple[str, ...]
    condition: str = "TRUE"
    holds: Callable[[Mapping[str, Any]], bool] = lambda row: True


def names(columns: Mapping[str, object] | tuple[str, ...]) -> str:
    """Return columns as they are named in a statement."""
    return ", ".join(f"`{name}`" for name in columns)


def _shape(key: str, columns: str) -> Shape:
    """Return a shape. Columns are NAME:TYPE, with "?" where they may be null, "=" a default."""
    found = {}
    for part in columns.split():
        head, _, default = part.partition("=")
        name, _, kind = head.partition(":")
        nullable = kind.endswith("?")
        found[name] = Column(name, cast("Type", kind.rstrip("?")), nullable, default or None)
    return Shape(found, tuple(key.split()))


NOW: Final = "now()"
"""The default of a moment: when the row is written."""

SHAPES: Final[Mapping[str, Shape]] = {
    "threads": _shape(
        "tenant_id thread_id",
        "tenant_id:text thread_id:text state:json={} version:int=1 last_seq:int=0"
        " consolidated_seq:int=0 created_at:moment updated_at:moment last_memory_seq:int=0"
        " session_started_at:moment? session_updated_at:moment? last_event_id:text?"
        " summarised_seq:int=0 unread_bytes:int=0",
    ),
    "conversations": _shape(
        "tenant_id thread_id",
        'tenant_id:text thread_id:text status:text="active" event_count:int=0 created_at:moment'
        " last_active_at:moment ends_at:moment ended_at:moment?",
    ),
    "events": _shape(
        "tenant_id thread_id seq",
        "tenant_id:text thread_id:text seq:int event_id:text author:text role:text text:text"
        " metadata:json={} occurred_at:moment recorded_at:moment memory_seq:int?"
        " importance:real=5 expires_at:moment? payload:raw?",
    ),
    "tombstones": _shape(
        "tenant_id thread_id event_id",
        "tenant_id:text thread_id:text event_id:text deleted_at:moment",
    ),
    "shared_state": _shape("tenant_id", "tenant_id:text state:json updated_at:moment"),
    "memories": _shape(
        "tenant_id memory_id",
        "tenant_id:text memory_id:uuid namespace:text key:text kind:text text:text value:json"
        " terms:terms term_count:int author:text? importance:real=5 thread_id:text? run_id:uuid?"
        " occurred_at:moment created_at:moment updated_at:moment expires_at:moment? ttl_s:double?"
        " superseded_at:moment? words_key:uuid? demoted_at:moment? role:text?",
    ),
    "memory_sources": _shape(
        "tenant_id memory_id basis thread_id event_id",
        "tenant_id:text memory_id:uuid thread_id:text event_id:text basis:int=0",
    ),
    "memory_bases": _shape(
        "tenant_id memory_id basis_id", "tenant_id:text memory_id:uuid basis_id:uuid"
    ),
    "memory_access": _shape(
        "tenant_id memory_id",
        "tenant_id:text memory_id:uuid access_count:int=0 last_accessed_at:moment?"
        " forget_at:moment? stage:int=0 staged_at:moment? pinned_at:moment? strength:double?",
    ),
    "memory_archive": _shape(
        "tenant_id memory_id",
        "tenant_id:text memory_id:uuid text:text value:json is_shown:bool words_key:uuid?"
        " archived_at:moment keeps_words:bool=false",
    ),
    "facts": _shape(
        "tenant_id memory_id",
        "tenant_id:text memory_id:uuid fact_type:text slot:text key:text value:json"
        " functional:bool confidence:real extractor:text pattern:text valid_from:moment"
        " valid_until:moment? recorded_at:moment superseded_at:moment?",
    ),
    "fact_closures": _shape(
        "tenant_id memory_id run_id",
        "tenant_id:text memory_id:uuid closed_at:moment restored_at:moment valid_until:moment"
        " run_id:uuid",
    ),
    "edges": _shape(
        "tenant_id edge_id",
        "tenant_id:text edge_id:uuid memory_id:uuid? subject:text relation:text object:text"
        " functional:bool=false confidence:real=1 valid_from:moment valid_until:moment?"
        ' recorded_at:moment superseded_at:moment? subject_key:text="" object_key:text=""'
        " run_id:uuid? fact_id:uuid?",
    ),
    "edge_sources": _shape(
        "tenant_id edge_id basis thread_id event_id",
        "tenant_id:text edge_id:uuid basis:int=0 thread_id:text event_id:text",
    ),
    "entity_aliases": _shape(
        "tenant_id alias_id",
        "tenant_id:text alias_id:uuid alias_key:text alias:text entity_key:text entity:text"
        " merged_at:moment unmerged_at:moment?",
    ),
    "instructions": _shape(
        "tenant_id instruction_key version",
        "tenant_id:text instruction_key:text version:int content:text metadata:json={}"
        " created_at:moment",
    ),
    "profiles": _shape(
        "tenant_id subject_kind subject_id version",
        "tenant_id:text subject_kind:text subject_id:text version:int content_hash:bytes"
        " run_id:uuid? created_at:moment memory_id:uuid entries:json=[] event_limit:int=50"
        f" began_at:moment={NOW} revision:int=0",
    ),
    "runs": _shape(
        "tenant_id run_id",
        "tenant_id:text run_id:uuid kind:text thread_id:text? extractor:text from_seq:int?"
        " to_seq:int? counts:json={} started_at:moment finished_at:moment undone_at:moment?"
        " summed_from_seq:int? summed_to_seq:int? number:int=0",
    ),
    "run_changes": _shape(
        "tenant_id run_id change target event_id",
        'tenant_id:text run_id:uuid change:text target:uuid event_id:text="" before:json={}',
    ),
    "retractions": _shape(
        "tenant_id retraction_id",
        "tenant_id:text retraction_id:uuid run_id:uuid fact_type:text slot:text subject_key:text"
        " value:text said_at:moment valid_until:moment? thread_id:text event_ids:texts",
    ),
    "pipeline_log": _shape(
        "tenant_id run_id step",
        "tenant_id:text run_id:uuid step:int stage:text output:json={} error:text?"
        ' started_at:moment duration_s:double status:text="success" input:json={}'
        " memory_id:uuid? thread_id:text?",
    ),
    "extraction_counts": _shape("tenant_id", "tenant_id:text extractions:int"),
    "erasures": _shape(
        "tenant_id erasure_id",
        "tenant_id:text erasure_id:uuid target:json counts:json receipt_hash:bytes"
        " requested_at:moment completed_at:moment",
    ),
    "import_marks": _shape(
        "tenant_id address_hash",
        "tenant_id:text address_hash:bytes updated_at:moment deleted_at:moment?",
    ),
    "retention_policies": _shape(
        "tenant_id kind",
        "tenant_id:text kind:text fades:bool decay_rate:double threshold:double"
        " min_age_days:double archive_threshold:double? archive_after_days:double"
        " erase_threshold:double? erase_after_days:double with_history:bool updated_at:moment",
    ),
    "embeddings": _shape(
        "tenant_id model memory_id field",
        "tenant_id:text model:text memory_id:uuid field:text embedding:vector",
    ),
    "consolidation_jobs": _shape(
        "tenant_id job_id",
        'tenant_id:text job_id:uuid thread_id:text? job_type:text status:text="pending"'
        " priority:int=0 attempts:int=0 run_after:moment worker_id:text? lease_until:moment?"
        " result:json={} error:text? created_at:moment started_at:moment? completed_at:moment?"
        " payload:json? performer:text?",
    ),
}

_CURRENT = "valid_until IS NULL AND superseded_at IS NULL"


def _is_current(row: Mapping[str, Any]) -> bool:
    return row["valid_until"] is None and row["superseded_at"] is None


UNIQUE: Final[Mapping[str, tuple[Unique, ...]]] = {
    "events": (Unique(("tenant_id", "thread_id", "event_id")),),
    "memories": (Unique(("tenant_id", "namespace", "key")),),
    "facts": (Unique(("tenant_id", "fact_type", "key"), _CURRENT, _is_current),),
    "edges": (
        Unique(("tenant_id", "subject_key", "relation", "object_key"), _CURRENT, _is_current),
        Unique(
            ("tenant_id", "subject_key", "relation"),
            f"functional = 1 AND {_CURRENT}",
            lambda row: bool(row["functional"]) and _is_current(row),
        ),
    ),
    "entity_aliases": (
        Unique(
            ("tenant_id", "alias_key"),
            "unmerged_at IS NULL",
            lambda row: row["unmerged_at"] is None,
        ),
    ),
    "profiles": (Unique(("tenant_id", "memory_id", "version")),),
    "conversations": (
        Unique(("tenant_id",), "status = 'active'", lambda row: row["status"] == "active"),
    ),
    "consolidation_jobs": (
        Unique(
            ("tenant_id", "thread_id", "job_type", "performer"),
            "status = 'pending'",
            lambda row: row["status"] == "pending",
        ),
        Unique(
            ("tenant_id", "thread_id"),
            "status = 'running'",
            lambda row: row["status"] == "running",
        ),
    ),
}
"""What PostgreSQL has unique indexes for, besides the keys."""

_KINDS: Final = frozenset(get_args(MemoryKind))
CHOICES: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("events", "role"): frozenset({"user", "agent", "tool", "system"}),
    ("memories", "kind"): _KINDS,
    ("facts", "fact_type"): frozenset({"preference", "rule", "profile", "custom"}),
    ("profiles", "subject_kind"): frozenset({"user", "agent"}),
    ("conversations", "status"): frozenset({"active", "ending", "ended"}),
    ("consolidation_jobs", "status"): frozenset(map(str, JobStatus)),
    ("consolidation_jobs", "job_type"): frozenset(map(str, JobType)),
    ("run_changes", "change"): frozenset(
        {"closed", "retired", "sourced", "renewed", "rated", "summary", "edge", "bounded", "moved"}
    ),
    ("pipeline_log", "status"): frozenset({"success", "warning", "error"}),
    ("retention_policies", "kind"): _KINDS,
}
"""What a column may hold; PostgreSQL checks it by itself."""

RANGES: Final[Mapping[tuple[str, str], tuple[float, float]]] = {
    ("events", "importance"): (1, 10),
    ("memories", "importance"): (1, 10),
    ("facts", "confidence"): (0, 1),
    ("edges", "confidence"): (0, 1),
    ("memory_access", "stage"): (0, 2),
    ("memory_access", "strength"): (0, 1),
    ("retention_policies", "decay_rate"): (0, 1.7e308),
    ("retention_policies", "threshold"): (0, 1),
    ("retention_policies", "archive_threshold"): (0, 1),
    ("retention_policies", "erase_threshold"): (0, 1),
    ("retention_policies", "min_age_days"): (0, 1.7e308),
    ("retention_policies", "archive_after_days"): (0, 1.7e308),
    ("retention_policies", "erase_after_days"): (0, 1.7e308),
}
