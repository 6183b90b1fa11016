from .conversation.settings import ConversationSettings as ConversationSettings
from .conversation.standalone_statements import CoreferenceResolver as CoreferenceResolver
from .conversation.strategies import MemoryRecord as MemoryRecord, MemoryStrategy as MemoryStrategy
from .core.domain import (
    AsOf as AsOf,
    Event as Event,
    Hit as Hit,
    Memory as Memory,
    NewMemory as NewMemory,
    Scope as Scope,
)
from .core.event_loops import run_sync as run_sync
from .core.model_limits import ModelLimits as ModelLimits
from .core.namespaces import memories_namespace as memories_namespace
from .core.retention_policy import RetentionPolicy as RetentionPolicy
from .engine import MemoryEngine as MemoryEngine
from .errors import (
    AccessDenied as AccessDenied,
    BatchError as BatchError,
    CapabilityMissing as CapabilityMissing,
    Conflict as Conflict,
    EmbeddingMismatch as EmbeddingMismatch,
    ExtraMissing as ExtraMissing,
    InvalidInput as InvalidInput,
    MemoryCoreError as MemoryCoreError,
    ModelKeyRefused as ModelKeyRefused,
    ModelOutputInvalid as ModelOutputInvalid,
    ModelQuotaExceeded as ModelQuotaExceeded,
    ModelUnavailable as ModelUnavailable,
    NotFound as NotFound,
    PermissionDenied as PermissionDenied,
    SchemaOutOfDate as SchemaOutOfDate,
    ServerUnavailable as ServerUnavailable,
    StorageReadOnly as StorageReadOnly,
    StorageUnavailable as StorageUnavailable,
    TooManyRequests as TooManyRequests,
    UnexpectedAnswer as UnexpectedAnswer,
)
from .managers import (
    ConsolidationResult as ConsolidationResult,
    MemoryConsolidationWorker as MemoryConsolidationWorker,
    MemoryRetentionManager as MemoryRetentionManager,
    MemoryStats as MemoryStats,
    SessionConsolidator as SessionConsolidator,
    SessionManager as SessionManager,
)
from .memory_manager import (
    MemoryManager as MemoryManager,
    OceanBaseMemoryProvider as OceanBaseMemoryProvider,
)
from .models.embedders import CallableEmbedder as CallableEmbedder
from .models.language_model import FunctionModel as FunctionModel
from .open import open_memory as open_memory
from .ports.conversations import Session as Session, SessionStatus as SessionStatus
from .ports.graph import (
    Edge as Edge,
    Entity as Entity,
    GraphChange as GraphChange,
    Path as Path,
    Subgraph as Subgraph,
)
from .ports.jobs import (
    ExtractionStrategy as ExtractionStrategy,
    JobRecord as JobRecord,
    JobStatus as JobStatus,
    JobType as JobType,
)
from .ports.recall import RecallResult as RecallResult, Reranker as Reranker
from .ports.retention import Accesses as Accesses
from .ports.runs import Fact as Fact
from .recall.listing import UserSummary as UserSummary
from .recall.time_slices import TimeBucket as TimeBucket, TimeSlice as TimeSlice
from .retention.detail import MemoryDetail as MemoryDetail

__version__: str
