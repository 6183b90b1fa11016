from .formats import FileSource as FileSource, open_source as open_source
from .mem0 import Mem0Store as Mem0Store
from .records import (
    FactRecord as FactRecord,
    Record as Record,
    RecordSource as RecordSource,
    SkippedRecord as SkippedRecord,
    StatementRecord as StatementRecord,
    TurnRecord as TurnRecord,
)
