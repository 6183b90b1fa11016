from .extraction_strategy import (
    ExtractionStrategy as ExtractionStrategy,
    check_delay as check_delay,
)
from .instructions import Instruction as Instruction
from .item_operations import (
    FindItems as FindItems,
    ItemOp as ItemOp,
    ItemResult as ItemResult,
    ReadItem as ReadItem,
    Search as Search,
    WriteItem as WriteItem,
)
from .items import Item as Item, NamespaceQuery as NamespaceQuery
from .jobs import Job as Job, JobRecord as JobRecord, JobStatus as JobStatus, JobType as JobType
from .reranker import Reranker as Reranker
from .session_logs import Seen as Seen, SessionRecord as SessionRecord, StateChange as StateChange
from .storage import Embedder as Embedder, Extractor as Extractor, Storage as Storage
