from .items import (
    Distance as Distance,
    FindItems as FindItems,
    Instruction as Instruction,
    Item as Item,
    ItemOp as ItemOp,
    ItemResult as ItemResult,
    NamespaceQuery as NamespaceQuery,
    ReadItem as ReadItem,
    Search as Search,
    WriteItem as WriteItem,
)
from .jobs import (
    ExtractionStrategy as ExtractionStrategy,
    Job as Job,
    JobRecord as JobRecord,
    JobStatus as JobStatus,
    JobType as JobType,
    check_delay as check_delay,
    checked_strategy as checked_strategy,
)
from .recall import Ranking as Ranking, Reranker as Reranker
from .session_logs import Seen as Seen, SessionRecord as SessionRecord, StateChange as StateChange
from .storage import Embedder as Embedder, Extractor as Extractor, Storage as Storage
